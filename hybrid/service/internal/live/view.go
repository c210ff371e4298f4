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
	Page        string // the address of the domain's page
	Process     string // whose chart it is; none: that of all
	All         string // the address of the fragment of all, AllPage of the page
	AllPage     string
	Filter      string // what rules are shown for
	Total       int    // rules that there are
	KeyForm     string // the address of the form for a key
	Tiles       []tile
	Charts      []chart
	Rules       []ruleView
	Shadows     bool // some of them have a shadow or a trial
	More        int  // rules that are not shown
	Short       bool // there was no room for the history of some
	Keys        []keyView
	Denied      int  // keys that had denied requests, listed or not
	ManyDenied  bool // they may be more
	Fleet       fleetView
	Store       storeView
	RulesStale  string
	Fair        bool // of some key the index is known
	FairnessAge time.Duration
}

// A spanLink leads to another span: Page for a browser without scripts.
type spanLink struct {
	Text, URL, Page string
	Here            bool
}

// A tile is a number with a name.
type tile struct{ Name, Value, Unit, Note, Class string }

// A ruleView is a row of the table of rules.
type ruleView struct {
	Path, Name, Limit, URL string
	Note                   string

	Admitted, Denied, Shadow        float64 // by second, of the last 10 s
	AdmittedSum, DeniedSum, WouldBe uint64  // in the span
	Seen                            uint64  // by shadows, in the span
	Unknown                         uint64
}

// A keyView is a row of the most limited keys.
type keyView struct {
	Descriptor, URL, Rule, Note string
	RuleURL, Explain, Ban       string // addresses on the page
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

// address is that of a domain's fragment below /live/, or of its page below /domains/.
func address(below, domain string, at span, filter, process string) string {
	q := url.Values{"span": {spanNames[at]}}
	if filter != "" {
		q.Set("filter", filter)
	}
	if process != "" {
		q.Set("process", process)
	}
	return below + url.PathEscape(domain) + "?" + q.Encode()
}

// ruleAddress is that of a rule's fragment, or of its page.
func ruleAddress(below, domain string, at span, path string, marks []mark) string {
	q := url.Values{"span": {spanNames[at]}, "path": {path}}
	for _, m := range marks {
		q.Add("mark", m.String())
	}
	return below + url.PathEscape(domain) + "/rule?" + q.Encode()
}

// rowAddress is where a row of the table of rules leads: to the rule's page, or to that of bans.
func rowAddress(domain string, at span, path string) string {
	if path == byBans {
		return "/domains/" + url.PathEscape(domain) + "/bans"
	}
	return ruleAddress("/domains/", domain, at, path, nil)
}

// explainAddress is where the page tells what limits a descriptor.
func explainAddress(domain, descriptor string) string {
	return "/domains/" + url.PathEscape(domain) + "/explain?" +
		url.Values{"descriptors": {descriptor}}.Encode()
}

// banAddress is where the page bans the descriptors of a bucket, or nothing if no descriptor has
// its entries.
func banAddress(domain string, b rules.Bucket) string {
	valued := slices.ContainsFunc(b.Entries, func(e rules.Entry) bool { return e.Value != "" })
	if b.Shared || b.Rule.Bucket != "" || !valued {
		return ""
	}
	return "/domains/" + url.PathEscape(domain) + "/bans?" +
		url.Values{"descriptor": {rules.PathOf(b.Entries...)}}.Encode()
}

// keyAddress is that of a key's fragment.
func keyAddress(domain, rule, name string) string {
	q := url.Values{"rule": {rule}, "key": {name}}
	return "/live/" + url.PathEscape(domain) + "/key?" + q.Encode()
}

// view is what is known of a domain, whose rules are d. Its chart is that of all processes, or of
// the Limiter of one of them.
func (l *Live) view(
	r *rules.Rules, d rules.Domain, at span, filter, process string,
) domainView {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	stats := l.statsLocked(d.Name)
	v := domainView{
		Domain: d.Name, Span: at, Every: spanEvery[at], Filter: filter, Total: len(d.Rules),
		Self:    address("/live/", d.Name, at, filter, process),
		Page:    "/domains/" + url.PathEscape(d.Name),
		KeyForm: "/live/" + url.PathEscape(d.Name) + "/key",
		Fleet:   l.fleetOf(now, stats.Limiter),
		Store:   l.storeOf(stats.Limiter),
		Denied:  stats.Limiter.DeniedKeys, ManyDenied: stats.Limiter.DeniedKeys >= manyDenied,
	}
	if s := l.stats.Source; s.Err != nil {
		v.RulesStale = brief(now.Sub(s.StaleSince))
	}
	history := l.history.domains[d.Name]
	if history == nil {
		history = &domain{}
	}
	v.Keys = l.keys(r, d.Name, stats.Limiter.MostDenied, anyRule)
	v.Fair = fair(v.Keys)
	l.rules(&v, history, d)
	l.links(&v, process)
	total := &history.total
	if process != "" {
		total = &series{}
		if p := l.history.domains[processKey(process)]; p != nil {
			total = &p.total
		}
	}
	v.Charts = append(v.Charts, l.domainChart(total, at, v.Process), l.jainChart(d, at))
	v.Tiles = l.tiles(&v, total)
	if f := l.fairness.domains[d.Name]; f != nil {
		v.FairnessAge = now.Sub(f.at)
	}
	return v
}

// links leads to the other spans, to each process of the fleet, and from one process to all.
func (l *Live) links(v *domainView, process string) {
	both := func(at span, process string) (fragment, page string) {
		return address("/live/", v.Domain, at, v.Filter, process),
			address("/domains/", v.Domain, at, v.Filter, process)
	}
	for s := range spans {
		fragment, page := both(s, process)
		v.Spans = append(v.Spans, spanLink{spanTexts[s], fragment, page, s == v.Span})
	}
	if process != "" {
		v.Process = l.fleet.nameOf(process)
		v.All, v.AllPage = both(v.Span, "")
	}
	for i := range v.Fleet.Members {
		m := &v.Fleet.Members[i]
		if m.Shown = m.key == process; l.history.domains[processKey(m.key)] != nil {
			m.URL, m.Page = both(v.Span, m.key)
		}
	}
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

// rules fills the table, in the order of the document: those that the filter leaves, and of them
// those that have done most in the span.
func (l *Live) rules(v *domainView, history *domain, d rules.Domain) {
	rows := make([]ruleView, 0, len(d.Rules))
	order, names := map[string]int{}, map[string]string{}
	row := func(path, limit, note string) {
		s, h := history.rules[path], &l.history
		order[path] = len(order)
		if !strings.Contains(path, v.Filter) && !strings.Contains(names[path], v.Filter) {
			return
		}
		rows = append(rows, ruleView{
			Path: path, Name: names[path], Limit: limit, Note: note,
			URL:      rowAddress(d.Name, v.Span, path),
			Admitted: h.now(s, ofAdmitted...), Denied: h.now(s, ofDenied...),
			Shadow:      h.now(s, ofWould...),
			AdmittedSum: h.sum(s, v.Span, ofAdmitted...), DeniedSum: h.sum(s, v.Span, ofDenied...),
			WouldBe: h.sum(s, v.Span, ofWould...), Seen: h.sum(s, v.Span, ofSeen...),
			Unknown: h.sum(s, v.Span, ofUnknown...),
		})
		v.Short = v.Short || s != nil && s.short
	}
	for _, r := range d.Rules {
		names[r.Path] = r.Name
		row(r.Path, r.Text, noteOf(r))
	}
	for _, path := range []string{overrides, byBans} {
		if s := history.rules[path]; l.history.sum(s, v.Span, ofAll...) > 0 {
			row(path, "", "")
		}
	}
	var gone []string
	for path, s := range history.rules {
		if _, there := order[path]; !there && l.history.sum(s, v.Span, ofAll...) > 0 {
			gone = append(gone, path)
		}
	}
	for _, path := range slices.Sorted(slices.Values(gone)) {
		row(path, "", "not in the rules any more")
	}
	slices.SortStableFunc(rows, func(a, b ruleView) int {
		return cmp.Or(cmp.Compare(b.DeniedSum+b.WouldBe, a.DeniedSum+a.WouldBe),
			cmp.Compare(b.AdmittedSum, a.AdmittedSum))
	})
	v.More = max(0, len(rows)-mostRules)
	rows = rows[:len(rows)-v.More]
	slices.SortFunc(rows, func(a, b ruleView) int {
		return cmp.Compare(order[a.Path], order[b.Path])
	})
	v.Rules = rows
	v.Shadows = slices.ContainsFunc(rows, func(r ruleView) bool { return r.Seen+r.Unknown > 0 })
}

// noteOf says what is special about a rule.
func noteOf(r rules.Rule) string {
	var notes []string
	switch {
	case r.Limit == hybrid.Unlimited:
	case r.Percent == 0:
		notes = append(notes, "shadow: it only counts")
	case r.Percent < 100:
		notes = append(notes, fmt.Sprintf("in force for %g %%", r.Percent))
	}
	if r.Trial != nil {
		notes = append(notes, fmt.Sprintf("trial %s for %g %%", r.Trial.Text, r.Trial.Percent))
	}
	return strings.Join(append(notes, r.Counted...), ", ")
}

// anyRule has keys of all rules.
const anyRule = "\x00"

// fair reports whether the index of some key is known.
func fair(keys []keyView) bool {
	return slices.ContainsFunc(keys, func(k keyView) bool { return k.Fairness != "" })
}

// keys are the most limited keys of this process, or those of one rule.
func (l *Live) keys(
	r *rules.Rules, domain string, most []hybrid.DeniedKey, rule string,
) []keyView {
	var list []keyView
	for _, k := range most {
		row := keyView{Denied: k.Denied, Error: k.Error}
		b, ok := bucketOf(r, domain, k)
		if rule != anyRule && (!ok || b.Rule.Path != rule) {
			continue
		}
		if !ok {
			row.Descriptor, row.Note = shortened(k.Key, 80), "too long to be shown"
			list = append(list, row)
			continue
		}
		row.Descriptor, row.Rule = shortened(rules.PathOf(b.Entries...), 160), b.Rule.Path
		row.URL = keyAddress(domain, b.Rule.Path, k.Key)
		row.Explain = explainAddress(domain, rules.PathOf(b.Entries...))
		row.Ban = banAddress(domain, b)
		if rule != anyRule {
			row.Rule = ""
		} else if row.Rule != "" {
			row.RuleURL = ruleAddress("/domains/", domain, recent, row.Rule, nil)
		}
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
		if i, ok := l.fairness.of(domain, k.Key); ok && i.refills > 1 {
			row.Fairness = number(i.jain)
		}
		list = append(list, row)
	}
	return list
}

// tiles are the numbers at the top.
func (l *Live) tiles(v *domainView, total *series) []tile {
	h := &l.history
	of := "last 10 s"
	switch {
	case v.Process != "":
		of += ", of one process"
	case v.Fleet.Missing > 0:
		of += fmt.Sprintf(", of %d of %d processes", v.Fleet.Counted(), v.Fleet.Processes)
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
	tiles = append(tiles, fleetTile(v))
	lowest := math.NaN()
	if f := l.fairness.domains[v.Domain]; f != nil {
		for _, k := range f.keys {
			if k.refills > 1 && !(k.jain >= lowest) {
				lowest = k.jain
			}
		}
	}
	if !math.IsNaN(lowest) {
		tiles = append(tiles, tile{Name: "Jain's index", Value: number(lowest),
			Note: "lowest of the most limited keys"})
	}
	return tiles
}

// fleetTile is how many processes there are.
func fleetTile(v *domainView) tile {
	fleet := tile{Name: "Processes", Value: "–", Note: "none has published yet"}
	if v.Fleet.Read {
		fleet.Value = fmt.Sprint(v.Fleet.Processes)
		if fleet.Note = ""; !v.Store.Memory {
			fleet.Note = number(v.Fleet.Exchanges) + " calls to the store/s"
		}
		for _, one := range []struct {
			n    int
			text string
		}{
			{len(v.Fleet.Silent), "more, silent"}, {v.Fleet.Late, "late"},
			{v.Fleet.Slow, "with a slow store"},
		} {
			if one.n > 0 {
				fleet.Note, fleet.Class = fmt.Sprintf("%d %s", one.n, one.text), "bad"
				break
			}
		}
	}
	return fleet
}

// domainChart is of all rules, in all processes or in one.
func (l *Live) domainChart(s *series, at span, process string) chart {
	h, group := &l.history, groups[at]
	title := "All rules"
	if process != "" {
		title += ", " + process
	}
	c := chart{
		ID: "all", Title: title, Unit: "decisions/s",
		About: "What the limits have decided in each second. " +
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
func (l *Live) ruleChart(s *series, at span) chart {
	h, group := &l.history, groups[at]
	c := chart{
		ID: "rule", Title: "Decisions", Unit: "decisions/s",
		About: "What the limits in force have decided. " +
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
		ID: "jain", Title: "Jain's index of limited keys", Unit: "index, 0 to 1", Optional: true,
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
	made := newChart(c, at, 1)
	made.Empty = !slices.ContainsFunc(low, func(v float64) bool { return v < unfair })
	return made
}

// unfair is below which an index says something: the chart is left out where all are above.
const unfair = 0.9

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
