package hunt

import (
	"math"
	"testing"
	"time"
)

// What is drawn stays within the bounds that docs/hunt.md promises; a Burst is whole tokens.
func TestNearWithinBounds(t *testing.T) {
	for _, s := range drawn(t, Near) {
		within := func(what string, x, low, high float64) { s.within(t, what, x, low, high) }
		processes := float64(s.Processes)
		within("processes", processes, minProcesses, maxNearProcesses)
		within("keys", float64(s.Keys.Number), 1, maxNearKeys)
		within("requests/s of each process", s.Capacity()/s.MeanCost()/processes,
			minNearRate, maxNearRate)
		within("requests in a burst", float64(s.Burst)/s.MeanCost()/processes,
			minNearBurst-1/processes, maxNearBurst)
		within("round trip", s.Redis.Latency.Seconds(), minNearTrip/1e3, maxNearTrip/1e3)
		within("load", s.Offered(), minNearLoad, maxNearLoad)
		within("skew", s.Balance.Skew, 0, maxNearSkew)
		within("cost", s.MeanCost(), 1, math.Max(1, float64(s.Burst)/4))
		if s.Load.Arrivals == "gamma" {
			within("cv", s.Load.CV, minCV, maxCV)
		}
		if d := s.Load.Patience; d > 0 {
			within("patience", d.Seconds(), minPatience, maxPatience)
		}
		if o := s.Balance.OnOff; o != nil {
			within("period", o.Period.Seconds(), minTurn, maxTurn)
			within("part of it", o.On.Seconds()/o.Period.Seconds(), 1/processes, mostOn)
			if o.Together || s.Balance.By != "own" || o.On < time.Millisecond {
				t.Errorf("%s: processes are not on in turn\n%s", s.Name, s.Text())
			}
		}
		if s.Load.Clients != nil || s.Load.Flash != nil || s.Faults != nil || s.Redis.Lost > 0 ||
			s.Balance.Moves > 0 || s.KeySkew > 0 {
			t.Errorf("%s is none of this class\n%s", s.Name, s.Text())
		}
	}
}

// Kinds of scenes come as often as the probabilities say: to within four standard deviations.
func TestNearKindsAreFrequent(t *testing.T) {
	for _, c := range []struct {
		name string
		is   func(*Scene) bool
		want float64
	}{
		{"in turn", func(s *Scene) bool { return s.Balance.OnOff != nil }, 1. / 3},
		{"gamma", func(s *Scene) bool { return s.Load.Arrivals == "gamma" }, 2. / 3 * 0.4},
		{"random balance", func(s *Scene) bool { return s.Balance.By == "random" }, 2. / 3 / 2},
		{"one key", func(s *Scene) bool { return s.Keys.Number == 1 }, 0.8},
		{"no skew", func(s *Scene) bool { return s.Balance.Skew == 0 }, 0.5},
		{"waiting", func(s *Scene) bool { return s.Load.Patience > 0 }, 0.1},
		{"jitter", func(s *Scene) bool { return s.Redis.Jitter > 0 }, 1. / 3},
		{"p99", func(s *Scene) bool { return s.Redis.P99 > 0 }, 1. / 3},
		{"cost 1", func(s *Scene) bool { return s.MeanCost() == 1 }, 0.82}, // 80 %, and where the burst is small
	} {
		got, list := 0, drawn(t, Near)
		for _, s := range list {
			if c.is(s) {
				got++
			}
		}
		often(t, c.name, got, list, c.want)
	}
}
