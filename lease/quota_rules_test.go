package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

var (
	minute = lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: time.Minute}
	plain  = lease.Policy{MaxHold: 250 * ms}
)

// noon is when a window of any length begins.
const noon = 12 * time.Hour

// wants is a request of a process with some demand.
func wants(id string, seq uint64, take, demand float64) lease.Request {
	return lease.Request{
		Holder: id, Seq: seq, Seen: seq - 1, Take: take, Min: min(take, 1), Demand: demand,
		Limit: minute, Policy: plain,
	}
}

// TestQuotaLostReply: what a lost reply brought comes back with the next message.
func TestQuotaLostReply(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(noon, wants("a", 1, 0, 100))
	if r.Add == 0 {
		t.Fatalf("nothing was lent: %+v", r)
	}
	q := wants("a", 2, 0, 0)
	q.Seen = 0
	if r = l.Exchange(noon+ms, q); r.Pool.Level != 1000 {
		t.Errorf("%v tokens are left of 1000 that nobody has used", r.Pool.Level)
	}
}

// TestQuotaOldRefund: what was spent in a window does not come back in the next one, where a
// repeat has made a record with the number of its answer.
func TestQuotaOldRefund(t *testing.T) {
	var l lease.Ledger
	old := wants("a", 1, 10, 0)
	since := l.Exchange(noon, old).Fence
	r := l.Exchange(noon+time.Minute, old)
	q := wants("a", 2, 0, 0)
	q.Debt, q.Since = -10, since
	if again := l.Exchange(noon+time.Minute+ms, q); again.Pool.Level > r.Pool.Level {
		t.Errorf("%v are left, and %v before the refund", again.Pool.Level, r.Pool.Level)
	}
}

// TestQuotaFirstAnswer: a lease outlives a first exchange of MaxRefresh, whose length nobody knows.
func TestQuotaFirstAnswer(t *testing.T) {
	var l lease.Ledger
	q := wants("a", 1, 600, 0)
	q.Policy = lease.Policy{}.Resolved()
	if r := l.Exchange(noon, q); r.Taken != 600 || r.Expires < q.Policy.MaxRefresh {
		t.Errorf("%v of 600 tokens are there for %v", r.Taken, r.Expires)
	}
}

// TestQuotaBoundary: neither tokens of a lease nor those that were taken for callers are spent
// after the window has ended at the ledger, by a clock that is slow by a 600th. They are asked
// for anew.
func TestQuotaBoundary(t *testing.T) {
	day := lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: lease.Day}
	slow := func(d time.Duration) time.Duration { return d - d/600 }
	for _, c := range []struct {
		left, trip, lasts time.Duration // of the window, of the reply, and of the holder's patience
		late              bool
	}{
		{40 * ms, 30 * ms, 0, false},
		{40 * ms, 41 * ms, 0, true},
		{40 * ms, 60 * ms, 0, true},
		{100 * time.Second, 100*time.Second + 10*ms, 0, true}, // a slow clock shows less
	} {
		var l lease.Ledger
		h := lease.NewHolder("a", day, &lease.Policy{}, 1)
		start := 24*time.Hour - c.left // at the ledger; the holder counts from there
		h.Take(0, 3)
		w := &lease.Waiter{N: 3, Until: time.Hour}
		h.Enter(w)
		q, ok := h.Request(0)
		if !ok {
			t.Fatal("nothing is asked")
		}
		r := l.Exchange(start, q)
		if r.Taken != 3 || r.Window != c.left {
			t.Fatalf("%+v", r)
		}
		h.Handle(slow(c.trip), r)
		ready := h.Ready(slow(c.trip))
		if late := len(ready.Resolved) == 0; late != c.late || late != ready.Ask {
			t.Errorf("%v before the boundary, after %v: resolved %d, asks %v", c.left, c.trip, len(ready.Resolved), ready.Ask)
		}
	}
}

// TestQuotaChanged: what has been used of a quota stays used when another one is declared.
func TestQuotaChanged(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, wants("a", 1, 400, 0))
	for i, c := range []struct{ quota, left int64 }{{500, 100}, {300, -100}, {1000, 600}} {
		q := wants("a", uint64(i+2), 0, 0)
		q.Limit.Burst = c.quota
		if r := l.Exchange(noon+ms, q); r.Pool.Level != float64(c.left) {
			t.Errorf("of %d, 400 of which are used, %v are left", c.quota, r.Pool.Level)
		}
	}
}

// TestQuotaAdoption: a state that was lost debits what holders still hold of this window. A
// state that goes on in another window does not.
func TestQuotaAdoption(t *testing.T) {
	var l lease.Ledger
	claim := func(id string, seq uint64) lease.Request {
		q := wants(id, seq, 0, 0)
		q.Held, q.Claim = 30, lease.Claim{Burst: 50, Left: 100 * ms}
		return q
	}
	l.Exchange(noon, wants("c", 1, 400, 0))
	if r := l.Exchange(noon, claim("a", 7)); r.Pool.Level != 570 {
		t.Errorf("400 of 1000 are used, 30 are held by a lease that was lost, and %v are left", r.Pool.Level)
	}
	l.Exchange(noon+time.Minute, wants("c", 2, 400, 0))
	if r := l.Exchange(noon+time.Minute, claim("b", 9)); r.Pool.Level != 600 {
		t.Errorf("400 of 1000 are used, 30 of the minute before were held when a message left, and %v are left",
			r.Pool.Level)
	}
}

// TestQuotaHeldBefore: two messages that left before the boundary arrive after it, and the
// answer to the first one is lost. What they hand back is of the window before.
func TestQuotaHeldBefore(t *testing.T) {
	var l lease.Ledger
	boundary := noon + time.Minute
	r := l.Exchange(boundary-100*ms, wants("a", 1, 0, 1000))
	late := func(seq uint64, give float64) lease.Request {
		q := wants("a", seq, 0, 1000)
		q.Seen, q.Give, q.Held = 1, give, r.Add-give
		q.Claim = lease.Claim{Burst: r.Burst, Left: 50 * ms}
		return q
	}
	l.Exchange(boundary, wants("b", 1, 400, 0))
	if r := l.Exchange(boundary, late(2, 10)); r.Pool.Level+r.Add != 600 {
		t.Errorf("%v are left, and %v added, after the first one", r.Pool.Level, r.Add)
	}
	if r := l.Exchange(boundary+ms, late(3, 10)); r.Pool.Level+r.Add != 600 {
		t.Errorf("%v are left, and %v added, after the second one", r.Pool.Level, r.Add)
	}
}

// TestQuotaRolledBack: a state that has lost some exchanges, as in a failover, takes back no
// more than it knows to be lent, and counts as used what a holder has beyond that.
func TestQuotaRolledBack(t *testing.T) {
	for _, c := range []struct{ held, give, left float64 }{
		{0, 200, 600}, {130, 0, 470}, {50, 200, 550},
	} {
		var l lease.Ledger
		l.Exchange(noon, wants("b", 1, 400, 0))
		lent := l.Exchange(noon, wants("a", 1, 0, 267)).Burst
		if lent != 101 {
			t.Fatalf("%v are lent", lent)
		}
		q := wants("a", 9, 0, 0)
		q.Held, q.Give, q.Claim = c.held, c.give, lease.Claim{Burst: 130, Left: 100 * ms}
		if r := l.Exchange(noon+ms, q); r.Pool.Level != c.left {
			t.Errorf("of 101 that were lent %v are held and %v come back: %v are left of 600", c.held, c.give, r.Pool.Level)
		}
	}
}

// TestQuotaPart: a lease is at most half of what its holder could have.
func TestQuotaPart(t *testing.T) {
	var l lease.Ledger
	if r := l.Exchange(noon, wants("a", 1, 0, 1e6)); r.Burst != 500 {
		t.Errorf("the first holder is lent %v of 1000", r.Burst)
	}
	if r := l.Exchange(noon, wants("b", 1, 0, 1e6)); r.Burst != 125 {
		t.Errorf("the second one is lent %v of the 500 that are left", r.Burst)
	}
}

// TestQuotaComesBack: once somebody was denied, who holds tokens brings them back with the
// next message but one, and who was denied asks again soon.
func TestQuotaComesBack(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(noon, wants("a", 1, 0, 1000))
	held := r.Burst
	l.Exchange(noon, wants("b", 1, r.Pool.Level, 0)) // takes all that is left
	if r = l.Exchange(noon, wants("c", 1, 1, 0)); r.RetryAfter != 250*ms {
		t.Fatalf("denied for %v while %v tokens are lent", r.RetryAfter, held)
	}
	q := wants("a", 2, 0, 1000)
	q.Held, q.Claim = held, lease.Claim{Burst: held, Left: 100 * ms}
	if r = l.Exchange(noon+20*ms, q); r.Keep != 0 || r.Refresh != 20*ms {
		t.Errorf("who holds %v that others want shall keep %v, and come back after %v", held, r.Keep, r.Refresh)
	}
	q.Seq, q.Seen, q.Give, q.Held = 3, 2, held, 0
	l.Exchange(noon+40*ms, q)
	if r = l.Exchange(noon+250*ms, wants("c", 2, 1, 0)); r.Taken != 1 {
		t.Errorf("denied again: %+v", r)
	}
}

// TestQuotaUsedUp: who is denied while nobody holds anything waits for the boundary.
func TestQuotaUsedUp(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, wants("a", 1, 1000, 0))
	if r := l.Exchange(noon+20*time.Second, wants("b", 1, 1, 0)); r.RetryAfter != 40*time.Second {
		t.Errorf("denied for %v, 40 s before the boundary", r.RetryAfter)
	}
	if r := l.Exchange(noon+60*time.Second, wants("b", 2, 1, 0)); r.Taken != 1 || r.Pool.Level != 999 {
		t.Errorf("after the boundary: %+v", r)
	}
}

// denied is a holder that was denied before the boundary, which it was told of at 0.
func denied(seed uint64, left time.Duration) *lease.Holder {
	h := lease.NewHolder("a", minute, &lease.Policy{}, seed)
	h.Take(0, 1)
	h.Enter(&lease.Waiter{N: 1, Until: time.Hour})
	q, _ := h.Request(0)
	h.Handle(0, lease.Reply{Seq: q.Seq, RetryAfter: left, Window: left, Limit: minute, Holders: 2})
	return h
}

// TestQuotaSpread: those with callers that wait for the boundary do not all ask at once.
func TestQuotaSpread(t *testing.T) {
	const left = 10 * time.Second
	first, last := time.Hour, time.Duration(0)
	for seed := range uint64(100) {
		wake := denied(seed, left).Ready(0).Wake
		first, last = min(first, wake), max(last, wake)
	}
	if first < left || last-first < 700*ms || last > left+time.Second {
		t.Errorf("100 holders ask from %v to %v after a boundary", first-left, last-left)
	}
}

// TestQuotaLateDenial: a denial that arrives after the boundary is worth nothing.
func TestQuotaLateDenial(t *testing.T) {
	h := lease.NewHolder("a", minute, &lease.Policy{}, 1)
	h.Take(0, 1)
	h.Enter(&lease.Waiter{N: 1, Until: time.Hour})
	q, _ := h.Request(0)
	h.Handle(50*ms, lease.Reply{Seq: q.Seq, RetryAfter: 40 * ms, Window: 40 * ms, Limit: minute, Holders: 1})
	if r := h.Ready(50 * ms); !r.Ask {
		t.Errorf("does not ask before %v", r.Wake)
	}
	if h.Denied() {
		t.Error("denies in the new window")
	}
}

// TestQuotaLevel: beside another process, what a process finds left of a quota is what the ledger
// does not know to be used. It is hardly less than what is left, and more by what the other one
// has on lease, and a Batch, at most.
func TestQuotaLevel(t *testing.T) {
	for _, quota := range []float64{300, 10_000, 1000}[:longform.Of(2, 3)] {
		for _, c := range []struct{ other, own float64 }{{4, 1}, {1, 4}, {20, 4}, {60, 20}, {50, 50}, {5, 100}, {400, 100}} {
			limit := lease.Limit{Kind: lease.KindQuota, Burst: int64(quota), Window: time.Minute}
			var l lease.Ledger
			rng, left, low, high := rand.New(rand.NewPCG(1, 1)), quota, 0.0, 0.0
			hs := []*lease.Holder{
				lease.NewHolder("other", limit, &lease.Policy{}, 1), lease.NewHolder("own", limit, &lease.Policy{}, 2),
			}
			for now := noon; now < noon+59*time.Second; now += ms {
				for i, h := range hs {
					if rng.Float64() > []float64{c.other, c.own}[i]/1000 {
						talk(t, h, &l, now)
						continue
					}
					v, w := h.Take(now, 1), &lease.Waiter{N: 1}
					if v == lease.Pending {
						h.Enter(w)
						talk(t, h, &l, now)
						v = w.Verdict
					}
					if v == lease.Admitted {
						left--
					}
					if h == hs[1] {
						off := float64(h.Level(now)) - left
						low, high = min(low, off), max(high, off-hs[0].Lease(now).Burst)
					}
				}
			}
			if low < -0.02*quota-4 || high > 100 {
				t.Errorf("%v of %v: %v off, or %v beside what is on lease", c, limit, low, high)
			}
		}
	}
}

// TestQuotaLevelOfDenied: after a denial less is left than was asked for, though another process
// may have more on lease.
func TestQuotaLevelOfDenied(t *testing.T) {
	limit := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: time.Minute}
	h := lease.NewHolder("a", limit, &lease.Policy{}, 1)
	w := &lease.Waiter{N: 50}
	h.Enter(w)
	q, _ := h.Request(noon)
	h.Handle(noon, lease.Reply{
		Seq: q.Seq, RetryAfter: 100 * ms, Window: time.Second, Limit: limit, Holders: 2,
		Pool: lease.Pool{Level: 40, Room: 60, Flow: -10},
	})
	if left := h.Level(noon); left != 40 {
		t.Errorf("%v are left of 40, after 50 were denied", left)
	}
	if left := h.Level(noon + 100*ms); left != 79 {
		t.Errorf("%v are left of 40, and 40 that another one has, of which it may have used one", left)
	}
}

// TestQuotaDebt: a debt of a quota ends with its window. Until then a caller is told to wait, and
// one that waits for longer is served.
func TestQuotaDebt(t *testing.T) {
	for _, window := range []time.Duration{2 * time.Second, lease.Day} {
		for name, charges := range map[string]bool{"the one that charges": true, "another one": false} {
			t.Run(fmt.Sprint(window, name), func(t *testing.T) {
				limit := lease.Limit{Kind: lease.KindQuota, Burst: 10, Window: window}
				var l lease.Ledger
				now, ends := noon+window/4, noon+window
				if window == lease.Day {
					ends = noon + window/2
				}
				h, other := lease.NewHolder("a", limit, &lease.Policy{}, 1), lease.NewHolder("b", limit, &lease.Policy{}, 2)
				h.Charge(now, 1000)
				talk(t, h, &l, now)
				if !charges {
					h = other
				}
				h.Enter(&lease.Waiter{N: 1})
				talk(t, h, &l, now)
				for _, n := range []float64{1, 10} {
					if wait := h.RetryAfter(now, n); wait != ends-now {
						t.Errorf("%v to wait for %v, not %v", wait, n, ends-now)
					}
				}
				w := &lease.Waiter{N: 1, Until: ends + time.Second}
				h.Enter(w)
				at := now
				_, resolved := talk(t, h, &l, at)
				for at < ends+time.Second && len(resolved) == 0 {
					at = max(h.Ready(at).Wake, at+ms)
					_, resolved = talk(t, h, &l, at)
				}
				if len(resolved) == 0 || w.Verdict != lease.Admitted || at < ends {
					t.Errorf("a caller that would wait longer: %v at %v", w.Verdict, at-ends)
				}
			})
		}
	}
}

// TestQuotaAtBoundary: a denied process asks for the first caller after the boundary.
func TestQuotaAtBoundary(t *testing.T) {
	limit := lease.Limit{Kind: lease.KindQuota, Burst: 10, Window: time.Second}
	var l lease.Ledger
	l.Exchange(noon, lease.Request{Holder: "b", Seq: 1, Take: 10, Min: 10, Limit: limit, Policy: lease.Policy{}.Resolved()})
	for seed := range uint64(20) {
		h := lease.NewHolder(fmt.Sprint("h", seed), limit, &lease.Policy{}, seed)
		h.Enter(&lease.Waiter{N: 1})
		talk(t, h, &l, noon+time.Duration(seed)*ms)
		if v := h.Take(noon+time.Second-1, 1); v != lease.Denied {
			t.Errorf("%v before the boundary", v)
		}
		if v := h.Take(noon+time.Second, 1); v != lease.Pending {
			t.Errorf("%v at the boundary", v)
		}
	}
}

// TestKindsChange: while processes that use a key turn to another kind of limit, one of the
// two is in force, and the new one counts as soon as the last of them has turned. What they
// held by the old one is not spent by the new one.
func TestKindsChange(t *testing.T) {
	bucket := lease.Limit{Rate: 1000, Burst: 1000}
	for _, c := range []struct{ from, to lease.Limit }{
		{bucket, minute}, {minute, bucket},
		{minute, lease.Limit{Kind: lease.KindQuota, Burst: 5000, Window: time.Hour}},
		{minute, lease.Limit{Kind: lease.KindQuota, Burst: 5000, Window: time.Minute, Offset: time.Second}},
	} {
		t.Run(fmt.Sprint(c.from, " to ", c.to), func(t *testing.T) {
			var l lease.Ledger
			now := noon
			hs := []*lease.Holder{
				lease.NewHolder("a", c.from, &lease.Policy{}, 1), lease.NewHolder("b", c.from, &lease.Policy{}, 2),
			}
			step := func(h *lease.Holder) (admitted bool) {
				v := h.Take(now, 1)
				w := &lease.Waiter{N: 1}
				if v == lease.Pending {
					h.Enter(w)
				}
				if q, ok := h.Request(now); ok {
					h.Handle(now, l.Exchange(now, q))
					h.Ready(now)
				}
				return v == lease.Admitted || v == lease.Pending && w.Verdict == lease.Admitted
			}
			for range 200 {
				now += 5 * ms
				for _, h := range hs {
					if !step(h) {
						t.Fatal("denied, but nothing is used up")
					}
				}
			}
			if hs[0].Held() == 0 || hs[1].Held() == 0 {
				t.Fatal("nothing is lent")
			}
			hs[0].SetLimit(c.to)
			if hs[0].Held() != 0 {
				t.Errorf("%v tokens of the old limit are held", hs[0].Held())
			}
			for range 100 {
				now += 5 * ms
				if step(hs[0]) || !step(hs[1]) {
					t.Fatalf("the limit in force is not %v", c.from)
				}
			}
			hs[1].SetLimit(c.to)
			for i := range 400 {
				now += 5 * ms
				if a, b := step(hs[0]), step(hs[1]); i > 60 && (!a || !b) {
					t.Fatalf("step %d: %v is not in force: %+v", i, c.to, l.View())
				}
			}
			if l.Limit() != c.to {
				t.Errorf("%v is in force, not %v", l.Limit(), c.to)
			}
		})
	}
}

// TestUsedUpQuotaIsDoubted: a denial until the boundary is believed for MaxHold at most. Then a
// caller asks again, also of a class. All are told the boundary.
func TestUsedUpQuotaIsDoubted(t *testing.T) {
	day := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}
	for _, classed := range []bool{false, true} {
		h, used := lease.NewHolder("a", day, &lease.Policy{}, 1), 100.0
		if classed {
			h, used = classedBy("a", day, threeClasses), 40 // what is left is kept for others
		}
		h.As(2)
		l, now, calls := new(lease.Ledger), noon, 0
		l.Exchange(now, lease.Request{
			Holder: "b", Seq: 1, Take: used, Min: used, Limit: day, Policy: lease.Policy{}.Resolved(),
		})
		for ; now < noon+10*time.Minute; now += 100 * ms {
			if h.Take(now, 1) == lease.Pending {
				h.Enter(&lease.Waiter{N: 1, Class: 2})
				talk(t, h, l, now)
				calls++
			}
			if told := now + h.RetryAfter(now, 1); told < noon+12*time.Hour-2*time.Minute || told > noon+12*time.Hour {
				t.Fatalf("%v after noon a caller is told %v", now-noon, told-noon)
			}
		}
		if calls < 20 || calls > 24 {
			t.Errorf("%d calls in ten minutes", calls)
		}
	}
}
