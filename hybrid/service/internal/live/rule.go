package live

import (
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A rulePage is what the template of a rule shows.
type rulePage struct {
	Self, Every string
	Span        span
	Spans       []spanLink
	Chart       chart
	Row         ruleView
	Keys        []keyView
	Fair        bool
	Fleet       fleetView
}

// rulePage is what is known of one rule, which may be gone.
func (l *Live) rulePage(
	r *rules.Rules, d rules.Domain, at span, path string, marks []mark,
) rulePage {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	stats := l.statsLocked(d.Name)
	p := rulePage{
		Self: ruleAddress("/live/", d.Name, at, path, marks), Every: spanEvery[at], Span: at,
		Keys:  l.keys(r, d.Name, stats.Limiter.MostDenied, path),
		Fleet: l.fleetOf(now, stats.Limiter),
	}
	p.Fair = fair(p.Keys)
	for s := range spans {
		p.Spans = append(p.Spans, spanLink{
			spanTexts[s], ruleAddress("/live/", d.Name, s, path, marks),
			ruleAddress("/domains/", d.Name, s, path, nil), s == at,
		})
	}
	history := l.history.domains[d.Name]
	if history == nil {
		history = &domain{}
	}
	v := domainView{Span: at, Filter: path}
	l.rules(&v, history, d)
	if i := slices.IndexFunc(v.Rules, func(r ruleView) bool { return r.Path == path }); i >= 0 {
		p.Row = v.Rules[i]
	}
	p.Chart = l.ruleChart(history.rules[path], at)
	p.Chart.mark(at, now, marks)
	return p
}

// Measured reports whether there are figures of a path in a domain of the last 24 hours. It may be
// that of a rule that is gone, or that of no rule: limits that requests bring have one.
func (l *Live) Measured(name, path string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := l.history.domains[name]
	return d != nil && l.history.sum(d.rules[path], day, ofAll...) > 0
}
