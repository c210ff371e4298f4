package local

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// openPockets returns an entry whose pockets have so much left, and never end.
func openPockets(key string, left int64) *Entry {
	l, p := lease.Limit{Rate: 1, Burst: 1e6}, lease.Policy{}.Resolved()
	e := NewEntry(0, key, lease.NewHolder("h", l, &p, 1), l, NewCommon(time.Second, 0))
	e.pockets.Store(&pockets{all: make([]Pocket, lanes)})
	for i := range e.pockets.Load().all {
		pocket := &e.pockets.Load().all[i]
		pocket.until.Store(math.MaxInt64)
		pocket.left.Store(left)
	}
	return e
}

// TestTakeAllOfReopened: while a pocket is closed, denies, and is opened anew, no request for two
// keys is admitted by that pocket alone.
func TestTakeAllOfReopened(t *testing.T) {
	const plenty = 1 << 40
	a, b := openPockets("a", plenty), openPockets("b", denying)
	var stop atomic.Bool
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for !stop.Load() {
			for i := range lanes {
				for _, left := range []int64{denying, 100} {
					p := &b.pockets.Load().all[i]
					p.left.Swap(0)
					p.turn.Add(1)
					p.left.Store(left)
				}
			}
		}
	}()
	var admitted, taken int64
	for n := 0; n < 4_000_000 || admitted == 0; n++ { // on one processor it may be denied for long
		if yes, ok := TakeAll(0, []Draw{DrawOf(b), DrawOf(a)}); yes && ok {
			admitted++
		}
	}
	stop.Store(true)
	<-stopped
	for i := range lanes {
		taken += plenty - a.pockets.Load().all[i].left.Load()
	}
	if admitted > taken {
		t.Errorf("%d were admitted, and %d tokens taken of the other key", admitted, taken)
	}
}

// TestTakeAllDenied: a pocket that denies decides for a request of several keys, and counts.
func TestTakeAllDenied(t *testing.T) {
	e := openPockets("a", denying)
	for range 3 {
		if admitted, ok := TakeAll(0, []Draw{DrawOf(e)}); admitted || !ok {
			t.Errorf("admitted %v, decided %v", admitted, ok)
		}
	}
	var denied int64
	for i := range lanes {
		denied += denying - e.pockets.Load().all[i].left.Load()
	}
	if denied != 3 {
		t.Errorf("%d denials are counted", denied)
	}
}
