package engine

import (
	"slices"
	"testing"
)

// TestRecovers: once a fault is over for a few seconds, a key costs and admits what it does without.
// Its leases may hold a tenth of a second's Rate less as the measuring begins. After an outage of 2 s
// tokens are lost in one play of ten, as nobody's demand is known, and denials come a second later:
// caution then makes the play three to six times as dear, and so the mean of 40 plays 1.6 of it.
func TestRecovers(t *testing.T) {
	const plays = 40
	played := func(fault string) (calls []int64, sum int64, admitted float64) {
		s := read(t, "limit: 1000/s\nduration: 17s\nwarmup: 12s\nload: {offered: 2}\n"+
			"balance: {by: random, skew: 1}\nredis: {latency: 1ms, timeout: 50ms}\n"+
			"faults: ["+fault+"]\n")
		for i := range plays {
			r := play(t, s, i)
			calls = append(calls, r.Calls)
			sum += r.Calls
			admitted += r.TokensAdmitted
		}
		slices.Sort(calls)
		return calls, sum, admitted
	}
	calls, sum, admitted := played("")
	for _, c := range []struct {
		fault        string
		mean, median float64 // times the calls at most
	}{
		{"{at: 8s, kind: outage, for: 300ms}", 1.2, 1.2}, {"{at: 8s, kind: outage, for: 900ms}", 1.2, 1.2},
		{"{at: 8s, kind: outage, for: 2s}", 1.8, 1.4}, {"{at: 8s, kind: partition, process: 0, for: 1s}", 1.2, 1.2},
		{"{at: 8s, kind: crash, process: all, for: 500ms}", 1.2, 1.2}, {"{at: 8s, kind: flush}", 1.2, 1.2},
		{"{at: 8s, kind: deploy, every: 200ms, for: 100ms}", 1.2, 1.2},
	} {
		t.Run(c.fault, func(t *testing.T) {
			all, s, a := played(c.fault)
			mean, median := float64(s)/float64(sum), float64(all[plays/2])/float64(calls[plays/2])
			t.Logf("%.2f times the calls, median %.2f, %.4f times the tokens", mean, median, a/admitted)
			if mean > c.mean || median > c.median || a < 0.98*admitted {
				t.Errorf("at most %v times, median %v, and 0.98 are wanted", c.mean, c.median)
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
