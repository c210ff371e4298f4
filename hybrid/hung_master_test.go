package hybrid_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// hungCluster is three servers that a ClusterClient takes for masters.
func hungCluster(t *testing.T) (map[string]*stoppable, *redis.ClusterClient) {
	masters := map[string]*stoppable{}
	var slots []redis.ClusterSlot
	for i, addr := range []string{"a:1", "b:1", "c:1"} {
		masters[addr] = newStoppable(t)
		slots = append(slots, redis.ClusterSlot{
			Start: i * 16384 / 3, End: (i+1)*16384/3 - 1, Nodes: []redis.ClusterNode{{Addr: addr}},
		})
	}
	single := remote.Options("")
	c := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return masters[addr].dial(ctx, network, addr)
		},
		DialTimeout: single.DialTimeout, DialerRetries: single.DialerRetries,
		ReadTimeout: single.ReadTimeout, WriteTimeout: single.WriteTimeout,
		ContextTimeoutEnabled: single.ContextTimeoutEnabled, MaxRetries: single.MaxRetries,
		PoolSize: single.PoolSize, PoolTimeout: single.PoolTimeout,
		DisableIdentity: true, MaintNotificationsConfig: single.MaintNotificationsConfig,
	})
	t.Cleanup(func() { c.Close() })
	return masters, c
}

// TestHungMaster: one of three masters stands still for 6 s. Keys of the others are served as
// if nothing had happened. Keys of the hung master go on by their leases, and the outage policy.
func TestHungMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters, c := hungCluster(t)
		store := remote.New(c)
		limit := hybrid.PerSecond(100)
		l := newLimiter(t, store, hybrid.Config{Limit: limit})
		type outcome struct{ asked, admitted, failed int }
		var healthy, hung outcome
		var names []string
		for i := range longform.Of(30, 60) {
			names = append(names, fmt.Sprint("key:", i))
		}
		play := func(d time.Duration, tell bool) {
			answers := make(chan func(), 1<<16)
			var asking sync.WaitGroup
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(12500 * time.Microsecond) {
				for _, key := range names {
					asking.Go(func() {
						decision, err := l.Take(ctx, key, 1)
						answers <- func() {
							o := &healthy
							if store.Node(key) == "b:1" {
								o = &hung
							}
							o.asked++
							if err != nil {
								o.failed++
							} else if decision.Allowed {
								o.admitted++
							}
						}
					})
				}
			}
			time.Sleep(time.Second)
			asking.Wait()
			close(answers)
			for count := range answers {
				if tell {
					count()
				}
			}
		}
		play(3*time.Second, false)
		masters["b:1"].stop()
		play(6*time.Second, true)
		masters["b:1"].goOn()
		t.Logf("healthy %+v, hung %+v", healthy, hung)
		if healthy.admitted < healthy.asked {
			t.Errorf("of healthy masters' keys %d of %d admitted, %d failed",
				healthy.admitted, healthy.asked, healthy.failed)
		}
		if part := float64(hung.admitted) / float64(hung.asked); part < 0.8 {
			t.Errorf("of the hung master's keys %.3f admitted: %+v", part, hung)
		}
	})
}
