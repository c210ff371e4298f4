package remote_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// clusterClient returns a client of a cluster's, with these settings.
func clusterClient(
	t *testing.T, cluster *redistest.Cluster, opt *redis.ClusterOptions,
) *redis.ClusterClient {
	for _, node := range cluster.Nodes() {
		opt.Addrs = append(opt.Addrs, node.Addr)
	}
	c := redis.NewClusterClient(opt)
	t.Cleanup(func() { c.Close() })
	return c
}

func scriptCalls(t *testing.T, c *redis.Client) (n int) {
	line := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_evalsha"]
	fmt.Sscanf(line, "calls=%d", &n)
	return n
}

func TestCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0)
	c := clusterClient(t, cluster, &redis.ClusterOptions{})
	store := remote.New(c)
	calls := keys(100)
	if node := store.Node(calls[0].Key); node != "" {
		t.Errorf("on %s, before anybody can have asked", node)
	}
	mustExchange(t, store, calls)
	mustExchange(t, store, next(calls))
	for i, node := range cluster.Masters {
		if n := scriptCalls(t, node.Client()); n < 20 {
			t.Errorf("node %d ran %d scripts of 200", i, n)
		}
	}
	if _, err := store.Inspect(t.Context(), calls[0].Key); err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		owner, _ := cluster.Owner(cluster.Slot("ration:" + c.Key))
		if node := store.Node(c.Key); node != owner.Addr {
			t.Errorf("%s is said to be on %q, not on %s", c.Key, node, owner.Addr)
		}
	}

	t.Run("moved", func(t *testing.T) {
		// The slot of a new key goes to another node; the client does not know.
		call := keys(101)[100:]
		slot := cluster.Slot("ration:" + call[0].Key)
		from, to := cluster.Owner(slot)
		cluster.Move(slot, from, to)
		mustExchange(t, store, call)
		if n := to.Client().Exists(t.Context(), "ration:"+call[0].Key).Val(); n != 1 {
			t.Error("the key is not where its slot is")
		}
	})
	t.Run("ask", func(t *testing.T) {
		// A slot is on its way: keys that are not there are asked for elsewhere.
		call := keys(102)[101:]
		slot := cluster.Slot("ration:" + call[0].Key)
		from, to := cluster.Owner(slot)
		cluster.Migrate(slot, from, to)
		mustExchange(t, store, call)
		mustExchange(t, store, next(call))
		if n := len(to.Client().ClusterGetKeysInSlot(t.Context(), slot, 10).Val()); n != 1 {
			t.Errorf("%d keys have arrived", n)
		}
	})
}

func TestRing(t *testing.T) {
	a, b := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr, "b": b.Addr}})
	t.Cleanup(func() { ring.Close() })
	store := remote.New(ring)
	calls := keys(100)
	mustExchange(t, store, calls)
	a.Client().ScriptFlush(t.Context()) // one of them forgets
	mustExchange(t, store, next(calls))
	onA, onB := a.Client().DBSize(t.Context()).Val(), b.Client().DBSize(t.Context()).Val()
	if onA+onB != 100 || onA < 20 || onB < 20 {
		t.Errorf("%d and %d keys", onA, onB)
	}
	for _, c := range calls {
		on := b
		if a.Client().Exists(t.Context(), "ration:"+c.Key).Val() == 1 {
			on = a
		}
		if node := store.Node(c.Key); node != on.Addr {
			t.Errorf("%s is said to be on %q, not on %s", c.Key, node, on.Addr)
		}
	}
}

// TestSentinel: after a failover the new master, which has the state but has
// never seen the script, goes on.
func TestSentinel(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	replica := redistest.Start(t, "replicaof 127.0.0.1 "+master.Port(),
		"replica-serve-stale-data yes")
	sentinel := redistest.Start(t, "sentinel monitor m 127.0.0.1 "+master.Port()+" 1")
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel.Addr}, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { rdb.Close() })
	store := remote.New(rdb)
	calls := keys(10)
	mustExchange(t, store, calls)

	watch := sentinel.Client()
	redistest.Await(t, "the sentinel knows a replica that has everything", func() bool {
		return strings.Contains(watch.Info(t.Context(), "sentinel").Val(), "slaves=1") &&
			replica.Client().DBSize(t.Context()).Val() == 10
	})
	redistest.Await(t, "the sentinel starts a failover", func() bool {
		return watch.Do(t.Context(), "sentinel", "failover", "m").Err() == nil
	})
	redistest.Await(t, "the replica answers as the master", func() bool {
		store.Exchange(t.Context(), next(calls))
		return calls[0].Err == nil && scriptCalls(t, replica.Client()) > 0
	})
	view, err := store.Inspect(t.Context(), calls[0].Key)
	if err != nil || view.Holders[0].Seq != calls[0].Request.Seq || view.Pool > 98.5 {
		t.Errorf("%+v, %v", view, err)
	}
}

// TestOneRoundTrip: the server answers nothing before it has all 100 requests.
func TestOneRoundTrip(t *testing.T) {
	server := redistest.Start(t)
	var requests atomic.Int64
	opt := patient(server.Addr)
	w := new(wire)
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := w.dial(ctx, network, addr)
		return &patientConn{Conn: c, wire: w, requests: &requests}, err
	}
	store := remote.New(client(t, opt))
	calls := keys(100)
	mustExchange(t, store, calls)
	w.scripts.Store(0)
	requests.Store(100)
	mustExchange(t, store, next(calls))
}

// patientConn lets no reply through before so many scripts have been sent.
type patientConn struct {
	net.Conn
	wire     *wire
	requests *atomic.Int64
}

func (c *patientConn) Read(p []byte) (int, error) {
	if c.wire.scripts.Load() < c.requests.Load() {
		return 0, io.ErrNoProgress // somebody waits for a reply too early
	}
	return c.Conn.Read(p)
}
