package main

import (
	"fmt"
	"slices"
	"time"
)

// A Goal is what the library wants to reach, and whether this run says so.
type Goal struct {
	Text, Measured string
	Verdict        string // yes, no, or not measured
}

// A goal is reached if the median is. Its spread stands beside it.

func atMost(text string, got Spread, limit float64, unit string) Goal {
	return judge(text, got, unit, got.Median <= limit)
}

func atLeast(text string, got Spread, limit float64, unit string) Goal {
	return judge(text, got, unit, got.Median >= limit)
}

func judge(text string, got Spread, unit string, reached bool) Goal {
	g := Goal{text, got.String() + unit, "no"}
	if got == (Spread{}) {
		g.Measured, g.Verdict = "", "not measured"
	} else if reached {
		g.Verdict = "yes"
	}
	return g
}

// Goals judges a report.
func (r Report) Goals() []Goal {
	return slices.Concat(r.localGoals(), r.redisGoals(), r.delayedGoals(), r.costGoals())
}

func (r Report) localGoals() []Goal {
	key, rate := r.local(keyName), r.local(rateName)
	one := func(s LocalSample) float64 { return s.One }
	single := func(s LocalSample) float64 { return s.Rate }
	many, _ := r.row(manyLocal)
	return []Goal{
		atMost("`Key.Allow`, one goroutine: at most 0.35 x `rate.Limiter.Allow`",
			ratios(key, one, rate, one), 0.35, " x"),
		atMost("`Limiter.Allow` among 100,000 keys: at most 0.9 x `rate.Limiter.Allow` through a "+
			"map with RWMutex ("+rationHeld.Name+")",
			ratios(many.result(mapName).Samples, rateOf,
				many.result(rationHeld.Name).Samples, rateOf), 0.9, " x"),
		r.allocationGoal(),
		atLeast("two goroutines, one hot key: at least 1.0 x one goroutine's throughput",
			ratios(key, func(s LocalSample) float64 { return s.Same }, key, single), 1.0, " x"),
		atLeast("two goroutines, different keys: at least 1.7 x one goroutine's throughput",
			ratios(key, func(s LocalSample) float64 { return s.Apart }, key, single), 1.7, " x"),
	}
}

func (r Report) allocationGoal() Goal {
	g := Goal{
		Text:     "allocations on warm paths, allowed or denied, `Allow`, `AllowN`, `Take`: 0",
		Measured: "0", Verdict: "yes",
	}
	if len(r.Allocations) == 0 {
		g.Measured, g.Verdict = "", "not measured"
	}
	for _, a := range r.Allocations {
		if a.Allocs > 0 {
			g.Measured, g.Verdict = fmt.Sprintf("%s: %.0f", a.Path, a.Allocs), "no"
		}
	}
	return g
}

func callsOf(s Sample) float64  { return s.Calls }
func perKeyOf(s Sample) float64 { return s.PerKey }

func (r Report) redisGoals() []Goal {
	hot, _ := r.row(hot64)
	zipf, _ := r.row(zipf64)
	sparse, _ := r.row(sparse64)
	first, _ := r.row(newEven64)
	later, _ := r.row(newLater64)
	empty, _ := r.row(exhausted64)
	return []Goal{
		atLeast("hot key, 64 goroutines: at least 100 x the best plain Redis limiter",
			hot.against(ration.Name, hot.bestPlain()), 100, " x"),
		atMost("hot key, 64 goroutines: at most 0.0005 Redis calls per decision",
			over(hot.result(ration.Name).Samples, callsOf), 0.0005, ""),
		atLeast("Zipf 1.1 over 10,000 keys, 64 goroutines: at least 50 x the best plain one",
			zipf.against(ration.Name, zipf.bestPlain()), 50, " x"),
		atLeast("100,000 keys with a few requests a second each: at least 1.5 x plain over "+
			"AutoPipeline",
			sparse.against(ration.Name, sparse.result(pipelinedName).Samples), 1.5, " x"),
		atMost("10,000 new keys, 64 goroutines: at most 1.2 Redis calls for a key in the first 200 ms",
			over(first.result(ration.Name).Samples, perKeyOf), 1.2, ""),
		atLeast("the same for 3 s: at least 50 x the best plain one",
			later.against(ration.Name, later.bestPlain()), 50, " x"),
		atMost("exhausted limit: no Redis call per denial (at most 0.0005, which are renewals)",
			over(empty.result(ration.Name).Samples, callsOf), 0.0005, ""),
		atLeast("exhausted limit: at least 100 x the best plain one",
			empty.against(ration.Name, empty.bestPlain()), 100, " x"),
	}
}

func (r Report) delayedGoals() []Goal {
	hot, _ := r.row(delayedHot64)
	cold, _ := r.row(delayedCold)
	limit := r.RoundTrip.Median + float64(500*time.Microsecond)/1000
	p50, p99 := func(s Sample) float64 { return s.P50 }, func(s Sample) float64 { return s.P99 }
	first := fmt.Sprintf("1 ms away: a cold key's first decision (median) at most one round trip, "+
		"here %s µs, + 0.5 ms", number(r.RoundTrip.Median))
	goals := []Goal{
		atMost("1 ms away, warm: p99 at most 20 µs",
			over(hot.result(ration.Name).Samples, p99), 20, " µs"),
		atMost(first, over(cold.result(ration.Name).Samples, p50), limit, " µs"),
	}
	worst := Goal{
		Text:    "1 ms away: no lease size makes the hot key slower than the best plain one",
		Verdict: "not measured",
	}
	least := 0.0
	for _, x := range hot.Results {
		if !x.Ours {
			continue
		}
		if x.Refused != "" {
			worst.Measured, worst.Verdict = x.Name+" refused: "+x.Refused, "no"
			return append(goals, worst)
		}
		got := hot.against(x.Name, hot.bestPlain())
		if got != (Spread{}) && (worst.Measured == "" || got.Median < least) {
			least = got.Median
			worst = judge(worst.Text, got, " x with "+x.Name, least >= 1)
		}
	}
	return append(goals, worst)
}

// idleGoal is when a key counts as idle: what it holds of a calm key has been
// parked then, and is there for 15 s at least.
const idleGoal = 5 * time.Second

func (r Report) costGoals() []Goal {
	cost := func(holders int) Spread {
		c := r.Costs[holders]
		return ratios(c, func(c Cost) float64 { return c.Exchange }, c,
			func(c Cost) float64 { return c.Control })
	}
	var process, inRedis Spread
	for _, m := range r.Memory {
		if m.Subject == ration.Name && m.Refused == "" {
			process = spread(values(m.Idle, idleGoal.String()))
			inRedis = spread(values(m.Redis, 8))
		}
	}
	return []Goal{
		atMost("an exchange on the server: at most 2.5 x the control script with 8 holders",
			cost(8), 2.5, " x"),
		atMost("an exchange on the server: at most 4 x the control script with 64 holders",
			cost(64), 4, " x"),
		atMost(fmt.Sprintf(
			"memory: at most 256 B per idle key in the process (%v after its last request)",
			idleGoal), process, 256, " B"),
		atMost("memory: at most 1 KiB per key in Redis with 8 holders", inRedis, 1024, " B"),
	}
}

// values is the value of a key, if there is one.
func values[K comparable](m map[K]float64, key K) []float64 {
	if x, ok := m[key]; ok {
		return []float64{x}
	}
	return nil
}
