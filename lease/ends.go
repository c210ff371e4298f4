package lease

import (
	"cmp"
	"math"
	"slices"
)

// A calendar counts the leases that end in each tick of time, so that an exchange sees at once
// whether any has ended (ADR 11). An end is noticed when all of its tick has passed, and accounted
// for at its exact time. Leases that live for longer than the fine ticks reach are counted in eras.
// An era is looked at every eighth of its time while others wait for what those leases hold, or
// declare another limit.
//
// Each record is counted once, in its place: where it was when it was added. When the
// width changes, places do as records are looked at (TestCalmWidth).
type calendar struct {
	width float64 // of a tick, µs; see tickWidth
	count [calendarTicks + calendarEras]int
}

const (
	calendarTicks = 20
	calendarEras  = 3
	reach         = 18  // fine ticks
	era           = 480 // fine ticks
	eighth        = 60  // fine ticks
)

// tickWidth is a quarter of MaxRefresh: slices and batches that are lent for three live for 17 ticks
// at most. Ticks are wider if an era would else be shorter than MaxHold.
func tickWidth(p *Policy) float64 {
	return max(math.Floor(micros(p.MaxRefresh)/4), math.Ceil(micros(p.MaxHold)/era))
}

// add counts r, of which something next flows back at end.
func (c *calendar) add(r *record, end float64) {
	if end-r.at <= c.width*reach {
		r.place = int(int64(math.Floor(end/c.width)) % calendarTicks)
	} else {
		r.place = calendarTicks + int(int64(math.Floor(end/(c.width*era)))%calendarEras)
	}
	c.count[r.place]++
}

// due reports whether a lease ended in a tick that has passed between at and t. If
// ends are wanted, it also says when to look at an era that has not passed.
func (c *calendar) due(at, t float64, wanted bool) bool {
	if wanted && math.Floor(at/(c.width*eighth)) < math.Floor(t/(c.width*eighth)) {
		for _, n := range c.count[calendarTicks:] {
			if n > 0 {
				return true
			}
		}
	}
	return c.passed(at, t, c.width, 0, calendarTicks) ||
		c.passed(at, t, c.width*era, calendarTicks, calendarEras)
}

// passed looks at ticks of a width, n of them from first on.
func (c *calendar) passed(at, t, width float64, first, n int64) bool {
	last := math.Floor(t / width)
	for tick := max(math.Floor(at/width), last-float64(n)); tick < last; tick++ {
		if c.count[first+int64(tick)%n] > 0 {
			return true
		}
	}
	return false
}

// awaited reports whether q or other holders may need the end of a long lease: what it
// holds, or that its limit goes (TestTurnAfterADeath).
func (l *Ledger) awaited(q *Request) bool {
	return l.demand > float64(l.rate*calmDemand) || l.limits.several() ||
		l.frame != frameOf(q.Limit)
}

// due reports whether a lease may have ended until t.
func (l *Ledger) due(t float64, q *Request) bool {
	return tickWidth(&q.Policy) > l.ends.width || l.ends.due(l.at, t, l.awaited(q))
}

// advance brings the bucket to time t. Holders are looked at only when a lease has
// ended since the last time.
func (l *Ledger) advance(t float64, q *Request) {
	d, from := l.division(), l.at
	l.forgets = deniedFor * max(micros(q.Policy.MaxRefresh), float64(2*q.Policy.Smallest*1e6)/l.rate)
	if l.due(t, q) {
		l.end(t, d)
		if width := tickWidth(&q.Policy); width > l.ends.width {
			l.ends.width = width
			l.rooms.least = [roomSpans]float64{}
		}
		l.ends = calendar{width: l.ends.width}
		for _, r := range l.holders {
			l.ends.add(r, d.end(r))
		}
	}
	l.refill(t)
	d.pass(from)
	l.past.forget(l.at)
}

// end goes through the leases that ended until t, in the order in which they
// did: the rate of each flows to the pool from that moment, and what is kept for its holder
// is anybody's.
func (l *Ledger) end(t float64, d division) {
	type event struct {
		at   float64
		id   string
		last bool // the tokens end, too
	}
	var events []event
	for id, r := range l.holders {
		if first := d.end(r); first <= t && first < r.expires() {
			events = append(events, event{first, id, false})
		}
		if r.expires() <= t {
			events = append(events, event{r.expires(), id, true})
		}
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id))
	})
	for _, e := range events {
		l.refill(max(e.at, l.at))
		r := l.holders[e.id]
		if e.last {
			l.subtract(r)
			d.ended(r, r.expires())
			l.limits.leave(r.limit)
			delete(l.holders, e.id)
		} else {
			d.endPart(r)
		}
	}
}

// looks is about how many holders the Lua ledger looks at in one exchange, since its server's
// clients wait meanwhile. Of more holders it keeps piles (ADR 11, lua.TestManyEnd). This ledger
// looks at all.
const looks = 512

// maxHolders is how many holders there may be: the Lua ledger counts them in two
// bytes. One more gets a Stale reply, and is not remembered: it is as if its message
// had been lost.
const maxHolders = 65535

// full reports whether there is no room at time t for a holder that is not known. It
// changes nothing, since its twin writes nothing then (lua.TestFull).
func (l *Ledger) full(t float64, q *Request) bool {
	n := len(l.holders)
	if n < maxHolders || !l.due(t, q) {
		return n >= maxHolders
	}
	for _, r := range l.holders {
		if r.expires() <= t {
			n--
		}
	}
	return n >= maxHolders
}
