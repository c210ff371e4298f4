package lease_test

import (
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// answered is a holder of three classes that has asked for one caller, and its answer.
func answered(t *testing.T, class uint8, r lease.Reply) *lease.Holder {
	t.Helper()
	h := classedBy("a", minute, threeClasses)
	h.As(class)
	h.Take(0, 1)
	h.Enter(&lease.Waiter{N: 1, Class: class})
	h.Ready(0)
	q, ok := h.Request(0)
	if !ok || q.ByClass.First != int(class) {
		t.Fatalf("%v, %+v", ok, q.ByClass)
	}
	r.Seq, r.Limit, r.Window, r.Holders = q.Seq, minute, 30*time.Second, 2
	r.Shape, r.Refresh, r.Expires = lease.Batch, 10*time.Second, 30*time.Second
	h.Handle(0, r)
	if done := h.Ready(0).Resolved; len(done) != 1 {
		t.Fatalf("%d callers have an answer", len(done))
	}
	return h
}

// takes is how many single tokens a class has, of most.
func takes(h *lease.Holder, now time.Duration, class uint8, most int) (n int) {
	for h.As(class); n < most && h.Take(now, 1) == lease.Admitted; n++ {
	}
	return n
}

// TestQuotaClassesInOneProcess: a class spends what is lent for it, and what is nobody's. A higher
// class leaves what is lent for a lower one. What each has had is told, and what comes back.
func TestQuotaClassesInOneProcess(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		Taken: 1, Add: 60, Burst: 60, Keep: 4,
		Portions: &lease.Portions{
			Add: by(20, 10), Keep: by(0, 4),
		},
	})
	if n := takes(h, 0, 0, 45); n != 45 {
		t.Errorf("critical has %d of its 20, and 30", n)
	}
	if n := takes(h, 0, 2, 10); n != 5 {
		t.Errorf("batch has %d of the 5 that are nobody's", n)
	}
	if n := takes(h, 0, 0, 10); n != 0 {
		t.Errorf("critical has %d of the 10 of normal", n)
	}
	if n := takes(h, 0, 1, 3); n != 3 {
		t.Errorf("normal has %d of its 10", n)
	}
	h.Probe(time.Second, true)
	q, ok := h.Request(time.Second)
	b := q.ByClass
	if !ok || b.Own != by(0, 4) || b.Back != by(-25, 3, -5) ||
		q.Give != 3 || q.Held != 4 {
		t.Errorf("tells %+v, gives %v", b, q.Give)
	}
	h.Fail(time.Second)
	h.Probe(3*time.Second, true)
	if q, _ = h.Request(3 * time.Second); q.ByClass.Back != by() {
		t.Errorf("tells again %v", q.ByClass.Back)
	}
}

// TestQuotaClassQueue: what is nobody's is for a caller of a higher class who waits; what is lent
// for a class is not.
func TestQuotaClassQueue(t *testing.T) {
	h := answered(t, 1, lease.Reply{
		Taken: 1, Add: 15, Burst: 15, Keep: 15,
		Portions: &lease.Portions{Add: by(0, 5)},
	})
	h.Enter(&lease.Waiter{N: 50, Class: 0, Until: time.Hour})
	if n := takes(h, 0, 1, 10); n != 5 {
		t.Errorf("normal has %d of its 5, while critical waits", n)
	}
	if n := takes(h, 0, 2, 10); n != 0 {
		t.Errorf("batch has %d, while critical waits", n)
	}
}

// TestQuotaClassGone: what was taken for callers that have gone, and finds no room, is lent for
// nobody.
func TestQuotaClassGone(t *testing.T) {
	h := answered(t, 1, lease.Reply{
		Taken: 4, Add: 10, Burst: 10, Keep: 10,
		Portions: &lease.Portions{Add: by(10)},
	})
	if n := takes(h, 0, 0, 20); n != 10 {
		t.Errorf("critical has %d of its 10", n)
	}
}

// TestQuotaClassTaken: what was taken for callers is for their class only.
func TestQuotaClassTaken(t *testing.T) {
	h := answered(t, 1, lease.Reply{
		Taken: 4, Add: 6, Burst: 10, Keep: 10, Portions: new(lease.Portions),
	})
	if n := takes(h, 0, 0, 20); n != 6 {
		t.Errorf("critical has %d of the 6 that are nobody's", n)
	}
	if n := takes(h, 0, 1, 20); n != 3 {
		t.Errorf("normal has %d of the 3 that were taken for it", n)
	}
}

// TestQuotaClassNextWindow: when the window has ended nothing is told of it.
func TestQuotaClassNextWindow(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		Taken: 1, Add: 30, Burst: 30, Keep: 30,
		Portions: &lease.Portions{Add: by(20)},
	})
	takes(h, 0, 2, 5)
	h.Probe(31*time.Second, true)
	if q, ok := h.Request(31 * time.Second); !ok || q.ByClass.Own[0] != 0 || q.ByClass.Back[2] != 0 {
		t.Errorf("%v, tells %+v", ok, q.ByClass)
	}
}

// TestQuotaClassLevel: of what is left a class does not count what is kept or lent for others.
func TestQuotaClassLevel(t *testing.T) {
	level := func(h *lease.Holder, now time.Duration) (list [3]int64) {
		for c := range list {
			h.As(uint8(c))
			list[c] = h.Level(now)
		}
		return list
	}
	h := classedBy("a", minute, threeClasses)
	if got := level(h, 0); got != [3]int64{800, 500, 300} {
		t.Errorf("%v are left of 1000", got)
	}
	h = answered(t, 2, lease.Reply{
		Taken: 1, Add: 60, Burst: 60, Keep: 60, Pool: lease.Pool{Level: 800, Room: 940},
		Portions: &lease.Portions{
			Add: by(20, 10), Kept: by(480, 190),
		},
	})
	if got := level(h, 0); got != [3]int64{660, 360, 160} {
		t.Errorf("%v are left of 860", got)
	}
	if got := level(h, 31*time.Second); got != [3]int64{800, 500, 300} {
		t.Errorf("%v are left of 1000 in the next window", got)
	}
}

// TestQuotaClassComes: what is kept, or lent, for others never comes to a class in the window. It
// is told so, and its callers do not wait for it.
func TestQuotaClassComes(t *testing.T) {
	h := answered(t, 0, lease.Reply{
		Taken: 1, Add: 10, Burst: 10, Keep: 10, Pool: lease.Pool{Level: 600, Room: 990},
		Portions: &lease.Portions{Add: by(0, 10), Kept: by(410, 190)},
	})
	after := func(class uint8) time.Duration {
		h.As(class)
		return h.RetryAfter(ms, 1)
	}
	if got := after(2); got < 29*time.Second || got > 30*time.Second {
		t.Errorf("batch asks again after %v, not when the window has ended", got)
	}
	if got := after(0); got != ms {
		t.Errorf("critical asks again after %v, as 410 are kept for it", got)
	}
	batch := &lease.Waiter{N: 1, Class: 2, Until: 20 * time.Second}
	h.Enter(batch)
	h.As(0)
	q, ok := h.Request(ms)
	if !ok || q.ByClass.First != 2 {
		t.Fatalf("%v, %+v", ok, q.ByClass)
	}
	h.Handle(ms, lease.Reply{
		Seq: q.Seq, Limit: minute, Window: 29 * time.Second, RetryAfter: 29 * time.Second, Holders: 2,
		Burst: 10, Keep: 10, Shape: lease.Batch, Refresh: time.Second, Expires: 29 * time.Second,
		Pool: lease.Pool{Level: 600, Room: 990}, Portions: &lease.Portions{Kept: by(410, 190)},
	})
	if h.Ready(ms); batch.Verdict != lease.Denied {
		t.Errorf("batch waits for what cannot come before: %v", batch.Verdict)
	}
	if h.Asking() != 0 {
		t.Errorf("the class that asks is %d", h.Asking())
	}
}

// TestQuotaClassDenied: a class is denied for itself, also after an answer to which nobody waited,
// and has no more left than it was denied.
func TestQuotaClassDenied(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		RetryAfter: 30 * time.Second, Pool: lease.Pool{Level: 500, Room: 1000},
		Portions: &lease.Portions{Kept: by(480, 10)},
	})
	verdicts := func(now time.Duration) (list [3]lease.Verdict) {
		for c := range list {
			h.As(uint8(c))
			list[c] = h.Look(now, 1)
		}
		return list
	}
	want := [3]lease.Verdict{lease.Pending, lease.Pending, lease.Denied}
	if got := verdicts(ms); got != want {
		t.Errorf("%v", got)
	}
	if h.As(2); h.Level(ms) != 0 {
		t.Errorf("%v are left for who was denied one", h.Level(ms))
	}
	h.Probe(ms, true)
	q, _ := h.Request(ms)
	h.Handle(2*ms, lease.Reply{Seq: q.Seq, Limit: minute, Window: 29 * time.Second, Holders: 2})
	if got := verdicts(3 * ms); got != want {
		t.Errorf("after an answer to nobody: %v", got)
	}
}

// TestQuotaClassDeniedInARow: a class that is denied again and again while others hold tokens asks
// less and less often, at least eight times until the window ends. Once it has something it asks as
// often as before.
func TestQuotaClassDeniedInARow(t *testing.T) {
	h, now := classedBy("a", minute, threeClasses), time.Duration(0)
	var waits []time.Duration
	for i := range 10 {
		w := &lease.Waiter{N: 1, Class: 2, Until: time.Hour}
		if h.Waiting() == 0 {
			h.Enter(w)
		}
		h.Ready(now)
		q, ok := h.Request(now)
		if !ok {
			t.Fatalf("does not ask at %v, after %v", now, waits)
		}
		r := lease.Reply{
			Seq: q.Seq, RetryAfter: 250 * ms, Window: 40*time.Second - now, Limit: minute, Holders: 2,
		}
		if i == 7 {
			r.Taken, r.RetryAfter = 1, 0
		}
		h.Handle(now, r)
		wake := h.Ready(now).Wake
		if i != 7 {
			waits = append(waits, (wake - now).Round(250*ms))
			now = wake
		}
	}
	want := []time.Duration{
		250 * ms, 500 * ms, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second, 3500 * ms,
		250 * ms, 500 * ms,
	}
	if !slices.Equal(waits, want) {
		t.Errorf("asks after %v", waits)
	}
}

// TestQuotaClassCharge: what a class has used and has not there is had by the class.
func TestQuotaClassCharge(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		Taken: 1, Add: 30, Burst: 30, Keep: 30,
		Portions: &lease.Portions{Add: by(20), Keep: by(20)},
	})
	h.As(2)
	h.Charge(ms, 25)
	q, ok := h.Request(ms)
	if b := q.ByClass; !ok || q.Debt != 15 || b.Own[0] != 20 || b.Debt[2] != 15 || b.Back[2] != -10 {
		t.Errorf("owes %v, %+v", q.Debt, b)
	}
	h.Fail(2 * ms)
	h.As(1)
	h.Charge(3*ms, 4)
	q, ok = h.Request(time.Second)
	if b := q.ByClass; !ok || q.Debt != 15 || b.Debt != by(0, 0, 15) || b.Back[2] != 0 {
		t.Errorf("then it owes %v, %+v", q.Debt, b)
	}
}

// TestQuotaClassesChange: what an answer lends for classes that there are not any more is nobody's,
// and the window is the same.
func TestQuotaClassesChange(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		Taken: 1, Add: 30, Burst: 30, Keep: 30,
		Portions: &lease.Portions{Add: by(20)},
	})
	h.Probe(ms, true)
	q, _ := h.Request(ms)
	if !h.Divide(threeClasses[1:]) || h.Until() == 0 {
		t.Errorf("%v, until %v", h.Classes(), h.Until())
	}
	h.Handle(2*ms, lease.Reply{
		Seq: q.Seq, Limit: minute, Add: 10, Burst: 40, Keep: 40, Shape: lease.Batch,
		Window: 29 * time.Second, Refresh: time.Second, Expires: 29 * time.Second,
		Portions: &lease.Portions{Add: by(10)},
	})
	if n := takes(h, 3*ms, 1, 50); n != 40 {
		t.Errorf("batch has %d of 40 that are nobody's", n)
	}
}

// TestQuotaClassDebt: a debt counts once, as had by those who owe it. The floors of others stay.
func TestQuotaClassDebt(t *testing.T) {
	var l lease.Ledger
	for seq := uint64(1); seq < 3; seq++ {
		r := l.Exchange(noon, byQuota("a", seq, func(q *lease.Request, b *lease.ByClass) {
			q.Debt, q.Since, b.Debt[1], b.Debt[2] = 150, 1, 120, 130
		}))
		if r.Portions.Kept != by(500, 80) || r.Pool.Level != 850 {
			t.Errorf("%d: %v are kept of %v", seq, r.Portions.Kept, r.Pool.Level)
		}
	}
	if lent := l.View().Lent; lent[1] != 120 || lent[2] != 30 {
		t.Errorf("%v of a debt of 150", lent)
	}
}

// taken takes n tokens for a class, and asks the ledger if it must.
func taken(
	t *testing.T, h *lease.Holder, l *lease.Ledger, now time.Duration, class uint8, n float64,
) bool {
	t.Helper()
	h.As(class)
	v := h.Take(now, n)
	if v == lease.Pending {
		w := &lease.Waiter{N: n, Class: class}
		h.Enter(w)
		talk(t, h, l, now)
		v = w.Verdict
	}
	talk(t, h, l, now)
	return v == lease.Admitted
}

// TestQuotaClassReleases: a class that keeps 50 tokens and uses one has its floor all the same,
// though others ask all the time.
func TestQuotaClassReleases(t *testing.T) {
	var l lease.Ledger
	a, b := classedBy("a", minute, threeClasses), classedBy("b", minute, threeClasses)
	critical := 0
	for now := noon; now < noon+50*time.Second; now += 10 * ms {
		if now%(100*ms) == 0 {
			a.As(0)
			r, v := a.Reserve(now, 50)
			if v == lease.Pending {
				w := &lease.Waiter{N: 50, Hold: lease.WhileOpen}
				a.Enter(w)
				talk(t, a, &l, now)
				r, v = w.Reserved, w.Verdict
			}
			if v == lease.Admitted && a.Keeps(now, r) && !r.Taken() {
				a.Release(now, r, 49)
				critical++
			}
			talk(t, a, &l, now)
		}
		for _, h := range []*lease.Holder{a, b} {
			taken(t, h, &l, now, 2, 1)
		}
	}
	if critical < 430 { // the last 50 of its floor can be kept by nobody
		t.Errorf("critical has %d of 500", critical)
	}
}

// TestQuotaClassRefunds: what comes back of what a class has spent is for it.
func TestQuotaClassRefunds(t *testing.T) {
	h := answered(t, 0, lease.Reply{
		Taken: 1, Add: 20, Burst: 20, Keep: 20, Portions: &lease.Portions{Add: by(20), Keep: by(20)},
	})
	if n := takes(h, ms, 0, 20); n != 20 {
		t.Fatalf("takes %d", n)
	}
	if back := h.Refund(ms, 10); back != 10 {
		t.Fatalf("%v come back", back)
	}
	if n := takes(h, ms, 2, 10); n != 0 {
		t.Errorf("another class takes %d of them", n)
	}
	if n := takes(h, ms, 0, 10); n != 10 {
		t.Errorf("it takes %d again", n)
	}
}

// TestQuotaClassForgiven: a debt that is forgiven is not told as another class's.
func TestQuotaClassForgiven(t *testing.T) {
	h := answered(t, 2, lease.Reply{Taken: 1, Portions: new(lease.Portions)})
	h.As(0)
	h.Charge(ms, 100)
	h.Refund(ms, 40) // its own
	h.As(1)
	h.Refund(ms, 60) // of those who owe
	h.As(2)
	h.Charge(ms, 100)
	if q, _ := h.Request(ms); q.Debt != 100 || q.ByClass.Debt != by(0, 0, 100) {
		t.Errorf("of %v, %v are told", q.Debt, q.ByClass.Debt)
	}
}

// TestQuotaClassEager: nothing is admitted ahead of an answer, as the pool may have only floors.
func TestQuotaClassEager(t *testing.T) {
	h := classedBy("a", minute, threeClasses)
	h.As(2)
	if v := h.Take(0, 1); v != lease.Pending || h.Eager(0, 1, 5) {
		t.Errorf("%v, and then at once", v)
	}
}

// TestQuotaClassSpentBefore: what classes spend while an answer is under way that is of the next
// window is not told in that.
func TestQuotaClassSpentBefore(t *testing.T) {
	h := answered(t, 2, lease.Reply{
		Taken: 1, Add: 20, Burst: 20, Keep: 20, Portions: new(lease.Portions),
	})
	h.Probe(ms, true)
	q, ok := h.Request(ms)
	if n := takes(h, 2*ms, 2, 5); !ok || n != 5 {
		t.Fatalf("%v, %d are taken", ok, n)
	}
	now := 30 * time.Second
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Limit: minute, Holders: 2, Shape: lease.None, Window: time.Minute,
		Portions: new(lease.Portions),
	})
	h.Probe(now+ms, true)
	if q, ok := h.Request(now + ms); !ok || q.ByClass.Back != by() {
		t.Errorf("%v, %v are told of the window before", ok, q.ByClass.Back)
	}
}

// TestQuotaClassLate: an answer that comes when its lease has ended lends no class anything, and
// serves the caller for whom it took.
func TestQuotaClassLate(t *testing.T) {
	h := classedBy("a", minute, threeClasses)
	h.As(2)
	h.Take(0, 1)
	w := &lease.Waiter{N: 1, Class: 2, Until: time.Hour}
	h.Enter(w)
	h.Ready(0)
	q, ok := h.Request(0)
	h.Handle(100*ms, lease.Reply{
		Seq: q.Seq, Limit: minute, Holders: 2, Window: 30 * time.Second, Taken: q.Take, Add: 10,
		Burst: 10, Keep: 10, Shape: lease.Batch, Refresh: 100 * ms, Expires: 100 * ms,
		Portions: &lease.Portions{Add: by(10), Keep: by(10)},
	})
	if done := h.Ready(100 * ms).Resolved; !ok || len(done) != 1 || w.Verdict != lease.Admitted {
		t.Errorf("%v, %d resolved, %v", ok, len(done), w.Verdict)
	}
	if n := takes(h, 100*ms, 0, 10); n != 0 {
		t.Errorf("critical has %d tokens of a lease that has ended", n)
	}
}
