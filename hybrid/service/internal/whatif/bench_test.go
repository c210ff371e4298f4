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
