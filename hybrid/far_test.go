package hybrid_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A region is what the requests of a process meet whose server is far away.
type region struct {
	server *stoppable
	l      *hybrid.Limiter
}

// newRegion starts a server so far away, and a Limiter.
func newRegion(
	t *testing.T, distance time.Duration, opt *redis.Options, c hybrid.Config,
) *region {
	server := newStoppable(t)
	server.distance.Store(int64(distance))
	opt.Dialer = server.dial
	client := redis.NewClient(opt)
	t.Cleanup(func() { client.Close() })
	l := newLimiter(t, remote.New(client), c)
	t.Cleanup(func() { l.Close(ctx) })
	return &region{server, l}
}

// tally is what became of requests.
type tally struct{ hot, cold, unknown, policy atomic.Int64 }

func (r *region) run(d time.Duration) *tally {
	var n tally
	var wg sync.WaitGroup
	take := func(key string, count *atomic.Int64) {
		switch d, err := r.l.Take(ctx, key, 1); {
		case errors.Is(err, hybrid.ErrUnavailable):
			n.unknown.Add(1)
		case d.Source == hybrid.OutagePolicy:
			n.policy.Add(1)
		case d.Allowed:
			count.Add(1)
		}
	}
	for end, i := time.Now().Add(d), 0; time.Now().Before(end); i++ {
		wg.Go(func() { take("hot", &n.hot) })
		if i%10 == 0 {
			key := fmt.Sprint("cold", time.Now().UnixMilli()/100)
			wg.Go(func() { take(key, &n.cold) })
		}
		time.Sleep(2 * time.Millisecond)
	}
	wg.Wait()
	return &n
}

// lost is how many of all requests of run the ledger did not admit.
func (n *tally) lost(d time.Duration) int64 {
	all := int64(d/(2*time.Millisecond)) / 10 * 11
	return all - n.hot.Load() - n.cold.Load()
}

// TestFarStart: a process that starts far from the server of a fleet is served at once if it opens
// all connections by Pings, side by side, before its first request. Without that, requests wait in
// vain for the three round trips that make a connection; after a single Ping, in one play of ten,
// those that happen to need a second one.
func TestFarStart(t *testing.T) {
	for _, far := range []struct{ away, timeout time.Duration }{{90, 250}, {120, 250}, {160, 450}} {
		start := func(ping bool) (lost int64) {
			synctest.Test(t, func(t *testing.T) {
				server := newStoppable(t)
				server.inUse(t)
				server.distance.Store(int64(far.away * time.Millisecond))
				opt := remote.Options("127.0.0.1:6379")
				opt.Dialer = server.dial
				client := redis.NewClient(opt)
				defer client.Close()
				l := newLimiter(t, remote.New(client), hybrid.Config{
					Limit: hybrid.PerSecond(1000), Timeout: far.timeout * time.Millisecond,
				})
				defer l.Close(ctx)
				if ping {
					// As many as have a turn beside the client's own two: who waits for one uses a
					// timer of go-redis' that another bubble may have made.
					var wg sync.WaitGroup
					for range opt.PoolSize - opt.MinIdleConns {
						wg.Go(func() {
							if err := client.Ping(ctx).Err(); err != nil {
								t.Error(err)
							}
						})
					}
					wg.Wait()
				}
				r := region{server, l}
				lost = r.run(time.Second).lost(time.Second)
			})
			return lost
		}
		cold, lost := start(false), start(true)
		t.Logf("%d ms away, of 550 requests: %d lost, %d after Pings", far.away, cold, lost)
		if cold == 0 {
			t.Errorf("%d ms away none is lost without Pings", far.away)
		}
		if lost > 0 {
			t.Errorf("%d ms away %d of 550 requests are lost after Pings", far.away, lost)
		}
	}
}

// inUse has the server see the scripts, from a process nearby.
func (s *stoppable) inUse(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", Dialer: s.dial})
	defer client.Close()
	l := newLimiter(t, remote.New(client), hybrid.Config{Limit: hybrid.PerSecond(1)})
	defer l.Close(ctx)
	if _, err := l.Take(ctx, "known", 1); err != nil {
		t.Fatal(err)
	}
}

// TestFarServer: a client with remote.Options connects to a server that is far away, and is
// served as by a server nearby. When the server moves away by 200 ms, the client loses as little as
// a client with the options of go-redis.
func TestFarServer(t *testing.T) {
	long(t)
	for _, distance := range []time.Duration{220, 120, 30}[:longform.Of(1, 3)] {
		t.Run(fmt.Sprint(int64(distance)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRegion(t, distance*time.Millisecond, remote.Options("127.0.0.1:6379"),
					hybrid.Config{Limit: hybrid.PerSecond(1000)})
				r.run(3 * time.Second) // it connects
				if lost := r.run(10 * time.Second).lost(10 * time.Second); lost > 0 {
					t.Errorf("lost %d of 5500: %+v", lost, r.l.Stats())
				}
			})
		})
	}
	// lost is how many of 5500 requests a client loses when its server moves: the middle one of
	// five runs. In one run of 270 on a busy machine three exchanges of a key fail in a row, and
	// the outage policy decides for half a second.
	lost := func(options func() *redis.Options) int64 {
		var runs []int64
		for range 5 {
			synctest.Test(t, func(t *testing.T) {
				r := newRegion(t, 30*time.Millisecond, options(),
					hybrid.Config{Limit: hybrid.PerSecond(1000)})
				r.run(3 * time.Second)
				r.server.distance.Add(int64(200 * time.Millisecond))
				runs = append(runs, r.run(10*time.Second).lost(10*time.Second))
			})
		}
		slices.Sort(runs)
		return runs[len(runs)/2]
	}
	const addr = "127.0.0.1:6379"
	ours := lost(func() *redis.Options { return remote.Options(addr) })
	theirs := lost(func() *redis.Options { return &redis.Options{Addr: addr} })
	t.Logf("200 ms farther away: lost %d of 5500, with go-redis' own options %d", ours, theirs)
	// Both lose 5 to 40: the lost requests waited for a new connection, and chance decides which
	// requests do. A client that has to wait for the next probe loses hundreds.
	if ours > theirs+100 {
		t.Errorf("lost %d of 5500, and with go-redis' own options %d", ours, theirs)
	}
}

// TestLateAnswers: while each round trip takes longer than the timeout, no request has a verdict.
// As soon as round trips are shorter, requests have verdicts again: no connection, probe or
// back-off keeps a process waiting, however long the answers have been late.
func TestLateAnswers(t *testing.T) {
	const far, late = 220 * time.Millisecond, 900 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		r := newRegion(t, far, remote.Options("127.0.0.1:6379"),
			hybrid.Config{Limit: hybrid.PerSecond(1000), Outage: hybrid.Deny})
		serves := func() bool {
			d, err := r.l.Take(ctx, "k", 1)
			return err == nil && d.Source != hybrid.OutagePolicy
		}
		first := func() time.Duration {
			start := time.Now()
			for !serves() {
				time.Sleep(5 * time.Millisecond)
			}
			return time.Since(start)
		}
		first()
		random := rand.New(rand.NewPCG(26, 0))
		for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
			r.server.distance.Store(int64(late) - random.Int64N(int64(far)))
			serves()
			time.Sleep(5 * time.Millisecond)
		}
		if serves() {
			t.Error("answers were not late")
		}
		r.server.distance.Store(int64(far))
		// Half of all runs take 1.2 s. A round trip takes nearly all of the timeout, so a probe
		// which waits for a connection comes to nothing, and a later one has it. Four of them in
		// turn, in one run of 400, take 2.5 s, and each more 0.75.
		if d := first(); d > 3500*time.Millisecond {
			t.Errorf("the first verdict after %v", d)
		}
	})
}

// TestOneRoundTrip: calls wait for what docs/which-limit.md says. A request for one key or several,
// without a lease, waits for a single round trip. Exchanges of several keys may leave side by side.
func TestOneRoundTrip(t *testing.T) {
	const trip = 200 * time.Millisecond
	asks := []hybrid.Ask{{Key: "a", N: 1}, {Key: "b", N: 2}, {Key: "c", N: 3}}
	for name, verb := range map[string]func(l *hybrid.Limiter) error{
		"Allow":    func(l *hybrid.Limiter) error { return admittedOr(l.Allow("k")) },
		"AllowN":   func(l *hybrid.Limiter) error { return admittedOr(l.AllowN("k", 5)) },
		"Take":     func(l *hybrid.Limiter) error { _, err := l.Take(ctx, "k", 1); return err },
		"Wait":     func(l *hybrid.Limiter) error { return l.Wait(ctx, "k", 1) },
		"AllowAll": func(l *hybrid.Limiter) error { return admittedOr(l.AllowAll("a", "b", "c")) },
		"TakeAll":  func(l *hybrid.Limiter) error { _, err := l.TakeAll(ctx, asks...); return err },
		"WaitAll":  func(l *hybrid.Limiter) error { return l.WaitAll(ctx, asks...) },
		"Reserve":  func(l *hybrid.Limiter) error { _, err := l.Reserve(ctx, "k", 1); return err },
		"ReserveAll": func(l *hybrid.Limiter) error {
			_, err := l.ReserveAll(ctx, asks...)
			return err
		},
		"Peek": func(l *hybrid.Limiter) error { _, err := l.Peek(ctx, "k"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(trip)
				l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
				start := time.Now()
				err := verb(l)
				if took := time.Since(start); err != nil || took != trip {
					t.Errorf("%v after %v", err, took)
				}
			})
		})
	}
}

// TestBurstFarAway: in a burst of requests for new keys the round trips leave one after the other,
// and requests have their verdicts in time. Where 16 round trips can hardly carry all, or are nearly
// as long as the Timeout, some are lost; without pauses it would be at least twice as many.
func TestBurstFarAway(t *testing.T) {
	for _, c := range []struct {
		trip, apart time.Duration
		keys        int
		lost        int64 // at most
	}{
		{150, 100 * time.Microsecond, 4000, 0},
		{200, time.Millisecond, 1000, 100},
		{50, 25 * time.Microsecond, 4000, 0},
		{100, 100 * time.Microsecond, 4000, 0},
		{150, 25 * time.Microsecond, 4000, 500},
		{150, 5 * time.Millisecond, 200, 0},
		{200, 25 * time.Microsecond, 4000, 3000},
		{200, 100 * time.Microsecond, 4000, 400},
		{200, 5 * time.Millisecond, 200, 20},
		{225, 100 * time.Microsecond, 4000, 2000},
		{225, time.Millisecond, 1000, 250},
		{225, 20 * time.Millisecond, 50, 0},
		{240, 20 * time.Millisecond, 50, 5},
	}[:longform.Of(2, 13)] {
		for _, calm := range []time.Duration{0, 5 * time.Second} {
			lost, middle, longest := burst(t, c.trip*time.Millisecond, calm, c.apart, c.keys)
			t.Logf("%v ms away, after %v, %d keys %v apart: %d have no verdict in time; half after %v, all after %v",
				int64(c.trip), calm, c.keys, c.apart, lost, middle, longest)
			if lost > c.lost {
				t.Errorf("lost %d, not %d at most", lost, c.lost)
			}
		}
	}
}

// burst returns how many of so many requests for new keys have no verdict, and after how long
// half of them and all come back. A calm time is before.
func burst(
	t *testing.T, trip, calm, apart time.Duration, keys int,
) (lost int64, middle, longest time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(trip), hybrid.Config{Limit: hybrid.PerSecond(1000)})
		for end := time.Now().Add(calm); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			l.Take(ctx, fmt.Sprint("calm", time.Now()), 1)
		}
		took := make([]time.Duration, keys)
		var wg sync.WaitGroup
		var unknown atomic.Int64
		for i := range took {
			wg.Go(func() {
				start := time.Now()
				if d, err := l.Take(ctx, fmt.Sprint(i), 1); err != nil || d.Source == hybrid.OutagePolicy {
					unknown.Add(1)
				}
				took[i] = time.Since(start)
			})
			time.Sleep(apart)
		}
		wg.Wait()
		slices.Sort(took)
		lost, middle, longest = unknown.Load(), took[keys/2], took[keys-1]
	})
	return lost, middle, longest
}

// admittedOr is an error for a request that was not admitted.
func admittedOr(ok bool) error {
	if !ok {
		return errors.New("denied")
	}
	return nil
}

// TestBehindAnExchange: a request that comes while an exchange of its key is out waits for that
// and for its own. Where they take longer than half of the timeout it has its verdict as well.
func TestBehindAnExchange(t *testing.T) {
	for _, trip := range []time.Duration{100, 150, 200, 240} {
		t.Run(fmt.Sprint(int64(trip)), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(trip * time.Millisecond)
				l := newLimiter(t, store, hybrid.Config{
					Limit:  hybrid.PerSecond(1000),
					Policy: hybrid.Policy{Mode: lease.PerRequest},
				})
				verbs := map[string]func() error{
					"take": func() error { _, err := l.Take(ctx, "a", 1); return err },
					"take all": func() error {
						_, err := l.TakeAll(ctx, hybrid.Ask{Key: "b", N: 1}, hybrid.Ask{Key: "c", N: 1})
						return err
					},
				}
				var wg sync.WaitGroup
				for i := range 500 {
					for name, verb := range verbs {
						wg.Go(func() {
							start := time.Now()
							err := verb()
							if took := time.Since(start); err != nil || took > 2*trip*time.Millisecond {
								t.Errorf("%s %d after %v: %v", name, i, took, err)
							}
						})
					}
					time.Sleep(10 * time.Millisecond)
				}
				wg.Wait()
			})
		})
	}
}
