package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestDenialEndsWithTheLowerLimit: a process that declares 1 an hour denies all
// others for as long as its limit is in force, and no longer, though each denial
// was for an hour.
func TestDenialEndsWithTheLowerLimit(t *testing.T) {
	high, low := lease.Limit{Rate: 1000, Burst: 1000}, lease.Limit{Rate: 1.0 / 3600, Burst: 1}
	ledger := new(lease.Ledger)
	now := time.Hour
	canary := lease.NewHolder("canary", low, &lease.Policy{}, 1)
	h := lease.NewHolder("h", high, &lease.Policy{}, 2)
	ask := func(h *lease.Holder) lease.Verdict {
		now += 10 * time.Millisecond
		v := h.Take(now, 1)
		if v == lease.Pending {
			h.Enter(&lease.Waiter{N: 1})
		}
		if q, ok := h.Request(now); ok {
			h.Handle(now, ledger.Exchange(now, q))
		}
		for _, w := range h.Ready(now).Resolved {
			v = w.Verdict
		}
		return v
	}
	if v := ask(canary); v != lease.Admitted {
		t.Fatalf("the canary's only request: %v", v)
	}
	denied := 0
	for end := now + time.Minute; now < end; {
		if ask(h) == lease.Denied {
			denied++
		}
	}
	if retry := h.RetryAfter(now, 1); ask(h) != lease.Admitted || h.InForce() != high {
		t.Errorf("a minute later %v is in force, and it is denied for %v", h.InForce(), retry)
	}
	if denied < 80 { // its record lives for 0.8 s
		t.Errorf("%d requests denied: the lower limit was not obeyed", denied)
	}
}
