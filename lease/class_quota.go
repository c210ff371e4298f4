package lease

import "math"

// The floor of a class is a part of the quota that is kept for it until the window ends. What
// floors leave is for whoever comes first. So Weights have no effect: to divide the rest by them,
// tokens would have to be kept for classes that may not ask.
//
// Q2 (TestQuotaClassInvariants): the pool has at least what is kept of all floors. A class gets
// what is kept of its own floor, and what of the pool is kept for none. So in each window it gets
// the lower of its demand and its floor, whatever others ask.
//
// Where less is left than floors need, the highest class has what there is: after a debt, a late
// repeat (I3) or lost state, under a lowered limit, and beside holders without classes.

// Portions are what a Reply of a quota tells by class, in tokens.
type Portions struct {
	Add  [MaxClasses]float64 // of Add, what is lent for each class
	Keep [MaxClasses]float64 // of Keep, what each may keep
	Kept [MaxClasses]float64 // of the pool, what is kept for each
}

// lent of a bucket is what the pool keeps for each class, below 0 what that owes (keepByClass). Of a
// quota it is how many tokens each class has had of the window: those that it has used, and those that
// are lent for it and have not come back. What a class has spent of nobody's counts once it is
// told.
type lent [MaxClasses]float64

// quotaClasses are what the phases of an answer leave to each other by class.
type quotaClasses struct {
	Portions
	own  [MaxClasses]float64 // of what the holder keeps, what is lent for a class
	free float64             // of the pool, what is kept for none
}

// whole makes good for the rounding of a product of a part and a whole number: 0.29 of 100 are 29.
const whole = 1e-6

// floorOf is the floor of a class in whole tokens.
func (c Class) floorOf(quota float64) float64 {
	return math.Floor(float64(c.Floor*quota) + whole)
}

// classify begins an answer by class.
func (l quotaLedger) classify(a *answer, q *Request) {
	if q.ByClass == nil {
		return
	}
	a.byClass, a.classes, a.adds = new(quotaClasses), new(demands), new(demands)
	if l.lent == nil {
		l.lent = new(lent)
	}
}

// book takes to the accounts of classes what comes back to the pool: came tokens in all.
func (l quotaLedger) book(a *answer, q *Request, r *record, came float64) {
	if a.byClass == nil {
		return
	}
	came = max(came, 0)
	for c := range l.lent {
		back := 0.0
		if a.marked && c < len(q.ByClass.Classes) {
			back = q.ByClass.Back[c]
		}
		if r.adds != nil && float64(q.Seen) < r.seq {
			back += r.adds[c]
		}
		back = min(back, came)
		came -= max(back, 0)
		l.lent[c] = max(l.lent[c]-back, 0)
	}
	l.own(a, q)
}

// bookDebt takes a debt to the accounts of those who have made it.
func (l quotaLedger) bookDebt(a *answer, q *Request, debited bool) {
	if a.byClass == nil || !debited {
		return
	}
	left := q.Debt
	for c := range q.ByClass.Classes {
		n := min(q.ByClass.Debt[c], left)
		l.lent[c] += n
		left -= n
	}
}

// own notes what the holder keeps for classes.
func (l quotaLedger) own(a *answer, q *Request) {
	if !a.marked {
		return
	}
	left := a.held
	for c := range q.ByClass.Classes {
		a.byClass.own[c] = min(q.ByClass.Own[c], left)
		left -= a.byClass.own[c]
	}
}

// adoptByClass counts what a lost state has lent for classes.
func (l quotaLedger) adoptByClass(a *answer, q *Request) {
	if a.byClass == nil {
		return
	}
	l.own(a, q)
	for c, own := range a.byClass.own {
		l.lent[c] += own
	}
}

// keepFloors finds what the pool keeps of each floor, and what of that is not for the class that is
// asked for.
func (l quotaLedger) keepFloors(a *answer, q *Request) {
	if b := a.byClass; b != nil {
		free := max(l.pool, 0)
		for c, class := range q.ByClass.Classes {
			b.Kept[c] = min(max(class.floorOf(l.burst)-l.lent[c], 0), free)
			free -= b.Kept[c]
		}
		b.free = free
		a.spared = max(l.pool, 0) - free - b.Kept[q.ByClass.First]
	}
}

// lendByClass lends each class a part of what is kept for it, by its demand, and to all together a
// part of what is kept for none. What was taken comes first.
func (l quotaLedger) lendByClass(a *answer, q *Request, sum float64) {
	b, first, p := a.byClass, q.ByClass.First, &q.Policy
	l.lent[first] += a.taken
	b.own[first] += a.kept
	b.Add[first] = a.kept
	l.keepFloors(a, q)

	hungry := l.unrest > quotaHunger // others were denied: what they may have comes back
	lends := a.demand > 0 && (p.Mode != PerRequest || p.MaxHold > p.MaxRefresh)
	held := a.held
	for c := range q.ByClass.Classes {
		d := quantize(min(q.ByClass.Demand[c], MaxRate, 2*MaxRate-l.classes[c]))
		a.classes[c] = d
		held -= b.own[c]
		if lends && d > 0 && (b.Kept[c] >= 1 || !hungry) {
			b.Keep[c] = min(a.needs(d), partOf(b.Kept[c]+b.own[c], d, l.classes[c]+d))
			a.keep += b.Keep[c]
		}
	}
	rest := 0.0
	if lends && (b.free >= 1 || !hungry) {
		rest = min(max(a.needs(a.demand)-a.keep, 0), partOf(b.free+held, a.demand, sum))
	}
	if a.keep += rest; p.Mode != Shares && a.keep < float64(p.Smallest) {
		a.keep, rest, b.Keep = 0, 0, [MaxClasses]float64{}
	}

	a.add = math.Floor(max(min(rest-held, b.free), 0))
	for c := range q.ByClass.Classes {
		add := math.Floor(max(min(b.Keep[c]-b.own[c], b.Kept[c]), 0))
		b.Add[c] += add
		b.Kept[c] -= add
		l.lent[c] += add
		a.add += add
		a.adds[c] = b.Add[c]
	}
}
