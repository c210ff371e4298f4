//go:build unix

package rlqs_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// callers ask an Envoy at a rate that changes.
type callers struct {
	url    string
	client *http.Client
	queue  chan struct{}
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

// ask has n requests sent. It does not wait, and sends no more while 1,000 wait for Envoy.
func (c *callers) ask(n int) {
	for range n {
		select {
		case c.queue <- struct{}{}:
		default:
		}
	}
}

// dial gives a client a stream to a service, until that or ctx ends.
func (c *client) dial(ctx context.Context, service pb.RateLimitQuotaServiceClient) {
	ctx, cut := context.WithCancel(ctx)
	x := &conn{ctx: ctx, to: c, cut: cut, reports: make(chan *pb.RateLimitQuotaUsageReports, 16)}
	c.mu.Lock()
	c.conn = x
	c.mu.Unlock()
	go func() {
		defer cut()
		stream, err := service.StreamRateLimitQuotas(ctx)
		if err != nil {
			return
		}
		go func() {
			defer cut()
			for {
				m, err := stream.Recv()
				if err != nil {
					return
				}
				c.handle(m)
			}
		}()
		for {
			select {
			case m := <-x.reports:
				if stream.Send(m) != nil {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
}

// A fleet is what shares a limit by two services.
type fleet struct {
	*testing.T
	chance    *rand.Rand
	services  []*servicetest.Process
	clients   []pb.RateLimitQuotaServiceClient // of each service
	upstream  *upstream
	envoys    []*callers
	copies    []*client
	next      []time.Duration // when each copy reports
	last      []int           // the service that each copy has asked
	admitted  float64         // by copies
	processes context.Context // of the copies' streams
}

const (
	fleetRate, fleetBurst = 400.0, 400.0
	fleetLoad             = 1.5
	reports               = 5 * time.Second
)

func newFleet(t *testing.T, genuine, copies int, seed uint64) *fleet {
	servicetest.Envoy(t)
	f := &fleet{T: t, chance: rand.New(rand.NewPCG(seed, 2)), upstream: newUpstream(t),
		next: make([]time.Duration, copies), last: make([]int, copies), processes: t.Context()}
	folder := t.TempDir()
	rule := fmt.Sprintf("domain: shop\n"+
		"descriptors: [{key: user, rate_limit: {unit: second, requests_per_unit: %g}}]\n", fleetRate)
	if err := os.WriteFile(filepath.Join(folder, "shop.yaml"), []byte(rule), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := servicetest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	var at []string
	for range 2 {
		p := servicetest.StartProcess(t, program, "-redis", "redis://"+redis.Addr, "-rules",
			"files:"+folder, "-outage", "deny", "-rlqs", life.String())
		c, err := grpc.NewClient(p.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		f.services, at = append(f.services, p), append(at, p.GRPC)
		f.clients = append(f.clients, pb.NewRateLimitQuotaServiceClient(c))
	}
	for i := range genuine {
		f.envoys = append(f.envoys, newCallers(t, startEnvoy(t, f.upstream.URL, at...), seed+uint64(i)))
	}
	for i := range copies {
		f.copies = append(f.copies, &client{id: &pb.BucketId{Bucket: map[string]string{"user": "ann"}}})
		f.next[i] = time.Duration(f.chance.Int64N(int64(reports)))
		f.last[i] = i
	}
	return f
}

// demand draws the rate at which each is asked: most of all by a few.
func (f *fleet) demand() []float64 {
	list, sum := make([]float64, len(f.envoys)+len(f.copies)), 0.0
	for i := range list {
		list[i] = math.Pow(f.chance.Float64(), 3)
		sum += list[i]
	}
	for i := range list {
		list[i] *= fleetLoad * fleetRate / sum
	}
	return list
}

// step plays what has come since a time of before.
func (f *fleet) step(before, now time.Duration, demand []float64) {
	since := (now - before).Seconds()
	for i, e := range f.envoys {
		e.ask(poisson(f.chance, demand[i]*since))
	}
	for i, c := range f.copies {
		if c.conn != nil && f.chance.Float64() < 0.01*since {
			c.conn.cut()
		}
		if now >= f.next[i] {
			f.next[i] += reports
			if c.conn == nil || c.conn.ctx.Err() != nil {
				f.connect(i)
			}
			c.report(false)
		}
		f.admitted += float64(c.ask(poisson(f.chance, demand[len(f.envoys)+i]*since)))
	}
}

// connect has a copy ask the next service that lives: as the Envoys, it checks whether one does.
func (f *fleet) connect(i int) {
	for range f.services {
		f.last[i]++
		n := f.last[i] % len(f.services)
		select {
		case <-f.services[n].Ended:
		default:
			f.copies[i].dial(f.processes, f.clients[n])
			return
		}
	}
}

func (f *fleet) all() float64 { return f.admitted + float64(f.upstream.served.Load()) }

// A change is one of demand, or the loss of a service.
type change struct {
	at   time.Duration
	what string
}

// changes are each minute one of demand, and the loss of a service.
func (f *fleet) changes(long, kill time.Duration) (list []change) {
	list = append(list, change{kill, "loss of a service"}, change{long, "end"})
	for at := time.Duration(0); at < long; at += time.Minute {
		list = append(list, change{at, "change of demand"})
	}
	slices.SortFunc(list, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	return list
}

// TestEnvoys: real Envoys and copies of them share a limit by two services on one Redis, while
// demand moves, streams are cut, and a service is killed. They keep the promise, and use the limit
// from two reports after each change on.
func TestEnvoys(t *testing.T) {
	long, kill := longform.Of(time.Minute, 10*time.Minute), longform.Of(30*time.Second, 330*time.Second)
	const seed = 28
	f := newFleet(t, longform.Of(2, 3), longform.Of(2, 10), seed)
	changes := f.changes(long, kill)
	var demand, series []float64
	var last, from time.Duration // from: two reports after the last change
	var lowest, over, since, before, used, could float64
	clock, begun := time.NewTicker(10*time.Millisecond), time.Now()
	defer clock.Stop()
	for next := 0; next < len(changes); <-clock.C {
		now := time.Since(begun)
		if now/reports > last/reports {
			series = append(series, (f.all()-before)/fleetRate/reports.Seconds())
			before = f.all()
		}
		if now >= changes[next].at {
			if next > 0 {
				used, could = used+f.all()-since, could+fleetRate*(now-from).Seconds()
				t.Logf("after the %s: used %.3f from two reports on, by 5 s %.2f", changes[next-1].what,
					(f.all()-since)/fleetRate/(now-from).Seconds(), series)
			}
			switch changes[next].what {
			case "loss of a service":
				f.services[0].Kill()
			case "change of demand":
				demand = f.demand()
				t.Logf("%v: demand %.0f", now.Truncate(time.Second), demand)
			}
			next, from, series = next+1, 0, nil
		}
		if from == 0 && now >= changes[next-1].at+2*reports {
			from, since = now, f.all()
		}
		f.step(last, now, demand)
		last = now
		level := f.all() - fleetRate*now.Seconds()
		lowest = min(lowest, level)
		over = max(over, level-lowest)
	}
	alive := fleetBurst/2 + fleetRate*(life+2*time.Second).Seconds() + float64(2*len(demand))
	most := fleetBurst + float64(len(f.services))*alive
	t.Logf("%.0f admitted in %.0f s; %.0f above Rate*T in some T, of %.0f", f.all(), last.Seconds(), over, most)
	if over > most {
		t.Error("these are too many")
	}
	t.Logf("used %.3f from two reports after each change on", used/could)
	floor := longform.Of(0.8, 0.95) // two spans of 20 s, in which a busy machine stands still
	if used < floor*could {
		t.Errorf("that is less than %v", floor)
	}
}
