package hybrid_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestShareOfSparseKeys: in an outage a key that is asked for every few seconds has what its
// part of the rate has brought meanwhile, and so has one that nobody has asked for before,
// though no entry lives so long. A full table changes nothing.
func TestShareOfSparseKeys(t *testing.T) {
	long(t)
	for _, maxKeys := range []int{0, 2} {
		t.Run(fmt.Sprint("MaxKeys ", maxKeys), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{Limit: hybrid.PerSecond(5), Timeout: 50 * time.Millisecond, MaxKeys: maxKeys}
				all := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
				ask := func(key string) (admitted int) {
					for _, l := range all {
						if l.Allow(key) {
							admitted++
						}
					}
					return admitted
				}
				busy := func(d time.Duration) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
						ask("busy")
						ask("busy too")
					}
				}
				for range 4 {
					busy(5 * time.Second)
					ask("sparse")
				}
				store.cut.Store(true)
				busy(5 * time.Second)
				sparse, new := 0, 0
				for i := range 120 {
					sparse += ask("sparse")
					new += ask(fmt.Sprint("new", i))
					busy(5 * time.Second)
				}
				if sparse < 240 || new < 240 {
					t.Errorf("%d of 240 admitted of a sparse key, %d of 240 of new ones", sparse, new)
				}
			})
		})
	}
}
