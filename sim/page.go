package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/report"
)

// writePage writes a document as a page with charts. The charts over time show
// the first replication, all others means over all of them.
func writePage(w io.Writer, d *document) error {
	first := d.Variants[0]
	if d.Tuning != nil && d.Tuning.best != nil {
		first = d.Tuning.best.variant
	}
	s := first.Scenario
	p := report.Page{
		Title:    s.Name,
		Lead:     lead(first),
		Command:  d.line,
		Config:   s.Text(),
		Glossary: words,
		Generated: fmt.Sprintf("%s, seed %d",
			counted(len(first.Results), "replication", "replications"), d.Seed),
	}
	if r := s.Replay(); r != nil {
		p.Warnings = append(p.Warnings, r.Warnings...)
	}
	if d.Note != "" {
		p.Notes = append(p.Notes, d.Note)
	}
	if d.Interrupted {
		p.Warnings = append(p.Warnings,
			"The simulation was interrupted: the figures are of what was simulated until then.")
	}
	p.Warnings = append(p.Warnings, d.Warnings...)
	played := []*variant{first}
	if d.Command == "compare" {
		played = d.Variants
	} else { // there the table of differences has them
		p.Facts = facts(first)
	}
	addVariants(&p, d)
	if d.Tuning != nil {
		addTuning(&p, d.Tuning)
	}
	p.Timeline = timeline(played)
	p.Shares = shares(played)
	p.Bars = []report.Bars{latencyBars(played), lossBars(played)}
	p.Tables = append(p.Tables, breakdownTables(played)...)
	if manyKeys(first.Results[0]) {
		addKeys(&p, played)
	}
	return report.Write(w, p)
}

// addVariants adds what a comparison or a sweep has of its variants.
func addVariants(p *report.Page, d *document) {
	switch {
	case d.Command == "compare":
		for _, v := range d.Variants {
			p.Variants = append(p.Variants, v.Label)
			p.Lead += fmt.Sprintf(" %s: %s.", v.Label, policyText(v.Scenario.Policy))
		}
		t := comparison(d)
		t.Title, t.First = "Differences", true
		t.Note = "Paired, replication by replication, on the same requests and faults; " +
			"~ is no difference that chance could not make."
		p.Tables = append(p.Tables, t)
	case d.over != "":
		p.Title = strings.ToUpper(d.Command[:1]) + d.Command[1:] + " of " + d.over + ": " + p.Title
		p.Sweep = sweepCharts(d)
		t := sweepTable(d)
		t.Title = "Each value"
		t.Note = "The tiles, and what follows the charts of values, are of the first."
		p.Tables = append(p.Tables, t)
	}
}

// addTuning adds what a search has found.
func addTuning(p *report.Page, t *tuning) {
	p.Title = "Tuning: " + p.Title
	p.Verdict, p.Failed = t.Verdict, t.best == nil
	p.Front = front(t)
	p.Gains, p.Notes = t.gainsText(), append(p.Notes, t.Search)
	if t.best != nil {
		p.Snippets = []report.Snippet{
			{Title: "Go, in hybrid.Config", Text: t.best.goText()},
			{Title: "YAML, in a scenario", Text: t.best.yamlText()},
		}
	}
	p.Tables = append(p.Tables, tried(t))
}

// addKeys adds what is known of each of many keys.
func addKeys(p *report.Page, played []*variant) {
	p.Bars = append([]report.Bars{keyBars(played)}, p.Bars...)
	for _, v := range played {
		t := worstKeys(v.Results, mostRows)
		t.Title = "Keys that got least"
		if len(played) > 1 {
			t.Title += ", " + v.Label
		}
		t.Note = "Of what an ideal limit of their own admits, in any of the replications."
		p.Tables = append(p.Tables, t)
	}
}

// words are what the pages of simulations use.
var words = []report.Term{
	{Term: "limit", Meaning: "Rate tokens flow into a bucket each second, and Burst of them fit. " +
		"A request that is admitted takes its cost out, usually one token. In any window of " +
		"T seconds at most Burst + Rate*T may be admitted, by all processes together."},
	{Term: "key", Meaning: "what has a limit of its own, such as a tenant."},
	{Term: "lease", Meaning: "the part of the bucket that a process holds and spends without " +
		"asking Redis."},
	{Term: "ideal limit", Meaning: "one exact limit of the same kind that sees the same " +
		"requests at the same times and answers at once: no limiter of many processes can do " +
		"better."},
	{Term: "utilisation", Meaning: "tokens admitted / tokens that the ideal limit admits."},
	{Term: "fair share", Meaning: "what a process should get of the tokens: in proportion to what " +
		"it was asked for, or, with max-min fairness, as much as everybody, if it wants so much."},
	{Term: "fairness", Meaning: "Jain's index of admitted / fair share over the processes: 1 if all " +
		"are treated alike, 1/n if one of n gets everything. Over keys: of admitted / what the " +
		"ideal limit of each admits."},
	{Term: "classic batches", Meaning: "each process fetches a fixed number of tokens and hands " +
		"them out, first come, first served."},
}

func lead(v *variant) string {
	s := v.Scenario
	load := loadText(s)
	if r := s.Replay(); r != nil {
		load = fmt.Sprintf("the log %s (%s)", fileName(s.Load.Trace.File), strings.Join(r.Notes, "; "))
	}
	var limits []string
	for _, l := range s.Limits() {
		limits = append(limits, limitText(l))
	}
	text := fmt.Sprintf("%s share a limit of %s. The load is %s; requests come to processes: %s. "+
		"Redis is %s. The policy is %s.", processesText(s), strings.Join(limits, ", and of "), load,
		balanceText(s),
		redisText(s), policyText(s.Policy))
	if s.About != "" {
		text = s.About + " " + text
	}
	return text
}

// facts are the headline figures of one variant.
func facts(v *variant) (all []report.Fact) {
	value := func(name string) string { return figureOf(name).text(v.Summary[name].Mean) }
	requests := v.mean(func(r *engine.Result) float64 { return float64(r.Requests) })
	for _, name := range []string{"admitted", "denied"} {
		all = append(all, report.Fact{Name: figureOf(name).title, Value: value(name), Note: fmt.Sprintf(
			"%s of all; %s tokens", percent(v.Summary[name].Mean/max(requests, 1)),
			value("tokens_"+name))})
	}
	all[1].Note += "; an ideal limit denies " + value("ideal_denied")
	names := []string{"utilisation", "fairness", "worst_share", "calls_per_request",
		"calls_per_second", "redis_cpu", "latency_p99_seconds"}
	if manyKeys(v.Results[0]) {
		names = append(names[:3:3], append([]string{"key_fairness", "worst_key"}, names[3:]...)...)
	}
	for _, name := range names {
		f := figureOf(name)
		all = append(all, report.Fact{Name: strings.TrimSpace(f.title), Value: value(name), Note: f.note})
	}
	worst, allowed := worstExcess(v)
	excess := report.Fact{
		Name: "worst excess", Value: tokens(worst), Bad: worst > allowed && !v.byOutage(),
		Note: "tokens over what the limit promises in the worst window of any replication; " +
			"promised: at most " + tokens(allowed),
	}
	if worst > allowed && v.byOutage() {
		excess.Note += ". What the outage policy admits is not under the promise"
	}
	return append(all, excess)
}

func front(t *tuning) *report.Front {
	l := t.Constraints
	f := &report.Front{MaxCalls: l.MaxCalls, MinFairness: l.MinFairness,
		MinUtilisation: l.MinUtilisation}
	for _, c := range t.Candidates {
		if t.like(c) { // a cloud around the recommended one
			continue
		}
		label := c.Label
		if c.Own {
			label = "yours: " + label
		}
		f.Points = append(f.Points, report.Point{
			Label: label, Calls: c.mean(calls), Fairness: c.mean(fairness),
			Utilisation: c.mean(utilisation), Overshoot: c.mean(overshoot),
			OnFront: c.OnFront, Recommended: c.Recommended, Classic: c.Classic, Qualifies: len(c.Fails) == 0,
		})
	}
	return f
}

// sweepCharts are the figures of the table, value by value.
func sweepCharts(d *document) *report.Sweep {
	s := &report.Sweep{Over: d.over}
	for _, v := range d.Variants {
		s.Values = append(s.Values, v.Label)
	}
	list, _ := swept(d.Variants)
	for _, f := range list {
		c := report.SweepChart{Name: f.title, Note: f.note}
		for _, v := range d.Variants {
			i := v.Summary[f.name]
			c.Mean, c.Low, c.High = append(c.Mean, i.Mean), append(c.Low, i.Low), append(c.High, i.High)
		}
		s.Charts = append(s.Charts, c)
	}
	return s
}

// tried is the table of the candidates that nothing beats, and of the classic ones.
func tried(t *tuning) report.Table {
	table := report.Table{Title: "Policies", Head: []string{"policy", "calls/request", "fairness",
		"utilisation", "overshoot", "fails"}}
	shown, alike, once := t.shown()
	for _, c := range shown {
		if c.Recommended {
			table.Marked = append(table.Marked, len(table.Rows))
		}
		row := c.row()
		if row[0] = c.Label; c.Own {
			row[0] = "yours: " + c.Label
		}
		table.Rows = append(table.Rows, row)
	}
	table.Note = fmt.Sprintf("Those of %d that no other one beats, yours, and what others do.",
		len(t.Candidates))
	if alike > 0 {
		table.Note += fmt.Sprintf(" Not listed are %d that can hardly be told from the recommended one.",
			alike)
	}
	if once > 0 {
		table.Note += fmt.Sprintf(" Not listed are %d that were played once, which is too rarely to be beaten.",
			once)
	}
	return table
}

func timeline(variants []*variant) *report.Timeline {
	r := variants[0].Results[0]
	if r.Timeline.Step == 0 { // of a trial, after an interrupt
		return nil
	}
	t := &report.Timeline{Step: r.Timeline.Step, Offered: r.Timeline.Offered, Ideal: r.Timeline.Ideal,
		Limit: r.Timeline.Limit}
	for _, v := range variants {
		t.Admitted = append(t.Admitted, v.Results[0].Timeline.Admitted)
	}
	for _, e := range r.Timeline.Events {
		t.Events = append(t.Events, report.Event(e))
	}
	t.Note = "One replication of several."
	return t
}

func shares(variants []*variant) *report.Shares {
	note := "The fair share is in proportion to what a process was asked for."
	if variants[0].Scenario.Policy.Fairness == "max-min" {
		note = "The fair share is as much as everybody's, if the process wants so much."
	}
	return &report.Shares{Processes: fleet(variants...), Note: note}
}

// bars are amounts in the mean over the replications.
type bars struct {
	report.Bars
	variants []*variant
}

func (b *bars) add(item report.Item, of func(*engine.Result) float64) {
	for _, v := range b.variants {
		item.Values = append(item.Values, v.mean(of))
	}
	b.Items = append(b.Items, item)
}

func lossBars(variants []*variant) report.Bars {
	b := bars{report.Bars{Name: "losses", Title: "Where tokens were lost", Unit: "tokens",
		Lead: "Tokens that the limit allowed and nobody was given, by where they went, in the mean " +
			"over the replications. What flows by while nobody wants it is lost, too.",
		Rest: "Nothing was lost otherwise"}, variants}
	add := func(l report.Item, of func(engine.Tokens) float64) {
		b.add(l, func(r *engine.Result) float64 { return of(r.Tokens) })
		for i, x := range b.Items[len(b.Items)-1].Values {
			if x < 0.5 && x > -0.5 { // rounding, or as good as nothing
				b.Items[len(b.Items)-1].Values[i] = 0
			}
		}
	}
	add(report.Item{Name: "admitted", Kept: true}, func(t engine.Tokens) float64 { return t.Admitted })
	add(report.Item{Name: "left", Note: "in the pool and in leases, at the end", Kept: true},
		func(t engine.Tokens) float64 { return t.Left })
	add(report.Item{Name: "an ideal limit would lose, too", Kept: true, Again: true,
		Note: "for so many of them all: nobody could have used them"},
		func(t engine.Tokens) float64 { return t.IdealSpilt })
	for _, l := range engine.Losses {
		add(report.Item{Name: l.Name, Note: l.Note}, l.Of)
	}
	return b.Bars
}

// latencyBars are a histogram of the times to decisions.
func latencyBars(variants []*variant) report.Bars {
	b := bars{report.Bars{Name: "latencies", Title: "How long decisions take", Unit: "requests",
		Lead: "Requests by the time from the request to its verdict, in the mean over the " +
			"replications. A lease decides at once; the others wait for Redis."}, variants}
	all, sum := map[float64]int64{0: 0}, int64(0)
	for _, v := range variants {
		for _, r := range v.Results {
			for _, l := range r.Latencies {
				all[l.UpTo] += l.Requests
				sum += l.Requests
			}
		}
	}
	from := -1.0
	bounds := slices.Sorted(maps.Keys(all))
	for i, upTo := range bounds {
		if upTo > 0 && i+1 < len(bounds) && all[upTo]*10_000 < sum {
			continue // too few for a bar of their own: they are in the next one
		}
		item := report.Item{Name: "within " + span(upTo)}
		if upTo == 0 {
			item = report.Item{Name: "at once", Kept: true}
		}
		above := from
		b.add(item, func(r *engine.Result) float64 {
			n := int64(0)
			for _, l := range r.Latencies {
				if l.UpTo > above && l.UpTo <= upTo {
					n += l.Requests
				}
			}
			return float64(n)
		})
		from = upTo
	}
	return b.Bars
}

// keyBars are a histogram of what keys got of what they should have had.
func keyBars(variants []*variant) report.Bars {
	b := bars{report.Bars{Name: "keys", Title: "What keys got", Unit: "keys",
		Lead: "Keys by the part that they got of what an ideal limit of their own admits, in the " +
			"mean over the replications."}, variants}
	for i := len(measure.KeyShareSteps) - 1; i >= 0; i-- {
		item := report.Item{Name: "all of it", Kept: true}
		if i+1 < len(measure.KeyShareSteps) {
			item = report.Item{Name: fmt.Sprintf("%.0f to %.0f %%",
				100*measure.KeyShareSteps[i], 100*measure.KeyShareSteps[i+1])}
		}
		b.add(item, func(r *engine.Result) float64 { return float64(r.Keys.Spread[i]) })
	}
	return b.Bars
}
