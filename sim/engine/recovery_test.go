package engine

import (
	"testing"
)

// TestRecovers: once a fault is over for a few seconds, a key costs and admits what it does without.
// Its leases may hold a tenth of a second's Rate less as the measuring begins.
func TestRecovers(t *testing.T) {
	const plays = 5
	played := func(fault string) (calls, admitted float64) {
		s := read(t, "limit: 1000/s\nduration: 17s\nwarmup: 12s\nload: {offered: 2}\n"+
			"balance: {by: random, skew: 1}\nredis: {latency: 1ms, timeout: 50ms}\n"+
			"faults: ["+fault+"]\n")
		for i := range plays {
			r := play(t, s, i)
			calls += float64(r.Calls)
			admitted += r.TokensAdmitted
		}
		return calls, admitted
	}
	calls, admitted := played("")
	for _, fault := range []string{
		"{at: 8s, kind: outage, for: 300ms}", "{at: 8s, kind: outage, for: 900ms}",
		"{at: 8s, kind: outage, for: 2s}", "{at: 8s, kind: partition, process: 0, for: 1s}",
		"{at: 8s, kind: crash, process: all, for: 500ms}", "{at: 8s, kind: flush}",
		"{at: 8s, kind: deploy, every: 200ms, for: 100ms}",
	} {
		t.Run(fault, func(t *testing.T) {
			c, a := played(fault)
			t.Logf("%.2f times the calls, %.4f times the tokens", c/calls, a/admitted)
			if c > 1.5*calls || a < 0.98*admitted {
				t.Errorf("%v calls, %v tokens; without %v, %v", c, a, calls, admitted)
			}
		})
	}
}

// TestExcusedInTheWarmUp: Excess counts the warm-up, and so does what excuses it.
func TestExcusedInTheWarmUp(t *testing.T) {
	for faults, want := range map[string]bool{"": false, "{at: 2s, kind: outage, for: 2s}": true} {
		r := play(t, read(t, "limit: 1000/s\nduration: 6s\nwarmup: 5s\nload: {offered: 2}\nfaults: ["+faults+"]\n"), 0)
		if r.Excused != want || r.ByOutage != 0 || (r.Excess > r.ExcessAllowed) != want {
			t.Errorf("faults %q: %v of %v, excused %v", faults, r.Excess, r.ExcessAllowed, r.Excused)
		}
	}
}
