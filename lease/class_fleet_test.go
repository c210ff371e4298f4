package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// threeClasses are of a limit of which two have floors.
var threeClasses = []lease.Class{
	{Name: "critical", Floor: 0.5}, {Name: "normal", Floor: 0.2, Weight: 2},
	{Name: "batch", Weight: 1},
}

// A classFleet is a fleet whose requests have classes.
type classFleet struct {
	fleet
	classes []lease.Class
	loads   []float64                                     // offered by class, as a part of the Rate
	part    func(p, class int, now time.Duration) float64 // of it that comes to a process
	without int                                           // last processes, without classes
}

// A classWindow is what came of a class in some time, in tokens.
type classWindow struct{ offered, admitted [lease.MaxClasses]float64 }

// run returns the windows of 2 s after the first, and what all together admitted of what an ideal
// bucket did.
func (f classFleet) run(seed uint64) (windows []classWindow, s *simulation) {
	windows, s = f.play(seed, 2*time.Second)
	return windows[1:], s
}

// play returns windows of a length.
func (f classFleet) play(seed uint64, window time.Duration) (windows []classWindow, s *simulation) {
	f.offered = 1e-9
	s = f.begin(seed)
	var offered [lease.MaxClasses]float64
	for i, p := range s.procs {
		if i < len(s.procs)-f.without {
			p.holder.Divide(f.classes)
		}
		for c := range f.classes {
			f.arrive(s, p, i, c, &offered)
		}
	}
	var last classWindow
	for at := window; at <= f.duration; at += window {
		s.play(at)
		sum := classWindow{offered: offered}
		for _, p := range s.procs {
			for c := range sum.admitted {
				sum.admitted[c] += p.byClass[c]
			}
		}
		w := sum
		for c := range w.offered {
			w.offered[c] -= last.offered[c]
			w.admitted[c] -= last.admitted[c]
		}
		last = sum
		windows = append(windows, w)
	}
	return windows, s
}

// arrive schedules the next request of a class at p: those that do not come to p are left out.
func (f classFleet) arrive(
	s *simulation, p *process, i, class int, offered *[lease.MaxClasses]float64,
) {
	s.after(s.exponential(f.loads[class]*f.limit.Mean()), func() {
		if s.rng.Float64() < f.part(i, class, s.now) {
			offered[class]++
			f.request(s, p, class)
		}
		f.arrive(s, p, i, class, offered)
	})
}

func (f classFleet) request(s *simulation, p *process, class int) {
	p.offered++
	if s.ideal.take(s.now, 1) {
		p.ideal++
	}
	p.holder.As(uint8(class))
	switch p.holder.Take(s.now, 1) {
	case lease.Admitted:
		p.byClass[p.holder.Asking()]++
		s.admit(p)
	case lease.Pending:
		s.waits++
		p.holder.Enter(&lease.Waiter{N: 1, Class: p.holder.Asking()})
	}
	if p.holder.Due(s.now) {
		s.poll(p)
	}
}

// lack is how far below min(demand, floor) the classes were at worst in a window, and in the mean
// of all, as parts of the Rate.
func (f classFleet) lack(windows []classWindow) (worst, mean float64) {
	var sum classWindow
	for _, w := range windows {
		for c, class := range f.classes {
			tokens := f.limit.Rate * 2
			worst = max(worst, min(w.offered[c]/tokens, class.Floor)-w.admitted[c]/tokens)
			sum.offered[c] += w.offered[c]
			sum.admitted[c] += w.admitted[c]
		}
	}
	for c, class := range f.classes {
		tokens := f.limit.Rate * 2 * float64(len(windows))
		mean = max(mean, min(sum.offered[c]/tokens, class.Floor)-sum.admitted[c]/tokens)
	}
	return worst, mean
}

// plain is how many calls the same fleet makes without classes.
func (f classFleet) plain(seed uint64) float64 {
	f.without = f.procs
	_, s := f.run(seed)
	return float64(s.calls)
}

// parts are how the demand of a class comes to four processes.
var parts = []struct {
	name        string
	part        func(p, class int, now time.Duration) float64
	worst, mean float64 // what a class may lack
}{
	{"to all alike", func(p, class int, now time.Duration) float64 { return 0.25 }, 0.025, 0.006},
	{"to one or two each", func(p, class int, now time.Duration) float64 {
		switch {
		case p%3 != class:
			return 0
		case class == 0:
			return 0.5
		}
		return 1
	}, 0.03, 0.007},
	{"moves each second", func(p, class int, now time.Duration) float64 {
		if (int(now/time.Second)+class)*3%4 == p {
			return 0.7
		}
		return 0.1
	}, 0.03, 0.012},
}

// playsDiffer is twice the standard deviation of what a floor lacks in the mean of a play.
const playsDiffer = 0.004

// TestClassFloors: each class gets its floor, or what it asks for if that is less, in each window
// of 2 s, however its demand comes to four processes. A floor that is not asked for is lent: all
// that an ideal bucket admits is admitted. Above the limit the rest goes by weight.
func TestClassFloors(t *testing.T) {
	for _, p := range parts {
		for _, load := range []float64{0.5, 1, 2, 5} {
			for _, mix := range [][]float64{{1. / 3, 1. / 3, 1. / 3}, {0.2, 0.2, 0.6}, {0.6, 0.1, 0.3}} {
				f := classFleet{
					fleet: fleet{
						limit: lease.Limit{Rate: 1000, Burst: 200}, procs: 4,
						rtt: time.Millisecond, timeout: 250 * time.Millisecond,
						duration: 12 * time.Second,
					},
					classes: threeClasses, part: p.part,
				}
				for _, part := range mix {
					f.loads = append(f.loads, load*part)
				}
				windows, s := f.run(1)
				worst, mean := f.lack(windows)
				calls, plain := float64(s.calls), f.plain(1)
				plays := longform.Of(1, 4)
				o := s.outcome()
				for seed := uint64(2); seed <= uint64(plays); seed++ {
					windows, s := f.run(seed)
					w, m := f.lack(windows)
					worst, mean = max(worst, w), mean+m
					calls, plain = calls+float64(s.calls), plain+f.plain(seed)
					o.excess = max(o.excess, s.excess)
				}
				mean /= float64(plays)
				t.Logf("%s, %.2f: %.3f of the ideal, floors lack %.3f at worst, %.3f in the mean, "+
					"%.2f times the calls", p.name, f.loads, o.util, worst, mean, calls/plain)
				if worst > p.worst || mean > p.mean+playsDiffer/math.Sqrt(float64(plays)) || o.util < 0.975 || o.excess > 1 {
					t.Errorf("%s, %v: %.3f of the ideal, floors lack %.3f at worst, %.3f in the mean; excess %v",
						p.name, f.loads, o.util, worst, mean, o.excess)
				}
				normal, batch := windows[2].admitted[1], windows[2].admitted[2]
				if load == 5 && p.mean < 0.01 && (normal < 740 || normal > 860 || batch < 140 || batch > 260) {
					t.Errorf("%s, %v: %v and %v of 2000, not 800 and 200", p.name, f.loads, normal, batch)
				}
			}
		}
	}
}

// TestClassCalls: where the demand of three classes moves each second, they need at most 1.3 times
// the calls of no classes. In the worst 2 s of a play a floor lacks at most a point, in the mean.
func TestClassCalls(t *testing.T) {
	for _, load := range []float64{0.5, 1, 2, 5} {
		f := classFleet{
			fleet: fleet{
				limit: lease.Limit{Rate: 1000, Burst: 200}, procs: 4,
				rtt: 400 * time.Microsecond, timeout: 250 * time.Millisecond, duration: 20 * time.Second,
			},
			classes: threeClasses, loads: []float64{load / 3, load / 3, load / 3}, part: parts[2].part,
		}
		calls, plain, lacks, plays := 0.0, 0.0, 0.0, longform.Of(6, 40)
		for seed := range uint64(plays) {
			windows, s := f.run(seed + 1)
			worst, _ := f.lack(windows)
			lacks += worst / float64(plays)
			calls, plain = calls+float64(s.calls), plain+f.plain(seed+1)
		}
		t.Logf("load %v: %.2f times the calls, a floor lacks %.4f in the worst 2 s",
			load, calls/plain, lacks)
		if calls > 1.3*plain || lacks > 0.01 {
			t.Errorf("load %v: %v calls, without classes %v; a floor lacks %v in the worst 2 s", load,
				calls, plain, lacks)
		}
	}
}

// TestClassAlone: a class alone gets all, and the other ones' floors are back at once.
func TestClassAlone(t *testing.T) {
	longform.None(t)
	f := classFleet{
		fleet: fleet{
			limit: lease.Limit{Rate: 1000, Burst: 200}, procs: 4,
			rtt: time.Millisecond, timeout: 250 * time.Millisecond, duration: 12 * time.Second,
		},
		classes: threeClasses, loads: []float64{1, 0, 3},
		part: func(p, class int, now time.Duration) float64 {
			if class == 0 && (p != 3 || now < 6*time.Second) || class == 2 && p == 3 {
				return 0
			}
			return 1. / 3
		},
	}
	f.loads[1] = 1e-6
	const plays = 12
	first, then := 0.0, 0.0 // means: in the 2 s in which critical comes back a play has 0.72 to 0.94
	for seed := range uint64(plays) {
		windows, s := f.run(seed)
		if alone := windows[0].admitted[2]; alone < 1980 {
			t.Errorf("seed %d: batch alone has %v of 2000", seed, alone)
		}
		if windows[2].offered[0] < 500 {
			t.Fatalf("seed %d: critical has not come back", seed)
		}
		first += windows[2].admitted[0] / windows[2].offered[0] / plays
		then += windows[3].admitted[0] / windows[3].offered[0] / plays
		if o := s.outcome(); o.util < 0.98 {
			t.Errorf("seed %d: %.3f of the ideal", seed, o.util)
		}
	}
	if first < 0.79 || then < 0.965 {
		t.Errorf("critical has %.3f in the 2 s in which it comes back, and %.3f then", first, then)
	}
}

// TestClassesBesideNone: a process whose requests have no classes has its part of the Rate by its
// demand, as before, and classes divide the rest.
func TestClassesBesideNone(t *testing.T) {
	f := classFleet{
		fleet: fleet{
			limit: lease.Limit{Rate: 1000, Burst: 200}, procs: 4,
			rtt: time.Millisecond, timeout: 250 * time.Millisecond, duration: 12 * time.Second,
		},
		classes: threeClasses, loads: []float64{1, 1, 2}, without: 1,
		part: func(p, class int, now time.Duration) float64 { return 0.25 },
	}
	_, s := f.run(1)
	var by [lease.MaxClasses]float64
	for _, p := range s.procs[:3] {
		for c := range by {
			by[c] += p.byClass[c] / 12000
		}
	}
	none := s.procs[3].byClass[0] / 12000
	if none < 0.22 || none > 0.30 {
		t.Errorf("without classes: %.3f of the Rate", none)
	}
	if by[0] < 0.46 || by[1] < 0.17 || by[2] > 0.09 {
		t.Errorf("with classes: %.3f of the Rate", by[:3])
	}
}

// TestClassGuard: where each request asks, the pool keeps tokens for a class that wants no more
// than its floor while another takes all that it can.
func TestClassGuard(t *testing.T) {
	f := classFleet{
		fleet: fleet{
			limit: lease.Limit{Rate: 1000, Burst: 200}, policy: lease.Policy{Mode: lease.PerRequest},
			procs: 4, rtt: time.Millisecond, timeout: 250 * time.Millisecond, duration: 8 * time.Second,
		},
		classes: threeClasses, loads: []float64{0.3, 1e-6, 3},
		part: func(p, class int, now time.Duration) float64 {
			if (class == 0) != (p == 0) {
				return 0
			}
			return 1
		},
	}
	windows, _ := f.run(1)
	for _, w := range windows {
		if w.admitted[0] < 0.97*w.offered[0] {
			t.Errorf("critical has %v of %v", w.admitted[0], w.offered[0])
		}
	}
}

// TestClassesOfOneToken: a bucket of one token is used up, too.
func TestClassesOfOneToken(t *testing.T) {
	f := classFleet{
		fleet: fleet{
			limit: lease.Limit{Rate: 10, Burst: 1}, procs: 1, rtt: time.Millisecond,
			timeout: 250 * time.Millisecond, duration: 20 * time.Second,
		},
		classes: threeClasses, loads: []float64{0.2, 1e-6, 2}, part: func(int, int, time.Duration) float64 { return 1 },
	}
	if _, s := f.run(1); s.outcome().util < 0.95 {
		t.Errorf("%.3f of the ideal", s.outcome().util)
	}
}

// TestClassFloorsOfLargeBursts: floors are kept also where a lease may hold more than a second
// brings: what is kept for the noise of modest classes is no more than they can use.
func TestClassFloorsOfLargeBursts(t *testing.T) {
	longform.None(t)
	const seeds = 3
	for _, burst := range []int64{1000, 5000, 20_000} {
		f := classFleet{
			fleet: fleet{
				limit: lease.Limit{Rate: 1000, Burst: burst}, procs: 4, rtt: time.Millisecond,
				timeout: 250 * time.Millisecond, duration: 20 * time.Second,
			},
			classes: threeClasses, loads: []float64{0.8, 0.4, 2.8}, part: parts[0].part,
		}
		worst, mean, excess := 0.0, 0.0, 0.0
		for seed := range uint64(seeds) {
			windows, s := f.run(seed + 1)
			w, m := f.lack(windows[len(windows)-4:])
			worst, mean, excess = worst+w/seeds, mean+m/seeds, max(excess, s.excess)
		}
		t.Logf("burst %d: floors lack %.3f at worst, %.3f in the mean", burst, worst, mean)
		if worst > 0.03 || mean > 0.02 || excess > 1 {
			t.Errorf("burst %d: floors lack %.3f at worst, %.3f in the mean; excess %v", burst, worst, mean,
				excess)
		}
	}
}
