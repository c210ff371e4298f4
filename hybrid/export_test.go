package hybrid

import (
	"context"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// TryOfReset is a Try whose key was reset after its entry had no verdict, as the store does
// not answer for it.
func (l *Limiter) TryOfReset(ctx context.Context, key string, n int) (Decision, error) {
	e := l.table.Find(key)
	if err := l.Reset(ctx, key); err != nil {
		return Decision{}, err
	}
	q := &request{key: key, n: n, try: true}
	return l.settle(ctx, e, q, local.Result{Verdict: lease.Unavailable})
}

// Note has a denial of a key recorded of which the Limiter has nothing.
func Note(l *Limiter, key string) { l.recorder.decided(key, 1, false, false, nil) }

// Pool is how many tokens of a key are not lent.
func (m *Memory) Pool(key string) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.ledgers[key]
	if l == nil {
		return math.Inf(1)
	}
	v := l.View()
	free := (v.Limit.Rate - v.Rates) * (m.now() - time.Duration(v.At)*time.Microsecond).Seconds()
	return min(v.Pool+free, max(float64(v.Limit.Burst)-v.Bursts, v.Pool))
}

// Suspend makes the Limiter's clocks read as if the machine had slept for d: the wall
// clock and, if it is known here, the boot-time clock are ahead by d.
func (l *Limiter) Suspend(d time.Duration) {
	l.clock.mu.Lock() // who looks meanwhile must not take it for a step of the wall clock
	defer l.clock.mu.Unlock()
	l.clock.step(d)
	l.clock.before -= d
}

// Step makes the wall clock read as if it had been set forward by d.
func (l *Limiter) Step(d time.Duration) { l.clock.step(d) }

func (c *clock) step(d time.Duration) { c.alarm.Add(-int64(d)) }

// WithoutBootTime makes the Limiter's clock that of a system whose sleeps only the wall
// clock shows.
func (l *Limiter) WithoutBootTime() {
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
	l.clock.asleep = func() (time.Duration, bool) { return 0, false }
}

// Slept is how long the Limiter has found the machine to have slept.
func (l *Limiter) Slept() time.Duration { return time.Duration(l.clock.slept.Load()) }

// OpensAnew reports whether a key for which MaxKeys leaves no room gets a new entry each time:
// nobody has left one behind that the table keeps.
func OpensAnew(l *Limiter, key string) bool {
	open := func() *local.Entry {
		e := l.table.Open(l.now(), key, lease.Limit(l.config.Limit))
		l.leave(e)
		return e
	}
	first := open()
	return open() != first
}
