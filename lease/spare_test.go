package lease_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSpareFitsTheLease: whenever the tokens of a Spare are spent, what is
// admitted fits the bucket of the lease: no refill finds room that was only
// there later.
func TestSpareFitsTheLease(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		lent := lease.Reply{
			Add: 50, Shape: lease.Slice, Rate: 10_000, Burst: 50, Keep: 50,
			Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 400 * ms, Holders: 1,
		}
		h := leased(t, lent)
		start := time.Second
		now := start
		level, at := 50.0, now // a bucket of the lease's rate and burst, by the book
		spend := func(when time.Duration, n float64) {
			level = min(level+lent.Rate*(when-at).Seconds(), 50)
			at = when
			if level -= n; level < -1e-6 {
				t.Fatalf("seed %d: %v after the lease began %v tokens too many are spent", seed, when-start, -level)
			}
		}
		for now < start+300*ms {
			now += time.Duration(rng.Int64N(int64(3 * ms)))
			if rng.IntN(2) == 0 && h.Take(now, 1) == lease.Admitted {
				spend(now, 1)
			}
			if h.Due(now) {
				h.Ready(now) // what it asks is not sent
			}
			tokens, until := h.Spare(now)
			if until <= now || tokens < 1 {
				continue
			}
			n := float64(int(tokens * rng.Float64()))
			now = min(now+time.Duration(rng.Int64N(int64(ms))), until-1)
			spend(now, n) // all of them at one moment, and told of later
			now += time.Duration(rng.Int64N(int64(ms)))
			h.Settle(now, n, 0)
		}
	}
}

// TestSpare says what may be decided without asking, and for how long.
func TestSpare(t *testing.T) {
	now := time.Second
	polled := func(r lease.Reply) *lease.Holder {
		h := leased(t, r)
		if _, ok := h.Request(now); ok {
			t.Fatal("asks again at once")
		}
		return h
	}
	h := polled(share)
	tokens, until := h.Spare(now)
	wake := h.Ready(now).Wake
	if tokens < 1 || tokens > 50 || until != wake || until <= now || until > now+200*ms {
		t.Errorf("with 50 tokens: %v until %v, wake at %v", tokens, until, wake)
	}
	h.Settle(now, tokens, 0)
	if got := h.Held(); got != 50-tokens {
		t.Errorf("%v held of 50 after %v are spent", got, tokens)
	}

	// A refill that brings a token every 10 ms: nothing is denied beyond that.
	empty := share
	empty.Add, empty.RetryAfter = 0, 200*ms
	h = polled(empty)
	if v := h.Take(now, 1); v != lease.Denied {
		t.Fatalf("an empty lease: %v", v)
	}
	if tokens, until = h.Spare(now); tokens != 0 || until < now+9*ms || until > now+10*ms {
		t.Errorf("without tokens: %v until %v", tokens, until-now)
	}
	h.Settle(now+4*ms, 0, 1000)
	if tokens, until = h.Spare(now + 5*ms); tokens != 0 || until < now+9*ms || until > now+10*ms {
		t.Errorf("half way: %v until %v", tokens, until-now)
	}
	if v := h.Take(now+11*ms, 1); v != lease.Admitted {
		t.Errorf("after the refill: %v", v)
	}

	// Who waits comes first, and a batch that runs low is renewed.
	h.Enter(&lease.Waiter{N: 1})
	if _, until = h.Spare(now + 11*ms); until > now+11*ms {
		t.Error("spares while somebody waits")
	}
	batch := share
	batch.Shape, batch.Rate = lease.Batch, 0
	h = polled(batch)
	if tokens, _ = h.Spare(now + 50*ms); tokens != 37.5 {
		t.Errorf("spares %v of a batch of 50, want what leaves a quarter", tokens)
	}
	h.Settle(now+50*ms, 38, 0)
	if tokens, until = h.Spare(now + 50*ms); !h.Due(now+50*ms) || until > now+50*ms {
		t.Errorf("spares %v until %v while Ready is due", tokens, until-now)
	}

	// A new holder has nothing to spare, and cannot tell whom to deny.
	if _, until = lease.NewHolder("b", thousand, &lease.Policy{}, 1).Spare(now); until > now {
		t.Error("a new holder spares")
	}
}

// TestSpareEnds: with the lease, also while a request is out and no Ready due.
func TestSpareEnds(t *testing.T) {
	h := bench{leased(t, share), time.Second}
	h.spend(10)
	now := time.Second + 200*ms
	if q, ok := h.Request(now); !ok || q.Held != 50 {
		t.Fatalf("at Refresh: %+v, %v", q, ok)
	}
	tokens, until := h.Spare(now)
	if end := time.Second + 650*ms; tokens < 1 || until > end || until < end-2*ms {
		t.Errorf("spares %v tokens until %v, the lease ends at %v", tokens, until, end)
	}
	h.Settle(until, 3, 0)
	if v := h.Take(until, 1); v == lease.Admitted {
		t.Error("admits after the end")
	}
	if l := h.Lease(until); l.Tokens != 0 || l.Expired != 50-3 {
		t.Errorf("%+v after the end", l)
	}
}
