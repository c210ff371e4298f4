package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// An overflow is a ledger of 1000 tokens/s of which a and c have a small slice each, answered at
// at. Another process, b, asks for each request.
type overflow struct {
	*testing.T
	ledger lease.Ledger
	limit  lease.Limit
	policy lease.Policy // of b
	at     time.Duration
	seq    uint64
	last   map[string]lease.Reply
	since  map[string]time.Duration // when these were answered
}

func newOverflow(t *testing.T) *overflow {
	o := &overflow{
		T: t, limit: thousand, policy: lease.Policy{Mode: lease.PerRequest}.Resolved(),
		last: map[string]lease.Reply{}, since: map[string]time.Duration{},
	}
	for o.at = 8 * time.Second; o.at < 10*time.Second; o.at += 200 * ms {
		o.take(0) // there is no unrest any more
		o.renew("a")
		o.renew("c")
	}
	o.take(200)
	o.renew("a")
	o.renew("c")
	o.at += 200 * ms
	o.renew("a")
	o.renew("c")
	return o
}

// take takes tokens for b.
func (o *overflow) take(n float64) {
	o.seq++
	o.ledger.Exchange(o.at, ask("b", o.seq, func(q *lease.Request) {
		q.Limit, q.Policy, q.Demand, q.Take, q.Min = o.limit, o.policy, 700, n, n
	}))
}

// lent is what a holder's lease has had until now.
func (o *overflow) lent(id string) float64 {
	r := o.last[id]
	return r.Add + r.Rate*min(o.at-o.since[id], r.RateUntil).Seconds()
}

// exchange is one of a holder of a full lease that has had no room for some tokens.
func (o *overflow) exchange(id string, spilt, demand float64) {
	o.seq++
	r := o.last[id]
	o.last[id] = o.ledger.Exchange(o.at, ask(id, o.seq, func(q *lease.Request) {
		q.Limit, q.Demand, q.Seen = o.limit, demand, r.Seq
		q.Got, q.Peak = o.lent(id)-spilt, r.Burst
		q.Claim = lease.Claim{Rate: r.Rate, Burst: r.Burst, Left: max(r.Expires-o.at+o.since[id], 0)}
	}))
	o.since[id] = o.at
}

// renew renews a slice of which all came.
func (o *overflow) renew(id string) {
	o.exchange(id, 0, 40)
	if r := o.last[id]; r.Shape != lease.Slice {
		o.Fatalf("%v: %s has %+v", o.at, id, r)
	}
}

// room is what the pool has now.
func (o *overflow) room() float64 {
	o.take(0)
	v := o.ledger.View()
	return float64(v.Limit.Burst) - v.Bursts - v.Pool
}

// until waits for the pool to have no more room than that.
func (o *overflow) until(room float64) {
	now := o.room()
	if now < room {
		o.Fatalf("the pool has room for %v, not %v", now, room)
	}
	o.at += time.Duration((now - room) / (1000 - o.ledger.View().Rates) * 1e9).Truncate(time.Microsecond)
}

// lowered is a scene in which a lower limit is in force for a moment.
func lowered(limit lease.Limit) func(*overflow) {
	return func(o *overflow) {
		o.limit, limit = limit, o.limit
		o.take(0)
		o.limit = limit
		o.take(0)
	}
}

// back is what comes back to the pool as a holder ends its lease, which overflowed.
func (o *overflow) back(id string, spilt float64) float64 {
	o.take(0)
	before := o.ledger.View().Pool
	o.exchange(id, spilt, 0)
	return o.ledger.View().Pool - before
}

// TestOverflowComesBack: what a lease had no room for comes back to the pool, as far as that has
// had room since the lease was answered, and once.
func TestOverflowComesBack(t *testing.T) {
	for _, c := range []struct {
		name  string
		spilt float64 // by each
		scene func(o *overflow)
		a, c  float64 // come back, first and then
	}{
		{"there is room", 14, func(*overflow) {}, 14, 14},
		{"a little", 14, func(o *overflow) { o.until(20) }, 14, 6},
		{"there was little", 14, func(o *overflow) { o.until(20); o.take(200) }, 14, 6},
		{"there was none", 14, func(o *overflow) { o.until(0); o.take(200) }, 0, 0},
		{"one part of the Burst", 0.0145, func(o *overflow) { o.until(0.016) }, 0.0145, 0},
		{"another Burst", 14, lowered(lease.Limit{Rate: 1000, Burst: 900}), 0, 0},
		{"another Rate", 14, lowered(lease.Limit{Rate: 900, Burst: 1000}), 0, 0},
		{"another width of the ticks", 14, func(o *overflow) {
			o.policy.MaxRefresh *= 15 // by the new width, the span of now is where there is room
			o.take(0)
		}, 0, 0},
		{"nearly too late", 14, func(o *overflow) { o.later(1100 * ms) }, 14, 14},
		{"too late", 14, func(o *overflow) { o.later(1400 * ms) }, 0, 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := newOverflow(t)
			c.scene(o)
			if a := o.back("a", c.spilt); math.Abs(a-c.a) > c.spilt/100 {
				t.Errorf("%v come back first, want %v", a, c.a)
			}
			if then := o.back("c", c.spilt); math.Abs(then-c.c) > c.spilt/100 {
				t.Errorf("%v come back then, want %v", then, c.c)
			}
		})
	}
}

// later goes on for a while, in which b uses what flows and c renews its slice.
func (o *overflow) later(d time.Duration) {
	for end := o.at + d; o.at < end; {
		o.at += 100 * ms
		o.take(80)
		o.renew("c")
	}
}
