package lua_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// calls is how often a server has run each command.
func calls(t *testing.T, c *redis.Client) map[string]int {
	counts := map[string]int{}
	for name, line := range c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"] {
		var n int
		fmt.Sscanf(line, "calls=%d", &n)
		counts[strings.TrimPrefix(name, "cmdstat_")] = n
	}
	return counts
}

// TestCommands: an exchange costs three commands, now and then a fourth,
// whatever the number of holders. All records are read only when a lease has ended; a repeat, and a
// request that is late, write nothing.
func TestCommands(t *testing.T) {
	const holders, rounds = 64, 20
	c := clockedRedis(t)
	store := remote.New(c)
	now := time.Duration(1e18)
	exchange := func(q lease.Request) {
		t.Helper()
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		call := &lease.Call{Key: "k", Request: q}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	var last lease.Request
	renew := func(seq uint64, holders int) {
		for i := range holders {
			now += time.Millisecond
			last = lease.Request{
				Holder: fmt.Sprint("h", i), Seq: seq, Seen: seq - 1, Demand: 100,
				Limit: lease.Limit{Rate: 1e5, Burst: 1e5}, Policy: lease.Policy{MaxHold: 250 * time.Millisecond}.Resolved(),
			}
			exchange(last)
		}
	}
	expect := func(want map[string]int) {
		t.Helper()
		got := calls(t, c)
		for name, n := range want {
			if got[name] != n {
				t.Errorf("%d calls of %s, not %d", got[name], name, n)
			}
		}
		c.ConfigResetStat(t.Context())
	}
	renew(1, holders)
	c.ConfigResetStat(t.Context())
	for seq := range uint64(rounds) {
		renew(seq+2, holders)
	}
	got := calls(t, c)
	if n := got["pexpire"]; n == 0 || n > 5*holders {
		t.Errorf("%d calls of pexpire", n)
	}
	expect(map[string]int{"hmget": rounds * holders, "hset": rounds * holders, "hgetall": 0, "hdel": 0})

	exchange(last)
	last.Seq, last.Seen = last.Seq-1, 0
	exchange(last)
	expect(map[string]int{"hmget": 2, "hset": 0, "pexpire": 0, "hgetall": 0})

	// Four stop. Their rates and their tokens end, both at about the same time.
	for seq := range uint64(rounds) {
		renew(seq+2+rounds, holders-4)
	}
	got = calls(t, c)
	// What they lost is a field until it is forgotten.
	if n, gone := got["hgetall"], got["hdel"]; n < 2 || n > 8 || gone < 4 || gone > 5 {
		t.Errorf("%d calls of hgetall and %d of hdel for 4 holders that stopped", n, gone)
	}
}

// lives is how long a key lives, and how long it has to live. A key is needed until it is as good
// as a new one: its bucket is full, and its last lease has ended.
func lives(t *testing.T, c *redis.Client, key string, v lease.View) (ttl, need time.Duration) {
	need = time.Duration(min((float64(v.Limit.Burst)-v.Pool)/v.Limit.Rate, 8e9) * 1e9)
	var longest float64
	for _, h := range v.Holders {
		longest = max(longest, h.At+h.Life-v.At)
	}
	ttl = c.PTTL(t.Context(), key).Val()
	return ttl, need + time.Duration(longest)*time.Microsecond
}

// TestTTL: a key expires only when it is as good as a new one, and not much later. TestTwins checks
// after each exchange of many histories that no key expires too early.
func TestTTL(t *testing.T) {
	tw := newTwins(t)
	tw.check = func(v lease.View) error {
		if ttl, need := lives(t, tw.real, "ration:"+tw.key(), v); ttl < need {
			return fmt.Errorf("TTL %v is too short: %v are needed", ttl, need)
		}
		return nil
	}
	// Tokens that outlive by far the slice that they go with: of a lost state's
	// batch, and of one whose TTL is set anew, with the limit, beside another's.
	claims := func(q *lease.Request) {
		q.Demand, q.Held, q.Claim = 40, 1, lease.Claim{Burst: 2, Left: 25 * time.Second}
	}
	for _, others := range []bool{false, true} {
		tw.ledger = new(lease.Ledger)
		tw.told++
		now := time.Duration(1e18)
		q := request("a", 1)
		claims(&q)
		q.Policy = lease.Policy{}.Resolved()
		q.Policy.MaxHold = 25 * time.Second
		q.Policy.Batch = 10
		if _, err := tw.exchange(t.Context(), now, q); err != nil {
			t.Fatal(err)
		}
		if others {
			q.Holder, q.Held, q.Claim, q.Demand = "b", 0, lease.Claim{}, 40
			q.Limit.Rate *= 2
			if _, err := tw.exchange(t.Context(), now, q); err != nil {
				t.Fatal(err)
			}
		}
	}

	c := tw.real
	for _, limit := range []lease.Limit{{Rate: 100, Burst: 100}, lease.Per(1, time.Hour), {Rate: lease.MaxRate, Burst: 1}} {
		for _, longest := range []time.Duration{time.Millisecond, time.Second, time.Hour} {
			call := &lease.Call{Key: fmt.Sprint(limit, longest), Request: request("h", 1)}
			call.Request.Limit, call.Request.Policy = limit, lease.Policy{MaxRefresh: longest}.Resolved()
			store := remote.New(c)
			store.Exchange(t.Context(), []*lease.Call{call})
			v, err := store.Inspect(t.Context(), call.Key)
			if err != nil {
				t.Fatal(err)
			}
			ttl, need := lives(t, c, "ration:"+call.Key, v.View)
			tick := time.Duration(v.Tick) * time.Microsecond
			if most := need + need/2 + 2*time.Second + 23*tick; ttl < need || ttl > most {
				t.Errorf("%s: TTL %v is not from %v to %v", call.Key, ttl, need, most)
			}
		}
	}
}

// TestSmall: with eight holders a key takes at most 1 KiB. TestTwins checks that no value, whatever
// its numbers, is so long that Redis turns a small hash into a table, at twice the memory.
func TestSmall(t *testing.T) {
	c := redistest.Start(t).Client()
	for i := range 8 {
		call := &lease.Call{Key: "tenant:42", Request: request(fmt.Sprintf("K3U7VQ2XW%d-1", i), 1)}
		remote.New(c).Exchange(t.Context(), []*lease.Call{call})
		if call.Err != nil {
			t.Fatal(call.Err)
		}
	}
	if n := c.MemoryUsage(t.Context(), "ration:tenant:42", 0).Val(); n > 1024 {
		t.Errorf("%d bytes", n)
	}
}

// onEach runs a test against miniredis and a real Redis.
func onEach(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		c := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
		t.Cleanup(func() { c.Close() })
		test(t, c)
	})
	t.Run("redis", func(t *testing.T) { test(t, redistest.Start(t).Client()) })
}

func request(holder string, seq uint64) lease.Request {
	return lease.Request{
		Holder: holder, Seq: seq, Take: 1, Min: 1, Demand: 50,
		Limit: lease.Limit{Rate: 100, Burst: 100}, Policy: lease.Policy{}.Resolved(),
	}
}

// TestGarbage: what is not a ledger is an error of its own, from both scripts,
// and is left as it is.
func TestGarbage(t *testing.T) {
	const key = "ration:k"
	set := func(field string, values ...string) func(context.Context, *redis.Client) {
		return func(ctx context.Context, c *redis.Client) {
			for _, v := range values {
				c.HSet(ctx, key, field, v)
			}
		}
	}
	del := func(field string) func(context.Context, *redis.Client) {
		return func(ctx context.Context, c *redis.Client) { c.HDel(ctx, key, field) }
	}
	bytes := func(n int) string { return string(rune(lua.Version)) + strings.Repeat("1", n-1) }
	sums, about, record := lua.Sums.Size(), lua.About.Size(), lua.Record.Size()
	const noState, badState, badRecord = "RATION no ledger: a hash without state", "RATION bad state", "RATION bad record of holder h"
	stories := map[string]struct {
		spoil func(context.Context, *redis.Client)
		want  string
	}{
		"a string": {func(ctx context.Context, c *redis.Client) { c.Del(ctx, key); c.Set(ctx, key, "x", 0) }, "RATION no ledger: WRONGTYPE"},
		"a list":   {func(ctx context.Context, c *redis.Client) { c.Del(ctx, key); c.RPush(ctx, key, "x") }, "RATION no ledger: WRONGTYPE"},
		"a foreign hash": {func(ctx context.Context, c *redis.Client) {
			c.Del(ctx, key)
			c.HSet(ctx, key, "name", bytes(record))
		}, noState},
		"no sums":             {del("#"), noState},
		"no calendar":         {del("@"), noState},
		"no limit":            {del("="), noState},
		"empty sums":          {set("#", ""), badState},
		"short sums":          {set("#", bytes(sums-1)), badState},
		"long sums":           {set("#", bytes(sums+1)), badState},
		"short calendar":      {set("@", bytes(39)), badState},
		"empty limit":         {set("=", bytes(about)), badState},
		"half a limit":        {set("=", bytes(about)+"1000"), badState},
		"no limit at all":     {set("=", ""), badState},
		"limit of words":      {set("=", bytes(about)+"hello"), badState},
		"a pool of no number": {set("#", bytes(35)+"\x7f\xf8"+bytes(sums-37)), badState},
		"an infinite pool":    {set("#", bytes(35)+"\xff\xf0\x00\x00\x00\x00\x00\x00"+bytes(sums-43)), badState},
		"infinite unrest":     {set("#", bytes(43)+"\x7f\xf0\x00\x00\x00\x00\x00\x00"+bytes(sums-51)), badState},
		"no number added":     {set("h", bytes(49)+"\x7f\xf8"+bytes(record-51)), badState},
		"empty record":        {set("h", ""), badRecord},
		"cut record":          {set("h", bytes(record-1)), badRecord},
		"long record":         {set("h", bytes(record+1)), badRecord},
	}
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		// The fields of a large hash are dumped in any order.
		content := func() string {
			if fields := c.HGetAll(t.Context(), key).Val(); len(fields) > 0 {
				return fmt.Sprint(fields)
			}
			return c.Dump(t.Context(), key).Val()
		}
		for name, story := range stories {
			c.Del(t.Context(), key)
			call := &lease.Call{Key: "k", Request: request("h", 1)}
			if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
				t.Fatal(call.Err)
			}
			story.spoil(t.Context(), c)
			before := content()

			call.Request.Seq = 2
			store.Exchange(t.Context(), []*lease.Call{call})
			if call.Err == nil || !strings.Contains(call.Err.Error(), story.want) {
				t.Errorf("%s: exchange: %v, not %s", name, call.Err, story.want)
			}
			_, err := store.Inspect(t.Context(), "k")
			if err == nil || !strings.Contains(err.Error(), story.want) {
				t.Errorf("%s: inspect: %v, not %s", name, err, story.want)
			}
			if content() != before {
				t.Errorf("%s: has changed", name)
			}
		}
	})
}

// TestVersion: a key in another format is refused by both scripts, which say which it
// is, whatever its lengths are, and is left as it is.
func TestVersion(t *testing.T) {
	const key = "ration:k"
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		for _, version := range []byte{0, lua.Version + 1, 255} {
			c.Del(t.Context(), key)
			call := &lease.Call{Key: "k", Request: request("h", 1)}
			if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
				t.Fatal(call.Err)
			}
			about := c.HGet(t.Context(), key, "=").Val()
			c.HSet(t.Context(), key, "=", string([]byte{version})+about[1:], "#", "of another length")
			before := c.Dump(t.Context(), key).Val()

			want := fmt.Sprintf("RATION state of version %d, not %d", version, lua.Version)
			call.Request.Seq = 2
			store.Exchange(t.Context(), []*lease.Call{call})
			if !errors.Is(call.Err, lease.ErrRefused) || !strings.Contains(call.Err.Error(), want) {
				t.Errorf("exchange: %v, not %s", call.Err, want)
			}
			if _, err := store.Inspect(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("inspect: %v, not %s", err, want)
			}
			if c.Dump(t.Context(), key).Val() != before {
				t.Errorf("version %d: has changed", version)
			}
		}
	})
}

// TestGarbageElsewhere: a bad record of another holder is found when all are
// looked at, before anything is written.
func TestGarbageElsewhere(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	call := &lease.Call{Key: "k", Request: request("h", 1)}
	setClock(t.Context(), c, time.Duration(1e18))
	store.Exchange(t.Context(), []*lease.Call{call})
	c.HSet(t.Context(), "ration:k", "other", "garbage")
	before := c.HGetAll(t.Context(), "ration:k").String()

	setClock(t.Context(), c, time.Duration(1e18)+time.Hour)
	call.Request.Seq++
	store.Exchange(t.Context(), []*lease.Call{call})
	if want := "RATION bad record of holder other"; call.Err == nil || !strings.Contains(call.Err.Error(), want) {
		t.Errorf("%v, not %s", call.Err, want)
	}
	if after := c.HGetAll(t.Context(), "ration:k").String(); after != before {
		t.Errorf("%s\nhas become\n%s", before, after)
	}
}

// TestNoise: values that are as long as they should be are understood, whatever
// they say; no reply, and no error, is a surprise.
func TestNoise(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		for seed := range longform.Of[uint64](100, 300) {
			call := &lease.Call{Key: fmt.Sprint(seed), Request: request("h", 1)}
			store.Exchange(t.Context(), []*lease.Call{call})
			key, field := "ration:"+call.Key, []string{"#", "@", "=", "h"}[seed%4]
			value := randomBytes(seed, map[string]int{
				"#": lua.Sums.Size(), "@": 46 + lua.Rooms.Size(), "=": lua.About.Size(), "h": lua.Record.Size(),
			}[field])
			if field == "=" {
				value = append(value, "5,50"...)
				value[0] = lua.Version
			}
			if err := c.HSet(t.Context(), key, field, value).Err(); err != nil {
				t.Fatal(err)
			}
			call.Request.Seq = 1 << 53 // above that of any record that is not refused
			store.Exchange(t.Context(), []*lease.Call{call})
			if err := call.Err; err != nil && !strings.Contains(err.Error(), "ERR ") && !strings.Contains(err.Error(), "odd reply") {
				t.Errorf("%s of %x: %v", field, value, err)
			}
			if _, err := store.Inspect(t.Context(), call.Key); err != nil {
				t.Errorf("%s of %x: inspect: %v", field, value, err)
			}
		}
	})
}

// TestNoMemory: a server that may not write any more changes nothing, even
// where leases have ended and records could be deleted.
func TestNoMemory(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	call := &lease.Call{Key: "k", Request: request("h", 1)}
	other := &lease.Call{Key: "k", Request: request("other", 1)}
	setClock(t.Context(), c, time.Duration(1e18))
	store.Exchange(t.Context(), []*lease.Call{call, other})
	setClock(t.Context(), c, time.Duration(1e18)+time.Hour)
	before := c.HGetAll(t.Context(), "ration:k").String()

	c.ConfigSet(t.Context(), "maxmemory", "1")
	call.Request.Seq++
	store.Exchange(t.Context(), []*lease.Call{call})
	if call.Err == nil || !strings.Contains(call.Err.Error(), "OOM") {
		t.Errorf("%v", call.Err)
	}
	if after := c.HGetAll(t.Context(), "ration:k").String(); after != before {
		t.Errorf("%s\nhas become\n%s", before, after)
	}
	c.ConfigSet(t.Context(), "maxmemory", "0")
	store.Exchange(t.Context(), []*lease.Call{call})
	if n := c.HLen(t.Context(), "ration:k").Val(); call.Err != nil || n != 4 {
		t.Errorf("%d fields, %v", n, call.Err)
	}
}

// TestInspectReadsOnly: it runs where no writes may.
func TestInspectReadsOnly(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		call := &lease.Call{Key: "k", Request: request("h", 1)}
		remote.New(c).Exchange(t.Context(), []*lease.Call{call})
		reply, err := c.EvalRO(t.Context(), lua.Inspect, []string{"ration:k"}).Slice()
		if err != nil && strings.Contains(err.Error(), "unknown command") {
			t.Skip("this server has no EVAL_RO: it is older than Redis 7")
		}
		if err != nil || len(reply) != 2 {
			t.Errorf("%v, %v", reply, err)
		}
	})
}
