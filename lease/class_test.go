package lease_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestClassInvariants is TestInvariants with classes: the envelope does not know them.
func TestClassInvariants(t *testing.T) {
	divided := 0
	begin := func(seed uint64) *history {
		h := newHistory(9000 + seed)
		h.policy.Fairness = lease.Proportional
		if h.policy.Mode == lease.Batches {
			h.policy.Mode = lease.Shares
		}
		h.classes, h.regroups = threeClasses[:1+h.rng.IntN(3)], seed%2 == 0
		for i, a := range h.actors {
			a.holder = nil // by that policy
			h.start(a, i)
		}
		return h
	}
	seeds := longform.Histories(200, 3000)
	playHistories(t, seeds, begin, func(h *history) {
		h.run(400)
		if h.ledger.View().Classes != nil {
			divided++
		}
	})
	if divided < seeds/8 {
		t.Errorf("%d histories with classes at their ends are too few to mean anything", divided)
	}
}

// TestClassesInOneProcess: of a lease under contention a lower class leaves what a higher one has,
// and the higher one has what came for the lower one only up to its loan.
func TestClassesInOneProcess(t *testing.T) {
	classes := []lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}}
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(classes)
	h.As(1)
	h.Enter(&lease.Waiter{N: 1, Class: 1})
	h.Ready(now)
	q, ok := h.Request(now)
	if !ok || q.ByClass == nil || q.ByClass.First != 1 {
		t.Fatalf("asks %v, %+v", ok, q.ByClass)
	}
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 40, Burst: 40, Keep: 40, Rate: 400, Shape: lease.Slice, Contended: true, Dry: true,
		Refresh: time.Second, RateUntil: time.Second, Expires: 2 * time.Second,
		Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
	})
	h.Ready(now)
	take := func(class uint8) (n int) {
		for h.As(class); n < 100 && h.Take(now, 1) == lease.Admitted; n++ {
		}
		return n
	}
	if n := take(1); n != 20 {
		t.Errorf("the low class has %d of 40, not its 20", n)
	}
	if n := take(0); n < 19 || n > 20 {
		t.Errorf("the high class has %d, not what is left", n)
	}
	now += 50 * time.Millisecond // 20 more
	if n := take(0); n < 19 {
		t.Errorf("the high class borrows %d of the next 20", n)
	}
	now += 25 * time.Millisecond // 10 more
	if n := take(1); n < 9 {
		t.Errorf("the low class has %d of the next 10: the loan is paid", n)
	}
}

// ofTwo returns how many requests a holder of two classes admits of one of them after a time, at
// most as many as are asked for. The lower class has wanted more than its part, and answers have
// said whether the pool is dry.
func ofTwo(dry bool) (take func(after time.Duration, class uint8, most int) int) {
	h := bench{lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour}
	h.Divide([]lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}})
	take = func(after time.Duration, class uint8, most int) (n int) {
		h.now += after
		for h.As(class); n < most && h.Take(h.now, 1) == lease.Admitted; n++ {
		}
		return n
	}
	h.Enter(&lease.Waiter{N: 1, Class: 1})
	for end := h.now + 1500*ms; h.now < end; h.now += ms {
		take(0, 1, 1)
		h.Ready(h.now)
		if q, ok := h.Request(h.now); ok {
			h.Handle(h.now, lease.Reply{
				Seq: q.Seq, Taken: q.Take, Add: 40 - q.Held, Burst: 40, Keep: 40, Rate: 400,
				Shape: lease.Slice, Refresh: 300 * ms, RateUntil: time.Second,
				Expires: 2 * time.Second, Contended: true, Dry: dry,
				Parts: [lease.MaxClasses]uint16{65535 / 2, 65535 / 2}, Limit: thousand, Holders: 2,
			})
		}
	}
	return take
}

// TestClassesWithAPool: while the pool has tokens, a class spends what is in others' credits. Then
// it asks. One that wants more than its part leaves what is for the noise of others.
func TestClassesWithAPool(t *testing.T) {
	take := ofTwo(false)
	low, high := take(100*ms, 1, 40), take(0, 0, 40) // of a lease that is full
	if low < 29 || low > 30 || high < 9 {
		t.Errorf("low has %d of 40, high %d", low, high)
	}
}

// TestKeptForModest: tokens are kept for the noise of a class that asks for less than its part. One
// that asks for more leaves them.
func TestKeptForModest(t *testing.T) {
	take := ofTwo(true)
	high, low := take(0, 0, 20), take(0, 1, 100)
	if n := take(25*ms, 1, 10); n > 0 { // 10 more have come
		t.Errorf("the low class has %d of the next 10, after %d and %d", n, high, low)
	}
	if n := take(0, 0, 10); n < 9 {
		t.Errorf("the high class has %d of them", n)
	}
}

// TestKeptForNobody: in a lease of one class nothing is kept for others.
func TestKeptForNobody(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide([]lease.Class{{Name: "high", Floor: 0.5}, {Name: "low", Weight: 1}})
	h.As(1)
	h.Enter(&lease.Waiter{N: 1, Class: 1})
	for end := now + 1500*ms; now < end; now += ms {
		h.Take(now, 1)
		h.Ready(now)
		if q, ok := h.Request(now); ok {
			h.Handle(now, lease.Reply{
				Seq: q.Seq, Taken: q.Take, Add: 40 - q.Held, Burst: 40, Keep: 40, Rate: 400, Shape: lease.Slice,
				Refresh: 300 * ms, RateUntil: time.Second, Expires: 2 * time.Second, Contended: true, Dry: true,
				Parts: [lease.MaxClasses]uint16{0, 65535}, Limit: thousand, Holders: 2,
			})
		}
	}
	for h.Take(now, 1) == lease.Admitted {
	}
	if left := h.Lease(now).Tokens; left >= 1 {
		t.Errorf("%v tokens are kept", left)
	}
}

// TestQueueByClass: callers that wait are served by class, and then by age.
func TestQueueByClass(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(threeClasses)
	for i, class := range []uint8{2, 1, 2, 0, 1, 0} {
		h.Enter(&lease.Waiter{N: float64(1 + i%2), Class: class, Tag: fmt.Sprint(class, "-", i)})
		if noted, counted := h.Run(); noted != counted {
			t.Fatalf("after %d: %v lead, not %v", i, noted, counted)
		}
	}
	q, _ := h.Request(now)
	if q.ByClass.First != 0 {
		t.Errorf("asks for class %d first", q.ByClass.First)
	}
	h.Handle(now, new(lease.Ledger).Exchange(now, q))
	for range 8 {
		if q, ok := h.Request(now); ok {
			h.Handle(now, lease.Reply{Seq: q.Seq, Taken: q.Take, Limit: thousand, Holders: 1})
		}
	}
	var order []string
	for _, w := range h.Ready(now).Resolved {
		if w.Verdict != lease.Admitted {
			t.Errorf("%v: %v", w.Tag, w.Verdict)
		}
		order = append(order, w.Tag.(string))
	}
	if got := strings.Join(order, " "); got != "0-3 0-5 1-1 1-4 2-0 2-2" {
		t.Errorf("served in the order %s", got)
	}
}

// TestClassesBehindAFarStore: callers of the highest class come during each exchange. Those of
// lower ones who have waited through one go before them, in their order.
func TestClassesBehindAFarStore(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{Mode: lease.PerRequest}, 1), time.Hour
	h.Divide(threeClasses)
	for class := range uint8(3) {
		h.Enter(&lease.Waiter{N: 1, Class: class})
	}
	var asked []int
	for range 6 {
		q, ok := h.Request(now)
		if !ok {
			t.Fatalf("asks for nobody after %v", asked)
		}
		asked = append(asked, q.ByClass.First)
		now += 25 * time.Millisecond
		h.Ready(now)
		h.Enter(&lease.Waiter{N: 1, Class: 0})
		now += 25 * time.Millisecond
		h.Handle(now, lease.Reply{Seq: q.Seq, Taken: q.Take, Limit: thousand, Holders: 1})
		h.Ready(now)
	}
	if got := fmt.Sprint(asked); got != "[0 1 2 0 0 0]" {
		t.Errorf("asks for the classes %s", got)
	}
}

// TestClassesChangeWhileAsking: what an answer grants is for callers of any class, if the classes
// have changed since the question.
func TestClassesChangeWhileAsking(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{Mode: lease.PerRequest}, 1), time.Hour
	h.Divide(threeClasses)
	h.Enter(&lease.Waiter{N: 50, Class: 1, Until: now + time.Hour})
	q, ok := h.Request(now)
	h.Divide(threeClasses[1:])
	now += time.Millisecond
	h.Handle(now, lease.Reply{Seq: q.Seq, Taken: 50, Limit: thousand, Holders: 1})
	if r := h.Ready(now); !ok || len(r.Resolved) != 1 || r.Resolved[0].Verdict != lease.Admitted {
		t.Errorf("%+v is the answer to a question for 50 tokens", r.Resolved)
	}
}

// TestClassesChange: callers that wait keep their class by its name, and their order in it. Those
// of a class that there is not any more, and those who had none, come to the last one: callers of
// no class were of the highest before, and all that waited went before its requests.
func TestClassesChange(t *testing.T) {
	now := time.Hour
	h := classedSlice(t, now)
	if h.Divide(h.Classes()) {
		t.Error("the same classes are others")
	}
	waiting := make([]lease.Waiter, 4)
	for i := range waiting {
		w := &waiting[i]
		*w = lease.Waiter{N: float64(50 + i), Class: uint8(1 - i%2), Until: now + time.Hour, Tag: i}
		h.Enter(w)
	}
	for _, c := range []struct {
		classes   []lease.Class
		low, high uint8
	}{
		{[]lease.Class{{Name: "low"}, {Name: "high"}, {Name: "new"}}, 0, 1},
		{[]lease.Class{{Name: "low"}, {Name: "new"}}, 0, 1},
		{nil, 0, 0},
		{threeClasses, 2, 2},
	} {
		if !h.Divide(c.classes) || len(h.Classes()) != len(c.classes) {
			t.Errorf("%v: has %v", c.classes, h.Classes())
		}
		if h.As(lease.MaxClasses); int(h.Asking()) != max(len(c.classes)-1, 0) {
			t.Errorf("%v: requests have class %d", c.classes, h.Asking())
		}
		for i, w := range waiting {
			if want := []uint8{c.low, c.high}[i%2]; w.Class != want {
				t.Errorf("%v: caller %d has class %d, not %d", c.classes, i, w.Class, want)
			}
		}
	}
	if noted, counted := h.Run(); noted != counted {
		t.Errorf("%v lead, not %v", noted, counted)
	}
	now += 2 * time.Minute // the lease has ended: all is asked for
	q, ok := h.Request(now)
	if !ok || q.ByClass == nil || len(q.ByClass.Classes) != 3 {
		t.Fatalf("%v, %+v", ok, q.ByClass)
	}
	h.Handle(now, lease.Reply{Seq: q.Seq, Taken: 500, Limit: thousand, Holders: 1})
	var order []string
	for _, w := range h.Ready(now).Resolved {
		order = append(order, fmt.Sprint(w.Tag))
	}
	if got := strings.Join(order, " "); got != "0 2 1 3" {
		t.Errorf("served in the order %s", got)
	}
	if h.Place("batch") != 2 || h.Place("none") != lease.MaxClasses {
		t.Error("classes have no place, or one that there is not")
	}
}

// TestClassesOvertakeInTake: a request of a higher class does not wait behind callers of lower
// ones.
func TestClassesOvertakeInTake(t *testing.T) {
	h, now := lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour
	h.Divide(threeClasses)
	var q lease.Request
	h.Enter(&lease.Waiter{N: 1, Class: 0})
	q, _ = h.Request(now)
	h.Handle(now, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 10, Burst: 10, Keep: 10, Rate: 100, Shape: lease.Slice,
		Refresh: time.Second, RateUntil: time.Second, Expires: 2 * time.Second, Limit: thousand, Holders: 1,
	})
	h.Ready(now)
	h.Enter(&lease.Waiter{N: 500, Class: 2, Until: now + time.Hour})
	if h.As(2); h.Take(now, 1) == lease.Admitted {
		t.Error("a request overtakes one of its class")
	}
	if h.As(0); h.Take(now, 1) != lease.Admitted {
		t.Error("a request of the highest class waits behind one of the lowest")
	}
}

// TestValidateClasses: what does not divide a limit is refused by an error that names it.
func TestValidateClasses(t *testing.T) {
	for want, c := range map[string]struct {
		classes []lease.Class
		policy  lease.Policy
	}{
		"":                             {classes: threeClasses},
		"Class.Name":                   {classes: []lease.Class{{Weight: 1}}},
		`Name "a" stands twice`:        {classes: []lease.Class{{Name: "a"}, {Name: "a"}}},
		"Floor 0.6":                    {classes: []lease.Class{{Name: "a", Floor: 0.6}, {Name: "b", Floor: 0.6}}},
		"Floor -1":                     {classes: []lease.Class{{Name: "a", Floor: -1}}},
		"Weight -1":                    {classes: []lease.Class{{Name: "a", Weight: -1}}},
		"Weight 1e-":                   {classes: []lease.Class{{Name: "a", Weight: 1e-9}}},
		"Weight Na":                    {classes: []lease.Class{{Name: "a", Weight: math.NaN()}}},
		"9 of them":                    {classes: make([]lease.Class, 9)},
		"Policy.Mode batches does":     {classes: threeClasses, policy: lease.Policy{Mode: lease.Batches}},
		"Policy.Fairness max-min does": {classes: threeClasses, policy: lease.Policy{Fairness: lease.MaxMin}},
	} {
		err := lease.ValidateClasses(c.classes, c.policy)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
	q := ask("a", 1, func(q *lease.Request) {
		q.Limit = lease.Limit{Burst: 10, Kind: lease.KindSliding, Window: time.Minute}
		q.ByClass = &lease.ByClass{Classes: threeClasses}
	})
	if err := q.Validate(); err == nil || !strings.Contains(err.Error(), "Limit.Kind") {
		t.Errorf("a sliding window with classes: %v", err)
	}
	for field, change := range map[string]func(*lease.ByClass){
		"":               func(b *lease.ByClass) { b.Back[1] = -5 },
		"ByClass.First":  func(b *lease.ByClass) { b.First = 3 },
		"ByClass.Demand": func(b *lease.ByClass) { b.Demand[1] = -1 },
		"ByClass.Own":    func(b *lease.ByClass) { b.Own[1] = math.NaN() },
		"ByClass.Debt":   func(b *lease.ByClass) { b.Debt[1] = 1 << 41 },
		"ByClass.Back":   func(b *lease.ByClass) { b.Back[1] = math.Inf(-1) },
	} {
		q := byQuota("a", 1, func(_ *lease.Request, b *lease.ByClass) { change(b) })
		err := q.Validate()
		if (err == nil) != (field == "") || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// classMutations take the rules of classes away.
var classMutations = []mutation{
	{"classes", "floors first", "class.go",
		"min(wish[c], float64(class.Floor*l.rate)", "min(0*wish[c], float64(class.Floor*l.rate)",
		"TestClassFloors"},
	{"classes", "a class alone gets all", "class.go",
		"rest := min(wish[c]-given[c], rate)", "rest := min(0*wish[c]-given[c], rate)",
		"TestClassTheRest"},
	{"classes", "the pool keeps tokens for floors", "bucket.go",
		"if a.guarded > 0 {", "if a.guarded > 1e18 {", "TestClassGuard"},
	{"classes", "what is kept for floors makes no request impossible", "bucket.go",
		"min(a.guarded, fits)", "min(a.guarded, fits+1e9)", "TestClassesOfOneToken"},
	{"classes", "a class has its part of the pool", "class.go",
		"a.guarded += math.Floor(max(kept[c], 0))", "a.guarded += 0 * kept[c]", "TestClassesWaitForSeveral"},
	{"classes", "what a class owes comes to others", "class.go",
		"free -= min(kept[c], 0)", "free -= 0 * kept[c]", "TestClassesWaitForSeveral"},
	{"classes", "what fills a lease is owed by nobody", "class.go",
		"min(filled, max(l.lent[c], 0))", "filled", "TestClassOfLargerRequests"},
	{"classes", "a class that owes is not first", "class.go",
		"kept[c] >= 0 && all[c]", "all[c]", "TestClassesHaveTheirDue"},
	{"classes", "what it saved for more is others'", "class.go",
		"kept[c] = min(kept[c], most[c])", "kept[c] = min(kept[c], 1e9+most[c])", "TestClassSavesForWhoAsks"},
	{"classes", "a class that has had more asks later", "class_holder.go",
		"return s.ahead[class]", "return s.ahead[class] && false", "TestClassesHaveTheirDue"},
	{"classes", "in a process alone, too", "queue.go",
		"others || later && h.queue.len() > l.n", "others || false", "TestClassesHaveTheirDue"},
	{"classes", "among processes of one class the one that is served does", "class.go",
		"return alone && a.taken+a.add > 0", "return alone && false", "TestAheadOfOthers"},
	{"classes", "a class that has less is not ahead", "class.go",
		"kept > l.lent[q.ByClass.First]", "kept < l.lent[q.ByClass.First]", "TestAheadOfOthers"},
	{"classes", "a class saves for what it asks", "class.go",
		"most[c] = max(most[c], q.Min)", "most[c] += 0 * q.Min", "TestClassesWaitForSeveral"},
	{"classes", "what is taken is paid", "class.go",
		"l.lent[q.ByClass.First] -= a.taken", "l.lent[q.ByClass.First] -= 0 * a.taken", "TestClassesWaitForSeveral"},
	{"classes", "the pool has floors first", "class.go",
		"kept[c] = max(kept[c], most[c])", "kept[c] += 0 * most[c]", "TestClassesOfASmallLimit"},
	{"classes", "a denial goes by what the class may take", "term.go",
		"max(before, a.guarded)", "before", "TestClassesWaitForSeveral"},
	{"classes", "a lower class leaves what a higher one has", "class_holder.go",
		"higher += max(s.credit[c], 0)", "higher += 0 * s.credit[c]",
		"TestClassFloors"},
	{"classes", "no more is kept than comes in a second", "class_holder.go",
		"min(h.burst, h.rate)*keptByClass", "h.burst*keptByClass", "TestClassFloorsOfLargeBursts"},
	{"classes", "floors give nothing up for an earmark", "class.go",
		"float64(above*lacks)", "float64(given[c]*lacks+0*above)", "TestClassFloorsBesideLarge"},
	{"classes", "callers are served by class", "agenda.go",
		"first == nil || may < at", "first == nil || may <= at", "TestQueueByClass"},
	{"classes", "a line is not passed over", "class_holder.go",
		"below.head.entered < asked", "below.head.entered < 0",
		"TestClassesBehindAFarStore"},
	{"classes", "no request waits behind a lower class", "holder.go",
		"h.queue.at(class).len() == 0", "h.queue.len() == 0", "TestClassesOvertakeInTake"},
	{"classes", "a class is denied for itself", "class_holder.go",
		"s.ofAll || c == s.first", "s.ofAll || c >= 0", "TestClassDeniedForItself"},
	{"classes", "the denial of a slice ends with it", "class_holder.go",
		"if s.ofAll {", "if s.ofAll && s.first > 9 {", "TestClassDeniedForItself"},
	{"classes", "a deadline counts who goes before", "queue.go",
		"l.class < class && h.divided()", "l.class < class && h.at < 0", "TestClassDeadlines"},
	{"classes", "each class has its turn", "term.go",
		"n/a.asked.fair-next/a.asked.demand", "n/a.fair-next/a.demand", "TestClassQueues"},
	{"classes", "what is kept is paid", "reserve.go",
		"	h.give(n)\n	h.reserves", "	h.tokens -= n\n	h.reserves", "TestClassReserves"},
	{"classes", "what is held for callers is theirs", "class_holder.go",
		"s.granted = r.Taken + s.held", "s.granted = r.Taken", "TestClassHasWhatItReserves"},
	{"classes", "what is held for callers is in no credit", "class_holder.go",
		"came = max(came-s.held, 0)", "came = max(came, 0)", "TestClassHasWhatItReserves"},
	{"classes", "no more is held than was asked for in units", "class_holder.go",
		"a.least + float64(math.Floor((n-a.least)/a.unit)*a.unit)", "n", "TestClassHasWhatItReserves"},
	{"classes", "an answer that comes too late grants nothing", "reply.go",
		"		r.Add, r.Portions = 0, nil\n", "", "TestClassHasWhatItReserves"},
	{"classes", "tokens are kept for the noise of modest classes", "class_holder.go",
		"left = min(left, tokens-s.kept(h, class))", "left = min(left, tokens)", "TestKeptForModest"},
	{"classes", "a lease of one class keeps none for it", "class_holder.go",
		"s.parts[class] < 1 && !s.modest", "!s.modest", "TestKeptForNobody"},
	{"classes", "a modest class borrows what the lease refills in a refresh", "class_holder.go",
		"own += max(min(h.burst, float64(h.rate*h.policy.MaxRefresh.Seconds())), s.kept(h, class))",
		"own += s.kept(h, class)",
		"TestClassFloors"},
	{"classes", "but callers that wait borrow nothing", "class_holder.go",
		"&& h.queue.at(uint8(class)).first() == 0", "", "TestClassesHaveTheirDue"},
	{"cost", "while the pool has tokens classes spend others' credits", "class_holder.go",
		"		case !dry:\n", "		case h.at < 0:\n", "TestClassesWithAPool TestClassCalls"},
	{"classes", "but no debt is paid by them", "class_debts.go",
		"s.credited(h, c, true)", "s.credited(h, c, h.dry)", "TestClassOwes"},
	{"classes", "a floor that is lent comes back within a refresh", "divide.go",
		"a.contended && q.ByClass != nil || ", "", "TestClassAlone"},
	{"classes", "a class saves for a large request", "class_holder.go",
		"s.meters[class].cost, first, 1)", "s.meters[class].cost, 0*first, 1)", "TestClassSaves"},
}

// TestClassTheRest: classes without a Weight have what the floors of others leave.
func TestClassTheRest(t *testing.T) {
	l, now := new(lease.Ledger), time.Hour
	var r lease.Reply
	for seq := uint64(1); seq < 6; seq++ {
		now += 250 * time.Millisecond
		r = l.Exchange(now, ask("a", seq, func(q *lease.Request) {
			q.Demand, q.Seen = 5000, seq-1
			q.ByClass = &lease.ByClass{Classes: []lease.Class{{Name: "a", Floor: 0.2}, {Name: "b"}}}
			q.ByClass.Demand[1] = 5000
			q.Policy.Batch = lease.MaxBurst
		}))
	}
	if r.Rate < 900 || r.Parts[1] != 65535 {
		t.Errorf("a class alone has %v of 1000/s, parts %v", r.Rate, r.Parts)
	}
}
