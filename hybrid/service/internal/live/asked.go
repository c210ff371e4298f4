package live

import (
	"context"
	"maps"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/register"
)

// A Register keeps when rules were asked for, as register.Register does. Its methods return when
// ctx ends.
type Register interface {
	Load(ctx context.Context) (map[register.ID]register.Rule, error)
	Save(ctx context.Context, changed map[register.ID]register.Rule, gone []register.ID) error
}

// An asking is when each rule in force was first known and last asked for.
type asking struct {
	register Register // nil: it is in memory alone
	loaded   bool
	failing  bool
	rules    map[register.ID]register.Rule
	ours     map[register.ID]bool // rules that were in force here; others may be in force elsewhere
	leaving  map[register.ID]bool // those that had gone when this was noted last
	unsaved  map[register.ID]bool // of which the register has something else (TestRegisterFails)
}

const (
	// noteEvery is how often rules are noted, and noteAfter how much later a rule must have been
	// asked for than is known, so that a busy one is written once in an hour.
	noteEvery = 10 * time.Minute
	noteAfter = time.Hour

	// idleAfter is when a rule that nobody asks for needs a look.
	idleAfter = 7 * 24 * time.Hour

	// strangeAfter is when a rule is forgotten that was never in force here, if nobody asks for it.
	// Another service on the database may have it.
	strangeAfter = 90 * 24 * time.Hour
)

// note brings what is known of rules up to date, here and in the register.
func (l *Live) note(ctx context.Context) {
	l.ask(ctx, &l.asking.failing, "when rules were asked for", func(ctx context.Context) error {
		a := &l.asking
		if !a.loaded && a.register != nil {
			all, err := a.register.Load(ctx)
			if err != nil {
				return err
			}
			l.mu.Lock()
			a.rules = all
			l.mu.Unlock()
		}
		a.loaded = true
		l.mu.Lock()
		l.noted(time.Now(), l.limiter.Rules().Domains())
		changed, gone := a.due()
		l.mu.Unlock()
		if a.register != nil {
			if err := a.register.Save(ctx, changed, gone); err != nil {
				return err
			}
		}
		clear(a.unsaved)
		return nil
	})
}

// due is what the register has to hear.
func (a *asking) due() (changed map[register.ID]register.Rule, gone []register.ID) {
	changed = map[register.ID]register.Rule{}
	for id := range a.unsaved {
		if rule, known := a.rules[id]; known {
			changed[id] = rule
		} else {
			gone = append(gone, id)
		}
	}
	return changed, gone
}

// noted takes over what has changed, and forgets rules that have gone for two times.
func (l *Live) noted(now time.Time, domains []rules.Domain) {
	a := &l.asking
	absent := maps.Clone(a.rules)
	for _, d := range domains {
		history := l.history.domains[d.Name]
		if history == nil {
			history = &domain{}
		}
		for _, r := range d.Rules {
			id := register.IDOf(d.Name, r.Path)
			rule, known := a.rules[id]
			if !known {
				rule.Known = now
			}
			asked := l.askedAt(history.rules[r.Path])
			if later := asked.Sub(rule.Asked) >= noteAfter; later {
				rule.Asked = asked
			}
			if rule != a.rules[id] {
				a.rules[id], a.unsaved[id] = rule, true
			}
			a.ours[id] = true
			delete(absent, id)
		}
	}
	leaving := map[register.ID]bool{}
	for id, rule := range absent {
		if l.stats.Source.Err != nil { // the rules in force may be old
			break
		}
		if !a.ours[id] && (now.Sub(rule.Known) < strangeAfter || now.Sub(rule.Asked) < strangeAfter) {
			continue
		}
		if leaving[id] = true; a.leaving[id] {
			a.unsaved[id] = true
			delete(a.rules, id)
			delete(a.ours, id)
			delete(leaving, id)
		}
	}
	a.leaving = leaving
}

// askedAt is when a rule was asked for, as far as this process has seen: zero if it has not.
func (l *Live) askedAt(s *series) time.Time {
	if s == nil || s.asked == 0 {
		return time.Time{}
	}
	return l.began.Add(time.Duration(s.asked) * sampleEvery)
}

// idle reports whether nobody has asked for a rule for long.
func (l *Live) idle(now time.Time, name, path string, s *series) bool {
	if asked := l.askedAt(s); now.Sub(asked) < idleAfter {
		return false
	}
	rule, known := l.asking.rules[register.IDOf(name, path)]
	return known && now.Sub(rule.Known) >= idleAfter && now.Sub(rule.Asked) >= idleAfter
}
