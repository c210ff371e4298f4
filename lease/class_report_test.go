package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A reported fleet looks when a request comes, and reports what the request has cost when it has
// been served, at any process.
type reported struct {
	classFleet
	serves time.Duration // how long a request takes in the mean
	cost   float64       // of a request in the mean
}

// run returns what was used by class in all windows of 2 s, and how far the tokens used were above
// the envelope of those that a Take admits, at most.
func (f reported) run(seed uint64) (windows []classWindow, over float64) {
	f.offered = 1e-9
	s := f.begin(seed)
	var offered, used [lease.MaxClasses]float64
	spent := bucket{limit: f.limit}
	book := func(class uint8, n float64) {
		used[class] += n
		over = max(over, spent.pour(s.now, n)-float64(f.limit.Burst))
	}
	s.resolved = func(p *process, w *lease.Waiter) {
		if w.Verdict != lease.Admitted {
			p.holder.As(w.Class)
			p.holder.Charge(s.now, w.N)
		}
		book(w.Class, w.N)
	}
	for i, p := range s.procs {
		p.holder.Divide(f.classes)
		for c := range f.classes {
			f.look(s, p, i, uint8(c), &offered, book)
		}
	}
	last := classWindow{}
	for at := 2 * time.Second; at <= f.duration; at += 2 * time.Second {
		s.play(at)
		w := classWindow{offered: offered, admitted: used}
		for c := range w.offered {
			w.offered[c] -= last.offered[c]
			w.admitted[c] -= last.admitted[c]
		}
		last = classWindow{offered: offered, admitted: used}
		windows = append(windows, w)
	}
	return windows, over
}

// look schedules the next look of a class at p.
func (f reported) look(
	s *simulation, p *process, i int, class uint8, offered *[lease.MaxClasses]float64,
	book func(class uint8, n float64),
) {
	s.after(s.exponential(f.loads[class]*f.limit.Rate/f.cost), func() {
		f.look(s, p, i, class, offered, book)
		if s.rng.Float64() >= f.part(i, int(class), s.now) {
			return
		}
		offered[class] += f.cost
		p.holder.As(class)
		denied := p.holder.Level(s.now) < 1
		p.holder.Looked(s.now, denied)
		if p.holder.Due(s.now) {
			s.poll(p)
		}
		if denied {
			return
		}
		s.after(s.exponential(1/f.serves.Seconds()), func() {
			at := s.procs[s.rng.IntN(len(s.procs))]
			f.report(s, at, class, math.Ceil(s.exponential(1/f.cost).Seconds()), book)
		})
	})
}

// report books what a request has cost: as a Take, and as a Charge if that is denied.
func (f reported) report(
	s *simulation, p *process, class uint8, n float64, book func(class uint8, n float64),
) {
	h := p.holder
	h.As(class)
	switch h.Take(s.now, n) {
	case lease.Admitted:
		book(class, n)
	case lease.Pending:
		h.Enter(&lease.Waiter{N: n, Class: class})
	default:
		h.Charge(s.now, n)
		book(class, n)
	}
	if h.Due(s.now) {
		s.poll(p)
	}
}

// TestClassReports: where requests look, and report what they have cost when they have been served,
// classes have their floors, and what is used above the envelope is at most what was under way.
func TestClassReports(t *testing.T) {
	for _, procs := range []int{1, 2, 4} {
		for _, burst := range []int64{1000, 10_000} {
			for _, loads := range [][]float64{{0.4, 0.1, 0.4}, {0.3, 0.1, 1}, {0.4, 0.3, 3}, {1, 0.5, 3}} {
				f := reported{
					classFleet: classFleet{
						fleet: fleet{
							limit: lease.Limit{Rate: 1000, Burst: burst}, procs: procs, rtt: time.Millisecond,
							timeout: 250 * time.Millisecond, duration: 40 * time.Second,
						},
						classes: threeClasses, loads: loads,
						part: func(p, class int, now time.Duration) float64 { return 1 / float64(procs) },
					},
					serves: 500 * time.Millisecond, cost: 10,
				}
				plays := longform.Of(1, 4)
				worst, mean, above, sum := 0.0, 0.0, 0.0, [3]float64{}
				for seed := range plays {
					windows, over := f.run(uint64(seed + 1))
					windows = windows[2+burst/1000:]
					w, m := f.lack(windows)
					worst, mean, above = max(worst, w), mean+m/float64(plays), max(above, over)
					for _, w := range windows {
						for c := range sum {
							sum[c] += w.admitted[c] / float64(2000*len(windows)*plays)
						}
					}
				}
				t.Logf("%d processes, burst %d, %v: %.3f of the Rate, floors lack %.3f at worst, "+
					"%.3f in the mean; %.0f above", procs, burst, loads, sum, worst, mean, above)
				underWay := (loads[0] + loads[1] + loads[2]) * 1000 * f.serves.Seconds()
				if mean > 0.07 || above > 1.5*underWay {
					t.Errorf("%d processes, burst %d, %v: floors lack %.3f in the mean; %.0f above, %.0f under way",
						procs, burst, loads, mean, above, underWay)
				}
			}
		}
	}
}

// TestClassOwes: a class that has used more than it had owes for itself. It is denied until its
// part of the lease has paid, while another class goes on.
func TestClassOwes(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now) // 40 tokens, and 40/s, of which each class has half
	renewSlice(h, now)
	h.As(1)
	h.Charge(now, 60)
	if math.Abs(h.Owed()-40) > 0.01 || h.Level(now) != 0 || h.Take(now, 1) != lease.Denied {
		t.Errorf("low owes %v, level %d", h.Owed(), h.Level(now))
	}
	if after := h.RetryAfter(now, 1); after < 2*time.Second || after > 2100*time.Millisecond {
		t.Errorf("low is to come after %v, not when 41 have come of its 20/s", after)
	}
	if h.As(0); h.Level(now) != 26 || math.Abs(h.Held()-20) > 0.01 || h.Take(now, 19) != lease.Admitted {
		t.Errorf("high has %d, holds %v", h.Level(now), h.Held())
	}
	for range 5 { // low pays 20/s, and high has as much
		now += 200 * time.Millisecond
		if h.As(0); h.Take(now, 4) != lease.Admitted {
			t.Error("high has not its part while low pays")
		}
		h.Ready(now)
	}
	if h.Owed() < 19 || h.Owed() > 22 {
		t.Errorf("low owes %v after a second, not 20", h.Owed())
	}
	if h.As(1); h.Refund(now, 5) != 5 || h.Owed() > 16 {
		t.Errorf("low owes %v after 5 were forgiven", h.Owed())
	}
	now += time.Second
	if h.Take(now, 1) != lease.Admitted || h.Owed() != 0 {
		t.Errorf("low owes %v when it has paid", h.Owed())
	}
}

// renewSlice has that slice renewed, by an answer that denies nobody: the pool has some more
// tokens.
func renewSlice(h *lease.Holder, now time.Duration) {
	h.Probe(now, true)
	q, _ := h.Request(now)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Burst: 40, Keep: 40, Rate: 40, Shape: lease.Slice, Contended: true,
		Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute,
		Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
		Pool: lease.Pool{Level: 7},
	})
	h.Ready(now)
}

// TestClassOwesIsTold: what a class owes is told to the ledger, once and all of it, when nothing of
// a lease pays any more.
func TestClassOwesIsTold(t *testing.T) {
	for name, end := range map[string]func(h *lease.Holder, now *time.Duration){
		"another kind": func(h *lease.Holder, _ *time.Duration) {
			h.SetLimit(lease.Limit{Burst: 10, Kind: lease.KindQuota, Window: time.Minute})
		},
		"its lease ends":    func(h *lease.Holder, now *time.Duration) { *now += 2 * time.Minute },
		"classes change":    func(h *lease.Holder, _ *time.Duration) { h.Divide(threeClasses) },
		"classes go":        func(h *lease.Holder, _ *time.Duration) { h.Divide(nil) },
		"it is handed back": func(*lease.Holder, *time.Duration) {},
	} {
		now := time.Hour
		h := classedSlice(t, now)
		h.As(1)
		h.Charge(now, 90) // of which the lease pays 20
		end(h, &now)
		var q lease.Request
		var ok bool
		if name == "it is handed back" {
			q, ok = h.Quit(now)
		} else {
			h.Ready(now)
			q, ok = h.Request(now)
		}
		if !ok || q.Debt < 45 || q.Debt > 71 {
			t.Errorf("%s: %v, a debt of %v is told", name, ok, q.Debt)
		}
		if h.Owed() != q.Debt {
			t.Errorf("%s: %v is owed, and %v told", name, h.Owed(), q.Debt)
		}
	}
}

// TestClassOwesWithoutALease: a class that owes asks for a lease that pays, and has none of the
// tokens before. If none is to be had, the debt is told.
func TestClassOwesWithoutALease(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(threeClasses)
	answer := func(q lease.Request) {
		h.Handle(now, lease.Reply{
			Seq: q.Seq, Limit: thousand, Holders: 1, Pool: lease.Pool{Level: 400, Room: 500}, Contended: true,
		})
	}
	h.Probe(now, true)
	q, _ := h.Request(now)
	answer(q)
	for range 50 { // it is worth a lease
		now += time.Millisecond
		h.Take(now, 1)
		h.Ready(now)
	}
	h.As(2)
	h.Charge(now, 100)
	if after := h.RetryAfter(now, 1); h.Take(now, 1) != lease.Denied || after > time.Second {
		t.Errorf("it is admitted, or again after %v", after)
	}
	if r := h.Ready(now); !r.Ask {
		t.Error("nobody is asked who pays")
	}
	for i, debt := range []float64{0, 100} {
		q, ok := h.Request(now)
		if !ok || q.Debt != debt {
			t.Errorf("request %d: %v, a debt of %v", i, ok, q.Debt)
		}
		answer(q)
	}
	if h.Owed() != 0 || h.Level(now) < 399 || h.Take(now, 1) == lease.Denied {
		t.Errorf("%v is owed, level %d", h.Owed(), h.Level(now))
	}
}

// TestClassOwesMuch: of what a class owes the ledger is told what is beyond twice the lease.
// Meanwhile the lease stays, and other classes go on.
func TestClassOwesMuch(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	for i := range 400 {
		now += 5 * time.Millisecond
		h.As(uint8(min(i%20, 1))) // high wants 10/s, low 190/s
		h.Take(now, 1)
		h.Ready(now)
	}
	h.As(1)
	h.Charge(now, 400)
	q, ok := h.Request(now)
	if !ok || q.Debt < 299 || q.Debt > 321 || q.Policy.Mode != lease.Auto {
		t.Errorf("%v: a debt of %v is told, mode %v", ok, q.Debt, q.Policy.Mode)
	}
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Burst: 40, Keep: 40, Rate: 40, Shape: lease.Slice, Contended: true, Dry: true,
		Refresh: time.Minute, RateUntil: time.Minute, Expires: time.Minute, RetryAfter: time.Minute,
		Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
		Pool: lease.Pool{Level: -300},
	})
	now += 100 * time.Millisecond
	if h.As(0); h.Level(now) < 1 || h.Take(now, 1) != lease.Admitted {
		t.Errorf("a debt of another class denies: level %d", h.Level(now))
	}
}

// TestClassPayback: while the pool is below 0 less is lent, and floors come first.
func TestClassPayback(t *testing.T) {
	l, now := new(lease.Ledger), time.Hour
	var r lease.Reply
	for seq := uint64(1); seq < 12; seq++ {
		now += 250 * time.Millisecond
		r = l.Exchange(now, ask("a", seq, func(q *lease.Request) {
			q.Demand, q.Seen, q.Held = 5000, seq-1, 100
			q.ByClass = &lease.ByClass{Classes: threeClasses}
			q.ByClass.Demand = [lease.MaxClasses]float64{400, 0, 4600}
			q.Policy.Batch = lease.MaxBurst
			if seq == 10 {
				q.Debt, q.Since = 5000, seq
			}
		}))
	}
	critical := r.Rate * float64(r.Parts[0]) / 65535
	if r.Pool.Level >= 0 || r.Rate > 600 || critical < 390 {
		t.Errorf("pool %v: %v/s is lent, %v/s of it to a class within its floor", r.Pool.Level, r.Rate, critical)
	}
}

// TestClassOwesThePool: without contention the pool pays at once, as far as it is known to have.
func TestClassOwesThePool(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(threeClasses)
	h.Enter(&lease.Waiter{N: 1, Class: 2})
	q, _ := h.Request(now)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 10, Burst: 10, Keep: 10, Rate: 100, Shape: lease.Slice,
		Refresh: time.Second, RateUntil: time.Second, Expires: 2 * time.Second, Limit: thousand, Holders: 1,
		Parts: [lease.MaxClasses]uint16{2: 65535}, Pool: lease.Pool{Level: 100, Room: 500},
	})
	h.Ready(now)
	h.As(2)
	h.Charge(now, 70)
	h.Ready(now)
	if q, ok := h.Request(now); !ok || q.Debt < 59 || q.Debt > 61 {
		t.Errorf("%v: the ledger is told of %v, not of what the lease has not", ok, q.Debt)
	}
}

// TestClassClings: a lease is kept, though nobody asks, while a class pays what it owes.
func TestClassClings(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	for range 400 {
		now += 5 * time.Millisecond
		h.As(0)
		h.Take(now, 1)
		h.Ready(now)
	}
	renewSlice(h, now)
	h.As(1)
	h.Charge(now, 90)
	for end := now + 3*time.Second; now < end; now += 50 * time.Millisecond {
		if r := h.Ready(now); r.Ask && h.Owed() > 0 {
			t.Fatalf("%v is owed, and the lease goes back before it is due", h.Owed())
		}
	}
	if h.Owed() > 12 {
		t.Errorf("%v is owed: the lease does not pay", h.Owed())
	}
}

// TestLooksAreDemand: looks that find nothing are demand of their class, of its mean cost.
func TestLooksAreDemand(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	h.As(1)
	h.Charge(now, 500)
	for range 200 {
		now += 5 * time.Millisecond
		h.As(1)
		h.Looked(now, h.Level(now) < 1)
		h.Ready(now)
	}
	h.Probe(now, true)
	q, ok := h.Request(now)
	if !ok || q.ByClass.Demand[1] < 50_000 || q.ByClass.Demand[0] != 0 {
		t.Errorf("%v: %v", ok, q.ByClass.Demand[:2])
	}
}

// classDebtMutations take away the rules of what a class owes.
var classDebtMutations = []mutation{
	{"classes", "a class owes for itself", "reserve.go", "	if h.classed {\n		h.byClass().charge(h, n)",
		"	if h.classed && h.at < 0 {\n		h.byClass().charge(h, n)", "TestClassOwes"},
	{"classes", "a class that owes is denied", "class_holder.go", "	if s.owes[class] > 0 {", "	if s.owes[class] > 1e18 {",
		"TestClassOwes"},
	{"classes", "what a class owes is paid by its part", "class_debts.go", "min(owes, s.credited(h, c, true))",
		"min(owes, h.tokens)", "TestClassOwes"},
	{"classes", "what a class owes is told when a limit of another kind comes", "holder.go", "	h.shareDebts()\n", "",
		"TestClassOwesIsTold"},
	{"classes", "what no lease pays is told", "class_debts.go", "return !h.paysByClass() && ", "return h.at < 0 && ",
		"TestClassOwesIsTold"},
	{"classes", "what a class owes is told when classes change", "class_holder.go",
		"	h.shareDebts()\n	for range", "	for range",
		"TestClassOwesIsTold"},
	{"classes", "what a class owes is told when a lease is handed back", "class_holder.go",
		"		h.shareDebts() // no lease will pay\n", "",
		"TestClassOwesIsTold"},
	{"classes", "the pool pays without contention", "class_debts.go", "if !h.contended {", "if h.at < 0 {",
		"TestClassOwesThePool"},
	{"classes", "a lease stays while a class pays", "slots_holder.go", " || h.Owed() > h.debts.owed()", "",
		"TestClassClings"},
	{"classes", "looks that find nothing are demand", "class_debts.go", "denied && m.cost > 0", "denied && m.cost > 1e18",
		"TestLooksAreDemand"},
	{"classes", "without a lease one is asked for first", "class_debts.go", "	if h.paysByClass() {\n		told",
		"	if h.at >= 0 {\n		told", "TestClassOwesWithoutALease"},
	{"classes", "what no answer pays is told", "class_holder.go", "if s.repay(h); !h.paysByClass() {",
		"if s.repay(h); h.at < 0 {", "TestClassOwesWithoutALease"},
	{"classes", "no more is owed apart than a lease may pay", "class_debts.go",
		"told = s.owes[s.asking] - float64(owesApart*h.burst)", "told = 0", "TestClassOwesMuch"},
	{"classes", "a debt that is told denies no class that has its part", "reserve.go",
		"h.debts.indebted() && !h.paysByClass()", "h.debts.indebted()", "TestClassOwesMuch"},
	{"classes", "a pool below 0 is filled", "class.go", "float64(rate*payback)", "float64(rate*0)",
		"TestClassPayback"},
	{"classes", "what a class owes is its demand", "class_holder.go", "		b.Demand[c] += owes\n", "		b.Demand[c] += 0\n",
		"TestOwesIsDemand"},
}

// TestOwesIsDemand: what a class owes is its demand, or its part would be none when it asks no
// more.
func TestOwesIsDemand(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	for i := range 3000 {
		now += time.Millisecond
		if i%1000 == 999 {
			renewSlice(h, now)
		}
		h.As(0)
		h.Take(now, 1)
		h.Ready(now)
	}
	h.As(1)
	h.Charge(now, 90)
	h.Probe(now, true)
	q, ok := h.Request(now)
	if !ok || q.ByClass.Demand[1] < 40 || q.ByClass.Demand[0] < 900 || q.Demand < 1000 {
		t.Errorf("%v: demand %v, by class %v", ok, q.Demand, q.ByClass.Demand[:2])
	}
}
