package rlqs

import (
	"context"
	"math"
	"slices"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A report is what a stream tells of a bucket.
type report struct {
	from            *stream
	at              time.Time     // when it came
	elapsed         time.Duration // whole seconds
	allowed, denied uint64
	gone            bool // the stream has ended
}

// A bucket is one of a rule, in this service. Its goroutine looks at it each tick, while an Envoy
// has it.
type bucket struct {
	service *service
	name    string
	domain  string
	id      *pb.BucketId

	inbox []report      // under service.mu
	wake  chan struct{} // there is something in it

	// The goroutine's.
	table      *orderTable
	descriptor rules.Descriptor
	limit      rules.Explanation
	bad        bool // no rule can limit it
	members    []*member
	income     income
	purse      float64 // tokens that were taken, and are not paid
	left       []left
	level      float64 // what is left of the limit, as a part of it
}

// What Envoys have left with counts until they can spend it no more.
type left struct {
	funds float64
	end   time.Time
}

// A member is an Envoy that has the bucket.
type member struct {
	stream  *stream
	out     assignment
	changed time.Time // when it was told what may fill its bucket anew
	funds   float64   // what was paid for it, and is not known to be spent, or to be lost
	may     float64   // of the funds, what it could spend when it was told last
	lost    float64   // of the funds, what is not to come back
	unknown bool      // some of them may have been spent without a report
	blanket time.Time // of the last message without a token bucket
	allowed bool      // by that

	last   time.Time // of the last report
	heard  time.Time // of the report that demand is of
	counts uint64    // requests since
	known  bool      // demand is
	demand float64   // requests/s
	idle   int       // reports without any
}

// mostInbox bounds the reports that wait while the store is slow: a report is a hint.
const mostInbox = 1000

// tell is called under service.mu.
func (b *bucket) tell(r report) {
	if len(b.inbox) >= mostInbox && !r.gone {
		return
	}
	b.inbox = append(b.inbox, r)
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *bucket) run() {
	clock := time.NewTicker(tick)
	defer clock.Stop()
	for {
		select {
		case <-b.wake:
		case <-clock.C:
		}
		b.service.mu.Lock()
		inbox := b.inbox
		b.inbox = nil
		b.service.mu.Unlock()
		now := time.Now()
		b.resolve()
		for _, r := range inbox {
			b.hear(r)
		}
		b.left = slices.DeleteFunc(b.left, func(l left) bool { return l.end.Before(now) })
		if len(b.members) > 0 {
			b.look(now)
			clock.Reset(b.tick(now))
		} else if len(b.left) == 0 && b.service.ended(b) {
			return
		}
	}
}

// tick is how long until the bucket is looked at again. While tokens are scarce none may be lost
// because a small Burst has no room for more.
func (b *bucket) tick(now time.Time) time.Duration {
	limit := b.limit.Limit
	if limit.Kind != hybrid.KindBucket || !b.income.scarce(now) {
		return tick
	}
	quarter := time.Duration(float64(limit.Burst) / limit.Rate / 4 * float64(time.Second))
	return min(max(quarter, shortTick), tick)
}

// resolve finds the rule again when rules have changed. What was taken by another limit pays
// nothing any more: an Envoy may spend what it was assigned of it, until that ends or is replaced.
func (b *bucket) resolve() {
	table := b.service.orders.table(b.service.limiter.Rules())
	if table == b.table {
		return
	}
	var err error
	before := b.limit
	b.table = table
	b.descriptor, b.limit, err = table.descriptor(b.domain, b.id.GetBucket())
	if b.limit.Limit != before.Limit || b.limit.Key != before.Key {
		b.purse = 0
		for _, m := range b.members {
			m.unknown = true
		}
	}
	if b.bad = err != nil; b.bad {
		b.service.config.Log.Debug("rlqs: a bucket that no rule can limit", "error", err)
	}
}

// idleReports is after how many reports without a request an Envoy abandons a bucket.
const idleReports = 2

// hear reads a report, which may have waited for the store.
func (b *bucket) hear(r report) {
	m, now := b.member(r.from), r.at
	if r.gone {
		if m != nil {
			b.leave(now, m)
		}
		return
	}
	requests := r.allowed + r.denied
	known := m != nil
	if m == nil {
		if b.service.members.Add(1) > mostMembers {
			b.service.members.Add(-1)
			b.service.warn(now)
			return
		}
		// What this Envoy has asked for in a part of a second, or of another service, is no demand.
		m = &member{stream: r.from, heard: now}
		b.members = append(b.members, m)
		if r.elapsed >= time.Second {
			m.heard = now.Add(-r.elapsed - time.Second/2) // it was cut to seconds
		}
	}
	m.counts += requests
	if b.limit.State == rules.Shadow && requests > 0 {
		b.take(requests)
	}
	if m.out.max > 0 {
		// A report that was lost has taken its time with it. That of a stream's first one is of
		// assignments of before.
		b.settle(now, m, float64(r.allowed), known && now.Sub(m.last) < r.elapsed+lostReport)
	}
	m.last = now
	since := now.Sub(m.heard)
	if since < time.Second {
		return
	}
	if m.counts == 0 {
		m.idle++
	} else {
		m.idle = 0
	}
	m.demand, m.known = float64(m.counts)/since.Seconds(), true
	m.heard, m.counts = now, 0
	if m.idle >= idleReports {
		m.stream.put(time.Now(), b.abandon())
		b.leave(now, m)
	}
}

func (b *bucket) member(x *stream) *member {
	for _, m := range b.members {
		if m.stream == x {
			return m
		}
	}
	return nil
}

// lostReport is by how much longer than it says a report's time may be: it is cut to seconds, and
// takes a while.
const lostReport = time.Second + flight

// settle notes what an Envoy has spent since its last report, if that is all. What it has been paid
// and can spend no more comes back.
func (b *bucket) settle(now time.Time, m *member, spent float64, all bool) {
	m.funds = max(m.funds-spent, 0)
	m.unknown = m.unknown || !all
	if now.Sub(m.changed) < 2*flight {
		return // what it was told last may have come after it made the report
	}
	most := m.out.most(now.Add(-flight))
	if back := m.funds - most; back > 0 {
		m.funds = most
		if !m.unknown {
			b.purse += max(back-m.lost, 0)
		}
		m.unknown = false
	}
	m.lost = 0
}

// unassign ends an assignment here. Envoy may spend what is paid of it until it ends there.
func (b *bucket) unassign(now time.Time, m *member) {
	if funds := m.alive(now); funds > 0 {
		b.left = append(b.left, left{funds, m.out.end})
	}
	m.out, m.funds, m.lost = assignment{}, 0, 0
}

// leave ends what there is of an Envoy.
func (b *bucket) leave(now time.Time, m *member) {
	b.unassign(now, m)
	b.members = slices.DeleteFunc(b.members, func(x *member) bool { return x == m })
	b.service.members.Add(-1)
}

// look sends the messages that are due.
func (b *bucket) look(now time.Time) {
	switch {
	case b.bad, b.banned(now):
		b.all(now, false)
	case b.limit.State != rules.Limited:
		b.all(now, true)
	case b.limit.Limit == hybrid.Blocked:
		b.all(now, false)
	default:
		for _, m := range b.members {
			if m.allowed { // until there are tokens for it
				b.one(now, m, false)
			}
		}
		b.divide(now)
	}
}

// banned reports whether a ban denies the bucket. Envoy's requests have no other entries.
func (b *bucket) banned(now time.Time) bool {
	var d rules.Descriptor
	for key, value := range b.id.GetBucket() {
		d = d.And(key, value)
	}
	_, banned := b.table.rules.Banned(b.domain, now, d)
	return banned
}

// all lets everything through, or nothing.
func (b *bucket) all(now time.Time, allow bool) {
	for _, m := range b.members {
		if m.out == (assignment{}) && now.Sub(m.blanket) < b.blanketLife(allow)/4 && m.allowed == allow {
			continue
		}
		b.one(now, m, allow)
	}
}

// one lets everything of an Envoy through, or nothing.
func (b *bucket) one(now time.Time, m *member, allow bool) {
	b.unassign(now, m)
	m.blanket, m.allowed = now, allow
	m.stream.put(now, b.blanket(allow, b.blanketLife(allow)))
}

// blanketLife is short where everything is let through: that goes on where a stream is cut.
func (b *bucket) blanketLife(allow bool) time.Duration {
	if allow {
		return Least
	}
	return b.service.config.Life
}

// tries is how often a tick asks for tokens: for all, and for less when it is denied.
const tries = 8

// take takes up to so many tokens, and returns how many.
func (b *bucket) take(tokens uint64) float64 {
	got := 0.0
	n := min(tokens, rules.MaxHits, math.MaxInt32)
	if b.limit.State == rules.Limited {
		n = min(n, uint64(b.limit.Limit.Burst)) // more is never admitted at once
	}
	for range tries {
		if n == 0 {
			break
		}
		b.descriptor.Hits = int(n)
		result, err := b.service.limiter.Take(context.Background(), b.domain, b.descriptor)
		if err != nil {
			b.service.config.Log.Debug("rlqs: nothing was taken", "error", err)
			return got
		}
		each := result.Each[0]
		if each.State != rules.Limited {
			return got // rules have just changed
		}
		d := each.Decision
		b.level = float64(d.Remaining) / float64(max(d.Limit.Burst, 1))
		if result.Allowed {
			got += float64(n)
			if tokens -= n; tokens == 0 {
				return got
			}
			n = min(tokens, n)
			continue
		}
		n /= 2
		if d.Remaining > 0 {
			n = min(n, uint64(d.Remaining))
		}
	}
	return got
}
