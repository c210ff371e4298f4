package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// TestQuotaTwins is TestTwins with quotas. Now and then a holder declares another window, or
// a token bucket.
func TestQuotaTwins(t *testing.T) {
	twinsOf(t, (*history).quota, lease.KindQuota, lent, 500)
}

func FuzzQuotaTwins(f *testing.F) {
	tw := newTwins(f)
	tw.limits = (*history).quota
	fuzzTwins(f, tw)
}

// quota is one of windows from a second to ten years, small and large.
func (h *history) quota() lease.Limit {
	window := choose(h, time.Second, time.Second, 7*time.Second, time.Minute, time.Minute, time.Hour,
		lease.Day, lease.Week, lease.Month, lease.Month, 3650*lease.Day)
	return lease.Limit{
		Kind: lease.KindQuota, Window: window,
		Burst:  choose[int64](h, 1, 10, 100, 1000, 10_000, 10_000, lease.MaxBurst),
		Offset: choose(h, 0, 0, 0, time.Hour, -14*time.Hour, 5*time.Hour+30*time.Minute),
	}
}

// TestQuotaKey: what a quota costs the server. An exchange is three commands. The key lives
// until its window has ended, and little longer. What piled up in a window goes at its end,
// also where memory has run out.
func TestQuotaKey(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	now := time.Duration(1e18).Truncate(time.Minute)
	tick := func(d time.Duration) {
		now += d
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
	}
	exchange := func(holder string, seq uint64) {
		t.Helper()
		q := request(holder, seq)
		q.Seen = seq - 1
		q.Limit = lease.Limit{Kind: lease.KindQuota, Burst: 1000, Window: time.Minute}
		call := &lease.Call{Key: "k", Request: q}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	tick(0)
	for i := range 100 {
		exchange(fmt.Sprint("h", i), 1)
	}
	if ttl := c.PTTL(t.Context(), "ration:k").Val(); ttl < time.Minute || ttl > 2*time.Minute {
		t.Errorf("the key lives for %v, and the window for a minute", ttl)
	}
	c.ConfigResetStat(t.Context())
	for seq := range uint64(20) {
		tick(time.Millisecond)
		exchange("h0", seq+2)
	}
	for name, want := range map[string]int{"hmget": 20, "hset": 20, "pexpire": 0, "hgetall": 0} {
		if n := calls(t, c)[name]; n != want {
			t.Errorf("%d calls of %s, not %d", n, name, want)
		}
	}

	tick(time.Minute)
	c.ConfigSet(t.Context(), "maxmemory", "1")
	exchange("h0", 50)
	if n := c.HLen(t.Context(), "ration:k").Val(); n != 4 {
		t.Errorf("%d fields after the boundary", n)
	}
	if ttl := c.PTTL(t.Context(), "ration:k").Val(); ttl < time.Minute-20*time.Millisecond {
		t.Errorf("after the boundary the key lives for %v", ttl)
	}
}
