package report

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Pages like those of the simulator. The figures are made up, but of the sizes
// that it measures.

// fleetPage is a run of n processes with Zipf's skew, of one or two variants.
func fleetPage(n int, variants ...string) Page {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	p := Page{
		Title:    fmt.Sprintf("%d processes share 1,000 requests a second", n),
		Lead:     fmt.Sprintf("A fleet of %d processes was simulated for 60 seconds of virtual time. Together they were asked for twice what the limit allows, most of it at a few of them, while Redis was away for five seconds and one process crashed.", n),
		Verdict:  "The limit held: no window of time admitted more than burst + rate × time.",
		Variants: variants,
		Facts: []Fact{
			{Name: "Worst excess over the limit", Value: "none", Note: "Over any stretch of time, no more was admitted than the limit allows."},
			{Name: "Utilisation", Value: "99.8 %", Note: "Of the tokens that one ideal central bucket would have admitted."},
			{Name: "Fairness", Value: "0.9994", Note: "Jain's index: 1 if all processes had the same part of their requests admitted."},
			{Name: "Redis calls for each request", Value: "0.0248", Note: "One call for about 40 requests."},
			{Name: "Decision time, p99", Value: "2.4 ms", Note: "Of requests that asked Redis; the others decide in under a microsecond.", Bad: n == 64},
			{Name: "Decisions while Redis was away", Value: "9,996", Note: "Made from what each process last leased."},
		},
		Command:   "go run ./sim run -html report.html sim/scenarios/outage.yaml",
		Config:    "name: outage\nduration: 60s\nprocesses: " + fmt.Sprint(n) + "\nlimit: {rate: 1000, burst: 1000}\ntraffic:\n  rate: 2000\n  skew: 1 # Zipf\noutages:\n  - {at: 20s, for: 5s}\n",
		Glossary:  glossary,
		Generated: "ration, go1.26, 2 cores, seed 1",
	}
	t := &Timeline{Step: 0.1}
	for i := range 600 {
		now := float64(i) * t.Step
		wave := 2000 + 500*math.Sin(now/8)
		t.Offered = append(t.Offered, wave+60*random.NormFloat64())
		limit := 1000.0
		if now >= 40 {
			limit = 600
		}
		t.Limit = append(t.Limit, limit)
		ideal := limit
		if i < 5 {
			ideal = 2000
		}
		t.Ideal = append(t.Ideal, ideal+5*random.NormFloat64())
	}
	for v := range max(1, len(variants)) {
		var admitted []float64
		for i, ideal := range t.Ideal {
			if now := float64(i) * t.Step; now > 20 && now < 25 {
				ideal *= 0.93
			}
			admitted = append(admitted, ideal*(1-0.05*float64(v))+float64(25+40*v)*random.NormFloat64())
		}
		t.Admitted = append(t.Admitted, admitted)
	}
	t.Events = []Event{
		{At: 20, Until: 25, Text: "Redis does not answer"},
		{At: 20.4, Text: "process 3 crashes"},
		{At: 40, Text: "the limit is lowered to 600/s"},
	}
	p.Timeline = t
	if n == 3 { // far too much is asked for, and much happens
		for i := range t.Offered {
			t.Offered[i] *= 20
		}
		for i := range 100 {
			t.Events = append(t.Events, Event{At: float64(i) * 0.6, Text: fmt.Sprintf("process %d crashes", 1+i%3)})
		}
	}

	p.Shares = &Shares{Note: "The fair share divides what the ideal limit admitted by " +
		"what each process asked for."}
	sum := 0.0
	for i := range n {
		sum += 1 / float64(i+1)
	}
	for i := range n {
		offered := 120000 / float64(i+1) / sum
		process := Process{Name: fmt.Sprintf("p%d", i+1), Offered: offered, Fair: offered / 2}
		if n == 3 {
			process.Offered *= 20
		}
		for v := range max(1, len(variants)) {
			noise := (0.004 + 0.04*float64(v)) * random.NormFloat64() * math.Sqrt(1+float64(i)/8)
			process.Admitted = append(process.Admitted, max(0, process.Fair*(1+noise)-float64(i%7)*2))
		}
		p.Shares.Processes = append(p.Shares.Processes, process)
	}

	two := func(a, b float64) []float64 { return []float64{a, b}[:max(1, len(variants))] }
	p.Bars = []Bars{{Name: "losses", Title: "Where tokens were lost", Rest: "Nothing was lost otherwise", Items: []Item{
		{Name: "Admitted", Values: two(59876, 56800), Kept: true},
		{Name: "Still there at the end", Values: two(310, 280), Kept: true},
		{Name: "Pool overflow", Note: "The shared bucket was full while it was refilled.", Values: two(412, 80)},
		{Name: "Local overflow", Note: "A process's own part was full while it was refilled.", Values: two(96, 0)},
		{Name: "Expired", Note: "A lease ended before its tokens were used.", Values: two(188, 2700)},
		{Name: "Forfeited by crashes", Note: "A crashed process cannot hand its tokens back.", Values: two(35, 41)},
		{Name: "Other", Values: two(1.25, math.NaN())},
	}}}
	p.Tables = []Table{{
		Title: "Variants side by side",
		Note:  "The mean of three seeds.",
		Head:  []string{"policy", "utilisation", "fairness", "calls/request", "p50", "p99", "excess", "remark"},
		Rows: [][]string{
			{"shares, refresh 50 ms to 250 ms", "0.9975-0.9979", "0.9992", "0.0248", "310 ns", "2.4 ms", "none", "default"},
			{"batches of 100", "0.9995", "0.9834", "0.5750", "1.1 ms", "3.9 ms", "none", "first come, first served"},
			{"every request asks", "0.9999", "0.9932", "0.7825", "1.2 ms", "4.2 ms", "0.4", "exact"},
		},
		Marked: []int{0},
	}}
	return p
}

// tunePage is a search over n policies.
func tunePage(n int) Page {
	random := rand.New(rand.NewPCG(uint64(n), 2))
	p := Page{
		Title:   "Which lease size for this traffic?",
		Lead:    "60 policies were simulated with the same traffic: ten processes, twice the limit of 1,000 requests a second. Each was run with three seeds.",
		Verdict: "Recommended: batch 40, refresh 50 ms to 250 ms. It makes 0.025 calls a request with a fairness of 0.9992; of all that qualify, none makes fewer calls without being less fair.",
		Command: "go run ./sim tune -html tune.html -max-calls 0.05 sim/scenarios/steady.yaml",
		Facts: []Fact{
			{Name: "Redis calls for each request", Value: "0.025", Note: "One call for 40 requests."},
			{Name: "Fairness", Value: "0.9992", Note: "1 if all processes had the same part admitted."},
			{Name: "Utilisation", Value: "0.9976", Note: "Of an ideal central bucket."},
		},
		Glossary: glossary,
		Front:    &Front{MaxCalls: 0.05, MinFairness: 0.99, MinUtilisation: 0.97},
	}
	f := p.Front
	for i := range n {
		calls := 0.004 * math.Pow(100, float64(i)/float64(n))
		point := Point{
			Label:       fmt.Sprintf("shares, batch %d, refresh %d ms", 10+i*3, 20+i*5),
			Calls:       calls,
			Fairness:    0.9996 - 0.00012/calls - 0.012*random.ExpFloat64()*float64(i%4)/3,
			Utilisation: 0.9992 - 0.00015/calls - 0.01*random.ExpFloat64(),
		}
		f.Points = append(f.Points, point)
	}
	f.Points = append(f.Points,
		Point{Label: "batches of 10", Calls: 0.5750, Fairness: 0.9837, Utilisation: 0.9996, Classic: true},
		Point{Label: "batches of 100", Calls: 0.52, Fairness: 0.9834, Utilisation: 0.9995, Classic: true},
		Point{Label: "batches of 1,000", Calls: 0.09, Fairness: 0.962, Utilisation: 0.9811, Classic: true},
		Point{Label: "every request asks", Calls: 0.7825, Fairness: 0.9932, Utilisation: 0.9999, Overshoot: 0.4, Classic: true})
	best := 0.0
	for i := range f.Points { // by calls, within each kind
		point := &f.Points[i]
		point.Qualifies = point.Calls <= f.MaxCalls && point.Fairness >= f.MinFairness && point.Utilisation >= f.MinUtilisation
		if point.Fairness > best && !point.Classic {
			best, point.OnFront = point.Fairness, true
		}
	}
	for i := range f.Points {
		if f.Points[i].OnFront && f.Points[i].Qualifies {
			f.Points[i].Recommended = true
			break
		}
	}
	return p
}

// sweepPage is a setting with five values.
func sweepPage() Page {
	return Page{
		Title: "Sweep of max_refresh: steady",
		Lead:  "Ten processes share a limit of 1000/s.",
		Notes: []string{"Stamps of whole seconds are spread within their second."},
		Facts: []Fact{{Name: "Utilisation", Value: "99.9 %"}},
		Sweep: &Sweep{Over: "max_refresh", Values: []string{"50ms", "100ms", "250ms", "1s", "4s"}, Charts: []SweepChart{
			{Name: "Redis calls / request", Note: "exchanges with Redis", Mean: []float64{0.11, 0.057, 0.023, 0.009, 0.0087},
				Low: []float64{0.1, 0.055, 0.022, 0.008, 0.008}, High: []float64{0.12, 0.059, 0.024, 0.01, 0.0094}},
			{Name: "fairness", Mean: []float64{0.9999, 0.9998, math.NaN(), 0.9988, 0.9957}},
			{Name: "worst excess", Mean: make([]float64, 5)},
		}},
		Glossary: glossary,
	}
}

// huntPage is n scenes drawn at random. What is lost grows where round trips are long and
// bursts small, and is worst with many keys.
func huntPage(n int) Page {
	random := rand.New(rand.NewPCG(uint64(n), 3))
	log := func(low, high float64) float64 { return low * math.Pow(high/low, random.Float64()) }
	traffic := []string{
		"steady", "in bursts", "a daily wave", "a sudden crowd", "moving from place to place",
	}
	s := &Scatters{
		Title: "Where tokens are lost",
		Lead: "Each point is one scene drawn at random, and each chart shows all scenes " +
			"along another dimension. Where triangles gather, or a bar is long, is a hole.",
		Value:     "tokens lost (% of what an ideal central bucket admits)",
		Threshold: 5,
		Charts: []Scatter{
			{Dimension: "processes", Log: true}, {Dimension: "rate (requests/s)", Log: true},
			{Dimension: "burst (s of the rate)"}, {Dimension: "round trip (ms)", Log: true},
			{Dimension: "load (offered / rate)"}, {Dimension: "skew (Zipf's exponent)"},
			{Dimension: "keys", Log: true}, {Dimension: "traffic", Names: traffic},
			{Dimension: "outage", Names: []string{"none", "one", "many"}}, {Dimension: "Redis nodes"},
		},
	}
	worst := 0.0
	for i := range n {
		x := []float64{
			math.Round(log(1, 500)), log(10, 100_000), 0.1 + 2*random.Float64(), log(0.2, 80),
			0.3 + 1.7*random.Float64(), 1.5 * random.Float64(), math.Round(log(1, 10_000)),
			float64(random.IntN(5)), float64(random.IntN(3)), float64(1 + random.IntN(3)),
		}
		lost := 0.4*random.ExpFloat64() + 0.06*x[3]/(x[2]+0.2)*random.Float64()
		if x[6] > 2000 {
			lost += 6 * random.Float64()
		}
		worst = max(worst, lost)
		label := fmt.Sprintf("scene %d: %.2f %% lost; %.0f processes, %.0f/s, burst %.2f s, "+
			"round trip %.1f ms, load %.2f, skew %.2f, %.0f keys, traffic %s",
			i+1, lost, x[0], x[1], x[2], x[3], x[4], x[5], x[6], traffic[int(x[7])])
		for c := range s.Charts {
			s.Charts[c].Points = append(s.Charts[c].Points,
				ScatterPoint{X: x[c], Y: lost, Label: label, Short: lost > s.Threshold})
		}
	}
	return Page{
		Title:    fmt.Sprintf("%d scenes drawn at random", n),
		Lead:     "Each scene was simulated for ten seconds of virtual time.",
		Facts:    []Fact{{Name: "Worst scene", Value: fmt.Sprintf("%.1f %%", worst), Bad: true}},
		Scatters: s,
		Command:  "go run ./sim hunt -n 500 -html hunt.html",
		Glossary: glossary,
	}
}

var glossary = []Term{
	{"Token", "The right to one request. A bucket holds them, and is refilled at the limit's rate."},
	{"Lease", "The part of the bucket that one process may spend by itself until it ends, without asking Redis."},
	{"Burst", "How many tokens the bucket holds at most, and so how many requests may come at once."},
	{"Jain's index", "Fairness from 0 to 1: (sum x)² / (n · sum x²), where x is the part of its requests that a process had admitted."},
	{"Utilisation", "Tokens admitted, as a part of what one ideal central bucket admits on the same arrivals."},
}

// hostilePage has text that must not become markup or script, and numbers that
// must not break what reads them.
func hostilePage() Page {
	const evil = "</script><script>document.documentElement.dataset.hacked=1</script><!--<script>\u2028'\"`${alert(1)}{{.}}" +
		"<img src=x onerror=document.documentElement.dataset.hacked=1>" + "averyveryverylongwordwithoutanyplacewhereitcouldbebrokenatalltomakethepagetoowideaverylongwordindeed"
	nan, inf := math.NaN(), math.Inf(1)
	p := Page{
		Title: evil, Lead: evil, Verdict: evil, Failed: true, Warnings: []string{evil, evil},
		Facts:    []Fact{{evil, evil, evil, true}, {"a", "b", "c", false}},
		Variants: []string{evil, "B" + evil},
		Front: &Front{MaxCalls: nan, MinFairness: inf, MinUtilisation: 0.5, Points: []Point{
			{Label: evil, Calls: nan, Fairness: 0.5, Utilisation: 0.7},
			{Label: evil, Calls: 0, Fairness: 0.5, Utilisation: 0.7, Classic: true, Recommended: true},
			{Label: evil, Calls: 0.2, Fairness: inf, Utilisation: 0.7, OnFront: true},
			{Label: evil, Calls: 0.5, Fairness: 0.9, Utilisation: -inf, Overshoot: inf, OnFront: true, Qualifies: true},
		}},
		Timeline: &Timeline{Step: 1, Note: evil,
			Offered: []float64{1, nan, 3, inf, 5}, Ideal: []float64{nan, nan}, Limit: []float64{2, 2, nan, 1, -inf},
			Admitted: [][]float64{{1, nan, 2, 1}, nil},
			Events:   []Event{{nan, nan, evil}, {1, inf, evil}, {2, nan, evil}, {2.1, 0, evil}, {99, 98, evil}}},
		Shares: &Shares{Note: evil, Processes: []Process{
			{evil, 10, 5, []float64{nan, 4}}, {evil, nan, 0, []float64{3, 4}}, {evil, inf, nan, []float64{inf, 4}}}},
		Bars: []Bars{{Name: "losses", Title: evil, Lead: evil, Unit: evil, Rest: evil, Items: []Item{
			{evil, evil, []float64{nan, 1}, false, false}, {evil, evil, []float64{inf, -5}, false, false}, {evil, evil, []float64{9, nan}, true, false}, {evil, evil, []float64{0, 0}, false, false}}}},
		Scatters: &Scatters{Title: evil, Lead: evil, Value: evil, Threshold: nan, Charts: []Scatter{
			{Dimension: evil, Log: true, Points: []ScatterPoint{
				{0, 1, evil, true}, {-1, 1, evil, true}, {inf, 1, evil, false}, {1e300, 1e300, evil, true},
				{1, nan, evil, true}, {5e-324, -1e100, evil, true}, {1e100, 1e100, evil, false}}},
			{Dimension: evil, Names: []string{evil, "", "b" + evil}, Points: []ScatterPoint{
				{-1, 1, evil, true}, {0.5, 1, evil, true}, {3, 1, evil, false}, {2, 1, evil, true}}},
			{}, {Points: []ScatterPoint{{nan, 1, evil, true}}}}},
		Gains: []string{evil}, Notes: []string{evil}, Snippets: []Snippet{{evil, evil}},
		Sweep: &Sweep{Over: evil, Values: []string{evil, "b" + evil, "c"}, Charts: []SweepChart{
			{Name: evil, Note: evil, Mean: []float64{1, nan, 1e300}, Low: []float64{inf}, High: []float64{2, 2, 2, 2}}, {Name: evil, Mean: []float64{nan}}, {}}},
		Tables:  []Table{{evil, evil, []string{evil, "n"}, [][]string{{evil, "1"}, {evil}, {"x", "2", "3"}}, []int{1, 7}, true}, {}},
		Command: evil, Config: evil, Glossary: []Term{{evil, evil}}, Generated: evil,
	}
	return p
}

// smallPage has one of each, gapsPage of nothing a figure.
func smallPage() Page {
	return Page{
		Title:    "One of each",
		Front:    &Front{Points: []Point{{Label: "only", Calls: 0, Fairness: 1, Utilisation: 1, OnFront: true, Recommended: true, Qualifies: true}}},
		Timeline: &Timeline{Step: 1, Admitted: [][]float64{{5}}},
		Shares:   &Shares{Processes: []Process{{Name: "p1", Offered: 5, Fair: 5, Admitted: []float64{5}}}},
		Bars:     []Bars{{Name: "losses", Items: []Item{{Name: "expired", Values: []float64{0}}}}},
	}
}

func gapsPage() Page {
	nan := math.NaN()
	return Page{
		Title:    "Nothing is known",
		Front:    &Front{Points: []Point{{Label: "p", Calls: nan, Fairness: 1, Utilisation: 1}, {Label: "q", Calls: 1, Fairness: nan, Utilisation: nan}}},
		Timeline: &Timeline{Step: 1, Admitted: [][]float64{{nan, nan}}, Limit: []float64{nan}},
		Shares:   &Shares{Processes: []Process{{Name: "p1", Offered: nan, Fair: nan, Admitted: []float64{nan}}}},
		Bars:     []Bars{{Name: "losses", Items: []Item{{Name: "expired", Values: []float64{nan}}}}},
	}
}
