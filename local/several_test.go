package local

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSeveralLocksInOrder: requests for many keys, named in any order, of which each takes
// all locks, do not wait for each other for ever.
func TestSeveralLocksInOrder(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	var all []*Entry
	for i := range 8 {
		key := string(rune('a' + i))
		limit := lease.Limit{Rate: 1000, Burst: 1000}
		all = append(all, NewEntry(0, key, lease.NewHolder("h"+key, limit, &lease.Policy{}, 1), limit, time.Second))
	}
	var done sync.WaitGroup
	for g := range 8 {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				var parts []*Part
				for _, i := range random.Perm(len(all))[:3] {
					parts = append(parts, &Part{Entry: all[i], N: 1})
				}
				s := NewSeveral(parts)
				s.Take(0, d, false)
				s.End(0)
			}
		})
	}
	done.Wait()
}
