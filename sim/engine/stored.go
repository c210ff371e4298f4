package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// RunStored is RunWatched, and tells what Redis has at the end: of each key that it keeps, the
// number of holders on record.
func RunStored(
	ctx context.Context, s *scenario.Scenario, seed uint64, replication int, played *atomic.Int64,
) (r *Result, holders []int, err error) {
	e, err := newEngine(s, seed, replication, 0, nil)
	if err != nil {
		return nil, nil, err
	}
	e.played = played
	r, err = e.play(ctx)
	for _, k := range present(e.keys) {
		if n, kept := k.stored(e.now); kept {
			holders = append(holders, n)
		}
	}
	return r, holders, err
}

// stored returns how many holders the record of a bucket has, and whether Redis still keeps
// it. Its time to live is that in which the bucket fills, the longest lease ends, and a second
// passes, and up to a quarter of all that more (lua/exchange.lua, lifetime): half of it here.
func (k *key) stored(now time.Duration) (holders int, kept bool) {
	v := k.ledger.View()
	if v.Limit.Rate == 0 { // it has not been asked
		return 0, false
	}
	longest := 0.0
	for _, h := range v.Holders {
		longest = max(longest, h.At+h.Life-v.At)
	}
	life := float64((float64(v.Limit.Burst)-v.Pool)/v.Limit.Rate*1e6) + longest + 1e6
	return len(v.Holders), float64(now/time.Microsecond) < v.At+float64(life*9/8)
}
