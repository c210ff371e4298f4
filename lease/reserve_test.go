package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// talk carries what h asks for to the ledger and back, at once, until it asks for nothing.
func talk(t *testing.T, h *lease.Holder, l *lease.Ledger, now time.Duration) (last lease.Reply, resolved []*lease.Waiter) {
	t.Helper()
	for range 1000 {
		r := h.Ready(now)
		resolved = append(resolved, r.Resolved...)
		if !r.Ask {
			return last, resolved
		}
		q, ok := h.Request(now)
		if !ok {
			return last, resolved
		}
		if err := q.Validate(); err != nil {
			t.Fatal(err)
		}
		last = l.Exchange(now, q)
		h.Handle(now, last)
	}
	t.Fatalf("%v: the holder asks without end", now)
	return last, resolved
}

// reserve reserves n tokens, through the ledger if need be.
func reserve(t *testing.T, h *lease.Holder, l *lease.Ledger, now time.Duration, n float64) lease.Reserved {
	t.Helper()
	r, v := h.Reserve(now, n)
	if v == lease.Admitted {
		return r
	}
	w := &lease.Waiter{N: n, Hold: lease.WhileOpen}
	h.Enter(w)
	if talk(t, h, l, now); w.Verdict != lease.Admitted {
		t.Fatalf("%v tokens are not reserved: %v", n, w.Verdict)
	}
	return w.Reserved
}

func newPair(limit lease.Limit) (*lease.Holder, *lease.Ledger, time.Duration) {
	return lease.NewHolder("a", limit, &lease.Policy{}, 1), new(lease.Ledger), time.Hour
}

// TestReservedUnderAnotherKind: an answer that lends nothing, as one by another kind of limit, ends
// what is reserved, in the same moment: a request would tell of less than nothing that is held.
func TestReservedUnderAnotherKind(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 100, Burst: 100})
	r := reserve(t, h, l, now, 60)
	h.Probe(now, true)
	q, ok := h.Request(now)
	h.Handle(now, lease.Reply{Seq: q.Seq, RetryAfter: time.Second, Limit: lease.Limit{Kind: lease.KindQuota, Burst: 9, Window: time.Hour}})
	if !ok || h.Keeps(now, r) || h.Held() != 0 || h.Reserving() != 0 {
		t.Errorf("it asks: %v; it keeps what it reserved: %v; %v are held", ok, h.Keeps(now, r), h.Held())
	}
}

// TestReservedKeepRoom: what is reserved has its room in the lease and at the ledger, over
// renewals, until it is settled. Then what comes back fits, and the bucket is full again.
func TestReservedKeepRoom(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 100, Burst: 100})
	r := reserve(t, h, l, now, 60)
	for range 400 {
		now += 50 * time.Millisecond // the pool has filled long ago
		talk(t, h, l, now)
		if !h.Keeps(now, r) || h.Reserving() != 60 {
			t.Fatalf("%v: the reservation has ended, %v are reserved", now, h.Reserving())
		}
		if v := l.View(); v.Pool+v.Bursts > 100 || v.Bursts < 60 {
			t.Fatalf("pool %v, %v set aside for 60 tokens", v.Pool, v.Bursts)
		}
	}
	h.Release(now, r, 45)
	if h.Held() < 45 || h.Reserving() != 0 {
		t.Fatalf("%v held, %v reserved", h.Held(), h.Reserving())
	}
	for range 20 {
		now += 50 * time.Millisecond
		talk(t, h, l, now)
	}
	if level := h.Level(now); level != 100 {
		t.Errorf("%d tokens are left", level)
	}
}

// TestRefundsDoNotPileUp: a chain of reservations that are cancelled and made again never
// has more than the Burst out, whatever flows meanwhile.
func TestRefundsDoNotPileUp(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 1000, Burst: 100})
	var open []lease.Reserved
	for i := range 1000 {
		now += 5 * time.Millisecond
		if r, v := h.Reserve(now, 10); v == lease.Admitted {
			open = append(open, r)
		} else if v == lease.Pending {
			h.Enter(&lease.Waiter{N: 10, Hold: lease.WhileOpen})
		}
		_, done := talk(t, h, l, now)
		for _, w := range done {
			if w.Verdict == lease.Admitted {
				open = append(open, w.Reserved)
			}
		}
		if v := l.View(); h.Held()+h.Reserving()+v.Pool > 100+rounding {
			t.Fatalf("step %d: %v held, %v reserved, %v in the pool", i, h.Held(), h.Reserving(), v.Pool)
		}
		if len(open) > 3 {
			h.Release(now, open[0], 10)
			open = open[1:]
		}
	}
}

// TestForfeited: when a lease ends its reservations are spent. What is released later
// does not come back, nor does it touch a later lease.
func TestForfeited(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 100, Burst: 100})
	r := reserve(t, h, l, now, 60)
	now += time.Hour // its process was cut off
	if h.Keeps(now, r) || h.Reserving() != 0 {
		t.Fatalf("%v are reserved by a lease that has ended", h.Reserving())
	}
	later := reserve(t, h, l, now, 50)
	h.Release(now, r, 60)
	if h.Reserving() != 50 || !h.Keeps(now, later) {
		t.Errorf("%v are reserved", h.Reserving())
	}
}

// A trio spends as processes do that are asked 200 times a second, of a limit of 100/s burst 50.
type trio struct {
	*testing.T
	l        *lease.Ledger
	now      time.Duration
	holders  []*lease.Holder
	admitted []float64 // of each holder
}

func newTrio(t *testing.T) *trio {
	limit := lease.Limit{Rate: 100, Burst: 50}
	h, l, now := newPair(limit)
	s := &trio{T: t, l: l, now: now, holders: []*lease.Holder{h}}
	for i, id := range []string{"b", "c"} {
		s.holders = append(s.holders, lease.NewHolder(id, limit, &lease.Policy{}, uint64(i)+2))
	}
	return s
}

// run has the first n of them asked for so long.
func (s *trio) run(n int, d time.Duration) {
	s.admitted = make([]float64, n)
	for end := s.now + d; s.now < end; s.now += 5 * time.Millisecond {
		for i, h := range s.holders[:n] {
			v := h.Take(s.now, 1)
			if v == lease.Admitted {
				s.admitted[i]++
			} else if v == lease.Pending {
				h.Enter(&lease.Waiter{N: 1})
			}
			_, done := talk(s.T, h, s.l, s.now)
			for _, w := range done {
				if w.Verdict == lease.Admitted {
					s.admitted[i]++
				}
			}
		}
	}
}

// TestDebtIsPaidFirst: what is charged beyond what is there stops the holder until it has
// flowed in, from its part of the rate. The other holder has no more than its own.
func TestDebtIsPaidFirst(t *testing.T) {
	s := newTrio(t)
	s.run(2, 2*time.Second)
	h := s.holders[0]
	h.Charge(s.now, 500)
	if h.Owed() == 0 || h.Take(s.now, 1) == lease.Admitted {
		t.Fatalf("%v owed", h.Owed())
	}
	talk(t, h, s.l, s.now)
	if h.Owed() != 0 || s.l.View().Pool > -400 {
		t.Fatalf("%v owed, pool %v", h.Owed(), s.l.View().Pool)
	}
	s.run(2, 4*time.Second)
	if n := s.admitted[0] + s.admitted[1]; n > 250 || h.Held() > 0 {
		t.Errorf("%v admitted while 500 are paid, %v held", n, h.Held())
	}
	s.run(2, 8*time.Second)
	s.run(2, 2*time.Second)
	if n := s.admitted[0] + s.admitted[1]; n < 180 {
		t.Errorf("%v admitted in 2 s after that", n)
	}
}

// TestSliceBesideADebt: a process that comes while a debt is paid has a slice soon: it lives on its
// refill, and the pool need not be full for it.
func TestSliceBesideADebt(t *testing.T) {
	s := newTrio(t)
	s.run(2, 2*time.Second)
	s.holders[0].Charge(s.now, 500)
	talk(t, s.holders[0], s.l, s.now)
	s.run(3, 4*time.Second)
	if n := s.admitted[2]; n < 60 {
		t.Errorf("%v admitted of the new one, of the others %v", n, s.admitted[:2])
	}
}

// TestDebtIsPostedOnce: a request that carries a debt is lost, or its answer is. The debt is
// debited once, and not forgotten.
func TestDebtIsPostedOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		arrives [3]bool // the first requests
	}{
		{"nothing is lost", [3]bool{}},
		{"the request", [3]bool{false}},
		{"the answer", [3]bool{true}},
		{"one of each", [3]bool{false, true, false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, l, now := newPair(lease.Limit{Rate: 1, Burst: 100})
			reserve(t, h, l, now, 1) // it is known
			h.Charge(now, 150)
			for i, arrives := range c.arrives {
				if i == 0 && c.name == "nothing is lost" {
					break
				}
				now += 10 * time.Millisecond
				h.Probe(now, true)
				h.Ready(now)
				q, ok := h.Request(now)
				if !ok || q.Debt == 0 {
					t.Fatalf("request %d: %+v", i, q)
				}
				if arrives {
					l.Exchange(now, q)
				}
				h.Fail(now)
				h.Charge(now, 10) // more, while it is not known whether that arrived
			}
			for range 3 {
				now += 10 * time.Millisecond
				h.Probe(now, true)
				talk(t, h, l, now)
			}
			want := 99.0 - 150 - 30
			if c.name == "nothing is lost" {
				want += 30
			}
			if v := l.View(); h.Owed() != 0 || v.Pool+h.Held() < want-1 || v.Pool+h.Held() > want+1 {
				t.Errorf("pool %v, %v held, %v owed; %v are left", v.Pool, h.Held(), h.Owed(), want)
			}
		})
	}
}

// TestDebtOfAnotherKind: while others go by another kind of limit a debt cannot be debited. Its
// holder asks as often as one that is denied, also when it wants to quit. The debt is not
// forgotten.
func TestDebtOfAnotherKind(t *testing.T) {
	quota := lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: time.Hour}
	h, l, now := newPair(lease.Limit{Rate: 1, Burst: 100})
	other := lease.NewHolder("b", quota, &lease.Policy{}, 2)
	exchanges := 0
	ask := func(request func(time.Duration) (lease.Request, bool)) {
		for range 10 { // as long as it is due
			h.Ready(now)
			q, ok := request(now)
			if !ok {
				return
			}
			exchanges++
			h.Handle(now, l.Exchange(now, q))
		}
		t.Fatal("it asks again and again at one moment")
	}
	reserve(t, other, l, now, 5) // it stays
	h.Charge(now, 150)
	for end := now + 10*time.Second; now < end; now += 10 * time.Millisecond {
		talk(t, other, l, now)
		ask(h.Request)
	}
	for end := now + 10*time.Second; now < end; now += 10 * time.Millisecond {
		talk(t, other, l, now)
		ask(h.Quit)
	}
	if exchanges > 90 || h.Owed() != 150 {
		t.Errorf("%d exchanges in 20 s, %v owed", exchanges, h.Owed())
	}
	if _, ok := other.Quit(now); !ok {
		t.Fatal("nothing to hand back")
	}
	now += time.Minute // its record has ended
	ask(h.Request)
	if v := l.View(); h.Owed() != 0 || v.Pool != -55 { // 5 were used of the quota
		t.Errorf("%v owed, pool %v", h.Owed(), v.Pool)
	}
}

// TestDebtOutlivesIdleness: a holder with a debt, or with tokens that are reserved, is not
// idle, is not parked, and does not quit without it.
func TestDebtOutlivesIdleness(t *testing.T) {
	h, l, now := newPair(lease.Limit{Rate: 1, Burst: 100})
	h.Charge(now, 5)
	if h.Idle(now) || !h.Owes(now) {
		t.Error("a debt is nothing")
	}
	q, ok := h.Quit(now)
	if !ok || q.Debt != 5 {
		t.Fatalf("quits with %+v", q)
	}
	h.Handle(now, l.Exchange(now, q))
	if v := l.View(); v.Pool != 95 || !h.Idle(now) {
		t.Errorf("pool %v", v.Pool)
	}
	r := reserve(t, h, l, now, 5)
	if _, ok := h.Park(now); ok || h.Idle(now) {
		t.Error("a reservation is nothing")
	}
	h.Release(now, r, 0)
}

// TestHeldNotTaken: what was asked for to be reserved, and whose caller has gone, is in the
// lease, and back in the bucket after a refresh.
func TestHeldNotTaken(t *testing.T) {
	for _, limit := range []lease.Limit{{Rate: 10, Burst: 4}, {Rate: 1000, Burst: 1000}} {
		h, l, now := newPair(limit)
		for i := range 100 {
			w := &lease.Waiter{N: 3, Hold: lease.WhileOpen}
			h.Enter(w)
			h.Ready(now)
			if q, ok := h.Request(now); ok {
				r := l.Exchange(now, q)
				if i%2 == 0 {
					h.Withdraw(now, w)
				}
				h.Handle(now, r)
			}
			if h.Ready(now); w.Verdict == lease.Admitted {
				h.Release(now, w.Reserved, 3)
			}
			now += time.Millisecond
			talk(t, h, l, now)
		}
		for range 20 {
			now += 50 * time.Millisecond
			talk(t, h, l, now)
		}
		if v := l.View(); v.Pool+v.Bursts < float64(limit.Burst)-0.1 || h.Level(now) != limit.Burst {
			t.Errorf("%v: %d tokens are left of %d, %v in the pool", limit, h.Level(now), limit.Burst, v.Pool)
		}
	}
}

// TestSurplusBesideReserved: what is reserved stays in the lease, when its holder hands back
// what is above the part that it may keep.
func TestSurplusBesideReserved(t *testing.T) {
	h := leased(t, lease.Reply{Add: 20, Burst: 20, Keep: 6, Refresh: time.Second,
		Expires: 3 * time.Second, Shape: lease.Batch})
	now := 2 * time.Second
	r, v := h.Reserve(now, 4)
	for range 8 { // it is in use
		now += 125 * ms
		h.Take(now, 1)
	}
	if q, ok := h.Request(now); v != lease.Admitted || !ok || q.Give != 6 || q.Held != 6 {
		t.Errorf("%v, hands back %v and keeps %v with those that are reserved", v, q.Give, q.Held)
	}
	if h.Held() != 2 || !h.Keeps(now, r) {
		t.Errorf("%v held", h.Held())
	}
}

// TestLongBatchIsKept: a long batch of which tokens are reserved is neither idle nor parked,
// nor is one whose answer came with tokens after a debt.
func TestLongBatchIsKept(t *testing.T) {
	now := 3 * time.Second
	h := lapsing(t)
	r, _ := h.Reserve(now, 5)
	if _, parked := h.Park(now); parked || h.Idle(now) {
		t.Error("a reservation is nothing")
	}
	if h.Release(now, r, 5); !h.Idle(now) {
		t.Error("it has ended")
	}

	h.Probe(now, true)
	q, ok := h.Request(now)
	if !ok {
		t.Fatal("nothing is asked")
	}
	h.Charge(now, 50)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Add: 3, Burst: 20, Keep: 20, Shape: lease.LongBatch,
		Refresh: 30 * time.Second, Expires: 30 * time.Second,
		Limit: q.Limit,
	})
	if _, parked := h.Park(now); parked || h.Idle(now) || h.Owed() != 34 {
		t.Errorf("a debt is nothing, %v owed", h.Owed())
	}
}
