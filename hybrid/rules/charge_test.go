package rules_test

import (
	"errors"
	"testing"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestCharge: what was used already is taken of each bucket, though it is not there; nothing of
// Hits that are 0, and nothing of what has no limit.
func TestCharge(t *testing.T) {
	const text = `{domain: d, descriptors: [
  {key: k, rate_limit: {unit: year, requests_per_unit: 10}},
  {key: other, rate_limit: {unit: year, requests_per_unit: 10}},
]}`
	l := newLimiter(t, hybrid.NewMemory(), newBoard(text), rules.Config{})
	left := func(key string) (int64, bool) {
		r, err := l.Peek(t.Context(), "d", rules.Of(key, "v"))
		must(t, err)
		return r.Each[0].Decision.Remaining, r.Allowed
	}
	charge := func(key string, n int) {
		d, free := rules.Of(key, "v"), rules.Of("free", "v")
		d.Hits, free.Hits = n, 5
		must(t, l.Charge("d", d, free))
	}
	charge("k", 4)
	if n, _ := left("k"); n != 6 {
		t.Errorf("%d of 10 are left after 4", n)
	}
	charge("k", 20)
	if n, allowed := left("k"); n != 0 || allowed {
		t.Errorf("%d are left, %v, after 24 of 10", n, allowed)
	}
	charge("other", 0)
	if n, _ := left("other"); n != 10 {
		t.Errorf("%d of 10 are left after none", n)
	}
	if err := l.Charge("d"); !errors.Is(err, rules.ErrDescriptor) {
		t.Error(err)
	}
}
