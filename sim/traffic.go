package main

import (
	"context"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A traffic is the requests of a log, by key, to be decided again.
type traffic struct {
	scenario *scenario.Scenario
	limit    lease.Limit
	begins   time.Duration // since 1970: quotas go by the calendar
	known    bool          // the log says what was denied
	charges  int64
	done     ideal.Fates // what the log says
}

func newTraffic(ctx context.Context, c *scenario.Scenario) (*traffic, error) {
	t := &traffic{
		scenario: c, limit: c.LimitOf(), begins: time.Duration(c.Replay().Start().UnixNano()),
		done: make(ideal.Fates, c.AllKeys()),
	}
	err := t.each(ctx, func(q *scenario.Arrival) bool {
		t.known = t.known || q.Verdict != accesslog.Unknown
		if q.Verdict == accesslog.Charged {
			t.charges++
			return true
		}
		k := &t.done[q.Key]
		k.Requests++
		if q.Verdict == accesslog.Denied {
			k.Denied++
		}
		return true
	})
	return t, err
}

// each calls do for the requests in the order of time, until it returns false.
func (t *traffic) each(ctx context.Context, do func(*scenario.Arrival) bool) error {
	all, one := t.scenario.Replay().Arrivals(), !t.scenario.Load.Trace.PerClient
	n := 0
	for q := (scenario.Arrival{}); all.Next(&q); n++ {
		if n%checkEvery == 0 && ctx.Err() != nil {
			return errInterrupted
		}
		if one {
			q.Key = 0
		}
		if !do(&q) {
			return nil
		}
	}
	return all.Err()
}

const checkEvery = 1 << 16 // requests between two looks at the context

// deny plays the requests on an ideal limit of each key, and calls denied for each that it
// denies, until that returns false.
func (t *traffic) deny(
	ctx context.Context, limit lease.Limit, denied func(key int32) (more bool),
) error {
	replay := ideal.NewReplay(limit, len(t.done))
	return t.each(ctx, func(q *scenario.Arrival) bool {
		charged := q.Verdict == accesslog.Charged
		return replay.Admits(q.Key, t.begins+q.At, q.Cost, charged) || denied(q.Key)
	})
}

// under is what becomes of the requests under an ideal limit.
func (t *traffic) under(ctx context.Context, limit lease.Limit) (ideal.Fates, error) {
	would := make(ideal.Fates, len(t.done))
	for i, k := range t.done {
		would[i].Requests = k.Requests
	}
	err := t.deny(ctx, limit, func(key int32) bool {
		would[key].Denied++
		return true
	})
	return would, err
}

// suffices reports whether an ideal limit denies no key more than a part of its requests.
func (t *traffic) suffices(ctx context.Context, limit lease.Limit, atMost float64) (bool, error) {
	denied, enough := make([]int64, len(t.done)), true
	err := t.deny(ctx, limit, func(key int32) bool {
		denied[key]++
		const rounding = 1 + 1e-12
		enough = float64(denied[key]) <= atMost*float64(t.done[key].Requests)*rounding
		return enough
	})
	return enough, err
}

// mostTokens is the largest number of a limit that is tried.
const mostTokens = 1 << 40

// least is the smallest number from 1 on for which the limit suffices, while one less does not. It
// is 0 if none does.
func (t *traffic) least(
	ctx context.Context, atMost float64, limit func(n int64) lease.Limit,
) (int64, error) {
	below, n := int64(0), int64(1) // below does not suffice
	for ; ; n *= 2 {
		l := limit(n)
		if n > mostTokens || l.Validate() != nil {
			return 0, nil
		}
		enough, err := t.suffices(ctx, l, atMost)
		if err != nil {
			return 0, err
		}
		if enough {
			break
		}
		below = n
	}
	for n-below > 1 {
		middle := below + (n-below)/2
		enough, err := t.suffices(ctx, limit(middle), atMost)
		if err != nil {
			return 0, err
		}
		if enough {
			n = middle
		} else {
			below = middle
		}
	}
	return n, nil
}
