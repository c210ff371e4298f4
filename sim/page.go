package main

import (
	"fmt"
	"io"
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
		Title:     s.Name,
		Lead:      lead(first),
		Command:   d.line,
		Config:    s.Text(),
		Glossary:  words,
		Generated: fmt.Sprintf("%s, seed %d", counted(len(first.Results), "replication", "replications"), d.Seed),
	}
	if r := s.Replay(); r != nil {
		p.Warnings = append(p.Warnings, r.Warnings...)
	}
	if d.Interrupted {
		p.Warnings = append(p.Warnings, "The simulation was interrupted: the figures are of what was simulated until then.")
	}
	p.Warnings = append(p.Warnings, d.Warnings...)
	shown := []*variant{first}
	if d.Command == "compare" {
		shown = d.Variants
		p.Variants = []string{d.Variants[0].Label, d.Variants[1].Label}
		p.Tables = append(p.Tables, comparison(d))
		p.Lead += fmt.Sprintf(" %s: %s. %s: %s.", shown[0].Label, policyText(shown[0].Scenario.Policy), shown[1].Label, policyText(shown[1].Scenario.Policy))
	}
	if d.Command == "sweep" {
		t := sweepTable(d.over, d.Variants)
		p.Title = "Sweep of " + d.over + ": " + p.Title
		p.Sweep = sweepCharts(d)
		p.Tables = append(p.Tables, report.Table{Title: "Each value", Head: t.head, Rows: t.rows, Note: "The figures above and the charts are those of the first."})
	}
	if t := d.Tuning; t != nil {
		p.Title = "Tuning: " + p.Title
		p.Verdict, p.Failed = t.Verdict, t.best == nil
		p.Front = front(t)
		p.Gains, p.Notes = t.gainsText(), append(p.Notes, t.Search)
		if t.best != nil {
			p.Snippets = []report.Snippet{{Title: "Go, in hybrid.Config", Text: t.best.goText()}, {Title: "YAML, in a scenario", Text: t.best.yamlText()}}
		}
		p.Tables = append(p.Tables, tried(t))
	}
	p.Facts = facts(first, d.Command != "compare")
	p.Timeline = timeline(shown)
	p.Shares = shares(shown)
	p.Losses = lossChart(shown)
	return report.Write(w, p)
}

// words are what the pages of simulations use.
var words = []report.Term{
	{Term: "limit", Meaning: "Rate tokens flow into a bucket each second, and Burst of them fit. A request that is admitted takes its cost out, usually one token. In any window of T seconds at most Burst + Rate*T may be admitted, by all processes together."},
	{Term: "lease", Meaning: "the part of the bucket that a process holds and spends without asking Redis."},
	{Term: "ideal bucket", Meaning: "one exact bucket that sees the same requests at the same times and answers at once: no limiter of many processes can do better."},
	{Term: "utilisation", Meaning: "tokens admitted / tokens that the ideal bucket admits."},
	{Term: "fair share", Meaning: "what a process should get of the tokens: in proportion to what it was asked for, or, with max-min fairness, as much as everybody, if it wants so much."},
	{Term: "fairness", Meaning: "Jain's index of admitted / fair share over the processes: 1 if all are treated alike, 1/n if one of n gets everything."},
	{Term: "classic batches", Meaning: "each process fetches a fixed number of tokens and hands them out, first come, first served."},
}

func lead(v *variant) string {
	s := v.Scenario
	load := loadText(s)
	if r := s.Replay(); r != nil {
		load = fmt.Sprintf("the log %s (%s)", fileName(s.Load.Trace.File), strings.Join(r.Notes, "; "))
	}
	text := fmt.Sprintf("%s share a limit of %v. The load is %s; requests come to processes: %s. Redis is %s. The policy is %s.",
		counted(s.Processes, "process", "processes"), s.LimitOf(), load, balanceText(s), redisText(s), policyText(s.Policy))
	if s.About != "" {
		text = s.About + " " + text
	}
	return text
}

// facts are the headline figures of one variant.
func facts(v *variant, alone bool) (all []report.Fact) {
	if !alone {
		return nil // the table of differences has them
	}
	for _, name := range []string{"utilisation", "fairness", "calls_per_request", "worst_share", "latency_p99_seconds"} {
		f := figureOf(name)
		all = append(all, report.Fact{Name: f.title, Value: f.text(v.Summary[name].Mean), Note: f.note})
	}
	worst, allowed := worstExcess(v)
	excess := report.Fact{
		Name: "worst excess", Value: tokens(worst),
		Note: fmt.Sprintf("tokens over Burst + Rate*T in the worst window of any replication; promised: at most %s", tokens(allowed)),
		Bad:  worst > allowed && !v.byOutage(),
	}
	if worst > allowed && v.byOutage() {
		excess.Note += ". What the outage policy admits is not under the promise"
	}
	return append(all, excess)
}

func comparison(d *document) report.Table {
	a, b := d.Variants[0], d.Variants[1]
	t := report.Table{
		Title: "Differences", Head: []string{"figure", "A", "B", "B - A", "95 % interval", "B is"},
		Note: "Paired, replication by replication, on the same requests and faults; ~ is no difference that chance could not make.",
	}
	for _, f := range figures {
		if f.shown(a, b) {
			diff := d.Differences[f.name]
			t.Rows = append(t.Rows, []string{f.title, f.text(a.Summary[f.name].Mean), f.text(b.Summary[f.name].Mean),
				f.signed(diff.Mean), f.signed(diff.Low) + " to " + f.signed(diff.High), f.verdict(diff)})
		}
	}
	return t
}

func front(t *tuning) *report.Front {
	l := t.Constraints
	f := &report.Front{MaxCalls: l.MaxCalls, MinFairness: l.MinFairness, MinUtilisation: l.MinUtilisation}
	for _, c := range t.Candidates {
		if t.like(c) { // a cloud around the recommended one
			continue
		}
		label := c.Label
		if c.Own {
			label = "yours: " + label
		}
		f.Points = append(f.Points, report.Point{
			Label: label, Calls: c.mean(calls), Fairness: c.mean(fairness), Utilisation: c.mean(utilisation), Overshoot: c.mean(overshoot),
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
	for _, column := range sweepColumns {
		f := figureOf(column.figure)
		if !f.shown(d.Variants...) {
			continue
		}
		c := report.SweepChart{Name: f.title, Note: f.note}
		for _, v := range d.Variants {
			i := v.Summary[f.name]
			if strings.HasPrefix(f.name, "fairness") {
				i.High = min(i.High, 1)
			}
			c.Mean, c.Low, c.High = append(c.Mean, i.Mean), append(c.Low, max(i.Low, 0)), append(c.High, i.High)
		}
		s.Charts = append(s.Charts, c)
	}
	return s
}

// tried is the table of the candidates that nothing beats, and of the classic ones.
func tried(t *tuning) report.Table {
	table := report.Table{Title: "Policies", Head: []string{"policy", "calls/request", "fairness", "utilisation", "overshoot", "fails"}}
	shown, alike := t.shown()
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
	table.Note = fmt.Sprintf("Those of %d that no other one beats, yours, and what others do.", len(t.Candidates))
	if alike > 0 {
		table.Note += fmt.Sprintf(" Not listed are %d that can hardly be told from the recommended one.", alike)
	}
	return table
}

func timeline(variants []*variant) *report.Timeline {
	r := variants[0].Results[0]
	t := &report.Timeline{Step: r.Timeline.Step, Offered: r.Timeline.Offered, Ideal: r.Timeline.Ideal, Limit: r.Timeline.Limit}
	for _, v := range variants {
		t.Admitted = append(t.Admitted, v.Results[0].Timeline.Admitted)
	}
	for _, e := range r.Timeline.Events {
		t.Events = append(t.Events, report.Event{At: e.At, Until: e.Until, Text: e.Text})
	}
	t.Note = "One replication of several."
	return t
}

func shares(variants []*variant) *report.Shares {
	s := &report.Shares{Note: "The fair share is in proportion to what a process was asked for."}
	if variants[0].Scenario.Policy.Fairness == "max-min" {
		s.Note = "The fair share is as much as everybody's, if the process wants so much."
	}
	for i := range variants[0].Results[0].Processes {
		p := report.Process{Name: fmt.Sprint(i)}
		p.Offered = meanShare(variants[0], i, func(x measure.Share) float64 { return x.Offered })
		p.Fair = meanShare(variants[0], i, func(x measure.Share) float64 { return x.Fair })
		for _, v := range variants {
			p.Admitted = append(p.Admitted, meanShare(v, i, func(x measure.Share) float64 { return x.Admitted }))
		}
		if p.Offered > 0 {
			s.Processes = append(s.Processes, p)
		}
	}
	return s
}

// meanShare is the mean over replications of one figure of a process.
func meanShare(v *variant, process int, of func(measure.Share) float64) float64 {
	sum := 0.0
	for _, r := range v.Results {
		if process < len(r.Processes) {
			sum += of(r.Processes[process])
		}
	}
	return sum / float64(len(v.Results))
}

func lossChart(variants []*variant) *report.Losses {
	c := &report.Losses{Note: "Mean over the replications. What flows by while nobody wants it is lost, too."}
	add := func(l report.Loss, of func(engine.Tokens) float64) {
		for _, v := range variants {
			l.Tokens = append(l.Tokens, meanTokens(v, of))
		}
		c.Items = append(c.Items, l)
	}
	add(report.Loss{Name: "admitted", Kept: true}, func(t engine.Tokens) float64 { return t.Admitted })
	add(report.Loss{Name: "left", Note: "in the pool and in leases, at the end", Kept: true}, func(t engine.Tokens) float64 { return t.Left })
	add(report.Loss{Name: "the ideal bucket was full", Note: "for so many of them all: nobody could have used them", Kept: true, Again: true},
		func(t engine.Tokens) float64 { return t.IdealSpilt })
	for _, l := range losses {
		add(report.Loss{Name: l.name, Note: l.note}, l.of)
	}
	return c
}
