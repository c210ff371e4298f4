package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestSlotsTwins is TestTwins with slots. Now and then a holder declares a token bucket.
func TestSlotsTwins(t *testing.T) {
	tw := newTwins(t)
	tw.limits = (*history).slots
	exchanges, slots, kept := 0, 0, 0
	tw.check = func(v lease.View) error {
		if v.Limit.Kind == lease.KindSlots {
			slots++
			if v.Earmark > 0 {
				kept++
			}
		}
		return nil
	}
	for seed := range uint64(60) {
		n, err := tw.tell(t.Context(), randomBytes(seed, 600))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		exchanges += n
	}
	t.Logf("%d exchanges, %d of slots, %d with some that are kept", exchanges, slots, kept)
	if kept < 300 || slots == exchanges {
		t.Errorf("%d of %d exchanges are with slots that are kept: too few to mean anything, or all are of slots", kept, exchanges)
	}
}

func FuzzSlotsTwins(f *testing.F) {
	tw := newTwins(f)
	tw.limits = (*history).slots
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 100))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if _, err := tw.tell(t.Context(), script[:min(len(script), 300)]); err != nil {
			t.Fatal(err)
		}
	})
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
	c := redistest.Start(t).Client()
	c.AddHook(clockHook{clockScriptOf(t, lua.Slots)})
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
