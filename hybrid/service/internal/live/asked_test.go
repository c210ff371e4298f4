package live

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/register"
)

// A ledger of rules is a Register in memory.
type ledger struct {
	mu    sync.Mutex
	rules map[register.ID]register.Rule
	away  bool
	full  bool // it cannot be written
	wrote int
}

func (l *ledger) Load(context.Context) (map[register.ID]register.Rule, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return nil, errors.New("away")
	}
	return maps.Clone(l.rules), nil
}

func (l *ledger) Save(
	_ context.Context, changed map[register.ID]register.Rule, gone []register.ID,
) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full {
		return errors.New("full")
	}
	l.wrote += len(changed)
	maps.Copy(l.rules, changed)
	for _, id := range gone {
		delete(l.rules, id)
	}
	return nil
}

func (l *ledger) of(path string) (register.Rule, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, ok := l.rules[register.IDOf("d", path)]
	return r, ok
}

// TestIdleRules: a rule that nobody has asked for in a week needs a look, over restarts, and no
// other does. A busy rule is written once in an hour, and one that has gone is forgotten.
func TestIdleRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &ledger{rules: map[register.ID]register.Rule{}}
		store, source := hybrid.NewMemory(), newBoard(twoRules)
		limiter := newLimiter(t, store, source, hybrid.NewProcess(), "")
		start := func() *Live {
			l := New(limiter, store, Config{Log: quiet, Register: kept})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); l.Run(ctx) }()
			t.Cleanup(func() { cancel(); <-ended })
			synctest.Wait()
			return l
		}
		idle := func(l *Live) bool {
			return slices.Contains(sentences(l.Glance("d")),
				"Nobody has asked for it in the last 7 days: path.")
		}
		l := start()
		for range 3 * 6 {
			takes(t, limiter, 1, rules.Of("user", "ann"))
			time.Sleep(noteEvery)
		}
		synctest.Wait()
		user, _ := kept.of("user")
		path, known := kept.of("path")
		if n := kept.wrote; n < 4 || n > 6 || user.Asked.IsZero() || !known || !path.Asked.IsZero() {
			t.Errorf("%d rows were written: %+v %+v", n, user, path)
		}
		if looks := sentences(l.Glance("d")); len(looks) != 0 {
			t.Errorf("after 3 hours: %q", looks)
		}
		// A week later, in a process that has just begun.
		kept.mu.Lock()
		for id, r := range kept.rules {
			r.Known = r.Known.Add(-idleAfter)
			if !r.Asked.IsZero() {
				r.Asked = r.Asked.Add(-idleAfter / 2)
			}
			kept.rules[id] = r
		}
		kept.mu.Unlock()
		l = start()
		if looks := sentences(l.Glance("d")); !idle(l) || len(looks) != 1 {
			t.Errorf("after a week: %q", looks)
		}
		takes(t, limiter, 1, rules.Of("path", "x"))
		time.Sleep(2 * sampleEvery)
		synctest.Wait()
		if idle(l) {
			t.Error("it was asked for just now")
		}
		source.put("domain: d\ndescriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 9}}]")
		time.Sleep(3 * noteEvery)
		synctest.Wait()
		if _, known := kept.of("user"); known {
			t.Error("a rule that has gone is known still")
		}
		if r, _ := kept.of("path"); r.Asked.IsZero() {
			t.Error("the rule that was asked for is not")
		}
	})
}

// TestRegisterAway: what a register knows is not written over before it was read.
func TestRegisterAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old := register.Rule{Known: time.Now().Add(-2 * idleAfter)}
		kept := &ledger{away: true, rules: map[register.ID]register.Rule{register.IDOf("d", "path"): old}}
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(twoRules), hybrid.NewProcess(), "")
		l := New(limiter, store, Config{Log: quiet, Register: kept})
		run(t, l)
		time.Sleep(time.Hour)
		synctest.Wait()
		if r, _ := kept.of("path"); r != old || kept.wrote != 0 || len(sentences(l.Glance("d"))) != 0 {
			t.Errorf("while it is away: %+v", r)
		}
		kept.mu.Lock()
		kept.away = false
		kept.mu.Unlock()
		time.Sleep(2 * noteEvery)
		synctest.Wait()
		if r, _ := kept.of("path"); r.Known != old.Known || len(sentences(l.Glance("d"))) != 1 {
			t.Errorf("after that: %+v, %q", r, sentences(l.Glance("d")))
		}
	})
}

// TestRegisterFails: what could not be written is written once it can be: rules that are new, or
// were asked for, and those that have gone.
func TestRegisterFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &ledger{rules: map[register.ID]register.Rule{}}
		fill := func(full bool) {
			kept.mu.Lock()
			defer kept.mu.Unlock()
			kept.full = full
		}
		fill(true)
		store, source := hybrid.NewMemory(), newBoard(twoRules)
		limiter := newLimiter(t, store, source, hybrid.NewProcess(), "")
		run(t, New(limiter, store, Config{Log: quiet, Register: kept}))
		begun := time.Now()
		takes(t, limiter, 1, rules.Of("user", "ann"))
		time.Sleep(3 * noteEvery)
		fill(false)
		time.Sleep(noteEvery)
		synctest.Wait()
		user, _ := kept.of("user")
		if path, known := kept.of("path"); !known || user.Asked.IsZero() ||
			!path.Known.Equal(begun) || kept.wrote != 2 {
			t.Errorf("%d rows were written: %+v %+v", kept.wrote, user, path)
		}
		fill(true)
		source.put("domain: d\ndescriptors: [{key: path, rate_limit: {unit: day, requests_per_unit: 9}}]")
		time.Sleep(4 * noteEvery)
		fill(false)
		time.Sleep(noteEvery)
		synctest.Wait()
		if _, known := kept.of("user"); known {
			t.Error("a rule that has gone meanwhile is known still")
		}
	})
}

// TestRegisterOfTwo: services with different rules on one database leave each other's rows alone.
// What nobody has asked for in 90 days, and is not in force here, is forgotten.
func TestRegisterOfTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := &ledger{rules: map[register.ID]register.Rule{}}
		now := time.Now()
		other, busy := register.Rule{Known: now}, register.Rule{Known: now.Add(-strangeAfter), Asked: now}
		kept.rules[register.IDOf("d", "other")], kept.rules[register.IDOf("d", "busy")] = other, busy
		kept.rules[register.IDOf("d", "old")] = register.Rule{
			Known: now.Add(-2 * strangeAfter), Asked: now.Add(-strangeAfter),
		}
		store := hybrid.NewMemory()
		limiter := newLimiter(t, store, newBoard(twoRules), hybrid.NewProcess(), "")
		run(t, New(limiter, store, Config{Log: quiet, Register: kept}))
		time.Sleep(3 * noteEvery)
		synctest.Wait()
		for path, want := range map[string]bool{
			"user": true, "path": true, "other": true, "busy": true, "old": false,
		} {
			if _, known := kept.of(path); known != want {
				t.Errorf("%s is known: %v", path, known)
			}
		}
	})
}
