package hybrid_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

func newLimiter(t testing.TB, store hybrid.Store, c hybrid.Config) *hybrid.Limiter {
	t.Helper()
	l, err := hybrid.New(store, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestBurstThenRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(100).WithBurst(50)})
		defer l.Close(context.Background())
		admitted := 0
		for range 10_000 {
			if l.Allow("k") {
				admitted++
			}
			time.Sleep(time.Millisecond)
		}
		t.Log(admitted, l.Stats())
	})
}
func BenchmarkAllow(b *testing.B) {
	l := newLimiter(b, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	defer l.Close(context.Background())
	l.Allow("k"); time.Sleep(50*time.Millisecond); l.Allow("k")
	b.ReportAllocs()
	for b.Loop() { l.Allow("k") }
	b.Log(l.Stats())
}
func BenchmarkKeyAllow(b *testing.B) {
	l := newLimiter(b, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	defer l.Close(context.Background())
	k := l.Key("k"); k.Allow()
	b.ReportAllocs()
	for b.Loop() { k.Allow() }
}
func BenchmarkKeyAllowDenied(b *testing.B) {
	l := newLimiter(b, hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
	defer l.Close(context.Background())
	k := l.Key("k"); k.Allow()
	b.ReportAllocs()
	for b.Loop() { k.Allow() }
	b.Log(l.Stats())
}
