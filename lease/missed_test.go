package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A loan is a ledger of 1000 tokens/s, and a holder to which it has lent 100 tokens and a
// slice of 550/s at 1 s. Its rate ends after 166 ms, its tokens die after 374. The other
// 900 tokens were taken: there is room for all that comes.
type loan struct {
	bench
	ledger lease.Ledger
	others uint64 // requests of another holder
	spent  int
}

func newLoan(t *testing.T) *loan {
	t.Helper()
	n := &loan{others: 1}
	n.ledger.Exchange(time.Second, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 900, 1 }))
	r := n.ledger.Exchange(time.Second, ask("a", 1, func(q *lease.Request) {
		q.Demand, q.Policy.Batch = 500, 250 // lasts for long enough
	}))
	if r.Add != 100 || r.Rate != 550 || r.Burst != 275 {
		t.Fatalf("lent %+v", r)
	}
	n.bench = bench{leased(t, r), time.Second}
	return n
}

// ask makes the next request, at a time after the loan. Until then 500 tokens/s are used.
func (n *loan) ask(t *testing.T, at time.Duration) lease.Request {
	t.Helper()
	for n.now < time.Second+at {
		n.now += 2 * ms
		n.spent += n.spend(1)
	}
	n.Probe(n.now, true)
	q, ok := n.Request(n.now)
	if !ok {
		t.Fatalf("no request after %v", at)
	}
	return q
}

// missing is how many tokens have flowed until a time after the loan, and are nowhere.
func (n *loan) missing(at time.Duration) float64 {
	n.others++
	n.ledger.Exchange(time.Second+at, ask("b", n.others, nil))
	return 100 + 1000*at.Seconds() - n.ledger.View().Pool -
		n.Lease(time.Second+at).Tokens - float64(n.spent)
}

// TestWhatDidNotArriveComesBack: a holder adds nothing while a request is unanswered,
// and a reply may be lost. With the next exchange all of it is in the pool.
func TestWhatDidNotArriveComesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		scene func(n *loan) (last time.Duration)
	}{
		{"the pause", func(n *loan) time.Duration {
			r := n.ledger.Exchange(time.Second+120*ms, n.ask(t, 100*ms))
			n.Handle(time.Second+160*ms, r)
			return 180 * ms
		}},
		{"a lost request", func(n *loan) time.Duration {
			n.ask(t, 100*ms)
			n.Fail(time.Second + 150*ms)
			return 160 * ms
		}},
		{"a lost reply", func(n *loan) time.Duration {
			n.ledger.Exchange(time.Second+100*ms, n.ask(t, 100*ms))
			n.Fail(time.Second + 150*ms)
			return 160 * ms
		}},
		{"a lost request, and a lost reply", func(n *loan) time.Duration {
			n.ask(t, 50*ms)
			n.Fail(time.Second + 100*ms)
			n.ledger.Exchange(time.Second+110*ms, n.ask(t, 110*ms))
			n.Fail(time.Second + 160*ms)
			return 170 * ms
		}},
		{"a lease whose rate has ended", func(n *loan) time.Duration {
			n.ask(t, 100*ms)
			n.Fail(time.Second + 150*ms)
			n.ledger.Exchange(time.Second+300*ms, ask("c", 1, nil))
			if v := n.ledger.View(); v.Rates != 0 || !v.Holders[0].Ended {
				t.Fatalf("the rate has not ended: %+v", v)
			}
			return 310 * ms
		}},
	} {
		n := newLoan(t)
		last := c.scene(n)
		q := n.ask(t, last)
		before := n.missing(last) - q.Give
		r := n.ledger.Exchange(n.now, q)
		missing := n.missing(last) - r.Add
		if before < 4 || math.Abs(missing) > 0.01 {
			t.Errorf("%s: %v tokens are missing before the last exchange, and %v after it", c.name, before, missing)
		}
	}
}

// TestMissedFits: what was missed comes back as far as the sub-bucket had room for it
// beside the most that was held (I1).
func TestMissedFits(t *testing.T) {
	for _, c := range []struct {
		name                  string
		got, peak, held, give float64
		want                  float64
	}{
		// 100 + 55 tokens were lent until 100 ms.
		{"all came", 155, 155, 0, 0, 0},
		{"more than that", 200, 200, 0, 0, 0},
		{"more than that, and some is held", 200, 200, 20, 0, -20},
		{"a part", 105, 105, 0, 0, 50},
		{"it was full once", 105, 275, 0, 0, 0},
		{"it was nearly full once", 105, 255, 0, 0, 20},
		{"it held more than its burst", 105, 600, 0, 10, 10},
		{"beside what is handed back", 105, 105, 0, 40, 90},
		{"and no more than beside what is held", 105, 105, 265, 40, 10},
	} {
		n := newLoan(t)
		before := n.ledger.View()
		n.ledger.Exchange(time.Second+100*ms, ask("a", 2, func(q *lease.Request) {
			q.Got, q.Peak, q.Held, q.Give = c.got, c.peak, c.held, c.give
		}))
		got := n.ledger.View().Pool - before.Pool - (1000-before.Rates)*0.1
		if math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s: %v tokens come back, want %v", c.name, got, c.want)
		}
	}
}

// TestPeak: a request tells what found room since the one that was answered left, and the
// most that was held. What an answer added took up room from when that one left, though
// tokens were spent meanwhile: the ledger counted on those being held.
func TestPeak(t *testing.T) {
	answer := func(add, taken float64) lease.Reply {
		return lease.Reply{
			Seq: 2, Add: add, Taken: taken, Shape: lease.Slice, Rate: 100, Burst: 200, Keep: 200,
			Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 650 * ms,
		}
	}
	for _, c := range []struct {
		name      string
		play      func(h *bench)
		got, peak float64
	}{
		{"at rest", func(h *bench) { h.Handle(h.now, answer(20, 0)) }, 20, 70},
		{"spent while it was under way", func(h *bench) {
			h.spend(40)
			h.Handle(h.now, answer(20, 0))
		}, 20, 70},
		{"for somebody who has gone", func(h *bench) { h.Handle(h.now, answer(20, 30)) }, 20, 100},
		{"it refilled", func(h *bench) {
			h.Handle(h.now, answer(20, 0))
			h.spend(60)
			h.now += 100 * ms
		}, 30, 70},
		{"and overflowed", func(h *bench) {
			h.Handle(h.now, answer(145, 0))
			h.now += 100 * ms
		}, 150, 200},
		{"no answer", func(h *bench) {
			h.spend(40)
			h.Fail(h.now)
			h.now += 100 * ms
		}, 50, 50},
	} {
		h := &bench{leased(t, share), time.Second} // 50 tokens of 50
		h.Probe(h.now, true)
		if q, ok := h.Request(h.now); !ok || q.Got != 50 || q.Peak != 50 || q.Held != 50 {
			t.Fatalf("%v %+v", ok, q)
		}
		c.play(h)
		h.Probe(h.now, true)
		q, ok := h.Request(h.now)
		if !ok || math.Abs(q.Got-c.got) > 1e-6 || math.Abs(q.Peak-c.peak) > 1e-6 {
			t.Errorf("%s: got %v, peak %v; want %v and %v", c.name, q.Got, q.Peak, c.got, c.peak)
		}
	}
}

// TestLateRepeats: two messages are repeated after their lease has ended, one after the other. The
// ledger takes the first repeat for a new message. The second repeat hands back tokens that its
// holder had got long ago, by the answer to the first message or by a later answer. No more of
// these tokens come back than the first repeat was lent.
func TestLateRepeats(t *testing.T) {
	for seen := range uint64(2) {
		var l lease.Ledger
		first := ask("a", 1, demanding(900))
		r := l.Exchange(time.Second, first)
		second := ask("a", 3, func(q *lease.Request) {
			q.Seen, q.Give, q.Peak = 1+seen, r.Add, r.Burst
			q.Got = []float64{r.Add, 0}[seen] // since the answer that was seen
			q.Claim = lease.Claim{Rate: r.Rate, Burst: r.Burst, Left: r.Expires}
		})
		l.Exchange(time.Hour, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 900, 1 }))
		before := l.View().Pool
		again := l.Exchange(time.Hour, first)
		l.Exchange(time.Hour, second)
		if back := l.View().Pool - before; again.Add >= r.Add || back > 0 {
			t.Errorf("answer %d seen: the first was lent %v, its repeat %v, and the pool grew by %v",
				1+seen, r.Add, again.Add, back)
		}
	}
}

// TestLateAnswerComesBack: a request is under way for longer than its lease lives, and is answered.
// The next one brings back what the answer lent, and has it lent anew.
func TestLateAnswerComesBack(t *testing.T) {
	for _, limit := range []lease.Limit{
		lease.Per(10, time.Hour),
		{Kind: lease.KindQuota, Burst: 10, Window: time.Hour},
		{Kind: lease.KindSliding, Burst: 10, Window: time.Hour},
		{Kind: lease.KindSlots, Burst: 10},
	} {
		h, l, now := newPair(limit)
		w := &lease.Waiter{N: 6, Hold: lease.WhileOpen}
		h.Enter(w)
		h.Ready(now)
		for _, under := range []time.Duration{10 * time.Minute, ms} {
			q, ok := h.Request(now)
			if !ok {
				t.Fatalf("%v: it does not ask", limit)
			}
			now += under
			h.Handle(now, l.Exchange(now, q))
			h.Ready(now)
		}
		if left := l.View().Pool; w.Verdict != lease.Admitted || !h.Keeps(now, w.Reserved) || int(left) != 4 {
			t.Errorf("%v: verdict %v, and %v are left", limit, w.Verdict, left)
		}
	}
}

// TestHeldForAsLong: the lease of what is held lives for as long as that may be, and for no more
// than an era.
func TestHeldForAsLong(t *testing.T) {
	for hold, lives := range map[time.Duration]time.Duration{
		time.Microsecond: 750 * ms, // a batch's own life
		5 * time.Second:  5 * time.Second,
		lease.WhileOpen:  30 * time.Second,
	} {
		h, l, now := newPair(lease.Per(60, time.Minute))
		h.Enter(&lease.Waiter{N: 1, Hold: hold})
		talk(t, h, l, now)
		if got := l.View().Holders[0].Expires() - now; got < lives || got > lives*11/10 {
			t.Errorf("held for %v, it lives for %v, want %v", hold, got, lives)
		}
	}
}

// TestLongUnderWay: what is reserved lives through an answer of 5 s, and through 20 s without any.
// When it has come back, the ledger soon forgets the holder.
func TestLongUnderWay(t *testing.T) {
	for name, limit := range map[string]lease.Limit{
		"bucket": lease.Per(10, time.Hour),
		"quota":  {Kind: lease.KindQuota, Burst: 10, Window: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			h, l, now := newPair(limit)
			w := &lease.Waiter{N: 6, Hold: lease.WhileOpen}
			h.Enter(w)
			h.Ready(now)
			for _, under := range []time.Duration{5 * time.Second, 5 * time.Second, 20 * time.Second} {
				q, ok := h.Request(now)
				r := l.Exchange(now, q)
				now += under
				if h.Handle(now, r); !ok || w.Verdict != lease.Pending && !h.Keeps(now, w.Reserved) {
					t.Fatalf("it asks: %v, and has lost what it reserved", ok)
				}
				h.Ready(now)
			}
			if w.Verdict != lease.Admitted {
				t.Fatal(w.Verdict)
			}
			h.Release(now, w.Reserved, 6)
			talk(t, h, l, now)
			if v := l.View(); int(v.Pool) != 10 || v.Holders[0].Expires() > now+2*time.Second {
				t.Errorf("%v are left, and the holder is known until %v", v.Pool, v.Holders[0].Expires())
			}
		})
	}
}
