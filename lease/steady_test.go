package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSteady: what makes a slice one that is lent for long, and how long.
func TestSteady(t *testing.T) {
	busy := func(q *lease.Request) { q.Demand, q.Held, q.Lag = 100, 0, 2*ms }
	and := func(change func(*lease.Request)) func(*lease.Request) {
		return func(q *lease.Request) { busy(q); change(q) }
	}
	for _, c := range []struct {
		name   string
		others func(*lease.Ledger)
		ask    func(*lease.Request)
		calm   bool
	}{
		{"a tenth of the rate", nil, busy, true},
		{"more than a quarter", nil, and(func(q *lease.Request) { q.Demand = 251 }), false},
		{"less than the smallest sub-bucket in MaxRefresh", nil, and(func(q *lease.Request) { q.Demand, q.Policy.MaxHold = 15, time.Second }), false},
		{"a sixth of MaxHold is no longer than MaxRefresh", nil, and(func(q *lease.Request) { q.Policy.MaxHold = 1500 * ms }), false},
		{"its part of half of what may be lent is too small", nil, and(func(q *lease.Request) { q.Limit.Burst = 15 }), false},
		{"shares", nil, and(func(q *lease.Request) { q.Policy.Mode = lease.Shares }), false},
		{"others want most of the rate", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Demand = 151 }))
		}, busy, false},
		{"the pool is half empty", func(l *lease.Ledger) {
			l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min, q.Policy.MaxHold = 501, 501, q.Policy.MaxRefresh }))
		}, busy, false},
	} {
		var l lease.Ledger
		if c.others != nil {
			c.others(&l)
		}
		r := l.Exchange(0, ask("a", 1, c.ask))
		if got := r.Shape == lease.LongSlice; got != c.calm {
			t.Errorf("%s: lent for long: %v, %+v", c.name, got, r)
		}
		if refresh, until := 5*time.Second, 5064*ms+500*time.Microsecond; c.calm &&
			(r.Refresh != refresh || r.RateUntil != until || r.Expires != until+312500*time.Microsecond || r.Rate < 109.99 || r.Rate > 110) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// steadily is a slice that is lent for long.
var steadily = lease.Reply{
	Add: 50, Rate: 100, Burst: 50, Keep: 50, Shape: lease.LongSlice,
	Refresh: time.Second, RateUntil: 1062 * ms, Expires: 1312 * ms, Holders: 1,
}

// TestSteadyHolder: it comes back when the slice is due, and at once when its
// traffic has gone elsewhere or its limit is another one.
func TestSteadyHolder(t *testing.T) {
	run := func(gone time.Duration, limit lease.Limit) (asked time.Duration, q lease.Request) {
		h := bench{leased(t, share), time.Second}
		h.Request(h.now)
		for ; h.now < 3*time.Second; h.now += 10 * ms { // 100/s
			if h.now < time.Second+gone {
				h.Take(h.now, 1)
			}
			if h.now == 1500*ms {
				h.SetLimit(limit)
			}
			if !h.Due(h.now) {
				continue
			}
			q, ok := h.Request(h.now)
			if h.now < 1400*ms && ok {
				r := steadily
				r.Seq, r.Add, r.Limit = q.Seq, 0, thousand
				h.Handle(h.now, r)
				h.Request(h.now)
			} else if ok {
				return h.now - time.Second, q
			}
		}
		return 0, lease.Request{}
	}
	if at, q := run(time.Hour, thousand); at < 900*ms || at > 1400*ms || q.Held == 0 {
		t.Errorf("with steady traffic it asks after %v: %+v", at, q)
	}
	if at, q := run(450*ms, thousand); at < 690*ms || at > 700*ms || q.Held != 0 || q.Give == 0 {
		t.Errorf("after silence since 450 ms it asks after %v: %+v", at, q)
	}
	lower := lease.Limit{Rate: 200, Burst: 200}
	if at, q := run(time.Hour, lower); at < 500*ms || at > 760*ms || q.Limit != lower {
		t.Errorf("with a new limit after 500 ms it asks after %v: %+v", at, q)
	}
}

// TestCrashedSteadyIsNoticed is I7: once others want what a process that crashed
// was lent for long, its rate flows back soon after it has ended, not when an
// era passes. While the key is calm, nobody looks.
func TestCrashedSteadyIsNoticed(t *testing.T) {
	for _, c := range []struct {
		demand  float64 // of another
		noticed time.Duration
	}{{600, 7500 * ms}, {100, 30 * time.Second}} {
		var l lease.Ledger
		if r := l.Exchange(0, ask("a", 1, demanding(200))); r.Shape != lease.LongSlice || r.RateUntil > 5100*ms {
			t.Fatalf("not lent for long: %+v", r)
		}
		for i := range uint64(300) {
			now := time.Duration(i+1) * 100 * ms
			l.Exchange(now, ask("b", i+1, demanding(c.demand)))
			if a := find(l.View(), "a"); (a == nil) != (now >= c.noticed) {
				t.Errorf("demand %v: at %v the ledger knows %+v", c.demand, now, a)
				break
			}
		}
	}
}
