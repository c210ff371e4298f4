package lease_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestRetryBehindAQueue: 10 tokens behind a waiting 10, of which 7 are there, at 100/s,
// cannot come before 130 ms.
func TestRetryBehindAQueue(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	w := newTown(limit, lease.Policy{Mode: lease.PerRequest}, 1)
	h := w.holders[0]
	w.take(93)
	first := &lease.Waiter{N: 10, Until: w.now + time.Second}
	hopeless := &lease.Waiter{N: 10, Until: w.now + 120*ms}
	patient := &lease.Waiter{N: 10, Until: w.now + 140*ms}
	for _, x := range []*lease.Waiter{first, hopeless, patient} {
		h.Enter(x)
	}
	w.tend()
	if done := w.step(); !slices.Equal(done, []*lease.Waiter{hopeless}) {
		t.Errorf("turned away: %v", done)
	}
	h.Withdraw(w.now, patient)
	if got := h.RetryAfter(w.now, 10); got < 125*ms || got > 130*ms {
		t.Errorf("retry after %v", got)
	}
	h.Enter(patient)
	for start := w.now; !slices.Contains(w.step(), patient); {
		if w.now > start+time.Second {
			t.Fatal("nobody is served")
		}
	}
	if patient.Verdict != lease.Admitted || w.now > patient.Until {
		t.Errorf("%v, %v late", patient.Verdict, w.now-patient.Until)
	}
}

// TestNeverTooLate: nobody is served before RetryAfter has said, whoever else shares the
// key, in any mode; but under contention from a slice, whose own refill is what counts.
// To one that is alone, and has no lease, it is as good as exact.
func TestNeverTooLate(t *testing.T) {
	samples, tight := 0, 0
	for seed := range longform.Of[uint64](75, 600) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limit := lease.Limit{Rate: float64(20 + rng.IntN(500)), Burst: int64(20 + rng.IntN(200))}
		mode := modes[rng.IntN(len(modes))]
		w := newTown(limit, lease.Policy{Mode: mode}, 1+rng.IntN(3))
		h := w.holders[0]
		n := func() float64 { return float64(1 + rng.IntN(20)) }
		var watched *lease.Waiter
		var asked, bound time.Duration
		for range 2500 {
			x := &lease.Waiter{N: n(), Until: w.now + time.Hour}
			if watched == nil && rng.IntN(100) == 0 && !sliced(h, w.now) {
				if h.Take(w.now, x.N) != lease.Admitted {
					asked, bound, watched = w.now, h.RetryAfter(w.now, x.N), x
					h.Enter(x)
				}
			} else if i := rng.IntN(4 * len(w.holders)); i < len(w.holders) {
				// At times nobody asks for anything, and leases are handed back.
				busy, other := w.now%(600*ms) < 200*ms, w.holders[i]
				if busy && other.Waiting() < 10 && other.Take(w.now, x.N) == lease.Pending {
					if rng.IntN(2) == 0 {
						x.Until = 0
					}
					other.Enter(x)
				}
			}
			done := w.tend()
			done = append(done, w.step()...)
			if watched == nil || !slices.Contains(done, watched) {
				continue
			}
			took := w.now - asked
			if bound > ms && took < bound {
				t.Fatalf("seed %d, %v, %v, %d holders: %v tokens after %v, told %v",
					seed, mode, limit, len(w.holders), watched.N, took, bound)
			}
			samples++
			if bound > 5*ms && took <= bound+10*ms {
				tight++
			}
			watched = nil
		}
	}
	t.Logf("%d served, %d of them within 10 ms of what was said", samples, tight)
	if samples < longform.Of(375, 3000) || tight < longform.Of(62, 500) {
		t.Errorf("%d served, %d of them within 10 ms of what was said", samples, tight)
	}
}

// sliced reports whether h goes by its own slice alone.
func sliced(h *lease.Holder, now time.Duration) bool {
	return h.Contended() && h.Lease(now).Rate > 0
}
