package local

import (
	"sync/atomic"
	"time"
)

// A Fleet is what a process knows of how many processes there are that share the limits of a
// store. All Dispatches of the process whose keys are in that store have one, and count time from
// the same moment. It is safe for concurrent use.
//
// What the census tells counts: other keys do not, as a process with several Limiters may have
// several holders of one, and few processes may use it.
type Fleet struct {
	name  *Name // of the process
	began time.Duration

	heard, before  atomic.Int64 // the largest number since the last forgets, and since the one before
	hint           atomic.Int64 // the largest that was guessed
	count, forgets atomic.Int64 // when the census is next taken, and what is old is forgotten
}

// NewFleet returns the Fleet of a process that has not heard of any other.
func NewFleet(now time.Duration, process *Name) *Fleet {
	f := &Fleet{name: process, began: now}
	f.count.Store(int64(now + censusFirst))
	f.forgets.Store(int64(now + fleetMemory))
	return f
}

// size is how many processes there are, by what the census has told in the last minute or two,
// else by a guess, else 0.
func (f *Fleet) size() int {
	if told := max(f.heard.Load(), f.before.Load()); told > 0 {
		return int(told)
	}
	return int(f.hint.Load())
}

// raise stores n if it is above what is there.
func raise(to *atomic.Int64, n int) {
	for old := to.Load(); int64(n) > old && !to.CompareAndSwap(old, int64(n)); {
		old = to.Load()
	}
}

// forget lets go what was heard before the last forget, if it is time for that.
func (f *Fleet) forget(now time.Duration) {
	if at := f.forgets.Load(); int64(now) >= at && f.forgets.CompareAndSwap(at, int64(now+fleetMemory)) {
		f.before.Store(f.heard.Swap(0))
	}
}

// counts reports whether the caller is to take the census now. Of several that ask one is.
func (f *Fleet) counts(now time.Duration, random func(n int64) int64) bool {
	at := f.count.Load()
	if int64(now) < at {
		return false
	}
	interval := min(now-f.began, censusInterval)
	return f.count.CompareAndSwap(at, int64(now+interval)-random(int64(interval/8)))
}
