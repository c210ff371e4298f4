package hunt

import (
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// scenes are some hundred scenes of each of three seeds, drawn once, by class.
var scenes = [...]func() ([]*Scene, error){drawAll(Wide), drawAll(Near)}

func drawAll(class Class) func() ([]*Scene, error) {
	return sync.OnceValues(func() (list []*Scene, err error) {
		for seed := range uint64(3) {
			for n := range longform.Of(300, 1000) {
				s, err := Draw(seed, n, class, Buckets)
				if err != nil {
					return nil, err
				}
				list = append(list, s)
			}
		}
		return list, nil
	})
}

func drawn(t *testing.T, class Class) []*Scene {
	t.Helper()
	simtest.Long(t)
	list, err := scenes[class]()
	simtest.OK(t, err)
	return list
}

// draw draws a scene.
func draw(t *testing.T, seed uint64, n int, class Class, limits Limits) *Scene {
	t.Helper()
	s, err := Draw(seed, n, class, limits)
	simtest.OK(t, err)
	return s
}

// again draws a scene with other limits.
func again(t *testing.T, s *Scene, limits Limits) *Scene {
	t.Helper()
	return draw(t, s.Seed/1_000_000, s.Number, s.Class, limits)
}

// within holds a scene to bounds. Values are drawn with three digits, and products of two of them
// are judged: digits is what that may add.
func (s *Scene) within(t *testing.T, what string, x, low, high float64) {
	t.Helper()
	const digits = 1.02
	if !(x >= low/digits && x <= high*digits) {
		t.Errorf("%s: %s %v is not from %v to %v\n%s", s.Name, what, x, low, high, s.Text())
	}
}

// often holds that something is so of as many scenes as is wanted, to within four standard
// deviations.
func often(t *testing.T, what string, got int, list []*Scene, want float64) {
	t.Helper()
	n := float64(len(list))
	if off := math.Abs(float64(got) - n*want); off > 4*math.Sqrt(n*want*(1-want)) {
		t.Errorf("%s: %d of %d scenes, want %.1f %%", what, got, len(list), 100*want)
	}
}

// A scene that drawing or resolving refuses is an error of Draw, which names the
// scene; and what is drawn stays within the bounds that docs/hunt.md promises.
func TestDrawnWithinBounds(t *testing.T) {
	for _, s := range drawn(t, Wide) {
		within := func(what string, x, low, high float64) { s.within(t, what, x, low, high) }
		seconds := func(what string, d time.Duration, low, high float64) {
			within(what, d.Seconds(), low, high)
		}
		within("processes", float64(s.Processes), minProcesses, maxProcesses)
		within("rate", s.Limit.Mean()*float64(s.Keys.Number), minRate, maxRate)
		token := 1 / s.Limit.Mean() // a Burst is whole tokens, one at least
		within("burst", float64(s.Burst)*token, max(minFill-token, 0), maxFill+token)
		within("keys", float64(s.Keys.Number), 1, maxKeys)
		within("key skew", s.KeySkew, 0, maxKeySkew)
		if s.Keys.Number > 1 {
			within("rate of a key", s.Limit.Mean(), minRate/10, maxRate)
		}

		trip := s.Redis.Latency
		seconds("round trip", trip, minTrip/1e3, maxTrip/1e3)
		if s.Redis.P99 > 0 {
			within("p99", s.Redis.P99.Seconds()/trip.Seconds(), 1.5, 5)
		}
		seconds("timeout", s.Redis.Timeout, defaultTimeout/1e3,
			max(defaultTimeout, 7.5*maxTrip)/1e3)
		if s.Redis.Timeout <= trip {
			t.Errorf("%s: no answer can come in %v", s.Name, s.Redis.Timeout)
		}
		within("lost", s.Redis.Lost, 0, 0.05)
		within("repeated", s.Redis.Repeated, 0, 0.05)

		within("load", s.Offered(), minLoad, maxLoad)
		within("cost", s.MeanCost(), 1, math.Max(1, float64(s.Burst)/4))
		within("skew", s.Balance.Skew, 0, maxSkew)
		if s.Load.Arrivals == "gamma" {
			within("cv", s.Load.CV, minCV, maxCV)
		}
		if o := s.Balance.OnOff; o != nil {
			seconds("period", o.Period, minClump, maxPeriod)
			if o.On < time.Millisecond || o.On > o.Period/2+time.Millisecond {
				t.Errorf("%s: on for %v of %v", s.Name, o.On, o.Period)
			}
		}
		if d := s.Balance.Moves; d > 0 {
			seconds("moves", d, minMove, maxMove)
		}
		if d := s.Load.Patience; d > 0 {
			seconds("patience", d, minPatience, maxPatience)
		}
		if c := s.Load.Clients; c != nil {
			within("clients", float64(c.Count), 1, maxClients)
		}
	}
}

// So many requests are measured that intervals are narrow, and no more, so that a
// scene takes seconds.
func TestDrawnTakeBoundedTime(t *testing.T) {
	long := 0
	list := slices.Concat(drawn(t, Wide), drawn(t, Near))
	for _, s := range list {
		measured := (s.Duration - s.Warmup).Seconds()
		rate := s.Offered() * s.Limit.Mean() * float64(s.Keys.Number) / s.MeanCost()
		s.within(t, "measured seconds", measured, leastMeasured, maxMeasured)
		s.within(t, "warm-up", s.Warmup.Seconds(), minWarm/2, maxWarm)
		s.within(t, "requests", rate*measured, min(measuredRequests, rate*maxMeasured),
			max(mostRequests, rate*leastMeasured))
		for _, f := range s.Faults {
			if f.At >= s.Duration {
				t.Errorf("%s: %s at %v, which is after the end", s.Name, f.Kind, f.At)
			}
		}
		if rate*measured > mostRequests {
			long++
		}
	}
	if most := len(list) / 10; long > most {
		t.Errorf("%d of %d scenes have more than %d requests, want %d at most",
			long, len(list), mostRequests, most)
	}
}

// The same arguments give the same scene, others another one: with requests of
// its own. In Both a number is the same scene as in its class.
func TestDrawReplays(t *testing.T) {
	longform.None(t)
	texts := map[string]string{}
	seeds := [...]map[uint64]string{Wide: {}, Near: {}}
	for _, s := range slices.Concat(drawn(t, Wide), drawn(t, Near)) {
		classes := []Class{s.Class, Both}
		if s.Number%2 != int(s.Class) { // one of the other class
			classes = classes[:1]
		}
		for _, class := range classes {
			if s.Number >= 100 {
				break
			}
			again, err := Draw(s.Seed/1_000_000, s.Number, class, Buckets)
			if err != nil || !reflect.DeepEqual(again, s) {
				t.Errorf("%s is drawn differently in %s: %v", s.Name, ClassNames[class], err)
			}
		}
		if other := seeds[s.Class][s.Seed]; other != "" {
			t.Errorf("%s and %s are played with one seed, %d", s.Name, other, s.Seed)
		}
		seeds[s.Class][s.Seed] = s.Name
		same := *s.Scenario
		same.Name = ""
		if other := texts[same.Text()]; other != "" {
			t.Errorf("%s and %s are the same", s.Name, other)
		}
		texts[same.Text()] = s.Name
	}
}

// Kinds of scenes come as often as the probabilities in Draw say: to within four
// standard deviations. (How many have costs depends on the burst, too: there the
// table has bounds that leave enough of each.)
func TestDrawnKindsAreFrequent(t *testing.T) {
	kinds, manners, troubles := map[string]int{}, map[string]int{}, map[string]int{}
	alike, single := 0, 0
	for _, s := range drawn(t, Wide) {
		kinds[Kinds[s.Kind()]]++
		manners[Manners[s.Manner()]]++
		troubles[Troubles[s.Trouble()]]++
		if s.Keys.Number == 1 {
			single++
		}
		if s.Balance.Skew == 0 {
			alike++
		}
	}
	// A period of on and off is below half a second, which makes it clumps.
	brief := math.Log(0.5/minPeriod) / math.Log(maxPeriod/minPeriod)
	const open, calm = 0.88, 0.88 // not clients; and without a flash
	for _, c := range []struct {
		name string
		got  int
		want float64
	}{
		{"even or poisson", kinds["even or poisson"], open * 0.4 * calm},
		{"gamma", kinds["gamma"], open * 0.3 * calm},
		{"on and off", kinds["on and off"], open * 0.15 * 2 / 3 * (1 - brief)},
		{"clumps", kinds["clumps"], open * (0.15*2/3 + 0.15*2/3*brief)},
		{"in step", kinds["in step"], open * 0.3 / 3},
		{"flash", kinds["flash"], open * 0.7 * (1 - calm)},
		{"closed loop", kinds["closed loop"], 1 - open},
		{"waiting", manners["waiting"], 0.15},
		{"no trouble", troubles["none"], 0.7},
		{"join", troubles["join"], 0.1},
		{"crash", troubles["crash"], 0.1},
		{"lost messages", troubles["lost messages"], 0.1},
		{"one key", single, 2. / 3},
	} {
		often(t, c.name, c.got, drawn(t, Wide), c.want)
	}
	for _, c := range []struct {
		name      string
		got       int
		low, high float64
	}{
		{"cost 1", manners["cost 1"], 0.5, 0.8},
		{"same cost", manners["same cost"], 0.03, 0.15},
		{"mixed costs", manners["mixed costs"], 0.03, 0.15},
		{"no skew", alike, 0.45, 0.6},
	} {
		if part := float64(c.got) / float64(len(drawn(t, Wide))); part < c.low || part > c.high {
			t.Errorf("%s: %.3f of the scenes, want %v to %v", c.name, part, c.low, c.high)
		}
	}
}

// Windows are drawn from a stream of their own: nothing else of a scene is another one, which
// the exceptions of CI and docs/hunt.md rely on. Each request that fits the bucket fits the
// quota or sliding window, and about as much may come through in the mean.
func TestDrawnWindows(t *testing.T) {
	longform.None(t)
	kinds := map[Limits]lease.Kind{Quotas: lease.KindQuota, Sliding: lease.KindSliding}
	for limits, kind := range kinds {
		windows := map[time.Duration]int{}
		for _, b := range drawn(t, Wide) {
			w := again(t, b, limits)
			bucket, limit := b.LimitOf(), w.LimitOf()
			windows[limit.Window]++
			tokens := bucket.Rate * limit.Window.Seconds()
			if limit.Kind != kind || limit.Burst < bucket.Burst ||
				float64(limit.Burst) < 0.99*tokens-1 ||
				float64(limit.Burst) > 1.01*tokens+1 && limit.Burst != bucket.Burst {
				t.Errorf("%s: %v becomes %v", b.Name, bucket, limit)
			}
			most := 1 + max((b.Duration-b.Warmup).Seconds()/leastWindows,
				float64(bucket.Burst)/bucket.Rate)
			if limit.Window.Seconds() > most {
				t.Errorf("%s: a window of %v in %v", w.Name, limit.Window, w.Duration)
			}
			w.Name, w.Seed = b.Name, b.Seed
			w.SetLimit(bucket)
			if w.Text() != b.Text() {
				t.Errorf("with a %v it is another scene:\n%s%s", kind, w.Text(), b.Text())
			}
		}
		if len(windows) < 10 {
			t.Errorf("%v: windows of %v", kind, windows)
		}
	}
}

// Slots are drawn from a stream of their own as well: as many jobs come as requests did, and are
// as much of what there is. Most of them wait.
func TestDrawnSlots(t *testing.T) {
	longform.None(t)
	holds, waiting := map[time.Duration]int{}, 0
	for _, b := range drawn(t, Wide) {
		s := again(t, b, Slots)
		h := s.Load.Hold
		holds[h.Mean]++
		jobs, requests := s.Offered()*s.Capacity()/s.MeanCost(), b.Offered()*b.Capacity()/b.MeanCost()
		if b.Load.Clients != nil { // whose thinking is the load
			jobs = requests
		}
		longest := max(s.Warmup.Seconds()/leastHolds, b.MeanCost()/b.LimitOf().Rate, minHold) * 1.5
		if math.Abs(jobs-requests) > 0.01*requests || h.Mean.Seconds() > longest ||
			s.LimitOf().Kind != lease.KindSlots || s.Load.Cost != 1 {
			t.Errorf("%v jobs/s, and requests %v\n%s%s", jobs, requests, s.Text(), b.Text())
		}
		if s.Load.Patience > 0 {
			waiting++
		}
		s.Name, s.Seed, s.Policy = b.Name, b.Seed, b.Policy
		s.Load.Hold, s.Load.Patience = nil, b.Load.Patience
		s.Load.Cost, s.Load.Costs = b.Load.Cost, b.Load.Costs
		s.Balance.Service = b.Balance.Service
		s.SetLimit(b.LimitOf())
		if s.Text() != b.Text() {
			t.Errorf("with slots it is another scene:\n%s%s", s.Text(), b.Text())
		}
	}
	if n := len(drawn(t, Wide)); len(holds) < 10 || waiting < n/2 || waiting > n*9/10 {
		t.Errorf("%d lengths of jobs, %d of %d scenes wait", len(holds), waiting, n)
	}
}

// A second limit is drawn from a stream of its own, too, and requests are as many as before.
func TestDrawnPairs(t *testing.T) {
	longform.None(t)
	quotas, narrower := 0, 0
	for _, b := range drawn(t, Wide) {
		p := again(t, b, Pairs)
		limits := p.Limits()
		if len(limits) != 2 || limits[0].Limit != b.LimitOf() || limits[0].Number != b.Keys.Number ||
			limits[0].Skew != b.KeySkew {
			t.Fatalf("%s: %+v of %v, %d keys", p.Name, limits, b.LimitOf(), b.Keys.Number)
		}
		if second := limits[1].Limit; second.Burst < b.Burst {
			t.Errorf("%s: what fits %v does not fit %v", p.Name, b.LimitOf(), second)
		} else if second.Kind == lease.KindQuota {
			quotas++
		}
		if p.Capacity() < b.Capacity() {
			narrower++
		}
		if x, y := p.RequestRate(), b.RequestRate(); math.Abs(x-y) > 1e-9*y {
			t.Errorf("%s: %v requests/s, were %v", p.Name, x, y)
		}
		p.Name, p.Keys, p.KeySkew, p.Load.Patience, p.Load.Offered = b.Name, b.Keys, b.KeySkew,
			b.Load.Patience, b.Load.Offered
		p.SetLimit(b.LimitOf())
		if p.Text() != b.Text() {
			t.Errorf("with a second limit it is another scene:\n%s%s", p.Text(), b.Text())
		}
	}
	n := len(drawn(t, Wide))
	if quotas < n/4 || quotas > n/2 || narrower < n/2 || narrower > n*9/10 {
		t.Errorf("of %d scenes %d have a quota, and in %d the second limit is the narrower one", n,
			quotas, narrower)
	}
}

// Where all callers wait nothing else of a scene is another one, but that processes are not on in
// turn. As many wait as can when the measurement begins.
func TestDrawnWaits(t *testing.T) {
	longform.None(t)
	apart := 0
	for _, class := range []Class{Wide, Near} {
		for _, b := range drawn(t, class) {
			w := again(t, b, Waits)
			patience := w.Load.Patience.Seconds()
			if patience < minWait-1e-3 || patience > maxWait || w.Balance.OnOff != nil || !w.Waits {
				t.Errorf("%s: callers wait for %v s", w.Name, patience)
			}
			if w.Redis.Apart > 0 {
				apart++
			}
			full := patience / (w.Load.Offered - 1)
			if b.Load.Clients == nil && (w.Load.Offered < minWaiting || w.Warmup.Seconds() < full) {
				t.Errorf("%s: %v of the limit, warm after %v", w.Name, w.Load.Offered, w.Warmup)
			}
			w.Name, w.Seed, w.Policy, w.Load = b.Name, b.Seed, b.Policy, b.Load
			w.Warmup, w.Duration = b.Warmup, b.Duration
			w.Balance.OnOff, w.Redis.Apart, w.Redis.Timeout = b.Balance.OnOff, 0, b.Redis.Timeout
			if w.Text() != b.Text() {
				t.Errorf("where callers wait it is another scene:\n%s%s", w.Text(), b.Text())
			}
		}
	}
	if n := len(drawn(t, Wide)) + len(drawn(t, Near)); apart < n/2 || apart > n*4/5 {
		t.Errorf("in %d of %d scenes processes are at several distances", apart, n)
	}
}
