package remote_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// The fleet's Stats are in Redis, as each process told them last.
func ExampleStore_Published() {
	server, err := miniredis.Run() // stands in for Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(remote.Options(server.Addr()))
	defer rdb.Close()
	store := remote.New(rdb)

	// A Limiter with Config.Publish does this every few seconds.
	err = store.Publish(context.Background(), "some id", []byte(`{"Name": "host-1"}`),
		15*time.Second)
	fmt.Println(err)
	fleet, err := hybrid.Fleet(context.Background(), store)
	fmt.Println(fleet[0].ID, fleet[0].Name, fleet[0].Stats.Keys, err)
	// Output:
	// <nil>
	// some id host-1 0 <nil>
}

// published is all that is published, by id.
func published(t *testing.T, store *remote.Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := store.Published(t.Context(), func(id string, age time.Duration, text []byte) {
		if age < 0 || age > time.Minute {
			t.Errorf("%s is %v old", id, age)
		}
		all[id] = string(text)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func publish(t *testing.T, store *remote.Store, id, text string, life time.Duration) {
	t.Helper()
	if err := store.Publish(t.Context(), id, []byte(text), life); err != nil {
		t.Fatal(err)
	}
}

// TestPublish: the last text of each id is there for its life, whatever is in it.
func TestPublish(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		if all := published(t, store); len(all) != 0 {
			t.Errorf("at first: %v", all)
		}
		odd := "a line\nand a \x00 byte, 12 34"
		publish(t, store, "a", "first", time.Minute)
		publish(t, store, "a", odd, time.Minute)
		publish(t, store, "b", "", time.Minute)
		publish(t, store, "short", "x", time.Millisecond)
		redistest.Await(t, "the short one ends", func() bool { return len(published(t, store)) == 2 })
		if all := published(t, store); all["a"] != odd || all["b"] != "" {
			t.Errorf("%q", all)
		}
		if ttl := c.TTL(t.Context(), "ration:"+remote.PublishKey).Val(); ttl < 5*time.Minute ||
			ttl > 10*time.Minute {
			t.Errorf("the hash lives for %v", ttl)
		}
	})
}

// TestPublishPrunes: those that have ended are deleted as others come, so that restarts for
// ever take no more than twice the room of those that live.
func TestPublishPrunes(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		for i := range 20 {
			publish(t, store, fmt.Sprint("stays ", i), "x", time.Minute)
		}
		for i := range 400 {
			publish(t, store, fmt.Sprint("goes ", i), "x", time.Millisecond)
			if n := c.HLen(t.Context(), "ration:"+remote.PublishKey).Val(); n > 2*(20+3)+16+1 {
				// Some of them still lived, at a place that is fast.
				redistest.Await(t, "those that have ended are deleted", func() bool {
					publish(t, store, fmt.Sprint("after ", i), "x", time.Millisecond)
					return c.HLen(t.Context(), "ration:"+remote.PublishKey).Val() <= 200
				})
			}
		}
		for i := range 20 {
			if all := published(t, store); all[fmt.Sprint("stays ", i)] != "x" {
				t.Fatalf("%d is not there: %v", i, all)
			}
		}
	})
}

// TestPublishBounds: what is too long, or one too many, is an error that says so.
func TestPublishBounds(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		for _, bad := range []struct {
			id, text string
			life     time.Duration
			want     string
		}{
			{"a", strings.Repeat("x", 4097), time.Minute, "text of 4097 bytes"},
			{"a", "x", 0, "life 0s is not"},
			{"a", "x", time.Hour, "life 1h0m0s is not"},
			{"#", "x", time.Minute, `id "#" is not`},
			{"!", "x", time.Minute, `id "!" is not`},
			{"", "x", time.Minute, `id "" is not`},
		} {
			err := store.Publish(t.Context(), bad.id, []byte(bad.text), bad.life)
			if err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("%v does not say %q", err, bad.want)
			}
		}
		refused := 0
		for i := range 2200 {
			if err := store.Publish(t.Context(), fmt.Sprint(i), []byte("x"), time.Minute); err != nil {
				if refused == 1 {
					c.ConfigResetStat(t.Context())
				}
				if refused++; !strings.Contains(err.Error(), "so many processes") {
					t.Fatal(err)
				}
			}
		}
		if n := len(published(t, store)); refused == 0 || n < 1024 || n > 2*1024+14 {
			t.Errorf("%d are there, %d were refused", n, refused)
		}
		if info := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]; info["cmdstat_hgetall"] != "" {
			// The one just now.
			if looks := strings.Split(info["cmdstat_hgetall"], ","); looks[0] != "calls=1" {
				t.Errorf("%d refused with %s", refused, looks[0])
			}
		}
		publish(t, store, "0", "those that are there go on", time.Minute)
	})
}

// TestPublishAll: several texts are there after one round trip, and none after one that is too
// long.
func TestPublishAll(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		trips := &trips{}
		c.AddHook(trips)
		store := remote.New(c)
		publish(t, store, "a", "the server knows the script", time.Minute)
		before := trips.n.Load()
		err := store.PublishAll(t.Context(), map[string][]byte{"a": []byte("1"), "b": []byte("2"),
			"c": nil}, time.Minute)
		if n := trips.n.Load() - before; err != nil || n != 1 {
			t.Errorf("%d round trips, %v", n, err)
		}
		if all := published(t, store); len(all) != 3 || all["a"] != "1" || all["b"] != "2" {
			t.Errorf("%q", all)
		}
		err = store.PublishAll(t.Context(), map[string][]byte{"d": nil, "e": make([]byte, 4097)},
			time.Minute)
		if all := published(t, store); err == nil || len(all) != 3 {
			t.Errorf("%v: %q", err, all)
		}
		if err := store.PublishAll(t.Context(), nil, time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// trips counts the pipelines that a client sends.
type trips struct{ n atomic.Int64 }

func (*trips) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.n.Add(1)
		return next(ctx, cmds)
	}
}

// TestPublishNoClient: an error, not a panic.
func TestPublishNoClient(t *testing.T) {
	store := remote.New(nil)
	if err := store.Publish(t.Context(), "a", nil, time.Minute); err == nil {
		t.Error("published to nobody")
	}
	if err := store.Published(t.Context(), nil); err == nil {
		t.Error("read from nobody")
	}
}
