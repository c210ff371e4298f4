package lease

import "time"

// A classedQuota spends a quota whose requests have classes. Of the tokens of a lease some are
// lent for a class, as a part of its floor. The others are for whoever comes first. A class spends
// its own first, and leaves what is lent for other classes, whatever their rank.
type classedQuota struct {
	quotaHolder
	ranks
	own  [MaxClasses]float64 // of the tokens held, those lent for a class
	keep [MaxClasses]float64 // those that it may keep, as last replied
	kept [MaxClasses]float64 // those that the pool kept for it, as last replied
	told bool                // a request has told of these classes
	row  [MaxClasses]uint8   // denials of a class in a row

	// owed is what classes owe that no request has carried, and carried what of debts.carried is.
	owed, carried [MaxClasses]float64

	// back is what goes back to the account of each class with the next request, less what the
	// class has spent of others' and nobody's. What a lost request told is not told again: the class
	// has had it.
	back [MaxClasses]float64
}

// classQuota: the window is the same, and what is held is nobody's.
func classQuota(was spending, s ranks) classed {
	return &classedQuota{quotaHolder: was.(interface{ quota() quotaHolder }).quota(), ranks: s}
}

// divides: each class has its own tokens.
func (s *classedQuota) divides(*Holder) bool { return true }

// usable: all but what is lent for others. What is nobody's is for callers of higher classes first.
func (s *classedQuota) usable(h *Holder, class int) float64 {
	if h.queue.above(uint8(class)) {
		return min(s.own[class], h.tokens)
	}
	return max(h.tokens-s.lent()+s.own[class], 0)
}

// lent is how much of what is held is lent for classes.
func (s *classedQuota) lent() (sum float64) {
	for _, own := range s.own {
		sum += own
	}
	return sum
}

func (s *classedQuota) pay(_ *Holder, n float64) {
	own := min(n, s.own[s.asking])
	s.own[s.asking] -= own
	s.back[s.asking] -= n - own
}

// charge: what the class may spend pays. The rest is a debt of all that the class has had.
func (s *classedQuota) charge(h *Holder, n float64) {
	paid := min(n, s.usable(h, s.asking))
	h.spend(paid)
	if n > paid {
		h.owe(n - paid)
	}
}

func (s *classedQuota) owe(n float64) { s.owed[s.asking] += n }

// forgiven takes what the class that asks owes first, and then from the lowest on.
func (s *classedQuota) forgiven(n float64) {
	take := func(c int) {
		paid := min(n, s.owed[c])
		s.owed[c] -= paid
		n -= paid
	}
	take(s.asking)
	for c := len(s.classes) - 1; c >= 0; c-- {
		take(c)
	}
}

// released: the class has had them.
func (s *classedQuota) released(class int, n float64) { s.own[class] += n }

// unspend: the class has had what comes back.
func (s *classedQuota) unspend(h *Holder, n float64) float64 {
	before := h.tokens
	back := s.quotaHolder.unspend(h, n)
	s.own[s.asking] += h.tokens - before
	return back
}

// pays: what there was to pay with has been spent by charge.
func (s *classedQuota) pays(*Holder) bool { return false }

func (s *classedQuota) drop() float64 {
	s.own = [MaxClasses]float64{}
	return s.quotaHolder.drop()
}

// handBack takes what the next request gives back from what is lent for classes: all above what
// they may keep, and then, from the lowest class on, what is not there any more.
func (s *classedQuota) handBack(h *Holder, quit bool) float64 {
	over := max(min(h.all()-h.keep, h.tokens), 0)
	left := h.tokens - over
	for c := range s.classes {
		back := min(over, max(s.own[c]-s.keep[c], 0))
		s.own[c] -= back
		s.back[c] += back
		over -= back
	}
	for c, back := range s.fit(left) {
		s.back[c] += back
	}
	return s.quotaHolder.handBack(h, quit)
}

// fit takes what is not there from what is lent for classes, from the lowest on.
func (s *classedQuota) fit(most float64) (gone [MaxClasses]float64) {
	over := s.lent() - most
	for c := len(s.classes) - 1; c >= 0 && over > 0; c-- {
		gone[c] = min(over, s.own[c])
		s.own[c] -= gone[c]
		over -= gone[c]
	}
	return gone
}

// tell names what of a lease is lent for classes. What was so in another window does not count.
func (s *classedQuota) tell(h *Holder, now time.Duration, q Request, quit bool) Request {
	q = s.ranks.tell(h, now, s.quotaHolder.tell(h, now, q, quit))
	if q.Debt > 0 {
		if q.Since > h.talk.seq { // this request is the first that carries it
			s.carried, s.owed = s.owed, [MaxClasses]float64{}
		}
		q.ByClass.Debt = s.carried
	}
	if h.at < s.window.last {
		q.ByClass.Own, q.ByClass.Back = s.own, s.back
	}
	s.back, s.told = [MaxClasses]float64{}, true
	return q
}

// answer: what was taken for callers is lent for their class. What classes have spent of a window
// that is over is told no more.
func (s *classedQuota) answer(h *Holder, now time.Duration, r Reply) float64 {
	if now >= s.window.last {
		s.back = [MaxClasses]float64{}
	}
	taken := s.quotaHolder.answer(h, now, r)
	if s.first != nobody {
		s.own[s.first] += taken
	}
	if p := r.Portions; p != nil && s.told {
		for c, add := range p.Add {
			s.own[c] += add
		}
		s.keep, s.kept = p.Keep, p.Kept
	}
	return taken
}

// earn: answer has said whose the tokens are.
func (s *classedQuota) earn(*Holder, float64) {}

// returned: what was taken for callers that have gone may have found no room.
func (s *classedQuota) returned(h *Holder, now time.Duration) {
	s.fit(h.tokens)
	s.quotaHolder.returned(h, now)
}

// refuse: a denial is of the class that was asked for, and lasts though others have an answer.
// While others hold tokens the ledger does not know whether the class may have any of these. A class
// that is denied in a row asks less and less often, at least each MaxHold: else it would ask each
// MaxRefresh, for weeks of a month. It also asks after an eighth of what the window has left
// (TestQuotaClassDeniedInARow).
func (s *classedQuota) refuse(h *Holder) {
	if s.first == nobody {
		return
	}
	d, row := h.denial, &s.row[s.first]
	if wait := d.until - h.at; wait > 0 && d.until < s.window.ends {
		longest := min(h.policy.MaxHold, (s.window.ends-h.at)/8)
		d.until += max(min(wait<<*row, longest)-wait, 0)
		*row = min(*row+1, 20)
	} else {
		*row = 0
	}
	s.denials[s.first] = d
}

func (s *classedQuota) refills(*Holder, time.Duration) time.Duration { return never }

// level leaves what is others'.
func (s *classedQuota) level(h *Holder, level float64) float64 {
	level -= s.others(h)
	if d := h.denied(uint8(s.asking)); h.at < d.until {
		level = min(level, max(d.least-1, s.usable(h, s.asking)))
	}
	return level
}

// comes: nothing of what is others' comes to the class that asks.
func (s *classedQuota) comes(h *Holder, now time.Duration, n float64) time.Duration {
	return s.quotaHolder.comes(h, now, n+s.others(h))
}

// others is what is lent for the classes that do not ask, and what the pool kept for them.
func (s *classedQuota) others(h *Holder) (sum float64) {
	for c, class := range s.classes {
		kept := s.kept[c]
		if h.talk.seen == 0 || h.at >= s.window.ends {
			kept = class.floorOf(float64(h.InForce().Burst))
		}
		if c != s.asking {
			sum += kept + s.own[c]
		}
	}
	return sum
}
