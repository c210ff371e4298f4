package budget_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/seed13b07268/ration/hybrid/budget"
)

func newBudget(t *testing.T, c budget.Config) *budget.Budget {
	t.Helper()
	b, err := budget.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestQuantile: about the quantile of jobs cost no more than was proposed, whatever the guess is
// off by, and after costs have changed by a factor of four.
func TestQuantile(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		r := rand.New(rand.NewPCG(seed, 1))
		b := newBudget(t, budget.Config{Quantile: q})
		for _, scale := range []float64{300, 1200, 75} {
			within, jobs := 0, 5000
			for i := range jobs + 100 {
				guess := r.IntN(1000) // a prompt
				actual := guess + int(scale*math.Exp(r.NormFloat64()))
				proposed := b.Estimate("model", guess, 0)
				if b.Settle("model", guess, actual); i >= 100 && actual <= proposed {
					within++
				}
			}
			if got := float64(within) / float64(jobs); math.Abs(got-q) > 0.03 {
				t.Errorf("quantile %v, costs around %v: %v are within the estimate", q, scale, got)
			}
		}
	}
}

// TestHard: no proposal is above a hard bound, or below 1, and a key that nobody knows has it.
func TestHard(t *testing.T) {
	b := newBudget(t, budget.Config{MaxKeys: 2})
	if got := b.Estimate("new", 10, 500); got != 500 {
		t.Errorf("a new key with a bound: %d", got)
	}
	if got := b.Estimate("new", 10, 0); got != 10 {
		t.Errorf("a new key: %d", got)
	}
	for _, actual := range []int{0, 100, 1 << 30, math.MaxInt} {
		for _, guess := range []int{math.MinInt, -5, 0, 700, math.MaxInt} {
			for range 70 {
				b.Settle("odd", guess, actual)
			}
			for _, most := range []int{math.MinInt, 0, 1, 400} {
				got := b.Estimate("odd", guess, most)
				if got < 1 || most > 0 && got > most {
					t.Errorf("guess %d, actual %d, most %d: %d", guess, actual, most, got)
				}
			}
		}
	}
}

// TestKeys: each key has its own costs, and those beyond MaxKeys have theirs together.
func TestKeys(t *testing.T) {
	b := newBudget(t, budget.Config{MaxKeys: 2})
	var all sync.WaitGroup
	for i := range 5 {
		for range 4 {
			all.Go(func() {
				for range 20 {
					b.Settle(strconv.Itoa(i), 0, 100*i+100)
					b.Estimate(strconv.Itoa(i), 0, 0)
				}
			})
		}
		all.Wait()
	}
	for i, want := range []int{100, 200, 500, 500, 500} {
		if got := b.Estimate(strconv.Itoa(i), 0, 0); got != want {
			t.Errorf("key %d: %d, not %d", i, got, want)
		}
	}
}

// TestConfig: an error names the field and its value.
func TestConfig(t *testing.T) {
	for want, c := range map[string]budget.Config{
		"Config.Quantile 0.4":         {Quantile: 0.4},
		"Config.Quantile 1 ":          {Quantile: 1},
		"Config.Quantile NaN":         {Quantile: math.NaN()},
		"Config.MaxKeys -1":           {MaxKeys: -1},
		"Config.MaxKeys 2000000 is n": {MaxKeys: 2_000_000},
	} {
		if _, err := budget.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}
