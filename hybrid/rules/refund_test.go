package rules_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/lease"
)

// TestRefund: what was spent on lease comes back to each bucket of the request, also to those of a
// Limit of its own and of a shadow.
func TestRefund(t *testing.T) {
	text := jobs + "- {key: shadow, shadow_mode: true, " +
		"rate_limit: {unit: day, requests_per_unit: 50}}\n"
	own := with(hybrid.Quota(50, hybrid.Day), rules.Of("own", "x"))
	for name, c := range map[string]struct {
		ds   []rules.Descriptor // of a hit each
		back int                // of each
	}{
		"quota":     {[]rules.Descriptor{rules.Of("a", "x")}, 3},
		"bucket":    {[]rules.Descriptor{rules.Of("b", "x")}, 3},
		"sliding":   {[]rules.Descriptor{rules.Of("c", "x")}, 3},
		"own":       {[]rules.Descriptor{own}, 3},
		"shadow":    {[]rules.Descriptor{rules.Of("shadow", "x")}, 3},
		"several":   {[]rules.Descriptor{rules.Of("a", "x"), own, rules.Of("none", "x")}, 3},
		"unlimited": {[]rules.Descriptor{rules.Of("free", "x"), rules.Of("none", "x")}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := hybrid.Policy{Mode: lease.Batches, Batch: 8}
				l := newLimiter(t, hybrid.NewMemory(), newBoard(text),
					rules.Config{Limiter: hybrid.Config{Policy: policy}})
				take := func(n int) (allowed int) {
					for range n {
						if r, err := l.Take(t.Context(), "d", c.ds...); err != nil {
							t.Fatal(err)
						} else if r.Allowed {
							allowed++
						}
						time.Sleep(10 * time.Millisecond) // a shadow counts
					}
					return allowed
				}
				take(5)
				back := make([]rules.Descriptor, len(c.ds))
				for i, d := range c.ds {
					back[i] = hits(3, d)
				}
				if err := l.Refund("d", back...); err != nil {
					t.Fatal(err)
				}
				all, limit := take(60), 10
				switch name {
				case "unlimited":
					limit = 65
				case "own":
					limit = 50
				case "shadow":
					s := counted(l)
					all, limit = int(s[len(s)-1].Counts.ShadowAdmitted)-5, 50
				}
				if want := limit - 5 + c.back; all != want {
					t.Errorf("%d were admitted after five, not %d", all, want)
				}
			})
		})
	}
}

// TestRefundRefused: a refund that makes no sense is an error, one of a domain that is not there
// does nothing.
func TestRefundRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), newBoard(jobs), rules.Config{})
		for _, ds := range [][]rules.Descriptor{
			nil, {{}}, {hits(-1, rules.Of("a", "x"))},
			{with(hybrid.Slots(3), rules.Of("a", "x"))},
		} {
			if err := l.Refund("d", ds...); !errors.Is(err, rules.ErrDescriptor) {
				t.Errorf("%v: %v", ds, err)
			}
		}
		if err := l.Refund("elsewhere", rules.Of("a", "x")); err != nil {
			t.Error(err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := l.Refund("d", rules.Of("a", "x")); !errors.Is(err, hybrid.ErrClosed) {
			t.Error(err)
		}
	})
}
