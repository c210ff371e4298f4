package ideal

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A log is what is in use: what was admitted and is not over. Of a sliding window that is for
// one Window, an exact central sliding log; of slots for as long as each job holds its own, a
// central semaphore with a queue. It is the Ideal of both kinds, and their Gauge.
type log struct {
	limit lease.Limit
	wait  time.Duration
	list  []use // by their ends
	sum   float64
	queue queue
}

// A queue is of callers who wait. Each takes what comes back first, and begins where the one
// before has ended: no use is looked at twice.
type queue struct {
	latest time.Duration // when the last one's tokens come
	n      int           // uses in the log that are over by then, and have been taken
	back   float64       // their tokens
}

// A use is tokens that are back at ends.
type use struct {
	ends   time.Duration
	tokens float64
}

// join is the queue with a caller for n tokens, and whether they come in time. Nobody overtakes
// those who wait.
func (l *log) join(at time.Duration, n float64) (q queue, inTime bool) {
	l.advance(at)
	q = l.queue
	free, by := float64(l.limit.Burst)-l.sum, at+l.wait
	q.latest = max(at, q.latest)
	for q.n < len(l.list) && free+q.back < n && q.latest <= by {
		q.latest = max(q.latest, l.list[q.n].ends)
		q.back += l.list[q.n].tokens
		q.n++
	}
	return q, free+q.back >= n && q.latest <= by
}

func (l *log) Fits(at time.Duration, n float64) bool {
	_, inTime := l.join(at, n)
	return inTime
}

func (l *log) Take(at time.Duration, n float64, hold time.Duration) bool {
	q, inTime := l.join(at, n)
	if inTime {
		l.queue = q
		l.add(l.ends(q.latest, q.latest, hold), n)
	}
	return inTime
}

// ends is when tokens are back that were had at a time from from to at. Those of a window may
// have been spent at the earliest moment, and those of a job were in use from the latest on:
// what may not have been in use at the same time does not exceed the limit.
func (l *log) ends(from, at, hold time.Duration) time.Duration {
	if l.limit.Window > 0 {
		return from + l.limit.Window
	}
	return at + hold
}

func (l *log) SetLimit(_ time.Duration, limit lease.Limit) { l.limit = limit }

func (l *log) Tokens(at time.Duration) float64 {
	l.advance(at)
	return float64(l.limit.Burst) - l.sum
}

func (l *log) Level(_ time.Duration, _ float64, fleet Gauge) {
	if f, ok := fleet.(*log); ok {
		l.list, l.sum, l.queue = slices.Clone(f.list), f.sum, f.queue
	}
}

// Spilt is nothing: a token that nobody wants stays.
func (l *log) Spilt(time.Duration) float64 { return 0 }

func (l *log) Pour(from, at time.Duration, n float64, hold time.Duration) float64 {
	l.advance(at)
	l.add(l.ends(from, at, hold), n)
	return l.sum - float64(l.limit.Burst)
}

func (l *log) Copy() Gauge {
	c := *l
	c.list = slices.Clone(l.list)
	return &c
}

func (l *log) add(ends time.Duration, n float64) {
	i, _ := slices.BinarySearchFunc(l.list, ends+1, func(u use, after time.Duration) int {
		return cmp.Compare(u.ends, after)
	})
	l.list = slices.Insert(l.list, i, use{ends, n})
	l.sum += n
}

func (l *log) advance(at time.Duration) {
	n := 0
	for n < len(l.list) && l.list[n].ends <= at {
		l.sum -= l.list[n].tokens
		if n < l.queue.n {
			l.queue.back -= l.list[n].tokens
		}
		n++
	}
	l.list = l.list[n:]
	l.queue.n = max(l.queue.n-n, 0)
}
