package remote_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote/redistest"
)

// losses are the ways in which a key's state is lost, in the middle of a run.
var losses = []struct {
	name string
	lose func(f *fleet, s *redistest.Server, c *redis.Client)
	want string // what exchanges fail with meanwhile
	like bool   // the loss before it, as holders see it
}{
	{"nothing", func(*fleet, *redistest.Server, *redis.Client) {}, "", false},
	{
		"FLUSHALL",
		func(f *fleet, s *redistest.Server, c *redis.Client) { c.FlushAll(f.t.Context()) }, "",
		false,
	},
	{
		"a restart without persistence",
		func(f *fleet, s *redistest.Server, c *redis.Client) { s.Restart() }, "",
		true,
	},
	{"an eviction", evict, "", true},
	{"a second forgotten, as by a failover", func(f *fleet, s *redistest.Server, c *redis.Client) {
		old := c.Dump(f.t.Context(), fleetName).Val()
		f.run(time.Second)
		c.RestoreReplace(f.t.Context(), fleetName, time.Hour, old)
	}, "", false},
	{"a string in its place for six seconds", func(f *fleet, s *redistest.Server, c *redis.Client) {
		c.Set(f.t.Context(), fleetName, "theirs", 0)
		f.run(6 * time.Second)
		c.Del(f.t.Context(), fleetName)
	}, "RATION no ledger: WRONGTYPE", false},
	{"a foreign hash in its place for six seconds", func(f *fleet, s *redistest.Server, c *redis.Client) {
		c.Del(f.t.Context(), fleetName)
		c.HSet(f.t.Context(), fleetName, "name", "theirs")
		f.run(6 * time.Second)
		c.Del(f.t.Context(), fleetName)
	}, "RATION no ledger: a hash without state", true},
	{"garbage in its fields for six seconds", func(f *fleet, s *redistest.Server, c *redis.Client) {
		c.HSet(f.t.Context(), fleetName, "#", "garbage", "p1", "garbage")
		f.run(6 * time.Second)
		c.Del(f.t.Context(), fleetName)
	}, "RATION bad ", true},
}

// evict has a server that may evict, against all advice, do so.
func evict(f *fleet, _ *redistest.Server, c *redis.Client) {
	ctx := f.t.Context()
	used := c.InfoMap(ctx, "memory").Val()["Memory"]["used_memory"]
	c.ConfigSet(ctx, "maxmemory-policy", "allkeys-lru")
	c.ConfigSet(ctx, "maxmemory", used)
	for i := 0; c.Exists(ctx, fleetName).Val() > 0; i++ {
		if i > 10000 {
			f.t.Fatal("nothing is evicted")
		}
		c.Set(ctx, fmt.Sprint("filler ", i), strings.Repeat("x", 10000), 0)
	}
	c.ConfigSet(ctx, "maxmemory", "0")
}

// TestLostState is I6 on a real Redis: whatever takes a key's state away, all
// that is admitted beyond Burst + Rate*T is at most one more Burst and what the
// old leases refill until they end; what is there in the key's place is an
// error that says so; and afterwards the limit is in use as before. A loss that is
// like the loss before it, as holders see it, is played with one load.
func TestLostState(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many losses in one goroutine: left out with -short")
	}
	limit := lease.Limit{Rate: 1000, Burst: 500}
	policy := lease.Policy{}.Resolved()
	busy := limit.Rate * 2.25 * policy.MaxRefresh.Seconds()
	calm := float64(limit.Burst)*(1+policy.Headroom) + limit.Rate*1.25*policy.MaxRefresh.Seconds()
	for _, load := range []struct {
		name          string
		before, after float64 // the loss, offered
		newcomers     int     // processes that start after the loss and ask first
		refills       float64 // tokens of old leases, at most
	}{
		{"busy", 2000, 2000, 0, busy},
		{"busy, newcomers", 2000, 2000, 4, busy},
		{"calm, then a flash", 100, 2000, 0, calm},
		{"calm, then newcomers", 100, 5000, 4, calm},
	} {
		for _, loss := range losses {
			if loss.like && load.name != "busy, newcomers" {
				continue
			}
			t.Run(load.name+"/"+loss.name, func(t *testing.T) {
				server := redistest.Start(t)
				f := newFleet(t, client(t, patient(server.Addr)), limit, policy)
				f.offered = load.before
				f.run(2 * time.Second)
				if f.worst > 0 || f.failed > 0 {
					t.Fatalf("before the loss: %v excess, %d failed", f.worst, f.failed)
				}
				loss.lose(f, server, server.Client())
				if got := fmt.Sprint(f.err); loss.want != "" &&
					(f.failed == 0 || !strings.Contains(got, loss.want)) {
					t.Errorf("%d failed, with %s, not %s", f.failed, got, loss.want)
				} else if loss.want == "" && f.failed > 0 {
					t.Errorf("%d failed, with %s", f.failed, got)
				}
				f.offered = load.after
				f.start(load.newcomers)
				f.run(6 * time.Second)
				most := float64(limit.Burst) + load.refills
				if loss.name == "nothing" {
					most = 0
				}
				t.Logf("worst excess %.0f of at most %.0f tokens; %d exchanges, %d failed", f.worst,
					most, f.asks, f.failed)
				if f.worst > most {
					t.Errorf("%v excess, more than %v", f.worst, most)
				}
				if used := f.run(3 * time.Second); used < 0.98*3*limit.Rate ||
					used > 3*limit.Rate+float64(limit.Burst) {
					t.Errorf("in the end %v admitted in 3 s", used)
				}
			})
		}
	}
}

// TestNoise: values that are as long as they should be, but say anything, are
// an error or are believed; either way nothing is minted beyond I6. Such a key
// may admit nothing until it is deleted.
func TestNoise(t *testing.T) {
	if testing.Short() {
		t.Skip("plays many losses in one goroutine: left out with -short")
	}
	limit := lease.Limit{Rate: 1000, Burst: 500}
	policy := lease.Policy{}.Resolved()
	server := redistest.Start(t)
	c := server.Client()
	rng := rand.New(rand.NewPCG(3, 4))
	worst, stuck, errs := 0.0, 0, 0
	const constants, noises = 15, 21
	for i := range noises {
		field := []string{"#", "@", "p1"}[i%3]
		noise := make([]byte,
			map[string]int{"#": lua.Sums.Size(), "@": 46, "p1": lua.Record.Size()}[field])
		constant := []byte{0, 1, ' ', '1', 0xff}[i/3%5]
		for j := range noise {
			if noise[j] = constant; i >= constants {
				noise[j] = byte(rng.Uint32())
			}
		}
		c.FlushAll(t.Context())
		f := newFleet(t, client(t, patient(server.Addr)), limit, policy)
		f.offered = 2000
		f.run(time.Second)
		c.HSet(t.Context(), fleetName, field, noise)
		f.run(2 * time.Second)
		if most := float64(limit.Burst) + limit.Rate*2.25*policy.MaxRefresh.Seconds(); f.worst > most {
			t.Errorf("%s of %x: %v excess, more than %v", field, noise, f.worst, most)
		}
		worst = max(worst, f.worst)
		if f.failed > 0 {
			errs++
		}
		if f.run(time.Second) == 0 {
			stuck++
		}
		c.Del(t.Context(), fleetName)
		f.run(2 * time.Second)
		if used := f.run(2 * time.Second); used < 0.98*2*limit.Rate {
			t.Errorf("%s of %x: once deleted, %v admitted in 2 s", field, noise, used)
		}
	}
	t.Logf("of %d: %d with errors, %d that admit nothing until deleted; worst excess %.0f tokens",
		noises, errs, stuck, worst)
}
