package gauge

import (
	"math"
	"testing"
)

func TestJainKnownVectors(t *testing.T) {
	for _, c := range []struct {
		x    []float64
		want float64
	}{
		{nil, 1},
		{[]float64{0, 0}, 1},
		{[]float64{0.3, 0.3, 0.3}, 1},
		{[]float64{5, 0, 0, 0}, 0.25},
		{[]float64{1, 2, 3}, 36.0 / 42},
	} {
		if got := Jain(c.x); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("Jain(%v) = %v, want %v", c.x, got, c.want)
		}
	}
}
