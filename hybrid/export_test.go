package hybrid

import "time"

// Suspend makes the Limiter's clocks read as if the machine had slept for d: the wall
// clock and, if it is known here, the boot-time clock are ahead by d.
func (l *Limiter) Suspend(d time.Duration) {
	l.clock.step(d)
	l.clock.mu.Lock()
	defer l.clock.mu.Unlock()
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
