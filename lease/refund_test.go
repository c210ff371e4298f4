package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A spending is what a history has admitted, as far as it has not come back.
type spending struct {
	who    string
	at     time.Duration
	n      float64
	before float64 // the level of the leaky bucket just before

	debt  bool          // it was charged
	turn  int           // in which it was granted
	until time.Duration // it counts, if it is of a window; then it is not poured
}

// pour pours the spendings from one on into the leaky bucket.
func (h *history) pour(from int) {
	if h.level = 0; from < len(h.spent) {
		h.leaked = h.spent[from].at
	}
	if from > 0 {
		last := h.spent[from-1]
		h.level, h.leaked = last.before+last.poured(), last.at
	}
	for i := from; i < len(h.spent); i++ {
		s := &h.spent[i]
		s.before = max(h.level-h.largest.Rate*(s.at-h.leaked).Seconds(), 0)
		h.level, h.leaked = s.before+s.poured(), s.at
	}
}

func (s *spending) poured() float64 {
	if s.until > 0 {
		return 0
	}
	return s.n
}

// refund gives tokens back, some of which were never spent, or long ago.
func (h *history) refund(a *actor) {
	n := float64(1 + h.rng.Int64N(1+a.limit().Burst/(1+h.rng.Int64N(20))))
	owed := a.holder.Owed()
	back := a.holder.Refund(a.clock(h.now), n)
	if back < 0 || back > n || a.slots() && back > owed {
		h.fail("%v of %v tokens come back", back, n)
	}
	h.refunded += back
	h.books.left -= back
	forgiven := owed - a.holder.Owed()
	back -= forgiven - h.unspend(a, forgiven, true)
	if h.unspend(a, back, false) > rounding {
		h.fail("%s gets back tokens that it has not spent", a.id)
	}
	h.tend(a)
}

// unspend takes out of what was admitted the newest tokens that a has spent, or the newest that
// it was charged: they were not used. It returns how many more than these have come back.
func (h *history) unspend(a *actor, back float64, charged bool) float64 {
	first := len(h.spent)
	for i := first - 1; i >= 0 && back > 0; i-- {
		s := &h.spent[i]
		if s.who != a.id || charged && !s.debt {
			continue
		}
		x := min(s.n, back)
		s.n, back, first = s.n-x, back-x, i
		if h.turns != nil && s.turn < h.turns.number {
			h.turns.back += x // a bucket may lack it for longer
		}
		h.windows.uncount(s.at, x)
		h.sliding.uncount(s.at, x)
	}
	h.pour(first)
	return back
}

// uncount takes out of the window what was admitted in it and has come back.
func (w *windows) uncount(at time.Duration, n float64) {
	if float64(at/time.Microsecond) >= w.start {
		w.admitted -= n
	}
}

// uncount takes out of the log what was admitted at that time and has come back.
func (s *sliding) uncount(at time.Duration, n float64) {
	for i := len(s.log) - 1; i >= 0 && n > 0; i-- {
		if s.log[i].at == at {
			x := min(s.log[i].n, n)
			s.log[i].n, s.admitted, n = s.log[i].n-x, s.admitted-x, n-x
		}
	}
}

// TestRefund: what comes back was spent from the lease since the last answer, and has room there.
// In a sliding window it is what counts.
func TestRefund(t *testing.T) {
	batch := lease.Reply{Add: 20, Burst: 20, Keep: 20, Refresh: time.Minute, Expires: time.Minute,
		Shape: lease.Batch}
	slice := batch
	slice.Shape, slice.Rate, slice.RateUntil = lease.Slice, 4, time.Minute
	quota := batch
	quota.Window = time.Minute
	asks := func(h *lease.Holder, now time.Duration) {
		h.Probe(now, true)
		h.Request(now)
	}
	answered := func(add float64) func(h *lease.Holder, now time.Duration) {
		return func(h *lease.Holder, now time.Duration) {
			h.Probe(now, true)
			q, _ := h.Request(now)
			r := batch
			r.Seq, r.Add, r.Limit = q.Seq, add, q.Limit
			h.Handle(now, r)
		}
	}
	sliding := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: 10 * time.Minute}
	for _, c := range []struct {
		name  string
		limit lease.Limit
		reply lease.Reply
		pause time.Duration // after eight tokens were spent, at 2 s
		then  func(h *lease.Holder, now time.Duration)
		n     float64
		back  float64
	}{
		{"a part", lease.Limit{}, batch, 0, nil, 5, 5},
		{"more than was spent", lease.Limit{}, batch, 0, nil, 9, 8},
		{"to a quota", quotaOf(100), quota, 0, nil, 9, 8},
		{"to a sliding window", sliding, batch, 0, nil, 9, 8},
		{"what has flowed in meanwhile", lease.Limit{}, slice, time.Second, nil, 9, 4},
		{"all of it has", lease.Limit{}, slice, 10 * time.Second, nil, 9, 0},
		{"the lease has ended", lease.Limit{}, batch, 2 * time.Minute, nil, 9, 0},
		{"the window has", quotaOf(100), quota, 2 * time.Minute, nil, 9, 0},
		{"the lease of a sliding window has", sliding, batch, 2 * time.Minute, nil, 9, 0},
		{"a request is unanswered", lease.Limit{}, batch, 0, asks, 9, 0},
		{"one of a sliding window is", sliding, batch, 0, asks, 9, 8},
		{"it was answered", lease.Limit{}, batch, 0, answered(0), 9, 0},
		{"that of a sliding window was", sliding, batch, 0, answered(0), 9, 8},
		{"of no lease", lease.Limit{}, lease.Reply{}, 0, nil, 9, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.limit == (lease.Limit{}) {
				c.limit = lease.Limit{Rate: 1000, Burst: 100}
			}
			h := lease.NewHolder("a", c.limit, &lease.Policy{}, 1)
			h.Probe(time.Second, true)
			q, _ := h.Request(time.Second)
			c.reply.Seq, c.reply.Limit = q.Seq, c.limit
			h.Handle(time.Second, c.reply)
			now := 2 * time.Second
			h.Take(now, 8)
			if now += c.pause; c.then != nil {
				c.then(h, now)
			}
			held := h.Lease(now).Tokens
			if back := h.Refund(now, c.n); back != c.back || h.Lease(now).Tokens != held+back {
				t.Errorf("%v come back, not %v; %v are held after %v", back, c.back, h.Held(), held)
			}
			if again := h.Refund(now, c.n); again != min(max(8-c.back, 0), c.n) && again != 0 {
				t.Errorf("%v come back again", again)
			}
		})
	}
}

func quotaOf(n int64) lease.Limit {
	return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: time.Hour}
}

// TestRefundPeak: the next request tells that what came back took up room.
func TestRefundPeak(t *testing.T) {
	h := leased(t, lease.Reply{Add: 10, Burst: 100, Keep: 100, Shape: lease.Slice, Rate: 10,
		RateUntil: time.Minute, Refresh: time.Minute, Expires: time.Minute})
	now := 2 * time.Second // ten came
	h.Take(now, 15)
	now += time.Second
	h.Refund(now, 15)
	h.Probe(now, true)
	if q, ok := h.Request(now); !ok || q.Peak < 30 || q.Peak < q.Held+q.Give {
		t.Errorf("%v, at most %v were held, and %v are", ok, q.Peak, q.Held)
	}
}

// TestRefundDebt: a debt that nobody was told of is forgiven first, and what is left of the refund
// comes back.
func TestRefundDebt(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 1, Burst: 100})
	h.Charge(now, 30)
	if back := h.Refund(now, 20); back != 20 || h.Owed() != 10 {
		t.Fatalf("%v come back, %v owed", back, h.Owed())
	}
	talk(t, h, l, now)
	if back := h.Refund(now, 20); back != 0 || h.Owed() != 0 || l.View().Pool != 90 {
		t.Errorf("%v come back, %v owed, pool %v", back, h.Owed(), l.View().Pool)
	}
}

// TestRefundParked: a holder that was parked gives back what was spent before.
func TestRefundParked(t *testing.T) {
	p, ok := lapsing(t).Park(3 * time.Second)
	if !ok {
		t.Fatal("cannot be parked")
	}
	now := 10 * time.Second
	h := p.Resume(now, "a", &lease.Policy{}, 1)
	if back := h.Refund(now, 9); back != 4 || h.Held() != 20 {
		t.Errorf("%v come back, %v held", back, h.Held())
	}
}

// TestRefundOfAWindow: what was spent of a quota comes back to the ledger while its window goes on,
// and once, whatever is lost. A charge that comes meanwhile is debited, too.
func TestRefundOfAWindow(t *testing.T) {
	lost := func(arrives bool) func(*lease.Holder, *lease.Ledger, time.Duration) {
		return func(h *lease.Holder, l *lease.Ledger, now time.Duration) {
			h.Ready(now)
			if q, ok := h.Request(now); ok && arrives {
				l.Exchange(now, q)
			}
			h.Fail(now)
		}
	}
	again := func(h *lease.Holder, l *lease.Ledger, now time.Duration) {
		h.Ready(now)
		q, _ := h.Request(now)
		l.Exchange(now, q)
		now += 100 * ms
		h.Handle(now, l.Exchange(now, q))
	}
	for _, c := range []struct {
		name   string
		pause  time.Duration // after 5 of 100 were taken at 1:00, and before 3 are refunded
		then   func(*lease.Holder, *lease.Ledger, time.Duration)
		charge float64
		back   float64
		left   float64 // at last, in the window of the take
	}{
		{"at once", ms, nil, 0, 3, 98},
		{"when the ledger has forgotten the holder", time.Minute, nil, 0, 3, 98},
		{"its message is lost", ms, lost(false), 0, 3, 98},
		{"its answer is", ms, lost(true), 0, 3, 98},
		{"the same, and its message comes again later", ms, again, 0, 3, 98},
		{"forgotten, and the message that makes a record is lost", time.Minute, lost(false), 0, 3, 98},
		{"its answer is, too", time.Minute, lost(true), 0, 3, 98},
		{"the same, before a charge", ms, lost(true), 10, 3, 88},
		{"after the window", time.Hour, nil, 0, 0, 100},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, l, now := newPair(quotaOf(100))
			w := &lease.Waiter{N: 5}
			h.Enter(w)
			if talk(t, h, l, now); w.Verdict != lease.Admitted {
				t.Fatal(w.Verdict)
			}
			now += c.pause
			if back := h.Refund(now, 3); back != c.back {
				t.Errorf("%v come back, not %v", back, c.back)
			}
			if asks := h.Ready(now).Ask; asks != (c.back > 0) {
				t.Errorf("the ledger is told at once: %v", asks)
			}
			if c.then != nil {
				c.then(h, l, now)
			}
			if c.charge > 0 {
				h.Charge(now, c.charge)
			}
			for range 3 {
				now += 15 * ms
				h.Probe(now, true)
				talk(t, h, l, now)
			}
			if v := l.View(); v.Pool+v.Bursts != c.left || !h.Idle(now) {
				t.Errorf("%v of 100 are left, not %v", v.Pool+v.Bursts, c.left)
			}
		})
	}
}

// TestRefundAfterALateAnswer: an answer whose lease has ended on the way is as good as lost. It has
// made no record for a refund.
func TestRefundAfterALateAnswer(t *testing.T) {
	h, l, now := newPair(quotaOf(100))
	taken, gone := &lease.Waiter{N: 5}, &lease.Waiter{N: 2, Hold: lease.WhileOpen}
	h.Enter(taken)
	talk(t, h, l, now)
	now += time.Minute // the ledger has forgotten the holder
	h.Enter(gone)
	h.Refund(now, 3)
	h.Ready(now)
	q, _ := h.Request(now)
	now += 10 * time.Minute
	h.Handle(now, l.Exchange(now, q))
	h.Withdraw(now, gone)
	for range 3 {
		now += 15 * ms
		talk(t, h, l, now)
	}
	if v := l.View(); v.Pool != 98 || !h.Idle(now) {
		t.Errorf("%v of 100 are left, not 98", v.Pool)
	}
}

// TestRefundOfAnotherFrame: what was spent of a quota does not come back to another window, though
// no window was known between the two.
func TestRefundOfAnotherFrame(t *testing.T) {
	h, now := lease.NewHolder("a", quotaOf(100), &lease.Policy{}, 1), time.Duration(0)
	for _, r := range []lease.Reply{
		{Taken: 5, Window: time.Hour, Limit: quotaOf(100)},
		{Limit: lease.Limit{Rate: 1, Burst: 100}},
		{Window: time.Hour, Limit: quotaOf(100)},
	} {
		h.Enter(&lease.Waiter{N: 5})
		h.Probe(now, true)
		h.Ready(now)
		q, _ := h.Request(now)
		r.Seq = q.Seq
		h.Handle(now, r)
		h.Ready(now)
		now += 40 * time.Minute
	}
	if back := h.Refund(now-20*time.Minute, 5); back != 0 {
		t.Errorf("%v come back from a window that has ended", back)
	}
}

// TestRefundToALedger: a Debt below 0 is of a quota. For another kind of limit the request is
// refused.
func TestRefundToALedger(t *testing.T) {
	for _, limit := range []lease.Limit{
		thousand, quotaOf(10), slots(10), {Burst: 10, Kind: lease.KindSliding, Window: time.Minute},
	} {
		q := ask("a", 1, func(q *lease.Request) { q.Limit, q.Debt = limit, -1 })
		if err := q.Validate(); (err == nil) != (limit.Kind == lease.KindQuota) {
			t.Errorf("%v: %v", limit, err)
		}
	}
}

// TestRefundAfterALoss: what was spent before a state was lost has not been taken from the new one.
func TestRefundAfterALoss(t *testing.T) {
	var l lease.Ledger
	adopted := func(holder string) lease.Reply {
		return l.Exchange(time.Hour, ask(holder, 7, func(q *lease.Request) {
			q.Limit, q.Held, q.Peak = quotaOf(100), 60, 60
			q.Claim = lease.Claim{Burst: 60, Left: time.Minute}
		}))
	}
	adopted("a")
	r := adopted("b")
	l.Exchange(time.Hour, ask("b", 8, func(q *lease.Request) {
		q.Limit, q.Held, q.Peak, q.Debt, q.Since = quotaOf(100), 60, 60, -3, r.Fence
		q.Claim = lease.Claim{Burst: 60, Left: time.Minute}
	}))
	if v := l.View(); v.Bursts < 120 || v.Pool+v.Bursts > 100 {
		t.Errorf("%v of 100 are divided, %v are lent", v.Pool+v.Bursts, v.Bursts)
	}
}
