package rlqs_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// callers ask an Envoy at a rate that changes.
type callers struct {
	url    string
	client *http.Client
	queue  chan struct{}
	rate   float64
	chance *rand.Rand
}

func newCallers(t *testing.T, url string, seed uint64) *callers {
	c := &callers{url: url, queue: make(chan struct{}, 1000), chance: rand.New(rand.NewPCG(seed, 1)),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range c.queue {
				_, _ = ask(context.Background(), c.client, c.url, "ann")
			}
		})
	}
	t.Cleanup(func() {
		close(c.queue)
		all.Wait()
		c.client.CloseIdleConnections()
	})
	return c
}

// step asks for a time. It does not wait, and asks no more while 1,000 wait for Envoy.
func (c *callers) step(d time.Duration) {
	for range poisson(c.chance, c.rate*d.Seconds()) {
		select {
		case c.queue <- struct{}{}:
		default:
		}
	}
}

// TestEnvoys: real Envoys and copies of them share a limit by two services on one Redis, while
// demand moves, streams are cut and a service is killed. They keep the promise, and use the limit.
func TestEnvoys(t *testing.T) {
	binary(t)
	genuine, copies := longform.Of(2, 3), longform.Of(2, 10)
	long, moves := longform.Of(80*time.Second, 10*time.Minute), longform.Of(40*time.Second, time.Minute)
	const rate, burst, load, seed = 400.0, 400.0, 1.5, 28
	server := redistest.Start(t)
	fleet := make([]*replica, 2)
	servers := make([]*grpc.Server, len(fleet))
	at := make([]string, len(fleet))
	stores := make([]*remote.Store, len(fleet))
	for i := range fleet {
		c := redis.NewClient(remote.Options(server.Addr))
		defer c.Close()
		stores[i] = remote.New(c)
		fleet[i] = newReplica(t, stores[i], document(fmt.Sprintf("domain: shop\n"+
			"descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: %g}}]\n", rate)))
		servers[i], at[i] = listen(t, fleet[i].service)
	}
	up := newUpstream(t)
	r := rand.New(rand.NewPCG(seed, 2))
	var envoys []*callers
	for i := range genuine {
		envoys = append(envoys, newCallers(t, startEnvoy(t, up.URL, at...), seed+uint64(i)))
	}
	others, next := make([]*client, copies), make([]time.Duration, copies)
	tries := make([]int, copies) // one service after the other, as Envoy
	for i := range others {
		others[i] = &client{id: &pb.BucketId{Bucket: map[string]string{"user": "ann"}}}
		next[i] = time.Duration(r.Int64N(5e9))
		tries[i] = i
	}
	demand := make([]float64, genuine+copies)
	const step = 10 * time.Millisecond
	var moved time.Duration
	var copied, lowest, over, since float64
	admitted := func() float64 { return copied + float64(up.served.Load()) }
	settles := 20 * time.Second // from nothing, and without a service: Envoy may ask the dead one first
	judge := func(now time.Duration) {
		used := (admitted() - since) / rate / (now - moved - settles).Seconds()
		t.Logf("%v: used %.3f from %v after demand has moved", now.Truncate(step), used, settles)
		if used < 0.95 {
			t.Error("that is less than 0.95")
		}
		settles = 10 * time.Second // two reports
	}
	begun := time.Now()
	clock := time.NewTicker(step)
	defer clock.Stop()
	last := time.Duration(0)
	for now := time.Duration(0); now < long; now = time.Since(begun) {
		due := func(at time.Duration) bool { return last < at && now >= at || now == 0 && at == 0 }
		if at := now.Truncate(moves); due(at) {
			if now > 0 {
				judge(now)
			}
			moved = now
			sum := 0.0
			for i := range demand {
				demand[i] = math.Pow(r.Float64(), 3)
				sum += demand[i]
			}
			for i := range demand {
				demand[i] *= load * rate / sum
			}
			for i, e := range envoys {
				e.rate = demand[i]
			}
			t.Logf("%v: demand %.0f", now, demand)
		}
		if due(moved + settles) {
			since = admitted()
		}
		if due(long / 2) {
			fleet[0].kill()
			servers[0].Stop()
			settles = 20 * time.Second
		}
		for _, e := range envoys {
			e.step(now - last)
		}
		for i, c := range others {
			if c.conn != nil && r.Float64() < 0.01*(now-last).Seconds() {
				c.conn.cut()
			}
			if now >= next[i] {
				next[i] += 5 * time.Second
				if c.conn == nil || c.conn.ctx.Err() != nil {
					x := fleet[tries[i]%len(fleet)]
					tries[i]++
					if x.life.Err() == nil {
						x.connect(c, time.Millisecond, r.Uint64())
					}
				}
				c.report(false)
			}
			copied += float64(c.ask(poisson(r, demand[genuine+i]*(now-last).Seconds())))
		}
		level := admitted() - rate*now.Seconds()
		lowest = min(lowest, level)
		over = max(over, level-lowest)
		last = now
		<-clock.C
	}
	judge(long)
	bought := uint64(0)
	for _, x := range fleet {
		bought += x.bought()
		x.kill()
	}
	alive := burst/2 + rate*(life+2*time.Second).Seconds() + float64(2*len(demand))
	t.Logf("%.0f admitted, %d taken; %.0f above Rate*T in some T, of %.0f", admitted(), bought, over,
		burst+float64(len(fleet))*alive)
	if admitted() > float64(bought) || over > burst+float64(len(fleet))*alive {
		t.Error("these are too many")
	}
	for _, x := range fleet {
		_ = x.limiter.Close(context.Background())
	}
}
