package rules_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const quotas = `
domain: d
descriptors:
- {key: a, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 2}}
- {key: b, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: plain, rate_limit: {unit: day, requests_per_unit: 6}}
- {key: shadow, quota_mode: true, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
- {key: tiny, quota_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`

// TestQuotaMode: a request is denied when all of its rules in quota mode deny, or another one does.
// What a rule denies takes nothing of it, and what the request is denied takes nothing at all.
func TestQuotaMode(t *testing.T) {
	a, b, plain := rules.Of("a", "x"), rules.Of("b", "x"), rules.Of("plain", "x")
	for name, c := range map[string]struct {
		request []rules.Descriptor
		yes     int // of 10
		left    map[string]int64
	}{
		"one":           {[]rules.Descriptor{a}, 2, map[string]int64{"a": 0}},
		"two":           {[]rules.Descriptor{a, b}, 5, map[string]int64{"a": 0, "b": 0}},
		"with a limit":  {[]rules.Descriptor{a, plain}, 2, map[string]int64{"a": 0, "plain": 4}},
		"with a shadow": {[]rules.Descriptor{a, rules.Of("shadow", "x")}, 10, map[string]int64{"a": 0}},
		"beside more than ever": {
			[]rules.Descriptor{{Entries: rules.Of("tiny", "x").Entries, Hits: 2}, b}, 5,
			map[string]int64{"tiny": 1, "b": 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLimiter(t, hybrid.NewMemory(), newBoard(quotas), rules.Config{})
				seen, err := l.Peek(t.Context(), "d", c.request...)
				if err != nil || !seen.Allowed {
					t.Errorf("peek: %+v, %v", seen, err)
				}
				if yes := admitted(t, l, "d", 10, c.request...); yes != c.yes {
					t.Errorf("%d were admitted, not %d", yes, c.yes)
				}
				seen, err = l.Peek(t.Context(), "d", c.request...)
				if err != nil || seen.Allowed != (c.yes == 10) {
					t.Errorf("peek: %+v, %v", seen, err)
				}
				for key, left := range c.left {
					r, err := l.Peek(t.Context(), "d", rules.Of(key, "x"))
					if d := r.Each[0].Decision; err != nil || d.Remaining != left {
						t.Errorf("%s: %d are left, not %d: %v", key, d.Remaining, left, err)
					}
				}
			})
		})
	}
}

// TestQuotaModeTells: a Status has the denial of a rule in quota mode though the request is
// admitted, and Stats count it.
func TestQuotaModeTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(quotas), rules.Config{})
		both := []rules.Descriptor{rules.Of("a", "x"), rules.Of("b", "x")}
		admitted(t, l, "d", 2, both...)
		r, err := l.Take(t.Context(), "d", both...)
		if err != nil || !r.Allowed || r.Denied != -1 || r.Each[0].Decision.Allowed ||
			!r.Each[1].Decision.Allowed || !r.Each[0].QuotaMode {
			t.Errorf("%+v, %v", r, err)
		}
		stats := l.Stats().Domains[0].Rules
		if a, b := stats[0].Counts, stats[1].Counts; a != (rules.Counts{Admitted: 2, Denied: 1}) ||
			b != (rules.Counts{Admitted: 3}) {
			t.Errorf("%+v, %+v", a, b)
		}
	})
}

// TestQuotaModeReserves: a Reservation holds what its rules admit, and gives it back.
func TestQuotaModeReserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(quotas), rules.Config{})
		a, b := rules.Of("a", "x"), rules.Of("b", "x")
		a.Hits, b.Hits = 3, 3
		r, err := l.Reserve(t.Context(), "d", a, b)
		if err != nil || !r.Allowed || r.Each[0].Decision.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		must(t, r.Settle(7, 1))
		var left []int64
		for _, key := range []string{"a", "b"} {
			seen, err := l.Peek(t.Context(), "d", rules.Of(key, "x"))
			must(t, err)
			left = append(left, seen.Each[0].Decision.Remaining)
		}
		if !slices.Equal(left, []int64{2, 4}) {
			t.Errorf("%v are left", left)
		}
	})
}

// TestQuotaModeOfUsed: what a request has used already counts at the rules that are left out, too.
func TestQuotaModeOfUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(quotas), rules.Config{})
		a, b := rules.Of("a", "x"), rules.Of("b", "x")
		a.Hits, a.Used, b.Hits, b.Used = 3, true, 3, true
		r, err := l.Take(t.Context(), "d", a, b)
		if err != nil || !r.Allowed {
			t.Fatalf("%+v, %v", r, err)
		}
		for key, left := range map[string]int64{"a": 0, "b": 2} {
			seen, err := l.Peek(t.Context(), "d", rules.Of(key, "x"))
			if d := seen.Each[0].Decision; err != nil || d.Remaining != left || d.Allowed != (left > 0) {
				t.Errorf("%s: %+v, %v", key, d, err)
			}
		}
	})
}
