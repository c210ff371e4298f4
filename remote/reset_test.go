package remote_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestReset: the bucket of a key is full after it, and no other one changes.
func TestReset(t *testing.T) {
	ctx := context.Background()
	store := remote.New(redistest.Start(t).Client(), remote.WithHashedKeys([]byte("secret")))
	limit := lease.Limit{Rate: 0.001, Burst: 10}
	seq := uint64(0)
	take := func(key string) float64 {
		t.Helper()
		seq++
		c := &lease.Call{Key: key, Request: lease.Request{
			Holder: "h", Seq: seq, Take: 10, Limit: limit, Policy: lease.Policy{Mode: lease.PerRequest},
		}}
		if store.Exchange(ctx, []*lease.Call{c}); c.Err != nil {
			t.Fatal(c.Err)
		}
		return c.Reply.Taken
	}
	if a, b, again := take("a"), take("b"), take("a"); a != 10 || b != 10 || again != 0 {
		t.Fatalf("took %v, %v, %v", a, b, again)
	}
	for _, key := range []string{"a", "never used"} {
		if err := store.Reset(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := take("a"), take("b"); a != 10 || b != 0 {
		t.Errorf("after a reset: %v of a, %v of b", a, b)
	}
	if err := remote.New(nil).Reset(ctx, "a"); err == nil {
		t.Error("reset without a client")
	}
}

// drained are keys whose buckets are empty.
func drained(t *testing.T, store *remote.Store, n int) []*lease.Call {
	t.Helper()
	calls := keys(n)
	for _, c := range calls {
		c.Request.Limit = lease.Limit{Rate: 0.001, Burst: 10}
		c.Request.Take, c.Request.Min = 10, 10
	}
	take(t, store, calls, 10)
	take(t, store, calls, 0)
	return calls
}

// take fails the test unless each call is granted so much.
func take(t *testing.T, store *remote.Store, calls []*lease.Call, want float64) {
	t.Helper()
	store.Exchange(t.Context(), calls)
	for _, c := range calls {
		if c.Err != nil || c.Reply.Taken != want {
			t.Fatalf("%s: took %v, not %v: %v", c.Key, c.Reply.Taken, want, c.Err)
		}
	}
	next(calls)
}

func resetAll(t *testing.T, store *remote.Store, calls []*lease.Call) {
	t.Helper()
	for _, c := range calls {
		if err := store.Reset(t.Context(), c.Key); err != nil {
			t.Fatal(err)
		}
	}
}

// TestResetCluster: a Reset finds its node, also that of a slot that has moved or that moves
// just now, and no other key changes.
func TestResetCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	store := remote.New(clusterClient(t, cluster, &redis.ClusterOptions{}))
	calls := drained(t, store, 62)
	slot := func(c *lease.Call) int { return cluster.Slot("ration:" + c.Key) }
	moved, moves, reset, kept := calls[0], calls[1], calls[:32], calls[32:]
	from, to := cluster.Owner(slot(moved))
	cluster.Move(slot(moved), from, to) // of which the client does not know
	from, to = cluster.Owner(slot(moves))
	cluster.Migrate(slot(moves), from, to)

	resetAll(t, store, reset)
	take(t, store, reset, 10) // that whose slot moves is asked for elsewhere now
	take(t, store, kept, 0)
	resetAll(t, store, calls[1:2])
	take(t, store, calls[:1], 0)
	take(t, store, calls[1:2], 10)
}

// TestResetSentinel: a replica that becomes the master has heard of the Reset; one that has
// not brings the state back that was reset. No bucket has more than one Burst.
func TestResetSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelMaster, SentinelAddrs: s.Addrs(),
		MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { c.Close() })
	store := remote.New(c)
	calls := drained(t, store, 20)
	replica := s.Replica.Client()
	size := func(want int64) func() bool {
		return func() bool { return replica.DBSize(t.Context()).Val() == want }
	}
	redistest.Await(t, "the replica has all keys", size(20))
	heard, unheard := calls[:10], calls[10:]
	resetAll(t, store, heard)
	redistest.Await(t, "the replica has heard of the resets", size(10))
	replica.Do(t.Context(), "replicaof", "127.0.0.1", "1") // where nobody is
	resetAll(t, store, unheard)

	s.Master.Kill()
	s.AwaitMaster(s.Replica)
	other := keys(21)[20:]
	redistest.Await(t, "the new master answers", func() bool {
		store.Exchange(t.Context(), next(other))
		return other[0].Err == nil
	})
	take(t, store, heard, 10)
	take(t, store, unheard, 0)
	resetAll(t, store, unheard)
	take(t, store, heard, 0)
	take(t, store, unheard, 10)
}
