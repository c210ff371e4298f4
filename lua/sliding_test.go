package lua_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestSlidingTwins is TestTwins with sliding windows. Now and then a holder declares another
// window, or another kind of limit.
func TestSlidingTwins(t *testing.T) {
	twinsOf(t, (*history).slidingOrOther, lease.KindSliding, lent, 500)
}

func FuzzSlidingTwins(f *testing.F) {
	tw := newTwins(f)
	tw.limits = (*history).slidingOrOther
	fuzzTwins(f, tw)
}

// counted returns an error unless each token of a sliding window is somewhere.
func counted(v lease.View) error {
	all := v.Pool + v.Bursts
	for _, s := range v.Panes {
		all += s.Tokens
	}
	past, lacks := 0.0, 0.0
	for _, u := range v.Past {
		past += u.Tokens
		lacks = math.Ceil(float64((u.Until-v.At)*u.Rate) / 1e6)
	}
	all += max(past, lacks)
	if v.Limit.Kind == lease.KindSliding && all != float64(v.Limit.Burst) {
		return fmt.Errorf("%v tokens are somewhere: %+v", all, v)
	}
	return nil
}

// slidingOrOther is a sliding window, or now and then one of the kinds that it can be taken for.
func (h *history) slidingOrOther() lease.Limit {
	switch h.pick(16) {
	case 0:
		return h.quota()
	case 1:
		return h.slots()
	}
	return h.sliding()
}

// sliding is one of windows from a second to ten years, small and large.
func (h *history) sliding() lease.Limit {
	return lease.Limit{
		Kind: lease.KindSliding,
		Window: choose(h, time.Second, time.Second, 7*time.Second, time.Minute, time.Minute, time.Hour,
			lease.Day, lease.Month, 3650*lease.Day),
		Burst: choose[int64](h, 1, 10, 100, 1000, 10_000, 10_000, lease.MaxBurst),
	}
}

// slide is a request of a sliding window of 4,000,000,000 in a minute.
func slide(id string, seq uint64, take, demand float64) lease.Request {
	return lease.Request{
		Holder: id, Seq: seq, Seen: seq - 1, Take: take, Min: min(take, 1), Demand: demand,
		Limit:  lease.Limit{Kind: lease.KindSliding, Burst: 4e9, Window: time.Minute},
		Policy: lease.Policy{}.Resolved(),
	}
}

// TestSlidingTwinsOfManyPanes: processes come, take and go for two windows, so that each pane
// has tokens. The twins agree, and what a key takes in Redis is bounded.
func TestSlidingTwinsOfManyPanes(t *testing.T) {
	longform.None(t)
	tw := newTwins(t)
	tw.onRedis()
	tw.ledger = new(lease.Ledger)
	panes, most := 0, int64(0)
	tw.check = func(v lease.View) error {
		panes = max(panes, len(v.Panes))
		return nil
	}
	now, seqs := time.Hour, map[string]uint64{}
	for i := range 500 {
		now += 300 * time.Millisecond
		id := fmt.Sprintf("process-%05d", i%7)
		if seqs[id]++; i%40 == 39 {
			id = fmt.Sprintf("process-%05d", i)
			seqs[id]++
		}
		q := slide(id, seqs[id], 1e7, 0)
		q.Used = 0
		if i == 450 {
			q.Take = 4e9 // more than there is
		}
		if _, err := tw.exchange(t.Context(), now, q); err != nil {
			t.Fatal(err)
		}
		if n := tw.real.HLen(t.Context(), "ration:"+tw.key()).Val(); n > 8+3+lua.Chunks {
			continue // some are there that have gone
		}
		most = max(most, tw.real.MemoryUsage(t.Context(), "ration:"+tw.key()).Val())
	}
	t.Logf("up to %d panes, %d bytes", panes, most)
	if panes < 61 || most > 1536 {
		t.Errorf("up to %d panes of 61, in %d bytes", panes, most)
	}
}

// TestSlidingKey: what a sliding window costs the server. An exchange is four commands at most.
// The key lives until nothing counts any more, and not much longer.
func TestSlidingKey(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	now := time.Duration(1e18)
	exchange := func(seq uint64) {
		t.Helper()
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		call := &lease.Call{Key: "k", Request: slide("h", seq, 5, 100)}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	exchange(1)
	if ttl := c.PTTL(t.Context(), "ration:k").Val(); ttl < 90*time.Second || ttl > 2*time.Minute {
		t.Errorf("the key lives for %v, a window is a minute, and a lease up to half of that", ttl)
	}
	c.ConfigResetStat(t.Context())
	for seq := range uint64(20) {
		now += time.Millisecond
		exchange(seq + 2)
	}
	for name, want := range map[string]int{"hmget": 40, "hset": 40, "pexpire": 0, "hgetall": 0} {
		if n := calls(t, c)[name]; n != want {
			t.Errorf("%d calls of %s, not %d", n, name, want)
		}
	}
}
