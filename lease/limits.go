package lease

import (
	"cmp"
	"slices"
)

// Limits are those that live holders declare, with the number of their holders. In force are the
// lowest Rate and the lowest Burst of all (ADR 23). A record has the place of its limit here. A
// limit goes when its last record is replaced or ends (TestLimitGoesWithItsRecord).
type limits []declared

// A declared limit is free for another one when it has no holders.
type declared struct {
	rate, burst float64
	holders     int
}

// maxLimits is how many there may be. A further one joins the lowest, whose Rate and
// Burst become the lower ones of both. So too little is in force, never too much, until
// all holders of both have come back or gone (TestManyLimits).
const maxLimits = 255

// join counts a holder that declares limit, and returns its place.
func (ls *limits) join(limit Limit) int {
	rate, burst := limit.Rate, float64(limit.Burst)
	same, free, lowest := -1, -1, -1
	for i, d := range *ls {
		switch {
		case d.holders == 0:
			free = max(free, i)
		case d.rate == rate && d.burst == burst:
			same = i
		case lowest < 0 || d.below((*ls)[lowest]):
			lowest = i
		}
	}
	place := same
	switch {
	case same >= 0:
	case free >= 0:
		place = free
		(*ls)[place] = declared{rate: rate, burst: burst}
	case len(*ls) < maxLimits:
		place = len(*ls)
		*ls = append(*ls, declared{rate: rate, burst: burst})
	default:
		place = lowest
		d := &(*ls)[place]
		d.rate, d.burst = min(d.rate, rate), min(d.burst, burst)
	}
	(*ls)[place].holders++
	return place
}

// leave counts one holder less.
func (ls *limits) leave(place int) {
	d := &(*ls)[place]
	if d.holders--; d.holders == 0 {
		*d = declared{}
	}
	for n := len(*ls); n > 0 && (*ls)[n-1].holders == 0; n-- {
		*ls = (*ls)[:n-1]
	}
}

// several reports whether there is more than one.
func (ls limits) several() bool {
	n := 0
	for _, d := range ls {
		n += min(d.holders, 1)
	}
	return n > 1
}

// below orders limits, by rate first.
func (d declared) below(x declared) bool {
	return d.rate < x.rate || d.rate == x.rate && d.burst < x.burst
}

// declare counts what the holder declares, and puts the lowest of all in force.
func (l *Ledger) declare(a *answer, q *Request) {
	r := l.holders[q.Holder]
	if r != nil && l.limits[r.limit].is(q.Limit) {
		a.limit = r.limit
	} else {
		if r != nil {
			l.limits.leave(r.limit)
		}
		a.limit = l.limits.join(q.Limit)
	}
	rate, burst, first := l.rate, l.burst, true
	for _, d := range l.limits {
		switch {
		case d.holders == 0:
		case first:
			l.rate, l.burst, first = d.rate, d.burst, false
		default:
			l.rate, l.burst = min(l.rate, d.rate), min(l.burst, d.burst)
		}
	}
	if l.rate != rate || l.burst != burst {
		l.rooms.least = [roomSpans]float64{}
	}
}

func (d declared) is(limit Limit) bool {
	return d.rate == limit.Rate && d.burst == float64(limit.Burst)
}

// Limit returns the limit in force, zero before the first exchange.
func (l *Ledger) Limit() Limit { return l.frame.limit(l.rate, int64(l.burst)) }

// DeclaredLimit is one that live holders declare.
type DeclaredLimit struct {
	Limit
	Holders int
}

// view lists them, the lowest first.
func (ls limits) view(f frame) []DeclaredLimit {
	var list []DeclaredLimit
	for _, d := range ls {
		if d.holders > 0 {
			list = append(list, DeclaredLimit{f.limit(d.rate, int64(d.burst)), d.holders})
		}
	}
	slices.SortFunc(list, DeclaredLimit.Compare)
	return list
}

// Compare orders declared limits: by Kind first, and buckets by Rate.
func (d DeclaredLimit) Compare(x DeclaredLimit) int {
	return cmp.Or(
		cmp.Compare(d.Kind, x.Kind), cmp.Compare(d.Window, x.Window), cmp.Compare(d.Offset, x.Offset),
		cmp.Compare(d.Rate, x.Rate), cmp.Compare(d.Burst, x.Burst), cmp.Compare(d.Holders, x.Holders))
}
