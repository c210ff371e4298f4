package hybrid_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestClassPeek: a Peek of a class tells what the class may spend, and a Charge, or what a reservation
// has cost above its estimate, is spent of the class's part.
func TestClassPeek(t *testing.T) {
	limit := hybrid.PerSecond(1000).WithBurst(1000)
	for name, c := range map[string]hybrid.Config{
		"Classes": {Limit: limit, Classes: classes},
		"ClassesFor": {
			LimitFor:   func(string) hybrid.Limit { return limit },
			ClassesFor: func(string) []hybrid.Class { return classes },
		},
	} {
		for verb, charge := range map[string]func(l *hybrid.Limiter, batch *hybrid.Classed) error{
			"Charge": func(_ *hybrid.Limiter, batch *hybrid.Classed) error { return batch.Charge("k", 900) },
			"Settle": func(l *hybrid.Limiter, _ *hybrid.Classed) error {
				r, err := l.ReserveAll(ctx, hybrid.Ask{Key: "k", N: 1, Class: "batch"})
				if err != nil || !r.Allowed {
					return err
				}
				return r.Settle(901)
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, remoteLine(time.Millisecond), c)
				critical, batch := as(t, l, "critical"), as(t, l, "batch")
				var group sync.WaitGroup
				var some classCount
				some.offer(&group, critical, 300, 4*time.Second)
				some.offer(&group, batch, 3000, 4*time.Second)
				group.Wait()
				if err := charge(l, batch); err != nil {
					t.Fatal(err)
				}
				seen, err := critical.Peek(ctx, "k")
				if err != nil || !seen.Allowed || seen.Remaining < 5 || seen.Held > seen.Remaining {
					t.Errorf("%s, %s: critical may have %+v, %v", name, verb, seen, err)
				}
				if d, err := critical.Take(ctx, "k", 5); err != nil || !d.Allowed {
					t.Errorf("%s, %s: critical is denied: %+v, %v", name, verb, d, err)
				}
				owes, err := batch.Peek(ctx, "k")
				if err != nil || owes.Allowed || owes.Remaining > 0 || owes.RetryAfter < 100*time.Millisecond {
					t.Errorf("%s, %s: batch, which owes, may have %+v, %v", name, verb, owes, err)
				}
				if batch.Allow("k") {
					t.Errorf("%s, %s: batch, which owes, is admitted", name, verb)
				}
				if d, err := l.Peek(ctx, "k"); err != nil || d.Allowed {
					t.Errorf("%s, %s: a request without a class is of the last one: %+v, %v", name, verb, d, err)
				}
				if back, err := batch.Refund("k", 1<<20); err != nil || back < 500 {
					t.Errorf("%s, %s: %d are forgiven, %v", name, verb, back, err)
				}
			})
		}
	}
}

// TestClassReports: programs look, and charge what a request has cost. A class has its floor beside
// another one that wants three times the limit, and the debts are those of what was under way.
func TestClassReports(t *testing.T) {
	const rate, cost, serves = 1000.0, 10, 300 * time.Millisecond
	var wants, critical atomic.Int64
	play := func(t *testing.T, seed uint64) {
		fleet := processes(t, 2, remoteLine(time.Millisecond), hybrid.Config{
			Limit: hybrid.PerSecond(rate).WithBurst(1000), Classes: classes,
		})
		var all atomic.Int64
		var group, served sync.WaitGroup
		began := time.Now()
		come := func(l *hybrid.Limiter, class string, part float64) {
			c := as(t, l, class)
			group.Go(func() {
				rng := rand.New(rand.NewPCG(seed, uint64(part*1000)))
				for {
					time.Sleep(time.Duration(rng.ExpFloat64() * cost / (part * rate) * 1e9))
					after := time.Since(began)
					if after > 30*time.Second {
						return
					}
					counts := after > 5*time.Second
					if counts && class == "critical" {
						wants.Add(cost)
					}
					if d, err := c.Peek(ctx, "k"); err != nil {
						t.Error(err)
					} else if d.Allowed {
						served.Go(func() {
							time.Sleep(serves)
							if err := c.Charge("k", cost); err != nil {
								t.Error(err)
							}
							if counts {
								all.Add(cost)
							}
							if counts && class == "critical" {
								critical.Add(cost)
							}
						})
					}
				}
			})
		}
		for i, l := range fleet {
			come(l, "critical", 0.2+float64(i)/1000)
			come(l, "batch", 1.5+float64(i)/1000)
		}
		group.Wait()
		served.Wait()
		sum := float64(all.Load())
		t.Logf("%v tokens are used in 25 s", sum)
		if sum < 0.93*25*rate || sum > 25*rate+1000+4*rate*serves.Seconds() {
			t.Errorf("%v tokens are less than there is, or more than what was under way", sum)
		}
	}
	for seed := range uint64(4) { // one play alone has 0.90 to 0.99
		synctest.Test(t, func(t *testing.T) { play(t, seed+1) })
	}
	of := float64(critical.Load()) / float64(wants.Load())
	t.Logf("%.3f of critical requests", of)
	if of < 0.92 {
		t.Errorf("%.3f of critical requests within the floor are admitted", of)
	}
}
