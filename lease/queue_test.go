package lease_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestWithdrawSome: whoever of five goes away, the others are served in their
// order, and nothing is asked for or expected on behalf of those who have gone.
func TestWithdrawSome(t *testing.T) {
	const all = 5
	for leaves := range 1 << all {
		h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
		var gone, stay []*lease.Waiter
		first, sum := 0.0, 0.0 // of those who stay
		for i := range all {
			w := &lease.Waiter{N: float64(int(1) << i), Until: time.Hour}
			h.Take(0, w.N)
			h.Enter(w)
			if leaves>>i&1 != 0 {
				gone = append(gone, w)
				continue
			}
			if len(stay) == 0 {
				first = w.N
			}
			stay, sum = append(stay, w), sum+w.N
		}
		for _, i := range rand.New(rand.NewPCG(uint64(leaves), 0)).Perm(len(gone)) {
			if !h.Withdraw(0, gone[i]) || h.Withdraw(0, gone[i]) {
				t.Fatalf("%05b: a waiter withdraws once", leaves)
			}
		}
		if got, want := h.RetryAfter(0, float64(thousand.Burst)), time.Duration(max(sum, 1))*ms; got != want {
			t.Errorf("%05b: a Burst behind them takes %v, want %v", leaves, got, want)
		}
		h.Probe(0, true) // also if nobody is left
		q, ok := h.Request(0)
		if !ok || q.Take != first || q.Min != first {
			t.Fatalf("%05b: %v, asks for %v and %v, want %v", leaves, ok, q.Take, q.Min, first)
		}
		h.Handle(0, lease.Reply{Seq: q.Seq, Taken: sum})
		if done := h.Ready(0).Resolved; !slices.Equal(done, stay) {
			t.Errorf("%05b: %d served, want %d in their order", leaves, len(done), len(stay))
		}
		for _, w := range stay {
			if h.Withdraw(0, w) {
				t.Errorf("%05b: who has been served withdraws", leaves)
			}
		}
	}
}

// TestWithdrawAll: a crowd goes away in any order, and each in no time: it does so
// under its caller's lock. All take some 40 ms; with a search for each they
// would half a minute.
func TestWithdrawAll(t *testing.T) {
	const crowd, most = 200_000, 2 * time.Second
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	all := make([]lease.Waiter, crowd)
	for i := range all {
		all[i] = lease.Waiter{N: 1, Until: time.Hour}
		h.Take(0, 1)
		h.Enter(&all[i])
	}
	start := time.Now()
	for n, i := range rand.New(rand.NewPCG(1, 0)).Perm(crowd) {
		if !h.Withdraw(0, &all[i]) {
			t.Fatalf("%d was not there", i)
		}
		if took := time.Since(start); took > most {
			t.Fatalf("%d of %d have gone after %v", n, crowd, took)
		}
	}
	t.Logf("%d have gone after %v", crowd, time.Since(start))
}

// TestQueue: those who wait are served in their order, and nobody overtakes.
func TestQueue(t *testing.T) {
	h := bench{lease.NewHolder("a", thousand, &lease.Policy{}, 1), 0}
	waiters := []*lease.Waiter{{N: 5}, {N: 100, Until: time.Hour}, {N: 1}, {N: 1, Until: time.Hour}}
	for _, w := range waiters {
		if v := h.Take(h.now, w.N); v != lease.Pending {
			t.Fatalf("cold: %v", v)
		}
		h.Enter(w)
	}
	q, ok := h.Request(h.now)
	if !ok || q.Take != 5 || q.Min != 5 || q.Unit != 5 {
		t.Fatalf("the first, and those behind it that ask for as much: %+v", q)
	}
	h.now += ms
	h.Handle(h.now, lease.Reply{Seq: 1, Taken: 5, RetryAfter: 20 * ms, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms})
	done := h.Ready(h.now).Resolved
	if len(done) != 2 || done[0] != waiters[0] || done[0].Verdict != lease.Admitted || done[1] != waiters[2] || done[1].Verdict != lease.Denied {
		t.Fatalf("resolved %+v, want the first admitted, the impatient one denied", done)
	}
	if v := h.Take(h.now, 1); v != lease.Denied {
		t.Errorf("inside the denial, behind one who waits: %v", v)
	}
	h.now += 20 * ms
	q, ok = h.Request(h.now)
	if !ok || q.Take != 100 || q.Min != 100 || q.Unit != 100 {
		t.Fatalf("the next request: %v %+v", ok, q)
	}
	h.SetLimit(thousand.WithBurst(50))
	if done := h.Ready(h.now).Resolved; len(done) != 1 || done[0] != waiters[1] || done[0].Verdict != lease.Exceeding {
		t.Errorf("more than the new burst: %+v", done)
	}
	if !h.Withdraw(h.now, waiters[3]) || h.Withdraw(h.now, waiters[3]) {
		t.Error("a waiter withdraws once")
	}
}

// TestLargeDenialLetsSmallAsk: what is too little for one may do for another.
func TestLargeDenialLetsSmallAsk(t *testing.T) {
	h := bench{lease.NewHolder("a", thousand, &lease.Policy{}, 1), 0}
	h.Take(h.now, 500)
	h.Enter(&lease.Waiter{N: 500})
	q, _ := h.Request(h.now)
	h.Handle(h.now, lease.Reply{Seq: q.Seq, RetryAfter: time.Hour, Refresh: 250 * ms, RateUntil: 300 * ms, Expires: 800 * ms})
	if v := h.Take(h.now, 500); v != lease.Denied {
		t.Errorf("as many: %v", v)
	}
	if v := h.Take(h.now, 1); v != lease.Pending {
		t.Errorf("one: %v", v)
	}
	h.SetLimit(lease.Limit{Rate: 2000, Burst: 1000})
	if v := h.Take(h.now, 500); v != lease.Pending {
		t.Errorf("after the limit was raised: %v", v)
	}
}

// TestAsksAfterADenial: the request of callers that stay through a denial arrives as that ends, of
// holders that were served lately a little later. Where it is too late for that, or several tokens
// come meanwhile, it arrives with a later token. Where the ledger keeps the order of those that wait,
// it arrives as the turn comes.
func TestAsksAfterADenial(t *testing.T) {
	for _, c := range []struct {
		name       string
		trip, past time.Duration // past since the answer that has brought something
		taken, add float64       // that answer has brought these
		retry      time.Duration
		holders    int
		asks       time.Duration // after the denial has come
		turns      bool          // the ledger keeps the order
	}{
		{"nothing", 0, 500 * ms, 0, 0, 80 * ms, 2, 80 * ms, false},
		{"taken just now", 0, 0, 1, 0, 80 * ms, 2, 85 * ms, false},
		{"lent just now", 0, 0, 0, 1, 80 * ms, 2, 85 * ms, false},
		{"taken two fifths of a turn ago", 0, 48 * ms, 1, 0, 80 * ms, 2, 82 * ms, false},
		{"taken a turn ago", 0, 160 * ms, 1, 0, 80 * ms, 2, 80 * ms, false},
		{"of four taken a turn of two ago", 0, 80 * ms, 1, 0, 80 * ms, 4, 85 * ms, false},
		{"taken, and alone", 0, 0, 1, 0, 80 * ms, 1, 80 * ms, false},
		{"far away", 15 * ms, 500 * ms, 0, 0, 80 * ms, 2, 65 * ms, false},
		{"too far away", 18 * ms, 500 * ms, 0, 0, 5 * ms, 2, 7 * ms, false},
		{"late by less than a token", 8 * ms, 500 * ms, 0, 0, 5 * ms, 2, 0, false},
		{"three tokens away", 23 * ms, 500 * ms, 0, 0, 80 * ms, 2, 87 * ms, false},
		{"by turns", 0, 0, 1, 0, 80 * ms, 2, 80 * ms, true},
		{"by turns, far away", 23 * ms, 500 * ms, 0, 0, 80 * ms, 2, 57 * ms, true},
	} {
		limit := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: time.Second}
		if c.turns {
			limit = lease.Limit{Rate: 100, Burst: 10}
		}
		h := lease.NewHolder("a", limit, &lease.Policy{}, 1)
		now := time.Duration(0)
		answer := func(r lease.Reply) {
			q, ok := h.Request(now)
			if !ok {
				t.Fatalf("%s: nothing is asked at %v", c.name, now)
			}
			now += c.trip
			r.Seq, r.Holders, r.Shape, r.Limit = q.Seq, c.holders, lease.Batch, limit
			r.Refresh, r.RateUntil, r.Expires = 250*ms, 300*ms, 800*ms
			h.Handle(now, r)
			h.Ready(now)
		}
		first := &lease.Waiter{N: 1}
		if c.turns {
			first.Until = time.Hour
		}
		h.Enter(first)
		if c.past > 0 {
			denied := time.Duration(1-c.taken-c.add) * ms
			answer(lease.Reply{Taken: c.taken, Add: c.add, Burst: c.add, RetryAfter: denied})
			now += c.past - c.trip
			h.Enter(&lease.Waiter{N: 1, Until: time.Hour})
			answer(lease.Reply{RetryAfter: c.retry})
		} else {
			answer(lease.Reply{Taken: c.taken, Add: c.add, Burst: c.add, RetryAfter: c.retry})
			h.Enter(&lease.Waiter{N: 2, Until: time.Hour})
		}
		r := h.Ready(now)
		asks := r.Wake - now
		if r.Ask {
			asks = 0
		}
		if asks.Round(ms) != c.asks {
			t.Errorf("%s: asks after %v, want %v", c.name, asks, c.asks)
		}
	}
}

// TestUsedUpMakesRoom: a lease of which nothing is left, and nothing may be kept, goes before the
// pool overflows beside its room, if that loses more than Reserve of it. Else it is let end. Its
// holder's demand stays known.
func TestUsedUpMakesRoom(t *testing.T) {
	for _, c := range []struct {
		pool lease.Pool
		life time.Duration
		want time.Duration // when it goes
	}{
		{lease.Pool{Level: 9, Flow: 100, Room: 9}, 1100 * ms, 0},
		{lease.Pool{Level: 4, Flow: 8, Room: 9}, 1100 * ms, 625 * ms},
		{lease.Pool{Level: 9, Flow: 0.5, Room: 9}, 1100 * ms, 0},
		{lease.Pool{Level: 9, Flow: 0.4, Room: 9}, 1100 * ms, math.MaxInt64},
		{lease.Pool{Level: 0, Flow: 1, Room: 9}, 1100 * ms, math.MaxInt64},
		{lease.Pool{Level: 9, Flow: 0, Room: 9}, 1100 * ms, 875 * ms},
		{lease.Pool{Level: 9, Flow: 0.1, Room: 9}, 1200 * ms, 0}, // the end of an era is seen late
	} {
		h := lease.NewHolder("a", lease.Limit{Rate: 100, Burst: 10}, &lease.Policy{}, 1)
		w := &lease.Waiter{N: 1, Hold: lease.WhileOpen}
		h.Take(0, 1)
		h.Enter(w)
		q, _ := h.Request(0)
		h.Handle(0, lease.Reply{
			Seq: q.Seq, Add: 1, Shape: lease.Batch, Burst: 1, Pool: c.pool, Holders: 2,
			Refresh: time.Second, RateUntil: 1200 * ms, Expires: c.life,
		})
		if r := h.Ready(0); r.Ask || len(r.Resolved) != 1 {
			t.Fatalf("%+v: its token is reserved: %+v", c.pool, r)
		}
		h.Release(0, w.Reserved, 0)
		r := h.Ready(0)
		at := r.Wake
		if r.Ask {
			at = 0
		}
		if (at-c.want).Abs() > 126*ms || c.want != 875*ms && at != c.want {
			t.Errorf("%+v: it goes at %v, want %v", c.pool, at, c.want)
		}
		if c.want == 625*ms {
			h.Take(300*ms, 1)
			if q, ok := h.Request(at); !ok || q.Demand == 0 {
				t.Errorf("%+v: its request is %+v, %v", c.pool, q, ok)
			}
		}
	}
}

// TestDenialsTimeIsTheFirsts: behind one who waits for a denial to end, the next is not
// held up by the same time again, but by its own tokens, as far as nobody else can have
// them.
func TestDenialsTimeIsTheFirsts(t *testing.T) {
	for _, c := range []struct {
		what string
		pool lease.Pool
		want time.Duration
	}{
		{"all is used up", lease.Pool{Level: 0, Flow: 10, Room: 100}, 10100 * ms},
		{"5 are left", lease.Pool{Level: 5, Flow: 10, Room: 100}, 9600 * ms},
		{"others hold up to 20", lease.Pool{Level: 0, Flow: 10, Room: 80}, 9500 * ms},
	} {
		limit := lease.Limit{Rate: 10, Burst: 100}
		h := bench{lease.NewHolder("a", limit, &lease.Policy{}, 1), 0}
		h.Take(h.now, 100)
		h.Enter(&lease.Waiter{N: 100, Until: time.Hour})
		q, _ := h.Request(h.now)
		h.Handle(h.now, lease.Reply{
			Seq: q.Seq, RetryAfter: 9500 * ms, Refresh: 250 * ms, Pool: c.pool, Limit: limit,
		})
		if wait := h.RetryAfter(h.now, 1); wait != c.want {
			t.Errorf("%s: one token behind them in %v, want %v", c.what, wait, c.want)
		}
	}
}

// TestTakesAllSizes: requests of several sizes are asked for together while the pool
// has something left, and else those of one size, of which no remainder is lost.
func TestTakesAllSizes(t *testing.T) {
	for _, dry := range []bool{false, true} {
		h := lease.NewHolder("a", thousand, &lease.Policy{Mode: lease.PerRequest}, 1)
		asks := func(now time.Duration, sizes ...float64) lease.Request {
			for _, n := range sizes {
				h.Take(now, n)
				h.Enter(&lease.Waiter{N: n})
			}
			q, ok := h.Request(now)
			if !ok {
				t.Fatalf("%v: no request for %v", now, sizes)
			}
			return q
		}
		q := asks(time.Second, 1)
		h.Handle(time.Second, lease.Reply{Seq: q.Seq, Taken: 1, Dry: dry, Limit: thousand, Holders: 1})
		q = asks(2*time.Second, 2, 2, 3, 1)
		take, unit := 8.0, 6.0
		if dry {
			take, unit = 4, 2
		}
		if q.Take != take || q.Unit != unit || q.Min != 2 {
			t.Errorf("dry %v: asks for %v in units of %v, at least %v", dry, q.Take, q.Unit, q.Min)
		}
	}
}

// TestDenyAsOneByOne: a denial that passes over those in the middle of the queue counts
// them as if it had gone through all of it, at any pace, whoever has gone.
func TestDenyAsOneByOne(t *testing.T) {
	passed := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 0))
		pick := func(most int) time.Duration { return time.Duration(rng.IntN(most+1)) * ms }
		limit := lease.Limit{Rate: 200, Burst: 100}
		a := lease.NewHolder("a", limit, &lease.Policy{}, 1)
		b := lease.NewHolder("a", limit, &lease.Policy{}, 1)
		var ours, theirs []*lease.Waiter
		now := time.Hour
		for range 40 {
			now += pick(50)
			for range rng.IntN(200) {
				w := lease.Waiter{N: 1}
				if rng.IntN(20) == 0 {
					w.N = float64(1 + rng.IntN(5))
				}
				if rng.IntN(100) > 0 {
					w.Until = now + a.RetryAfter(now, w.N) + pick(300) - pick(20)
				}
				x, y := w, w
				a.Enter(&x)
				b.Enter(&y)
				ours, theirs = append(ours, &x), append(theirs, &y)
			}
			for range rng.IntN(40) {
				i := rng.IntN(len(ours) + 1)
				if i < len(ours) && a.Withdraw(now, ours[i]) != b.Withdraw(now, theirs[i]) {
					t.Fatalf("seed %d: only one of them withdraws", seed)
				}
			}
			terms := lease.Reply{
				RetryAfter: 1 + pick(40), Taken: float64(1 + rng.IntN(3)),
				Burst: 10, Add: float64(rng.IntN(3)), Contended: rng.IntN(2) == 0,
			}
			if rng.IntN(2) == 0 {
				terms.Rate = float64(50 + rng.IntN(150))
			}
			if rng.IntN(4) > 0 { // the pool is as good as empty, and others hold up to 30
				terms.Pool = lease.Pool{Level: rng.Float64(), Room: float64(60 + rng.IntN(31))}
			}
			before := a.Looks()
			a.DenyAll(now, terms, (*lease.Holder).Deny)
			if int(a.Looks()-before) < a.Waiting() {
				passed++
			}
			b.DenyAll(now, terms, (*lease.Holder).DenySlowly)
			if noted, counted := a.Run(); noted != counted {
				t.Fatalf("seed %d: the first ask for %v, noted are %v", seed, counted, noted)
			}
			for i := range ours {
				if ours[i].Verdict != theirs[i].Verdict {
					t.Fatalf("seed %d, waiter %d: %v, not %v", seed, i, ours[i].Verdict, theirs[i].Verdict)
				}
			}
		}
	}
	if passed < 200 {
		t.Errorf("only %d denials pass over callers", passed)
	}
}

// TestLongQueueIsCheap: with 10,000 callers that wait, as many as the whole rate
// could serve in time, exchanges that bring one of them a token each look at a few
// hundred of them in all its steps: not at everybody.
func TestLongQueueIsCheap(t *testing.T) {
	const callers, exchanges, most = 10_000, 1000, 400 // looks for each exchange
	patience := 10 * time.Second
	for _, contended := range []bool{false, true} {
		limit := lease.Limit{Rate: callers / patience.Seconds(), Burst: 100}
		h := lease.NewHolder("a", limit, &lease.Policy{Mode: lease.PerRequest}, 1)
		now, entered := time.Hour, 0
		enter := func() {
			for h.Waiting() < callers {
				h.Enter(&lease.Waiter{N: 1, Until: now + patience + 100*ms})
				entered++
			}
		}
		enter()
		before, gone := h.Looks(), 0
		for range exchanges {
			q, ok := h.Request(now)
			if !ok {
				t.Fatal("no request")
			}
			r := lease.Reply{Seq: q.Seq, Taken: 1, RetryAfter: ms, Limit: limit, Contended: contended}
			if contended { // a slice of a little less than all, another one with each
				r.Rate, r.Burst, r.Keep = limit.Rate*(1-float64(q.Seq%5)/1000), 1, 1
				r.RateUntil, r.Expires = ms, ms
			}
			h.Handle(now, r)
			gone += len(h.Ready(now).Resolved)
			now += ms
			enter()
		}
		looks := float64(h.Looks()-before) / exchanges
		t.Logf("contended %v: %.0f looks for each exchange, %d entered", contended, looks, entered)
		if looks > most || gone < exchanges {
			t.Errorf("contended %v: %.0f looks for each exchange, %d resolved", contended, looks, gone)
		}
	}
}
