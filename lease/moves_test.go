package lease_test

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A move is one thing that happens.
type move struct {
	kind  string
	who   int           // member, or place in net
	n     float64       // tokens
	until time.Duration // of pass
}

func (m move) String() string {
	switch m.kind {
	case "pass":
		return fmt.Sprintf("until %v", m.until-time.Hour)
	case "flush":
		return "flush"
	case "take":
		return fmt.Sprintf("%c takes %v", 'a'+m.who, m.n)
	case "deliver", "answer", "repeat":
		return fmt.Sprintf("%s %d", m.kind, m.who)
	}
	return fmt.Sprintf("%c %s", 'a'+m.who, m.kind)
}

// moves are all that may happen next.
func (w *world) moves() (all []move) {
	for i := range w.members {
		m, now := &w.members[i], w.clock(i)
		for _, n := range w.takes() {
			all = append(all, move{kind: "take", who: i, n: n})
		}
		if w.keeps > 0 {
			all = append(all, move{kind: "reserves", who: i, n: w.keeps})
		}
		if w.charges > 0 {
			all = append(all, move{kind: "charges", who: i, n: w.charge})
		}
		if m.late.Tokens > 0 {
			all = append(all, move{kind: "gives back late", who: i})
		}
		if len(m.reserved) > 0 {
			all = append(all, move{kind: "gives back", who: i})
		}
		if len(m.reserved) > 0 && w.limit.Kind != lease.KindSlots {
			all = append(all, move{kind: "uses", who: i})
		}
		if m.holder.Held() >= 2 && w.limit.Kind != lease.KindSlots {
			all = append(all, move{kind: "spends all", who: i})
		}
		if w.calls(i) <= w.now {
			all = append(all, move{kind: "polls", who: i})
		}
		if w.faults == 0 {
			continue
		}
		all = append(all, move{kind: "crashes", who: i})
		if m.holder.Outstanding() == 0 && m.holder.Lease(now).Burst > 0 {
			all = append(all, move{kind: "quits", who: i})
		}
		if m.last != nil {
			all = append(all, move{kind: "withdraws", who: i})
		}
		if w.lower != (lease.Limit{}) {
			all = append(all, move{kind: "declares", who: i})
		}
	}
	for i, p := range w.net {
		all = append(all, move{kind: "deliver", who: i})
		if p.request != nil {
			all = append(all, move{kind: "answer", who: i})
		}
		if w.faults > 0 {
			all = append(all, move{kind: "repeat", who: i})
		}
	}
	if w.faults > 0 && !w.flushed {
		all = append(all, move{kind: "flush"})
	}
	return append(all, w.passes()...)
}

// calls is when member i's holder wants to be polled.
func (w *world) calls(i int) time.Duration {
	m := &w.members[i]
	switch {
	case m.holder.Outstanding() != 0:
		return m.sent + worldTimeout
	case m.wake == math.MaxInt64:
		return m.wake
	}
	return when(i, m.wake)
}

// passes lets time go on: to when the next holder calls, to when something of
// the next lease ends at the ledger, or by a step.
func (w *world) passes() (all []move) {
	next, end := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for i := range w.members {
		if at := w.calls(i); at > w.now {
			next = min(next, at)
		}
	}
	for _, r := range w.ledger.View().Holders {
		for _, at := range []time.Duration{duration(r.At + r.Until), r.Expires()} {
			if at > w.now {
				end = min(end, at)
			}
		}
	}
	all = append(all, move{kind: "pass", until: w.now + step})
	if next < math.MaxInt64 && next != w.now+step {
		all = append(all, move{kind: "pass", until: next})
	}
	if end < math.MaxInt64 && end != w.now+step && end != next {
		all = append(all, move{kind: "pass", until: end})
	}
	return all
}

// after is the world that m leads to.
func (w *world) after(m move) *world {
	next := *w
	next.members = slices.Clone(w.members)
	next.net = slices.Clone(w.net)
	next.excess, next.broken = 0, nil
	switch m.kind {
	case "deliver":
		next.deliver(m.who)
	case "answer":
		next.deliver(m.who)
		next.deliver(len(next.net) - 1)
	case "repeat":
		next.faults--
		next.net = append(next.net, next.net[m.who])
		next.deliver(m.who)
	case "flush":
		next.flush()
	case "pass":
		next.forfeit(m.until)
		next.now = m.until
		next.admitted.pour(next.now, 0)
		next.gone.pour(next.now, 0)
		for i := range next.members {
			next.own(i).Lease(next.clock(i))
		}
	default:
		next.act(m)
	}
	next.tidy()
	return &next
}

// own returns the holder of member i, to be changed.
func (w *world) own(i int) *lease.Holder {
	m := &w.members[i]
	m.holder, m.sum = m.holder.Clone(), 0
	if m.last != nil {
		m.last = m.holder.Last()
	}
	m.reserved = slices.Clone(m.reserved)
	return m.holder
}

// act is what a member does by itself.
func (w *world) act(m move) {
	h, now := w.own(m.who), w.clock(m.who)
	switch m.kind {
	case "take":
		switch h.Take(now, m.n) {
		case lease.Admitted:
			w.spends(m.who, m.n)
		case lease.Pending:
			if w.waits {
				waiter := &lease.Waiter{N: m.n}
				if w.stays > 0 {
					waiter.Until = now + w.stays
				}
				h.Enter(waiter)
				w.members[m.who].last = waiter
			}
		}
		if h.Due(now) {
			w.poll(m.who)
		}
	case "spends all":
		for h.Take(now, 1) == lease.Admitted {
			w.spends(m.who, 1)
		}
		if h.Due(now) {
			w.poll(m.who)
		}
	case "reserves":
		switch r, v := h.Reserve(now, m.n); {
		case v == lease.Admitted:
			w.spends(m.who, 0)
			w.members[m.who].reserved = append(w.members[m.who].reserved, r)
		case v == lease.Pending && w.waits:
			h.Enter(&lease.Waiter{N: m.n, Hold: lease.WhileOpen})
		}
		w.poll(m.who)
	case "gives back":
		r := w.end(m.who)
		h.Release(now, r, r.Tokens)
		w.poll(m.who)
	case "uses":
		r := w.end(m.who)
		w.admit(r.Tokens)
		h.Release(now, r, 0)
		w.poll(m.who)
	case "gives back late":
		held, reserved := h.Held(), h.Reserving()
		h.Release(now, w.members[m.who].late, w.members[m.who].late.Tokens)
		if h.Held() != held || h.Reserving() != reserved {
			w.broken = fmt.Errorf("R4: what was given back has gone to another lease")
		}
		w.members[m.who].late = lease.Reserved{}
		w.poll(m.who)
	case "charges":
		w.charges--
		w.admit(m.n)
		h.Charge(now, m.n)
		w.poll(m.who)
	case "polls":
		w.poll(m.who)
	case "crashes":
		w.useAll(m.who)
		w.unpaid += w.members[m.who].owed()
		w.faults--
		w.start(m.who)
	case "quits":
		w.faults--
		if q, ok := h.Quit(now); ok {
			w.useAll(m.who)
			w.send(m.who, q)
		}
	case "declares": // another limit than before
		w.faults--
		limit := w.lower
		if w.members[m.who].lower {
			limit = w.limit
		}
		h.SetLimit(limit)
		w.members[m.who].lower = !w.members[m.who].lower
		w.poll(m.who)
	case "withdraws":
		w.faults--
		w.revoked = true
		h.Withdraw(now, w.members[m.who].last)
		w.members[m.who].last = nil
	}
}

// poll does a driver's duties.
func (w *world) poll(i int) {
	m, now := &w.members[i], w.clock(i)
	if m.holder.Outstanding() != 0 && w.now >= m.sent+worldTimeout {
		m.holder.Fail(now)
	}
	r := m.holder.Ready(now)
	m.wake = r.Wake
	for _, x := range r.Resolved {
		if x.Verdict == lease.Admitted && x.Hold > 0 && !x.Reserved.Taken() {
			w.spends(i, 0)
			m.reserved = append(m.reserved, x.Reserved)
		} else if x.Verdict == lease.Admitted {
			w.spends(i, x.N)
		}
		if x == m.last {
			m.last = nil
		}
	}
	if r.Ask {
		q, _ := m.holder.Request(now)
		w.send(i, q)
	}
}

func (w *world) send(i int, q lease.Request) {
	m := &w.members[i]
	m.sent = w.now
	if q.Debt > 0 {
		m.carried, m.since, m.told = q.Debt, q.Since, true
	}
	w.net = append(w.net, letter{to: i, life: m.life, seq: q.Seq, request: &q})
}

func (w *world) deliver(n int) {
	p := w.net[n]
	w.net = slices.Delete(w.net, n, n+1)
	if p.request != nil {
		w.net = append(w.net, w.exchange(p))
		return
	}
	m := &w.members[p.to]
	if p.life != m.life {
		return
	}
	h := w.own(p.to)
	if h.Outstanding() != 0 && w.now >= m.sent+worldTimeout {
		h.Fail(w.clock(p.to))
	}
	accepted := p.seq == h.Outstanding()
	if accepted {
		w.gone.tokens -= p.reply.Taken // it left when the ledger answered
	}
	owed := h.Owed()
	h.Handle(w.clock(p.to), p.reply)
	if accepted && !p.reply.Stale {
		w.hears(p.to, p.reply, owed)
	}
	w.forfeit(w.now)
	w.poll(p.to)
	w.gone.tokens = max(w.gone.tokens, 0)
}

// exchange lets the ledger answer.
func (w *world) exchange(p letter) letter {
	if w.flushed && w.ledger.Limit() == (lease.Limit{}) && p.request.Claim.Left == 0 {
		w.extra += float64(w.limit.Burst) // it cannot know that the bucket was in use
	}
	before, q := w.ledger, *p.request
	w.ledger = before.Clone()
	p.reply, p.request = w.ledger.Exchange(w.now, q), nil
	w.digestLedger()
	w.gone.tokens += p.reply.Taken
	if m := &w.members[p.to]; q.Debt > 0 && p.life == m.life && !p.reply.Stale {
		record := find(before.View(), q.Holder)
		known := record != nil && record.Expires() > w.now // else it may be debited twice
		if debited := w.debited(before, q); !w.flushed && (known || m.posted != q.Since) {
			want := q.Debt
			if m.posted == q.Since {
				want = 0
			}
			if math.Abs(debited-want) > rounding {
				w.broken = fmt.Errorf("R5: %v is debited of a debt of %v, not %v", debited, q.Debt, want)
			}
		}
		m.posted = q.Since
	}
	return p
}

// debited is how many tokens fewer there are after a request because it carries a debt.
func (w *world) debited(before *lease.Ledger, q lease.Request) float64 {
	all := func() float64 {
		l := before.Clone()
		r := l.Exchange(w.now, q)
		return l.View().Pool + r.Taken + r.Add + l.Flows().Spilt
	}
	with := all()
	q.Debt, q.Since = 0, 0
	return all() - with
}

// hears checks what the answer to a request that may have carried a debt does.
func (w *world) hears(i int, r lease.Reply, owed float64) {
	m := &w.members[i]
	if left := m.holder.Owed(); left > owed-m.carried+rounding {
		w.broken = fmt.Errorf("R6: %c owes %v, %v of which an answer has confirmed", 'a'+i, left,
			m.carried)
	}
	if m.told && r.Rate > 0 {
		w.broken = fmt.Errorf("R7: %v/s are lent to %c, which has a debt", r.Rate, 'a'+i)
	}
	m.carried = 0
	m.told = m.told && r.Pool.Level < 0
}

// spends admits tokens of a member, which can have none before its debts are paid.
func (w *world) spends(i int, n float64) {
	if m := &w.members[i]; m.told || m.holder.Owed() > 0 {
		w.broken = fmt.Errorf("R8: %c admits, and has a debt", 'a'+i)
	}
	if n > 0 {
		w.admit(n)
	}
}

// end takes the first reservation of a member.
func (w *world) end(i int) lease.Reserved {
	m := &w.members[i]
	r := m.reserved[0]
	m.reserved = m.reserved[1:]
	return r
}

// useAll counts what a member has reserved as used.
func (w *world) useAll(i int) {
	for len(w.members[i].reserved) > 0 {
		w.admit(w.end(i).Tokens)
	}
}

// forfeit counts as used by now what is reserved in leases that end until then.
func (w *world) forfeit(until time.Duration) {
	for i := range w.members {
		m := &w.members[i]
		if len(m.reserved) > 0 && !w.own(i).Keeps(clock(i, until), m.reserved[0]) {
			m.late = m.reserved[0]
			w.useAll(i)
		}
	}
}

// flush loses the ledger's state. What old leases go on to hold, and to refill,
// beside the new one is extra: until their holders come back it does not know
// of them, and fills its pool to the brim.
func (w *world) flush() {
	for i := range w.members {
		w.extra += w.members[i].holder.Held() + w.members[i].holder.Reserving()
	}
	for _, r := range w.ledger.View().Holders {
		if end := duration(r.At + r.Until); end > w.now && !r.Ended {
			w.extra += r.Rate * (end - w.now).Seconds()
		}
	}
	w.unpaid += max(-w.ledger.View().Pool, 0)
	for i := range w.members {
		w.members[i].posted = 0 // it is debited once more
	}
	w.faults--
	w.ledger, w.flushed = new(lease.Ledger), true
	w.digestLedger()
}

func (w *world) admit(n float64) {
	w.gone.tokens += n
	w.excess = max(w.excess, w.admitted.pour(w.now, n)-float64(w.limit.Burst))
}
