package ideal

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// window goes by the calendar of package time. The calendar of package lease is written apart from
// it.
func window(limit lease.Limit, at time.Duration) (starts, ends time.Duration) {
	local := at + limit.Offset
	switch limit.Window {
	case lease.Month:
		t := time.Unix(0, int64(local)).UTC()
		first := time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, time.UTC)
		starts = time.Duration(first.UnixNano())
		ends = time.Duration(first.AddDate(0, 1, 0).UnixNano())
	case lease.Week:
		const thursday = 3 * lease.Day // after Monday
		starts = local - (local+thursday)%lease.Week
		ends = starts + lease.Week
	default:
		into := local % limit.Window
		if into < 0 { // before 1970, by local time
			into += limit.Window
		}
		starts = local - into
		ends = starts + limit.Window
	}
	return starts - limit.Offset, ends - limit.Offset
}

// A quota is an exact central quota. Each window begins with all of it.
type quota struct {
	limit  lease.Limit
	wait   time.Duration
	ends   time.Duration // the window under way
	tokens float64       // below 0 while some wait for windows to come
	spilt  float64       // in windows that are over
}

func (q *quota) Fits(at time.Duration, n float64) bool {
	q.advance(at)
	there := q.tokens
	for ends := q.ends; ends <= at+q.wait && there < n; _, ends = Window(q.limit, ends) {
		there += float64(q.limit.Burst)
	}
	return there >= n
}

func (q *quota) Take(at time.Duration, n float64, _ time.Duration) bool {
	fits := q.Fits(at, n)
	if fits {
		q.tokens -= n
	}
	return fits
}

func (q *quota) SetLimit(at time.Duration, limit lease.Limit) {
	q.advance(at)
	tokens := q.tokens + float64(limit.Burst-q.limit.Burst) // what was used is used
	q.tokens = max(tokens, min(q.tokens, 0))                // and no debt of the windows to come
	q.limit = limit
}

func (q *quota) Tokens(at time.Duration) float64 {
	q.advance(at)
	return q.tokens
}

func (q *quota) Level(at time.Duration, tokens float64, _ Gauge) {
	q.advance(at)
	q.tokens = min(tokens, float64(q.limit.Burst))
}

func (q *quota) Spilt(at time.Duration) float64 {
	q.advance(at)
	return q.spilt
}

func (q *quota) advance(at time.Duration) {
	for ; q.ends <= at; _, q.ends = Window(q.limit, q.ends) {
		q.spilt += max(q.tokens, 0)
		q.tokens = min(q.tokens, 0) + float64(q.limit.Burst)
	}
}

// A windowed Gauge counts what each window of a quota admits. What was admitted in one of two
// windows is of the first as far as it fits there; of three, it is of none.
type windowed struct {
	limit                lease.Limit
	before, starts, ends time.Duration // the window under way, and when the one before it began
	left, admitted       float64       // of the one before, and in the one under way
}

func (g *windowed) Pour(from, at time.Duration, n float64, _ time.Duration) float64 {
	if at >= g.ends {
		ended := g.ends
		g.starts, g.ends = Window(g.limit, at)
		g.before, _ = Window(g.limit, g.starts-1)
		g.left = float64(g.limit.Burst)
		if ended == g.starts {
			g.left = max(g.left-g.admitted, 0)
		}
		g.admitted = 0
	}
	switch {
	case from >= g.starts:
		g.admitted += n
	case from >= g.before:
		fits := min(n, g.left)
		g.left -= fits
		g.admitted += n - fits
	}
	return g.admitted - float64(g.limit.Burst)
}

func (g *windowed) SetLimit(_ time.Duration, limit lease.Limit) { g.limit = limit }

func (g *windowed) Copy() Gauge {
	c := *g
	return &c
}
