package lease

import (
	"math"
	"slices"
	"time"
)

const (
	// keptByClass is the part of a lease that others leave to modest classes: of what it may hold,
	// and of what it refills in a second.
	keptByClass = 0.25

	// A class that wants at most so many times its part, as measured in a second, leaves nothing.
	modestly = 1.3

	// One that wants at most so many times its part borrows what lower ones have.
	borrows = 1.5
)

// A classedHolder spends a token bucket whose requests have classes. Each class has a credit of
// the tokens that came to the lease, by its part of it. A class spends its own credit, and tokens
// that are in nobody's credit. A modest class also borrows what lower ones have, up to what the
// lease refills until the ledger hears: where demand has moved, it would be denied beside a lease
// full of their credit. Its next credit pays, so that parts hold in the long run. Callers that wait
// borrow nothing: what is served of them does not tell whether they want more than their part.
// Under contention no class spends higher credits; without it there is enough for all.
//
// Without a lease that refills each class asks for itself, and is denied for itself.
type classedHolder struct {
	bucketHolder
	ranks
	parts   [MaxClasses]float64 // of the lease, as last replied
	credit  [MaxClasses]float64 // below 0 by what was borrowed
	ahead   [MaxClasses]bool    // of others when it was denied, see Reply
	ofAll   bool                // whether the denials are the denial of all
	granted float64             // tokens that the answer took for its callers
	held    float64             // those of them that the lease holds, as callers reserve them
	asked   asked               // by the last request
}

// classBucket: what is held is in nobody's credit.
func classBucket(_ spending, s ranks) classed { return &classedHolder{ranks: s} }

// ranks are the classes of a Holder's requests, however they divide its lease.
type ranks struct {
	classes []Class
	meters  []meter
	asking  int                 // the class of the request that is decided
	owes    [MaxClasses]float64 // what a class of a bucket has used beyond its credit, see charge
	denials [MaxClasses]denial
	first   int                       // the class that was asked for last, or nobody
	turns   [MaxClasses]time.Duration // when each class was asked for last
}

// A classed is a spending whose requests have classes: what differs by how classes divide a lease.
type classed interface {
	spending
	rank() *ranks
	// divides reports whether each line of callers is served for itself.
	divides(h *Holder) bool
	// usable is how many tokens a class may spend.
	usable(h *Holder, class int) float64
	// earn is called when tokens have come to the lease.
	earn(h *Holder, came float64)
	// pay takes n tokens, which are in the lease no more, from the class that asks.
	pay(h *Holder, n float64)
	// charge spends n tokens that the class that asks has used already.
	charge(h *Holder, n float64)
	// owe is for n tokens that become a debt of all.
	owe(n float64)
	// forgiven is for n tokens of that debt which are none any more.
	forgiven(n float64)
	// released is for n tokens of a class that it had kept, and that are in the lease again.
	released(class int, n float64)
	// pays reports whether what is held may pay a debt of all.
	pays(h *Holder) bool
	// refuse takes the denial that an answer has brought.
	refuse(h *Holder)
	// later reports whether callers of a class who were denied ask after others.
	later(h *Holder, class uint8) bool
	// refills is when the lease will have what the first caller of a class needs.
	refills(h *Holder, now time.Duration) time.Duration
	// level is how much of the limit's level the class that asks may have.
	level(h *Holder, level float64) float64
}

func (s *ranks) rank() *ranks { return s }

// byClass is the kind of a holder that is classed.
func (h *Holder) byClass() classed { return h.kind.(classed) }

// ranks are those of a holder that is classed.
func (h *Holder) ranks() *ranks { return h.byClass().rank() }

// asked is what a request has asked for callers whose tokens go to the lease: see Request.Hold.
type asked struct{ least, unit, most float64 }

// held is how many of the tokens that an answer adds are for those callers. The ledger serves them
// first, and fills the lease with what it has not served them: less than they would have needed.
func (a asked) held(add float64) float64 {
	n := math.Floor(min(add, a.most))
	switch {
	case n < a.least:
		return 0
	case a.unit > 1:
		return a.least + float64(math.Floor((n-a.least)/a.unit)*a.unit)
	}
	return n
}

// nobody is the class that is asked for where nobody waits.
const nobody = -1

// Divide makes requests have classes from now on, the highest first, which must be valid, and must
// not change; or none. A request that does not say its class has the last one. It is for a Holder of
// a token bucket or a quota, and does nothing for others. It reports whether the classes were other
// ones. Then what is held is nobody's, and callers that wait stay in the class of that name; those
// of a class that is gone, and those who had none, go to the last one.
func (h *Holder) Divide(classes []Class) (others bool) {
	divide, were := h.limit.Kind.of().classes, h.Classes()
	if divide == nil || slices.Equal(classes, were) {
		return false
	}
	if len(classes) == 0 {
		classes = undivided
	}
	s := ranks{classes: classes, asking: len(classes) - 1, first: nobody}
	h.shareDebts()
	for range classes {
		s.meters = append(s.meters, newMeter(0, arrivals{since: never}))
	}
	h.kind, h.classed = divide(h.kind, s), true
	places := [MaxClasses]uint8{h.lowest()} // of those who had none
	for was, c := range were {
		places[was] = min(h.Place(c.Name), h.lowest())
	}
	h.queue.regroup(&places)
	return true
}

// undivided are the classes of a Holder that has none any more: it has told its ledger of some.
var undivided = []Class{{Name: "all", Weight: 1}}

// Classes are those of requests, or nil.
func (h *Holder) Classes() []Class {
	if !h.classed {
		return nil
	}
	if s := h.ranks(); &s.classes[0] != &undivided[0] {
		return s.classes
	}
	return nil
}

// Place is where the class of that name stands, or MaxClasses if there is none.
func (h *Holder) Place(class string) uint8 {
	for i, c := range h.Classes() {
		if c.Name == class {
			return uint8(i)
		}
	}
	return MaxClasses
}

// As makes what is asked from now on requests of a class: Take, Reserve, Look and RetryAfter. One
// that does not exist is the last.
func (h *Holder) As(class uint8) {
	if h.classed {
		s := h.ranks()
		s.asking = min(int(class), len(s.classes)-1)
	}
}

// Asking is the class of what is asked, 0 without classes.
func (h *Holder) Asking() uint8 {
	if h.classed {
		return uint8(h.ranks().asking)
	}
	return 0
}

// offered counts a request.
func (h *Holder) offered(now time.Duration, n float64) {
	h.meter.offered(now, n, 1)
	if h.classed {
		s := h.ranks()
		s.meters[s.asking].offered(now, n, 1)
	}
}

// waited reports whether callers have waited for long for an answer that has come.
func (h *Holder) waited(now time.Duration) bool {
	if h.queue.len() == 0 || !h.meter.waited(now) {
		return false
	}
	if h.classed {
		s := h.ranks()
		for c := range s.meters {
			s.meters[c].waited(now)
		}
	}
	return true
}

// lowest is the lowest class.
func (h *Holder) lowest() uint8 {
	if h.classed {
		return uint8(len(h.ranks().classes) - 1)
	}
	return 0
}

// divided reports whether each line of callers is served for itself.
func (h *Holder) divided() bool { return h.classed && h.byClass().divides(h) }

// divides: credits divide a lease under contention.
func (s *classedHolder) divides(h *Holder) bool { return h.contended }

// denied is the denial of a class. One that owes is denied until its part of the lease has paid.
func (h *Holder) denied(class uint8) denial {
	if !h.classed {
		return h.denial
	}
	s := h.ranks()
	if s.owes[class] > 0 {
		wait := h.policy.MaxRefresh // until an answer says who pays
		if h.paysByClass() {
			wait = h.kind.(*classedHolder).soonest(h, h.at, class, 1)
		}
		return denial{until: h.at + wait}
	}
	return s.denials[class]
}

// refuse takes the denial that an answer has brought. That of a slice is of all classes, and as
// long as the slice; so is the answer to a request that has asked for nobody.
func (s *classedHolder) refuse(h *Holder) {
	if s.ofAll {
		s.denials = [MaxClasses]denial{}
	}
	s.ofAll = h.shape.Refills() || s.first == nobody
	for c := range s.denials {
		if s.ofAll || c == s.first {
			s.denials[c] = h.denial
		}
	}
}

func (s *ranks) later(h *Holder, _ uint8) bool             { return h.talk.served == h.talk.sent }
func (s *classedHolder) later(_ *Holder, class uint8) bool { return s.ahead[class] }

// passedOver reports whether callers of the line below have waited through the last exchange for the
// line above, which has served those who came before. Where exchanges take long, the higher line is
// never empty, and the lower one would never be asked for (TestClassesBehindAFarStore).
func (h *Holder) passedOver(above, below *line) bool {
	if !h.classed {
		return false
	}
	asked := h.ranks().turns[above.class]
	return below.head.entered < asked && above.head.entered >= asked
}

// grants reports whether an answer that is served from is for callers of a class: of the one that was
// asked for, or of any where the classes have changed since.
func (s *classedHolder) grants(class int) bool { return s.first == class || s.first == nobody }

// usable is how many tokens a class may spend.
func (h *Holder) usable(class uint8) float64 {
	if h.classed {
		return h.byClass().usable(h, int(class))
	}
	return h.tokens
}

// usable: without contention all, behind callers of higher classes.
func (s *classedHolder) usable(h *Holder, class int) float64 {
	granted := 0.0
	if s.grants(class) {
		granted = s.granted
	}
	switch {
	case s.owes[class] > 0, !h.contended && h.queue.above(uint8(class)):
		return granted
	case !h.contended:
		return h.tokens - s.granted + granted
	}
	return s.credited(h, class, h.dry) + granted
}

// credited is how many tokens a class may spend under contention. While the pool has tokens for the
// other classes, it may spend their credits as well: a class whose credit is used up would ask for
// each of its requests while the lease is full.
func (s *classedHolder) credited(h *Holder, class int, dry bool) float64 {
	tokens, higher, lower := h.tokens-s.granted, 0.0, 0.0
	for c := range s.classes {
		switch {
		case !dry:
		case c < class:
			higher += max(s.credit[c], 0)
		case c > class:
			lower += max(s.credit[c], 0)
		}
	}
	own, left := s.credit[class], tokens-higher
	if s.parts[class] < 1 && !s.modest(h, class, modestly) { // the lease is of other classes, too
		left = min(left, tokens-s.kept(h, class))
	}
	if s.modest(h, class, borrows) && h.queue.at(uint8(class)).first() == 0 {
		own += max(min(h.burst, float64(h.rate*h.policy.MaxRefresh.Seconds())), s.kept(h, class))
	}
	return max(min(max(tokens-higher-lower, own), left), 0)
}

// most is the largest credit of a class: its part of what the lease may hold, at least a request.
func (s *classedHolder) most(h *Holder, class int) float64 {
	first := h.queue.at(uint8(class)).first()
	return max(s.parts[class]*h.burst, s.meters[class].cost, first, 1)
}

// kept is how many tokens of the lease a class leaves that is not modest.
func (s *classedHolder) kept(h *Holder, class int) float64 {
	return max(min(h.burst, h.rate)*keptByClass, s.meters[class].cost, 1)
}

// modest reports whether a class wants at most so many times its part, or its floor. Another one
// would never pay what it borrows.
func (s *classedHolder) modest(h *Holder, class int, times float64) bool {
	part := max(s.parts[class], s.classes[class].Floor)
	return s.meters[class].demand() <= float64(part*h.rate*times)
}

// earn gives tokens that came to the lease their credit. Those that are for callers are in none.
func (s *classedHolder) earn(h *Holder, came float64) {
	came = max(came-s.held, 0)
	for c := range s.classes {
		s.credit[c] = min(s.credit[c]+float64(s.parts[c]*came), s.most(h, c))
	}
	s.repay(h)
}

// pay takes n tokens out of the credit of the class that asks, as far as they are in a credit. What
// an answer took for callers is in none.
func (s *classedHolder) pay(h *Holder, n float64) {
	if s.grants(s.asking) {
		granted := min(n, s.granted)
		s.granted -= granted
		n -= granted
	}
	free := h.tokens - s.granted + n
	for c := range s.classes {
		free -= max(s.credit[c], 0)
	}
	own := &s.credit[s.asking]
	*own -= n - min(max(n-max(*own, 0), 0), max(free, 0))
}

func (s *classedHolder) drop() float64 {
	s.credit = [MaxClasses]float64{}
	return s.bucketHolder.drop()
}

// answer takes the parts. The credits that were stay, as far as the new parts let them: see earn.
func (s *classedHolder) answer(h *Holder, now time.Duration, r Reply) float64 {
	for c := range s.classes {
		s.parts[c] = float64(r.Parts[c]) / partsOfLease
	}
	s.held = s.asked.held(r.Add)
	s.granted = r.Taken + s.held
	if s.first != nobody {
		s.ahead[s.first] = r.Ahead
	}
	return s.bucketHolder.answer(h, now, r)
}

// returned is called when the answer has been served from.
func (s *classedHolder) returned(h *Holder, now time.Duration) {
	s.granted, s.held = 0, 0
	if s.repay(h); !h.paysByClass() {
		h.shareDebts()
	}
}

func (s *classedHolder) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	q = s.bucketHolder.tell(h, now, q, quit)
	if q.Policy.Mode == PerRequest {
		h.shareDebts() // no lease will pay
		q.Debt, q.Since = h.debts.carry(h.talk.seq + 1)
	}
	if s.asked = (asked{}); q.Hold > 0 {
		s.asked = asked{least: q.Min, unit: q.Unit, most: q.Take}
	}
	return s.ranks.tell(h, now, q)
}

// tell divides the demand by class: that of the meters as they count, and that of the callers who
// wait as they do.
func (s *ranks) tell(h *Holder, now time.Duration, q Request) Request {
	b, sum := &ByClass{Classes: s.classes}, 0.0
	for c := range s.meters {
		s.meters[c].measure(now)
		b.Demand[c] = s.meters[c].demand()
		sum += b.Demand[c]
	}
	scale := h.talk.asked / max(sum, 1e-9)
	for c := range s.meters {
		b.Demand[c] *= scale
	}
	if sum == 0 {
		b.Demand[len(s.meters)-1] = h.talk.asked
	}
	for l := h.queue.top(); l != nil; l = l.below {
		b.Demand[l.class] += min(h.backlogOf(now, l), MaxRate)
	}
	for c, owes := range s.owes {
		owes = min(owes/slowMemory.Seconds(), MaxRate)
		b.Demand[c] += owes
		q.Demand = min(q.Demand+owes, MaxRate)
	}
	if l, _ := h.asks(now); l != nil {
		s.first = int(l.class)
		b.First, s.turns[l.class] = s.first, now
	} else {
		s.first, b.First = nobody, s.busiest(b)
	}
	q.ByClass = b
	return q
}

// busiest is the highest class with any demand, or the lowest of all.
func (s *ranks) busiest(b *ByClass) int {
	for c := range s.classes {
		if b.Demand[c] > 0 {
			return c
		}
	}
	return len(s.classes) - 1
}

// refills is when the credit of the first caller of a class will do.
func (s *classedHolder) refills(h *Holder, now time.Duration) time.Duration {
	at := never
	for l := h.queue.top(); l != nil && h.Running(now); l = l.below {
		c, n := int(l.class), l.first()
		rate, most := h.rate*s.parts[c], min(s.most(h, c), h.burst-s.kept(h, c))
		if n == 0 || rate == 0 || n > most {
			continue
		}
		n += s.owes[c]
		credit, tokens := (n-s.credit[c])/rate, (n-s.usable(h, c))/h.rate
		at = min(at, now+max(seconds(credit), seconds(tokens), time.Millisecond))
	}
	return at
}

// soonest goes by the credit of the class, until the lease is due. Then the parts may be others.
func (s *classedHolder) soonest(
	h *Holder, now time.Duration, class uint8, n float64,
) time.Duration {
	missing := max(n+s.owes[class]-s.usable(h, int(class)), 0)
	wait := max(h.refresh-now, seconds(missing/h.rate))
	if rate := h.rate * s.parts[class]; rate > 0 {
		wait = min(wait, seconds(missing/rate))
	}
	return max(wait, time.Millisecond)
}
