package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// poisoned answers all keys but those that begin with "bad", which are an error.
type poisoned struct{ hybrid.Store }

func (b poisoned) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	for _, c := range calls {
		if strings.HasPrefix(c.Key, "bad") {
			c.Err = lease.ErrRefused
		} else {
			b.Store.Exchange(ctx, []*lease.Call{c})
		}
	}
}

// TestBadKeyIsNoOutage: one key whose state is unreadable, asked for often, is no outage
// of the store: other keys are decided by their ledgers, and keep to their limits.
func TestBadKeyIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, poisoned{hybrid.NewMemory()},
			hybrid.Config{Limit: hybrid.PerSecond(1000), Outage: hybrid.Deny})
		denied, away := 0, 0
		for i := range 60_000 {
			l.Allow("bad")
			if i%100 == 0 {
				time.Sleep(time.Millisecond / 2)
				if !l.Allow("good") {
					denied++
				}
				if l.Stats().Away {
					away++
				}
				time.Sleep(time.Millisecond / 2)
			} else {
				time.Sleep(time.Millisecond)
			}
		}
		if denied > 0 {
			t.Errorf("%d of 600 requests of a good key at a tenth of its limit were denied; away "+
				"at %d of 600 looks", denied, away)
		}
	})
}

// TestBadKeysMintNothing: keys whose state is unreadable do not make others admit more
// than their limits.
func TestBadKeysMintNothing(t *testing.T) {
	long(t)
	looks := longform.Of(3000, 20_000)
	for _, bad := range []int{0, 10, 100} {
		synctest.Test(t, func(t *testing.T) {
			store := poisoned{hybrid.NewMemory()}
			config := hybrid.Config{
				Limit: hybrid.PerSecond(1000).WithBurst(100), Timeout: 100 * time.Millisecond,
			}
			all := []*hybrid.Limiter{
				newLimiter(t, store, config), newLimiter(t, store, config),
				newLimiter(t, store, config),
			}
			n, away, start := 0, 0, time.Now()
			for i := range looks {
				if bad > 0 {
					for _, l := range all[:2] {
						l.Allow(fmt.Sprint("bad", i%bad))
					}
				}
				for _, l := range all {
					if l.Allow("k") {
						n++
					}
				}
				if all[0].Stats().Away {
					away++
				}
				time.Sleep(time.Millisecond)
			}
			if most := 100 + 1000*time.Since(start).Seconds(); float64(n) > most || away > 0 {
				t.Errorf("%d bad keys: %d admitted of %.0f; away at %d of %d looks: %+v", bad, n,
					most, away, looks, all[0].Stats())
			}
		})
	}
}

// TestPartOfStoreIsBack: after an outage one key's node stays down, and most requests
// are for it. The others are served by their ledgers again.
func TestPartOfStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, down := remoteLine(time.Millisecond), remoteLine(time.Millisecond)
		l := newLimiter(t, split{"down", down, up},
			hybrid.Config{Limit: hybrid.PerSecond(100), Timeout: 50 * time.Millisecond})
		away := 0
		step := func(i int) {
			l.Allow("down")
			time.Sleep(time.Millisecond / 2)
			if i%100 == 0 {
				l.Allow("up")
			}
			time.Sleep(time.Millisecond / 2)
		}
		for i := range 2000 {
			step(i)
		}
		up.cut.Store(true)
		down.cut.Store(true)
		for i := range 2000 {
			step(i)
		}
		up.cut.Store(false)
		back := time.Now()
		for i := 0; l.Stats().Away && i < 600_000; i++ {
			step(i)
			away++
		}
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("noticed %v after it was back", took)
		}
	})
}

// halfFrozen is a cluster whose node of the keys that begin with "down" is frozen: as a
// ClusterClient's pipeline does, a round trip comes back when all its nodes have
// answered or its time is over.
type halfFrozen struct {
	hybrid.Store
	frozen atomic.Bool
}

func (h *halfFrozen) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	waits := false
	for _, c := range calls {
		if h.frozen.Load() && strings.HasPrefix(c.Key, "down") {
			c.Err, waits = errors.New("i/o timeout"), true
		} else {
			h.Store.Exchange(ctx, []*lease.Call{c})
		}
	}
	if waits {
		<-ctx.Done()
	}
}

// nodes is a halfFrozen that tells which node has a key.
type nodes struct{ *halfFrozen }

func (nodes) Node(key string) string { return key[:min(len(key), 2)] }

// TestFrozenNode: keys of other nodes are served by their ledgers while one node is frozen:
// all of them where the store tells which node has a key, and as many as can be without.
func TestFrozenNode(t *testing.T) {
	for _, down := range []int{1, 300, 0, 10}[:longform.Of(2, 4)] {
		for _, tells := range []bool{false, true} {
			t.Run(fmt.Sprint(down, tells), func(t *testing.T) { frozenNode(t, down, tells) })
		}
	}
}

func frozenNode(t *testing.T, down int, tells bool) {
	synctest.Test(t, func(t *testing.T) {
		frozen := &halfFrozen{Store: hybrid.NewMemory()}
		var store hybrid.Store = frozen
		if tells {
			store = nodes{frozen}
		}
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.PerSecond(1000)})
		var served atomic.Int64
		all := int64(0)
		for i := range 20_000 {
			frozen.frozen.Store(i > 2000)
			if down > 0 {
				go l.Allow(fmt.Sprint("down", i%down))
			}
			time.Sleep(time.Millisecond / 2)
			if i%20 == 0 && i > 5000 {
				all++
				go func() {
					if d, err := l.Take(ctx, fmt.Sprint("up", i), 1); err == nil &&
						d.Allowed && d.Source == hybrid.Ledger {
						served.Add(1)
					}
				}()
			}
			time.Sleep(time.Millisecond / 2)
		}
		time.Sleep(time.Second)
		least := all * 9 / 10
		switch {
		case tells:
			least = all
		case down > 100: // nearly each round trip takes one of them along
			least = all / 2
		}
		if n := served.Load(); n < least {
			t.Errorf("%d keys down: %d of %d requests for keys of other nodes are served: %+v",
				down, n, all, l.Stats())
		}
	})
}

// TestManyDownKeys: most requests are for many keys of a node that stays down.
func TestManyDownKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &halfFrozen{Store: hybrid.NewMemory()}
		var all atomic.Bool
		l := newLimiter(t, gate{store, &all},
			hybrid.Config{Limit: hybrid.PerSecond(1000), Outage: hybrid.Deny})
		step := func(i int) {
			go l.Allow(fmt.Sprint("down", i%300))
			time.Sleep(time.Millisecond / 2)
			if i%100 == 0 {
				go l.Allow(fmt.Sprint("up", i%10))
			}
			time.Sleep(time.Millisecond / 2)
		}
		for i := range 3000 {
			step(i)
		}
		store.frozen.Store(true)
		all.Store(true)
		for i := range 5000 {
			step(i)
		}
		all.Store(false)
		back := time.Now()
		for i := 0; l.Stats().Away && i < 120_000; i++ {
			step(i)
		}
		if took := time.Since(back); took > 5*time.Second {
			t.Errorf("noticed after %v", took)
		}
		time.Sleep(time.Second)
	})
}

// gate fails all while it is shut.
type gate struct {
	hybrid.Store
	shut *atomic.Bool
}

func (g gate) Exchange(ctx context.Context, calls []*lease.Call) {
	if !g.shut.Load() {
		g.Store.Exchange(ctx, calls)
		return
	}
	<-ctx.Done()
	for _, c := range calls {
		c.Err = ctx.Err()
	}
}
