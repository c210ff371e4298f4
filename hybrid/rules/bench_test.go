package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// BenchmarkTake: a request with three descriptors, whose keys are in use, beside TakeAll of the
// same keys.
func BenchmarkTake(b *testing.B) {
	const limit = "{unit: second, requests_per_unit: 1000000000}\n"
	l := newLimiter(b, hybrid.NewMemory(), newBoard("domain: shop\ndescriptors:\n"+
		"- key: user\n  rate_limit: "+limit+"- key: tenant\n  rate_limit: "+limit+
		"- key: path\n  value: /api/*\n  descriptors:\n  - key: user\n    rate_limit: "+limit),
		rules.Config{})
	descriptors := []rules.Descriptor{rules.Of("user", "ann"), rules.Of("tenant", "42"),
		rules.Of("path", "/api/orders").And("user", "ann")}
	take := func(b *testing.B, n int) {
		b.ReportAllocs()
		for b.Loop() {
			r, err := l.Take(b.Context(), "shop", descriptors[:n]...)
			if err != nil || !r.Allowed {
				b.Fatal(r, err)
			}
		}
	}
	b.Run("rules/1", func(b *testing.B) { take(b, 1) })
	b.Run("rules/3", func(b *testing.B) { take(b, 3) })
	h, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close(b.Context())
	asks := []hybrid.Ask{{Key: "user=ann", N: 1}, {Key: "tenant=42", N: 1},
		{Key: "path=/api/orders,user=ann", N: 1}}
	b.Run("hybrid/1", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d, err := h.Take(b.Context(), asks[0].Key, 1); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
	b.Run("hybrid/3", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if d, err := h.TakeAll(b.Context(), asks...); err != nil || !d.Allowed {
				b.Fatal(d, err)
			}
		}
	})
}

// BenchmarkBanned: whether one of two descriptors is banned, without bans and with 200, half of
// them prefixes.
func BenchmarkBanned(b *testing.B) {
	for _, n := range []int{0, rules.MaxBans} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			var list strings.Builder
			list.WriteString("domain: shop\nbans:\n")
			for i := range n {
				path := fmt.Sprintf("user=u%d", i)
				if i%2 == 1 {
					path = fmt.Sprintf("address=10.0.%d.0/24", i)
				}
				fmt.Fprintf(&list, "- {descriptor: %s, until: 2100-01-01T00:00:00Z, reason: r}\n", path)
			}
			set, err := rules.Parse(rules.Document{Text: []byte("domain: shop\n")},
				rules.Document{Text: []byte(list.String())})
			if err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			ds := []rules.Descriptor{rules.Of("user", "ann"), rules.Of("address", "192.0.2.7")}
			b.ReportAllocs()
			for b.Loop() {
				for _, d := range ds {
					if _, banned := set.Banned("shop", now, d); banned {
						b.Fatal("banned")
					}
				}
			}
		})
	}
}

// BenchmarkChange: from the change of one file of many, of 9,000 rules each, until it is in force.
func BenchmarkChange(b *testing.B) {
	for _, files := range []int{1, 10, 40, 80} {
		b.Run(fmt.Sprint(9000*files, "_rules"), func(b *testing.B) {
			dir := b.TempDir()
			write := func(file, n int) {
				var text strings.Builder
				fmt.Fprintf(&text, "domain: d%d\ndescriptors:\n", file)
				for i := range 9000 {
					fmt.Fprintf(&text, "- key: user\n  value: u%d\n  rate_limit: {unit: hour, requests_per_unit: %d}\n", i, n)
				}
				next := filepath.Join(dir, "next")
				if err := os.WriteFile(next, []byte(text.String()), 0o600); err != nil {
					b.Fatal(err)
				}
				if err := os.Rename(next, filepath.Join(dir, fmt.Sprintf("d%d.yaml", file))); err != nil {
					b.Fatal(err)
				}
			}
			for i := range files {
				write(i, 1_000_000)
			}
			began := time.Now()
			l, err := rules.New(hybrid.NewMemory(), rules.Files(dir), rules.Config{})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close(b.Context())
			b.Logf("New took %v", time.Since(began))
			n := int64(1_000_000)
			for b.Loop() {
				n++
				write(0, int(n))
				for {
					r, err := l.Take(b.Context(), "d0", rules.Of("user", "u1"))
					if err != nil {
						b.Fatal(err)
					}
					if r.Each[0].Decision.Limit.Burst == n {
						break
					}
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
}
