package lease

import "time"

// Where costs are known afterwards, callers look, and charge what a request has cost. A class that
// has used more than it may spend owes the rest: its part of the lease pays as it comes, and until
// then the class is denied. Other classes have theirs meanwhile, as a debt of all would not let
// them (TestClassReports). Where an answer brings no lease that refills there are no parts, and the
// debt is one of all. Were it told before, the holder would ask for no lease (debts.first).

// owesApart is how many times what its lease may hold a class owes apart at most. With the default
// BurstShare all processes together do not owe more than the Burst for each class. The ledger is
// told of the rest.
const owesApart = 2.0

// charge makes n tokens a debt of the class that asks. Without contention the pool pays what it
// has.
func (s *classedHolder) charge(h *Holder, n float64) {
	s.owes[s.asking] += n
	s.repay(h)
	told := 0.0
	if h.paysByClass() {
		told = s.owes[s.asking] - float64(owesApart*h.burst)
	}
	if !h.contended {
		told = max(told, s.left(h, h.at)-h.debts.owed())
	}
	s.share(h, s.asking, told)
}

// owe: the ledger is told of a debt, and of no class.
func (s *classedHolder) owe(float64)           {}
func (s *classedHolder) forgiven(float64)      {}
func (s *classedHolder) released(int, float64) {}

// pays: a lease by class has parts for what classes owe.
func (s *classedHolder) pays(h *Holder) bool { return !h.paysByClass() }

// repay pays what classes owe from what they may spend, but not while an answer is served from.
func (s *classedHolder) repay(h *Holder) {
	if s.granted > 0 {
		return
	}
	asking := s.asking
	for c, owes := range s.owes {
		if owes > 0 {
			s.asking = c
			paid := min(owes, s.credited(h, c, true))
			s.owes[c] -= paid
			h.spend(paid)
		}
	}
	s.asking = asking
}

// share makes up to most of what a class owes a debt of all.
func (s *ranks) share(h *Holder, class int, most float64) {
	if n := min(s.owes[class], most); n > 0 {
		s.owes[class] -= n
		h.owe(n)
	}
}

// shareDebts makes what classes owe a debt of all.
func (h *Holder) shareDebts() {
	if h.classed {
		s := h.ranks()
		for c, owes := range s.owes {
			s.share(h, c, owes)
		}
	}
}

// paysByClass reports whether a lease may pay what classes owe. Then a debt of which the ledger was
// told denies nobody: the ledger lends less until it is paid, and floors first.
func (h *Holder) paysByClass() bool { return h.classed && h.shape.Refills() && h.leased(h.at) }

func (s *classedHolder) untold(h *Holder) bool {
	return !h.paysByClass() && h.Owed() > h.debts.owed()
}

// forgive lets n tokens go of what the class that asks owes, as far as it does.
func (s *ranks) forgive(n float64) (forgiven float64) {
	forgiven = min(n, s.owes[s.asking])
	s.owes[s.asking] -= forgiven
	return forgiven
}

// level is how much of the limit's level the class that asks may have: what it may spend of the
// lease, and of the pool what it was not denied.
func (s *classedHolder) level(h *Holder, level float64) float64 {
	own := s.usable(h, s.asking)
	level -= h.tokens
	if h.paysByClass() {
		level = max(level, 0)
	}
	if d := h.denied(uint8(s.asking)); h.at < d.until {
		level = min(level, max(d.least-1-own, 0))
	}
	return level + own
}

// resetAfter goes by what the class that asks owes, too.
func (s *classedHolder) resetAfter(h *Holder, now time.Duration) time.Duration {
	return s.bucketHolder.resetAfter(h, now) + seconds(s.owes[s.asking]/h.limit.Rate)
}

// Looked is for a look of the class that asks. One that was denied is demand, a request of the mean
// cost of those before: else nobody would know that the class wants more. While others are served,
// and have not told what they cost, it is no silence. Without classes a look counts nothing.
func (h *Holder) Looked(now time.Duration, denied bool) {
	if now = h.advance(now); !h.classed {
		return
	}
	s := h.ranks()
	m := &s.meters[s.asking]
	h.meter.measure(now)
	m.measure(now)
	if h.meter.last = now; denied && m.cost > 0 {
		h.offered(now, m.cost)
	}
	h.arm(now)
}
