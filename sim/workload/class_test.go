package workload

import (
	"math"
	"testing"
	"time"
)

const threeClasses = "classes: [{name: a, share: 0.5}, {name: b, share: 0.3}, {name: c, share: 0.2}]"

// Each class has its share of the requests, which are those that come without classes.
func TestClassShares(t *testing.T) {
	for name, load := range map[string]string{
		"random": "duration: 60s, balance: {skew: 1}",
		"own":    "duration: 60s, balance: {by: own, skew: 1}",
	} {
		plain := requests(t, "{"+load+"}", 1, 0)
		all := requests(t, "{"+load+", "+threeClasses+"}", 1, 0)
		if len(all) != len(plain) {
			t.Fatalf("%s: %d requests, %d without classes", name, len(all), len(plain))
		}
		var of [3]float64
		for i, q := range all {
			of[q.Class] += 1 / float64(len(all))
			q.Class = 0
			if q != plain[i] {
				t.Fatalf("%s: request %d is %+v, without classes %+v", name, i, q, plain[i])
			}
		}
		for class, want := range []float64{0.5, 0.3, 0.2} {
			if math.Abs(of[class]-want) > 0.01 {
				t.Errorf("%s: class %d has %.3f of the requests, not %v", name, class, of[class], want)
			}
		}
	}
}

// A class that comes and goes asks while it is there, at the same rate as without, and the others
// do not ask more.
func TestClassesComeAndGo(t *testing.T) {
	all := requests(t, "{duration: 40s, limit: 1000/s, load: {offered: 1}, classes: [{name: a, share: 0.5}, "+
		"{name: b, share: 0.5, on_off: {on: 1s, period: 4s}}]}", 1, 0)
	var of [2]float64
	for _, q := range all {
		of[q.Class]++
		if on := (q.At + 2*time.Second) % (4 * time.Second); q.Class == 1 && on >= time.Second {
			t.Fatalf("class b asks at %v", q.At)
		}
	}
	if math.Abs(of[0]-20_000) > 600 || math.Abs(of[1]-5000) > 300 {
		t.Errorf("%v requests of both classes, not 20000 and 5000", of)
	}
}

// Apart, each class has busy processes of its own, however processes get their requests.
func TestClassesApart(t *testing.T) {
	for _, by := range []string{"random", "own"} {
		all := requests(t, "{duration: 40s, processes: 4, balance: {by: "+by+", skew: 2, apart: true}, "+
			"classes: [{name: a, share: 0.8}, {name: b, share: 0.2}]}", 1, 0)
		var of [2][4]float64
		var sum [2]float64
		for _, q := range all {
			of[q.Class][q.Process]++
			sum[q.Class]++
		}
		weights := Zipf(4, 2)
		for class := range of {
			if share := []float64{0.8, 0.2}[class]; math.Abs(sum[class]/80_000-share) > 0.01 {
				t.Errorf("%s: class %d has %v of 80000 requests", by, class, sum[class])
			}
			for p, n := range of[class] {
				if want := weights[(p+2*class)%4]; math.Abs(n/sum[class]-want) > 0.02 {
					t.Errorf("%s: process %d has %.3f of class %d, not %.3f", by, p, n/sum[class], class, want)
				}
			}
		}
	}
}
