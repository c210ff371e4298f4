package hybrid_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A jobShare is how many batch jobs may run at once, from 1 to most: more by one after each good
// look at the latency of what they disturb, half as many after a bad one (AIMD).
//
// The lowest share of all processes is in force. So a bad latency in one process sheds the jobs of
// all processes.
type jobShare struct {
	goal time.Duration
	most int64
	n    atomic.Int64
}

func newJobShare(goal time.Duration, most int64) *jobShare {
	s := &jobShare{goal: goal, most: most}
	s.n.Store(most)
	return s
}

// observe takes a p99, as of the last second. One goroutine calls it, from time to time.
func (s *jobShare) observe(p99 time.Duration) {
	if p99 > s.goal {
		s.n.Store(max(s.n.Load()/2, 1))
		return
	}
	s.n.Store(min(s.n.Load()+1, s.most))
}

// limit is for Config.LimitFor, which asks for it while jobs come.
func (s *jobShare) limit(string) hybrid.Limit { return hybrid.Slots(s.n.Load()) }

// Batch jobs give way when the p99 of interactive requests rises, in the whole fleet.
func Example_adaptiveShare() {
	jobShare := newJobShare(100*time.Millisecond, 8)
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: jobShare.limit})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())

	for _, p99 := range []time.Duration{40, 150, 180, 90, 60} {
		jobShare.observe(p99 * time.Millisecond)
		fmt.Println(p99*time.Millisecond, "p99:", jobShare.n.Load(), "jobs")
	}
	slot, err := limiter.Acquire(context.Background(), "batch", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println("a job runs:", slot.Context().Err() == nil, slot.Release())
	// Output:
	// 40ms p99: 8 jobs
	// 150ms p99: 4 jobs
	// 180ms p99: 2 jobs
	// 90ms p99: 3 jobs
	// 60ms p99: 4 jobs
	// a job runs: true <nil>
}
