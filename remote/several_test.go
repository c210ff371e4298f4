package remote_test

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// limitsOfSeveral are such that nothing flows back while a test runs.
var limitsOfSeveral = []hybrid.Limit{
	hybrid.Per(900, 365*24*time.Hour), hybrid.Quota(700, 3650*hybrid.Day),
	hybrid.Per(800, 365*24*time.Hour),
}

// several opens a Limiter on a client of its own, as another process would have it. Key i has
// limit i.
func several(t *testing.T, keys []string, client remote.Client) *hybrid.Limiter {
	t.Helper()
	l, err := hybrid.New(remote.New(client), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			for i, k := range keys {
				if k == key {
					return limitsOfSeveral[i]
				}
			}
			return hybrid.Blocked
		},
		Outage: hybrid.Deny, Timeout: time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// takers ask for a token of all keys, four callers of each process, and count what was allowed and
// what was not. They end when this many were allowed.
type takers struct {
	allowed, not, most atomic.Int64
	callers            sync.WaitGroup
}

func takeAll(t *testing.T, keys []string, processes []*hybrid.Limiter, most int64) *takers {
	s := new(takers)
	s.most.Store(most)
	asks := make([]hybrid.Ask, len(keys))
	for i, key := range keys {
		asks[i] = hybrid.Ask{Key: key, N: 1}
	}
	for _, l := range processes {
		for range 4 {
			s.callers.Go(func() {
				for s.allowed.Load() < s.most.Load() {
					time.Sleep(2 * time.Millisecond)
					d, err := l.TakeAll(t.Context(), asks...)
					switch {
					case t.Context().Err() != nil: // the test has failed
						return
					case err != nil && !errors.Is(err, hybrid.ErrUnavailable):
						t.Error(err)
					case d.Allowed:
						s.allowed.Add(1)
					default:
						s.not.Add(1)
					}
				}
			})
		}
	}
	return s
}

// end returns when no request is under way.
func (s *takers) end() {
	s.most.Store(0)
	s.callers.Wait()
}

// TestTakeAllOnCluster: keys on three nodes of a Redis Cluster, without hash tags, are taken
// all or none. One node is killed in the middle: the others have lost nothing by requests that
// could not have its key, but for what was under way.
func TestTakeAllOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, 0, "cluster-require-full-coverage no")
	keys := make([]string, 3) // one on each node
	for i := 0; keys[0] == "" || keys[1] == "" || keys[2] == ""; i++ {
		key := fmt.Sprint("key:", i)
		keys[cluster.Slot("ration:"+key)*3/16384] = key
	}
	connect := func() *hybrid.Limiter {
		o := remote.Options("") // with go-redis' own a dead node stops the others for seconds
		return several(t, keys, clusterClient(t, cluster, &redis.ClusterOptions{
			DialTimeout: o.DialTimeout, DialerRetries: o.DialerRetries,
			MaxRetries: o.MaxRetries, MaxRedirects: 1,
		}))
	}
	processes := []*hybrid.Limiter{connect(), connect()}
	callers := takeAll(t, keys, processes, math.MaxInt64)
	redistest.Await(t, "some are allowed", func() bool { return callers.allowed.Load() > 150 })
	cluster.Masters[1].Kill()
	before := callers.not.Load()
	redistest.Await(t, "its leases have run out, and others are not allowed",
		func() bool { return callers.not.Load() > before+300 })
	at := callers.allowed.Load()
	redistest.Await(t, "the same", func() bool { return callers.not.Load() > before+600 })
	callers.end()
	if now := callers.allowed.Load(); now != at || now > limitsOfSeveral[1].Burst {
		t.Errorf("%d were allowed while a node was away", now-at)
	}
	for _, l := range processes {
		l.Close(t.Context()) // the lease of one key cannot be handed back
	}
	last := connect()
	for _, i := range []int{0, 2} {
		d, err := last.Peek(t.Context(), keys[i])
		if err != nil {
			t.Fatal(err)
		}
		left := limitsOfSeveral[i].Burst - callers.allowed.Load()
		if d.Remaining > left || d.Remaining < left-8 { // a request of each caller was under way
			t.Errorf("%v: %d are left, and %d not taken", d.Limit, d.Remaining, left)
		}
	}
	last.Close(t.Context())
}

// TestTakeAllThroughFailover: the master of all keys is killed while they are taken, and its
// replica becomes the master. All that is allowed then is taken of all limits. Requests that the
// replica had not heard of may be admitted once more (I6), and nothing else.
func TestTakeAllThroughFailover(t *testing.T) {
	t.Parallel()
	sentinels := redistest.StartSentinels(t)
	keys := []string{"user:42", "everybody", "ip:192.0.2.7"}
	connect := func() *hybrid.Limiter {
		c := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.SentinelMaster, SentinelAddrs: sentinels.Addrs(),
		})
		t.Cleanup(func() { c.Close() })
		return several(t, keys, c)
	}
	processes := []*hybrid.Limiter{connect(), connect()}
	// However slow the machine is, much is left for the time after the failover.
	const first, second = 200, 50
	before := takeAll(t, keys, processes, first)
	redistest.Await(t, "some are allowed", func() bool { return before.allowed.Load() > first/2 })
	sentinels.Master.Kill()
	sentinels.AwaitMaster(sentinels.Replica)
	redistest.Await(t, "so are the others", func() bool { return before.allowed.Load() >= first })
	before.end()
	after := takeAll(t, keys, processes, second)
	redistest.Await(t, "and more", func() bool { return after.allowed.Load() >= second })
	after.end()
	allowed := before.allowed.Load() + after.allowed.Load()
	for _, l := range processes {
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	last := connect()
	defer last.Close(t.Context())
	for i, key := range keys {
		d, err := last.Peek(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		gone := limitsOfSeveral[i].Burst - d.Remaining
		t.Logf("%v: %d are left, %d were allowed", d.Limit, d.Remaining, allowed)
		if now := after.allowed.Load(); gone < now { // the new master knows of these
			t.Errorf("%v: %d are gone, %d were allowed since the failover", d.Limit, gone, now)
		}
		// A lease that was out is at most half of what a quota had left, and does not come back.
		if gone > allowed+limitsOfSeveral[i].Burst/2 {
			t.Errorf("%v: %d are gone, %d were allowed", d.Limit, gone, allowed)
		}
	}
}
