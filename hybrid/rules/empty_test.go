package rules_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestEmpty: with Config.Empty a source may have no documents, first and last. Then nothing is
// limited. What fails or has a mistake is an error as ever.
func TestEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for says, s := range map[string]rules.Source{
			"mistake": newBoard("mistake"), "has no .yaml files": rules.Files(t.TempDir()),
		} {
			_, err := rules.New(hybrid.NewMemory(), s, rules.Config{Empty: true})
			if err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("%v, not %s", err, says)
			}
		}
		b, log := newBoard(), &logBook{}
		l := newLimiter(t, hybrid.NewMemory(), b, rules.Config{
			Empty: true, Limiter: hybrid.Config{SlogLogger: slog.New(slog.NewTextHandler(log, nil))},
		})
		step := func(about string, yes int, changes uint64, healthy bool) {
			t.Helper()
			time.Sleep(2 * time.Second)
			r, err := l.Take(t.Context(), "shop", rules.Of("user", "ann"))
			must(t, err)
			if limited := r.Each[0].State == rules.Limited; limited != (yes < 20) {
				t.Errorf("%s: %v", about, r.Each[0].State)
			}
			if n := admitted(t, l, "shop", 20, rules.Of("user", "ann")); n != yes {
				t.Errorf("%s: %d of 20 were admitted, not %d", about, n, yes)
			}
			s := l.Stats()
			if s.Source.Changes != changes || (s.Source.Err == nil) != healthy {
				t.Errorf("%s: %+v", about, s.Source)
			}
		}
		step("nothing yet", 20, 1, true)
		time.Sleep(5 * time.Minute)
		step("nothing for long, which is no change", 20, 1, true)
		b.fail(errBroken)
		step("it fails", 20, 1, false)
		if !strings.Contains(log.text(), "rules cannot be loaded") {
			t.Errorf("the log does not tell: %s", log.text())
		}
		b.put(shop)
		step("the first rules", 9, 2, true)
		b.put()
		step("the last domain is deleted", 20, 3, true)
		b.put(shop)
		step("it is back, and its bucket as it was", 0, 4, true)
	})
}
