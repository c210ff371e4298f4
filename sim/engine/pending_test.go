package engine

import (
	"math"
	"testing"
)

// TestUnderWayIsNotDenied: requests of which the verdict is still under way when measuring ends
// are held against nobody.
func TestUnderWayIsNotDenied(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"a far store, and a warm-up", "{duration: 3s, warmup: 1s, processes: 4, limit: 100/s, keys: 200, load: {rate: 300/s}, " +
			"policy: {mode: per-request}, redis: {latency: 100ms, timeout: 1s}}"},
		{"a far store", "{duration: 1s, processes: 4, limit: 100/s, keys: 200, load: {rate: 300/s}, " +
			"policy: {mode: per-request}, redis: {latency: 100ms, timeout: 1s}}"},
		{"keys that are new", "{duration: 1s, warmup: 90ms, processes: 4, limit: 1/s, burst: 1, keys: 20000, " +
			"load: {rate: 100/s}, policy: {mode: per-request}, redis: {latency: 100ms, timeout: 1s}}"},
		{"callers who wait", "{duration: 1s, processes: 4, limit: 100/s, keys: 200, " +
			"load: {rate: 300/s, patience: 2s}, redis: {latency: 100ms, timeout: 1s}}"},
		{"several limits", "{duration: 3s, warmup: 1s, processes: 4, load: {rate: 300/s}, " +
			"keys: [{name: a, limit: 100/s, number: 200}, {name: b, limit: 1000/s}], " +
			"redis: {latency: 100ms, timeout: 1s}}"},
		{"jobs", "{duration: 3s, warmup: 1s, processes: 4, limit: 100 slots, keys: 200, load: {rate: 300/s}, " +
			"redis: {latency: 100ms, timeout: 1s}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := play(t, read(t, c.text), 0)
			if r.Denied != 0 || r.Pending == 0 || r.Admitted == 0 {
				t.Fatalf("%d denied, %d pending, %d admitted: another scene is wanted",
					r.Denied, r.Pending, r.Admitted)
			}
			all := func(name string, part float64) {
				t.Helper()
				if math.Abs(part-1) > 1e-9 {
					t.Errorf("nobody was denied, but %s is %v", name, part)
				}
			}
			all("utilisation", r.Utilisation)
			all("fairness over keys", r.Keys.Fairness)
			all("the worst key", r.Keys.Worst)
			if c.name != "callers who wait" { // of whom some wait while others are served
				all("fairness", r.Fairness)
				all("the worst process", r.WorstShare)
			}
			if r.IdealAdmitted != r.Admitted || r.IdealDenied != 0 {
				t.Errorf("an ideal limit admits %d and denies %d; the fleet admits %d",
					r.IdealAdmitted, r.IdealDenied, r.Admitted)
			}
		})
	}
}

// TestFarIsNotAboveIdeal: where each request is a round trip, and more is wanted than there is,
// what is under way as measuring begins and ends makes no tokens and hides none.
func TestFarIsNotAboveIdeal(t *testing.T) {
	s := read(t, "{duration: 25s, warmup: 5s, processes: 10, limit: 1000/s, burst: 300, load: {offered: 1.5}, "+
		"policy: {mode: per-request}, redis: {latency: 100ms, timeout: 1s}}")
	const seeds = 5
	sum := 0.0
	for seed := range seeds {
		sum += play(t, s, seed).Utilisation
	}
	if mean := sum / seeds; mean < 0.997 || mean > 1 {
		t.Errorf("utilisation %v", mean)
	}
}

// TestPatientIsNotAboveIdeal: callers who wait as measuring begins have what they take of the
// window to come: an ideal limit that had it anew would admit a window more than there is.
func TestPatientIsNotAboveIdeal(t *testing.T) {
	const classes = ", classes: [{name: a, floor: 0.3}, {name: b, floor: 0.3}, {name: c}]"
	for _, warmup := range []string{"2s", "3s", "3500ms"} {
		for _, classes := range []string{"", classes} {
			s := read(t, "{duration: 13s, warmup: "+warmup+", processes: 10, limit: quota 1000/2s, "+
				"load: {offered: 2, patience: 1.5s}"+classes+"}")
			r := play(t, s, 0)
			if most := 1000 * (13 - s.Warmup.Seconds() + 2) / 2; r.TokensIdeal > most || r.Utilisation < 0.95 || r.Utilisation > 1.001 {
				t.Errorf("%s%s: an ideal limit admits %v of %v, utilisation %v", warmup, classes, r.TokensIdeal, most, r.Utilisation)
			}
			for _, c := range r.Classes {
				if c.Fair < c.Within-20 {
					t.Errorf("%s: %v of %s are fair, and %v within its floor", warmup, c.Fair, c.Name, c.Within)
				}
			}
		}
	}
}

// TestQueueIsNotAboveIdeal: what callers who wait as measuring begins take of the time to come is
// there for nobody else. An ideal limit that served only those whom it had admitted itself, and
// denied others meanwhile, would admit a tenth more than there is.
func TestQueueIsNotAboveIdeal(t *testing.T) {
	r := play(t, read(t, "{duration: 40s, warmup: 10s, processes: 10, limit: 1000/s, burst: 1000, "+
		"load: {offered: 3, patience: 5s}}"), 0)
	if most := 1000*30*1.01 + 1000; r.TokensIdeal > most || r.Utilisation < 0.99 {
		t.Errorf("an ideal limit admits %v of at most %v, utilisation %v", r.TokensIdeal, most, r.Utilisation)
	}
}
