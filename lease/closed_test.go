package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestQueuesAreDemand: a process whose callers all wait sends no new requests.
// Its queue is its demand, so that it is served like another one with as many
// callers, whoever began first.
func TestQueuesAreDemand(t *testing.T) {
	for _, limit := range []lease.Limit{{Rate: 50, Burst: 10}, {Rate: 500, Burst: 100}, {Rate: 20, Burst: 1}, {Rate: 5000, Burst: 1000}} {
		for mode := lease.Auto; mode <= lease.PerRequest; mode++ {
			if limit.Rate > 1000 && (mode != lease.Auto || !longform.Set()) {
				continue
			}
			for _, workers := range []int{4, 64, 16}[:longform.Of(2, 3)] {
				t.Run(fmt.Sprint(limit, " ", mode, " ", workers), func(t *testing.T) {
					testQueuesAreDemand(t, limit, mode, workers)
				})
			}
		}
	}
}

func testQueuesAreDemand(t *testing.T, limit lease.Limit, mode lease.Mode, workers int) {
	f := fleet{
		limit: limit, policy: lease.Policy{Mode: mode}, procs: 2, workers: workers,
		think: time.Millisecond, later: 2 * time.Second,
		rtt: time.Millisecond, timeout: 50 * time.Millisecond,
	}
	const length = 30 * time.Second
	seeds := uint64(1)
	if mode == lease.Auto && limit.Rate < 100 {
		// Few tokens: chance decides at first which worker gets a token, and must not later.
		seeds = longform.Of[uint64](4, 12)
	}
	for seed := range seeds {
		s := f.begin(seed + 1)
		s.play(length)
		a, b := s.procs[0].admitted, s.procs[1].admitted
		s.play(2 * length)
		a, b = s.procs[0].admitted-a, s.procs[1].admitted-b
		t.Logf("seed %d: %v and %v admissions, %d calls", seed+1, a, b, s.calls)
		if min(a, b) < max(a, b)*0.7 {
			t.Errorf("%v and %v admissions for as many callers", a, b)
		}
		// Four workers that think and ask have no time for more.
		most := min(limit.Rate, 4000) * length.Seconds()
		if mode == lease.Auto && a+b < 0.9*most {
			t.Errorf("%v admissions of %v", a+b, most)
		}
	}
}
