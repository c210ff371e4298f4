package engine

import (
	"context"
	"testing"

	"github.com/seed13b07268/ration/sim/scenario"
)

func read(t testing.TB, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text), scenario.Folder("."))
	if err == nil {
		err = s.Resolve()
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// BenchmarkRequests is the speed of the simulator, measuring included: requests
// per second of one core.
func BenchmarkRequests(b *testing.B) {
	for _, c := range []struct{ name, text string }{
		{"1_key", "duration: 60s\nbalance: {skew: 1}"},
		{"64_processes", "duration: 60s\nprocesses: 64\nlimit: 10000/s\nbalance: {skew: 1}"},
		{"1000_keys", "duration: 60s\nkeys: 1000\nkey_skew: 1\nlimit: 10/s\nbalance: {skew: 1}"},
		{"per_request", "duration: 60s\npolicy: {mode: per-request}"},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := read(b, c.text)
			requests := int64(0)
			b.ReportAllocs()
			for b.Loop() {
				r, err := Run(context.Background(), s, 1, 0)
				if err != nil {
					b.Fatal(err)
				}
				requests += r.Requests
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}
