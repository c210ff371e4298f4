package local

import (
	"math"
	"math/bits"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"
)

// A Pocket decides requests for one token each without its entry's lock, by
// part of a lease.Spare: it holds tokens, or denies everybody. What it decided
// is settled with the holder when it is closed, under the lock.
//
// A request reads the clock, then until, then takes one from left; left is set
// after until, and swapped out before until is set again. So whoever finds a
// token read the clock before the end of the Spare that it belongs to: who saw
// an older end had read the clock even earlier. (Between its clock and its
// token a process may be stopped for long, as between a verdict and what the
// caller does with it, or the lease may be cut short by an answer. That is one
// request of each goroutine.)
type Pocket struct {
	until atomic.Int64 // nothing is decided here from this time on
	left  atomic.Int64 // tokens; below 0 none; from denying downwards, denials so far
	turn  atomic.Int64 // how often it has been opened
	given int64        // left when it was opened, 0 if it is closed; guarded by the entry's lock
	old   bool         // the entry has let go of it, and would not settle it: guarded as well
	_     [31]byte     // its own cache line
}

// pockets are those of an entry, and what its lock guards of them.
type pockets struct {
	all   []Pocket
	given int64         // tokens of the holder that are in them
	ends  time.Duration // when the last of the open ones does
}

const (
	denying = math.MinInt64 / 2

	// pocketLife bounds how long a pocket stays open, so that the holder knows
	// when a request last came.
	pocketLife = time.Millisecond

	// pocketPart is the part of the tokens not given yet that fills a pocket,
	// and pocketLeast how many are worth it.
	pocketPart, pocketLeast = 1.0 / 8, 8

	// An entry gets pockets when so many requests in a row came with no longer
	// pauses than this.
	denseRun, densePause = 64, 100 * time.Microsecond

	// A sweep takes the pockets from an entry that has not been used for so long.
	pocketIdle = time.Second

	// mostHot is how many entries of a table have pockets. On many cores they
	// take 8 KiB each, and whoever makes up keys could have them for all. Where
	// more keys are hot at a time, few requests meet at one of them.
	mostHot = 1024
)

// lanes is how many pockets an entry has, a power of two: enough for two
// goroutines that run at the same time to be unlikely to share one.
var (
	laneBits = min(max(bits.Len(uint(8*runtime.GOMAXPROCS(0)-1)), 4), 7)
	lanes    = 1 << laneBits
)

// Pocket returns the pocket for requests of this goroutine, or nil while there are
// too few to need one. It goes by the address of the stack, the one thing that
// differs between goroutines and can be told in a nanosecond; nothing but speed
// depends on it.
func (e *Entry) Pocket() *Pocket {
	hot := e.pockets.Load()
	if hot == nil {
		return nil
	}
	var here byte
	const stack = 11 // bits: the smallest is 2 KiB
	lane := uint64(uintptr(unsafe.Pointer(&here))>>stack) * 0x9e3779b97f4a7c15 >> (64 - laneBits)
	return &hot.all[lane]
}

// heatLocked gives the entry pockets, if its table has not given out all.
func (e *Entry) heatLocked() {
	if e.common.hot.Add(1) > mostHot {
		e.common.hot.Add(-1)
		e.dense = 0 // try again later
		return
	}
	e.pockets.Store(&pockets{all: make([]Pocket, lanes)})
}

// coolLocked takes the pockets, all closed, from the entry. A request may still
// come with one of them.
func (e *Entry) coolLocked() {
	hot := e.pockets.Swap(nil)
	if hot == nil {
		return
	}
	for i := range hot.all {
		hot.all[i].old = true
	}
	e.dense = 0
	e.common.hot.Add(-1)
}

// Take decides a request, or reports false: then ask Entry.Allow.
func (p *Pocket) Take(now time.Duration) (admitted, ok bool) {
	if int64(now) >= p.until.Load() {
		return false, false
	}
	left := p.left.Add(-1)
	return left >= 0, left >= 0 || left < denying
}

// close returns what has been decided since it was opened.
func (p *Pocket) close() (admitted, denied int64) {
	left, given := p.left.Swap(0), p.given
	p.given = 0
	if given == denying {
		return 0, denying - left
	}
	return given - min(max(left, 0), given), 0
}

// settleLocked closes all pockets. What tells the holder the time begins with
// it; only Take may do with makeWayLocked.
func (e *Entry) settleLocked(now time.Duration) {
	if e.open == 0 {
		return
	}
	all := e.pockets.Load().all
	for i := range all {
		e.shutLocked(now, &all[i])
	}
}

// makeWayLocked settles before a Take of n tokens: the caller's pocket, if it
// has one, and all if the lease may have ended or their tokens are needed. Those
// that deny have none: closed by each other's callers, they would all be of no
// use (TestPocketsDenyTogether).
func (e *Entry) makeWayLocked(now time.Duration, n float64, p *Pocket) {
	hot := e.pockets.Load()
	if now >= hot.ends || hot.given > 0 && e.holder.Held() < float64(hot.given)+n {
		e.settleLocked(now)
	} else if p != nil {
		e.shutLocked(now, p)
	}
}

func (e *Entry) shutLocked(now time.Duration, p *Pocket) {
	if p.given == 0 {
		return
	}
	e.open--
	e.pockets.Load().given -= max(p.given, 0)
	admitted, denied := p.close()
	if admitted+denied == 0 {
		return
	}
	now = min(now, time.Duration(p.until.Load()))
	e.used = max(e.used, now)
	a, d := uint64(admitted), uint64(denied) // one token each
	e.count.add(Verdicts{Admitted: a, Denied: d, AdmittedTokens: a, DeniedTokens: d})
	e.denied += d
	e.holder.Settle(now, float64(admitted), float64(denied))
}

// openLocked opens the caller's pocket after a Take that the lease decided.
func (e *Entry) openLocked(now time.Duration, p *Pocket) {
	tokens, until := e.holder.Spare(now)
	if until = min(until, now+pocketLife); until <= now {
		return
	}
	hot, left := e.pockets.Load(), int64(denying)
	if tokens >= 1 {
		if left = int64((tokens - float64(hot.given)) * pocketPart); left < pocketLeast {
			return
		}
		hot.given += left
	}
	if e.open == 0 {
		hot.ends = 0
	}
	e.open++
	hot.ends = max(hot.ends, until)
	p.given = left
	p.turn.Add(1)
	p.until.Store(int64(until))
	p.left.Store(left)
}
