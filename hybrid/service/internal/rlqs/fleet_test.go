package rlqs_test

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/rlqs"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

func seconds(d time.Duration) *durationpb.Duration {
	return durationpb.New(d.Truncate(time.Second))
}

// A document is a Source that does not change.
type document string

func (d document) Load(context.Context) ([]rules.Document, string, error) {
	return []rules.Document{{Name: "shop.yaml", Text: []byte(d)}}, "1", nil
}

func (d document) Wait(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// A registrar has what is registered.
type registrar struct {
	service pb.RateLimitQuotaServiceServer
}

func (r *registrar) RegisterService(_ *grpc.ServiceDesc, impl any) {
	r.service = impl.(pb.RateLimitQuotaServiceServer)
}

// A replica is one service of a fleet. One that is killed tells its store nothing any more.
type replica struct {
	registrar
	hybrid.Store
	limiter *rules.Limiter
	life    context.Context // of its streams
	kill    context.CancelFunc
}

func (r *replica) Exchange(ctx context.Context, calls []*lease.Call) {
	if r.life.Err() == nil {
		r.Store.Exchange(ctx, calls)
		return
	}
	for _, c := range calls {
		c.Err = context.Canceled
	}
}

// bought is how many tokens it has taken.
func (r *replica) bought() (sum uint64) {
	for _, d := range r.limiter.Stats().Domains {
		s := d.Limiter
		sum += s.Lease.AdmittedTokens + s.Ledger.AdmittedTokens + s.Outage.AdmittedTokens
	}
	return sum
}

func newReplica(t *testing.T, store hybrid.Store, source rules.Source) *replica {
	t.Helper()
	r := &replica{Store: store}
	r.life, r.kill = context.WithCancel(t.Context())
	var err error
	r.limiter, err = rules.New(r, source, rules.Config{Limiter: hybrid.Config{
		SlogLogger: slog.New(slog.DiscardHandler), Process: hybrid.NewProcess(), Outage: hybrid.Deny,
	}})
	if err != nil {
		t.Fatal(err)
	}
	rlqs.Register(r, r.limiter, rlqs.Config{Life: life, Log: slog.New(slog.DiscardHandler)})
	return r
}

// connect gives a client a stream.
func (r *replica) connect(c *client, delay time.Duration, seed uint64) {
	ctx, cut := context.WithCancel(r.life)
	x := &conn{ctx: ctx, to: c, delay: delay, chance: rand.New(rand.NewPCG(seed, 0)),
		reports: make(chan *pb.RateLimitQuotaUsageReports, 16)}
	c.mu.Lock()
	c.conn = x
	c.mu.Unlock()
	go func() {
		_ = r.service.StreamRateLimitQuotas(x)
		cut()
	}()
	x.cut = cut
}

// life is Config.Life of the tests.
const life = 3 * time.Second

// A world is a fleet of services and Envoys on one bucket.
type world struct {
	limit    string // of a rule
	rate     float64
	burst    float64
	replicas int
	clients  int
	load     float64 // demand of all, as a part of the rate
	floor    float64 // of what is used, if not 0.95

	refill bool          // see client
	slow   float64       // the clients' clocks
	delay  time.Duration // of messages, at most
	lost   float64       // part of the reports
	cuts   float64       // of streams, each second
	kill   time.Duration // of a replica; it is back 10 s later
	moves  time.Duration // between changes of demand
	surge  bool          // no demand for 10 s after 40 s, then twice of it while others take all they can
	first  uint64        // seed
	clump  time.Duration // between requests, which come together; 0: they do not
}

var second1000 = world{limit: "{unit: second, requests_per_unit: 1000}", rate: 1000, burst: 1000}

func worlds() map[string]world {
	of := func(base world, change func(w *world)) world {
		base.replicas, base.clients, base.load, base.moves = 1, 10, 1.5, 30*time.Second
		base.delay = 2 * time.Millisecond
		change(&base)
		return base
	}
	small := world{limit: "{unit: second, requests_per_unit: 1000, burst: 200}", rate: 1000, burst: 200}
	tiny := world{limit: "{unit: second, requests_per_unit: 1000, burst: 10}", rate: 1000, burst: 10}
	second400 := world{limit: "{unit: second, requests_per_unit: 400}", rate: 400, burst: 400}
	slow := world{limit: "{unit: minute, requests_per_unit: 600}", rate: 10, burst: 600}
	return map[string]world{
		"tiny burst": of(tiny, func(w *world) { w.clients, w.load, w.floor = 4, 80, 0.1 }),
		"surge":      of(second1000, func(w *world) { w.surge, w.first = true, 13 }),
		"two services": of(second400, func(w *world) {
			w.replicas, w.clients, w.moves = 2, 13, time.Minute
			w.floor = 0.9 // they buy in turn, and each changes rates by what it got last
		}),
		"together":        of(second1000, func(w *world) { w.clump = 100 * time.Millisecond }),
		"as it was":       of(second1000, func(*world) {}),
		"full":            of(second1000, func(w *world) { w.refill = true }),
		"small burst":     of(small, func(*world) {}),
		"slow":            of(slow, func(w *world) { w.clients = 4 }),
		"near":            of(second1000, func(w *world) { w.load = 1 }),
		"idle":            of(second1000, func(w *world) { w.load = 0.3 }),
		"three services":  of(second1000, func(w *world) { w.replicas = 3; w.clients = 13 }),
		"late":            of(second1000, func(w *world) { w.delay = 500 * time.Millisecond; w.refill = true }),
		"slow clocks":     of(second1000, func(w *world) { w.slow = 0.001; w.refill = true }),
		"reports lost":    of(second1000, func(w *world) { w.lost = 0.3 }),
		"streams cut":     of(second1000, func(w *world) { w.cuts = 0.02; w.replicas = 2; w.refill = true }),
		"a server killed": of(second1000, func(w *world) { w.kill = 40 * time.Second; w.replicas = 2 }),
		"all": of(second1000, func(w *world) {
			w.replicas, w.clients, w.refill, w.slow = 3, 13, true, 0.001
			w.delay, w.lost, w.cuts, w.kill = 400*time.Millisecond, 0.1, 0.01, 40*time.Second
		}),
	}
}

// A result is what became of a world.
type result struct {
	over   float64   // most tokens that were admitted above Rate*T in any T
	ahead  float64   // most tokens that were admitted and not taken from the limiter
	usable []float64 // for each change of demand: the part of what could be admitted, from 10 s on
}

// play plays a world for so long.
func (w world) play(t *testing.T, seed uint64, long time.Duration) (out result) {
	r := rand.New(rand.NewPCG(seed, 28))
	store := hybrid.NewMemory()
	text := "domain: shop\ndescriptors: [{key: user, rate_limit: " + w.limit + "}]\n"
	fleet := make([]*replica, w.replicas)
	for i := range fleet {
		fleet[i] = newReplica(t, store, document(text))
	}
	all := slices.Clone(fleet)
	const step = 10 * time.Millisecond
	clients, next := make([]*client, w.clients), make([]time.Duration, w.clients)
	for i := range clients {
		clients[i] = &client{refill: w.refill, slow: w.slow,
			id: &pb.BucketId{Bucket: map[string]string{"user": "ann"}}}
		next[i] = time.Duration(r.Int64N(int64(5 * time.Second))).Truncate(step)
	}
	demand := make([]float64, w.clients)
	admitted, lowest, asked, through := 0.0, 0.0, 0.0, 0.0
	var moved time.Duration
	judge := func(now time.Duration) {
		if now-moved >= 20*time.Second {
			could := min(asked, w.rate*(now-moved-10*time.Second).Seconds())
			out.usable = append(out.usable, through/could)
		}
		moved, asked, through = now, 0, 0
	}
	for now := time.Duration(0); now < long; now += step {
		if now%w.moves == 0 {
			judge(now)
			sum := 0.0
			for i := range demand {
				demand[i] = math.Pow(r.Float64(), 3)
				sum += demand[i]
			}
			for i := range demand {
				demand[i] *= w.load * w.rate / sum
			}
		}
		factor := 1.0
		if w.surge {
			factor, admitted = w.surging(t, now, fleet[0], admitted)
		}
		if w.kill > 0 && now == w.kill {
			fleet[0].kill()
		}
		if w.kill > 0 && now == w.kill+10*time.Second {
			fleet[0] = newReplica(t, store, document(text))
			all = append(all, fleet[0])
		}
		for i, c := range clients {
			if c.conn != nil && r.Float64() < w.cuts*step.Seconds() {
				c.conn.cut()
			}
			if n := next[i]; now >= n { // a stream that has ended begins again with a report
				next[i] += 5 * time.Second
				if live := fleet[r.IntN(len(fleet))]; c.conn == nil || c.conn.ctx.Err() != nil {
					live.connect(c, w.delay, r.Uint64())
				}
				c.report(r.Float64() < w.lost)
			}
			n := 0
			if w.clump == 0 || now%w.clump == 0 {
				n = poisson(r, factor*demand[i]*max(step, w.clump).Seconds())
			}
			ok := float64(c.ask(n))
			admitted += ok
			if now-moved >= 10*time.Second {
				asked, through = asked+float64(n), through+ok
			}
		}
		level := admitted - w.rate*now.Seconds()
		lowest = min(lowest, level)
		out.over = max(out.over, level-lowest)
		if now%(50*step) == 0 {
			sum := uint64(0)
			for _, x := range all {
				sum += x.bought()
			}
			out.ahead = max(out.ahead, admitted-float64(sum))
		}
		time.Sleep(step)
	}
	judge(long)
	for _, x := range all {
		x.kill()
	}
	time.Sleep(10 * time.Second) // buckets wait for what Envoys have left with
	for _, x := range all {
		_ = x.limiter.Close(context.Background()) // of one that was killed, leases stay out
	}
	return out
}

// surging is by which factor there is more demand, and what is admitted with what others take.
func (w world) surging(
	t *testing.T, now time.Duration, r *replica, admitted float64,
) (factor, more float64) {
	switch {
	case now < 40*time.Second:
		return 1, admitted
	case now < 50*time.Second:
		return 0, admitted
	}
	for n := 512; n > 0; n /= 2 {
		d := rules.Of("user", "ann")
		d.Hits = n
		got, err := r.limiter.Take(t.Context(), "shop", d)
		if err != nil {
			t.Fatal(err)
		}
		if got.Allowed {
			admitted += float64(n)
		}
	}
	return 2, admitted
}

// TestFleet: whatever happens to streams, reports, clocks and servers, no Envoy is admitted a token
// that was not taken from the limiter, and all of them keep the promise. Once demand has been there
// for two reports, the limit is used.
func TestFleet(t *testing.T) {
	seeds, long := longform.Of(uint64(2), 20), longform.Of(2*time.Minute, 10*time.Minute)
	if testing.Short() {
		seeds = 1 // under the race detector, which finds as much in one
	}
	for name, w := range worlds() {
		t.Run(name, func(t *testing.T) {
			for seed := w.first; seed < w.first+seeds; seed++ {
				synctest.Test(t, func(t *testing.T) {
					got := w.play(t, seed, long)
					alive := w.burst/2 + w.rate*(life+2*time.Second).Seconds() + float64(2*w.clients)
					most := w.burst + float64(w.replicas)*alive
					t.Logf(name+" seed %d: %.0f above Rate*T, of %.0f; %.0f ahead; used %.3f",
						seed, got.over, most, got.ahead, got.usable)
					if got.over > most {
						t.Errorf("seed %d: %.0f tokens are above Rate*T in some T, more than %.0f",
							seed, got.over, most)
					}
					if got.ahead > 0 {
						t.Errorf("seed %d: %.0f tokens were never taken", seed, got.ahead)
					}
					used := 0.0
					for _, x := range got.usable {
						used += x / float64(len(got.usable))
					}
					if w.surge {
						return // others use the limit
					}
					floor := 0.95
					if w.floor > 0 {
						floor = w.floor
					}
					if w.lost+w.cuts > 0 || w.kill > 0 {
						floor = 0.85 // without a stream an Envoy denies
					}
					if used < floor {
						t.Errorf("seed %d: %.3f of what could be is admitted, not %v", seed, used, floor)
					}
				})
			}
		})
	}
}
