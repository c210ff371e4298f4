package ideal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func slidingOf(n int64, window time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
}

// The log admits all that fits, and nothing else: by a list of all admissions, each looked at
// anew.
func TestSlidingLog(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 86))
		limit := slidingOf(1+r.Int64N(20), time.Second)
		ideal, gauge := Of(0, limit, 0)
		var at time.Duration
		var all []use
		admitted := func() (sum float64) {
			for _, x := range all {
				if x.ends > at {
					sum += x.tokens
				}
			}
			return sum
		}
		denied := 0
		for range 2000 {
			at += time.Duration(r.IntN(4)) * 50 * time.Millisecond // often at a window's very end
			n := float64(1 + r.IntN(4))
			fits := admitted()+n <= float64(limit.Burst)
			if ideal.Take(at, n, 0) != fits {
				t.Fatalf("seed %d, at %v: %v of %v are used, and %v fit or do not", seed, at,
					admitted(), limit.Burst, n)
			}
			if fits {
				all = append(all, use{at + time.Second, n})
				if x := gauge.Pour(at, at, n, 0); x != admitted()-float64(limit.Burst) {
					t.Fatalf("seed %d, at %v: excess %v, admitted %v", seed, at, x, admitted())
				}
			} else {
				denied++
			}
			left := ideal.Tokens(at)
			if left != float64(limit.Burst)-admitted() || ideal.Spilt(at) != 0 {
				t.Fatalf("seed %d, at %v: %v left of %v, %v used", seed, at, left, limit.Burst,
					admitted())
			}
		}
		if denied < 100 {
			t.Errorf("seed %d: only %d denied", seed, denied)
		}
	}
}

// Callers who wait take the tokens that come back first, in order.
func TestSlidingPatience(t *testing.T) {
	s, _ := Of(0, slidingOf(3, 10*time.Second), 5*time.Second)
	for i, step := range []struct {
		at   time.Duration
		n    float64
		want bool
	}{
		{time.Second, 2, true},
		{2 * time.Second, 1, true},
		{5 * time.Second, 1, false},
		{6 * time.Second, 1, true},  // for 11 s
		{6 * time.Second, 2, false}, // one of them would come at 12 s
		{7 * time.Second, 2, true},
		{11 * time.Second, 4, false},
		{16 * time.Second, 1, true}, // that of 11 s is back at 21 s
		{16 * time.Second, 1, false},
	} {
		if got := s.Take(step.at, step.n, 0); got != step.want {
			t.Errorf("step %d: take %v at %v: %v, want %v", i, step.n, step.at, got, step.want)
		}
	}
}

// What was admitted at an unknown time counts as long as it surely does, the limit may change,
// a copy goes its own way, and an ideal limit goes on from what a fleet has admitted.
func TestSlidingGauge(t *testing.T) {
	s := time.Second
	ideal, g := Of(0, slidingOf(3, 10*s), 0)
	for i, step := range []struct {
		from, at  time.Duration
		n, excess float64
	}{
		{s, 5 * s, 2, -1},
		{2 * s, 6 * s, 1, 0},
		{3 * s, 10 * s, 1, 1},
		{11 * s, 11 * s, 1, 0}, // two may have been admitted at 1 s
		{4 * s, 12 * s, 1, 0},
	} {
		if x := g.Pour(step.from, step.at, step.n, 0); x != step.excess {
			t.Errorf("step %d: excess %v, want %v", i, x, step.excess)
		}
	}
	g.SetLimit(12*s, slidingOf(5, 10*s))
	if x := g.Copy().Pour(12*s, 12*s, 7, 0); x != 5 {
		t.Errorf("a copy says %v, want 5", x)
	}
	if x := g.Pour(12*s, 12*s, 1, 0); x != -1 {
		t.Errorf("after its copy was used and the limit was raised the gauge says %v, want -1", x)
	}
	ideal.SetLimit(12*s, slidingOf(5, 10*s))
	ideal.Take(12*s, 5, 0)
	ideal.Level(12*s, 0, nil)
	if left := ideal.Tokens(12 * s); left != 0 {
		t.Errorf("%v are left, want what was", left)
	}
	ideal.Level(12*s, 0, g)
	if left, later := ideal.Tokens(12*s), ideal.Tokens(14*s); left != 1 || later != 3 {
		t.Errorf("%v are left, and %v at 14 s, want 1 and 3", left, later)
	}
	for to, want := range map[time.Duration]float64{s: 5, 10 * s: 5, 11 * s: 10, 31 * s: 20} {
		if most := Most(slidingOf(5, 10*s), s, s+to); most != want {
			t.Errorf("at most %v in %v, want %v", most, to, want)
		}
	}
}
