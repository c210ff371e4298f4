package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A keySpy is a Store that counts the exchanges of the key k.
type keySpy struct {
	hybrid.Store
	exchanges atomic.Int64
}

func (s *keySpy) Exchange(ctx context.Context, calls []*lease.Call) {
	for _, c := range calls {
		if c.Key == "k" {
			s.exchanges.Add(1)
		}
	}
	s.Store.Exchange(ctx, calls)
}

// asksFor is a verb that asks for these, and reports whether it got them.
type asksFor func(ctx context.Context, l *hybrid.Limiter, asks ...hybrid.Ask) (bool, error)

var severalVerbs = map[string]asksFor{
	"TakeAll": func(ctx context.Context, l *hybrid.Limiter, asks ...hybrid.Ask) (bool, error) {
		d, err := l.TakeAll(ctx, asks...)
		if err == nil && !d.Allowed && d.Denied != 0 {
			err = fmt.Errorf("denied by Ask %d", d.Denied)
		}
		return d.Allowed, err
	},
	"ReserveAll": func(ctx context.Context, l *hybrid.Limiter, asks ...hybrid.Ask) (bool, error) {
		r, err := l.ReserveAll(ctx, asks...)
		if err == nil && r.Allowed {
			err = r.Settle(1)
		}
		return r.Allowed, err
	},
	"WaitReserveAll": func(ctx context.Context, l *hybrid.Limiter, asks ...hybrid.Ask) (bool, error) {
		r, err := l.WaitReserveAll(ctx, asks...)
		if err == nil {
			err = r.Settle(1)
		}
		return r.Allowed, err
	},
}

// A contest is a key whose critical requests want 0.4 of the limit, and its batch requests, five at
// a time in each process, three times the limit. All want a token of another key as well, which has
// plenty.
type contest struct {
	procs   int
	limit   hybrid.Limit
	classes []hybrid.Class
	verb    asksFor
}

// contestLasts is how long the requests of a contest come.
const contestLasts = 5 * time.Second

// An outcome is what came of a contest.
type outcome struct {
	asked, critical, batch, exchanges int64 // asked: of the critical ones

	rate float64 // at which tokens were used, tokens/s
}

func (o outcome) sum() int64 { return o.critical + o.batch }

func (x contest) asks(class string) []hybrid.Ask {
	if x.classes == nil {
		class = ""
	}
	return []hybrid.Ask{{Key: "k", N: 1, Class: class}, {Key: "other", N: 1}}
}

func (x contest) play(t *testing.T) (o outcome) {
	synctest.Test(t, func(t *testing.T) {
		store := &keySpy{Store: remoteLine(2 * time.Millisecond)}
		fleet := processes(t, x.procs, store, hybrid.Config{
			Classes: x.classes, LimitFor: func(key string) hybrid.Limit {
				if key == "k" {
					return x.limit
				}
				return hybrid.PerSecond(1e6)
			},
		})
		ctx, cancel := context.WithTimeout(ctx, 4*contestLasts)
		defer cancel()
		var group sync.WaitGroup
		var asked, critical, batch atomic.Int64
		began := time.Now()
		come := func(l *hybrid.Limiter, class string, admitted *atomic.Int64, rate float64) {
			group.Go(func() {
				every := time.Duration(1e9 / rate)
				for ; time.Since(began) < contestLasts; time.Sleep(every) {
					if class == "critical" {
						asked.Add(1)
					}
					ok, err := x.verb(ctx, l, x.asks(class)...)
					if err != nil {
						t.Error(err)
						return
					}
					if ok {
						admitted.Add(1)
					}
				}
			})
		}
		rate := x.limit.Rate / float64(x.procs)
		for i, l := range fleet {
			come(l, "critical", &critical, rate*0.4+float64(i)/100)
			for range 5 {
				come(l, "batch", &batch, rate*3/5)
			}
		}
		group.Wait()
		o = outcome{asked: asked.Load(), critical: critical.Load(), batch: batch.Load(), exchanges: store.exchanges.Load()}
		o.rate = float64(o.sum()-x.limit.Burst) / time.Since(began).Seconds()
	})
	return o
}

// TestSeveralOfAClass: where a class wants more than its part, requests for several keys and
// reservations admit as much as without classes, by little more exchanges: what the ledger grants a
// class is not kept from it.
func TestSeveralOfAClass(t *testing.T) {
	longform.None(t)
	for name, verb := range severalVerbs {
		for _, limit := range []hybrid.Limit{
			hybrid.PerSecond(20).WithBurst(3), hybrid.PerSecond(100).WithBurst(10),
			hybrid.PerSecond(1000).WithBurst(200),
		} {
			if testing.Short() && limit.Rate == 1000 {
				continue // takes long under the race detector, and shows it nothing more
			}
			for _, procs := range []int{2, 4} {
				plain := contest{procs, limit, nil, verb}.play(t)
				classed := contest{procs, limit, classes, verb}.play(t)
				t.Logf("%s, %v, %d processes: %+v, without classes %+v", name, limit, procs, classed, plain)
				least := 0.95 * plain.rate
				if limit.Rate == 20 {
					least = 0.75 * plain.rate // the noise of a token for each process
				}
				if classed.rate > limit.Rate*1.001 || classed.rate < least {
					t.Errorf("%.3f/s, without classes %.3f/s", classed.rate, plain.rate)
				}
				if float64(classed.exchanges) > 1.75*float64(plain.exchanges) {
					t.Errorf("%d exchanges, without classes %d", classed.exchanges, plain.exchanges)
				}
				if limit.Rate == 1000 && float64(classed.critical) < 0.95*float64(classed.asked) {
					t.Errorf("%d critical requests of %d", classed.critical, classed.asked)
				}
			}
		}
	}
}

// TestClassOfAsks: a class that there is not, and two of one key, are refused by errors that name
// them, and "" is the last class.
func TestClassOfAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(key, class string) hybrid.Ask { return hybrid.Ask{Key: key, N: 1, Class: class} }
		plain := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
		classed := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10), Classes: classes})
		for _, c := range []struct {
			l    *hybrid.Limiter
			asks []hybrid.Ask
			says string
		}{
			{classed, []hybrid.Ask{ask("a", "batch"), ask("a", "")}, ""},
			{classed, []hybrid.Ask{ask("a", "critical"), ask("b", "batch")}, ""},
			{classed, []hybrid.Ask{ask("a", ""), ask("b", "urgent")},
				`hybrid: Ask[1].Class "urgent" is none of Config.Classes`},
			{classed, []hybrid.Ask{ask("a", "critical"), ask("b", ""), ask("a", "")},
				`hybrid: Ask[0].Class "critical" and Ask[2].Class "" are of one key, "a"`},
			{plain, []hybrid.Ask{ask("a", ""), ask("a", "")}, ""},
			{plain, []hybrid.Ask{ask("a", "batch")}, `hybrid: Ask[0].Class "batch" is none of Config.Classes`},
		} {
			_, takes := c.l.TakeAll(ctx, c.asks...)
			_, reserves := c.l.ReserveAll(ctx, c.asks...)
			_, waits := c.l.WaitReserveAll(ctx, c.asks...)
			for _, err := range []error{takes, c.l.WaitAll(ctx, c.asks...), reserves, waits} {
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("%v: %v", c.asks, err)
				}
			}
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := classed.TakeAll(ended, ask("a", "critical")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
