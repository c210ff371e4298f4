package hybrid_test

import (
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
