package lua_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
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

// TestTwins tells many histories to the Go ledger, to miniredis and to a real
// Redis. All must give the same replies and keep the same state (I5), and the servers the same
// bytes. After each exchange a key lives long enough, and is small (TestTTL, TestSmall).
func TestTwins(t *testing.T) {
	tw := newTwins(t)
	tw.check = func(v lease.View) error {
		key := "ration:" + tw.key()
		if ttl, need := lives(t, tw.real, key, v); ttl < min(need, 100*365*24*time.Hour) {
			return fmt.Errorf("TTL %v is too short: %v are needed", ttl, need)
		}
		if e := tw.real.ObjectEncoding(t.Context(), key).Val(); e != "listpack" && e != "ziplist" {
			return fmt.Errorf("the key is a %q", e)
		}
		return nil
	}
	exchanges := tw.tellAll(t, longform.Of[uint64](16, 40))
	t.Logf("%d exchanges, %d batches of calm keys", exchanges, tw.calm)
	if exchanges < longform.Of(400, 1000) || tw.calm < longform.Of(40, 100) {
		t.Error("too few to mean anything")
	}
}

// twinsOf is TestTwins with limits of which most are of one kind. After at least so many
// exchanges, notable must be true of a ledger of that kind.
func twinsOf(
	t *testing.T, limits func(*history) lease.Limit, kind lease.Kind,
	notable func(lease.View) bool, least int,
) {
	tw := newTwins(t)
	tw.onRedis() // TestTwinsByHand asks miniredis
	tw.limits = limits
	ofKind, noted := 0, 0
	tw.check = func(v lease.View) error {
		if v.Limit.Kind == kind {
			ofKind++
			if notable(v) {
				noted++
			}
		}
		return nil
	}
	exchanges := tw.tellAll(t, longform.Of[uint64](20, 60))
	t.Logf("%d exchanges, %d by a %v, %d of them notable", exchanges, ofKind, kind, noted)
	if noted < longform.Of(least/3, least) || ofKind == exchanges {
		t.Error("too few are notable to mean anything, or all are of one kind")
	}
}

// lent reports whether some of a limit is on lease.
func lent(v lease.View) bool { return v.Bursts > 0 }

func FuzzTwins(f *testing.F) { fuzzTwins(f, newTwins(f)) }

// fuzzTwins tells histories that a fuzzer makes up.
func fuzzTwins(f *testing.F, tw *twins) {
	for seed := range uint64(8) {
		f.Add(randomBytes(seed, 100))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		if _, err := tw.tell(t.Context(), script[:min(len(script), 300)]); err != nil {
			t.Fatal(err)
		}
	})
}

func randomBytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 5))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// TestTwinsByHand has one more, a real Redis whose scripts spell numbers without struct.
func TestTwinsByHand(t *testing.T) {
	const library = "rawget(_G, 'struct')"
	tw := newTwins(t)
	c := redis.NewClient(remote.Options(tw.real.Options().Addr))
	t.Cleanup(func() { c.Close() })
	for _, script := range slices.Concat(scripts, []string{lua.Inspect}) {
		if strings.Count(script, library) != 1 {
			t.Fatalf("a script does not say %s once", library)
		}
		text := strings.NewReplacer(library, "nil", readsTime, readsClock).Replace(script)
		c.AddHook(clockHook{clockScript{text, digest(text), script, digest(script)}})
	}
	const prefix = "by hand:"
	byHand := remote.New(c, remote.WithPrefix(prefix))
	tw.stores = append(tw.stores, twin{"redis by hand", byHand, c, prefix})
	for _, limits := range []func(*history) lease.Limit{
		nil, (*history).quota, (*history).slots, (*history).slidingOrOther,
	} {
		tw.limits = limits
		if n := tw.tellAll(t, longform.Of[uint64](4, 6)); n < longform.Of(60, 100) {
			t.Errorf("%d exchanges are too few to mean anything", n)
		}
	}
	if n := len(c.Keys(t.Context(), prefix+"*").Val()); n < 12 {
		t.Errorf("%d keys by hand are too few to mean anything", n)
	}
}

// twins are the three that must agree, on one clock.
type twins struct {
	ledger  *lease.Ledger
	mini    *miniredis.Miniredis
	real    *redis.Client
	stores  []twin
	told    int                        // histories
	calm    int                        // batches of calm keys
	check   func(lease.View) error     // if set: is asked after each exchange
	limits  func(*history) lease.Limit // what most limits are, nil for buckets
	classed bool                       // whether requests have classes
}

// A twin keeps keys with this prefix.
type twin struct {
	name   string
	store  *remote.Store
	client *redis.Client
	prefix string
}

func newTwins(t testing.TB) *twins {
	tw := &twins{mini: miniredis.RunT(t), real: clockedRedis(t)}
	mini := redis.NewClient(&redis.Options{Addr: tw.mini.Addr()})
	t.Cleanup(func() { mini.Close() })
	const prefix = "ration:"
	tw.stores = []twin{
		{"miniredis", remote.New(mini), mini, prefix}, {"redis", remote.New(tw.real), tw.real, prefix},
	}
	return tw
}

// onRedis leaves miniredis out, but for -long: it is slow.
func (tw *twins) onRedis() {
	if !longform.Set() {
		tw.stores = tw.stores[1:]
	}
}

// tellAll tells a history of each of some seeds, and counts their exchanges.
func (tw *twins) tellAll(t *testing.T, seeds uint64) int {
	t.Helper()
	exchanges := 0
	for seed := range seeds {
		n, err := tw.tell(t.Context(), randomBytes(seed, 600))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		exchanges += n
	}
	return exchanges
}

// tell runs one history, on a fresh key, and counts its exchanges.
func (tw *twins) tell(ctx context.Context, script []byte) (int, error) {
	tw.ledger = new(lease.Ledger)
	tw.told++
	h := newHistory(script, tw.limits, tw.classed)
	h.flush = func() error {
		tw.ledger = new(lease.Ledger)
		for _, s := range tw.stores {
			if err := s.client.Del(ctx, s.prefix+tw.key()).Err(); err != nil {
				return err
			}
		}
		return nil
	}
	h.exchange = func(now time.Duration, q lease.Request) (lease.Reply, error) {
		return tw.exchange(ctx, now, q)
	}
	for !h.over() {
		if err := h.step(); err != nil {
			return h.count, err
		}
	}
	return h.count, nil
}

func (tw *twins) key() string { return fmt.Sprint("history ", tw.told) }

// exchange asks all three and compares what they say and what they know.
func (tw *twins) exchange(ctx context.Context, now time.Duration, q lease.Request) (lease.Reply, error) {
	before := tw.ledger.View()
	tw.mini.SetTime(time.UnixMicro(now.Microseconds()))
	if err := setClock(ctx, tw.real, now); err != nil {
		return lease.Reply{}, err
	}
	want := tw.ledger.Exchange(now, q)
	view := tw.ledger.View()
	if want.Shape == lease.LongBatch {
		tw.calm++
	}
	var fields map[string]string
	for i, s := range tw.stores {
		call := &lease.Call{Key: tw.key(), Request: q}
		s.store.Exchange(ctx, []*lease.Call{call})
		if call.Err != nil {
			return want, fmt.Errorf("%s: %w\nrequest %+v\nbefore %+v", s.name, call.Err, q, before)
		}
		if !reflect.DeepEqual(call.Reply, want) {
			return want, fmt.Errorf("%s replies\n%+v, not\n%+v\nat %v to %+v\nbefore %+v", s.name, call.Reply, want, now, q, before)
		}
		got, err := s.store.Inspect(ctx, tw.key())
		if err != nil {
			return want, fmt.Errorf("%s: %w", s.name, err)
		}
		if !reflect.DeepEqual(got.View, view) {
			return want, fmt.Errorf("%s knows\n%+v, not\n%+v\nat %v after %+v\nbefore %+v", s.name, got.View, view, now, q, before)
		}
		stored := s.client.HGetAll(ctx, s.prefix+tw.key()).Val()
		if i == 0 {
			fields = stored
		} else if !maps.Equal(stored, fields) {
			return want, fmt.Errorf("%s keeps\n%q, not\n%q", s.name, stored, fields)
		}
	}
	if err := counted(view); err != nil {
		return want, err
	}
	if tw.check != nil {
		return want, tw.check(view)
	}
	return want, nil
}

// The script reads the time of its server. To put a real one on a test's clock,
// that one line is changed on its way to the server.
const (
	readsTime  = "redis.call('TIME')"
	readsClock = "redis.call('MGET', 'seconds', 'micros')"
)

func setClock(ctx context.Context, c *redis.Client, now time.Duration) error {
	us := now.Microseconds()
	return c.MSet(ctx, "seconds", us/1e6, "micros", us%1e6).Err()
}

// clockScript is a script with a clock of the test's.
type clockScript struct{ text, digest, original, replaces string }

// scripts are those of all kinds of limit.
var scripts = []string{lua.Exchange, lua.Quota, lua.Slots, lua.Sliding}

// clockedRedis starts a server on which the scripts of all kinds of limit read a test's clock.
func clockedRedis(t testing.TB) *redis.Client {
	c := redistest.Start(t).Client()
	for _, script := range scripts {
		c.AddHook(clockHook{newClockScript(t, script)})
	}
	return c
}

func newClockScript(t testing.TB, script string) clockScript {
	if n := strings.Count(script, readsTime); n != 1 {
		t.Fatalf("a script reads the time in %d places", n)
	}
	text := strings.Replace(script, readsTime, readsClock, 1)
	return clockScript{text, digest(text), script, digest(script)}
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// clockHook sends a clockScript in the place of its original.
type clockHook struct{ clockScript }

func (h clockHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			switch args := cmd.Args(); args[1] {
			case h.original:
				args[1] = h.text
			case h.replaces:
				args[1] = h.digest
			}
		}
		return next(ctx, cmds)
	}
}

func (clockHook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (clockHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

// TestTwinsOfACrowd: where many share a key, they agree on how seldom each comes back.
// (The first has all that is lent, until it comes back.)
func TestTwinsOfACrowd(t *testing.T) {
	longform.None(t)
	tw := newTwins(t)
	tw.onRedis()
	tw.ledger = new(lease.Ledger)
	now := time.Hour
	for seq := range uint64(2) {
		for i := range 110 {
			now += 100 * time.Microsecond
			q := lease.Request{
				Holder: fmt.Sprint("p", i), Seq: seq + 1, Demand: 100,
				Limit: lease.Limit{Rate: 1e5, Burst: 4e9}, Policy: lease.Policy{Batch: 1, MaxHold: 250 * time.Millisecond}.Resolved(),
			}
			if now == time.Hour+100*time.Microsecond {
				q.Take, q.Min = 1e9, 1e9 // the key lives for hours: Redis counts real time
			}
			r, err := tw.exchange(t.Context(), now, q)
			if err != nil {
				t.Fatal(err)
			}
			if want := max(20*time.Millisecond, time.Duration(r.Holders)*200*time.Microsecond); seq > 0 && r.Refresh != want {
				t.Fatalf("%d holders come back after %v, not %v", r.Holders, r.Refresh, want)
			}
		}
	}
}
