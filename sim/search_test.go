package main

import (
	"flag"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/scenarios"
)

var brute = flag.Bool("brute", false, "hold tune against a sweep of hundreds of policies")

// resolved is a scenario of the library, or of a text.
func resolved(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenarios.Open(text)
	if strings.Contains(text, ":") {
		s, err = scenario.Parse([]byte(text), nil)
	}
	if err == nil {
		err = s.Resolve()
	}
	if err != nil {
		t.Fatal(err)
	}
	if s.Warmup == 0 {
		s.Warmup = s.Duration / 6
	}
	return s
}

// bruteGrid is what the recommendation is held against: all combinations.
func bruteGrid(own choice, whole bool) (all []choice) {
	type ms = time.Duration
	refreshes, shares, batches := []ms{250, 1000, 4000}, []float64{0.25, 0.5, 0.8}, []int64{20, 100, 1000}
	holds, smallest := []ms{30_000}, []int64{1, 4}
	if whole {
		refreshes, shares = []ms{60, 125, 250, 500, 1000, 2000, 4000, 8000}, []float64{0.15, 0.3, 0.5, 0.8}
		batches, holds = []int64{10, 40, 150, 1000}, []ms{0, 30_000}
	}
	for _, refresh := range refreshes {
		for _, share := range shares {
			for _, batch := range batches {
				for _, hold := range holds {
					for _, least := range smallest {
						p := lease.Policy{
							Fairness: own.policy.Fairness, Batch: batch, MaxRefresh: refresh * time.Millisecond,
							MaxHold: max(hold, refresh) * time.Millisecond, BurstShare: share, Smallest: least,
						}
						all = append(all, choice{p.Resolved(), own.outage})
					}
				}
			}
		}
	}
	return all
}

// What tune recommends is within 5 % of the fewest calls that satisfy the constraints that it
// prints, by a sweep of many policies on other requests, and satisfies them there itself. The
// longest form takes a quarter of an hour:
//
//	go test ./sim -run TestTuneAgainstBruteForce -long -brute -v -timeout 60m
func TestTuneAgainstBruteForce(t *testing.T) {
	longform.Only(t, "searches and sweeps, as TestIdleKnobsAreNotRecommended does in little")
	const tenants = "name: tenants\nprocesses: 6\nlimit: 50/s\nload: {offered: 0.5}\n"
	const clumpy = "name: clumpy\nprocesses: 20\nload: {offered: 1, arrivals: gamma, cv: 3}\n"
	scenes, effort := []string{tenants + "keys: 20\nduration: 12s", clumpy + "duration: 24s"}, 0.3
	if *brute {
		scenes, effort = []string{"steady", "hot-moves", clumpy, tenants + "keys: 300", "far"}, 1
	}
	for _, text := range scenes {
		s := resolved(t, text)
		t.Run(s.Name, func(t *testing.T) {
			begin := time.Now()
			search := newSearch(s, constraints{}, 1, 10, false, effort)
			played, err := search.run(t.Context(), io.Discard)
			if err != nil {
				t.Fatal(err)
			}
			found := tune(played, constraints{})
			if found.best == nil {
				t.Fatal(found.Verdict)
			}
			took, l := time.Since(begin), found.Constraints

			sweep := func(seed uint64, times int, choices ...choice) []*candidate {
				other := newSearch(s, constraints{}, seed, times, true, 1)
				all, err := other.play(t.Context(), other.whole, choices, times)
				if err != nil {
					t.Fatal(err)
				}
				slices.SortFunc(all, l.order)
				return all
			}
			// As often as three million requests need, and thirty times at most.
			requests := played[0].variant.Results[0].Requests
			sure := max(5, min(30, int(3e6/requests)))
			// The best of hundreds had luck: it is judged on yet other requests.
			grid := bruteGrid(search.own, *brute)
			const likely = 10
			all := sweep(1001, 1+sure/30, grid...)
			ours := sweep(2001, sure, found.best.choice())[0]
			fewest := ours
			for _, c := range sweep(2001, sure, choicesOf(all[:likely])...) {
				if l.margin(c) >= 0 && c.mean(calls) < fewest.mean(calls) {
					fewest = c
				}
			}
			t.Logf("%d policies; ours %.4f (%s), fairness %+.4f and utilisation %+.4f above the constraints; "+
				"fewest %.4f (%s): %.3f; the search took %v: %s", len(grid), ours.mean(calls), ours.Label,
				ours.mean(fairness)-l.MinFairness, ours.mean(utilisation)-l.MinUtilisation, fewest.mean(calls),
				fewest.Label, ours.mean(calls)/fewest.mean(calls), took.Round(time.Second), search.summary())
			if ours.mean(calls) > 1.05*fewest.mean(calls) {
				t.Errorf("%s needs %.4f calls, %s needs %.4f",
					ours.Label, ours.mean(calls), fewest.Label, fewest.mean(calls))
			}
			// So many plays say no more than their interval.
			for _, f := range []figure{fairness, utilisation} {
				bound := map[string]float64{fairness.name: l.MinFairness, utilisation.name: l.MinUtilisation}[f.name]
				if i := ours.Summary[f.name]; i.High < bound {
					t.Errorf("%s surely misses a constraint on other requests: %s %.4f to %.4f, and %.4f is printed",
						ours.Label, f.name, i.Low, i.High, bound)
				}
			}
		})
	}
}

// What is recommended turns no knob that changes nothing.
func TestIdleKnobsAreNotRecommended(t *testing.T) {
	s := resolved(t, "name: calm\nprocesses: 2\nlimit: 50/s\nkeys: 10\nload: {offered: 0.2}\nduration: 2s\n")
	search := newSearch(s, constraints{}, 1, 10, false, 0.02)
	played, err := search.run(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	best := tune(played, constraints{}).best
	if best == nil || best.Own {
		t.Fatal("nothing to turn back")
	}
	for i := range search.knobs {
		back := search.knobs[i].back(best.choice(), search.first())
		list, err := search.play(t.Context(), newTrials(s, 0), []choice{back}, equalTimes)
		if err != nil {
			t.Fatal(err)
		}
		if list[0].changes < best.changes && list[0].equals(best) {
			t.Errorf("%s does the same as %s", list[0].Label, best.Label)
		}
	}
}

// The time left counts what is never cut short.
func TestBudgetHasTheReplicationsThatWereAskedFor(t *testing.T) {
	s := resolved(t, "name: short\nprocesses: 2\nduration: 2s\n")
	search := newSearch(s, constraints{}, 1, 10_000, true, 0.01)
	if err := search.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	own, err := search.play(t.Context(), newTrials(s, 0), []choice{search.own}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if least := 10_000 * workOf(s, own[0].variant.Results[0]); search.budget.all < least {
		t.Errorf("%.3g is allowed, one finalist takes %.3g", search.budget.all, least)
	}
}
