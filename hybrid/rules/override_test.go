package rules_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// with returns d with a Limit.
func with(limit hybrid.Limit, d rules.Descriptor) rules.Descriptor {
	d.Limit = limit
	return d
}

// TestOverride: a Limit of a descriptor is in force in place of its rule, also where there is no
// rule. All of its kind have a bucket of their own: the same one in each process.
func TestOverride(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := hybrid.NewMemory()
		text := shop + "  - {key: slow, shadow_mode: true, " +
			"rate_limit: {unit: day, requests_per_unit: 2}}\n"
		one := newLimiter(t, store, newBoard(text), rules.Config{})
		other := newLimiter(t, store, newBoard(text), rules.Config{})
		day := hybrid.Quota(7, hybrid.Day)
		for _, c := range []struct {
			d     rules.Descriptor
			state rules.State
			yes   int // of 20
		}{
			{with(day, rules.Of("user", "ann")), rules.Limited, 7},
			{with(day, rules.Of("user", "bob")), rules.Limited, 7},
			{with(day, rules.Of("user", "root")), rules.Limited, 7},
			{with(day, rules.Of("slow", "x")), rules.Limited, 7},
			{with(day, rules.Of("no", "rule").And("any", "where")), rules.Limited, 7},
			{with(day.In(time.Hour), rules.Of("user", "ann")), rules.Limited, 7},
			{with(hybrid.Quota(8, hybrid.Day), rules.Of("user", "ann")), rules.Limited, 8},
			{with(hybrid.Sliding(3, hybrid.Day), rules.Of("user", "ann")), rules.Limited, 3},
			{with(hybrid.PerHour(4), rules.Of("user", "ann")), rules.Limited, 4},
			{with(hybrid.PerHour(4).WithBurst(2), rules.Of("user", "ann")), rules.Limited, 2},
			{with(hybrid.Blocked, rules.Of("user", "ann")), rules.Limited, 0},
			{with(hybrid.Unlimited, rules.Of("user", "ann")), rules.Unlimited, 20},
			{rules.Of("user", "ann"), rules.Limited, 10},
		} {
			if yes := admitted(t, one, "shop", 20, c.d); yes != c.yes {
				t.Errorf("%v %v: %d of 20 were admitted, not %d", c.d, c.d.Limit, yes, c.yes)
			}
			time.Sleep(time.Second)
			r, err := other.Take(t.Context(), "shop", c.d)
			must(t, err)
			if r.Allowed != (c.yes == 20) || r.Each[0].State != c.state {
				t.Errorf("%v %v, in another process: %+v", c.d, c.d.Limit, r)
			}
			if c.d.Limit != (hybrid.Limit{}) && (r.Each[0].Rule != "" || r.Each[0].Name != "") {
				t.Errorf("%v %v: it has a rule: %+v", c.d, c.d.Limit, r)
			}
			if limit := r.Each[0].Decision.Limit; c.state == rules.Limited && c.d.Limit != limit &&
				c.d.Limit != (hybrid.Limit{}) {
				t.Errorf("%v: the limit is %v, not %v", c.d, limit, c.d.Limit)
			}
		}
		r, err := one.Take(t.Context(), "elsewhere", with(hybrid.Blocked, rules.Of("user", "ann")))
		if err != nil || !r.Allowed || r.Each[0].State != rules.NotConfigured {
			t.Errorf("a domain that is not there: %+v, %v", r, err)
		}
		if c := one.Stats().Domains[0].Overrides; c.Admitted != 59 || c.Denied != 161 {
			t.Errorf("%+v", c)
		}
	})
}

// TestOverrideBeside: one request may have overrides and rules: all or none. Replaces leaves an
// override alone, and a request for more than an override admits is a denial.
func TestOverrideBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(`
domain: d
descriptors:
- {key: a, rate_limit: {unit: day, requests_per_unit: 5, name: a}}
- {key: b, rate_limit: {unit: day, requests_per_unit: 9, replaces: [{name: a}]}}
`), rules.Config{})
		a, b := with(hybrid.Quota(3, hybrid.Day), rules.Of("a", "1")), rules.Of("b", "1")
		if yes := admitted(t, l, "d", 8, a, b); yes != 3 {
			t.Errorf("%d were admitted, not 3", yes)
		}
		if yes := admitted(t, l, "d", 8, b); yes != 6 {
			t.Errorf("%d were left, not 6", yes)
		}
		if yes := admitted(t, l, "d", 8, rules.Of("a", "1"),
			with(hybrid.Quota(9, hybrid.Day), rules.Of("b", "1"))); yes != 5 {
			t.Errorf("%d were admitted beside an override that replaces nothing, not 5", yes)
		}
		large := with(hybrid.Quota(3, hybrid.Day), rules.Of("a", "2"))
		large.Hits = 2
		r, err := l.Take(t.Context(), "d", rules.Of("a", "3"), large, large)
		if err != nil || r.Allowed || r.Denied == 0 || r.Each[r.Denied].Decision.RetryAfter != 0 ||
			r.Each[r.Denied].Decision.Limit != large.Limit {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestOverrideStays: a change of rules or of a domain's fairness refills no bucket of an
// override, and its limit stays.
func TestOverrideStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(shop)
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{})
		d := with(hybrid.Quota(9, hybrid.Day), rules.Of("user", "ann"))
		if yes := admitted(t, l, "shop", 4, d); yes != 4 {
			t.Errorf("%d were admitted, not 4", yes)
		}
		for i, text := range []string{
			strings.ReplaceAll(shop, "10", "1"), "fairness: max-min\n" + shop, "domain: shop", shop,
		} {
			b.put(text)
			time.Sleep(2 * time.Second)
			if yes := admitted(t, l, "shop", 1, d); yes != 1 {
				t.Errorf("change %d: it was denied", i)
			}
		}
		if yes := admitted(t, l, "shop", 4, d); yes != 1 {
			t.Errorf("%d were left, not 1", yes)
		}
		if c := l.Stats().Domains[0].Overrides; c.Admitted != 9 || c.Denied != 3 {
			t.Errorf("%+v", c)
		}
	})
}

// TestOverrideErrors: a Limit that makes no sense is a bad request.
func TestOverrideErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(shop), rules.Config{})
		for says, limit := range map[string]hybrid.Limit{
			"Burst 0 is not":        {Rate: 1},
			"Rate NaN is not":       {Rate: math.NaN(), Burst: 1},
			"Rate +Inf is not":      {Rate: math.Inf(1), Burst: 1},
			"Kind(9) is not":        {Kind: 9, Burst: 1},
			"Window 1ns":            hybrid.Quota(1, 1),
			"put slots back":        hybrid.Slots(1),
			"Burst -1 is not":       hybrid.Sliding(-1, time.Minute),
			"of descriptor 1: leas": {Burst: 1},
		} {
			for _, domain := range []string{"shop", "elsewhere"} {
				r, err := l.Take(t.Context(), domain, rules.Of("a", "b"), with(limit, rules.Of("user", "ann")))
				if !errors.Is(err, rules.ErrDescriptor) || r.Allowed || !strings.Contains(err.Error(), says) {
					t.Errorf("%v: %+v, %v, not %s", limit, r, err, says)
				}
			}
		}
	})
}

// TestOverrideBuckets: the name of a bucket has the limit, bit by bit, whatever is in keys and
// values; and no two overrides have one name.
func TestOverrideBuckets(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	texts := []string{"a", "a,b", "a=b", "~a", "!trial", "!quota/1/1/1s/0s", "/", "", `"`,
		"\x00\xff", "é"}
	text := func() string { return texts[rng.IntN(len(texts))] }
	units := []time.Duration{time.Second, time.Hour, hybrid.Month}
	type pair struct {
		entries string
		limit   hybrid.Limit
	}
	seen := map[string]pair{}
	for range 20_000 {
		n := 1 + rng.Int64N(1<<32)
		if rng.IntN(2) == 0 {
			n = 1 + rng.Int64N(3)
		}
		window := time.Duration(1+rng.IntN(9)) * units[rng.IntN(3)]
		limit := []hybrid.Limit{
			hybrid.Per(float64(n)*rng.Float64(), time.Second).WithBurst(n), hybrid.Per(float64(n), window),
			hybrid.Quota(n, window), hybrid.Quota(n, hybrid.Month), hybrid.Sliding(n, window),
			hybrid.Quota(n, window).In(time.Duration(rng.IntN(9)-4) * time.Second), hybrid.Blocked,
		}[rng.IntN(7)]
		if limit.Validate() != nil {
			continue
		}
		d := rules.Of(text(), text())
		for rng.IntN(2) == 0 {
			d = d.And(text(), text())
		}
		name, back := rules.OverrideBucket(with(limit, d))
		if back != limit {
			t.Fatalf("%v of %v is %q, and back %v", limit, d, name, back)
		}
		p := pair{d.String(), limit}
		if was, twice := seen[name]; twice && was != p {
			t.Fatalf("%v and %v have the bucket %q", was, p, name)
		}
		seen[name] = p
	}
	if len(seen) < 5000 {
		t.Errorf("only %d buckets", len(seen))
	}
}
