package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// sliding is what was admitted in the last Window of a sliding window.
type sliding struct {
	log      slidingLog
	admitted float64
	most     float64 // of any Window, beyond the limit
	full     int     // how often all was used
}

// count notes an admission, or the time with none.
func (s *sliding) count(h *history, n float64) {
	if h.limit.Kind != lease.KindSliding {
		return
	}
	s.admitted -= s.log.leave(h.now, h.limit.Window+1) // both ends count
	before := s.admitted
	s.admitted += n
	if n > 0 {
		s.log = append(s.log, admission{h.now, n})
	}
	s.most = max(s.most, s.admitted-float64(h.largest.Burst))
	if s.admitted == float64(h.largest.Burst) && before < s.admitted {
		s.full++
	}
}

// newSlidingHistory is newHistory with a short sliding window.
func newSlidingHistory(seed uint64) *history {
	h := newHistory(seed)
	h.rng = rand.New(rand.NewPCG(seed, 8))
	h.limit = lease.Limit{
		Kind: lease.KindSliding, Burst: 1 + h.rng.Int64N(200),
		Window: time.Duration(1+h.rng.IntN(4)) * time.Second,
	}
	h.largest, h.sparse, h.charges = h.limit, seed%5 == 4, false
	for i, a := range h.actors {
		a.slow = h.rng.Float64()*0.0029 - 0.00195 // fast ones, too
		h.start(a, i)
	}
	return h
}

// checkSliding is check for a sliding window.
func (h *history) checkSliding() {
	h.sliding.count(h, 0)
	most, v := float64(h.largest.Burst), h.ledger.View()
	if h.flushed {
		most *= 2
	}
	if h.sliding.admitted > most {
		h.fail("W1: %v tokens were admitted in a window, the limit is %v", h.sliding.admitted, most)
	}
	spendable := 0.0
	for _, a := range h.actors {
		now := a.clock(h.now)
		held := a.holder.Remaining(now) + a.holder.Reserving()
		spendable += held
		if l := a.holder.Lease(now); held+a.holder.Used() > l.Burst {
			h.fail("W1: %s holds %v tokens and has spent %v, in a lease of %v", a.id, held, a.holder.Used(),
				l.Burst)
		}
	}
	if all := v.Pool + spendable + h.sliding.admitted; all > most {
		h.fail("W1: %v tokens were admitted in a window, are held, or are left, the limit is %v", all,
			most)
	}
	if err := divided(v); err != nil {
		h.fail("%v", err)
	}
	if err := counted(v); err != nil {
		h.fail("%v", err)
	}
}

// counted returns an error unless each token of a sliding window is somewhere.
func counted(v lease.View) error {
	all := v.Pool + v.Bursts
	for _, s := range v.Panes {
		all += s.Tokens
	}
	if all != float64(v.Limit.Burst) {
		return fmt.Errorf("W1: %v tokens are somewhere: %+v", all, v)
	}
	return nil
}

// TestSlidingInvariants plays thousands of histories of sliding windows. Each is checked after
// every step; see history.checkSliding.
func TestSlidingInvariants(t *testing.T) {
	playFull(t, newSlidingHistory, func(h *history) int { return h.sliding.full })
}

// TestSlidingChanges: while limits change, each window admits at most the largest.
func TestSlidingChanges(t *testing.T) { playChanges(t, newSlidingHistory) }

// TestSlidingLostState: a state that is lost lets at most as much again through in a window.
func TestSlidingLostState(t *testing.T) {
	playLostState(t, newSlidingHistory, func(h *history) float64 { return h.sliding.most })
}

// TestSlidingIsUsedUp: of what a sliding window has, nearly all is admitted if that much is
// wanted, for few calls.
func TestSlidingIsUsedUp(t *testing.T) {
	of := func(n int64, window time.Duration) lease.Limit {
		return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
	}
	for _, c := range []struct {
		name         string
		fleet        fleet
		least, calls float64
	}{
		{"1000/min, 2 times", fleet{limit: of(1000, time.Minute), offered: 2}, 0.975, 0.05},
		{"1000/min, 1.2 times", fleet{limit: of(1000, time.Minute), offered: 1.2}, 0.945, 0.08},
		{"1000/min, 1.0 times", fleet{limit: of(1000, time.Minute), offered: 1}, 0.93, 0.1},
		{"1000/min, 0.9 times", fleet{limit: of(1000, time.Minute), offered: 0.9}, 0.985, 0.11},
		{"1000/min, 0.7 times", fleet{limit: of(1000, time.Minute), offered: 0.7}, 0.9995, 0.1},
		{"1000/min, 2 times, Zipf 1", fleet{limit: of(1000, time.Minute), skew: 1, offered: 2}, 0.96,
			0.06},
		{"1000/min, 2 times, moving", fleet{limit: of(1000, time.Minute), skew: 1, offered: 2,
			moves: 20 * time.Second}, 0.88, 0.08},
		{"100/min, 2 times", fleet{limit: of(100, time.Minute), offered: 2}, 0.88, 0.6},
		{"10/min, 2 times", fleet{limit: of(10, time.Minute), offered: 2}, 0.88, 1.1},
		{"1000/s, 2 times", fleet{limit: of(1000, time.Second), offered: 2}, 0.97, 0.05},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.fleet
			f.procs, f.rtt, f.timeout, f.duration = 10, ms, 250*ms, 40*f.limit.Window
			for seed := range uint64(2) {
				o := f.run(seed)
				t.Logf("%.4f of the limit, %.4f of what a central log admits, %.3f calls a request, excess %v",
					o.mean, o.util, o.calls, o.excess)
				if used := max(o.mean, o.util); used < c.least || o.calls > c.calls || o.excess > 0 {
					t.Errorf("want at least %v, at most %v calls, and no excess", c.least, c.calls)
				}
			}
		})
	}
}
