package hybrid_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// full is a store whose node of the keys that begin with "full" has no memory left.
type full struct {
	hybrid.Store
	is atomic.Bool
}

func (f *full) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	for _, c := range calls {
		if f.is.Load() && strings.HasPrefix(c.Key, "full") {
			c.Err = fmt.Errorf("%w: OOM command not allowed (raise maxmemory or free memory)",
				lease.ErrUnable)
		} else {
			f.Store.Exchange(ctx, []*lease.Call{c})
		}
	}
}

// TestUnableStore: from the first answer on that says that nobody can be served, the outage
// policy decides, for the keys that it is about. The log says what the server said.
func TestUnableStore(t *testing.T) {
	for _, policy := range []hybrid.Outage{hybrid.Deny, hybrid.Allow} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &full{Store: hybrid.NewMemory()}
				core, logs := observer.New(zap.InfoLevel)
				l := newLimiter(t, store, hybrid.Config{
					Limit: hybrid.PerSecond(100), Outage: policy, Logger: zap.New(core),
				})
				l.Allow("other")
				store.is.Store(true)
				ask := func(key string, source hybrid.Source) {
					t.Helper()
					d, err := l.Take(ctx, key, 1)
					if err != nil || d.Source != source ||
						d.Allowed != (source != hybrid.OutagePolicy || policy == hybrid.Allow) {
						t.Fatalf("%s: %+v, %v", key, d, err)
					}
				}
				for i := range 500 {
					ask("full", hybrid.OutagePolicy)
					ask(fmt.Sprint("full", i), hybrid.OutagePolicy)
					if i%100 == 0 {
						ask(fmt.Sprint("other", i), hybrid.Ledger)
					}
					time.Sleep(time.Millisecond)
				}
				lines := logs.All()
				if len(lines) != 1 ||
					!strings.Contains(fmt.Sprint(lines[0].ContextMap()), "maxmemory") {
					t.Errorf("%v", lines)
				}
				store.is.Store(false)
				time.Sleep(3 * time.Second)
				l.Allow("full")
				time.Sleep(time.Second)
				if d, err := l.Take(ctx, "full", 1); err != nil || !d.Allowed ||
					d.Source == hybrid.OutagePolicy {
					t.Errorf("when there is memory again: %+v, %v", d, err)
				}
			})
		})
	}
}
