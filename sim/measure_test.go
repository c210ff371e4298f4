package main

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// Two processes, a limit of 10/s and 2, worked out by hand.
func TestMeasureKnownRun(t *testing.T) {
	ms := time.Millisecond
	drivers := []*driver{
		{
			arrivals: []arrival{{0, 0, 1}, {10 * ms, 0, 1}, {20 * ms, 0, 5}, {30 * ms, 0, 1}},
			answers: []answer{
				{admitted, 0, 1 * ms}, {admitted, 11 * ms, 12 * ms}, {refused, 20 * ms, 20 * ms}, {},
			},
		}, {
			arrivals: []arrival{{5 * ms, 0, 1}, {300 * ms, 0, 2}},
			answers:  []answer{{admitted, 5 * ms, 6 * ms}, {unknown, 304 * ms, 554 * ms}},
		},
	}
	f := measure(drivers, 1, hybrid.PerSecond(10).WithBurst(2), 250*ms)
	f.charge(traffic{calls: 2}, 1)
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"requests", float64(f.Requests), 5}, // one was not fired
		{"admitted", float64(f.Admitted), 3},
		{"above burst", float64(f.AboveBurst), 1},
		{"no verdict", float64(f.NoVerdict), 1},
		// The ideal bucket admits at 0 and 5 ms, not at 11, and at 304 ms
		// it is full again.
		{"ideal", float64(f.Ideal), 3},
		{"tokens offered", f.TokensOffered, 5},
		{"tokens ideal", f.TokensIdeal, 4},
		{"utilisation", f.Utilisation, 3.0 / 4},
		{"acceptance", f.Acceptance, 3.0 / 5},
		{"Jain accepted", f.JainAccepted, jain([]float64{2.0 / 2, 1.0 / 3})},
		{"Jain ideal", f.JainIdeal, jain([]float64{2.0 / 1, 1.0 / 3})},
		// Three tokens in the window from 1 to 12 ms.
		{"excess", f.Excess, 3 - 10*0.011 - 2},
		{"slack", f.Slack, 2.5},
		{"late", f.LateMax, 0.004},
		{"calls per request", f.CallsPerRequest, 2.0 / 4},
		{"trips saved", f.TripsSaved, 3.0 / 4},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestMeasureOfNothing(t *testing.T) {
	f := measure([]*driver{{}}, 1, hybrid.PerSecond(10), time.Second)
	f.charge(traffic{}, 0)
	if f.Excess != -10 || f.Utilisation != 0 || f.JainIdeal != 1 {
		t.Errorf("%+v", f)
	}
}
