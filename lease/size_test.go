package lease_test

import (
	"math"
	"testing"
	"time"
	"unsafe"

	"github.com/seed13b07268/ration/lease"
)

// TestHolderSize: a Holder of a bucket is as small as local.TestEntrySize needs it to be, and
// has nothing made for it that few need, or none for long: that goes with its reason.
func TestHolderSize(t *testing.T) {
	const most = 544 // bytes
	if size := unsafe.Sizeof(lease.Holder{}); math.MaxInt == math.MaxInt64 && size > most {
		t.Errorf("a Holder takes %d bytes, at most %d are wanted", size, most)
	}
	policy := lease.Policy{}.Resolved()
	h, ledger, now := lease.NewHolder("a", thousand, &policy, 1), new(lease.Ledger), time.Hour
	if h.Parts() != 0 || h.Policy() != &policy {
		t.Error("a new Holder has parts, or a policy of its own")
	}
	h.Enter(&lease.Waiter{N: 1})
	h.Request(now)
	h.Fail(now)
	if h.Ready(now); h.Parts() != 1 {
		t.Errorf("%d parts after an exchange that failed, want the failures", h.Parts())
	}
	h.Enter(&lease.Waiter{N: 1})
	if h.Parts() != 2 {
		t.Errorf("%d parts with a queue, want that and the failures", h.Parts())
	}
	now += time.Second
	q, _ := h.Request(now)
	h.Handle(now, ledger.Exchange(now, q))
	if r := h.Ready(now); len(r.Resolved) != 1 || h.Parts() != 0 {
		t.Errorf("%d resolved, %d parts after an answer", len(r.Resolved), h.Parts())
	}
	h.Charge(now, 1)
	if h.Parts() != 1 {
		t.Errorf("%d parts after a Charge, want the debts", h.Parts())
	}
	if quota := lease.NewHolder("b", lease.Limit{
		Burst: 10, Kind: lease.KindQuota, Window: time.Minute,
	}, &policy, 1); quota.Parts() != 1 {
		t.Errorf("%d parts of a quota's Holder, want what is special to it", quota.Parts())
	}
}

// TestSpecialOfAnotherKind: a Holder that changes its kind of limit has what the new one needs.
func TestSpecialOfAnotherKind(t *testing.T) {
	limits := []lease.Limit{
		thousand, {Burst: 10, Kind: lease.KindQuota, Window: time.Minute}, slots(10),
		{Burst: 10, Kind: lease.KindSliding, Window: time.Minute},
	}
	for _, from := range limits {
		for _, to := range limits {
			h, ledger, now := lease.NewHolder("a", from, &lease.Policy{}, 1), new(lease.Ledger), time.Hour
			h.SetLimit(to)
			if want := min(int(to.Kind), 1); h.Parts() != want {
				t.Errorf("%v to %v: %d parts, want %d", from, to, h.Parts(), want)
			}
			w := &lease.Waiter{N: 1}
			if to.Kind == lease.KindSlots {
				w.Hold = lease.WhileOpen
			}
			h.Enter(w)
			q, _ := h.Request(now)
			h.Handle(now, ledger.Exchange(now, q))
			if r := h.Ready(now); len(r.Resolved) != 1 || h.ResetAfter(now) < 0 || h.Level(now) > 1000 {
				t.Errorf("%v to %v: %+v", from, to, r)
			}
		}
	}
}
