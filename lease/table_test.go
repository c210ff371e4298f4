package lease_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// row is a scenario with what it must reach: the mean over the seeds, rounded
// to three digits, of utilisation (admitted / what one ideal central bucket
// admits on the same arrivals), of Jain's index over acceptance ratios and over
// admitted/ideal per process, and of calls per request. Zero is no demand.
//
// The floors are what is reached, with a margin for changes that only move
// chance.
type row struct {
	fleet
	util, accepted, ideal, calls float64
}

func table() []row {
	base := fleet{
		limit: lease.Limit{Rate: 1000, Burst: 1000}, procs: 10, offered: 2, skew: 1,
		rtt: time.Millisecond, timeout: 50 * time.Millisecond, duration: 30 * time.Second,
	}
	with := func(name string, util, accepted, ideal, calls float64, change func(*fleet)) row {
		f := base
		f.name = name
		change(&f)
		return row{f, util, accepted, ideal, calls}
	}
	return []row{
		with("offered 0.95 r", 1, 1, 1, 0.025, func(f *fleet) { f.offered = 0.95 }),
		with("offered 1.2 r", 0.996, 0.999, 0.999, 0.02, func(f *fleet) { f.offered = 1.2 }),
		with("offered 2 r", 0.998, 0.999, 0.999, 0.015, func(f *fleet) {}),
		with("offered 5 r", 0.999, 0.999, 0.999, 0.007, func(f *fleet) { f.offered = 5 }),
		with("2 r, hot process moves every 1 s", 0.998, 0.997, 0.998, 0.028, func(f *fleet) { f.moves = time.Second }),
		with("2 r, r = 100000/s", 0.999, 1, 1, 0.003, func(f *fleet) {
			f.limit = lease.Limit{Rate: 100000, Burst: 100000}
		}),
		with("2 r, on 20 % of 4 s", 0.998, 0, 0.996, 0.04, func(f *fleet) { f.period, f.on = 4*time.Second, 800*time.Millisecond }),
		with("2 r, on 20 % of 1 s", 0.998, 0, 0.992, 0.09, func(f *fleet) { f.period, f.on = time.Second, 200*time.Millisecond }),
		with("1.1 r, in turns of 50 of 200 ms, B = 0.06 s", 0.988, 0, 0, 0.5, func(f *fleet) {
			f.procs, f.offered, f.skew, f.limit.Burst = 5, 1.1, 0, 60
			f.period, f.on = 200*time.Millisecond, 50*time.Millisecond
		}),
		with("0.9 r, 50 processes, on in turns of 20 of 530 ms, B = 2 s", 1, 1, 1, 0.69, func(f *fleet) {
			f.procs, f.offered, f.skew, f.limit.Burst = 50, 0.9, 0, 2000
			f.period, f.on = 530*time.Millisecond, 20*time.Millisecond
		}),
		with("0.95 r, 4 processes, B = 0.04 s", 0.991, 0.999, 0.999, 0.27, func(f *fleet) {
			f.procs, f.offered, f.skew, f.limit.Burst = 4, 0.95, 0, 40
		}),
		with("2 r, r = 100/s", 0.997, 0.997, 0.995, 0.17, func(f *fleet) { f.limit = lease.Limit{Rate: 100, Burst: 100} }),
		with("2 r, 50 processes, B = 0.1 s", 0.999, 0.997, 0.996, 0.33, func(f *fleet) { f.procs, f.limit.Burst = 50, 100 }),
		with("2 r, 5 % lost, 10 % repeated", 0.994, 0.999, 0.999, 0.017, func(f *fleet) { f.lose, f.repeat = 0.05, 0.1 }),
		with("2 r, two crashes a second", 0.935, 0.998, 0.997, 0.035, func(f *fleet) { f.crashes = 2 }),
		with("2 r, r = 10000/s, RTT 20 ms", 0.997, 0.999, 0.999, 0.007, func(f *fleet) {
			f.limit, f.rtt = lease.Limit{Rate: 10000, Burst: 10000}, 20*time.Millisecond
		}),
		with("2 r, state lost at 10 s", 0.997, 0.999, 0.999, 0.016, func(f *fleet) { f.flush = 10 * time.Second }),
		with("2 r, clumps of 2 ms every 120 ms", 0.999, 0.998, 0.998, 0.13, func(f *fleet) {
			f.period, f.on, f.together = 120*time.Millisecond, 2*time.Millisecond, true
		}),
		with("2 r, clumps, every request asks", 0.999, 0.998, 0.998, 0.13, func(f *fleet) {
			f.period, f.on, f.together, f.policy.Mode = 120*time.Millisecond, 2*time.Millisecond, true, lease.PerRequest
		}),
		with("0.2 r, r = 10000/s, clumps of 30 ms every 150 ms", 1, 1, 1, 0.02, func(f *fleet) {
			f.limit, f.offered, f.skew = lease.Limit{Rate: 10000, Burst: 10000}, 0.2, 0
			f.period, f.on, f.together = 150*time.Millisecond, 30*time.Millisecond, true
		}),
		with("2 r, 140 tokens a request", 0.998, 0.995, 0.995, 0.77, func(f *fleet) {
			f.cost, f.limit = 140, lease.Limit{Rate: 14000, Burst: 1400}
		}),
		with("2 r, batches of 100", 0.996, 0.98, 0, 0, func(f *fleet) { f.policy.Mode = lease.Batches }),
		with("2 r, batches of 10", 0.999, 0.98, 0, 0, func(f *fleet) { f.policy = lease.Policy{Mode: lease.Batches, Batch: 10} }),
		with("2 r, every request asks", 0.999, 0.99, 0, 0, func(f *fleet) { f.policy.Mode = lease.PerRequest }),
		with("2 r, max-min", 0.996, 0, 0, 0.014, func(f *fleet) { f.policy.Fairness = lease.MaxMin }),
	}
}

// With three seeds the mean moves by chance as much as by a change of a rule.
const (
	tableSeeds = 24
	fewSeeds   = 6 // without -long
)

// TestTable: tokens that stay unused while somebody is denied are a cost, and
// measured. It prints the table of docs/performance.md:
//
//	go test ./lease -run TestTable -v -long
func TestTable(t *testing.T) {
	t.Log("| scenario | utilisation | J(accepted) | J(ideal) | calls/request | excess |")
	t.Log("|---|---|---|---|---|---|")
	for _, r := range table() {
		t.Run(r.name, func(t *testing.T) {
			if r.limit.Rate > 10_000 {
				longform.Only(t, "plays millions of requests")
			}
			var runs []outcome
			var excess float64 // at worst
			for seed := range uint64(longform.Of(fewSeeds, tableSeeds)) {
				runs = append(runs, r.run(seed+1))
				excess = max(excess, runs[seed].excess)
			}
			util, utils := spread(runs, func(o outcome) float64 { return o.util })
			accepted, accepteds := spread(runs, func(o outcome) float64 { return o.jainAccepted })
			ideal, ideals := spread(runs, func(o outcome) float64 { return o.jainIdeal })
			calls, callss := spread(runs, func(o outcome) float64 { return o.calls })
			t.Logf("| %s | %s | %s | %s | %s | %s |", r.name, utils, accepteds, ideals, callss, tokens(excess))

			if round(util) < round(r.util) || round(accepted) < r.accepted || round(ideal) < r.ideal || r.calls > 0 && round(calls) > r.calls {
				t.Errorf("mean utilisation %.4f, J(accepted) %.4f, J(ideal) %.4f, calls %.4f; floors %v, %v, %v, %v",
					util, accepted, ideal, calls, r.util, r.accepted, r.ideal, r.calls)
			}
			slack := r.limit.Rate * r.timeout.Seconds()
			if r.flush > 0 {
				slack += float64(r.limit.Burst) // a new bucket (I6)
			}
			if excess > slack {
				t.Errorf("%.1f tokens above Burst + Rate*T, %.1f allowed", excess, slack)
			}
		})
	}
}

func round(x float64) float64 { return math.Round(x*1000) / 1000 }

func tokens(x float64) string {
	if x == 0 {
		return "none"
	}
	return fmt.Sprintf("%.1f", x)
}
