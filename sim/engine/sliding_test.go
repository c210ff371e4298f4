package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Whatever befalls a fleet, no window admits more than the limit, wherever it begins, by a list
// of the verdicts alone, and every token is accounted for.
func TestSlidingWindowsAreKept(t *testing.T) {
	for seed := range longform.Of[uint64](10, 30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := drawWindow(t, rand.New(rand.NewPCG(seed, 14)), "%s in any %ss # UTC%s\n")
			e := start(t, s, int(seed))
			type spent struct {
				at     time.Duration
				tokens float64
			}
			admitted := map[int][]spent{} // by key
			e.witness = func(h happening) {
				if h.what == settled && h.verdict == lease.Admitted && !h.byOutage {
					admitted[h.Key] = append(admitted[h.Key], spent{h.at, float64(h.Cost)})
				}
			}
			simtest.OK(t, e.run(t.Context()))
			r := e.result()
			for key, list := range admitted {
				first, sum := 0, 0.0
				for _, x := range list {
					for sum += x.tokens; list[first].at <= x.at-s.Limit.Window; first++ {
						sum -= list[first].tokens
					}
					if sum > float64(s.Limit.Burst) {
						t.Fatalf("key %d: %v tokens until %v\n%s", key, sum, x.at, s.Text())
					}
				}
			}
			if r.ExcessDebited > 0 || r.Excess > 0 && r.ByOutage == 0 || len(admitted) == 0 {
				t.Errorf("excess %v, %v at the debit, of %d keys\n%s", r.Excess, r.ExcessDebited,
					len(admitted), s.Text())
			}
			checkTokens(t, s, r)
			most := float64(s.Limit.Burst * int64(s.Keys.Number))
			if k := r.Tokens; k.Supply < k.Admitted || k.Left > most {
				t.Errorf("of %v tokens %v are left", k.Supply, k.Left)
			}
		})
	}
}

// A limit is raised, or lowered for a while: what was spent counts until its window is over, and
// the windows after that have what the new one says.
func TestSlidingChanges(t *testing.T) {
	for _, c := range []struct {
		faults string
		last   float64
	}{
		{"[{kind: limit, at: 7s, limit: 2000 in any 5s}]", 2000},
		{"[{kind: limit, at: 6s, limit: 200 in any 5s}, " +
			"{kind: limit, at: 13s, limit: 1500 in any 5s}]", 1500},
	} {
		s := read(t, "{duration: 90s, warmup: 2s, limit: 1000 in any 5s, load: {rate: 600/s}, "+
			"faults: "+c.faults+"}")
		e, last := start(t, s, 0), 0.0
		e.witness = func(h happening) {
			if h.what == settled && h.verdict == lease.Admitted && h.at >= 60*time.Second {
				last += float64(h.Cost) / 6
			}
		}
		simtest.OK(t, e.run(t.Context()))
		r := e.result()
		if r.Excess > 0 {
			t.Errorf("%s: %v tokens above what was permitted", c.faults, r.Excess)
		}
		if last > c.last || last < 0.96*c.last {
			t.Errorf("%s: %v of %v tokens in a late window", c.faults, last, c.last)
		}
		checkTokens(t, s, r)
	}
}
