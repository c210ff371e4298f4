package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
)

// TestWindowsAreKept: no window of a quota, and no sliding one wherever it begins, admits more than
// the limit, whatever befalls a fleet, by a list of the verdicts alone, and every token is accounted
// for. A quota's windows are those of a clock that divides, not of package measure.
func TestWindowsAreKept(t *testing.T) {
	for kind, limit := range map[string]string{"quota": "quota %s/%ss UTC%s", "sliding": "%s in any %ss # UTC%s\n"} {
		for seed := range longform.Of[uint64](10, 30) {
			t.Run(fmt.Sprint(kind, " ", seed), func(t *testing.T) {
				t.Parallel()
				s := drawWindow(t, rand.New(rand.NewPCG(seed, 14)), limit)
				least := 1
				window := func(time.Duration) int { return 0 }
				if kind == "quota" {
					least = 3
					window = func(at time.Duration) int {
						return int((at + 60480*time.Second + s.Limit.Offset) / s.Limit.Window)
					}
				}
				admitted := map[[2]int][]happening{} // by key and window
				outage := false                      // a policy has admitted something, in the warm-up or after it
				_, r := watch(t, s, int(seed), func(h happening) {
					if h.what != settled || h.verdict != lease.Admitted {
						return
					}
					outage = outage || h.byOutage
					if !h.byOutage {
						in := [2]int{h.Key, window(h.at)}
						admitted[in] = append(admitted[in], h)
					}
				})
				for in, list := range admitted {
					first, sum := 0, int64(0)
					for _, h := range list {
						for sum += h.Cost; list[first].at <= h.at-s.Limit.Window; first++ {
							sum -= list[first].Cost
						}
						if sum > s.Limit.Burst {
							t.Fatalf("key %d: %d tokens until %v\n%s", in[0], sum, h.at, s.Text())
						}
					}
				}
				if r.ExcessDebited > 0 || r.Excess > 0 && !outage || len(admitted) < least {
					t.Errorf("excess %v, %v at the debit, of %d keys and windows\n%s", r.Excess,
						r.ExcessDebited, len(admitted), s.Text())
				}
				checkTokens(t, s, r)
				most := float64(s.Limit.Burst * int64(s.Keys.Number))
				if k := r.Tokens; kind == "sliding" && (k.Supply < k.Admitted || k.Left > most) {
					t.Errorf("of %v tokens %v are left", k.Supply, k.Left)
				}
			})
		}
	}
}

// drawWindow draws a scene with windows of some seconds: limit has a number, the seconds, and an
// offset.
func drawWindow(t *testing.T, r *rand.Rand, limit string) *scenario.Scenario {
	one := oneOf(r)
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

// A limit of windows is raised and lowered within one, or for a while: what was spent counts until
// its window is over, none of it is lost without a name, and late windows have what the new one says.
func TestWindowsChange(t *testing.T) {
	for _, c := range []struct {
		limit, faults string
		last, least   float64 // of a window: at most, and as a part of that at least
	}{
		{"quota 1000/5s", "{kind: limit, at: 7s, limit: quota 2000/5s}", 2000, 0.995},
		{"quota 1000/5s", "{kind: limit, at: 7s, limit: quota 200/5s}", 200, 0.995},
		{"quota 1000/5s", "{kind: limit, at: 6s, limit: quota 200/5s}, {kind: limit, at: 13s, limit: quota 1500/5s}",
			1500, 0.995},
		{"1000 in any 5s", "{kind: limit, at: 7s, limit: 2000 in any 5s}", 2000, 0.96},
		{"1000 in any 5s", "{kind: limit, at: 6s, limit: 200 in any 5s}, {kind: limit, at: 13s, limit: 1500 in any 5s}",
			1500, 0.96},
	} {
		s := read(t, fmt.Sprintf("{duration: 90s, warmup: 2s, limit: %s, load: {rate: 600/s}, faults: [%s]}",
			c.limit, c.faults))
		sum := 0.0
		_, r := watch(t, s, 0, func(h happening) {
			if h.what == settled && h.verdict == lease.Admitted && h.at >= 60*time.Second {
				sum += float64(h.Cost)
			}
		})
		if r.Excess > 0 {
			t.Errorf("%s: %v tokens above what was permitted", c.faults, r.Excess)
		}
		if last := sum / 6; last > c.last || last < c.least*c.last {
			t.Errorf("%s: %v of %v tokens in a late window", c.faults, last, c.last)
		}
		checkTokens(t, s, r)
	}
}
