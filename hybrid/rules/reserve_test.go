package rules_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const jobs = `
domain: d
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 10}}
- {key: b, rate_limit: {unit: year, kind: bucket, requests_per_unit: 10}}
- {key: c, rate_limit: {unit: day, requests_per_unit: 10, kind: sliding}}
- {key: free, rate_limit: {unlimited: true}}
`

// TestReserve: what a job has cost is what is gone, of each limit.
func TestReserve(t *testing.T) {
	job := func(key string, estimate int) rules.Descriptor {
		return hits(estimate, rules.Of(key, "x"))
	}
	for _, c := range []struct {
		ds   []rules.Descriptor
		used []int
		left [3]int // of a, b and c
	}{
		{[]rules.Descriptor{job("a", 6)}, []int{2}, [3]int{8, 10, 10}},
		{[]rules.Descriptor{job("b", 6)}, []int{6}, [3]int{10, 4, 10}},
		{[]rules.Descriptor{job("c", 6)}, []int{2}, [3]int{10, 10, 8}},
		{[]rules.Descriptor{job("a", 6)}, []int{9}, [3]int{1, 10, 10}},
		{[]rules.Descriptor{job("a", 6), job("b", 3)}, []int{1}, [3]int{9, 9, 10}},
		{[]rules.Descriptor{job("a", 6), job("none", 3), job("b", 3)}, []int{7, 99, 2}, [3]int{3, 8, 10}},
		{[]rules.Descriptor{job("a", 4), job("free", 3), job("a", 3)}, []int{5, 99, 1},
			[3]int{4, 10, 10}},
		{[]rules.Descriptor{job("a", 4), job("a", 3)}, []int{2}, [3]int{6, 10, 10}},
		{[]rules.Descriptor{job("free", 1)}, []int{2}, [3]int{10, 10, 10}},
		{[]rules.Descriptor{job("a", 10), job("b", 10)}, nil, [3]int{10, 10, 10}},
	} {
		name := fmt.Sprint(c.ds, c.used)
		synctest.Test(t, func(t *testing.T) {
			store := hybrid.NewMemory()
			l := newLimiter(t, store, newBoard(jobs), rules.Config{})
			r, err := l.Reserve(t.Context(), "d", c.ds...)
			if err != nil || !r.Allowed || r.Denied != -1 || len(r.Each) != len(c.ds) {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			time.Sleep(time.Minute) // a job
			end := r.Cancel
			if c.used != nil {
				end = func() error { return r.Settle(c.used...) }
			}
			must(t, end())
			time.Sleep(time.Second)
			other := newLimiter(t, store, newBoard(jobs), rules.Config{})
			for i, key := range []string{"a", "b", "c"} {
				for _, x := range []*rules.Limiter{other, l} {
					if key == "c" && x == other {
						continue // a process keeps its part of a sliding window
					}
					p, err := x.Peek(t.Context(), "d", rules.Of(key, "x"))
					if left := p.Each[0].Decision.Remaining; err != nil || left != int64(c.left[i]) {
						t.Errorf("%s: %d of %s are left, not %d: %v", name, left, key, c.left[i], err)
					}
				}
			}
			if err := end(); !errors.Is(err, hybrid.ErrSettled) {
				t.Errorf("%s: it ends twice: %v", name, err)
			}
		})
	}
}

// TestReserveDenied: a reservation that is denied is no error, holds nothing, and says which limit
// has denied it, as Take does. It is counted as a request.
func TestReserveDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(jobs), rules.Config{})
		a := rules.Of("a", "x")
		open, err := l.Reserve(t.Context(), "d", hits(7, a))
		must(t, err)
		for _, n := range []int{4, 11} {
			r, err := l.Reserve(t.Context(), "d", hits(5, rules.Of("b", "x")), hits(n, a))
			if err != nil || r.Allowed || r.Denied != 1 || !r.Each[0].Decision.Allowed ||
				(r.Each[1].Decision.RetryAfter > 0) != (n <= 10) {
				t.Errorf("%d: %+v, %v", n, r, err)
			}
			for _, err := range []error{r.Settle(1), r.Cancel()} {
				if !errors.Is(err, hybrid.ErrSettled) {
					t.Errorf("%d: %v", n, err)
				}
			}
		}
		if yes := admitted(t, l, "d", 20, rules.Of("b", "x")); yes != 10 {
			t.Errorf("%d of the other limit are left, not 10", yes)
		}
		s := l.Stats().Domains[0].Rules
		if s[0].Admitted != 1 || s[0].Denied != 2 || s[1].Denied != 10 {
			t.Errorf("%+v", s)
		}
		must(t, open.Settle(7))
	})
}

// TestSettleErrors: numbers that make no sense end nothing. Of many ends at the same time one
// counts.
func TestSettleErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(jobs), rules.Config{})
		a := hits(3, rules.Of("a", "x"))
		r, err := l.Reserve(t.Context(), "d", a, a, rules.Of("none", "x"))
		must(t, err)
		bad := map[string][]int{
			"0 numbers are not 1 or 3": nil, "2 numbers are not 1 or 3": {1, 2},
			"4 numbers": {1, 1, 1, 1}, "-1 of descriptor 2 is not 0 to": {1, 2, -1},
		}
		if strconv.IntSize == 64 {
			most := int64(rules.MaxHits)
			bad["1099511627777 of descriptor 0"] = []int{int(most + 1)}
			bad["1099511627777 of bucket \"a=x\""] = []int{int(most), 1, 0}
		}
		for says, used := range bad {
			err := r.Settle(used...)
			if err == nil || errors.Is(err, hybrid.ErrSettled) || !strings.Contains(err.Error(), says) {
				t.Errorf("%d: %v, not %s", used, err, says)
			}
		}
		var all sync.WaitGroup
		errs := make([]error, 8)
		for i := range errs {
			all.Go(func() { errs[i] = r.Settle(1, 1, i) })
		}
		all.Wait()
		ended := 0
		for _, err := range errs {
			if err == nil {
				ended++
			} else if !errors.Is(err, hybrid.ErrSettled) {
				t.Error(err)
			}
		}
		if yes := admitted(t, l, "d", 20, rules.Of("a", "x")); ended != 1 || yes != 8 {
			t.Errorf("%d ends, and %d are left, not 8", ended, yes)
		}
		for _, bad := range []rules.Descriptor{{}, hits(-1, a), with(hybrid.Slots(1), a)} {
			if r, err := l.Reserve(t.Context(), "d", bad); r != nil || !errors.Is(err, rules.ErrDescriptor) {
				t.Errorf("%+v, %v", r, err)
			}
		}
	})
}

// TestReserveThroughChanges: rules, limits and a domain's fairness change while 6 tokens of 10 are
// reserved, which cost 2, or 9.
func TestReserveThroughChanges(t *testing.T) {
	of := func(more string) string { return "domain: d\ndescriptors:\n" + more }
	const a = "- {key: a, rate_limit: {unit: day, requests_per_unit: "
	same := of(a + "10}}\n")
	for _, c := range []struct {
		about  string
		texts  []string
		costs2 int // left of a, after that
		costs9 int
	}{
		{"nothing", nil, 8, 1},
		{"another order and name", []string{of("- key: z\n- {key: a, rate_limit: {unit: day, name: n, " +
			"requests_per_unit: 10}}\n")}, 8, 1},
		{"a raised limit", []string{of(a + "20}}\n")}, 18, 11},
		{"a lowered limit", []string{of(a + "7}}\n")}, 5, 0},
		{"a limit below what is reserved", []string{of(a + "3}}\n")}, 1, 0},
		{"blocked", []string{of(a + "0}}\n")}, 0, 0},
		{"another fairness: the estimate is spent", []string{"fairness: max-min\n" + same}, 4, 1},
		{"and back", []string{"fairness: max-min\n" + same, same}, 4, 1},
		{"another outage: the same", []string{"outage: allow\n" + same}, 4, 1},
		{"the domain was gone", []string{"domain: other", same}, 4, 1},
		{"another kind: the estimate is spent", []string{of("- {key: a, rate_limit: {unit: year, kind: bucket, " +
			"requests_per_unit: 10}}\n")}, 4, 1},
		{"the rule was gone for a moment", []string{of("- key: a\n"), same}, 8, 1},
		{"the rule is gone", []string{of("- key: a\n")}, 30, 30},
		{"a rule of other keys", []string{of(a + "10}}\n- {key: b, rate_limit: {unit: day, " +
			"requests_per_unit: 1}}\n")}, 8, 1},
	} {
		for _, cost := range []struct{ used, left int }{{2, c.costs2}, {9, c.costs9}} {
			synctest.Test(t, func(t *testing.T) {
				b := newBoard(same)
				l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
				r, err := l.Reserve(t.Context(), "d", hits(6, rules.Of("a", "x")))
				if err != nil || !r.Allowed {
					t.Fatalf("%+v, %v", r, err)
				}
				for _, text := range c.texts {
					b.put(text)
					for range 2 { // LimitFor is asked beside a request
						time.Sleep(time.Second)
						_, err := l.Peek(t.Context(), "d", rules.Of("a", "x"))
						must(t, err)
					}
				}
				if err := r.Settle(cost.used); err != nil {
					t.Errorf("%s: %v", c.about, err)
				}
				time.Sleep(2 * time.Second)
				if yes := admitted(t, l, "d", 30, rules.Of("a", "x")); yes != cost.left {
					t.Errorf("%s, cost %d: %d are left, not %d", c.about, cost.used, yes, cost.left)
				}
			})
		}
	}
}

// TestReserveHistories: whatever rules do meanwhile, what is taken and settled is never above the
// limit, if no job costs more than its estimate. And it is all of it, unless a reservation was
// spent as the domain's fairness changed.
func TestReserveHistories(t *testing.T) {
	for seed := range uint64(40) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 0))
			b := newBoard(jobs)
			l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
			texts := []string{jobs, jobs + "- {key: z, rate_limit: {unlimited: true}}\n"}
			if seed%2 == 0 {
				texts = append(texts, "fairness: max-min\n"+jobs, "outage: deny\n"+jobs)
			}
			key := []string{"a", "b", "c"}[seed%3]
			total := 0
			type job struct {
				*rules.Reservation
				estimate int
			}
			var open []job
			end := func(i int) {
				used := rng.IntN(open[i].estimate + 1)
				total += used
				must(t, open[i].Settle(used))
				open = append(open[:i], open[i+1:]...)
			}
			for range 60 {
				switch rng.IntN(6) {
				case 0:
					total += admitted(t, l, "d", 1, rules.Of(key, "x"))
				case 1, 2:
					n := 1 + rng.IntN(6)
					r, err := l.Reserve(t.Context(), "d", hits(n, rules.Of(key, "x")))
					if must(t, err); r.Allowed {
						open = append(open, job{r, n})
					}
				case 3:
					if len(open) > 0 {
						end(rng.IntN(len(open)))
					}
				case 4:
					b.put(texts[rng.IntN(len(texts))])
				}
				time.Sleep(time.Duration(rng.IntN(2000)) * time.Millisecond)
			}
			for len(open) > 0 {
				end(0)
			}
			time.Sleep(2 * time.Second)
			total += admitted(t, l, "d", 20, rules.Of(key, "x"))
			all := seed%2 == 1 && key != "c" // which may lose a 61st
			if total > 10 || all && total != 10 {
				t.Errorf("seed %d: %d of 10 were used", seed, total)
			}
		})
	}
}

// TestReserveShadow: a shadow counts what a job has cost, when it is settled, also on a Limiter
// that the domain has got meanwhile. A job that was not done costs it nothing.
func TestReserveShadow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := "domain: d\ndescriptors:\n- {key: a, shadow_mode: true, " +
			"rate_limit: {unit: day, requests_per_unit: 10}}\n"
		b := newBoard(text)
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		a := hits(20, rules.Of("a", "x"))
		for i, c := range []struct {
			used             int
			admitted, denied uint64
		}{{4, 1, 0}, {0, 1, 0}, {7, 1, 1}, {6, 2, 1}, {1, 2, 2}} {
			r, err := l.Reserve(t.Context(), "d", a)
			if err != nil || !r.Allowed || r.Each[0].State != rules.Shadow {
				t.Fatalf("%+v, %v", r, err)
			}
			if i > 2 {
				b.put([]string{"fairness: max-min\n", ""}[i%2] + text)
				time.Sleep(2 * time.Second)
			}
			must(t, r.Settle(c.used))
			time.Sleep(time.Second)
			s := l.Stats().Domains[0].Rules[0]
			if s.ShadowAdmitted != c.admitted || s.ShadowDenied != c.denied || s.ShadowUnknown != 0 {
				t.Errorf("settle %d: %+v", i, s)
			}
		}
	})
}

// TestSettleAfterClose: once the Limiter is closed, what was reserved is spent. Settle does no
// harm, and says that more cannot be charged.
func TestSettleAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		l := newLimiter(t, store, newBoard(jobs), rules.Config{})
		var open []*rules.Reservation
		for range 2 {
			r, err := l.Reserve(t.Context(), "d", hits(3, rules.Of("a", "x")))
			must(t, err)
			open = append(open, r)
		}
		must(t, l.Close(t.Context()))
		must(t, open[0].Settle(1))
		if err := open[1].Settle(4); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
		if r, err := l.Reserve(t.Context(), "d", rules.Of("a", "x")); r != nil ||
			!errors.Is(err, hybrid.ErrClosed) {
			t.Errorf("%+v, %v", r, err)
		}
		other := newLimiter(t, store, newBoard(jobs), rules.Config{})
		if yes := admitted(t, other, "d", 20, rules.Of("a", "x")); yes != 4 {
			t.Errorf("%d are left, not 4", yes)
		}
	})
}
