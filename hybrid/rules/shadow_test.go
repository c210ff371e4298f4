package rules_test

import (
	"context"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/lease"
)

// counted are the figures of the rules of a domain, when all shadows have been counted.
func counted(l *rules.Limiter) (list []rules.RuleStats) {
	time.Sleep(time.Second)
	return l.Stats().Domains[0].Rules
}

// TestShadowMode: a rule in shadow_mode denies nothing, and Stats has what it would deny. What
// another rule denies costs it nothing.
func TestShadowMode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: user, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}
- {key: path, rate_limit: {unit: day, requests_per_unit: 5}}
`), rules.Config{})
		for range 9 {
			r, err := l.Take(t.Context(), "d", rules.Of("user", "ann"), rules.Of("path", "/a"))
			if err != nil || r.Each[0].State != rules.Shadow || r.Denied == 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if s := counted(l)[0].Counts; s != (rules.Counts{ShadowAdmitted: 3, ShadowDenied: 2}) {
			t.Errorf("%+v", s)
		}
		if s := counted(l)[1].Counts; s != (rules.Counts{Admitted: 5, Denied: 4}) {
			t.Errorf("%+v", s)
		}
		if yes := admitted(t, l, "d", 4, rules.Of("user", "ann")); yes != 4 {
			t.Errorf("%d were admitted, not 4", yes)
		}
		d := rules.Of("user", "eve")
		d.Hits = 4
		if yes := admitted(t, l, "d", 1, d); yes != 1 {
			t.Error("a shadow has denied")
		}
		if s := counted(l)[0].Counts; s != (rules.Counts{ShadowAdmitted: 3, ShadowDenied: 7}) {
			t.Errorf("%+v", s)
		}
	})
}

// A stuck store answers nothing while stuck.
type stuck struct {
	*hybrid.Memory
	until chan struct{}
}

func (s *stuck) Exchange(ctx context.Context, calls []*lease.Call) {
	select {
	case <-s.until:
		s.Memory.Exchange(ctx, calls)
	case <-ctx.Done():
		for _, c := range calls {
			c.Err = ctx.Err()
		}
	}
}

// TestShadowNeverWaits: a request does not wait for a shadow, though the store hangs and there
// are many of them. They are counted as unknown.
func TestShadowNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stuck{hybrid.NewMemory(), make(chan struct{})}
		l := newLimiter(t, store, newBoard("domain: d\ndescriptors:\n"+
			"- {key: user, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 3}}"),
			rules.Config{})
		start := time.Now()
		const requests = 3000
		for i := range requests {
			if yes := admitted(t, l, "d", 1, rules.Of("user", fmt.Sprint(i))); yes != 1 {
				t.Fatal("a shadow has denied")
			}
		}
		if waited := time.Since(start); waited > 0 {
			t.Errorf("requests waited for %v", waited)
		}
		time.Sleep(time.Minute)
		c := counted(l)[0].Counts
		if c.ShadowUnknown == 0 || c.ShadowUnknown+c.ShadowAdmitted+c.ShadowDenied != requests {
			t.Errorf("%+v", c)
		}
		close(store.until)
	})
}

// TestPercent: so many percent of the keys are limited, the others are shadows. A higher
// percentage has the same keys, and more.
func TestPercent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := func(p float64) string {
			return fmt.Sprintf("domain: d\ndescriptors:\n- {key: user, percent: %v, "+
				"rate_limit: {unit: day, requests_per_unit: 1}}\n", p)
		}
		const users = 2000
		b := newBoard(text(0))
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		before := map[int]bool{}
		for _, p := range []float64{0, 0.5, 10, 50, 99.5, 100} {
			b.put(text(p))
			time.Sleep(2 * time.Second)
			now := map[int]bool{}
			for user := range users {
				r, err := l.Take(t.Context(), "d", rules.Of("user", fmt.Sprint(user)))
				if err != nil {
					t.Fatal(err)
				}
				if now[user] = r.Each[0].State == rules.Limited; !now[user] && before[user] {
					t.Fatalf("at %v %% user %d is not limited any more", p, user)
				}
				if !now[user] && !r.Allowed {
					t.Fatalf("at %v %% user %d is denied by a shadow", p, user)
				}
			}
			n := 0
			for _, limited := range now {
				if limited {
					n++
				}
			}
			q := p / 100
			if four := 4 * math.Sqrt(users*q*(1-q)); math.Abs(float64(n)-users*q) > four {
				t.Errorf("at %v %% %d of %d users are limited", p, n, users)
			}
			before = now
		}
	})
}

// TestTrial: a trial is in force for some keys, and the rule's own limit for the others. Each
// counts all requests that are admitted, so none is fresh when it comes into force.
func TestTrial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := func(percent int) string {
			return fmt.Sprintf("domain: d\ndescriptors:\n- {key: user, rate_limit: {unit: day, "+
				"requests_per_unit: 6}, trial: {unit: day, requests_per_unit: 4, percent: %d}}\n", percent)
		}
		b := newBoard(text(0))
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		ann := rules.Of("user", "ann")
		take := func(trial, want bool) {
			t.Helper()
			r, err := l.Take(t.Context(), "d", ann)
			if err != nil || r.Allowed != want || r.Each[0].State != rules.Limited ||
				r.Each[0].Trial != trial {
				t.Fatalf("%+v, %v", r, err)
			}
			time.Sleep(time.Second)
		}
		for range 3 {
			take(false, true)
		}
		b.put(text(100))
		time.Sleep(time.Second)
		take(true, true)
		take(true, false)
		b.put(text(0))
		time.Sleep(time.Second)
		take(false, true)
		take(false, true)
		take(false, false)
		s := counted(l)[0]
		if s.Counts != (rules.Counts{Admitted: 5, Denied: 1, ShadowAdmitted: 1}) ||
			s.Trial != (rules.Counts{Admitted: 1, Denied: 1, ShadowAdmitted: 3, ShadowDenied: 2}) {
			t.Errorf("%+v", s)
		}
	})
}
