//go:build linux || darwin

package chaos

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

var (
	duration = flag.Duration("chaos.duration", 0,
		"how long TestChaos goes on, by default until each fault has happened")
	seed = flag.Uint64("chaos.seed", 1, "of the faults and the load of TestChaos")
	only = flag.String("chaos.only", "",
		"a regular expression of the worlds that TestChaos is about, by default all")
	secure   = flag.Bool("chaos.tls", false, "all worlds of TestChaos talk TLS")
	distance = flag.Duration("chaos.distance", 0,
		"the round trip of worlds of TestChaos whose servers are near")

	keys = flag.Int("chaos.keys", 4000,
		"how many pass in TestPassingKeys, in -chaos.duration or in 8 s")

	processes = flag.Int("chaos.processes", 4, "of each world of TestChaos")
)

// TestMain runs a worker instead of the tests when it is told to.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// quiet is a logger: that servers do not answer is no news here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	atOnce     = 20 // processes, at least those of one world; other worlds wait for their turn
	shortRound = 8 * time.Second
	longRound  = 40 * time.Second
	calmEnd    = 2 * time.Second // of each round, at least: until everything works again

	timeout = 250 * time.Millisecond
)

// TestChaos lets every fault happen to processes that share limits, and judges
// what they admitted.
func TestChaos(t *testing.T) {
	needsTheMachine(t)
	t.Parallel()
	var worlds []*world
	for _, w := range []*world{ // those that take longest come first
		{name: "cluster", start: (*world).divided},
		{name: "sentinel", start: (*world).watched},
		{name: "planned failovers", start: (*world).failingOver, tls: true},
		{name: "masters without replicas", start: (*world).bereft},
		{name: "moving slots", start: (*world).moving, tls: true},
		{name: "30 ms away", start: (*world).far, distance: 30 * time.Millisecond},
		{name: "120 ms away", start: (*world).far, distance: 120 * time.Millisecond, tls: true},
		{name: "220 ms away", start: (*world).far, distance: 220 * time.Millisecond},
		{name: "shared when away", start: (*world).sharing, harmful: true},
		{
			name: "several limiters, shared when away", start: (*world).sharing,
			namespaces: []string{"", "other", "third"},
		}, {
			name: "sparse keys, shared when away", start: (*world).sharing,
			plain: true, sparse: 40, maxKeys: 20,
		},
		{name: "single", start: (*world).lossless},
		{name: "single that forgets", start: (*world).forgetful},
		{
			name: "default client", start: (*world).lossless, plain: true,
			namespaces: []string{"", ""},
		},
		{name: "valkey", start: (*world).forgetful, program: valkey, tls: true},
	} {
		if ok, err := regexp.MatchString(*only, w.name); err != nil {
			t.Fatalf("-chaos.only: %v", err)
		} else if ok && w.installed(t) {
			if w.tls || *secure {
				w.secure(t)
			}
			w.distance = max(w.distance, *distance)
			w.start(w, t)
			worlds = append(worlds, w)
		}
	}
	if len(worlds) == 0 {
		t.Fatalf("-chaos.only %q: no such world here", *only)
	}
	ctx, cancel := signal.NotifyContext(t.Context(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	report := newReport(t, worlds)
	var running sync.WaitGroup
	turns := make(chan struct{}, max(1, atOnce / *processes))
	for i, w := range worlds {
		w.turn = i + int(*seed%12) // so that each group of keys has its turn in each world
		w.connect(t, *seed+uint64(i)<<8, *processes)
		go w.watchPromotions(ctx)
		turns <- struct{}{}
		running.Go(func() { w.run(ctx, t, report, turns, rand.New(rand.NewPCG(*seed, uint64(i)))) })
	}
	running.Wait()
	report.print()
}

// needsTheMachine is for tests that judge real processes in real time: what runs beside
// them, as other packages' tests do, keeps the processes from running.
func needsTheMachine(t *testing.T) {
	t.Helper()
	longform.Only(t, "needs the machine for itself")
}

// run plays rounds until the time is over, one at least. It has its turn for the first one.
func (w *world) run(
	ctx context.Context, t *testing.T, report *report, turns chan struct{}, random *rand.Rand,
) {
	for n := 0; n == 0 || ctx.Err() == nil && time.Since(report.start) < *duration; n++ {
		if n > 0 {
			turns <- struct{}{}
		}
		r := &round{world: w, ctx: ctx, random: random, number: n}
		f := r.play(t)
		<-turns
		report.add(w, n, f)
		for _, why := range f.unjudged {
			t.Logf("%s, round %d, seed %d: not judged: %s", w.name, n, *seed, why)
		}
		for _, v := range f.violations {
			t.Errorf("%s, round %d, seed %d: %s", w.name, n, *seed, v)
		}
		if t.Failed() && *duration == 0 {
			return
		}
	}
}

// A round is the life of a fleet, on keys of its own.
type round struct {
	*world
	ctx     context.Context
	number  int
	history *history
	fleet   *fleet

	mu     sync.Mutex
	random *rand.Rand
}

// play lets a fleet suffer for a while and judges it.
func (r *round) play(t *testing.T) *finding {
	length := longRound
	if *duration == 0 {
		length = shortRound
	}
	r.launch()
	defer r.fleet.stop() // also when a server does not start
	err := eventually(r.ctx, "all processes get verdicts", r.fleet.settled)
	if r.shares && err == nil {
		err = eventually(r.ctx, "all processes have heard of each other",
			r.history.counted)
	}
	r.history.heard = clock()
	if err != nil && r.ctx.Err() == nil {
		t.Errorf("%s, round %d: %v", r.world.name, r.number, err)
	}
	// Without faults nothing is lost, and no token too many is made up for.
	r.sleep(length / 5)
	r.lossy.Store(!r.steady)

	gap := func(long time.Duration) time.Duration {
		if *duration == 0 {
			return 200 * time.Millisecond
		}
		return long
	}
	var lanes sync.WaitGroup
	for i, lane := range [][]deed{r.deeds, r.networkDeeds(), r.processDeeds()} {
		pause := gap([]time.Duration{r.gap, 6 * time.Second, 3 * time.Second}[i])
		// Lanes before it pick already.
		random := rand.New(rand.NewPCG(uint64(r.pick(math.MaxInt)), 0))
		lanes.Go(func() { r.lane(t, random, lane, length*4/5-calmEnd, pause) })
	}
	lanes.Wait()
	r.lossy.Store(false)
	r.sleep(calmEnd)
	_ = eventually(r.ctx, "all processes get verdicts again", r.fleet.settled) // or the judge will see it
	r.unasked(0)
	r.history.to, r.history.cut = clock(), r.ctx.Err() != nil
	for _, err := range r.fleet.stop() {
		if r.ctx.Err() == nil {
			t.Errorf("%s, round %d: %v", r.world.name, r.number, err)
		}
	}
	r.world.mu.Lock()
	r.history.late, r.late = r.late, nil
	r.world.mu.Unlock()
	return r.history.judge()
}

// launch starts the fleet, and its history.
func (r *round) launch() {
	policies := []lease.Policy{
		{}, {MaxHold: 250 * time.Millisecond}, {MaxHold: 2 * time.Second}, {Fairness: lease.MaxMin},
	}
	r.history = &history{
		keys: r.keys(), policy: policies[r.pick(len(policies))],
		processes: *processes, timeout: timeout, shares: r.shares, distance: r.distance,
		span: span{from: clock()}, epoch: epoch(),
	}
	o := orders{
		Seed: r.random.Uint64(), Topology: r.topology, Servers: r.told,
		Keys: r.history.keys, Policy: r.history.policy, Outage: hybrid.Deny, Timeout: timeout,
		Namespaces: r.namespaces, MaxKeys: r.maxKeys, Plain: r.plain,
	}
	if r.shares {
		o.Outage = hybrid.Share
	}
	if r.harmful {
		o.Harm = panics // in every other process; loggers of the others hang
	}
	if r.trust != nil {
		o.Authority = r.trust.PEM()
	}
	r.fleet = launch(o, r.history, r.routes)
}

// lane does deeds until the time is over and each has been done. The cards are
// dealt anew when all have been played.
func (r *round) lane(t *testing.T, random *rand.Rand, deeds []deed, length, gap time.Duration) {
	if len(deeds) == 0 {
		return
	}
	start := time.Now()
	for n, deck := 0, random.Perm(len(deeds)); n < len(deeds) || time.Since(start) < length; n++ {
		if n > 0 && n%len(deeds) == 0 {
			deck = random.Perm(len(deeds))
		}
		r.sleep(gap/2 + time.Duration(random.Int64N(int64(gap))))
		if r.ctx.Err() != nil {
			return
		}
		d := deeds[deck[n%len(deeds)]]
		r.unasked(d.promotes)
		from := clock()
		err := d.do(r)
		gone := span{}
		if d.mend != nil {
			gone.from = clock()
			r.sleep(d.lasts(r))
			gone.to = clock()
			err = errors.Join(err, d.mend(r))
		}
		if err != nil && r.ctx.Err() == nil {
			t.Errorf("%s, round %d: %s: %v", r.world.name, r.number, d.kind, err)
		}
		if d.kind != "" {
			x := fault{kind: d.kind, span: span{from, clock()}, gone: gone, lost: d.lost}
			if d.splits {
				r.world.mu.Lock()
				x.split = span{from, r.agreed}
				r.world.mu.Unlock()
			}
			if d.spares != nil {
				x.spares = d.spares(r)
			}
			r.history.suffer(x)
		}
		r.sleep(d.rest)
	}
}

// sleep waits, less long when all is to end.
func (r *round) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.ctx.Done():
	}
}

func (r *round) pick(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

func (r *round) upTo(d time.Duration) time.Duration { return time.Duration(r.pick(int(d))) }

// slot is the slot of a key drawn at random.
func (r *round) slot() int { return r.slotOf(r.history.keys[r.pick(len(r.history.keys))].Name) }

// slotOf is the slot of the key.
func (r *round) slotOf(key string) (slot int) {
	for _, n := range r.nodes { // some may be down
		if n.frozen.Load() {
			continue
		}
		if s, err := n.ClusterKeySlot(r.ctx, "ration:"+key).Result(); err == nil {
			return int(s)
		}
	}
	return -1
}
