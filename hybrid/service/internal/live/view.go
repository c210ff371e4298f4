package live

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/lease"
)

// A domainView is what the template of a domain shows.
type domainView struct {
	Domain      string
	Span        span
	Spans       []spanLink
	Every       string // how often the fragment asks for a new one
	Self        string // its address
	KeyForm     string // the address of the form for a key
	Tiles       []tile
	Charts      []chart
	Rules       []ruleView
	More        int  // rules that are not shown
	Short       bool // there was no room for the history of some
	Keys        []keyView
	Denied      int  // keys that had denied requests, listed or not
	ManyDenied  bool // they may be more
	Fleet       fleetView
	Store       storeView
	RulesStale  string
	FairnessAge time.Duration
}

type spanLink struct {
	Text, URL string
	Here      bool
}

// A tile is a number with a name.
type tile struct{ Name, Value, Unit, Note, Class string }

// A ruleView is a row of the table of rules.
type ruleView struct {
	Path, Limit, URL string
	Here             bool // its chart is shown
	Note             string

	Admitted, Denied, Shadow        float64 // by second, of the last 10 s
	AdmittedSum, DeniedSum, WouldBe uint64  // in the span
	Seen                            uint64  // by shadows, in the span
	Unknown                         uint64
}

// A keyView is a row of the most limited keys.
type keyView struct {
	Descriptor, URL, Rule, Note string
	Denied, Error               uint64
	Fairness                    string
}

// A storeView is how the store is, for this process.
type storeView struct {
	Memory        bool // it is the memory of this process
	State, Class  string
	AwayFor       time.Duration
	P50, P99      time.Duration
	Keys, Waiters int
}

// What of a rule's counters is one line.
var (
	ofAdmitted = []int{admitted, trialAdmitted}
	ofDenied   = []int{denied, trialDenied}
	ofWould    = []int{shadowDenied, trialShadowDenied}
	ofSeen     = []int{shadowAdmitted, shadowDenied, trialShadowAdmitted, trialShadowDenied}
	ofUnknown  = []int{shadowUnknown, trialShadowUnknown}
	ofAll      = []int{
		admitted, denied, shadowAdmitted, shadowDenied, trialAdmitted, trialDenied,
		trialShadowAdmitted, trialShadowDenied,
	}
)

// mostRules is how many rules the table shows.
const mostRules = 50

// manyDenied is the largest hybrid.Stats.DeniedKeys: so many keys, or more.
const manyDenied = 128

// groups is how many slots make a point of a chart.
var groups = [spans]int{1, 4}

var (
	spanNames = [spans]string{"5m", "24h"}
	spanTexts = [spans]string{"5 minutes", "24 hours"}
	spanEvery = [spans]string{"2s", "30s"}
)

// address is that of a domain's fragment.
func address(domain string, at span, rule string) string {
	q := url.Values{"span": {spanNames[at]}}
	if rule != "" {
		q.Set("rule", rule)
	}
	return "/live/" + url.PathEscape(domain) + "?" + q.Encode()
}

// keyAddress is that of a key's fragment.
func keyAddress(domain, rule, name string) string {
	q := url.Values{"rule": {rule}, "key": {name}}
	return "/live/" + url.PathEscape(domain) + "/key?" + q.Encode()
}

// view is what is known of a domain, whose rules are d.
func (l *Live) view(r *rules.Rules, d rules.Domain, at span, rule string) domainView {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	stats := l.statsLocked(d.Name)
	v := domainView{
		Domain: d.Name, Span: at, Every: spanEvery[at], Self: address(d.Name, at, rule),
		KeyForm: "/live/" + url.PathEscape(d.Name) + "/key",
		Fleet:   l.fleet.view(now, stats.Limiter.Namespace, stats.Limiter.ID),
		Store:   l.storeOf(stats.Limiter),
		Denied:  stats.Limiter.DeniedKeys, ManyDenied: stats.Limiter.DeniedKeys >= manyDenied,
	}
	for s := range spans {
		v.Spans = append(v.Spans, spanLink{spanTexts[s], address(d.Name, s, rule), s == at})
	}
	if s := l.stats.Source; s.Err != nil {
		v.RulesStale = brief(now.Sub(s.StaleSince))
	}
	history := l.history.domains[d.Name]
	if history == nil {
		history = &domain{}
	}
	v.Keys = l.keys(r, d.Name, stats.Limiter.MostDenied)
	l.rules(&v, history, d, rule)
	chosen := choose(&v, rule)
	v.Charts = append(v.Charts, l.domainChart(&history.total, at))
	if chosen >= 0 {
		path := v.Rules[chosen].Path
		v.Charts = append(v.Charts, l.ruleChart(path, history.rules[path], at))
	} else {
		v.Charts = append(v.Charts, chart{ID: "rule", Title: "Rule", Empty: true})
	}
	v.Charts = append(v.Charts, l.jainChart(d, at))
	v.Tiles = l.tiles(&v, &history.total)
	if f := l.fairness.domains[d.Name]; f != nil {
		v.FairnessAge = now.Sub(f.at)
	}
	return v
}

func (l *Live) storeOf(s hybrid.Stats) storeView {
	v := storeView{
		State: "answers", Class: "good", AwayFor: s.AwayFor, P50: s.RoundTripP50,
		P99: s.RoundTripP99, Keys: s.Keys, Waiters: s.Waiters, Memory: l.memory,
	}
	switch {
	case l.memory:
		v.State, v.Class = "memory", ""
	case s.Away:
		v.State, v.Class = "away", "bad"
	case s.Slow:
		v.State, v.Class = "slow", "bad"
	}
	return v
}

// rules fills the table, in the order of the document: the rule that was asked for, and those that
// have done most in the span.
func (l *Live) rules(v *domainView, history *domain, d rules.Domain, asked string) {
	rows := make([]ruleView, 0, len(d.Rules))
	order := map[string]int{}
	row := func(path, limit, note string) {
		s, h := history.rules[path], &l.history
		order[path] = len(rows)
		rows = append(rows, ruleView{
			Path: path, Limit: limit, Note: note, URL: address(d.Name, v.Span, path),
			Admitted: h.now(s, ofAdmitted...), Denied: h.now(s, ofDenied...),
			Shadow:      h.now(s, ofWould...),
			AdmittedSum: h.sum(s, v.Span, ofAdmitted...), DeniedSum: h.sum(s, v.Span, ofDenied...),
			WouldBe: h.sum(s, v.Span, ofWould...), Seen: h.sum(s, v.Span, ofSeen...),
			Unknown: h.sum(s, v.Span, ofUnknown...),
		})
		v.Short = v.Short || s != nil && s.short
	}
	for _, r := range d.Rules {
		row(r.Path, r.Text, noteOf(r))
	}
	if s := history.rules[overrides]; l.history.sum(s, v.Span, ofAll...) > 0 {
		row(overrides, "", "")
	}
	var gone []string
	for path, s := range history.rules {
		if _, there := order[path]; !there && l.history.sum(s, v.Span, ofAll...) > 0 {
			gone = append(gone, path)
		}
	}
	slices.Sort(gone)
	for _, path := range gone {
		row(path, "", "not in the rules any more")
	}
	slices.SortStableFunc(rows, func(a, b ruleView) int {
		if (a.Path == asked) != (b.Path == asked) {
			return map[bool]int{true: -1, false: 1}[a.Path == asked]
		}
		return cmp.Or(cmp.Compare(b.DeniedSum+b.WouldBe, a.DeniedSum+a.WouldBe),
			cmp.Compare(b.AdmittedSum, a.AdmittedSum))
	})
	v.More = max(0, len(rows)-mostRules)
	rows = rows[:len(rows)-v.More]
	slices.SortFunc(rows, func(a, b ruleView) int {
		return cmp.Compare(order[a.Path], order[b.Path])
	})
	v.Rules = rows
}

// noteOf says what is special about a rule.
func noteOf(r rules.Rule) string {
	var notes []string
	switch {
	case r.Limit == hybrid.Unlimited:
	case r.Percent == 0:
		notes = append(notes, "shadow")
	case r.Percent < 100:
		notes = append(notes, fmt.Sprintf("in force for %g %%", r.Percent))
	}
	if r.Trial != nil {
		notes = append(notes, fmt.Sprintf("trial %s for %g %%", r.Trial.Text, r.Trial.Percent))
	}
	return strings.Join(append(notes, r.Counted...), ", ")
}

// choose returns the rule whose chart is shown, as a row, or -1: the one that was asked for, or
// else the one whose shadow or trial, or else whose limit, has denied most.
func choose(v *domainView, path string) int {
	best := -1
	for i, r := range v.Rules {
		if path == r.Path {
			best = i
			break
		}
		if path == "" && r.AdmittedSum+r.DeniedSum+r.WouldBe > 0 && (best < 0 ||
			cmp.Or(cmp.Compare(r.WouldBe, v.Rules[best].WouldBe),
				cmp.Compare(r.DeniedSum, v.Rules[best].DeniedSum)) > 0) {
			best = i
		}
	}
	if best >= 0 {
		v.Rules[best].Here = true
	}
	return best
}

// keys are the most limited keys of this process.
func (l *Live) keys(r *rules.Rules, domain string, most []hybrid.DeniedKey) []keyView {
	var list []keyView
	for _, k := range most {
		row := keyView{Denied: k.Denied, Error: k.Error}
		b, ok := bucketOf(r, domain, k)
		if !ok {
			row.Descriptor, row.Note = shortened(k.Key, 80), "too long to be shown"
			list = append(list, row)
			continue
		}
		row.Descriptor, row.Rule = shortened(rules.PathOf(b.Entries...), 160), b.Rule.Path
		row.URL = keyAddress(domain, b.Rule.Path, k.Key)
		switch {
		case b.Override:
			row.Note = "the request's own limit"
		case b.Rule.Path == "":
			row.Note = "no rule any more"
		case b.Trial && b.Shadow:
			row.Note = "trial, only counted"
		case b.Trial:
			row.Note = "trial"
		case b.Shadow:
			row.Note = "shadow, only counted"
		}
		row.Fairness = "–"
		if i, ok := l.fairness.of(domain, k.Key); ok && i.refills > 1 {
			row.Fairness = number(i.jain)
		} else if ok {
			row.Fairness = "fewer than two"
		}
		list = append(list, row)
	}
	return list
}

// tiles are the numbers at the top.
func (l *Live) tiles(v *domainView, total *series) []tile {
	h := &l.history
	of := "last 10 s"
	if v.Fleet.Processes > 1 {
		of += ", this process alone"
	}
	tiles := []tile{
		{Name: "Admitted", Value: number(h.now(total, ofAdmitted...)), Unit: "/s", Note: of},
		{Name: "Denied", Value: number(h.now(total, ofDenied...)), Unit: "/s", Note: of},
	}
	if h.sum(total, v.Span, ofWould...) > 0 {
		tiles = append(tiles, tile{
			Name: "Would be denied", Value: number(h.now(total, ofWould...)), Unit: "/s",
			Note: "by shadows and trials",
		})
	}
	store := tile{Name: "Store", Value: v.Store.State, Class: v.Store.Class}
	switch {
	case v.Store.Memory:
		store.Note = "of this process: no other shares the limits, and a restart begins anew"
	case v.Store.P99 > 0:
		store.Note = "99 % of round trips within " + brief(v.Store.P99)
	}
	tiles = append(tiles, store)
	fleet := tile{Name: "Processes", Value: "–", Note: "none has published yet"}
	if v.Fleet.Read {
		fleet.Value = fmt.Sprint(v.Fleet.Processes)
		if fleet.Note = ""; !v.Store.Memory {
			fleet.Note = number(v.Fleet.Exchanges) + " calls to the store/s"
		}
	}
	tiles = append(tiles, fleet)
	jain := tile{Name: "Jain's index", Value: "–", Note: "no limited key has two processes on lease"}
	lowest := math.NaN()
	if f := l.fairness.domains[v.Domain]; f != nil {
		for _, k := range f.keys {
			if k.refills > 1 && !(k.jain >= lowest) {
				lowest = k.jain
			}
		}
	}
	if !math.IsNaN(lowest) {
		jain.Value, jain.Note = number(lowest), "lowest of the most limited keys"
	}
	return append(tiles, jain)
}

// domainChart is of all rules.
func (l *Live) domainChart(s *series, at span) chart {
	h, group := &l.history, groups[at]
	c := chart{
		ID: "all", Title: "All rules", Unit: "decisions/s",
		About: "What the limits of this process have decided in each second. " +
			"A request with two limits counts on both.",
		Lines: []line{
			{Name: "admitted", Style: 1, Values: h.rates(s, at, group, ofAdmitted...)},
			{Name: "denied", Style: 2, Values: h.rates(s, at, group, ofDenied...)},
		},
	}
	if h.sum(s, at, ofWould...) > 0 {
		c.Lines = append(c.Lines, line{
			Name: "would be denied", Style: 3, Values: h.rates(s, at, group, ofWould...),
		})
	}
	return newChart(c, at, 0)
}

// ruleChart is of one rule: a shadow or a trial beside what is in force.
func (l *Live) ruleChart(path string, s *series, at span) chart {
	h, group := &l.history, groups[at]
	c := chart{
		ID: "rule", Title: "Rule " + shortened(path, 120), Unit: "decisions/s",
		About: "What the limits in force have decided in this process. " +
			"A shadow only counts what it would have denied.",
		Lines: []line{
			{Name: "admitted", Style: 1, Values: h.rates(s, at, group, ofAdmitted...)},
			{Name: "denied", Style: 2, Values: h.rates(s, at, group, ofDenied...)},
		},
	}
	for i, name := range []string{"rule would deny", "trial would deny"} {
		if of := ofWould[i]; h.sum(s, at, of) > 0 {
			c.Lines = append(c.Lines, line{
				Name: name, Style: 3 + i, Values: h.rates(s, at, group, of),
			})
		}
	}
	return newChart(c, at, 0)
}

// jainChart is how alike holders are served.
func (l *Live) jainChart(d rules.Domain, at span) chart {
	mean, low := l.fairness.over(d.Name, at, groups[at])
	c := chart{
		ID: "jain", Title: "Jain's index of limited keys", Unit: "index, 0 to 1",
		About: "How alike the processes are served: 1 if each gets the same part of what it is " +
			"asked for, 1/n if one of n gets everything. Of up to five keys, each 10 s.",
		Lines: []line{
			{Name: "mean", Style: 1, Values: mean}, {Name: "lowest", Style: 2, Values: low},
		},
	}
	if d.Fairness != nil && *d.Fairness == lease.MaxMin {
		c.About += " This domain's fairness is max-min: quiet processes get all that they want, " +
			"so that it may be far from 1."
	}
	return newChart(c, at, 1)
}

func sortMembers(list []memberView) {
	slices.SortFunc(list, func(a, b memberView) int {
		if a.Here != b.Here {
			return map[bool]int{true: -1, false: 1}[a.Here]
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), cmp.Compare(a.Age, b.Age))
	})
}

// shortened is s, or its first bytes.
func shortened(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// brief writes a time in two digits: 850 µs, 1.2 ms, 3 s, 5 min, 2 h.
func brief(d time.Duration) string {
	for _, u := range []struct {
		of   time.Duration
		name string
	}{
		{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}, {time.Millisecond, "ms"},
	} {
		if d >= u.of {
			return number(math.Round(10*float64(d)/float64(u.of))/10) + " " + u.name
		}
	}
	if d < time.Microsecond {
		return "0 s"
	}
	return number(float64(d/time.Microsecond)) + " µs"
}
