package rules_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const peeked = `
domain: d
descriptors:
- {key: day, rate_limit: {unit: day, requests_per_unit: 5}}
- {key: hour, rate_limit: {unit: hour, requests_per_unit: 60}}
- {key: any, rate_limit: {unit: day, requests_per_unit: 5, kind: sliding}}
- {key: never, rate_limit: {unit: day, requests_per_unit: 0}}
- {key: free, rate_limit: {unlimited: true}}
- {key: shadow, shadow_mode: true, rate_limit: {unit: day, requests_per_unit: 1}}
`

// hits is a descriptor that takes n.
func hits(n int, d rules.Descriptor) rules.Descriptor {
	d.Hits = n
	return d
}

// TestPeek: Peek says what Take says right after it, and changes nothing: neither buckets nor
// counts, and no shadow.
func TestPeek(t *testing.T) {
	of := func(key string) rules.Descriptor { return rules.Of(key, "x") }
	own := with(hybrid.Quota(2, hybrid.Day), of("elsewhere"))
	for name, ds := range map[string][]rules.Descriptor{
		"quota": {of("day")}, "bucket": {of("hour")}, "sliding": {of("any")}, "blocked": {of("never")},
		"unlimited": {of("free")}, "shadow": {of("shadow")}, "none": {of("other")}, "own": {own},
		"several": {of("free"), of("day"), of("hour"), of("shadow"), of("other")},
		"twice":   {of("hour"), hits(2, of("day")), of("day")},
		"hits":    {hits(4, of("day"))}, "hits of a bucket": {hits(25, of("hour"))},
		"hits of a window": {hits(2, of("any"))}, "too many": {of("hour"), hits(6, of("day"))},
		"blocked beside": {of("day"), of("never"), of("hour")}, "all of it": {hits(60, of("hour"))},
		"far too many": {hits(1<<30, of("hour")), hits(1<<30, of("hour")), hits(1<<30, of("day"))},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := newLimiter(t, hybrid.NewMemory(), newBoard(peeked), rules.Config{})
			for turn := range 8 {
				before := l.Stats().Domains[0]
				var p rules.Result
				for range 30 {
					var err error
					if p, err = l.Peek(t.Context(), "d", ds...); err != nil {
						t.Fatal(err)
					}
				}
				synctest.Wait()
				after := l.Stats().Domains[0]
				for i := range after.Rules {
					if after.Rules[i] != before.Rules[i] || after.Overrides != before.Overrides {
						t.Errorf("%s: a Peek is counted: %+v", name, after.Rules[i])
					}
				}
				r, err := l.Take(t.Context(), "d", ds...)
				must(t, err)
				if p.Allowed != r.Allowed || p.Denied != r.Denied || len(p.Each) != len(r.Each) {
					t.Errorf("%s, turn %d: %+v, and Take: %+v", name, turn, p, r)
				}
				for i := range r.Each {
					alike(t, name, p.Each[i], r.Each[i], r.Allowed)
				}
				synctest.Wait()
			}
		})
	}
}

// alike compares what Peek and Take say of a descriptor.
func alike(t *testing.T, name string, p, r rules.Status, taken bool) {
	t.Helper()
	d, was := r.Decision, p.Decision
	if p.State != r.State || p.Rule != r.Rule || was.Allowed != d.Allowed || was.Limit != d.Limit {
		t.Errorf("%s: %+v, and Take: %+v", name, p, r)
	}
	if !taken && was.Remaining != d.Remaining {
		t.Errorf("%s: %d remain, and by Take %d", name, was.Remaining, d.Remaining)
	}
	// A holder allows for a clock that is slow by a 512th, a ledger does not.
	tolerance := time.Second + was.Limit.Window/512
	if off := was.RetryAfter - d.RetryAfter; off.Abs() > tolerance &&
		was.Limit.Kind != hybrid.KindSliding {
		t.Errorf("%s: again after %v, and by Take %v", name, was.RetryAfter, d.RetryAfter)
	}
}

// TestPeekErrors: Peek has the errors of Take.
func TestPeekErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(peeked), rules.Config{})
		for _, ds := range [][]rules.Descriptor{
			nil, {{}}, {hits(-1, rules.Of("day", "x"))}, {with(hybrid.Slots(1), rules.Of("day", "x"))},
		} {
			if r, err := l.Peek(t.Context(), "d", ds...); !errors.Is(err, rules.ErrDescriptor) || r.Allowed {
				t.Errorf("%+v, %v", r, err)
			}
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		both := []rules.Descriptor{rules.Of("day", "x"), rules.Of("hour", "x")}
		for n := 1; n <= 2; n++ {
			r, err := l.Peek(ended, "d", both[:n]...)
			if !errors.Is(err, context.Canceled) || r.Allowed || r.Denied != -1 {
				t.Errorf("%+v, %v", r, err)
			}
		}
		must(t, l.Close(t.Context()))
		if _, err := l.Peek(t.Context(), "d", both...); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
	})
}
