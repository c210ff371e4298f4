package remote_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// failoverFleet is one under twice its limit, behind Sentinels.
func failoverFleet(t *testing.T, s *redistest.Sentinels) *fleet {
	single := remote.Options("")
	c := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.SentinelMaster, SentinelAddrs: s.Addrs(),
		DialTimeout: single.DialTimeout, ReadTimeout: single.ReadTimeout,
		WriteTimeout:  single.WriteTimeout,
		DialerRetries: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { c.Close() })
	f := newFleet(t, c, lease.Limit{Rate: 1000, Burst: 500}, lease.Policy{}.Resolved())
	f.offered = 2000
	f.run(2 * time.Second)
	// Some fail where the machine stands still for longer than ReadTimeout.
	if f.worst > 0 || f.failed == f.asks {
		t.Fatalf("before: %v excess, %d failed: %v", f.worst, f.failed, f.err)
	}
	return f
}

// untilServed goes on in small steps, at the pace of real time, until exchanges
// are answered again, and returns how long that took.
func (f *fleet) untilServed() time.Duration {
	f.t.Helper()
	start := time.Now()
	defer func() {
		if f.t.Failed() {
			f.t.Log(f.err)
		}
	}()
	redistest.Await(f.t, "exchanges are answered again", func() bool {
		asks, failed := f.asks, f.failed
		f.run(20 * time.Millisecond)
		if f.asks > asks && f.failed == failed {
			return true
		}
		time.Sleep(15 * time.Millisecond)
		return false
	})
	return time.Since(start)
}

// mostLost is what I6 allows for one loss of a busy key's state.
func (f *fleet) mostLost() float64 {
	return float64(f.limit.Burst) + f.limit.Rate*2.25*f.policy.MaxRefresh.Seconds()
}

// judge lets the fleet go on, and holds it to I6 and to its limit.
func (f *fleet) judge(what string, away time.Duration) {
	f.t.Helper()
	f.run(5 * time.Second)
	used := f.run(5 * time.Second)
	f.t.Logf("%s: answered again after %v, %d of %d exchanges failed, worst excess %.0f of at "+
		"most %.0f tokens",
		what, away.Round(time.Millisecond), f.failed, f.asks, f.worst, f.mostLost())
	if f.worst > f.mostLost() {
		f.t.Errorf("%v excess, more than %v", f.worst, f.mostLost())
	}
	if used < 0.98*5*f.limit.Rate {
		f.t.Errorf("in the end %v admitted in 5 s", used)
	}
}

// TestKilledMaster: Sentinels make the replica the master by themselves.
func TestKilledMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	f := failoverFleet(t, s)
	s.Master.Kill()
	away := f.untilServed()
	if s.Replica.Role() != "master" {
		t.Errorf("answered by a %s", s.Replica.Role())
	}
	f.judge("master killed", away)
}

// TestFrozenMaster: a master that stands still is replaced, so fast that all
// leases are in force. When it goes on it takes itself for the master, for some
// ten seconds; nobody who asks the Sentinels asks it.
func TestFrozenMaster(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	f := failoverFleet(t, s)
	s.Master.Freeze()
	s.AwaitMaster(s.Replica)
	away := f.untilServed()
	s.Master.Thaw()
	if s.Master.Role() != "master" {
		t.Error("the old master knows already")
	}
	old := s.Master.Client()
	before := scriptCalls(t, old)
	f.run(2 * time.Second)
	if n := scriptCalls(t, old) - before; n > 0 {
		t.Errorf("the old master ran %d exchanges", n)
	}
	f.judge("master frozen", away)
}

// TestForgottenWrites: the replica that becomes the master has not heard of the
// last second.
func TestForgottenWrites(t *testing.T) {
	t.Parallel()
	s := redistest.StartSentinels(t)
	f := failoverFleet(t, s)
	s.Replica.Client().Do(t.Context(), "replicaof", "127.0.0.1", "1") // where nobody is
	f.run(time.Second)
	s.Master.Kill()
	s.AwaitMaster(s.Replica)
	f.judge("master killed before it had replicated a second", f.untilServed())
}

// TestThawedMaster: one that goes on before it is replaced has lost nothing.
func TestThawedMaster(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	f := newFleet(t, client(t, remote.Options(server.Addr)), lease.Limit{Rate: 1000, Burst: 500},
		lease.Policy{}.Resolved())
	f.offered = 2000
	f.run(2 * time.Second)
	server.Freeze()
	f.run(200 * time.Millisecond)
	server.Thaw()
	away := f.untilServed()
	if f.failed == 0 {
		t.Error("it did not stand still")
	}
	f.judge("server frozen", away)
	if f.worst > 0 {
		t.Errorf("%v excess though nothing was lost", f.worst)
	}
}

// TestReplicaRefuses: a server that has become a replica says so, changes
// nothing, and answers again when it is the master again.
func TestReplicaRefuses(t *testing.T) {
	server, other := redistest.Start(t), redistest.Start(t)
	store, calls := remote.New(client(t, patient(server.Addr))), keys(10)
	admin := server.Client()
	mustExchange(t, store, calls)

	admin.Do(t.Context(), "replicaof", "127.0.0.1", other.Port())
	store.Exchange(t.Context(), next(calls))
	for _, c := range calls {
		if c.Err == nil || !strings.Contains(c.Err.Error(), "READONLY") {
			t.Fatalf("a replica replies %+v, %v", c.Reply, c.Err)
		}
	}
	admin.Do(t.Context(), "replicaof", "no", "one")
	redistest.Await(t, "the master answers again", func() bool {
		store.Exchange(t.Context(), next(calls))
		return calls[0].Err == nil
	})
}

// TestNoReplicas: a master that is told to write only with replicas, and has
// lost them, refuses, and changes nothing.
func TestNoReplicas(t *testing.T) {
	server := redistest.Start(t)
	store, calls := remote.New(client(t, patient(server.Addr))), keys(3)
	mustExchange(t, store, calls)
	admin := server.Client()
	before := admin.HGetAll(t.Context(), "ration:"+calls[0].Key).String()
	admin.ConfigSet(t.Context(), "min-replicas-to-write", "1")
	store.Exchange(t.Context(), next(calls))
	for _, c := range calls {
		if c.Err == nil || !strings.Contains(c.Err.Error(), "NOREPLICAS") {
			t.Errorf("%+v, %v", c.Reply, c.Err)
		}
	}
	if after := admin.HGetAll(t.Context(), "ration:"+calls[0].Key).String(); after != before {
		t.Errorf("%s\nhas become\n%s", before, after)
	}
	admin.ConfigSet(t.Context(), "min-replicas-to-write", "0")
	mustExchange(t, store, next(calls))
}

// TestScriptFlushAnyTime: a server that forgets its scripts over and over, also
// between a NOSCRIPT and its answer and within a pipeline, runs each call once.
func TestScriptFlushAnyTime(t *testing.T) {
	server := redistest.Start(t)
	store, calls := remote.New(client(t, patient(server.Addr))), keys(20)
	done := make(chan int, 1)
	stop := make(chan struct{})
	admin := server.Client()
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				done <- n
				return
			default:
				admin.ScriptFlush(t.Context())
			}
		}
	}()
	const rounds = 50
	for range rounds {
		mustExchange(t, store, next(calls))
	}
	close(stop)
	flushes, sent := <-done, scriptCalls(t, admin)+evals(t, admin)
	for _, c := range calls {
		view, err := store.Inspect(t.Context(), c.Key)
		if err != nil || view.Pool < 100-rounds || view.Pool > 100-rounds+1 {
			t.Errorf("pool %v after %d of 100 tokens, %v", view.Pool, rounds, err)
		}
	}
	again := sent - rounds*len(calls)
	t.Logf("%d flushes in %d exchanges, %d sent again", flushes, rounds*len(calls), again)
	if again < rounds {
		t.Errorf("only %d calls met a server that had forgotten", again)
	}
}

func evals(t *testing.T, c *redis.Client) (n int) {
	line := c.InfoMap(t.Context(), "commandstats").Val()["Commandstats"]["cmdstat_eval"]
	fmt.Sscanf(line, "calls=%d", &n)
	return n
}
