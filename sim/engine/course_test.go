package engine

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/simtest"
	"github.com/seed13b07268/ration/sim/workload"
)

// A run takes the course that it is told: its requests, its round trips, and when processes wake.
func TestCourse(t *testing.T) {
	s := read(t, "{duration: 10s, limit: 100/s, redis: {latency: 1ms, timeout: 1s}}")
	again := func(c Course) *Result {
		r, err := RunAgain(t.Context(), s, seed, 0, 0, c)
		simtest.OK(t, err)
		return r
	}
	plain := again(Course{})

	left := 1000
	r := again(Course{Requests: func(q *workload.Request) bool {
		left--
		*q = workload.Request{At: time.Duration(1000-left) * time.Millisecond, Cost: 1}
		return left >= 0
	}})
	if r.Requests != 1000 || r.Processes[0].Offered != 1000 {
		t.Errorf("%d requests, %v of them for the first process", r.Requests, r.Processes[0].Offered)
	}
	constant := func(d time.Duration) func(time.Duration) time.Duration {
		return func(time.Duration) time.Duration { return d }
	}
	if r := again(Course{Trip: constant(70 * time.Millisecond)}); r.LatencyP999 < 0.07 {
		t.Errorf("the longest decision took %v s", r.LatencyP999)
	}
	r = again(Course{Late: constant(100 * time.Millisecond)})
	if r.CallsAhead > plain.CallsAhead*9/10 {
		t.Errorf("%d calls ahead of need, and %d of processes that wake in time", r.CallsAhead,
			plain.CallsAhead)
	}
}

// Requests that come while a flight gathers leave with it.
func TestGather(t *testing.T) {
	s := read(t, "{duration: 2s, processes: 1, limit: 1000/s, policy: {mode: per-request}, "+
		"redis: {latency: 1ms, timeout: 1s}}")
	for _, c := range []struct {
		apart, gather time.Duration
		together      int64
	}{{0, 0, 2}, {10 * time.Microsecond, 20 * time.Microsecond, 2}, {10 * time.Microsecond, 0, 1}} {
		n := 0
		r, err := RunAgain(t.Context(), s, seed, 0, 0, Course{
			Gather: c.gather,
			Requests: func(q *workload.Request) bool { // two at a time
				at := time.Duration(n/2)*10*time.Millisecond + time.Duration(n%2)*c.apart
				*q = workload.Request{At: at, Cost: 1}
				n++
				return true
			},
		})
		simtest.OK(t, err)
		if census := r.Calls - r.Requests/c.together; census < 1 || census > 3 {
			t.Errorf("%v apart, gathered for %v: %d calls for %d requests", c.apart, c.gather, r.Calls,
				r.Requests)
		}
	}
}
