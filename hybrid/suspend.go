package hybrid

import (
	"sync"
	"sync/atomic"
	"time"
)

// A clock counts time from when it was made: what has passed on the process's monotonic
// clock, and what the machine has slept meanwhile, for which that clock stands still.
// Leases end at the ledger during a sleep, so they must have ended here before anything
// is decided by them (I2).
//
// A sleep shows in the wall clock, which time.Now reads as well: it runs ahead of the
// monotonic one. How long it was the boot-time clock tells, where there is one (Linux):
// a wall clock that steps moves nothing then. Elsewhere a step forward counts as a sleep.
// It ends leases early, which costs each key an exchange.
type clock struct {
	start time.Time
	wall  int64        // start on the wall clock, ns
	slept atomic.Int64 // ns
	alarm atomic.Int64 // look when the wall clock is so far ahead of the monotonic one, ns

	mu     sync.Mutex
	asleep func() (time.Duration, bool) // since the machine was started; false if not known
	before time.Duration                // what asleep said at the start, less what was slept
}

// leastSleep is the shortest time that counts as a sleep. Slews of a wall clock between
// two looks are far below it.
const leastSleep = 10 * time.Millisecond

func newClock() *clock {
	c := &clock{start: time.Now(), asleep: asleep}
	c.wall = c.start.UnixNano()
	c.before, _ = c.asleep()
	c.alarm.Store(int64(leastSleep))
	return c
}

// now is the time, as far as anybody has looked for sleeps.
func (c *clock) now() time.Duration {
	return time.Since(c.start) + time.Duration(c.slept.Load())
}

// awake is the time for a decision under an entry's lock: the first one after a sleep
// finds it. It costs a second clock reading. So requests in a Pocket do without it, whose
// life is a millisecond: after a sleep it ends with the rest of that.
func (c *clock) awake() time.Duration {
	t := time.Now()
	passed := t.Sub(c.start)
	if t.UnixNano()-c.wall-int64(passed) > c.alarm.Load() {
		c.look()
	}
	return passed + time.Duration(c.slept.Load())
}

// look finds out whether the machine has slept. What it has slept counts before the
// alarm is set anew: whoever sees the new alarm sees the sleep.
func (c *clock) look() {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := time.Now()
	// The wall clock is so far ahead of the monotonic one.
	ahead := time.Duration(t.UnixNano()-c.wall) - t.Sub(c.start)
	total, known := c.asleep()
	total -= c.before
	if !known { // a step of the wall clock by more than a day ends all leases as a day does
		stepped := ahead - time.Duration(c.alarm.Load()) + leastSleep
		total = time.Duration(c.slept.Load()) + min(stepped, 24*time.Hour)
	}
	if total >= time.Duration(c.slept.Load())+leastSleep {
		c.slept.Store(int64(total))
	}
	c.alarm.Store(int64(ahead + leastSleep))
}
