package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

// TestQuotasAreKept: no window of a quota admits more than there is in it, whatever befalls a
// fleet, by a count of the verdicts alone, and every token is accounted for. The windows are
// those of a clock that divides, not of package measure.
func TestQuotasAreKept(t *testing.T) {
	for seed := range longform.Of[uint64](10, 30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := drawWindow(t, rand.New(rand.NewPCG(seed, 14)), "quota %s/%ss UTC%s")
			e := start(t, s, int(seed))
			admitted := map[[2]int]float64{} // by key and window
			outage := false                  // a policy has admitted something, in the warm-up or after it
			e.witness = func(h happening) {
				if h.what != settled || h.verdict != lease.Admitted {
					return
				}
				outage = outage || h.byOutage
				if !h.byOutage {
					window := (h.at + 60480*time.Second + s.Limit.Offset) / s.Limit.Window
					admitted[[2]int{h.Key, int(window)}] += float64(h.Cost)
				}
			}
			simtest.OK(t, e.run(t.Context()))
			r := e.result()
			for at, n := range admitted {
				if n > float64(s.Limit.Burst) {
					t.Errorf("key %d: %v tokens in window %d\n%s", at[0], n, at[1], s.Text())
				}
			}
			if r.ExcessDebited > 0 || r.Excess > 0 && !outage || len(admitted) < 3 {
				t.Errorf("excess %v, %v at the debit, in %d windows\n%s", r.Excess, r.ExcessDebited,
					len(admitted), s.Text())
			}
			checkTokens(t, s, r)
		})
	}
}

// drawWindow draws a scene with windows of some seconds: limit has a number, the seconds, and an
// offset.
func drawWindow(t *testing.T, r *rand.Rand, limit string) *scenario.Scenario {
	one := func(of ...string) string { return of[r.IntN(len(of))] }
	return read(t, fmt.Sprintf(`{duration: 21s, warmup: 1500ms, processes: %d, keys: %s,
		limit: `+limit+`, load: {offered: %s, %s}, balance: {skew: %s},
		redis: {latency: %s, timeout: 60ms, %s}, policy: {mode: %s}, faults: %s}`,
		2+r.IntN(20), one("1", "1", "3"), one("7", "100", "3000"), one("1", "2", "3", "5", "7"),
		one("+00:00", "-00:01", "+05:30"), one("0.5", "1", "3"),
		one("cost: 1", "costs: [1, 1, 7]", "patience: 2s", "retry: {times: 2}"), one("0", "1.5"),
		one("1ms", "20ms"), one("lost: 0", "lost: 0.05", "repeated: 0.1", "jitter: 0.5"),
		one("auto", "auto", "batches", "shares", "per-request"),
		one("[]", "[]", "[{kind: crash, at: 1s, every: 900ms, for: 300ms}]",
			"[{kind: leave, at: 1s, every: 900ms, for: 300ms}]", "[{kind: outage, at: 5s, for: 3s}]",
			"[{kind: partition, at: 5s, for: 3s, every: 7s}]")))
}

// A quota is raised and lowered within a window: what was used stays used, none of it is
// lost without a name, and the windows after that have what the new one says.
func TestQuotaChanges(t *testing.T) {
	for _, c := range []struct {
		faults string
		last   float64
	}{
		{"[{kind: limit, at: 7s, limit: quota 2000/5s}]", 2000},
		{"[{kind: limit, at: 7s, limit: quota 200/5s}]", 200},
		{"[{kind: limit, at: 6s, limit: quota 200/5s}, {kind: limit, at: 13s, limit: quota 1500/5s}]",
			1500},
	} {
		s := read(t,
			"{duration: 50s, warmup: 2s, limit: quota 1000/5s, load: {rate: 600/s}, faults: "+c.faults+"}")
		e, last := start(t, s, 0), 0.0
		e.witness = func(h happening) {
			if h.what == settled && h.verdict == lease.Admitted && h.at >= 40*time.Second &&
				h.at < 45*time.Second {
				last += float64(h.Cost)
			}
		}
		simtest.OK(t, e.run(t.Context()))
		r := e.result()
		if r.Excess > 0 {
			t.Errorf("%s: %v tokens above what was permitted", c.faults, r.Excess)
		}
		if last > c.last || last < 0.995*c.last {
			t.Errorf("%s: %v of %v tokens in the last window", c.faults, last, c.last)
		}
		checkTokens(t, s, r)
	}
}
