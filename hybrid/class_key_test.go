package hybrid_test

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// byKey has classes for keys that begin with "model".
func byKey(key string) []hybrid.Class {
	if strings.HasPrefix(key, "model") {
		return classes
	}
	return nil
}

// TestClassesFor: a key has the classes that ClassesFor says, and others have none, whatever an Ask
// names.
func TestClassesFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &classSpy{Store: remoteLine(time.Millisecond), asked: map[string]int{}}
		l := newLimiter(t, store, hybrid.Config{
			LimitFor: func(key string) hybrid.Limit {
				switch key {
				case "quota":
					return hybrid.Quota(100, hybrid.Day)
				case "sliding":
					return hybrid.Sliding(100, hybrid.Day)
				}
				return hybrid.PerSecond(100)
			},
			ClassesFor: func(key string) []hybrid.Class { return byKey("model" + key) },
		})
		for key, class := range map[string]string{
			"critical": "critical", "batch": "batch", "none": "", "unknown": "urgent",
		} {
			d, err := l.TakeAll(ctx, hybrid.Ask{Key: key, N: 1, Class: class},
				hybrid.Ask{Key: "quota", N: 1, Class: class}, hybrid.Ask{Key: "sliding", N: 1, Class: class})
			if err != nil || !d.Allowed {
				t.Errorf("%s: %+v, %v", key, d, err)
			}
		}
		for key, want := range map[string]int{
			"critical": 0, "batch": 1, "none": 1, "unknown": 1, "sliding": -1, "quota": store.asked["quota"],
		} {
			if got := store.asked[key]; got != want || got < 0 && key == "quota" {
				t.Errorf("%s asks for class %d, not %d", key, got, want)
			}
		}
		_, err := l.TakeAll(ctx, hybrid.Ask{Key: "a", N: 1, Class: "x"}, hybrid.Ask{Key: "a", N: 1, Class: "y"})
		if err == nil || !strings.Contains(err.Error(), `Ask[0].Class "x" and Ask[1].Class "y" are of one key`) {
			t.Error(err)
		}
	})
}

// TestClassesForInvalid: bad input is refused by an error that names it.
func TestClassesForInvalid(t *testing.T) {
	limit := func(string) hybrid.Limit { return hybrid.PerSecond(10) }
	for _, c := range []hybrid.Config{
		{Limit: hybrid.PerSecond(10), ClassesFor: byKey},
		{LimitFor: limit, ClassesFor: byKey, Classes: classes},
	} {
		if _, err := hybrid.New(hybrid.NewMemory(), c); err == nil || !strings.Contains(err.Error(), "Config.ClassesFor") {
			t.Error(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{
			LimitFor: limit, ClassesFor: func(string) []hybrid.Class { return []hybrid.Class{{Name: "a", Floor: 2}} },
		})
		_, err := l.Take(ctx, "k", 1)
		if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), "ClassesFor") ||
			!strings.Contains(err.Error(), `Floor 2 of "a"`) {
			t.Error(err)
		}
	})
}

// TestClassesChange: while a key is in use its classes come, change and go, with callers that wait.
// The limit holds all the time, nobody is forgotten, and a floor holds after a second at most.
func TestClassesChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, burst = 200.0, 40
		var now atomic.Pointer[[]hybrid.Class]
		now.Store(new([]hybrid.Class))
		config := hybrid.Config{
			LimitFor:   func(string) hybrid.Limit { return hybrid.PerSecond(rate).WithBurst(burst) },
			ClassesFor: func(string) []hybrid.Class { return *now.Load() },
		}
		fleet := processes(t, 2, remoteLine(time.Millisecond), config)
		var asked, critical, batch atomic.Int64
		var group sync.WaitGroup
		began, lasts := time.Now(), 12*time.Second
		for _, l := range fleet {
			group.Go(func() {
				for ; time.Since(began) < lasts; time.Sleep(25 * time.Millisecond) {
					asked.Add(1)
					d, err := l.TakeAll(ctx, hybrid.Ask{Key: "k", N: 1, Class: "critical"})
					if err != nil {
						t.Error(err)
					} else if d.Allowed {
						critical.Add(1)
					}
				}
			})
			for range 40 {
				group.Go(func() {
					for ; time.Since(began) < lasts; time.Sleep(time.Millisecond) {
						if err := l.WaitAll(ctx, hybrid.Ask{Key: "k", N: 1, Class: "batch"}); err != nil {
							t.Error(err)
							return
						}
						batch.Add(1)
					}
				})
			}
		}
		for _, c := range [][]hybrid.Class{
			nil, classes, {{Name: "a", Floor: 0.2}, {Name: "critical", Floor: 0.6}, {Name: "batch"}}, nil, classes,
		} {
			now.Store(&c)
			time.Sleep(time.Second)
			was, from := critical.Load(), asked.Load()
			time.Sleep(time.Second)
			part := float64(critical.Load()-was) / float64(asked.Load()-from)
			t.Logf("%d classes: %.3f of critical requests", len(c), part)
			if (part > 0.9) != (c != nil) {
				t.Errorf("%d classes: %.3f of critical requests are admitted", len(c), part)
			}
		}
		group.Wait()
		if sum, most := critical.Load()+batch.Load(), rate*time.Since(began).Seconds()+burst+1; float64(sum) > most ||
			float64(sum) < 0.95*most {
			t.Errorf("%d are admitted of %.0f", sum, most)
		}
	})
}
