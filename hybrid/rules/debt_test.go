package rules_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestDebt: a bucket of 1000 a minute owes two minutes at most, whatever reports say and how many
// there are. Within that a report counts to the last token.
func TestDebt(t *testing.T) {
	const text = `{domain: d, descriptors: [
  {key: k, rate_limit: {unit: minute, requests_per_unit: 1000}},
]}`
	for name, c := range map[string]struct {
		reports []int
		denied  time.Duration // a look, after them
	}{
		"one":                 {[]int{1e9}, 2 * time.Minute},
		"many of much":        {[]int{1e9, 1e9, 1e9}, 2 * time.Minute},
		"many that would fit": {[]int{1000, 900, 900, 900, 900, 900}, 2 * time.Minute},
		"above the burst":     {[]int{1500}, 30 * time.Second},
		"below it":            {[]int{600, 700}, 18 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, hybrid.NewMemory(), newBoard(text), rules.Config{})
				_, err := l.Peek(t.Context(), "d", rules.Of("k", "v"))
				must(t, err)
				for _, n := range c.reports {
					r := rules.Of("k", "v")
					r.Hits, r.Used = n, true
					_, err := l.Take(t.Context(), "d", r)
					must(t, err)
				}
				begun := time.Now()
				for {
					seen, err := l.Peek(t.Context(), "d", rules.Of("k", "v"))
					must(t, err)
					if seen.Allowed {
						break
					}
					if time.Since(begun) > time.Hour {
						t.Fatalf("denied for more than an hour: %+v", seen.Each[0].Decision)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if took := time.Since(begun); (took - c.denied).Abs() > time.Second {
					t.Errorf("denied for %v, not %v", took, c.denied)
				}
			})
		})
	}
}
