package budget_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/budget"
)

// TestScene plays what docs/language-models.md tells of: at the beginning of each of ten minutes
// five calls come at once, of 663 tokens in all, to two replicas by turns, with a limit of 100
// tokens a minute. The bounds are those of the page, for the first minute and for all of them.
func TestScene(t *testing.T) {
	ctx := context.Background()
	costs := []int{58, 80, 175, 175, 175}
	estimates := func(of func(l *hybrid.Limiter, i int) int) func(l *hybrid.Limiter, i int) func() int {
		return func(l *hybrid.Limiter, i int) func() int {
			r, err := l.Reserve(ctx, "model", of(l, i))
			if err != nil || !r.Allowed { // more than there ever is, or denied
				return nil
			}
			return func() int {
				if err := r.Settle(costs[i]); err != nil {
					t.Error(err)
				}
				return costs[i]
			}
		}
	}
	learnt, err := budget.New(budget.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name             string
		begin            func(l *hybrid.Limiter, i int) (end func() int) // nil: it is denied
		first, all       int
		allFrom, allUpTo int
	}{
		{"an estimate that is never too low", estimates(func(_ *hybrid.Limiter, i int) int {
			return costs[i]
		}), 100, 1100, 500, 1100},
		{"a quarter of the cost as the estimate", estimates(func(_ *hybrid.Limiter, i int) int {
			return (costs[i] + 3) / 4
		}), 663, 1100 + 663, 500, 1100 + 663},
		{"a quantile of what calls have cost", estimates(func(_ *hybrid.Limiter, _ int) int {
			return min(learnt.Estimate("model", 25, 0), 100)
		}), 663, 1100 + 663, 500, 1100 + 663},
		{"a look, and a report", func(l *hybrid.Limiter, i int) func() int {
			if d, err := l.Peek(ctx, "model"); err != nil || !d.Allowed {
				return nil
			}
			return func() int {
				if err := l.Charge("model", costs[i]); err != nil {
					t.Error(err)
				}
				return costs[i]
			}
		}, 663, 1100 + 663, 500, 1100 + 663},
	} {
		synctest.Test(t, func(t *testing.T) {
			store := hybrid.NewMemory()
			var replicas []*hybrid.Limiter
			for range 2 {
				l, err := hybrid.New(store, hybrid.Config{
					Limit: hybrid.PerMinute(100), Process: hybrid.NewProcess(),
				})
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close(ctx)
				replicas = append(replicas, l)
			}
			first, all := 0, 0
			for minute := range 10 {
				var under []func() int
				for i := range costs {
					if end := c.begin(replicas[i%2], i); end != nil {
						under = append(under, end)
					}
				}
				time.Sleep(5 * time.Second)
				for _, end := range under {
					used := end()
					learnt.Settle("model", 25, used)
					if all += used; minute == 0 {
						first += used
					}
				}
				time.Sleep(55 * time.Second)
			}
			t.Logf("%-40s %5d in the first minute, %5d in ten", c.name, first, all)
			if first > c.first || all < c.allFrom || all > c.allUpTo {
				t.Errorf("%s: %d and %d, not at most %d and from %d to %d",
					c.name, first, all, c.first, c.allFrom, c.allUpTo)
			}
		})
	}
}
