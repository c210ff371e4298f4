package lease_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// amounts are tokens by class.
type amounts = [lease.MaxClasses]float64

// by are the amounts of the first classes.
func by(tokens ...float64) (list amounts) {
	copy(list[:], tokens)
	return list
}

// newQuotaClassHistory is newQuotaHistory with classes.
func newQuotaClassHistory(seed uint64) *history {
	h := newQuotaHistory(seed)
	h.policy.Fairness = lease.Proportional
	if h.policy.Mode == lease.Batches {
		h.policy.Mode = lease.Shares
	}
	h.classes = threeClasses[:1+h.rng.IntN(3)]
	for i, a := range h.actors {
		a.holder = nil // by that policy
		h.start(a, i)
	}
	return h
}

// checkFloors is Q2: what is kept of floors is in the pool. An old message that is taken for a new
// one counts a lease twice, and the pool has less.
func (h *history) checkFloors() (checked bool) {
	v, kept := h.view(), 0.0
	if v.Lent == nil || h.old {
		return false
	}
	for c, class := range h.classes {
		kept += max(math.Floor(class.Floor*float64(v.Limit.Burst))-v.Lent[c], 0)
	}
	if kept > max(v.Pool, 0) {
		h.fail("Q2: %v tokens are kept for classes, and %v are left: %+v", kept, v.Pool, v)
	}
	return kept > 0
}

// TestQuotaClassInvariants is TestQuotaInvariants with classes: the quota does not know them, and
// what floors keep is always there (Q2).
func TestQuotaClassInvariants(t *testing.T) {
	seeds, kept, full := longform.Histories(600, 4000), 0, 0
	playHistories(t, seeds, newQuotaClassHistory, func(h *history) {
		for range 400 {
			h.run(1)
			if h.err == nil && h.checkFloors() {
				kept++
			}
		}
		full += h.windows.full
	})
	t.Logf("%d histories, a quota was used up %d times, %d steps with floors", seeds, full, kept)
	if full < seeds/4 || kept < 100*seeds {
		t.Error("too few to mean anything")
	}
}

// TestQuotaClassChanges: while quotas and classes change, each window admits at most the largest.
func TestQuotaClassChanges(t *testing.T) {
	playChanges(t, 300, func(seed uint64) *history {
		h := newQuotaClassHistory(seed)
		h.regroups = seed%2 == 0
		return h
	})
}

// TestQuotaClassLostState is TestQuotaLostState with classes.
func TestQuotaClassLostState(t *testing.T) {
	playLostState(t, newQuotaClassHistory, func(h *history) float64 { return h.windows.most })
}

// TestQuotaFloors: whatever others ask, a class gets the lower of its demand and its floor in each
// window, also if it first asks shortly before the window ends. What floors leave goes to whoever
// comes first. While no floor is spared all of the quota is used.
func TestQuotaFloors(t *testing.T) {
	const window = time.Minute
	for _, n := range []int64{100, 1000, 10_000}[:longform.Of(2, 3)] {
		for _, c := range []struct {
			name  string
			loads []float64
			from  float64 // of a window, in which the first class begins to ask
			calls float64 // a request, at most
		}{
			{"less than the floors", []float64{0.4, 0.1, 5}, 0, 0.25},
			{"more than the floors", []float64{2, 2, 5}, 0, 0.15},
			{"late", []float64{1, 0.1, 5}, 0.8, 0.2},
			{"late, and more", []float64{10, 1, 5}, 0.8, 0.15},
			{"only what has no floor", []float64{1e-9, 1e-9, 5}, 0, 0.15},
		} {
			f := classFleet{
				fleet: fleet{
					limit: lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window}, procs: 4,
					rtt: time.Millisecond, timeout: 250 * time.Millisecond, duration: 3 * window,
				},
				classes: threeClasses, loads: c.loads,
				part: func(p, class int, now time.Duration) float64 {
					if class == 0 && float64(now%window) < c.from*float64(window) {
						return 0
					}
					return 0.25
				},
			}
			windows, s := f.play(1, window)
			for i, w := range windows {
				all := 0.0
				for place, class := range threeClasses {
					floor := math.Floor(class.Floor * float64(n))
					if due := min(w.offered[place], floor); w.admitted[place] < due-2 {
						t.Errorf("%d, %s: in window %d %s has %v of %v",
							n, c.name, i, class.Name, w.admitted[place], due)
					}
					all += max(w.admitted[place], floor)
				}
				if all < 0.995*float64(n) {
					t.Errorf("%d, %s: in window %d %v are used, or kept", n, c.name, i, all)
				}
			}
			o := s.outcome()
			t.Logf("%d, %s: %.3f calls a request, %.2f times those without classes",
				n, c.name, o.calls, float64(s.calls)/f.plain(1))
			if o.excess > 0 || o.calls > c.calls {
				t.Errorf("%d, %s: %.3f calls a request, excess %v", n, c.name, o.calls, o.excess)
			}
		}
	}
}

// classedBy is a holder of a process whose requests have classes.
func classedBy(id string, limit lease.Limit, classes []lease.Class) *lease.Holder {
	h := lease.NewHolder(id, limit, &lease.Policy{}, 1)
	h.Divide(classes)
	return h
}

// TestQuotaClassAccounts: when all holders have handed back what they had, the ledger knows exactly
// how much each class has used, and the pool lacks as much.
func TestQuotaClassAccounts(t *testing.T) {
	for seed := range uint64(longform.Of(20, 200)) {
		var l lease.Ledger
		rng := rand.New(rand.NewPCG(seed, 1))
		limit := lease.Limit{Kind: lease.KindQuota, Burst: 200 + rng.Int64N(2000), Window: time.Minute}
		hs := []*lease.Holder{classedBy("a", limit, threeClasses), classedBy("b", limit, threeClasses)}
		used, leases := make([]float64, lease.MaxClasses), 0
		lost := 0.0
		now := noon
		for ; now < noon+20*time.Second; now += time.Duration(rng.IntN(int(8 * ms))) {
			h, class, n := hs[rng.IntN(2)], rng.IntN(3), float64(1+rng.IntN(2))
			h.As(uint8(class))
			w := &lease.Waiter{N: n, Class: uint8(class)}
			if rng.IntN(8) == 0 {
				w.Hold = lease.WhileOpen
			}
			v := h.Take(now, n)
			if v == lease.Pending {
				h.Enter(w)
				talk(t, h, &l, now)
				v = w.Verdict
			}
			if v == lease.Admitted {
				used[class] += n
			}
			if v == lease.Admitted && w.Verdict == lease.Admitted && w.Hold > 0 {
				h.Release(now, w.Reserved, 0)
			}
			if rng.IntN(50) == 0 {
				h.Charge(now, n)
				used[class] += n
			}
			talk(t, h, &l, now)
			for _, r := range l.View().Holders {
				if r.Adds != nil {
					leases++
				}
			}
		}
		for range 3 {
			for _, h := range hs {
				if q, ok := h.Quit(now); ok {
					h.Handle(now, l.Exchange(now, q))
				}
				lost += h.Held()
			}
		}
		if v := l.View(); leases < 50 || lost > 0 || !slices.Equal(v.Lent, used) ||
			v.Pool != float64(limit.Burst)-used[0]-used[1]-used[2] {
			t.Fatalf("seed %d: %v by class were used of %v, and the ledger knows of %v, and has %v; "+
				"%d leases of classes, %v are held", seed, used[:3], limit, v.Lent, v.Pool, leases, lost)
		}
	}
}

// byQuota is a request of a holder of a quota by class.
func byQuota(id string, seq uint64, change func(*lease.Request, *lease.ByClass)) lease.Request {
	q := wants(id, seq, 0, 0)
	q.ByClass = &lease.ByClass{Classes: threeClasses}
	change(&q, q.ByClass)
	return q
}

// TestQuotaClassAlone: of what others leave a class has all, and not what is kept for them. Only
// the one that is asked for is denied.
func TestQuotaClassAlone(t *testing.T) {
	var l lease.Ledger
	batch := byQuota("a", 1, func(q *lease.Request, b *lease.ByClass) { q.Take, b.First = 1000, 2 })
	if r := l.Exchange(noon, batch); r.Taken != 300 || r.Portions.Kept != by(500, 200) {
		t.Errorf("batch has %v, and %v are kept", r.Taken, r.Portions.Kept)
	}
	normal := byQuota("b", 1, func(q *lease.Request, b *lease.ByClass) { q.Take, b.First = 1000, 1 })
	if r := l.Exchange(noon, normal); r.Taken != 200 || r.RetryAfter != time.Minute || r.Dry != true {
		t.Errorf("normal has %+v", r)
	}
	critical := byQuota("c", 1, func(q *lease.Request, b *lease.ByClass) { q.Take = 100 })
	if r := l.Exchange(noon, critical); r.Taken != 100 || r.Dry || r.Pool.Level != 400 {
		t.Errorf("critical has %+v", r)
	}
	if lent := l.View().Lent; !slices.Equal(lent[:3], []float64{100, 200, 300}) {
		t.Errorf("%v by class are known", lent)
	}
}

// TestClassesStand: what a holder has told of its classes stands while it tells nothing new, as its
// record is all that a server knows of it. It goes with its lease.
func TestClassesStand(t *testing.T) {
	for _, limit := range []lease.Limit{thousand, minute} {
		var l lease.Ledger
		told := ask("a", 1, func(q *lease.Request) {
			q.Limit, q.Demand = limit, 10
			q.ByClass = &lease.ByClass{Classes: threeClasses, Demand: by(7, 3)}
		})
		l.Exchange(noon, told)
		known := l.View()
		l.Exchange(noon, ask("a", 2, func(q *lease.Request) { q.Limit, q.Demand = limit, 20 }))
		v := l.View()
		if is, was := v.Holders[0], known.Holders[0]; len(v.Classes) == 0 || !slices.Equal(v.Classes, known.Classes) ||
			!slices.Equal(is.Classes, was.Classes) || !slices.Equal(is.Adds, was.Adds) {
			t.Errorf("%v: %+v, not %+v", limit, v, known)
		}
		l.Exchange(noon+time.Hour, ask("b", 1, func(q *lease.Request) { q.Limit = limit }))
		if v = l.View(); v.Classes != nil {
			t.Errorf("%v: %v are left by a holder that has gone", limit, v.Classes)
		}
	}
}

// TestQuotaClassLease: a lease has what is lent for classes by their demand, and what is nobody's.
// After a denial only what is nobody's comes back.
func TestQuotaClassLease(t *testing.T) {
	var l lease.Ledger
	ask := func(id string, seq uint64, held float64, own ...float64) lease.Reply {
		at := noon + time.Duration(seq)*ms
		return l.Exchange(at, byQuota(id, seq, func(q *lease.Request, b *lease.ByClass) {
			q.Demand, q.Held, q.Seen = 1e6, held, seq-1
			q.Policy.Batch = lease.MaxBurst
			b.Demand = by(2e5, 1e5, 7e5)
			copy(b.Own[:], own)
		}))
	}
	r := ask("a", 1, 0)
	if p := r.Portions; p.Add != by(250, 100) || r.Add != 500 ||
		p.Kept != by(250, 100) {
		t.Errorf("%v are lent, of these %+v", r.Add, p)
	}
	if r = ask("b", 1, 0); r.Portions.Add != by(62, 25) || r.Add != 87+37 {
		t.Errorf("%v are lent to another, of these %+v", r.Add, r.Portions)
	}
	l.Exchange(noon+ms, byQuota("c", 1, func(q *lease.Request, b *lease.ByClass) {
		q.Take, b.First = 500, 2
	}))
	r = ask("a", 2, 500, 250, 100)
	if r.Portions.Keep != by(109, 43) || r.Keep != 152 || r.Portions.Add[0] != 0 {
		t.Errorf("may keep %v, of these %+v", r.Keep, r.Portions)
	}
}

// TestQuotaClassHungry: after a denial a lease may keep nothing that is nobody's, and of what was
// lent for classes nothing where the pool keeps nothing for the class.
func TestQuotaClassHungry(t *testing.T) {
	var l lease.Ledger
	ask := func(id string, seq uint64, change func(*lease.Request, *lease.ByClass)) lease.Reply {
		at := noon + time.Duration(seq)*ms
		return l.Exchange(at, byQuota(id, seq, func(q *lease.Request, b *lease.ByClass) {
			q.Policy.Batch, q.Seen = lease.MaxBurst, seq-1
			change(q, b)
		}))
	}
	wish := func(q *lease.Request, b *lease.ByClass) {
		q.Demand, b.Demand = 1e6, by(2e5, 1e5, 7e5)
	}
	ask("a", 1, wish)
	ask("b", 1, func(q *lease.Request, b *lease.ByClass) { q.Take, b.First = 300, 2 })
	ask("b", 2, func(q *lease.Request, b *lease.ByClass) { q.Take, b.First = 100, 1 })
	r := ask("a", 2, func(q *lease.Request, b *lease.ByClass) {
		wish(q, b)
		q.Held, b.Own = 500, by(250, 100)
	})
	if r.Portions.Keep != by(250) || r.Keep != 250 {
		t.Errorf("may keep %v, of these %+v", r.Keep, r.Portions)
	}
}

// TestQuotaClassShort: where less is left than floors need, the highest class has what there is.
func TestQuotaClassShort(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, wants("none", 1, 450, 0))
	r := l.Exchange(noon, byQuota("a", 1, func(q *lease.Request, b *lease.ByClass) {
		q.Take, b.First = 1, 1
	}))
	if r.Taken != 1 || r.Portions.Kept != by(500, 49) {
		t.Errorf("%+v of 550", r.Portions)
	}
	l.Exchange(noon, wants("none", 2, 50, 0))
	r = l.Exchange(noon, byQuota("a", 2, func(q *lease.Request, b *lease.ByClass) {
		q.Take, b.First = 1, 1
	}))
	if r.Taken != 0 || r.Portions.Kept[0] != 499 || r.Portions.Kept[1] != 0 {
		t.Errorf("%v taken, %+v of 499", r.Taken, r.Portions)
	}
}

// TestQuotaClassRounding: a floor is in whole tokens, and 0.29 of 100 are 29.
func TestQuotaClassRounding(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(noon, byQuota("a", 1, func(q *lease.Request, b *lease.ByClass) {
		q.Limit.Burst = 100
		b.Classes = []lease.Class{{Name: "a", Floor: 0.29}, {Name: "b", Floor: 0.557}, {Name: "c"}}
	}))
	if r.Portions.Kept != by(29, 55) {
		t.Errorf("0.29 and 0.557 of 100 are %v", r.Portions.Kept)
	}
}

// TestQuotaClassLostReply: what a lost answer has lent for a class is kept for the class again.
func TestQuotaClassLostReply(t *testing.T) {
	var l lease.Ledger
	ask := func(seq uint64, demand float64) lease.Reply {
		return l.Exchange(noon, byQuota("a", seq, func(q *lease.Request, b *lease.ByClass) {
			q.Demand, b.Demand[0], q.Seen = demand, demand, 0
		}))
	}
	if r := ask(1, 1e5); r.Portions.Add[0] == 0 {
		t.Fatalf("%+v", r)
	}
	if r := ask(2, 0); r.Pool.Level != 1000 || r.Portions.Kept[0] != 500 {
		t.Errorf("%v are left, %v of 500 are kept", r.Pool.Level, r.Portions.Kept[0])
	}
}

// TestQuotaClassAdoption: what a lost state had lent for a class counts as had by the class.
func TestQuotaClassAdoption(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(noon, byQuota("a", 7, func(q *lease.Request, b *lease.ByClass) {
		q.Held, q.Claim = 30, lease.Claim{Burst: 50, Left: 100 * ms}
		b.Own[0], b.Own[1] = 20, 40
	}))
	if r.Portions.Kept != by(480, 190) {
		t.Errorf("%v are kept, and 20 and 10 of 30 are held", r.Portions.Kept)
	}
}

// TestQuotaClassBefore: what was lent for classes in the window before is not of this one, though a
// message that left then has made a record.
func TestQuotaClassBefore(t *testing.T) {
	var l lease.Ledger
	boundary := noon + time.Minute
	ask := func(now time.Duration, seq, seen uint64, back, kept float64) {
		t.Helper()
		r := l.Exchange(now, byQuota("a", seq, func(q *lease.Request, b *lease.ByClass) {
			q.Seen, b.Back[0] = seen, back
		}))
		if r.Portions.Kept[0] != kept {
			t.Errorf("%v of 500 are kept, not %v", r.Portions.Kept[0], kept)
		}
	}
	ask(noon, 1, 0, 0, 500)
	ask(boundary, 2, 1, -70, 500)
	ask(boundary+ms, 3, 1, -70, 500)
	ask(boundary+2*ms, 4, 3, -70, 430)
}

// TestQuotaClassBack: no more comes back to a class than came to the pool.
func TestQuotaClassBack(t *testing.T) {
	var l lease.Ledger
	l.Exchange(noon, byQuota("a", 1, func(q *lease.Request, b *lease.ByClass) { q.Take = 100 }))
	r := l.Exchange(noon, byQuota("a", 2, func(q *lease.Request, b *lease.ByClass) {
		q.Seen, q.Give, b.Back[0] = 1, 50, 50
	}))
	if r.Pool.Level != 900 || r.Portions.Kept[0] != 400 {
		t.Errorf("%v are left, and %v are kept", r.Pool.Level, r.Portions.Kept[0])
	}
}

// classQuotaMutations take the rules of classes of quotas away.
var classQuotaMutations = []mutation{
	{"Q2", "what is kept for others is not lent", "class_quota.go",
		"		a.spared = max(l.pool, 0) - free - b.Kept[q.ByClass.First]\n", "",
		"TestQuotaClassInvariants TestQuotaFloors"},
	{"Q2", "what is taken is had", "class_quota.go",
		"	l.lent[first] += a.taken\n", "", "TestQuotaClassAccounts TestQuotaFloors"},
	{"Q2", "what is lent for a class is had", "class_quota.go",
		"		l.lent[c] += add\n", "", "TestQuotaClassAccounts"},
	{"Q2", "what comes back is had no more", "class_quota.go",
		"		l.lent[c] = max(l.lent[c]-back, 0)\n", "		_ = back\n", "TestQuotaClassAccounts"},
	{"classes", "a late answer lends no class anything", "reply.go",
		"r.Add, r.Portions = 0, nil", "r.Add = 0", "TestQuotaClassLate"},
	{"classes", "what a class kept and did not use is its own", "class_quota_holder.go",
		"{ s.own[class] += n }", "{ s.own[class] += 0 * n }", "TestQuotaClassReleases"},
	{"classes", "what comes back of what it has spent is, too", "class_quota_holder.go",
		"s.own[s.asking] += h.tokens - before", "_ = before", "TestQuotaClassRefunds"},
	{"classes", "what is forgiven is owed no more", "refund.go",
		"h.byClass().forgiven(forgiven)", "_ = forgiven", "TestQuotaClassForgiven"},
	{"classes", "nothing is admitted ahead of what floors may keep", "reserve.go",
		"h.divided() || n >", "n >", "TestQuotaClassEager"},
	{"classes", "what was spent of the window before is told no more", "class_quota_holder.go",
		"	if now >= s.window.last {\n		s.back", "	if now < 0 {\n		s.back", "TestQuotaClassSpentBefore"},
	{"Q2", "no more comes back than came to the pool", "class_quota.go",
		"		back = min(back, came)\n", "", "TestQuotaClassBack"},
	{"Q2", "what a lost answer lent is kept again", "class_quota.go",
		"			back += r.adds[c]\n", "", "TestQuotaClassLostReply"},
	{"Q2", "what was another window's does not come back", "class_quota.go",
		"if a.marked && c < len", "if c < len", "TestQuotaClassBefore"},
	{"Q2", "a lost state's leases are had", "class_quota.go",
		"		l.lent[c] += own\n", "		l.lent[c] += 0 * own\n", "TestQuotaClassAdoption"},
	{"Q2", "no more of them than is held", "class_quota.go",
		"min(q.ByClass.Own[c], left)", "q.ByClass.Own[c]", "TestQuotaClassAdoption"},
	{"Q2", "a debt is had by those who owe it", "class_quota.go",
		"		l.lent[c] += n\n", "", "TestQuotaClassDebt TestQuotaClassAccounts"},
	{"Q2", "no more than the debt", "class_quota.go",
		"min(q.ByClass.Debt[c], left)", "q.ByClass.Debt[c]", "TestQuotaClassDebt"},
	{"Q2", "once", "quota.go",
		"l.bookDebt(a, q, l.debit(q, r))", "l.debit(q, r)\n		l.bookDebt(a, q, true)",
		"TestQuotaClassDebt"},
	{"Q2", "a floor is whole", "class_quota.go",
		"float64(c.Floor*quota) + whole", "float64(c.Floor*quota)", "TestQuotaClassRounding"},
	{"Q2", "where less is left the highest has it", "class_quota.go",
		"-l.lent[c], 0), free)", "-l.lent[c], 0), l.burst)", "TestQuotaClassShort"},
	{"cost", "what is kept is lent by the demand of the class", "class_quota.go",
		"d, l.classes[c]+d)", "d, sum)", "TestQuotaClassLease"},
	{"cost", "after a denial what is nobody's comes back", "class_quota.go",
		"lends && (b.free >= 1 || !hungry)", "lends", "TestQuotaClassHungry"},
	{"cost", "and what is lent for a class of which nothing is left", "class_quota.go",
		" && (b.Kept[c] >= 1 || !hungry)", "", "TestQuotaClassHungry"},
	{"cost", "a class is not told that others have what is left", "quota.go",
		"a.dry = l.pool-a.spared < 1", "a.dry = l.pool < 1", "TestQuotaClassAlone"},
	{"classes", "a class leaves what is lent for others", "class_quota_holder.go",
		"h.tokens-s.lent()+s.own[class]", "h.tokens", "TestQuotaClassesInOneProcess"},
	{"classes", "what is nobody's is for those above who wait", "class_quota_holder.go",
		"if h.queue.above(uint8(class)) {", "if h.at < 0 {", "TestQuotaClassQueue"},
	{"classes", "a class spends its own first", "class_quota_holder.go",
		"own := min(n, s.own[s.asking])", "own := min(n, 0*s.own[s.asking])",
		"TestQuotaClassesInOneProcess"},
	{"classes", "what a class has of nobody's is told", "class_quota_holder.go",
		"	s.back[s.asking] -= n - own\n", "", "TestQuotaClassesInOneProcess TestQuotaClassAccounts"},
	{"classes", "and told once", "class_quota_holder.go",
		"	s.back, s.told = [MaxClasses]float64{}, true", "	s.told = true",
		"TestQuotaClassesInOneProcess"},
	{"classes", "a class charges what it may spend", "class_quota_holder.go",
		"min(n, s.usable(h, s.asking))", "min(n, h.tokens)", "TestQuotaClassCharge"},
	{"classes", "a debt names those who owe it", "class_quota_holder.go",
		"s.owed[s.asking] += n", "s.owed[s.asking] += 0 * n",
		"TestQuotaClassCharge TestQuotaClassAccounts"},
	{"classes", "and those of the debt that is told", "class_quota_holder.go",
		"if q.Since > h.talk.seq {", "if h.at >= 0 {", "TestQuotaClassCharge"},
	{"classes", "all above what a class may keep goes back", "class_quota_holder.go",
		"		s.back[c] += back\n		over -= back", "		over -= back", "TestQuotaClassesInOneProcess"},
	{"classes", "nothing is told of another window", "class_quota_holder.go",
		"if h.at < s.window.last {\n		q.ByClass.Own", "if h.at >= 0 {\n		q.ByClass.Own",
		"TestQuotaClassNextWindow"},
	{"classes", "what was taken is for those who waited", "class_quota_holder.go",
		"		s.own[s.first] += taken\n", "", "TestQuotaClassTaken"},
	{"classes", "an answer is for the classes that were told", "class_quota_holder.go",
		"p != nil && s.told {", "p != nil {", "TestQuotaClassesChange"},
	{"classes", "what finds no room is lent for nobody", "class_quota_holder.go",
		"	s.fit(h.tokens)\n", "", "TestQuotaClassGone"},
	{"classes", "an answer to nobody ends no denial", "class_quota_holder.go",
		"	if s.first == nobody {\n		return\n	}\n	d, row",
		"	if s.first == nobody {\n		s.denials = [MaxClasses]denial{}\n		return\n	}\n	d, row",
		"TestQuotaClassDenied"},
	{"cost", "a class that is denied in a row asks seldom", "class_quota_holder.go",
		"min(wait<<*row, longest)", "min(wait, longest)", "TestQuotaClassDeniedInARow"},
	{"cost", "but some times in a window", "class_quota_holder.go",
		"longest := min(h.policy.MaxHold, (s.window.ends-h.at)/8)", "longest := h.policy.MaxHold",
		"TestQuotaClassDeniedInARow"},
	{"cost", "and often once it has something", "class_quota_holder.go",
		"		*row = 0\n", "", "TestQuotaClassDeniedInARow"},
	{"classes", "what is kept for others is not left", "class_quota_holder.go",
		"			sum += kept + s.own[c]\n", "			sum += 0*kept + s.own[c]\n", "TestQuotaClassLevel"},
	{"classes", "nor does it come to the class", "class_quota_holder.go",
		"n+s.others(h)", "n+0*s.others(h)", "TestQuotaClassComes"},
	{"classes", "a line is denied for its class", "queue.go",
		"if h.As(l.class); now <", "if now <", "TestQuotaClassComes"},
	{"classes", "floors begin anew with a window", "class_quota_holder.go",
		"h.talk.seen == 0 || h.at >= s.window.ends", "h.talk.seen == 0", "TestQuotaClassLevel"},
	{"classes", "no more is left than was denied", "class_quota_holder.go",
		"h.at < d.until {\n		level", "h.at < 0 {\n		level", "TestQuotaClassDenied"},
}
