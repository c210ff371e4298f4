package lease_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// sliding is what was admitted in the last Window of a sliding window.
type sliding struct {
	log      slidingLog
	admitted float64
	most     float64 // of any Window, beyond the limit
	full     int     // how often all was used but for the reserve

	before []allowance // limits that were in force before this one, and states that were lost
}

// An allowance is what was allowed in a Window until some time.
type allowance struct {
	until  time.Duration
	tokens float64
}

// allows is what may be admitted in a Window that ends now: the limit, or what was allowed
// until lately.
func (s *sliding) allows(h *history) float64 {
	most := float64(h.limit.Burst)
	for _, b := range s.before {
		if h.now < b.until+settled(h) {
			most = max(most, b.tokens)
		}
	}
	return most
}

// allowed notes what was allowed by now.
func (s *sliding) allowed(now time.Duration, tokens float64) {
	if n := len(s.before); n > 0 && s.before[n-1].tokens == tokens {
		s.before[n-1].until = now
		return
	}
	s.before = append(s.before, allowance{now, tokens})
}

// settled is for how long more may be out than there is: until leases of before have ended, or
// their holders have heard of it twice, and a Window later.
func settled(h *history) time.Duration {
	longest := max(min(h.limit.Window/3, h.policy.Resolved().MaxHold), h.policy.MaxRefresh)
	return 4*longest + 3*h.limit.Window
}

// lose forgets what is allowed by now: so much again, as the state is lost.
func (h *history) lose() {
	h.sliding.allowed(h.now, 2*h.sliding.allows(h))
	h.ledger, h.flushed = new(lease.Ledger), true
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
	if all := float64(h.largest.Burst - 1); s.admitted >= all && before < all {
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
	h.largest, h.sparse = h.limit, seed%5 == 4
	for i, a := range h.actors {
		a.slow = h.rng.Float64()*0.0029 - 0.00195 // fast ones, too
		h.start(a, i)
	}
	return h
}

// checkSliding is check for a sliding window.
func (h *history) checkSliding() {
	h.sliding.count(h, 0)
	v := h.view()
	if v.Limit.Burst > h.limit.Burst { // it has not heard of this one
		h.sliding.allowed(h.now, float64(v.Limit.Burst))
	}
	most := h.sliding.allows(h) + h.owes()
	if h.sliding.admitted > most+max(-v.Pool, 0) {
		h.fail("W1: %v tokens were admitted in a window, the limit is %v", h.sliding.admitted, most)
	}
	spendable := 0.0
	for _, a := range h.actors {
		now := a.clock(h.now)
		held := a.holder.Lease(now).Tokens + a.holder.Reserving()
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
	past, lacks := 0.0, 0.0
	for _, u := range v.Past {
		past += u.Tokens
		lacks = math.Ceil(float64((u.Until-v.At)*u.Rate) / 1e6)
	}
	all += max(past, lacks)
	if all != float64(v.Limit.Burst) {
		return fmt.Errorf("W1: %v tokens are somewhere: %+v", all, v)
	}
	return nil
}

// TestSlidingInvariants plays thousands of histories of sliding windows. Each is checked after
// every step; see history.checkSliding.
func TestSlidingInvariants(t *testing.T) {
	playFull(t, 800, newSlidingHistory, func(h *history) int { return h.sliding.full })
}

// TestSlidingChanges: while limits change, each window admits at most the largest, and soon after
// that the new one.
func TestSlidingChanges(t *testing.T) { playChanges(t, 300, newSlidingHistory) }

// TestSlidingLostState: a state that is lost lets at most as much again through in a window, and
// soon after that no more than the limit.
func TestSlidingLostState(t *testing.T) {
	playLostState(t, newSlidingHistory, func(h *history) float64 { return h.sliding.most })
}

// TestSlidingIsUsedUp: of what a sliding window has, nearly all is admitted if that much is
// wanted, for few calls.
func TestSlidingIsUsedUp(t *testing.T) {
	longform.None(t)
	of := func(n int64, window time.Duration) lease.Limit {
		return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
	}
	for _, c := range []struct {
		name         string
		fleet        fleet
		least, calls float64
	}{
		{"1000/min, 2 times", fleet{limit: of(1000, time.Minute), offered: 2}, 0.975, 0.04},
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

// TestSlidingExcessEnds: when the state was lost, or the limit lowered, more is out than there
// is. A window that begins two windows later admits no more than the limit.
func TestSlidingExcessEnds(t *testing.T) {
	limit := lease.Limit{Kind: lease.KindSliding, Burst: 1000, Window: time.Minute}
	w := limit.Window
	for _, f := range []fleet{
		{name: "2 processes", procs: 2, offered: 2},
		{name: "3 processes", procs: 3, offered: 2},
		{name: "10 processes", procs: 10, offered: 2},
		{name: "4 processes, 5 times", procs: 4, offered: 5},
		{name: "10 processes, 1.2 times", procs: 10, offered: 1.2},
		{name: "10 processes, 0.9 times", procs: 10, offered: 0.9},
		{name: "10 processes, Zipf 1", procs: 10, offered: 2, skew: 1},
		{
			name: "at times", procs: 2, offered: 1.6,
			period: 62 * time.Second, on: 3 * time.Second, together: true,
		},
	} {
		f.limit, f.rtt, f.timeout = limit, ms, 250*ms
		lost := f
		lost.flush = 5*w + w/2
		lowered := f
		lowered.limit.Burst *= 2
		for seed := range longform.Of[uint64](1, 2) {
			s := lost.begin(seed)
			s.play(5*w + w/2)
			s.endsWithin(t, 3*w)

			s = lowered.begin(seed)
			s.play(5 * w)
			s.limit = limit
			for _, p := range s.procs {
				p.holder.SetLimit(limit)
			}
			s.endsWithin(t, 3*w)
		}
	}
}

// endsWithin: after so long there is no excess for twenty windows, but most is used.
func (s *simulation) endsWithin(t *testing.T, d time.Duration) {
	t.Helper()
	began := s.now
	s.play(began + d)
	before, admitted := s.excess, 0.0
	s.excess = 0
	for _, p := range s.procs {
		admitted -= p.admitted
	}
	s.play(s.now + 20*s.limit.Window)
	for _, p := range s.procs {
		admitted += p.admitted
	}
	t.Logf("%s: excess %v until %v after, then %v; %.0f of %d are used in a window",
		s.name, before, d, s.excess, admitted/20, s.limit.Burst)
	if s.excess > 0 {
		t.Errorf("%s: a window that ends more than %v after has %v too much", s.name, d, s.excess)
	}
	if admitted < 20*0.7*float64(s.limit.Burst) {
		t.Errorf("%s: %v of %d are used in a window", s.name, admitted/20, s.limit.Burst)
	}
}

// TestSlidingFar: a store that is far away costs little, also where answers take longer than
// MaxRefresh.
func TestSlidingFar(t *testing.T) {
	of := func(n int64, window time.Duration) lease.Limit {
		return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
	}
	for _, c := range []struct {
		name  string
		fleet fleet
		least float64
	}{
		{"100/min, 0.5 times, 80 ms", fleet{
			limit: of(100, time.Minute), policy: lease.Policy{MaxRefresh: 20 * ms}, offered: 0.5,
			rtt: 80 * ms,
		}, 0.99},
		{"20/min, 0.9 times, 500 ms", fleet{
			limit: of(20, time.Minute), offered: 0.9, rtt: 500 * ms,
		}, 0.93},
		{"20/min, 0.9 times, 900 ms", fleet{
			limit: of(20, time.Minute), offered: 0.9, rtt: 900 * ms,
		}, 0.93},
		{"1000/min, 2 times, 900 ms", fleet{
			limit: of(1000, time.Minute), offered: 2, rtt: 900 * ms,
		}, 0.95},
		{"1000/s, 0.7 times, 900 ms", fleet{
			limit: of(1000, time.Second), offered: 0.7, rtt: 900 * ms,
		}, 0.9},
	} {
		c.fleet.procs, c.fleet.timeout, c.fleet.duration = 4, 5*time.Second, 20*time.Minute
		if c.fleet.limit.Window == time.Second {
			c.fleet.duration = time.Minute
		}
		o := c.fleet.run(1)
		t.Logf("%s: %.4f of what a central log admits, %.3f calls a request", c.name, o.util, o.calls)
		if o.util < c.least || o.excess > 0 {
			t.Errorf("%s: %.4f of what a central log admits, excess %v", c.name, o.util, o.excess)
		}
	}
}

// TestSlidingSmall: beside processes that want all there is, one with a request now and then gets
// about what it would get from a central log, or more.
func TestSlidingSmall(t *testing.T) {
	longform.None(t)
	for _, c := range []struct {
		n             int64
		each, offered float64 // each is requests a minute
		hot           int
	}{
		{1000, 0.3, 1.3, 6}, {1000, 0.3, 3, 6}, {1000, 1, 1.3, 6}, {1000, 1, 3, 6}, {1000, 10, 1.3, 6}, {1000, 10, 3, 6},
		{100, 0.3, 1.3, 6}, {100, 0.3, 3, 6}, {100, 3, 1.3, 6}, {100, 3, 3, 6},
		{1000, 0.3, 3, 1}, {1000, 1, 3, 1}, {1000, 10, 3, 1}, {100, 0.3, 3, 1}, {100, 3, 3, 1},
	} {
		f := fleet{
			limit: lease.Limit{Kind: lease.KindSliding, Burst: c.n, Window: time.Minute},
			procs: c.hot, offered: c.offered, rtt: ms, timeout: 250 * ms, duration: 100 * time.Minute,
		}
		s := f.begin(1)
		for range 3 {
			s.join(c.each / 60)
		}
		s.play(f.duration)
		var offered, admitted, ideal float64
		for _, p := range s.procs[c.hot:] {
			offered, admitted, ideal = offered+p.offered, admitted+p.admitted, ideal+p.ideal
		}
		t.Logf("%d/min, load %v by %d, three with %v/min: %v of %v admitted, a central log %v",
			c.n, c.offered, c.hot, c.each, admitted, offered, ideal)
		if admitted < 0.9*ideal || s.excess > 0 {
			t.Errorf("%d/min, load %v by %d, three with %v/min: %v admitted, a central log %v; excess %v",
				c.n, c.offered, c.hot, c.each, admitted, ideal, s.excess)
		}
	}
}
