package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// TestSeveralLostAnswer: while the store does not answer for a moment there is no verdict,
// and what was granted comes back.
func TestSeveralLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := remoteLine(10 * time.Millisecond)
		l := newLimiter(t, store, hybrid.Config{Limit: hybrid.Per(20, 365*24*time.Hour)})
		for i := range 20 {
			go func() {
				time.Sleep(time.Duration(i) * time.Millisecond / 2)
				store.cut.Store(true)
				time.Sleep(8 * time.Millisecond)
				store.cut.Store(false)
			}()
			key, every := fmt.Sprint("k", i), fmt.Sprint("all", i)
			d, err := l.TakeAll(ctx, one(every, key)...)
			if err != nil && !errors.Is(err, hybrid.ErrUnavailable) {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			want := int64(20)
			if d.Allowed {
				want = 19
			}
			if p, err := l.Peek(ctx, key); err != nil || p.Remaining != want {
				t.Errorf("request %d: allowed %v, %d are left of 20, %v", i, d.Allowed, p.Remaining, err)
			}
			if p, err := l.Peek(ctx, every); err != nil || p.Remaining != want {
				t.Errorf("request %d: allowed %v, %d are left of 20, %v", i, d.Allowed, p.Remaining, err)
			}
		}
	})
}

// TestSeveralInAnOutage: what the policies mean for several limits, of which one's node is
// away, or all are.
func TestSeveralInAnOutage(t *testing.T) {
	type want struct{ bothAway, oneAway bool }
	for policy, w := range map[hybrid.Outage]want{
		hybrid.Deny:  {false, false},
		hybrid.Allow: {true, true},
		hybrid.Share: {true, true}, // of the first minute
	} {
		for _, c := range []struct {
			name string
			cuts []string
			want bool
		}{{"both", []string{"a", "b"}, w.bothAway}, {"one", []string{"a"}, w.oneAway}} {
			synctest.Test(t, func(t *testing.T) {
				store := &partialLine{line: remoteLine(10 * time.Millisecond), cut: map[string]bool{}}
				l := newLimiter(t, store, hybrid.Config{
					LimitFor: func(key string) hybrid.Limit {
						switch key {
						case "shut":
							return hybrid.Blocked
						case "free":
							return hybrid.Unlimited
						case "a":
							return hybrid.PerSecond(2).WithBurst(10)
						}
						return hybrid.PerSecond(100)
					},
					Outage: policy, Processes: 1,
				})
				l.AllowAll("a", "b")
				store.set(c.cuts...)
				store.line.cut.Store(len(c.cuts) == 2)
				for range 100 { // it is noticed
					l.Allow("a")
					l.Allow("b")
					time.Sleep(time.Second)
				}
				for i := range 600 { // a minute in which both keys stay in use
					l.Allow("b")
					if i%10 == 0 {
						l.Allow("a")
					}
					time.Sleep(100 * time.Millisecond)
				}
				d, err := l.TakeAll(ctx, one("b", "free", "a")...)
				for range 3 { // three failures of a key make an outage
					if errors.Is(err, hybrid.ErrUnavailable) {
						d, err = l.TakeAll(ctx, one("b", "free", "a")...)
					}
				}
				if err != nil || d.Allowed != c.want || d.Each[2].Source != hybrid.OutagePolicy {
					t.Errorf("%v, %s away: %+v, %v", policy, c.name, d, err)
				}
				if l.AllowAll("a", "shut") {
					t.Errorf("%v, %s away: a Blocked key allows", policy, c.name)
				}
				if policy != hybrid.Share {
					return
				}
				got := 0
				for range 30 { // a has its share of Burst, and b is untouched when that is used up
					if l.AllowAll("a", "b") {
						got++
					}
				}
				if got < 8 || got > 10 {
					t.Errorf("%s away: %d of a share of 10", c.name, got)
				}
				left, err := l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 1}, hybrid.Ask{Key: "b", N: 1})
				if err != nil || left.Allowed || left.Denied != 0 || left.Each[0].RetryAfter > time.Second {
					t.Errorf("%s away: %+v, %v", c.name, left, err)
				}
			})
		}
	}
}

// partialLine fails for some keys.
type partialLine struct {
	*line
	mu  sync.Mutex
	cut map[string]bool
}

func (p *partialLine) set(keys ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range keys {
		p.cut[key] = true
	}
}

func (p *partialLine) Exchange(ctx context.Context, calls []*lease.Call) {
	p.mu.Lock()
	var good []*lease.Call
	for _, c := range calls {
		if p.cut[c.Key] {
			c.Err = errors.New("cut")
		} else {
			good = append(good, c)
		}
	}
	p.mu.Unlock()
	p.line.Exchange(ctx, good)
}
