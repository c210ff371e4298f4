package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// TestManyEnd: when the leases of 20,000 holders end together, none of the exchanges
// that follow looks at many of them, and after some all is as if they had never been. A
// holder that goes on is not disturbed, and never more is divided than there is. It prints
// the longest script, by the time of a processor.
func TestManyEnd(t *testing.T) {
	const many = 20000
	c := clockedRedis(t)
	store := remote.New(c)
	now := time.Duration(1e18)
	limit := lease.Limit{Rate: 1e6, Burst: 1e6}
	exchange := func(ids []string, seq uint64, hold time.Duration) []*lease.Call {
		t.Helper()
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		var calls []*lease.Call
		for _, id := range ids {
			calls = append(calls, &lease.Call{Key: "k", Request: lease.Request{
				Holder: id, Seq: seq, Seen: seq - 1, Demand: 100, Limit: limit,
				Policy: lease.Policy{MaxHold: hold}.Resolved(),
			}})
		}
		store.Exchange(t.Context(), calls)
		for _, call := range calls {
			if call.Err != nil {
				t.Fatal(call.Err)
			}
		}
		return calls
	}
	for i := 0; i < many; i += 1000 {
		var ids []string
		for j := range 1000 {
			ids = append(ids, fmt.Sprint("h", i+j))
		}
		hold := time.Minute
		if i > 0 {
			hold = time.Hour // slots are wider then, and the key lives for hours
		}
		exchange(ids, 1, hold)
	}
	consistent(t, store, limit)
	now += 2 * time.Hour
	passes, longest := 0, time.Duration(0)
	for seq := uint64(1); ; seq++ {
		now += 100 * time.Millisecond
		before := worked(t, c)
		r := exchange([]string{"on"}, seq, time.Hour)[0].Reply
		longest = max(longest, worked(t, c)-before)
		if passes++; passes%8 == 1 || r.Holders == 1 {
			if v := consistent(t, store, limit); r.Holders == 1 && v.Pass == 0 {
				break
			}
		}
		if passes > 2*many/300 {
			t.Fatalf("%d holders are left after %d exchanges", r.Holders, passes)
		}
	}
	t.Logf("longest script %v, of %d exchanges until all were noticed", longest, passes)
	if longest > 20*time.Millisecond {
		t.Errorf("a script took %v of a processor", longest)
	}
}

// worked is how long the server has had a processor, on a busy machine, too.
func worked(t *testing.T, c *redis.Client) (sum time.Duration) {
	info, err := c.InfoMap(t.Context(), "cpu").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		d, err := time.ParseDuration(info["CPU"][name] + "s")
		if err != nil {
			t.Fatal(err)
		}
		sum += d
	}
	return sum
}

// consistent checks that what the ledger knows together is what it knows of each.
func consistent(t *testing.T, store *remote.Store, limit lease.Limit) lease.View {
	t.Helper()
	v, err := store.Inspect(t.Context(), "k")
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, n := range v.Ends {
		counted += n
	}
	var rates, bursts, demand float64
	for _, h := range v.Holders {
		if !h.Ended {
			rates += h.Rate
		}
		bursts += h.Burst
		demand += h.Demand
	}
	if counted != len(v.Holders) || rates != v.Rates || bursts != v.Bursts || demand != v.Demand {
		t.Fatalf("of %d holders %d are in the calendar; lent are %v/s and %v, not %v/s and %v",
			len(v.Holders), counted, rates, bursts, v.Rates, v.Bursts)
	}
	if v.Pool+v.Bursts > float64(limit.Burst) || v.Rates > limit.Rate {
		t.Fatalf("%v in the pool, %v and %v/s are lent", v.Pool, v.Bursts, v.Rates)
	}
	return v.View
}

// TestManyOnMiniredis: HSCAN of miniredis gives all fields at once, so that it agrees with
// the Go ledger however many holders there are.
func TestManyOnMiniredis(t *testing.T) {
	mini := miniredis.RunT(t)
	c := redis.NewClient(&redis.Options{Addr: mini.Addr()})
	t.Cleanup(func() { c.Close() })
	store, ledger, now := remote.New(c), new(lease.Ledger), time.Duration(1e18)
	for i := range 1210 {
		if i >= 600 {
			now += time.Second / 300 // leases of the first ones end
		}
		mini.SetTime(time.UnixMicro(now.Microseconds()))
		call := &lease.Call{Key: "k", Request: request(fmt.Sprint("h", i), 1)}
		call.Request.Policy.MaxHold = call.Request.Policy.MaxRefresh
		store.Exchange(t.Context(), []*lease.Call{call})
		if want := ledger.Exchange(now, call.Request); call.Err != nil || call.Reply != want {
			t.Fatalf("miniredis %+v, %v\nGo %+v", call.Reply, call.Err, want)
		}
	}
	if n := ledger.View().Holders; len(n) > 600 {
		t.Errorf("%d holders: no lease has ended", len(n))
	}
}
