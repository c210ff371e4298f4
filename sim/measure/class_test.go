package measure

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
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

// TestFlooredIsAQuota: for a class beside which there are no floors it is the ideal quota, whatever
// a request costs, and however long callers wait.
func TestFlooredIsAQuota(t *testing.T) {
	classes := []lease.Class{{Name: "a", Floor: 0.3}, {Name: "b"}}
	limit := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: 10 * time.Second}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		patience := time.Duration(rng.IntN(4)) * 8 * time.Second
		f := NewFloored(0, classes, limit, patience)
		q, _ := ideal.Of(0, limit, patience)
		admitted, denied := 0, 0
		for at := time.Duration(0); at < 2*time.Minute; at += time.Duration(rng.Int64N(int64(time.Second))) {
			n := float64(1 + rng.IntN(40))
			if got, want := f.Take(at, n, 0), q.Take(at, n, 0); got != want {
				t.Fatalf("seed %d, at %v: %v tokens are admitted: %v", seed, at, n, got)
			} else if got {
				admitted++
			} else {
				denied++
			}
			if rng.IntN(50) == 0 {
				level := float64(rng.IntN(100))
				f.Level(at, level, nil)
				q.Level(at, level, nil)
			}
			if f.Spilt(at) != q.Spilt(at) || f.Tokens(at) != max(q.Tokens(at), 0) {
				t.Fatalf("seed %d, at %v: %v left, %v spilt, not %v and %v", seed, at, f.Tokens(at),
					f.Spilt(at), q.Tokens(at), q.Spilt(at))
			}
		}
		if admitted < 20 || denied < 20 {
			t.Errorf("seed %d: %d admitted, %d denied: this shows little", seed, admitted, denied)
		}
	}
}

// TestFloored holds the ideal quota with classes against a count of what a class has used, and of
// what is kept of each floor.
func TestFloored(t *testing.T) {
	classes := []lease.Class{{Name: "a", Floor: 0.3}, {Name: "b", Floor: 0.29}, {Name: "c"}}
	limit := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: 10 * time.Second}
	floors := [3]float64{30, 29}
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		f := NewFloored(0, classes, limit, 0)
		var used [3]float64
		window, admitted, denied := int64(-1), 0, 0
		for at := time.Duration(0); at < time.Minute; at += time.Duration(rng.Int64N(int64(100 * time.Millisecond))) {
			if w := int64(at / limit.Window); w != window {
				window, used = w, [3]float64{}
			}
			class := rng.IntN(3)
			left := 100.0
			for c := range used {
				if left -= used[c]; c != class {
					left -= max(floors[c]-used[c], 0)
				}
			}
			f.Class = uint8(class)
			n := float64(1 + seed%2*uint64(rng.IntN(20)))
			if fits := f.Fits(at, n); fits != (left >= n) || f.Take(at, n, 0) != fits {
				t.Fatalf("seed %d, at %v: %v of class %d fit: %v, with %v left for it", seed, at, n, class, fits, left)
			} else if fits {
				used[class] += n
				admitted++
			} else {
				denied++
			}
			if got, want := f.Tokens(at), 100-used[0]-used[1]-used[2]; got != want {
				t.Fatalf("seed %d, at %v: %v tokens are left, not %v", seed, at, got, want)
			}
		}
		if admitted < 50 || denied < 50 {
			t.Errorf("seed %d: %d admitted, %d denied: this shows little", seed, admitted, denied)
		}
		f.Level(time.Minute, 10, nil)
		if f.Class = 2; f.Fits(time.Minute, 1) || f.Tokens(time.Minute) != 10 {
			t.Errorf("10 tokens are less than floors need, and %v are left", f.Tokens(time.Minute))
		}
		f.Level(time.Minute, 80, nil)
		if got := f.Tokens(time.Minute); got != 80 {
			t.Errorf("%v tokens are left, not 80", got)
		}
		f.SetLimit(time.Minute, lease.Limit{Kind: lease.KindQuota, Burst: 50, Window: 10 * time.Second})
		if f.Class = 2; f.Fits(time.Minute, 2) || !f.Take(time.Minute, 1, 0) {
			t.Errorf("of a quota of 50, of which 20 are used, floors of 15 and 14 leave 1: %v", f.Tokens(time.Minute))
		}
	}
}
