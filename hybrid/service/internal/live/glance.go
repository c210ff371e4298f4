package live

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
)

// A Glance is what a list of domains shows of one.
type Glance struct {
	// Admitted and Denied are by second, of the last 10 s: NaN if it is not known.
	Admitted, Denied float64

	// Lines are both over the last 5 minutes, as paths of SVG in a box of 1000 by 1000.
	Lines [2]string

	// Looks are what somebody should look at: sentences. Rules are those that need a look.
	Looks []string
	Rules []RuleLook
}

// A RuleLook is why some rules of a domain need a look: up to 3 of them by their paths, each with a
// note or "", and how many more there are. It has no name of its own, as package page has it, too.
type RuleLook = struct {
	Text         string
	Paths, Notes []string
	More         int
}

const (
	// manyDenials is from which part of requests on the denials of a rule, or of bans, need a look.
	manyDenials = 0.1

	// mostNamed is how many rules or services are named.
	mostNamed = 3
)

// Glance is what is known of a domain. It costs no call to the store.
func (l *Live) Glance(name string) Glance {
	d, _ := l.limiter.Rules().Domain(name)
	l.mu.Lock()
	defer l.mu.Unlock()
	h := &l.history
	of := h.domains[name]
	if of == nil {
		of = &domain{}
	}
	g := Glance{
		Admitted: h.now(&of.total, ofAdmitted...), Denied: h.now(&of.total, ofDenied...),
	}
	fleet := l.fleetOf(time.Now(), l.statsLocked(name).Limiter)
	if fleet.Missing > 0 {
		g.Looks = append(g.Looks, fmt.Sprintf("%d of %d processes have not reported what they count.",
			fleet.Missing, fleet.Processes))
	}
	banned := h.sum(of.rules[byBans], recent, denied)
	all := banned + h.sum(&of.total, recent, ofAdmitted...) + h.sum(&of.total, recent, ofDenied...)
	if part := float64(banned) / float64(all); part >= manyDenials { // 0 / 0 is not
		g.Looks = append(g.Looks, "Bans deny much, in the last 5 minutes: "+percent(part)+".")
	}
	g.Rules = l.rulesToLookAt(name, d, of)
	const group = 5
	lines := [2][]float64{
		h.rates(&of.total, recent, group, ofAdmitted...), h.rates(&of.total, recent, group, ofDenied...),
	}
	top := 0.0
	for _, v := range slices.Concat(lines[0], lines[1]) {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	for i, values := range lines {
		if top > 0 {
			g.Lines[i] = path(values, top)
		}
	}
	return g
}

// Looks are what somebody should look at in all domains: sentences. It costs no call to the store.
func (l *Live) Looks() (looks []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	away, slow := false, false
	for _, d := range l.stats.Domains {
		away, slow = away || d.Limiter.Away, slow || d.Limiter.Slow
	}
	quiet := now.Sub(l.silence.read)
	switch {
	case away && !l.memory:
		looks = append(looks, "The store is away: the outage policy decides.")
	case l.counters != nil && quiet > lateAfter:
		looks = append(looks, "The store has not answered for "+brief(quiet)+".")
	case slow && !l.memory:
		looks = append(looks, "The store is slow.")
	}
	missed := l.silence.missed(now)
	for _, one := range missed[:min(len(missed), mostNamed)] {
		looks = append(looks, one.name+" has not reported for "+brief(now.Sub(one.heard))+".")
	}
	if more := len(missed) - mostNamed; more > 0 {
		looks = append(looks, fmt.Sprintf("%d more services have not reported.", more))
	}
	return looks
}

// rulesToLookAt are the rules of a domain that somebody should look at.
func (l *Live) rulesToLookAt(name string, d rules.Domain, of *domain) (looks []RuleLook) {
	denying := RuleLook{Text: "Denies much, in the last 5 minutes"}
	used := RuleLook{Text: "Near the limit"}
	would := RuleLook{Text: "Would deny, in the last 24 hours"}
	idle := RuleLook{Text: "Nobody has asked for it in the last 7 days"}
	add := func(to *RuleLook, path, note string) {
		if len(to.Paths) == mostNamed {
			to.More++
			return
		}
		to.Paths, to.Notes = append(to.Paths, path), append(to.Notes, note)
	}
	h, now := &l.history, time.Now()
	for _, r := range d.Rules {
		s := of.rules[r.Path]
		admitted, denied := h.sum(s, recent, ofAdmitted...), h.sum(s, recent, ofDenied...)
		if part := float64(denied) / float64(admitted+denied); part >= manyDenials { // 0 / 0 is not
			add(&denying, r.Path, percent(part))
		} else if part := h.used(r, s); part >= muchUsed {
			add(&used, r.Path, percent(min(part, 1)))
		}
		if n := h.sum(s, day, ofWould...); n > 0 {
			add(&would, r.Path, humanize.Count(n)+" of "+humanize.Count(h.sum(s, day, ofSeen...)))
		}
		if l.idle(now, name, r.Path, s) {
			add(&idle, r.Path, "")
		}
	}
	for _, look := range []RuleLook{denying, used, would, idle} {
		if len(look.Paths) > 0 {
			looks = append(looks, look)
		}
	}
	return looks
}

func percent(part float64) string { return fmt.Sprintf("%.0f %%", 100*part) }
