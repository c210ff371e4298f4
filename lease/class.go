package lease

import (
	"errors"
	"fmt"
	"math"
)

// A Class is a class of the requests of one limit. The first Class of a list is the highest.
type Class struct {
	Name string

	// Floor is the part of the Rate that the class gets if it asks for so much, or the part of each
	// window of a quota, 0 to 1. The Floors of all classes are at most 1 together.
	Floor float64

	// Weight is the part of what floors leave, beside the Weights of the other classes that want
	// more: 2^-20 to 2^20. A class without a Weight, 0, gets what the others leave. What floors of
	// a quota leave goes to whoever comes first.
	Weight float64
}

// MaxClasses is how many classes a limit has at most.
const MaxClasses = 8

// ValidateClasses returns an error that names the class, the field and its value unless classes
// can divide a limit by this policy.
func ValidateClasses(classes []Class, p Policy) error {
	if len(classes) == 0 {
		return nil
	}
	switch {
	case len(classes) > MaxClasses:
		return fmt.Errorf("lease: Classes: %d of them, at most %d", len(classes), MaxClasses)
	case p.Mode == Batches:
		return fmt.Errorf("lease: Classes: Policy.Mode %v does not divide by class", p.Mode)
	case p.Fairness == MaxMin:
		return fmt.Errorf("lease: Classes: Policy.Fairness %v does not divide by class", p.Fairness)
	}
	floors, names := 0.0, map[string]bool{}
	for _, c := range classes {
		floors += c.Floor
		switch {
		case c.Name == "":
			return errors.New("lease: Class.Name of a class is empty")
		case names[c.Name]:
			return fmt.Errorf("lease: Class.Name %q stands twice", c.Name)
		case !(c.Floor >= 0) || floors > 1+1e-9:
			return fmt.Errorf("lease: Class.Floor %v of %q is below 0, or all are above 1 together",
				c.Floor, c.Name)
		case c.Weight != 0 && !(c.Weight >= 1.0/(1<<20) && c.Weight <= 1<<20):
			return fmt.Errorf("lease: Class.Weight %v of %q is not 0, or from 2^-20 to 2^20",
				c.Weight, c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

// ByClass is what a Request tells of a holder whose requests have classes.
type ByClass struct {
	Classes []Class
	Demand  [MaxClasses]float64 // Request.Demand by class, tokens/s
	First   int                 // the class of the first caller that waits, or the highest asked for

	// Of a quota, in tokens. Own is what of Held is lent for each class, and Debt is what of Debt
	// the class owes. Back is what of Give was lent for the class, less what the class has spent of
	// nobody's since the last request left.
	Own, Debt, Back [MaxClasses]float64
}

func (b *ByClass) validate(q *Request) error {
	if b == nil {
		return nil
	}
	if !q.Limit.Kind.Classes() {
		return bad("Limit.Kind", q.Limit.Kind, "a token bucket or a quota, as classes have")
	}
	if err := ValidateClasses(b.Classes, q.Policy); err != nil {
		return err
	}
	if b.First < 0 || b.First >= len(b.Classes) {
		return bad("ByClass.First", b.First, "one of the classes")
	}
	for c, d := range b.Demand {
		switch own, debt, back := b.Own[c], b.Debt[c], b.Back[c]; {
		case !(d >= 0) || d > 1<<40:
			return bad("ByClass.Demand", d, "from 0 to 2^40")
		case !(own >= 0) || own > 1<<40:
			return bad("ByClass.Own", own, "from 0 to 2^40")
		case !(debt >= 0) || debt > 1<<40:
			return bad("ByClass.Debt", debt, "from 0 to 2^40")
		case !(math.Abs(back) <= 1<<40):
			return bad("ByClass.Back", back, "from -2^40 to 2^40")
		}
	}
	return nil
}

// demands are by class, in tokens/s, as multiples of 1/resolution.
type demands [MaxClasses]float64

// add counts the demands of a record, or takes them off by a sign of -1.
func (d *demands) add(x *demands, sign float64) {
	if x == nil {
		return
	}
	for c := range x {
		d[c] += float64(sign * x[c])
	}
}

// byClass is the rate that the holder's demand is worth where requests have classes: its part of
// what each class is allotted. So within a class all holders get the same part of their demand.
// What is above floors gives up some of it for an earmark (lacks). Holders without classes get
// their part of the Rate by their demand, and leave the rest.
func (l bucketLedger) byClass(a *bucketAnswer, q *Request, sum float64) (target float64) {
	own, all, total := new(demands), l.classes, 0.0
	for c := range q.ByClass.Classes {
		own[c] = quantize(min(q.ByClass.Demand[c], MaxRate, 2*MaxRate-all[c]))
		all[c] += own[c]
		total += all[c]
	}
	a.classes = own
	rate := float64(l.rate*min(total, sum)) / max(sum, total, 1e-6)
	rate -= min(max(-l.pool, 0), float64(rate*payback))
	given := l.allot(q, &all, rate)
	first, lacks := q.ByClass.First, l.lacks(&q.Policy)
	if a.asked.demand = own[first]; own[first] > 0 {
		a.asked.fair = min(float64(own[first]*given[first])/all[first], own[first])
	}
	var worth demands
	for c, class := range q.ByClass.Classes {
		if own[c] > 0 {
			above := given[c] - min(given[c], float64(class.Floor*l.rate))
			worth[c] = float64(own[c]*(given[c]-float64(above*lacks))) / all[c]
			target += worth[c]
		}
	}
	for c := range q.ByClass.Classes {
		if target > 0 {
			a.parts[c] = uint16(math.Floor(worth[c] / target * partsOfLease))
		}
	}
	a.asked.lease = float64(a.parts[first]) / partsOfLease
	l.keepByClass(a, q, &all, &given)
	return target
}

// payback is the most of the rate of classes that a pool below 0 gets: as much as would fill it in
// a second. Floors come first in the rest, so that a debt is paid by those who have more.
const payback = 0.5

// partsOfLease is how many parts a lease has in a Reply: two bytes.
const partsOfLease = 65535

// allot divides a rate among classes: floors first, the rest by weight, and what is left by rank.
func (l bucketLedger) allot(q *Request, all *demands, rate float64) (given demands) {
	classes := q.ByClass.Classes
	var wish demands
	for c, class := range classes {
		wish[c] = float64(all[c] * (1 + q.Policy.Headroom))
		given[c] = min(wish[c], float64(class.Floor*l.rate), rate)
		rate -= given[c]
	}
	for more := true; more; {
		more = false
		weights := 0.0
		for c, class := range classes {
			if given[c] < wish[c] {
				weights += class.Weight
			}
		}
		part := rate / max(weights, 1e-9)
		for c, class := range classes {
			if missing := wish[c] - given[c]; missing > 0 && missing <= part*class.Weight {
				given[c] = wish[c]
				rate = max(rate-missing, 0)
				more = true
			}
		}
		if !more && weights > 0 {
			for c, class := range classes {
				if given[c] < wish[c] {
					given[c] += float64(part * class.Weight)
				}
			}
			return given
		}
	}
	for c := range classes {
		rest := min(wish[c]-given[c], rate)
		given[c] += rest
		rate -= rest
	}
	return given
}

// mostKept is the part of the room beside a request that may be kept from it.
const mostKept = 0.75

// keepByClass divides what the pool has among classes under contention. What is kept for a class
// requests of others leave (serve), but for those of a class that wants no more than its floor.
// Such classes, unless they owe, have theirs first. The others get what comes by the part of the
// rate that they are given. None gets more than such a part of the room, as far as others' slices
// do not refill it, or than its own request needs. Like other parts these are smaller with caution.
//
// Of whole tokens a class leaves to others what they have. It takes the fractions, and owes them:
// else a token would come for nobody (TestClassesOfOneToken). What all have, less what they owe, is
// in the pool: what a class owes comes to others first. So each class has its due in the end,
// though another one is there first each time (TestClassesHaveTheirDue).
func (l bucketLedger) keepByClass(a *bucketAnswer, q *Request, all, given *demands) {
	if l.lent == nil {
		l.lent = new(lent)
	}
	classes, first, kept := q.ByClass.Classes, q.ByClass.First, l.lent
	free, rest := max(l.pool, 0), l.rate
	room := max(l.burst-l.bursts, 0) * max(1-l.rates/l.rate, 0) / (1 + l.caution)
	modest := all[first] <= classes[first].Floor*l.rate
	var most demands
	for c := range classes {
		if given[c] > 0 && a.contended {
			most[c] = max(float64(room*given[c])/l.rate, 1)
			if c == first {
				most[c] = max(most[c], q.Min)
				kept[c] = min(kept[c], most[c])
			}
		} else {
			kept[c] = 0
		}
		free -= min(kept[c], 0)
	}
	for c, class := range classes {
		if kept[c] >= 0 && all[c] <= class.Floor*l.rate {
			kept[c] = max(kept[c], most[c])
			rest -= given[c]
		}
		kept[c] = min(kept[c], free)
		free -= max(kept[c], 0)
	}
	for c := range classes {
		came := min(float64(free*given[c])/max(rest, 1e-6), most[c]-kept[c])
		kept[c] = max(kept[c]+max(came, 0), 0-most[c])
		if c != first && !modest {
			a.guarded += math.Floor(max(kept[c], 0))
		}
	}
}

// takeByClass takes what the answer has taken from what is kept for classes. What fills a lease
// nobody owes: it is lent by parts already.
func (l bucketLedger) takeByClass(a *bucketAnswer, q *Request) {
	if q.ByClass == nil || !a.contended {
		return
	}
	l.lent[q.ByClass.First] -= a.taken
	for c := range q.ByClass.Classes {
		filled := float64((a.add-a.kept)*float64(a.parts[c])) / partsOfLease
		l.lent[c] -= min(filled, max(l.lent[c], 0))
	}
	a.ahead = l.hasHadMore(a, q)
}

// hasHadMore reports whether the class that is asked for has less left, or owes more, than another
// class that asks. Where no other one does, it reports whether the holder gets something.
func (l bucketLedger) hasHadMore(a *bucketAnswer, q *Request) bool {
	alone := true
	for c, kept := range l.lent {
		if c == q.ByClass.First || l.classes[c]+a.classes[c] == 0 {
			continue
		}
		alone = false
		if kept > l.lent[q.ByClass.First] {
			return true
		}
	}
	return alone && a.taken+a.add > 0
}
