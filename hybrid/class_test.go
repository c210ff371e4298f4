package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

var classes = []hybrid.Class{{Name: "critical", Floor: 0.5}, {Name: "batch", Weight: 1}}

func as(t *testing.T, l *hybrid.Limiter, class string) *hybrid.Classed {
	t.Helper()
	c, err := l.As(class)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// classCount is what came of a class.
type classCount struct{ asked, admitted atomic.Int64 }

// offer asks for a class at a rate until d has passed.
func (n *classCount) offer(
	group *sync.WaitGroup, c *hybrid.Classed, rate float64, d time.Duration,
) {
	group.Go(func() {
		rng := rand.New(rand.NewPCG(1, uint64(rate)))
		for end := time.Now().Add(d); ; {
			time.Sleep(time.Duration(rng.ExpFloat64() / rate * 1e9))
			if time.Now().After(end) {
				return
			}
			n.asked.Add(1)
			if c.Allow("k") {
				n.admitted.Add(1)
			}
		}
	})
}

// TestClasses: three processes have batch requests only, five times the limit, and one has critical
// ones, less than their floor. These are admitted, and batch has the rest. In one play of some
// hundreds 0.96 of the critical ones are, so that several are judged.
func TestClasses(t *testing.T) {
	var critical classCount
	for range 5 {
		synctest.Test(t, func(t *testing.T) { playClasses(t, &critical) })
	}
	if n, of := critical.admitted.Load(), critical.asked.Load(); float64(n) < 0.98*float64(of) || of < 10_000 {
		t.Errorf("%d critical requests of %d are admitted", n, of)
	}
}

// playClasses counts critical requests.
func playClasses(t *testing.T, critical *classCount) {
	store := remoteLine(2 * time.Millisecond)
	config := hybrid.Config{Limit: hybrid.PerSecond(1000).WithBurst(200), Classes: classes}
	var batch classCount
	var group, warm sync.WaitGroup
	var fleet []*hybrid.Limiter
	for range 4 {
		fleet = append(fleet, newLimiter(t, store, config))
	}
	before := critical.admitted.Load()
	for _, n := range []struct {
		group           *sync.WaitGroup
		critical, batch *classCount
		d               time.Duration
	}{
		{&warm, new(classCount), new(classCount), 2 * time.Second},
		{&group, critical, &batch, 6 * time.Second},
	} {
		for _, l := range fleet[:3] {
			for range 5 {
				n.batch.offer(n.group, as(t, l, "batch"), 333, n.d)
			}
		}
		n.critical.offer(n.group, as(t, fleet[3], "critical"), 400, n.d)
		n.group.Wait()
	}
	if sum := critical.admitted.Load() - before + batch.admitted.Load(); sum < 5850 || sum > 6200 {
		t.Errorf("%d requests are admitted in 6 s, not 6000", sum)
	}
}

// TestWaitByClass: classes that are due a half each take turns, and callers of a class wait by age.
func TestWaitByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Limit: hybrid.PerSecond(10).WithBurst(1), Classes: classes,
		})
		l.Allow("k")
		var mu sync.Mutex
		var order []string
		var group sync.WaitGroup
		for i, class := range []string{"batch", "batch", "critical", "batch", "critical"} {
			c := as(t, l, class)
			group.Go(func() {
				if err := c.Wait(ctx, "k", 1); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				order = append(order, fmt.Sprint(class, i))
			})
			time.Sleep(2 * time.Millisecond)
		}
		group.Wait()
		got := strings.Join(order, " ") // the first may have been asked for before others came
		if got != "batch0 critical2 batch1 critical4 batch3" &&
			got != "critical2 batch0 critical4 batch1 batch3" {
			t.Errorf("served in the order %s", got)
		}
	})
}

// TestDeniedByClass: where each request asks, the denial of a class is not that of another one.
func TestDeniedByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Limit: hybrid.PerSecond(10).WithBurst(4), Classes: classes,
		})
		batch, critical := as(t, l, "batch"), as(t, l, "critical")
		for batch.Allow("k") {
		}
		d, err := batch.Take(ctx, "k", 1)
		if err != nil || d.Allowed || d.Source != hybrid.Lease {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err = critical.Take(ctx, "k", 1); err != nil || d.Source != hybrid.Ledger {
			t.Errorf("a critical request is denied as the batch one was: %+v, %v", d, err)
		}
		again, err := critical.Take(ctx, "k", 1)
		if err != nil || again.Source != hybrid.Lease || again.RetryAfter != d.RetryAfter {
			t.Errorf("a critical request: %+v, then %+v, %v", d, again, err)
		}
	})
}

// TestVerbsWithoutAClass: a request that does not say its class has the last one, and every verb
// works for a key with classes.
func TestVerbsWithoutAClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, remoteLine(time.Millisecond), hybrid.Config{
			Limit: hybrid.PerSecond(1000), Classes: classes,
		})
		batch := as(t, l, "batch")
		if d, err := batch.Take(ctx, "k", 2); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		if n, _, err := batch.TakeUpTo(ctx, "k", 5); err != nil || n != 5 {
			t.Error(n, err)
		}
		if !batch.AllowN("k", 3) || !l.Allow("k") || !l.AllowAll("k", "other") {
			t.Error("a full bucket denies")
		}
		if r, err := l.Reserve(ctx, "k", 3); err != nil {
			t.Error(err)
		} else {
			r.Settle(1)
		}
	})
}

// A classSpy is a Store that notes the class that each request asks for first, by key: -1
// for none.
type classSpy struct {
	hybrid.Store
	mu    sync.Mutex
	asked map[string]int
}

func (s *classSpy) Exchange(ctx context.Context, calls []*lease.Call) {
	s.mu.Lock()
	for _, c := range calls {
		if by := c.Request.ByClass; c.Request.Take > 0 && by == nil {
			s.asked[c.Key] = -1
		} else if c.Request.Take > 0 {
			s.asked[c.Key] = by.First
		}
	}
	s.mu.Unlock()
	s.Store.Exchange(ctx, calls)
}

// TestClassOfVerbs: each verb asks for its class, those for several keys for that of each Ask,
// which is the last one if it names none. Those of a class are recorded as others are.
func TestClassOfVerbs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &classSpy{Store: remoteLine(time.Millisecond), asked: map[string]int{}}
		var w tape
		l := newLimiter(t, store, hybrid.Config{
			Limit: hybrid.PerSecond(1000), Classes: classes, Record: hybrid.Recording{To: &w, Name: true},
		})
		critical := as(t, l, "critical")
		if d, err := critical.Take(ctx, "take", 2); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		if d, err := l.TakeAll(ctx, hybrid.Ask{Key: "all", N: 3}); err != nil || !d.Allowed {
			t.Error(d, err)
		}
		if err := critical.Wait(ctx, "wait", 4); err != nil {
			t.Error(err)
		}
		named := hybrid.Ask{Key: "named", N: 6, Class: "critical"}
		if err := l.WaitAll(ctx, named, hybrid.Ask{Key: "batch", N: 7, Class: "batch"}); err != nil {
			t.Error(err)
		}
		if err := l.WaitAll(ctx, hybrid.Ask{Key: "wait all", N: 5}); err != nil {
			t.Error(err)
		}
		want := map[string]int{"take": 0, "all": 1, "wait": 0, "named": 0, "batch": 1, "wait all": 1}
		if store.mu.Lock(); !maps.Equal(store.asked, want) {
			t.Errorf("asked for class %v, not %v", store.asked, want)
		}
		store.mu.Unlock()
		time.Sleep(2 * time.Second)
		if got := fmt.Sprint(w.lines(t)); got != "[take 2 2 admitted all 3 3 admitted "+
			"wait 4 4 admitted named 6 6 admitted batch 7 7 admitted wait all 5 5 admitted]" {
			t.Errorf("recorded: %s", got)
		}
	})
}

// TestClassedIsALimiter: each method of Classed is as that of Limiter.
func TestClassedIsALimiter(t *testing.T) {
	limiter := reflect.TypeFor[*hybrid.Limiter]()
	for m := range reflect.TypeFor[*hybrid.Classed]().Methods() {
		of, ok := limiter.MethodByName(m.Name)
		if !ok || !slices.Equal(slices.Collect(of.Type.Ins())[1:], slices.Collect(m.Type.Ins())[1:]) ||
			!slices.Equal(slices.Collect(of.Type.Outs()), slices.Collect(m.Type.Outs())) {
			t.Errorf("Classed.%s is %v, that of Limiter %v", m.Name, m.Type, of.Type)
		}
	}
}

// TestClassesInvalid: what cannot be is refused by an error that names it.
func TestClassesInvalid(t *testing.T) {
	for want, c := range map[string]hybrid.Config{
		"Config.Limit: invalid limit: Kind slots beside Config.Classes": {
			Limit: hybrid.Slots(10), Classes: classes,
		},
		"Kind sliding window beside": {Limit: hybrid.Sliding(10, time.Hour), Classes: classes},
		"Config.Classes":             {Limit: hybrid.PerSecond(1), Classes: []hybrid.Class{{Floor: 1}}},
	} {
		if _, err := hybrid.New(hybrid.NewMemory(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			LimitFor: func(string) hybrid.Limit { return hybrid.Slots(3) }, Classes: classes,
		})
		_, err := as(t, l, "batch").Take(context.Background(), "k", 1)
		if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), "Config.Classes") {
			t.Errorf("slots with classes: %v", err)
		}
		if _, err := l.As("none"); err == nil || !strings.Contains(err.Error(), `"none"`) {
			t.Errorf("a class that there is not: %v", err)
		}
	})
}
