package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// queued has so many callers of each class wait at each process at all times. It returns what was
// admitted by class in windows of 2 s after the first, as parts of the Rate.
func (f classFleet) queued(seed uint64, callers int) (windows [][lease.MaxClasses]float64, s *simulation) {
	f.offered = 1e-9
	s = f.begin(seed)
	s.resolved = func(p *process, w *lease.Waiter) {
		s.after(time.Millisecond, func() { f.wait(s, p, w.Class) })
	}
	for i, p := range s.procs {
		p.holder.Divide(f.classes)
		for c := range f.classes {
			if f.part(i, c, 0) > 0 {
				for range callers {
					s.after(s.exponential(1000), func() { f.wait(s, p, uint8(c)) })
				}
			}
		}
	}
	var last [lease.MaxClasses]float64
	for at := 2 * time.Second; at <= f.duration; at += 2 * time.Second {
		s.play(at)
		var sum, window [lease.MaxClasses]float64
		for c := range f.classes {
			for _, p := range s.procs {
				sum[c] += p.byClass[c]
			}
			window[c] = (sum[c] - last[c]) / (2 * f.limit.Rate)
		}
		last = sum
		windows = append(windows, window)
	}
	return windows[1:], s
}

// wait is a caller of Classed.Wait.
func (f classFleet) wait(s *simulation, p *process, class uint8) {
	p.holder.As(class)
	if p.holder.Take(s.now, 1) == lease.Admitted {
		p.byClass[class]++
		s.admit(p)
		s.resolved(p, &lease.Waiter{Class: class})
	} else {
		p.holder.Enter(&lease.Waiter{N: 1, Class: class, Until: s.now + time.Hour})
	}
	if p.holder.Due(s.now) {
		s.poll(p)
	}
}

// TestClassQueues: where callers of all classes wait at all times, each class has its floor, and
// the rest goes by weight, with leases and without.
func TestClassQueues(t *testing.T) {
	everywhere := func(p, class int, now time.Duration) float64 { return 1 }
	apart := func(p, class int, now time.Duration) float64 {
		if p%3 == class {
			return 1
		}
		return 0
	}
	for _, scene := range []struct {
		name  string
		limit lease.Limit
		mode  lease.Mode
		procs int
		part  func(p, class int, now time.Duration) float64
		off   float64 // by how much a class may miss its part in the mean, and a floor in 2 s
		calls float64 // a second
	}{
		{"a lease", lease.Limit{Rate: 1000, Burst: 200}, lease.Auto, 1, everywhere, 0.01, 20},
		{"leases", lease.Limit{Rate: 1000, Burst: 200}, lease.Auto, 4, everywhere, 0.015, 40},
		{"leases of one class", lease.Limit{Rate: 1000, Burst: 200}, lease.Auto, 4, apart, 0.01, 40},
		{"small", lease.Limit{Rate: 100, Burst: 10}, lease.Auto, 4, everywhere, 0.1, 280},
		{"small, of one class", lease.Limit{Rate: 100, Burst: 10}, lease.Auto, 4, apart, 0.1, 280},
		{"calls", lease.Limit{Rate: 1000, Burst: 200}, lease.PerRequest, 1, everywhere, 0.02, 700},
	} {
		f := classFleet{
			fleet: fleet{
				limit: scene.limit, policy: lease.Policy{Mode: scene.mode}, procs: scene.procs,
				rtt: time.Millisecond, timeout: 250 * time.Millisecond,
				duration: longform.Of(12*time.Second, 40*time.Second),
			},
			classes: threeClasses, part: scene.part,
		}
		windows, s := f.queued(1, 50)
		var mean, least [lease.MaxClasses]float64
		for i, w := range windows {
			for c := range f.classes {
				if mean[c] += w[c] / float64(len(windows)); i == 0 || w[c] < least[c] {
					least[c] = w[c]
				}
			}
		}
		calls := float64(s.calls) / f.duration.Seconds()
		t.Logf("%s: %.3f in the mean, %.3f in 2 s at worst, %.0f calls/s", scene.name, mean[:3],
			least[:3], calls)
		for c, part := range []float64{0.5, 0.4, 0.1} {
			if math.Abs(mean[c]-part) > scene.off || least[c] < f.classes[c].Floor-scene.off {
				t.Errorf("%s: class %d has %.3f in the mean, %.3f in 2 s at worst, not %v", scene.name,
					c, mean[c], least[c], part)
			}
		}
		if calls > scene.calls || s.excess > 1 {
			t.Errorf("%s: %.0f calls/s, excess %v", scene.name, calls, s.excess)
		}
	}
}

// TestClassDeniedForItself: where each request asks, a class is denied for itself.
func TestClassDeniedForItself(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(threeClasses)
	shape := lease.Slice
	ask := func(class uint8, taken float64, retry time.Duration) {
		t.Helper()
		if h.As(class); h.Take(now, 1) != lease.Pending {
			t.Fatalf("a request of class %d is denied for another one", class)
		}
		h.Enter(&lease.Waiter{N: 1, Class: class})
		q, ok := h.Request(now)
		if !ok || q.ByClass.First != int(class) || q.Take != 1 {
			t.Fatalf("asks %v for class %d, %v tokens", ok, q.ByClass.First, q.Take)
		}
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Taken: taken, RetryAfter: retry, Contended: true, Dry: true, Expires: time.Second,
			Limit: thousand, Holders: 2, Shape: shape, Rate: 1, Burst: 1, Keep: 1, Refresh: time.Second,
		})
		h.Ready(now)
	}
	ask(2, 0, time.Second)
	if h.As(0); h.Take(now, 1) != lease.Denied {
		t.Error("the denial of a slice is not of all classes")
	}
	h.Enter(&lease.Waiter{N: 1, Class: 2, Until: now + time.Hour})
	h.Probe(now, true)
	q, _ := h.Request(now)
	h.Handle(now, lease.Reply{Seq: q.Seq, Taken: 1, Contended: true, Dry: true, Limit: thousand, Holders: 2})
	h.Ready(now)
	shape = lease.None
	ask(2, 0, 100*time.Millisecond)
	ask(0, 1, 0)
	ask(1, 0, 50*time.Millisecond)
	now += 60 * time.Millisecond
	if h.As(2); h.Take(now, 1) != lease.Denied {
		t.Error("the denial of the lowest class has ended with others' answers")
	}
	ask(1, 1, 0)
	now += 50 * time.Millisecond
	ask(2, 1, 0)
}

// TestClassDeadlines: a deadline counts the callers of its class, where credits divide the lease,
// and those of higher classes where nothing does.
func TestClassDeadlines(t *testing.T) {
	for _, contended := range []bool{false, true} {
		h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
		h.Divide(threeClasses)
		h.Enter(&lease.Waiter{N: 1})
		q, _ := h.Request(now)
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Taken: 1, Burst: 100, Keep: 100, Rate: 100, Shape: lease.Slice, Contended: contended,
			Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute, RetryAfter: time.Minute,
			Dry: true, Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 4, 65535 / 4}, Limit: thousand,
			Holders: 2, Pool: lease.Pool{Room: 900},
		})
		h.Ready(now)
		for range 100 {
			h.Enter(&lease.Waiter{N: 1, Class: 0, Until: now + time.Hour})
			h.Enter(&lease.Waiter{N: 1, Class: 2, Until: now + time.Hour})
		}
		at := func(class uint8) time.Duration {
			h.As(class)
			return h.RetryAfter(now, 1).Round(time.Millisecond)
		}
		want := []time.Duration{101 * time.Millisecond, 101 * time.Millisecond, 201 * time.Millisecond}
		if contended {
			want = []time.Duration{2020 * time.Millisecond, 40 * time.Millisecond, 4040 * time.Millisecond}
		}
		for class, want := range want {
			if got := at(uint8(class)); got != want {
				t.Errorf("contended %v: class %d after %v, not %v", contended, class, got, want)
			}
		}
	}
}

// classedSlice is a holder with a slice of 40/s, which classes of half of it each divide.
func classedSlice(t *testing.T, now time.Duration) *lease.Holder {
	h := lease.NewHolder("a", thousand, &lease.Policy{}, 1)
	h.Divide([]lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}})
	h.Enter(&lease.Waiter{N: 1, Class: 1})
	q, ok := h.Request(now)
	if !ok {
		t.Fatal("asks for nothing")
	}
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 40, Burst: 40, Keep: 40, Rate: 40, Shape: lease.Slice, Contended: true,
		Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute, RetryAfter: time.Minute, Dry: true,
		Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
	})
	h.Ready(now)
	return h
}

// TestClassReserves: a reservation is paid from the credit of its class.
func TestClassReserves(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	h.As(0)
	if _, v := h.Reserve(now, 15); v != lease.Admitted {
		t.Fatal(v)
	}
	if h.As(1); h.Take(now, 19) != lease.Admitted {
		t.Error("the low class has not its half beside what the high one has reserved")
	}
}

// TestClassHasWhatItReserves: tokens that the ledger has put into a lease for callers that reserve
// them are for those callers, whatever the part of their class, and for nobody else. What the lease
// gets beside has its credits.
func TestClassHasWhatItReserves(t *testing.T) {
	for _, c := range []struct {
		name   string
		n, add float64
		late   time.Duration // of the answer
		served int           // of three callers
		left   float64       // in the lease then, for the higher class
	}{
		{"one for each", 1, 3, 0, 3, 0},
		{"for two", 1, 2.75, 0, 2, 0.75},
		{"for the first", 4, 4, 0, 1, 0},
		{"for two of four", 4, 11, 0, 2, 2}, // the caller of the higher class has 1 of 3
		{"for nobody", 4, 3, 0, 0, 2},
		{"too late", 1, 3, time.Second, 0, 0},
	} {
		h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
		h.Divide([]lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}})
		high := lease.Waiter{N: 1, Class: 0, Until: now + time.Hour}
		h.Enter(&high)
		q, _ := h.Request(now)
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Contended: true, RetryAfter: time.Minute, Limit: thousand, Holders: 2,
		})
		waiters := make([]lease.Waiter, 3)
		for i := range waiters {
			waiters[i] = lease.Waiter{N: c.n, Class: 1, Hold: lease.WhileOpen, Until: now + time.Hour}
			h.Enter(&waiters[i])
		}
		if q, _ = h.Request(now); q.ByClass.First != 1 {
			t.Fatal("asks for the class that is denied")
		}
		now += c.late
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Add: c.add, Burst: 20, Shape: lease.Batch, Contended: true, Dry: true,
			Refresh: time.Second / 2, Expires: time.Second, RetryAfter: time.Second,
			Limit: thousand, Holders: 2,
			Parts: [lease.MaxClasses]uint16{65535 * 3 / 4, 65535 / 4},
		})
		h.Ready(now)
		served := 0
		for served < len(waiters) && waiters[served].Verdict == lease.Admitted {
			served++
		}
		if served != c.served || h.Reserving() != float64(c.served)*c.n || h.Lease(now).Tokens != c.left {
			t.Errorf("%s: %d are served, %v reserved, %v left", c.name, served, h.Reserving(), h.Lease(now).Tokens)
		}
		for i := served; i < len(waiters); i++ {
			h.Withdraw(now, &waiters[i])
		}
		h.Withdraw(now, &high)
		if h.As(1); h.Take(now, 1) == lease.Admitted {
			t.Errorf("%s: the class has more than its callers have reserved", c.name)
		}
		if h.As(0); c.left >= 1 && h.Take(now, c.left) != lease.Admitted || h.Take(now, 1) == lease.Admitted {
			t.Errorf("%s: the higher class has not what is left, or more", c.name)
		}
		if served > 0 { // what comes back is anybody's
			h.Release(now, waiters[0].Reserved, c.n)
			if h.As(1); h.Take(now, c.n) != lease.Admitted {
				t.Errorf("%s: what comes back is of no use", c.name)
			}
		}
	}
}

// TestClassSaves: a class saves for a request that is larger than its part of the lease.
func TestClassSaves(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	large := &lease.Waiter{N: 28, Class: 0, Until: now + time.Minute}
	h.Enter(large)
	for range 100 {
		now += 10 * time.Millisecond
		for h.As(1); h.Take(now, 1) == lease.Admitted; {
		}
		h.Ready(now)
	}
	if large.Verdict != lease.Admitted {
		t.Error("a large request of the high class has waited for a second")
	}
}

// TestClassCreditsEnd: with the lease its credits end: a new lease has those of its own tokens.
func TestClassCreditsEnd(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	now += 2 * time.Minute
	h.As(0)
	if h.Take(now, 1) != lease.Pending {
		t.Fatal("the lease has not ended")
	}
	h.Enter(&lease.Waiter{N: 1, Class: 0})
	q, _ := h.Request(now)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 4, Burst: 40, Keep: 40, Rate: 4, Shape: lease.Slice, Contended: true,
		Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute, RetryAfter: time.Minute, Dry: true,
		Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
	})
	h.Ready(now)
	if h.As(1); h.Take(now, 2) != lease.Admitted {
		t.Error("the low class has not its half of the 4 tokens of the new lease")
	}
}

// TestClassFloorsBesideLarge: callers of the lower class wait for 100 tokens each, and the pool
// earmarks tokens for them. What slices give up for that is not of the floor of the higher class.
func TestClassFloorsBesideLarge(t *testing.T) {
	f := classFleet{
		fleet: fleet{
			limit: lease.Limit{Rate: 1000, Burst: 2000}, offered: 1e-9, procs: 4, rtt: time.Millisecond,
			timeout: 250 * time.Millisecond,
		},
		classes: []lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}},
		loads:   []float64{0.443, 1e-6}, part: parts[0].part,
	}
	got, of := 0.0, 0.0
	for seed := range uint64(6) {
		s := f.begin(seed + 1)
		ask := func(p *process) {
			p.holder.As(1)
			if p.holder.Take(s.now, 100) == lease.Admitted {
				s.resolved(p, &lease.Waiter{Class: 1})
			} else {
				p.holder.Enter(&lease.Waiter{N: 100, Class: 1, Until: s.now + time.Hour})
			}
			if p.holder.Due(s.now) {
				s.poll(p)
			}
		}
		s.resolved = func(p *process, w *lease.Waiter) {
			if w.Class == 1 {
				s.after(time.Millisecond, func() { ask(p) })
			}
		}
		var offered [lease.MaxClasses]float64
		for i, p := range s.procs {
			p.holder.Divide(f.classes)
			f.arrive(s, p, i, 0, &offered)
			for range 5 {
				s.resolved(p, &lease.Waiter{Class: 1})
			}
		}
		s.play(10 * time.Second)
		high := func() (n float64) {
			for _, p := range s.procs {
				n += p.byClass[0]
			}
			return n
		}
		before, came := high(), offered[0]
		s.play(20 * time.Second)
		got, of = got+high()-before, of+offered[0]-came
	}
	t.Logf("%.3f of what comes of the high class", got/of)
	if got < 0.95*of || of < 24_000 {
		t.Errorf("of the high class %v of %v requests are admitted in six plays of 10 s", got, of)
	}
}
