package remote_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// eventually waits until what holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// startCluster starts a Redis Cluster of n masters.
func startCluster(t *testing.T, n int) []*redis.Client {
	t.Helper()
	const slots = 16384
	var nodes []*redis.Client
	for i := range n {
		_, bus, _ := net.SplitHostPort(redistest.FreeAddr(t))
		node := redistest.Start(t, "cluster-enabled yes", "cluster-port "+bus).Client()
		nodes = append(nodes, node)
		if err := node.ClusterAddSlotsRange(t.Context(), i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
			t.Fatal(err)
		}
		host, port, _ := net.SplitHostPort(node.Options().Addr)
		if err := nodes[0].Do(t.Context(), "cluster", "meet", host, port, bus).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, node := range nodes {
		eventually(t, "the cluster is up", func() bool {
			info := node.ClusterInfo(t.Context()).Val()
			return strings.Contains(info, "cluster_state:ok") && strings.Contains(info, fmt.Sprint("cluster_known_nodes:", n, "\r"))
		})
	}
	return nodes
}

// migrate begins to move the slot of a name from its node, of three, to another.
func migrate(t *testing.T, nodes []*redis.Client, name string) (slot int, to *redis.Client) {
	t.Helper()
	slot = int(nodes[0].ClusterKeySlot(t.Context(), name).Val())
	from, to := nodes[slot*3/16384], nodes[(slot*3/16384+1)%3]
	if err := to.Do(t.Context(), "cluster", "setslot", slot, "importing", from.ClusterMyID(t.Context()).Val()).Err(); err != nil {
		t.Fatal(err)
	}
	if err := from.Do(t.Context(), "cluster", "setslot", slot, "migrating", to.ClusterMyID(t.Context()).Val()).Err(); err != nil {
		t.Fatal(err)
	}
	return slot, to
}

func clusterClient(t *testing.T, nodes []*redis.Client, dial func(context.Context, string, string) (net.Conn, error)) *redis.ClusterClient {
	opt := &redis.ClusterOptions{Dialer: dial}
	for _, node := range nodes {
		opt.Addrs = append(opt.Addrs, node.Options().Addr)
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
	nodes := startCluster(t, 3)
	c := clusterClient(t, nodes, nil)
	store := remote.New(c)
	calls := keys(100)
	mustExchange(t, store, calls)
	mustExchange(t, store, next(calls))
	for i, node := range nodes {
		if n := scriptCalls(t, node); n < 20 {
			t.Errorf("node %d ran %d scripts of 200", i, n)
		}
	}
	if _, err := store.Inspect(t.Context(), calls[0].Key); err != nil {
		t.Error(err)
	}

	t.Run("moved", func(t *testing.T) {
		// The slot of a new key goes to another node; the client does not know.
		call := keys(101)[100:]
		slot := int(c.ClusterKeySlot(t.Context(), "ration:"+call[0].Key).Val())
		to := nodes[(slot*3/16384+1)%3]
		id := to.ClusterMyID(t.Context()).Val()
		for _, node := range nodes {
			if err := node.Do(t.Context(), "cluster", "setslot", slot, "node", id).Err(); err != nil {
				t.Fatal(err)
			}
		}
		mustExchange(t, store, call)
		if n := to.Exists(t.Context(), "ration:"+call[0].Key).Val(); n != 1 {
			t.Error("the key is not where its slot is")
		}
	})
	t.Run("ask", func(t *testing.T) {
		// A slot is on its way: keys that are not there are asked for elsewhere.
		call := keys(102)[101:]
		slot, to := migrate(t, nodes, "ration:"+call[0].Key)
		mustExchange(t, store, call)
		mustExchange(t, store, next(call))
		if n := len(to.ClusterGetKeysInSlot(t.Context(), slot, 10).Val()); n != 1 {
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
}

// TestSentinel: after a failover the new master, which has the state but has
// never seen the script, goes on.
func TestSentinel(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.Start(t, "replicaof 127.0.0.1 "+master.Port(), "replica-serve-stale-data yes")
	sentinel := redistest.Start(t, "sentinel monitor m 127.0.0.1 "+master.Port()+" 1")
	rdb := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "m", SentinelAddrs: []string{sentinel.Addr}, MaxRetries: -1, DialerRetries: 1,
	})
	t.Cleanup(func() { rdb.Close() })
	store := remote.New(rdb)
	calls := keys(10)
	mustExchange(t, store, calls)

	watch := sentinel.Client()
	eventually(t, "the sentinel knows a replica that has everything", func() bool {
		return strings.Contains(watch.Info(t.Context(), "sentinel").Val(), "slaves=1") &&
			replica.Client().DBSize(t.Context()).Val() == 10
	})
	eventually(t, "the sentinel starts a failover", func() bool {
		return watch.Do(t.Context(), "sentinel", "failover", "m").Err() == nil
	})
	eventually(t, "the replica answers as the master", func() bool {
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
	opt := remote.Options(server.Addr)
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
