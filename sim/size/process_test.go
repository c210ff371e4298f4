package size

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// forgetful is a store in which every bucket is full and nothing is kept: what memory is used
// is the Limiter's.
type forgetful struct{}

func (forgetful) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Reply = new(lease.Ledger).Exchange(time.Hour, c.Request)
	}
}

func heap() float64 {
	for range 3 { // one may leave what pools hold on to
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// A key that was asked for once keeps a batch: a process forgets it but for that, and parks it
// in so many bytes.
func TestParkedBytes(t *testing.T) {
	longform.None(t)
	synctest.Test(t, func(t *testing.T) {
		const keys = 50_000
		names := make([]string, keys)
		for i := range names {
			names[i] = fmt.Sprintf("tenant:%07d", i)
		}
		empty := heap()
		l, err := hybrid.New(forgetful{}, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		simtest.OK(t, err)
		for _, name := range names {
			l.Allow(name)
		}
		inUse := l.Stats().Keys
		time.Sleep(6 * time.Second)
		if n := l.Stats().Keys; inUse != keys || n != 0 {
			t.Errorf("%d keys in use, and %d after 6 s", inUse, n)
		}
		each := (heap() - empty) / keys
		t.Logf("%.0f bytes each", each)
		if math.Abs(each/parkedBytes-1) > 0.25 { // maps grow in steps
			t.Errorf("%.0f bytes for each parked key, expected %d", each, parkedBytes)
		}
		runtime.KeepAlive(names)
		if err := l.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
