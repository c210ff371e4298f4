package remote_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

func ExampleWithHashedKeys() {
	server, err := miniredis.Run() // stands in for Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(remote.Options(server.Addr()))
	defer rdb.Close()
	secret := []byte("from your vault: 16 random bytes or more") // the same in all processes
	store := remote.New(rdb, remote.WithHashedKeys(secret))

	store.Exchange(context.Background(), []*lease.Call{{Key: "alice@example.com", Request: lease.Request{
		Holder: "process-1", Seq: 1, Take: 3, Min: 1,
		Limit: lease.Per(10, time.Second), Policy: lease.Policy{}.Resolved(),
	}}})
	fmt.Println(server.Keys())

	view, err := store.Inspect(context.Background(), "alice@example.com")
	fmt.Println(view.Pool, err)
	// Output:
	// [ration:f5IK7jTgqlVuGLkARBVYDQ]
	// 7 <nil>
}

// TestHashedKeys: no part of a key reaches Redis, names are short and plain
// however odd the keys are, and only those with the same secret share a bucket.
func TestHashedKeys(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		const most = 1 << 16
		secret := []byte("secret")
		store := remote.New(c, remote.WithHashedKeys(secret))
		secret[0] = 'x' // is the caller's again
		odd := []string{
			"", "alice", "{tag}a", "{tag}b", "new\nline", "\x00\xff", strings.Repeat("a", most),
			strings.Repeat("a", most-1) + "b",
		}
		var calls []*lease.Call
		for _, key := range odd {
			calls = append(calls, &lease.Call{Key: key, Request: request("h", 1)})
		}
		mustExchange(t, store, calls)
		names := c.Keys(t.Context(), "*").Val()
		if len(names) != len(odd) {
			t.Errorf("%d names of %d keys", len(names), len(odd))
		}
		for _, name := range names {
			if !regexp.MustCompile(`^ration:[0-9A-Za-z_-]{22}$`).MatchString(name) {
				t.Errorf("a name is %q", name)
			}
		}
		again := remote.New(c, remote.WithHashedKeys([]byte("secret")),
			remote.WithPrefix("ration:"))
		others := remote.New(c, remote.WithHashedKeys([]byte("another")))
		for _, key := range odd {
			if view, err := again.Inspect(t.Context(), key); err != nil || view.Pool != 99 {
				t.Errorf("the same secret: %.20q: %+v, %v", key, view, err)
			}
			if view, err := others.Inspect(t.Context(), key); err != nil || view.At != 0 {
				t.Errorf("another secret: %.20q: %+v, %v", key, view, err)
			}
		}
	})
}
