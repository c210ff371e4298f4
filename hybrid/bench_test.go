package hybrid_test

import (
	"fmt"
	"testing"

	"github.com/seed13b07268/ration/hybrid"
)

func BenchmarkAllow(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit hybrid.Limit
	}{{"admitted", hybrid.PerSecond(1e9)}, {"denied", hybrid.PerSecond(10)}} {
		l := newLimiter(b, hybrid.NewMemory(), hybrid.Config{Limit: c.limit})
		k := l.Key("k")
		k.Allow()
		b.Run("handle/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.Allow()
			}
		})
		b.Run("name/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Allow("k")
			}
		})
		b.Run("lock/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				k.AllowN(2)
			}
		})
		b.Run("decision/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := k.Take(b.Context(), 1); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("parallel/"+c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					k.Allow()
				}
			})
		})
	}
}

// BenchmarkAllowAll decides about keys that have leases, at once and in turn: all of them hot, and
// all but a user, who is one of many.
func BenchmarkAllowAll(b *testing.B) {
	for _, users := range []int{1, 1024} {
		for _, n := range []int{1, 2, 4, 16} {
			l, keys := warmKeys(b, n, users)
			i := 0
			b.Run(fmt.Sprintf("all/%d/users/%d", n, users), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					i++
					l.AllowAll(keys[i%users]...)
				}
			})
			b.Run(fmt.Sprintf("inturn/%d/users/%d", n, users), func(b *testing.B) {
				for b.Loop() {
					i++
					for _, key := range keys[i%users] {
						l.Allow(key)
					}
				}
			})
		}
	}
}

// warmKeys returns a limiter, and the n keys of each user, that have tokens for hours.
func warmKeys(t testing.TB, n, users int) (l *hybrid.Limiter, keys [][]string) {
	l = newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	for user := range users {
		all := []string{fmt.Sprintf("user:%05d", user)}
		for level := range n - 1 {
			all = append(all, fmt.Sprintf("level:%02d", level))
		}
		keys = append(keys, all)
	}
	for range 10_000/users + 100 {
		for _, all := range keys {
			for _, key := range all {
				l.Allow(key)
			}
		}
	}
	return l, keys
}
