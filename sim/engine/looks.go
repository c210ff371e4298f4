package engine

import (
	"cmp"
	"slices"

	"github.com/seed13b07268/ration/lease"
)

// looks are at where slots are, once a second: sums over them, in slots.
type looks struct {
	n                             int
	all, used, idle, pool         float64 // idle ones are in processes
	aside, crashed, unused, other float64 // aside are those that a process no longer has, or not yet
}

// tokens is where the slots were in so many seconds, in slot-seconds.
func (l *looks) tokens(seconds float64) Tokens {
	each := seconds / float64(max(l.n, 1))
	return Tokens{
		Supply: l.all * each, Admitted: l.used * each, PoolSpilt: l.pool * each, Spilt: l.idle * each,
		Messages: l.aside * each, Forfeited: l.crashed * each, Other: l.other * each,
		IdealSpilt: l.unused * each,
	}
}

// look looks at where slots are, if that is what the limit is.
func (m *meter) look() {
	if m.scenario.Load.Hold == nil || m.blind || m.now <= m.begins {
		return
	}
	held := map[*key]map[string]lease.Lease{} // by holder
	for _, c := range present(m.cells) {
		if held[c.key] == nil {
			held[c.key] = map[string]lease.Lease{}
		}
		held[c.key][c.process.holderOf(c.life)] = c.entry.Lease(m.now)
	}
	m.looks.n++
	for _, k := range present(m.keys) {
		if k.opened >= 0 {
			m.looks.add(k.ledger.View(), held[k])
			m.looks.unused += max(k.ideal.Tokens(m.now), 0)
		}
	}
}

// add counts the slots of a key, by its ledger and by what its holders have.
func (l *looks) add(v lease.View, held map[string]lease.Lease) {
	all := float64(v.Limit.Burst)
	l.all += all
	l.pool += v.Pool
	l.other += all - v.Pool
	for _, h := range v.Holders {
		x, lives := held[h.ID]
		switch aside := h.Burst - x.Tokens - x.Reserved; {
		case !lives:
			l.crashed += h.Burst
			l.other -= h.Burst
		case aside > 0:
			l.aside += aside
			l.other -= aside
		}
	}
	for _, x := range held { // whole numbers: in any order
		l.idle += x.Tokens
		l.used += x.Reserved
		l.other -= x.Tokens + x.Reserved
	}
}

// lineUp lets callers who wait now queue at the ideal limits, too, as far as these serve them in
// time, whether or not they have admitted them: what the fleet gives them will be counted, so it is
// there for nobody else. Where nobody is patient, those who wait are served by an answer that is
// under way: what the fleet has is without their tokens already.
func (m *meter) lineUp() {
	if m.patience == 0 && m.scenario.Load.Hold == nil {
		return
	}
	var list []waiting
	for _, c := range present(m.cells) {
		list = append(list, c.waiting...)
	}
	slices.SortStableFunc(list, func(a, b waiting) int { return cmp.Compare(a.At, b.At) })
	for i := range list {
		q := &list[i].request
		m.keys[q.Key].idealOf(q).Take(m.now, float64(q.Cost), q.Hold)
	}
}
