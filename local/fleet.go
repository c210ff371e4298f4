package local

import "sync/atomic"

// Fleet is the number of processes: the largest that the census has told since the last
// but one Forget. Other keys do not count: a process with several Limiters may have several
// holders of one, and few processes may use it. It is safe for concurrent use.
type Fleet struct{ now, before atomic.Int64 }

// Heard takes what a reply tells.
func (f *Fleet) Heard(holders int) {
	for n := int64(holders); ; {
		if old := f.now.Load(); n <= old || f.now.CompareAndSwap(old, n) {
			return
		}
	}
}

// Forget lets what was heard before the last Forget go.
func (f *Fleet) Forget() { f.before.Store(f.now.Swap(0)) }

// Size is the number, 0 if nothing was heard.
func (f *Fleet) Size() int { return int(max(f.now.Load(), f.before.Load())) }
