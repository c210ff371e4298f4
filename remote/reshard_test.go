package remote_test

import (
	"cmp"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestReshard: slots move between the nodes of a cluster, with their keys, while
// these are asked for: MOVED and ASK are followed, and each call runs once. (A
// call has one key; TRYAGAIN is an answer to those with several.)
func TestReshard(t *testing.T) {
	cluster := redistest.StartCluster(t, 3, 0)
	store, calls := remote.New(clusterClient(t, cluster, &redis.ClusterOptions{})), keys(15)
	for _, c := range calls {
		c.Request.Limit = lease.Limit{Rate: 0.01, Burst: 1e6}
	}
	var rounds int
	var err error // the first
	done := make(chan struct{})
	var exchanges sync.WaitGroup
	exchanges.Go(func() {
		for moving := true; moving; rounds++ {
			store.Exchange(t.Context(), next(calls))
			for _, c := range calls {
				err = cmp.Or(err, c.Err)
			}
			select {
			case <-done:
				moving = false
			default:
			}
		}
	})
	stop := sync.OnceFunc(func() {
		close(done)
		exchanges.Wait()
	})
	defer stop() // also where a move fails
	for back := range 2 {
		for i := range calls {
			slot := cluster.Slot(fmt.Sprint("ration:key ", i))
			from, to := cluster.Owner(slot)
			if back == 1 {
				from, to = to, from
			}
			cluster.Move(slot, from, to)
		}
	}
	stop()
	if err != nil {
		t.Error(err)
	}
	for _, c := range calls {
		view, err := store.Inspect(t.Context(), c.Key)
		if used := 1e6 - view.Pool; err != nil || used > float64(rounds) ||
			used < float64(rounds)-1 {
			t.Errorf("%q: %v of %d tokens are gone, %v", c.Key, used, rounds, err)
		}
	}
	t.Logf("%d slots moved during %d exchanges", 2*len(calls), rounds*len(calls))
}

// TestClusterReplicas: on a cluster of three masters and three replicas.
func TestClusterReplicas(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 3, "cluster-node-timeout 500",
		"cluster-require-full-coverage no")
	t.Run("reads", func(t *testing.T) { testReplicaReads(t, cluster) })
	t.Run("failover", func(t *testing.T) { testClusterFailover(t, cluster) })
}

// testReplicaReads: options that spread reads over replicas do not bring an
// exchange to one.
func testReplicaReads(t *testing.T, cluster *redistest.Cluster) {
	for name, opt := range map[string]*redis.ClusterOptions{
		"ReadOnly":       {ReadOnly: true},
		"RouteRandomly":  {RouteRandomly: true},
		"RouteByLatency": {RouteByLatency: true},
	} {
		store, calls := remote.New(clusterClient(t, cluster, opt), remote.WithPrefix(name)), keys(50)
		for range 5 {
			mustExchange(t, store, next(calls))
		}
		for _, c := range calls {
			if view, err := store.Inspect(t.Context(), c.Key); err != nil ||
				view.Holders[0].Seq != c.Request.Seq {
				t.Errorf("%s: %q: %+v, %v", name, c.Key, view, err)
			}
		}
	}
}

// testClusterFailover: a master is killed and its replica takes over, which the
// client would not find out for a minute. Keys of other masters are served meanwhile.
func testClusterFailover(t *testing.T, cluster *redistest.Cluster) {
	opt := &redis.ClusterOptions{
		DialTimeout: 500 * time.Millisecond, DialerRetries: 1, ReadTimeout: 250 * time.Millisecond,
	}
	f := newFleet(t, clusterClient(t, cluster, opt), lease.Limit{Rate: 1000, Burst: 500},
		lease.Policy{}.Resolved())
	f.offered = 2000
	f.run(2 * time.Second)
	if f.worst > 0 || f.failed > 0 {
		t.Fatalf("before: %v excess, %d failed: %v", f.worst, f.failed, f.err)
	}
	master, other := cluster.Owner(cluster.Slot(fleetName))
	var elsewhere []*lease.Call
	for _, c := range keys(20) {
		if owner, _ := cluster.Owner(cluster.Slot("ration:" + c.Key)); owner == other {
			elsewhere = append(elsewhere, c)
		}
	}
	master.Kill()
	mustExchange(t, remote.New(clusterClient(t, cluster, &redis.ClusterOptions{})), elsewhere)
	away := f.untilServed()
	if away > 15*time.Second {
		t.Errorf("not found for %v", away)
	}
	f.judge("cluster master killed", away)
}
