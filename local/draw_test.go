package local_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// cold returns an entry that has a lease, and no pockets.
func cold(t *testing.T, key string) *local.Entry {
	e := newTable(64).Open(0, key, million)
	begin(t, e, tenThousand)
	return e
}

// drawing returns a goroutine's requests for one token each of several entries: they tell whether
// all were taken, by TakeAll or by a Several.
func drawing(d *local.Dispatch) func(now time.Duration, entries ...*local.Entry) bool {
	return func(now time.Duration, entries ...*local.Entry) bool {
		var draws []local.Draw
		for _, e := range entries {
			draws = append(draws, local.DrawOf(e))
		}
		if admitted, ok := local.TakeAll(now, draws); ok {
			return admitted
		}
		var parts []*local.Part
		for i, e := range entries {
			p := &local.Part{Entry: e, N: 1}
			p.Bare(&draws[i])
			parts = append(parts, p)
		}
		s := local.NewSeveral(parts)
		defer s.End(now)
		return s.Take(now, d, false) == local.Decided && s.Allowed()
	}
}

// TestDrawColdAndHot: requests for a hot key and for two others, in any order and beside others for
// each, have taken a token of all three, or none of those that are not hot.
func TestDrawColdAndHot(t *testing.T) {
	all := []*local.Entry{hot(t, tenThousand), cold(t, "plenty"), cold(t, "scarce")}
	var before, got [3]float64
	for i, e := range all {
		before[i] = e.Lease(0).Tokens
	}
	for all[2].Lease(0).Tokens > 3000 {
		all[2].Take(0, 1000, 0, false)
	}
	before[2] = all[2].Lease(0).Tokens
	var admitted, scarce atomic.Int64
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			ask := drawing(local.Sharing(local.NewShares(), 100, 2))
			for i := range 2000 {
				now := time.Duration(i) * 200 * time.Microsecond // too slow for pockets
				three := slices.Clone(all)
				random.Shuffle(3, func(i, j int) { three[i], three[j] = three[j], three[i] })
				if ask(now, three...) {
					admitted.Add(1)
				}
				if i%5 == 0 && all[2].Take(now, 1, 0, false).Verdict == lease.Admitted {
					scarce.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i, e := range all {
		got[i] = before[i] - e.Lease(0).Tokens
	}
	n := float64(admitted.Load())
	if got[0] < n || got[1] != n || got[2] != n+float64(scarce.Load()) || n < 1500 {
		t.Errorf("%v admitted, %v were taken, %d of the last one alone", n, got, scarce.Load())
	}
}
