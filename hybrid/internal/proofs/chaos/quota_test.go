//go:build linux || darwin

package chaos

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// epoch is what the machine's clock shows when clock shows 0, since 1970. The servers of
// these tests have the same clock, and windows of quotas begin and end by it.
func epoch() (epoch time.Duration) {
	shortest := time.Duration(math.MaxInt64)
	for range 10 { // the machine may stop the process between two readings
		before := clock()
		now := time.Duration(time.Now().UnixNano())
		if took := clock() - before; took < shortest {
			shortest, epoch = took, now-before
		}
	}
	return epoch
}

// window is in which window of a quota a time lies.
func (h *history) window(limit lease.Limit, at time.Duration) time.Duration {
	return (at + h.epoch) / limit.Window
}

// judgeQuota is Q1, and I6: an admission counts for a window that contains all of its span.
// What the outage policy admits is beside the quota. So is a refund of tokens of an earlier
// window: it counts as of the newest ones, and lets as many be used in its own window.
func (h *history) judgeQuota(f *finding, i int) {
	k := h.keys[i]
	quota := float64(k.Limit.Burst)
	sums, moved := map[time.Duration]float64{}, map[time.Duration]float64{}
	lost := map[time.Duration]float64{}
	for _, l := range h.lives {
		for _, d := range l.decisions {
			from, to := h.window(k.Limit, d.before), h.window(k.Limit, d.after)
			switch {
			case int(d.key) != i:
			case d.verdict == admitted && from == to:
				sums[to] += float64(d.n)
			case d.verdict == refunded && h.window(k.Limit, d.taken) < to:
				for w := from; w <= to; w++ {
					moved[w] += float64(d.n)
				}
			}
		}
	}
	if len(sums) == 0 {
		h.judgeNothing(f, k)
	}
	for _, x := range h.faults {
		for w := h.window(k.Limit, x.from); x.lost && w <= h.window(k.Limit, x.to); w++ {
			lost[w] += quota
		}
	}
	for w, sum := range sums {
		end := w*k.Limit.Window + k.Limit.Window - h.epoch
		above := sum - quota - moved[w]
		f.beyond = max(f.beyond, (above-lost[w])/quota)
		if lost[w] == 0 {
			f.excess = max(f.excess, above/quota)
		}
		if above > lost[w] {
			f.violate("%s (%v): %v tokens in the window that ended at %v of %v, with %v",
				k.Name, k.Limit, sum, end-h.from, h.to-h.from, h.around(i, end))
		}
	}
}

// idealQuota is what a central quota admits of these requests.
func (h *history) idealQuota(limit lease.Limit, list []decision) (admitted float64) {
	left, window := 0.0, time.Duration(-1)
	for _, d := range list {
		if w := h.window(limit, d.before); w != window {
			left, window = float64(limit.Burst), w
		}
		if n := float64(d.n); left >= n {
			left -= n
			admitted += n
		}
	}
	return admitted
}

// TestJudgeQuota: what the judge lets pass of a quota, and that it sees the least that it
// should not.
func TestJudgeQuota(t *testing.T) {
	admit := func(from, to time.Duration, n uint16, v verdict) decision {
		return decision{before: from, after: to, n: n, verdict: v}
	}
	back := func(taken, from, to time.Duration) decision {
		return decision{before: from, after: to, n: 1, verdict: refunded, taken: taken}
	}
	one := admit(1900*ms, 1990*ms, 1, admitted)
	late, many := admit(1990*ms, 2001*ms, 1, admitted), admit(1900*ms, 1990*ms, 20, admitted)
	for _, c := range []struct {
		name  string
		also  []decision
		lost  bool
		finds bool
	}{
		{"all of it", []decision{admit(0, 0, 0, denied)}, false, false},
		{"one more", []decision{one}, false, true},
		{"one more that may be of the next window", []decision{late}, false, false},
		{"one more in an outage", []decision{admit(1900*ms, 1990*ms, 1, shared)}, false, false},
		{"as many again when the state was lost", []decision{many}, true, false},
		{"one more than that", []decision{many, one}, true, true},
		{"one that came back in its window", []decision{one, back(950*ms, 960*ms, 970*ms)}, false, true},
		{"one that came back in the next", []decision{one, back(950*ms, 1050*ms, 1060*ms)}, false, false},
		{"meanwhile", []decision{one, back(950*ms, 990*ms, 1010*ms)}, false, false},
		{"two for it", []decision{one, one, back(950*ms, 1050*ms, 1060*ms)}, false, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit := lease.Limit{Kind: lease.KindQuota, Burst: 20, Window: time.Second}
			h := &history{
				keys: []key{{Name: "k", Limit: limit}}, processes: 4, timeout: timeout,
				span: span{0, 3 * time.Second},
			}
			l := h.begin()
			for i := range time.Duration(3) {
				l.decisions = append(l.decisions, admit(i*time.Second, i*time.Second+10*ms, 20, admitted))
			}
			l.decisions = append(l.decisions, c.also...)
			if c.lost {
				h.suffer(fault{kind: "flushall", span: span{1500 * ms, 1600 * ms}, lost: true})
			}
			slices.Reverse(l.decisions)
			if f := h.judge(); len(f.violations) > 0 != c.finds {
				t.Errorf("%q", f.violations)
			}
		})
	}
}
