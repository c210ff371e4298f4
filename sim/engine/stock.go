package engine

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A stock is what there is of tokens, and what was lost of them so far.
type stock struct {
	at                        time.Duration
	pool, held                float64
	poolSpilt, spilt, expired float64
	forfeited, idealSpilt     float64
	heldBack                  float64
	flow                      float64 // flowed into one bucket since the start
}

// count takes stock. It looks at everything: for the beginning and the end.
func (m *meter) count() stock {
	s := m.lost
	s.at = m.now
	s.flow = m.flowed()
	for _, k := range m.keys {
		if k == nil {
			continue
		}
		pool, spilt := poolAt(k.ledger, m.now)
		s.pool += pool
		s.poolSpilt += k.spilt + spilt
		s.idealSpilt += k.bucket.Spilt(m.now)
		s.heldBack += k.held.until(m.now)
	}
	for _, c := range m.cells {
		if c != nil {
			l := c.entry.Lease(m.now)
			s.held += l.Tokens
			s.spilt += l.Spilt
			s.expired += l.Expired
		}
	}
	return s
}

// poolAt is a ledger's pool, and what it has spilt, as of now: the ledger itself
// counts when it is next asked.
func poolAt(l *lease.Ledger, now time.Duration) (pool, spilt float64) {
	v := l.View()
	if v.Limit.Rate == 0 {
		return 0, 0
	}
	dt := float64(now/time.Microsecond) - v.At
	pool = v.Pool + max(v.Limit.Rate-v.Rates, 0)*max(dt, 0)/1e6
	over := max(pool-max(float64(v.Limit.Burst)-v.Bursts, min(v.Pool, 0)), 0)
	return pool - over, l.Spilt() + over
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

// account says where all tokens went.
func (m *meter) account(r *Result) {
	from, to := m.stock, m.count()
	t := Tokens{
		Supply: from.pool + from.held, Admitted: m.bucketed, Left: to.pool + to.held,
		PoolSpilt: to.poolSpilt - from.poolSpilt, Spilt: to.spilt - from.spilt, Expired: to.expired - from.expired,
		Forfeited: to.forfeited - from.forfeited, HeldBack: to.heldBack - from.heldBack, IdealSpilt: to.idealSpilt - from.idealSpilt,
	}
	for _, k := range m.keys {
		switch {
		case k == nil || k.opened < 0:
		case k.opened >= m.since: // measuring begins before anything else at its time
			t.Supply += k.fill + to.flow
		default:
			t.Supply += to.flow - from.flow
		}
	}
	t.Other = t.Supply - t.Admitted - t.Left - t.PoolSpilt - t.Spilt - t.Expired - t.Forfeited - t.HeldBack
	r.Tokens = t
}
