package lua_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestFrameTwins is TestTwins with limits of a key that differ in window, offset or kind, in
// turn: the twins keep the same past of other frames.
func TestFrameTwins(t *testing.T) {
	tw := newTwins(t)
	tw.onRedis()
	turns, full := 0, 0
	for seed := range longform.Of[uint64](20, 40) {
		rng := rand.New(rand.NewPCG(seed, 30))
		tw.ledger = new(lease.Ledger)
		tw.told++
		limits := make([]lease.Limit, 2+rng.IntN(4))
		for i := range limits {
			limits[i] = anyFrame(rng)
		}
		now, i, debt := time.Duration(1e18), 0, 0.0
		for seq := range uint64(80) {
			now += time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
			if rng.IntN(5) == 0 {
				i = rng.IntN(len(limits))
				now += []time.Duration{time.Second, time.Minute, 20 * time.Minute, 9 * time.Hour}[rng.IntN(4)]
			}
			if debt = 0; rng.IntN(40) == 0 {
				debt = 500 * rng.Float64()
			}
			take := float64(rng.IntN(20))
			r, err := tw.exchange(t.Context(), now, lease.Request{
				Holder: fmt.Sprint("h", i, "-", rng.IntN(2)), Seq: seq + 1, Seen: seq, Take: take, Min: min(take, float64(1+seq%9)),
				Demand: 100 * rng.Float64(), Debt: debt, Since: seq + 1, Limit: limits[i], Policy: lease.Policy{}.Resolved(),
			})
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			past := len(tw.ledger.View().Past)
			turns += min(past, 1)
			full += past / 4
			if r.Limit.Kind != limits[i].Kind && rng.IntN(2) == 0 {
				now += time.Second // until the others have gone
			}
		}
	}
	t.Logf("%d exchanges with a past, %d with all that fits", turns, full)
	if turns < longform.Of(250, 500) || full < longform.Of(5, 10) {
		t.Error("too few to mean anything")
	}
}

// TestBoundaryTwins: a message of another frame comes just after a boundary, or later, while the
// past has no place left for another window.
func TestBoundaryTwins(t *testing.T) {
	tw := newTwins(t)
	windows := []time.Duration{
		time.Hour, 6 * time.Hour, lease.Day, time.Minute, lease.Week, time.Minute,
	}
	for _, after := range []time.Duration{time.Millisecond, time.Second} {
		tw.ledger = new(lease.Ledger)
		tw.told++
		noon := time.Duration(1e18).Truncate(lease.Day) + 12*time.Hour
		minute := noon + time.Minute
		for i, now := range []time.Duration{
			noon, noon + time.Second, noon + 2*time.Second, minute - 10*time.Millisecond,
			minute + after, minute + after + time.Second,
		} {
			r, err := tw.exchange(t.Context(), now, lease.Request{
				Holder: fmt.Sprint("h", i), Seq: 1, Take: 10, Min: 10, Policy: lease.Policy{}.Resolved(),
				Limit: lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: windows[i]},
			})
			if err != nil || r.Taken != 10 {
				t.Errorf("%v: %v are taken of %v, and %v", now-noon, r.Taken, r.Limit, err)
			}
		}
	}
}

// TestDeniedTwins: a quota is denied just before its window ends, while others hold some of it and an
// older window has some for longer.
func TestDeniedTwins(t *testing.T) {
	tw := newTwins(t)
	tw.ledger = new(lease.Ledger)
	noon := time.Duration(1e18).Truncate(lease.Day) + 12*time.Hour
	quota := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: time.Hour}
	exchange := func(holder string, now time.Duration, take, demand float64) lease.Reply {
		r, err := tw.exchange(t.Context(), now, lease.Request{
			Holder: holder, Seq: 1, Take: take, Min: take, Demand: demand, Limit: quota,
			Policy: lease.Policy{}.Resolved(),
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	exchange("a", noon, 40, 0)
	quota.Window = time.Minute
	if r := exchange("b", noon+59*time.Second, 1, 100); r.Burst == 0 {
		t.Error("b has no lease")
	}
	r := exchange("c", noon+59900*time.Millisecond, 70, 0)
	if r.Taken != 0 || r.RetryAfter != 250*time.Millisecond {
		t.Errorf("%+v", r)
	}
}

// TestDeathTwins: a process of another frame comes again and again while the long batch of a dead
// one goes on, and begins soon after that has ended.
func TestDeathTwins(t *testing.T) {
	longform.None(t)
	tw := newTwins(t)
	tw.ledger = new(lease.Ledger)
	now := time.Duration(1e18).Truncate(lease.Day)
	q := lease.Request{
		Holder: "dead", Seq: 1, Take: 1, Min: 1, Demand: 10, Limit: lease.Per(1000, time.Second),
		Policy: lease.Policy{}.Resolved(),
	}
	r, err := tw.exchange(t.Context(), now, q)
	long, end := r.Shape == lease.LongBatch, now+r.Expires
	q.Holder, q.Limit = "new", lease.Limit{Kind: lease.KindQuota, Burst: 10, Window: lease.Day}
	for ; r.Limit != q.Limit && err == nil && now < end+time.Minute; q.Seq++ {
		now += 250 * time.Millisecond
		r, err = tw.exchange(t.Context(), now, q)
	}
	if late := now - end; err != nil || !long || late < 0 || late > 4*time.Second {
		t.Errorf("%v after the last lease: %v, %v", late, r, err)
	}
}

// anyFrame is a limit whose window, offset or kind others of the same key do not have.
func anyFrame(rng *rand.Rand) lease.Limit {
	burst := []int64{5, 100, 10_000}[rng.IntN(3)]
	switch rng.IntN(5) {
	case 0:
		return lease.Per(float64(burst), []time.Duration{time.Minute, lease.Day}[rng.IntN(2)])
	case 1:
		return lease.Limit{
			Kind: lease.KindSliding, Burst: burst,
			Window: []time.Duration{time.Second, time.Hour, lease.Day}[rng.IntN(3)],
		}
	case 2:
		return lease.Limit{Kind: lease.KindSlots, Burst: burst}
	}
	return lease.Limit{
		Kind: lease.KindQuota, Burst: burst,
		Window: []time.Duration{time.Second, time.Minute, time.Hour, lease.Day, lease.Month}[rng.IntN(5)],
		Offset: time.Duration(rng.IntN(2)) * time.Hour,
	}
}

// TestPastKey: a key lives until what was used under another frame does not count any more. Until
// it changes no exchange writes it.
func TestPastKey(t *testing.T) {
	c := clockedRedis(t)
	store, now := remote.New(c), time.Duration(1e18).Truncate(lease.Day)
	exchange := func(seq uint64, limit lease.Limit) {
		t.Helper()
		now += time.Minute
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		q := request(fmt.Sprintf("h%d", limit.Kind), seq)
		q.Seen, q.Limit, q.Take, q.Min = seq-1, limit, 5, 5
		call := &lease.Call{Key: "k", Request: q}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	exchange(1, lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day})
	exchange(2, lease.Per(100, time.Hour))
	if ttl := c.PTTL(t.Context(), "ration:k").Val(); ttl < 23*time.Hour+57*time.Minute || ttl > 25*time.Hour {
		t.Errorf("the key lives for %v, and the day for 23h58m", ttl)
	}
	c.ConfigResetStat(t.Context())
	for seq := range uint64(20) {
		exchange(seq+3, lease.Per(100, time.Hour))
	}
	if got := calls(t, c); got["hset"] != 20 || got["hmget"] != 40 || got["hdel"] > 0 || got["pexpire"] > 0 {
		t.Errorf("20 exchanges are %v", got)
	}
}
