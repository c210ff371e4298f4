package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// TestSlotsTwins is TestTwins with slots. Now and then a holder declares a token bucket.
func TestSlotsTwins(t *testing.T) {
	kept := func(v lease.View) bool { return v.Earmark > 0 }
	twinsOf(t, (*history).slots, lease.KindSlots, kept, 300)
}

func FuzzSlotsTwins(f *testing.F) {
	tw := newTwins(f)
	tw.limits = (*history).slots
	fuzzTwins(f, tw)
}

// slots are one, some or very many.
func (h *history) slots() lease.Limit {
	return lease.Limit{
		Kind:  lease.KindSlots,
		Burst: choose[int64](h, 1, 2, 10, 10, 100, 100, 10_000, lease.MaxBurst),
	}
}

// FuzzSlotsState is FuzzState with slots: nothing refills, and nothing is used up.
func FuzzSlotsState(f *testing.F) {
	fuzzState(f, lease.Limit{Kind: lease.KindSlots, Burst: 100})
}

// TestSlotsKey: what slots cost the server. An exchange is two commands. The key lives until
// all leases have ended, and not much longer.
func TestSlotsKey(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	now := time.Duration(1e18)
	exchange := func(holder string, seq uint64) lease.Reply {
		t.Helper()
		now += time.Millisecond
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		q := request(holder, seq)
		q.Seen, q.Take, q.Min, q.Demand = seq-1, 1, 1, 5
		q.Limit = lease.Limit{Kind: lease.KindSlots, Burst: 1000}
		call := &lease.Call{Key: "k", Request: q}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
		return call.Reply
	}
	var last lease.Reply
	for i := range 100 {
		r := exchange(fmt.Sprint("h", i), 1)
		if r.Fence <= last.Fence || r.Add < 1 {
			t.Fatalf("%+v follows %+v", r, last)
		}
		last = r
	}
	if ttl := c.PTTL(t.Context(), "ration:k").Val(); ttl < 2*last.Expires || ttl > 8*last.Expires {
		t.Errorf("the key lives for %v, and a lease for %v", ttl, last.Expires)
	}
	c.ConfigResetStat(t.Context())
	for seq := range uint64(20) {
		exchange("h0", seq+2)
	}
	for name, want := range map[string]int{"hmget": 20, "hset": 20, "pexpire": 0, "hgetall": 0} {
		if n := calls(t, c)[name]; n != want {
			t.Errorf("%d calls of %s, not %d", n, name, want)
		}
	}
}
