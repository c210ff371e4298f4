package main

import (
	"fmt"
	"io"
	"math"

	"github.com/seed13b07268/ration/sim/hunt"
	"github.com/seed13b07268/ration/sim/report"
	"github.com/seed13b07268/ration/sim/scenario"
)

// dimension is one along which scenes differ.
type dimension struct {
	name  string
	log   bool
	names []string // of kinds; of is then an index
	of    func(*hunt.Scene) float64
}

var dimensions = []dimension{
	{"load, times the limit", true, nil, func(s *hunt.Scene) float64 {
		return s.Offered()
	}},
	{"processes", true, nil, func(s *hunt.Scene) float64 { return float64(s.Processes) }},
	{"limit of all keys, tokens/s", true, nil, func(s *hunt.Scene) float64 { return s.Capacity() }},
	{"burst, s of rate", true, nil,
		func(s *hunt.Scene) float64 {
			l := s.Limits()[0].Limit
			return float64(l.Burst) / scenario.Mean(l)
		}},
	{"burst for each process, tokens", true, nil,
		func(s *hunt.Scene) float64 { return float64(s.Limits()[0].Limit.Burst) / float64(s.Processes) }},
	{"round trip, ms", true, nil, func(s *hunt.Scene) float64 { return s.Redis.Latency.Seconds() * 1e3 }},
	{"rate x round trip / burst", true, nil, func(s *hunt.Scene) float64 {
		l := s.Limits()[0].Limit
		return scenario.Mean(l) * s.Redis.Latency.Seconds() / float64(l.Burst)
	}},
	{"skew of processes", false, nil, func(s *hunt.Scene) float64 { return s.Balance.Skew }},
	{"keys", true, nil, func(s *hunt.Scene) float64 { return float64(s.Limits()[0].Number) }},
	{"arrivals", false, hunt.Kinds, func(s *hunt.Scene) float64 { return float64(s.Kind()) }},
	{"callers", false, hunt.Manners, func(s *hunt.Scene) float64 { return float64(s.Manner()) }},
	{"faults", false, hunt.Troubles, func(s *hunt.Scene) float64 { return float64(s.Trouble()) }},
}

// huntPage writes the report as a page: a table, and where the holes are.
func huntPage(w io.Writer, r *hunt.Report, command string) error {
	short := len(r.Ranked())
	p := report.Page{
		Title: "Where ration loses",
		Lead: fmt.Sprintf("%s scenes drawn at random (seed %d), each played %d times with the default policy and with a call of Redis for each request, on the same requests.",
			thousands(len(r.Judgements)), r.Seed, hunt.Replications),
		Verdict: fmt.Sprintf("%s of them fall short in something.", thousands(short)),
		Failed:  short > 0,
		Facts: []report.Fact{
			{Name: "scenes", Value: thousands(len(r.Judgements)), Note: "drawn at random; docs/hunt.md has the distribution"},
			{Name: "fall short", Value: thousands(short), Note: "surely, by 95 % intervals", Bad: short > 0},
			{Name: "calls per request", Value: four(r.MedianCalls()), Note: "median over all scenes"},
			{Name: "excess", Value: "none", Note: "no window above Burst + Rate*T, with grants counted at their debit"},
		},
		Scatters: scatters(r),
		Tables:   []report.Table{{Title: "What falls short", Head: []string{"surely short in", "scenes", "worst"}, Rows: huntRows(r)}, worstTable(r)},
		Command:  command, Glossary: words,
		Generated: fmt.Sprintf("%d replications of each scene, seed %d", hunt.Replications, r.Seed),
	}
	if len(r.Shrunk) > 0 {
		p.Config = huntYAML(r.Shrunk[0])
	}
	return report.Write(w, p)
}

// scatters show the points of utilisation that are lost against each dimension.
func scatters(r *hunt.Report) *report.Scatters {
	s := &report.Scatters{
		Title: "Utilisation lost against each dimension",
		Lead:  "Each point is a scene: how much less of the limit the default policy admits than a call for each request, at least. Points above the line fall short.",
		Value: "utilisation surely lost, points", Threshold: 1,
	}
	for _, d := range dimensions {
		c := report.Scatter{Dimension: d.name, Log: d.log, Names: d.names}
		for _, j := range r.Judgements {
			l := j.Losses[hunt.Utilisation]
			c.Points = append(c.Points, report.ScatterPoint{
				X: d.of(j.Scene), Y: 100 * math.Max(l.Sure(), 0), Short: l.Short, Label: j.Scene.Name + ": " + describe(j),
			})
		}
		s.Charts = append(s.Charts, c)
	}
	return s
}

// worstTable lists the worst scenes, made simpler.
func worstTable(r *hunt.Report) report.Table {
	t := report.Table{Title: "The worst scenes, made simpler", Head: []string{"scene", "what it is", "falls short in", "most tokens lost"}}
	for _, j := range r.Shrunk {
		name, part := j.Cause()
		t.Rows = append(t.Rows, []string{j.Scene.Name, describe(j), shortOf(j), name + " " + percent(part)})
	}
	return t
}
