package measure

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// What is owed to floors comes first, then the rest by weight, then what is left by rank.
func TestByClass(t *testing.T) {
	classes := []lease.Class{{Name: "a", Floor: 0.5}, {Name: "b", Floor: 0.2, Weight: 2}, {Name: "c", Weight: 1}}
	for _, c := range []struct {
		name               string
		demand, owed, want [3]float64
		supply             float64
	}{
		{"enough for all", [3]float64{3, 4, 5}, [3]float64{3, 2}, [3]float64{3, 4, 5}, 12},
		{"nothing", [3]float64{3, 4, 5}, [3]float64{3, 2}, [3]float64{}, 0},
		{"floors first", [3]float64{50, 50, 50}, [3]float64{50, 20}, [3]float64{50, 40, 10}, 100},
		{"b wants less", [3]float64{90, 25, 50}, [3]float64{50, 20}, [3]float64{50, 25, 25}, 100},
		{"by rank", [3]float64{90, 10, 10}, [3]float64{50, 10}, [3]float64{80, 10, 10}, 100},
		{"a class alone", [3]float64{90, 0, 0}, [3]float64{50, 20}, [3]float64{90, 0, 0}, 100},
		{"owed from before", [3]float64{10, 0, 90}, [3]float64{50, 0}, [3]float64{10, 0, 90}, 100},
	} {
		got := ByClass(nil, classes, c.demand[:], c.owed[:], c.supply)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
				break
			}
		}
	}
}

// A floor is its part of the Rate, with what flows in a refresh, and always a request.
func TestFloor(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 1000}
	if Floor(0, lease.Class{Name: "b", Weight: 1}, limit, time.Second/4, 1, 0) != nil {
		t.Error("a class without a floor has one")
	}
	class := lease.Class{Name: "a", Floor: 0.4}
	floor := Floor(0, class, limit, time.Second/4, 1, 0)
	take := func(at time.Duration) (n int) {
		for floor.Take(at, 1, 0) {
			n++
		}
		return n
	}
	if n := take(0); n != 10 {
		t.Errorf("%d at first, not what flows in a refresh", n)
	}
	if n := take(time.Second / 5); n != 8 {
		t.Errorf("%d in the next 200 ms", n)
	}
	limit.Rate = 50
	SetFloor(floor, time.Second/5, class, limit, time.Second/4, 1)
	if n := take(2 * time.Second / 5); n != 4 {
		t.Errorf("%d in 200 ms of half the rate", n)
	}
	if large := Floor(0, class, limit, time.Second/4, 30, 0); !large.Take(0, 30, 0) {
		t.Error("a large request is never within the floor")
	}
}
