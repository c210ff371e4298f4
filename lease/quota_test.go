package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// windows counts what is admitted in the window of a quota that is under way.
type windows struct {
	start    float64
	admitted float64
	most     float64 // of any window, beyond the quota
	full     int     // windows that were used up
}

// count notes an admission, or the time with none.
func (w *windows) count(h *history, n float64) {
	if h.limit.Kind != lease.KindQuota {
		return
	}
	if start, _ := lease.Bounds(h.limit, h.now); start != w.start {
		w.start, w.admitted = start, 0
	}
	before := w.admitted
	w.admitted += n
	w.most = max(w.most, w.admitted-float64(h.largest.Burst))
	if w.admitted == float64(h.largest.Burst) && before < w.admitted {
		w.full++
	}
}

// newQuotaHistory is newHistory with a quota of short windows.
func newQuotaHistory(seed uint64) *history {
	h := newHistory(seed)
	h.rng = rand.New(rand.NewPCG(seed, 7))
	h.limit = lease.Limit{
		Kind: lease.KindQuota, Burst: 1 + h.rng.Int64N(200),
		Window: time.Duration(1+h.rng.IntN(4)) * time.Second,
		Offset: time.Duration(h.rng.IntN(3)-1) * time.Second,
	}
	h.now += time.Duration(h.rng.Int64N(int64(h.limit.Window))).Truncate(time.Microsecond)
	h.largest, h.sparse, h.charges = h.limit, seed%5 == 4, false
	for i, a := range h.actors {
		h.start(a, i)
	}
	return h
}

// checkQuota is check for a quota.
func (h *history) checkQuota() {
	h.windows.count(h, 0)
	quota, v := float64(h.largest.Burst), h.view()
	if h.flushed {
		quota *= 2
	}
	if h.windows.admitted > quota {
		h.fail("Q1: %v tokens were admitted in a window, the quota is %v", h.windows.admitted, quota)
	}
	spendable := 0.0
	for _, a := range h.actors {
		spendable += a.holder.Lease(a.clock(h.now)).Tokens + a.holder.Reserving()
	}
	if start, _ := lease.Bounds(h.limit, h.now); v.At < start {
		if spendable > 0 && v.At > 0 {
			h.fail("Q1: %v tokens of the window before can be spent", spendable)
		}
	} else if all := v.Pool + spendable + h.windows.admitted; all > quota {
		h.fail("Q1: %v tokens were admitted, are held, or are left, the quota is %v", all, quota)
	}
	if err := divided(v); err != nil {
		h.fail("%v", err)
	}
	if !h.changes && v.Pool+v.Bursts > float64(v.Limit.Burst) {
		h.fail("I4: more is divided than there is: %+v", v)
	}
}

// TestQuotaInvariants plays thousands of histories of quotas. Each is checked after every
// step; see history.checkQuota.
func TestQuotaInvariants(t *testing.T) {
	playFull(t, 3200, newQuotaHistory, func(h *history) int { return h.windows.full })
}

// TestQuotaChanges: while quotas change, each window admits at most the largest.
func TestQuotaChanges(t *testing.T) { playChanges(t, 600, newQuotaHistory) }

// TestQuotaLostState: a state that is lost lets at most one more quota through in its window.
func TestQuotaLostState(t *testing.T) {
	playLostState(t, newQuotaHistory, func(h *history) float64 { return h.windows.most })
}

// TestQuotaIsUsedUp: of what is wanted of a quota, and the quota has, nearly all is admitted
// in its window, with an even load and with a skewed one.
func TestQuotaIsUsedUp(t *testing.T) {
	quota := func(n int64, window time.Duration) lease.Limit {
		return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window}
	}
	for _, c := range []struct {
		name         string
		fleet        fleet
		least, calls float64
	}{
		{"10,000/min, 2 times", fleet{limit: quota(10_000, time.Minute), procs: 50, skew: 1, offered: 2}, 0.995, 0.1},
		{"10,000/min, 1.1 times", fleet{limit: quota(10_000, time.Minute), procs: 50, skew: 1, offered: 1.1}, 0.995, 0.2},
		{"10,000/min, 1.0 times", fleet{limit: quota(10_000, time.Minute), procs: 50, skew: 1, offered: 1}, 0.995, 0.25},
		{"10,000/min, 0.7 times", fleet{limit: quota(10_000, time.Minute), procs: 50, skew: 1, offered: 0.7}, 0.9995, 0.25},
		{"10,000/min, 2 times, even", fleet{limit: quota(10_000, time.Minute), procs: 50, offered: 2}, 0.995, 0.12},
		{"100,000/min, 1.3 times, 20 ms away", fleet{limit: quota(100_000, time.Minute), procs: 50, skew: 1, offered: 1.3, rtt: 20 * ms}, 0.995, 0.03},
		{"100/min, 5 times", fleet{limit: quota(100, time.Minute), procs: 50, skew: 1, offered: 5}, 0.995, 0.35},
		{"300/min, 1.2 times", fleet{limit: quota(300, time.Minute), procs: 50, skew: 1, offered: 1.2}, 0.995, 0.8},
		{"on and off", fleet{limit: quota(10_000, time.Minute), procs: 10, skew: 1, offered: 1.1, period: 4 * time.Second, on: time.Second}, 0.995, 0.1},
		{"an hour of a day", fleet{limit: quota(240_000, lease.Day), procs: 50, skew: 1, offered: 1, duration: time.Hour}, 0.9995, 0.85},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.fleet
			f.rtt, f.timeout = max(f.rtt, ms), 250*ms
			if f.duration == 0 {
				f.duration = 3 * f.limit.Window
			}
			for seed := range longform.Of[uint64](1, 3) {
				o := f.run(seed)
				t.Logf("%.4f of what a central quota admits, %.3f calls a request, excess %v", o.util, o.calls, o.excess)
				if o.util < c.least || o.calls > c.calls || o.excess > 0 {
					t.Errorf("want at least %v, at most %v calls, and no excess", c.least, c.calls)
				}
			}
		})
	}
}
