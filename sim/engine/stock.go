package engine

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// A stock is what there is of tokens, and what became of the others so far.
type stock struct {
	pool, held, flying float64 // in ledgers, in leases, and on the way between them

	lease.Flows                // of all ledgers
	spilt, expired, unclaimed  float64
	buried, unrefilled         float64 // by crashes: tokens, and what the rate would have added
	heldBack, idealSpilt, flow float64 // flow is what came in
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
	s.wire, s.bucketed = m.wire, m.bucketed
	for _, k := range present(m.keys) {
		pool, flows := k.pool(m.now)
		k.supply.until(m.now)
		s.pool += pool
		s.Flows = s.Plus(flows)
		s.idealSpilt += k.ideal.Spilt(m.now)
		s.heldBack += k.supply.heldBack
		s.flow += k.supply.flowed
	}
	for _, c := range present(m.cells) {
		l := c.entry.Lease(m.now)
		s.held += held(l)
		s.spilt += l.Spilt
		s.expired += l.Expired + l.Lapsed
		s.unclaimed += l.Unclaimed
	}
	var owed float64
	s.flying, owed = m.flying()
	s.lent.sent += s.Debited // a debt is lent to the process that has spent it
	s.lent.arrived += s.Debited - owed
	return s
}

// held is what a lease has, with what waits for other keys, less what was spent on account.
func held(l lease.Lease) float64 { return l.Tokens + l.Reserved - l.Owed }

// flying is what messages carry that will arrive: tokens, of which owed pay for debts.
func (m *meter) flying() (tokens, owed float64) {
	for i := range m.queue.events {
		v := &m.queue.events[i]
		if v.kind != deliver && v.kind != answer {
			continue
		}
		x := &m.carried.list[v.ref]
		if x.copied || x.landed || x.driver.crashed {
			continue
		}
		for i, call := range x.Calls {
			switch {
			case v.kind == deliver:
				tokens += call.Request.Give
			case x.cells[i] != nil:
				tokens += x.replies[i].Add + x.replies[i].Taken + call.Request.Debt
				owed += call.Request.Debt
			}
		}
	}
	return tokens, owed
}

// pool is what is left in a key's ledger, and what has gone through it, as of now: the
// ledger itself counts when it is next asked.
func (k *key) pool(now time.Duration) (pool float64, flows lease.Flows) {
	v := k.ledger.Sums()
	switch {
	case v.Limit.Burst == 0: // it has not been asked
		return 0, k.before
	case k.supply.ends != math.MaxInt64:
		k.boundary(now)
		if k.supply.drained(v.At) {
			return float64(v.Limit.Burst), k.before
		}
		return v.Pool, k.before
	}
	dt := float64(now/time.Microsecond) - v.At
	flow := max(v.Limit.Rate-v.Rates, 0) * max(dt, 0) / 1e6
	pool = v.Pool + flow
	over := max(pool-max(float64(v.Limit.Burst)-v.Bursts, min(v.Pool, 0)), 0)
	flows = k.before.Plus(k.ledger.Flows())
	return pool - over, flows.Plus(lease.Flows{Pooled: flow, Spilt: over})
}

// boundary counts what the ends of a quota's windows until now do to its pool: what is left
// of it is lost, and it is full again. The ledger does it when it is next asked.
func (k *key) boundary(now time.Duration) {
	s := &k.supply
	if s.ends > now || s.inForce.Burst == 0 {
		return
	}
	pool := k.ledger.Sums().Pool
	for ; s.ends <= now; _, s.ends = ideal.Window(s.inForce, s.ends) {
		full, over := float64(s.inForce.Burst), min(pool, 0) // used above a lowered quota
		k.before.Spilt += pool - over
		k.before.Pooled += full - over
		s.flowed, s.heldBack = s.flowed+full, s.heldBack+over
		pool = full
	}
}

// A supply is what has flowed into a key since its first exchange: by the rate that was
// last set, or with each window of a quota.
type supply struct {
	flowed float64

	// heldBack is what does not flow as a raised rate waits until it is in force, less what
	// does until a lowered one is, or was used above a lowered quota in its window.
	heldBack float64

	at       time.Duration // both are counted up to here
	declared float64       // tokens/s
	inForce  lease.Limit   // zero before the first exchange
	ends     time.Duration // the window of a quota that is counted
}

func (s *supply) open(now time.Duration, declared, inForce lease.Limit) {
	s.at, s.declared, s.inForce = now, declared.Rate, inForce
	_, s.ends = ideal.Window(inForce, now)
}

func (s *supply) until(now time.Duration) {
	dt := (now - s.at).Seconds()
	s.flowed += float64(s.declared * dt)
	s.heldBack += float64((s.declared - s.inForce.Rate) * dt)
	s.at = now
}

func (s *supply) declare(now time.Duration, limit lease.Limit) {
	s.until(now)
	s.declared = limit.Rate
}

// force notes the limit in force, and returns what a key that has no rate gains by it at once.
func (s *supply) force(now time.Duration, limit lease.Limit) (gain float64) {
	s.until(now)
	if limit.Rate == 0 {
		gain = float64(limit.Burst - s.inForce.Burst)
		s.flowed += gain
	}
	s.inForce = limit
	return gain
}

// drained reports whether a ledger that was last asked at, in µs, has not begun the window
// that is counted.
func (s *supply) drained(at float64) bool {
	starts, _ := ideal.Window(s.inForce, s.ends-1)
	return at < float64(starts/time.Microsecond)
}

// account says where all tokens went. What ledgers and holders do not count
// follows from two sums: a pool gains what flows in and comes back, and loses what
// is lent, granted and spilt; a lease gains what it is lent, granted and refills, and
// loses what is spent, handed back and lost.
func (m *meter) account(r *Result) {
	if m.scenario.Load.Hold != nil {
		r.Tokens = m.looks.tokens(r.Seconds)
		return
	}
	from, to := m.stock, m.count()
	t := Tokens{
		Supply: from.pool + from.held + from.flying, Admitted: to.bucketed - from.bucketed,
		Left:      to.pool + to.held + to.flying,
		PoolSpilt: to.Spilt - from.Spilt, Spilt: to.spilt - from.spilt, Expired: to.expired - from.expired,
		Unclaimed: to.unclaimed - from.unclaimed, Refused: to.Refused - from.Refused,
		HeldBack: to.heldBack - from.heldBack, IdealSpilt: to.idealSpilt - from.idealSpilt,
	}
	flow, pooled, filled := to.flow-from.flow, to.Pooled-from.Pooled, from.pool
	for _, k := range present(m.keys) {
		if k.opened >= m.since { // measuring begins before anything else at its time
			filled += k.full
		}
	}
	t.Supply += flow + filled - from.pool

	lent, back := to.lent.sent-from.lent.sent, to.back.arrived-from.back.arrived
	returned := to.pool - filled - pooled + t.PoolSpilt + lent
	came := to.Returned - from.Returned // by the room of pools
	refunds := returned + t.Refused - back - came
	buried, unrefilled := to.buried-from.buried, to.unrefilled-from.unrefilled
	arrived, handed := to.lent.arrived-from.lent.arrived, to.back.sent-from.back.sent
	refilled := to.held - from.held - arrived + t.Admitted + handed + t.Spilt + t.Expired + t.Unclaimed + buried

	t.Forfeited = buried + unrefilled
	t.Asking = flow - t.HeldBack - pooled - refilled - unrefilled
	missing := to.lent.missing() - from.lent.missing() - (to.flying - from.flying)
	missing += to.back.missing() - from.back.missing()
	t.Messages = missing - refunds
	if t.Messages < 0 { // what was refilled under a lost reply came back, too
		t.Asking, t.Messages = t.Asking+t.Messages, 0
	}
	overflowed := min(came, t.Spilt)
	t.Spilt, t.Asking = t.Spilt-overflowed, t.Asking-(came-overflowed)
	if m.untold() {
		t.Supply += missing - t.Messages - t.Asking
		t.Asking, t.Messages = 0, missing
	}
	t.Other = t.Supply - t.Admitted - t.Left - t.PoolSpilt - t.Spilt - t.Asking - t.Expired - t.Unclaimed - t.Refused - t.Messages - t.Forfeited - t.HeldBack
	r.Tokens = t
}

// untold reports whether tokens of a limit come back without a message, as those of a sliding
// window do: they are the supply that the account needs.
func (m *meter) untold() bool {
	return slices.ContainsFunc(m.limits, func(l limited) bool {
		return ideal.TraitsOf(l.Limit).Untold
	})
}
