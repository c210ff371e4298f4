package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// lapsing is a holder with a calm key's batch of 20 tokens, of which it has spent
// four, for 30 s from a second on.
func lapsing(t *testing.T) *lease.Holder {
	t.Helper()
	h := leased(t, lease.Reply{Add: 20, Burst: 20, Keep: 20, Refresh: 30 * time.Second, Expires: 30 * time.Second, Shape: lease.LongBatch, Holders: 3})
	for range 4 {
		h.Take(2*time.Second, 1)
	}
	return h
}

// TestPark: a holder that was parked goes on where it was.
func TestPark(t *testing.T) {
	h := lapsing(t)
	p, ok := h.Park(3 * time.Second)
	if !ok {
		t.Fatal("cannot be parked")
	}
	h = p.Resume(10*time.Second, "a", &lease.Policy{}, 1)
	if got := h.Lease(10 * time.Second).Tokens; got != 16 {
		t.Errorf("%v tokens, not 16", got)
	}
	if got := h.Holders(); got != 3 {
		t.Errorf("%d holders, not 3", got)
	}
	now := 20 * time.Second
	for range 13 { // until it runs low
		if h.Take(now, 1) != lease.Admitted {
			t.Fatal("not admitted")
		}
		now += 10 * ms
	}
	q, ok := h.Request(now)
	if !ok || q.Seq != 2 || q.Seen != 1 || q.Held != 3 || q.Policy.MaxHold != 30*time.Second {
		t.Errorf("running low it asks %v %+v", ok, q)
	}
	if q.Got != 20 || q.Peak != 20 {
		t.Errorf("it tells that %v tokens came, and at most %v were there, not 20", q.Got, q.Peak)
	}
	if left := 31*time.Second - now; q.Claim.Left > left || q.Claim.Left < left-time.Second {
		t.Errorf("it claims a lease for %v, not %v", q.Claim.Left, left)
	}

	if h := p.Resume(31*time.Second, "a", &lease.Policy{}, 1); h != nil {
		t.Errorf("%v tokens after the end", h.Lease(31*time.Second).Tokens)
	}
	h = p.Resume(30*time.Second, "a", &lease.Policy{}, 1)
	if h.Take(31*time.Second, 1) == lease.Admitted {
		t.Error("admitted after the end")
	}
}

// TestParkTellsOfTheLimit: what was lent of another limit is brought back with
// the next request, as if it had not been parked.
func TestParkTellsOfTheLimit(t *testing.T) {
	p, _ := lapsing(t).Park(3 * time.Second)
	h := p.Resume(10*time.Second, "a", &lease.Policy{}, 1)
	h.SetLimit(lease.Limit{Rate: 10, Burst: 10})
	h.Take(11*time.Second, 1)
	if q, ok := h.Request(11 * time.Second); !ok || q.Limit.Rate != 10 {
		t.Errorf("asks %v %+v", ok, q)
	}
}

// TestCannotPark: only the batch of a calm key, whole and known to both sides.
func TestCannotPark(t *testing.T) {
	for name, h := range map[string]func() *lease.Holder{
		"nothing held": func() *lease.Holder { return lease.NewHolder("a", thousand, &lease.Policy{}, 1) },
		"a slice":      func() *lease.Holder { return leased(t, share) },
		"somebody waits": func() *lease.Holder {
			h := lapsing(t)
			h.Enter(&lease.Waiter{N: 50})
			return h
		},
		"a request is out": func() *lease.Holder {
			h := lapsing(t)
			h.Probe(2*time.Second, true)
			h.Request(2 * time.Second)
			return h
		},
		"a reply was lost": func() *lease.Holder {
			h := lapsing(t)
			h.Probe(2*time.Second, true)
			h.Request(2 * time.Second)
			h.Fail(2 * time.Second)
			return h
		},
		"used up": func() *lease.Holder {
			h := lapsing(t)
			h.Take(2*time.Second, 16)
			return h
		},
	} {
		if p, ok := h().Park(3 * time.Second); ok {
			t.Errorf("%s: parked %+v", name, p)
		}
	}
}
