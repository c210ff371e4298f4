package lua_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestManyEnd: a second after the leases of 20,000 holders have ended, all that they had is there
// for whoever asks, in one exchange that costs little. Their records go later, some at each
// exchange. A holder that goes on is not disturbed, and never more is divided than there is. It
// prints the longest script, by the time of a processor.
func TestManyEnd(t *testing.T) {
	many := longform.Of(5000, 20_000)
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
	v := consistent(t, store, limit)
	if len(v.Holders) != many || v.Demand == 0 {
		t.Fatalf("%d holders that want %v/s", len(v.Holders), v.Demand)
	}
	for _, h := range v.Holders {
		now = max(now, h.Expires())
	}
	now += time.Second
	longest := time.Duration(0)
	for seq := uint64(1); ; seq++ {
		before := worked(t, c)
		r := exchange([]string{"on"}, seq, time.Hour)[0].Reply
		longest = max(longest, worked(t, c)-before)
		if r.Holders != 1 || r.Pool.Level+r.Burst < 1e6 || r.Pool.Room+r.Burst < 1e6 || r.Pool.Flow+r.Rate < 1e6 {
			t.Fatalf("exchange %d a second after all leases have ended: %+v", seq, r)
		}
		if consistent(t, store, limit); c.HLen(t.Context(), "ration:k").Val() == 4 {
			t.Logf("longest script %v, of %d exchanges until all records had gone", longest, seq)
			break
		}
		if now += 100 * time.Millisecond; seq > uint64(2*many/300) {
			t.Fatalf("records are left after %d exchanges", seq)
		}
	}
	if longest > 20*time.Millisecond {
		t.Errorf("a script took %v of a processor", longest)
	}
}

// TestCrowd: holders of a crowd come, renew, die, come back under their old names and declare
// other limits. The sums are at all times those of the leases that count. When the crowd has gone
// all that it had is there. A server whose scripts spell numbers by hand, and whose HSCAN gives all
// fields at once, knows the same.
func TestCrowd(t *testing.T) {
	for _, kind := range []lease.Kind{lease.KindBucket, lease.KindQuota, lease.KindSlots, lease.KindSliding} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			c := clockedRedis(t)
			store, rng := remote.New(c), rand.New(rand.NewPCG(5, uint64(kind)))
			limit := lease.Limit{Kind: kind, Burst: 100_000}
			switch kind {
			case lease.KindBucket:
				limit.Rate = 20_000
			case lease.KindQuota, lease.KindSliding:
				limit.Window = time.Hour
			}
			mini := miniredis.RunT(t)
			byHand := redis.NewClient(&redis.Options{Addr: mini.Addr()})
			t.Cleanup(func() { byHand.Close() })
			second := remote.New(byHand)
			now, seqs, crowds, compare := time.Duration(1e18), map[string]uint64{}, 0, kind == lease.KindBucket
			exchange := func(ids ...string) (r lease.Reply) {
				t.Helper()
				if err := setClock(t.Context(), c, now); err != nil {
					t.Fatal(err)
				}
				var calls []*lease.Call
				for _, id := range ids {
					seqs[id]++
					q := request(id, seqs[id])
					q.Limit, q.Seen, q.Demand = limit, seqs[id]-1, 200*rng.Float64()*rng.Float64()
					if kind != lease.KindBucket && kind != lease.KindSlots && rng.IntN(100) == 0 && seqs[id] < 1000 {
						q.Limit.Burst += 5
					}
					q.Take = float64(rng.IntN(3))
					q.Min = min(q.Take, 1)
					calls = append(calls, &lease.Call{Key: "k", Request: q})
				}
				store.Exchange(t.Context(), calls)
				mini.SetTime(time.UnixMicro(now.Microseconds()))
				for _, call := range calls {
					if r = call.Reply; call.Err != nil {
						t.Fatal(call.Err)
					}
					if again := (&lease.Call{Key: "k", Request: call.Request}); compare {
						if second.Exchange(t.Context(), []*lease.Call{again}); again.Err != nil || again.Reply != r {
							t.Fatalf("%+v, %v by hand, not %+v", again.Reply, again.Err, r)
						}
					}
				}
				return r
			}
			rounds := longform.Of(24, 120)
			for round := range rounds {
				now += time.Duration(rng.Int64N(int64(20 * time.Millisecond)))
				compare = compare && round < longform.Of(3, 20) // it is slow
				var ids []string
				some := []int{900, 900, 60, 2000}[4*round/rounds]
				for range 100 {
					ids = append(ids, fmt.Sprint("h", rng.IntN(some)))
				}
				exchange(ids...)
				v := consistent(t, store, lease.Limit{Rate: 1e9, Burst: limit.Burst + 5})
				if len(v.Holders) > 512 {
					crowds++
				}
			}
			if crowds < rounds/6 {
				t.Errorf("a crowd in %d rounds only", crowds)
			}
			for range 200 {
				now += 10 * time.Minute
				exchange("last")
			}
			v, n := consistent(t, store, lease.Limit{Rate: 1e9, Burst: limit.Burst}), c.HLen(t.Context(), "ration:k").Val()
			if len(v.Holders) != 1 || n > 12 || v.Pool+v.Bursts < 99_990 && kind != lease.KindQuota && kind != lease.KindSliding {
				t.Errorf("%d fields are left, and %+v", n, v)
			}
		})
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
