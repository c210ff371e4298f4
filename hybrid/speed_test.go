package hybrid_test

import (
	"context"
	"math"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// warm returns a limiter whose key "k" is hot, with tokens for hours or none.
func warm(t testing.TB, tokens bool) *hybrid.Limiter {
	limit := hybrid.PerSecond(1e9)
	if !tokens {
		limit = hybrid.PerHour(10)
	}
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: limit})
	for range 10_000 {
		l.Allow("k")
	}
	return l
}

// TestNoAllocations: a warm decision allocates nothing, whatever it is and
// however it is asked for.
func TestNoAllocations(t *testing.T) {
	ctx := context.Background()
	for _, tokens := range []bool{true, false} {
		l := warm(t, tokens)
		k := l.Key("k")
		for name, decide := range map[string]func() bool{
			"Key.Allow":      func() bool { return k.Allow() },
			"Key.AllowN":     func() bool { return k.AllowN(2) },
			"Key.Take":       func() bool { d, _ := k.Take(ctx, 1); return d.Allowed },
			"Limiter.Allow":  func() bool { return l.Allow("k") },
			"Limiter.AllowN": func() bool { return l.AllowN("k", 2) },
			"Limiter.Take":   func() bool { d, _ := l.Take(ctx, "k", 1); return d.Allowed },
			"AllowAll":       func() bool { return l.AllowAll("k") },
		} {
			if got := decide(); got != tokens {
				t.Fatalf("%s, tokens %v: allowed %v", name, tokens, got)
			}
			// Exchanges allocate, some hundred times in a second: too few to count.
			if n := testing.AllocsPerRun(20_000, func() { decide() }); n != 0 {
				t.Errorf("%s, tokens %v: %v allocations", name, tokens, n)
			}
		}
	}
}

// TestSpeed: decisions against x/time/rate's in the same run. Each figure is the
// fastest of many short rounds, taken in turn: whatever else a machine does
// only adds. Those of many keys are in bench/scale.
func TestSpeed(t *testing.T) {
	longform.Only(t, "is a measurement, on a machine that does little else")
	start := time.Now()
	full, empty := warm(t, true), warm(t, false)
	fullKey, emptyKey := full.Key("k"), empty.Key("k")
	one, none := rate.NewLimiter(1e9, 1e9), rate.NewLimiter(1e-9, 1)
	subjects := []struct {
		name   string
		decide func()
		than   int     // compared with this one
		most   float64 // ratio, 0 for any
	}{
		{"a clock read", func() { _ = time.Since(start) }, 1, 0},
		{"rate.Limiter.Allow", func() { one.Allow() }, 1, 0},
		{"Key.Allow", func() { fullKey.Allow() }, 1, 0.7},
		{"Limiter.Allow", func() { full.Allow("k") }, 1, 1},
		// A third of it is the second clock reading, which finds that the machine has slept.
		{"Key.AllowN", func() { fullKey.AllowN(2) }, 1, 1.25},
		{"rate.Limiter.Allow, denied", func() { none.Allow() }, 5, 0},
		{"Key.Allow, denied", func() { emptyKey.Allow() }, 5, 0.7},
	}
	best := make([]float64, len(subjects))
	for i := range best {
		best[i] = math.Inf(1)
	}
	for range 500 {
		for i, s := range subjects {
			const calls = 4000
			began := time.Now()
			for range calls {
				s.decide()
			}
			best[i] = min(best[i], float64(time.Since(began))/calls)
		}
	}
	for i, s := range subjects {
		ratio := best[i] / best[s.than]
		t.Logf("%-48s %6.1f ns %5.2f x", s.name, best[i], ratio)
		if s.most > 0 && ratio > s.most {
			t.Errorf("%s takes %.2f x as long as %s, more than %.2f", s.name, ratio,
				subjects[s.than].name, s.most)
		}
	}
}
