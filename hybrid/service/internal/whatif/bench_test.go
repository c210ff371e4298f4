package whatif

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// BenchmarkWrite takes decisions of a thousand keys.
func BenchmarkWrite(b *testing.B) {
	r := parsed(b, shop)
	record := New(32<<20, func() *rules.Rules { return r })
	var lines strings.Builder
	for i := range 500 {
		lines.WriteString(line(fmt.Sprintf("user=u%d", i*7919%1000), "admitted", 1))
	}
	text := []byte(lines.String())
	to := record.Of("shop").To
	b.ReportAllocs()
	for n := 0; b.Loop(); n += 500 {
		_, _ = to.Write(text)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*500), "ns/decision")
}

// BenchmarkAsk plays a million decisions again.
func BenchmarkAsk(b *testing.B) {
	r := parsed(b, shop)
	record := New(32<<20, func() *rules.Rules { return r })
	for i := range 1_000_000 {
		if i%1000 == 0 {
			_, _ = record.Of("shop").To.Write([]byte(line(fmt.Sprintf("user=u%d", i), "admitted", 1)))
		}
		_, _ = record.Of("shop").To.Write([]byte(line(fmt.Sprintf("user=u%d", i*7919%1000), "admitted", 1)))
	}
	for b.Loop() {
		_, _ = record.Ask(b.Context(), "shop", "user", hybrid.PerMinute(10))
	}
	size, _, _ := record.sizeLocked()
	b.ReportMetric(float64(size), "bytes")
}

// BenchmarkTake is what a request costs where its decision is recorded, and where it is not.
func BenchmarkTake(b *testing.B) {
	for name, recorded := range map[string]bool{"recorded": true, "plain": false} {
		b.Run(name, func(b *testing.B) {
			var l *rules.Limiter
			r := New(32<<20, func() *rules.Rules { return l.Rules() })
			c := rules.Config{}
			if recorded {
				c.Record = r.Of
			}
			l, err := rules.New(hybrid.NewMemory(), source{strings.Replace(shop, "10}", "1000000}", 1)}, c)
			if err != nil {
				b.Fatal(err)
			}
			users := make([]rules.Descriptor, 100)
			for i := range users {
				users[i] = rules.Of("user", fmt.Sprint("u", i))
			}
			for n := 0; b.Loop(); n++ {
				_, _ = l.Take(b.Context(), "shop", users[n%len(users)])
			}
			b.StopTimer()
			_ = l.Close(b.Context())
		})
	}
}
