package engine

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A stock is what there is of tokens, and what became of the others so far.
type stock struct {
	pool, held, flying float64 // in ledgers, in leases, and on the way between them

	lease.Flows                // of all ledgers
	spilt, expired, unclaimed  float64
	buried, unrefilled         float64 // by crashes: tokens, and what the rate would have added
	heldBack, idealSpilt, flow float64 // flow is into one bucket since the start
	bucketed                   float64
	wire
}

// A wire counts tokens on their way: lent and granted by ledgers, and handed back.
type wire struct{ lent, back passage }

// A passage counts tokens that were sent, and those that have arrived.
type passage struct{ sent, arrived float64 }

func (p passage) missing() float64 { return p.sent - p.arrived }

// count takes stock. It looks at everything: for the beginning and the end.
func (m *meter) count() stock {
	s := m.lost
	s.flow = m.flowed()
	s.wire, s.bucketed = m.wire, m.bucketed
	for _, k := range m.keys {
		if k == nil {
			continue
		}
		pool, flows := poolAt(k.ledger, m.now)
		s.pool += pool
		s.Flows = s.Plus(k.before).Plus(flows)
		s.idealSpilt += k.bucket.Spilt(m.now)
		s.heldBack += k.held.until(m.now)
	}
	for _, c := range m.cells {
		if c != nil {
			l := c.entry.Lease(m.now)
			s.held += l.Tokens
			s.spilt += l.Spilt
			s.expired += l.Expired
			s.unclaimed += l.Unclaimed
		}
	}
	s.flying = m.flying()
	return s
}

// flying is what messages carry that will arrive.
func (m *meter) flying() (tokens float64) {
	for i := range m.queue.events {
		v := &m.queue.events[i]
		if v.kind != deliver && v.kind != answer {
			continue
		}
		x := &m.carried[v.ref]
		if x.copied || x.landed || x.driver.crashed {
			continue
		}
		for i, call := range x.Calls {
			switch {
			case v.kind == deliver:
				tokens += call.Request.Give
			case x.cells[i] != nil:
				tokens += x.replies[i].Add + x.replies[i].Taken
			}
		}
	}
	return tokens
}

// poolAt is a ledger's pool, and what has gone through it, as of now: the ledger
// itself counts when it is next asked.
func poolAt(l *lease.Ledger, now time.Duration) (pool float64, flows lease.Flows) {
	v := l.View()
	if v.Limit.Rate == 0 {
		return 0, flows
	}
	flows = l.Flows()
	dt := float64(now/time.Microsecond) - v.At
	flow := max(v.Limit.Rate-v.Rates, 0) * max(dt, 0) / 1e6
	pool = v.Pool + flow
	over := max(pool-max(float64(v.Limit.Burst)-v.Bursts, min(v.Pool, 0)), 0)
	return pool - over, flows.Plus(lease.Flows{Pooled: flow, Spilt: over})
}

// heldBack is what does not flow into a key's bucket as a raised limit waits
// until it is in force, less what does until a lowered one is.
type heldBack struct {
	tokens            float64
	at                time.Duration // they are counted up to here
	declared, inForce float64       // tokens/s; 0 before the first exchange
}

func (h *heldBack) until(now time.Duration) float64 {
	h.tokens += float64((h.declared - h.inForce) * (now - h.at).Seconds())
	h.at = now
	return h.tokens
}

func (h *heldBack) declare(now time.Duration, rate float64) {
	h.until(now)
	h.declared = rate
}

func (h *heldBack) force(now time.Duration, rate float64) {
	h.until(now)
	h.inForce = rate
}

// flowed is what has flowed into each bucket since the start, at the rate that
// was last set.
func (m *meter) flowed() float64 {
	m.flow += float64(m.limit.Rate * (m.now - m.flowAt).Seconds())
	m.flowAt = m.now
	return m.flow
}

// account says where all tokens went. What ledgers and holders do not count
// follows from two sums: a pool gains what flows in and comes back, and loses what
// is lent, granted and spilt; a lease gains what it is lent, granted and refills, and
// loses what is spent, handed back and lost.
func (m *meter) account(r *Result) {
	from, to := m.stock, m.count()
	t := Tokens{
		Supply: from.pool + from.held + from.flying, Admitted: to.bucketed - from.bucketed,
		Left:      to.pool + to.held + to.flying,
		PoolSpilt: to.Spilt - from.Spilt, Spilt: to.spilt - from.spilt, Expired: to.expired - from.expired,
		Unclaimed: to.unclaimed - from.unclaimed, Refused: to.Refused - from.Refused,
		HeldBack: to.heldBack - from.heldBack, IdealSpilt: to.idealSpilt - from.idealSpilt,
	}
	flow, pooled, filled := 0.0, to.Pooled-from.Pooled, from.pool
	for _, k := range m.keys {
		switch {
		case k == nil || k.opened < 0:
		case k.opened >= m.since: // measuring begins before anything else at its time
			flow += to.flow - k.flow
			filled += k.full
		default:
			flow += to.flow - from.flow
		}
	}
	t.Supply += flow + filled - from.pool

	lent, back := to.lent.sent-from.lent.sent, to.back.arrived-from.back.arrived
	returned := to.pool - filled - pooled + t.PoolSpilt + lent
	refunds := returned + t.Refused - back
	buried, unrefilled := to.buried-from.buried, to.unrefilled-from.unrefilled
	arrived, handed := to.lent.arrived-from.lent.arrived, to.back.sent-from.back.sent
	refilled := to.held - from.held - arrived + t.Admitted + handed + t.Spilt + t.Expired + t.Unclaimed + buried

	t.Forfeited = buried + unrefilled
	t.Asking = flow - t.HeldBack - pooled - refilled - unrefilled
	t.Messages = to.lent.missing() - from.lent.missing() + to.back.missing() - from.back.missing() - (to.flying - from.flying) - refunds
	if t.Messages < 0 { // what was refilled under a lost reply came back, too
		t.Asking, t.Messages = t.Asking+t.Messages, 0
	}
	t.Other = t.Supply - t.Admitted - t.Left - t.PoolSpilt - t.Spilt - t.Asking - t.Expired - t.Unclaimed - t.Refused - t.Messages - t.Forfeited - t.HeldBack
	r.Tokens = t
}
