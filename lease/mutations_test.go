package lease_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A mutation takes one rule away.
type mutation struct {
	invariant, rule string
	file, old, new  string
	tests           string // with blanks between
}

// mutations take one rule of the protocol away each. The tests that guard the
// invariant must then fail: a test that passes without the rule is none. Where a rule
// keeps no invariant, taking it out costs tokens, calls or fairness.
var mutations = []mutation{
	{"I1", "nothing is added while a request is unanswered", "ask.go",
		"	h.running = false\n", "", "TestInvariants TestExplore"},
	{"cost", "what was lent and did not arrive comes back", "ledger.go",
		"back := q.Give + max(min(missed, r.burst-above(q.Peak)), 0)", "back := q.Give",
		"TestWhatDidNotArriveComesBack TestMissedFits TestTable/100000"},
	{"I3", "what came does not come back", "ledger.go",
		"missed = max(missed-q.Got, 0)", "missed = max(missed-0*q.Got, 0)", "TestInvariants TestMissedFits"},
	{"cost", "if the last answer was seen, all else does", "ledger.go",
		"missed := r.add + r.accrued(a.at)", "missed := 0 * (r.add + r.accrued(a.at))", "TestWhatDidNotArriveComesBack"},
	{"I1", "it comes back as far as there was room beside what was held", "ledger.go",
		"r.burst-above(q.Peak)", "r.burst-above(0*q.Peak)", "TestInvariants TestMissedFits TestRefundFits"},
	{"I1", "what an answer adds takes up room from when its request left", "reply.go",
		"r.Add, h.held+r.Add", "r.Add, r.Add", "TestPeak TestInvariants"},
	{"I1", "so does what was taken for those who have gone", "reply.go",
		"		h.unclaimed += over\n	}\n	h.peak = max(h.peak, h.tokens+h.reserved)\n", "		h.unclaimed += over\n	}\n", "TestPeak"},
	{"I3", "what overflowed has come", "holder.go",
		"h.got += added", "h.got += min(added, h.burst-h.tokens)", "TestPeak"},
	{"I1", "what is reserved keeps its room", "holder.go",
		"over := h.tokens + h.reserved - h.burst; over > 0 {\n		h.tokens = h.burst - h.reserved\n		h.spilt", "over := h.tokens - h.burst; over > 0 {\n		h.tokens = h.burst - h.reserved\n		h.spilt", "TestInvariants TestExplore/reservations"},
	{"I1", "the ledger hears of what is reserved", "ask.go",
		"q.Take, q.Min, q.Unit = h.need()\n	q.Hold = h.queue.reserving > 0\n	q.Held, q.Got, q.Peak = h.tokens+h.reserved,", "q.Take, q.Min, q.Unit = h.need()\n	q.Hold = h.queue.reserving > 0\n	q.Held, q.Got, q.Peak = h.tokens,", "TestInvariants TestExplore/reservations"},
	{"I1", "what is lent to be reserved has room", "reserve.go",
		"a.burst = max(a.burst, above(a.held))", "a.burst = max(a.burst, 0*above(a.held))", "TestForfeited"},
	{"I1", "what finds none was taken for good", "reserve.go",
		"	if !fits {", "	if !fits && false {", "TestExplore/reservations"},
	{"I1", "a surplus is what is above the tokens that are reserved", "ask.go",
		"max(h.keep-h.reserved, 0)", "max(h.keep-0*h.reserved, 0)", "TestSurplusBesideReserved"},
	{"I2", "what is reserved is spent when the lease ends", "holder.go",
		"		h.endReserves()\n", "", "TestInvariants TestExplore/reservations"},
	{"I3", "a refund goes to the lease that it is of", "reserve.go",
		"	if r.lease != h.lease {\n		return\n	}\n", "", "TestForfeited TestExplore/reservations"},
	{"cost", "a lease with reservations is renewed, though nobody uses it", "agenda.go",
		"h.shape.lapses() && h.reserved == 0", "h.shape.lapses()", "TestExplore/reservations"},
	{"cost", "it is not idle", "status.go",
		"h.shape.lapses() && h.reserved == 0", "h.shape.lapses()", "TestLongBatchIsKept"},
	{"cost", "nor parked", "park.go",
		"h.reserved == 0 && h.owed() == 0", "h.owed() == 0", "TestLongBatchIsKept"},
	{"I3", "neither is one with a debt", "park.go",
		"h.reserved == 0 && h.owed() == 0", "h.reserved == 0", "TestLongBatchIsKept"},
	{"I3", "a holder with a debt is not idle", "status.go",
		"h.queue.len() == 0 && h.owed() == 0 && free", "h.queue.len() == 0 && free", "TestDebtOutlivesIdleness"},
	{"I3", "and does not quit without it", "ask.go",
		"(h.holds(now) || now >= h.Retry(now))", "h.holds(now)", "TestDebtOutlivesIdleness"},
	{"I3", "a debt is debited, however often its request is lost", "reserve.go",
		"if r == nil || float64(q.Since) > r.seq {", "if r == nil || float64(q.Since) == float64(q.Seq) {", "TestDebtIsPostedOnce TestInvariants TestExplore/debts"},
	{"cost", "and once", "reserve.go",
		"if r == nil || float64(q.Since) > r.seq {", "if r == nil || true {", "TestDebtIsPostedOnce TestExplore/debts"},
	{"I3", "one that was carried goes again as it was", "reserve.go",
		"if h.carried == 0 && h.debt > 0 {", "if h.debt > 0 {", "TestExplore/debts"},
	{"cost", "one that an answer confirms does not", "reserve.go",
		"h.carried, h.since = 0, 0", "_ = 0", "TestExplore/debts"},
	{"I3", "an answer by another kind of limit confirms none", "reserve.go",
		"if !h.turned && frameOf(r.Limit) == frameOf(h.limit) {", "if true {", "TestDebtOfAnotherKind"},
	{"cost", "but not again and again while another kind of limit is in force", "reserve.go",
		"case h.carried > 0 && h.failed.row == 0:", "case false:", "TestDebtOfAnotherKind"},
	{"I3", "a debt is told at once", "reserve.go",
		"	return now\n}\n\n// endReserves", "	return now + time.Second\n}\n\n// endReserves", "TestExplore/debts"},
	{"I1", "nothing is admitted with a debt", "holder.go",
		"h.queue.len() == 0 && !h.indebted() && h.tokens >= n", "h.queue.len() == 0 && h.tokens >= n", "TestExplore/debts"},
	{"I1", "nor before the pool is at zero", "reserve.go",
		"return h.owing || h.owed() > 0", "return h.owed() > 0", "TestExplore/debts"},
	{"I1", "what is given back pays first", "reserve.go",
		"	h.tokens += back\n	h.pay()\n", "	h.tokens += back\n", "TestExplore/debts"},
	{"I1", "nothing is lent to a holder with a debt", "ask.go",
		"quit || h.indebted() || h.crowdedOut", "quit || h.crowdedOut", "TestDebtIsPaidFirst TestExplore/debts"},
	{"I3", "a parked holder knows what came", "park.go",
		"got: p.got, ", "", "TestPark"},
	{"I1", "and how much was there", "park.go",
		"peak: p.peak,", "", "TestPark"},
	{"cost", "the rate of a lease that has ended comes back as well", "bucket.go",
		"	return float64(r.rate*(min", "	if r.ended {\n		return 0\n	}\n	return float64(r.rate*(min", "TestWhatDidNotArriveComesBack"},
	{"I2", "a life counts from before the request was sent", "reply.go",
		"h.expires = h.sent + early(r.Expires)", "h.expires = h.at + early(r.Expires)", "TestInvariants TestExplore"},
	{"I2", "so does the rate's", "reply.go",
		"h.rateUntil = h.sent + early(r.RateUntil)", "h.rateUntil = h.at + early(r.RateUntil)", "TestInvariants TestExplore"},
	{"I1", "what is spent without asking took up room until it is told", "spare.go",
		"	if now > h.at {\n		h.refill(now)\n	}\n	h.tokens -= admitted\n", "	h.tokens -= admitted\n	if now > h.at {\n		h.refill(now)\n	}\n", "TestSpareFitsTheLease"},
	{"I2", "nothing is spared beyond the lease", "spare.go",
		"min(h.expires, h.next.wake, h.next.look)", "min(h.next.wake, h.next.look)", "TestSpareEnds"},
	{"I2", "a margin for slow clocks", "reply.go",
		"return d - time.Duration(float64(d)*drift)", "return d", "TestInvariants TestExplore"},
	{"I2", "tokens die with the lease", "holder.go",
		"		h.expired += h.tokens\n		h.tokens = 0\n", "", "TestInvariants TestExplore"},
	{"I2", "self-refill ends with the rate", "holder.go",
		"float64(min(now, h.rateUntil)-h.at)", "float64(now-h.at)", "TestInvariants TestSpendsAndRefills"},
	{"I2", "a shorter life counts only once it has been heard of", "term.go",
		"max(a.granted, a.left)", "max(a.granted, 0*a.left)", "TestInvariants"},
	{"I2", "a holder may spend until the lease that it claims ends", "ledger.go",
		"a.left = min(r.expires()-a.at, claimed)", "a.left = min(r.expires()-a.at, 0*claimed)", "TestInvariants"},
	{"cost", "a denial under a lower limit ends soon after that", "reply.go",
		"retry = min(retry, h.policy.MaxRefresh)", "retry = max(retry, 0*h.policy.MaxRefresh)", "TestDenialEndsWithTheLowerLimit"},
	{"cost", "those who wait are demand", "ask.go",
		"backlog := h.backlog(now)", "backlog := 0 * h.backlog(now)", "TestQueuesAreDemand"},
	{"cost", "who is too small for a lease and has callers that wait asks for none", "ask.go",
		"return p.Mode != Batches && backlog", "return false && backlog", "TestQueuesAreDemand"},
	{"cost", "a longer life of before does not count for ever", "ledger.go",
		"a.left = min(r.expires()-a.at, claimed)", "a.left = max(r.expires()-a.at, claimed)", "TestLongLifeIsForgotten"},
	{"I3", "a repeat changes nothing", "ledger.go",
		"float64(q.Seq) <= r.seq", "float64(q.Seq) < r.seq", "TestInvariants TestRepeatAndStale"},
	{"I3", "a request that was overtaken changes nothing", "ledger.go",
		"float64(q.Seq) <= r.seq", "float64(q.Seq) == r.seq", "TestInvariants"},
	{"I3", "no more comes back than was set aside", "ledger.go",
		"min(back, r.burst-above(q.Held))", "back", "TestInvariants TestMissedFits"},
	{"I4", "who holds more than was set aside for it owes it to the pool", "ledger.go",
		"min(back, r.burst-above(q.Held))", "min(back, max(r.burst-above(q.Held), 0))", "TestForgottenLease"},
	{"I3", "nothing comes back from a lease that has ended", "ledger.go",
		"l.pool -= above(a.held)\n", "l.pool += q.Give - above(a.held)\n", "TestGiveAfterEnd"},
	{"I3", "a holder takes only the answer to its last request", "reply.go",
		"if !h.out || r.Seq != h.seq {", "if !h.out {", "TestInvariants TestExplore"},
	{"I4", "rates are divided", "divide.go",
		"quantize(min(target, l.rate-l.rates))", "quantize(target)", "TestInvariants TestExplore"},
	{"I4", "bursts are divided", "divide.go",
		"min(lend*a.share, most, lend-l.bursts)", "min(lend*a.share, most, lend)", "TestInvariants"},
	{"I4", "never below what is held", "divide.go",
		"a.burst = max(a.burst, a.floor)", "a.burst = max(a.burst, 0*a.floor)", "TestInvariants TestExplore"},
	{"I4", "the pool makes room for what is lent", "bucket.go",
		"room := max(l.burst-l.bursts, min(l.pool, 0))", "room := l.burst", "TestInvariants TestExplore"},
	{"I4", "the lowest of several limits is what is divided", "limits.go",
		"l.rate, l.burst = min(l.rate, d.rate), min(l.burst, d.burst)", "_ = d.rate", "TestLowestOfBoth"},
	{"cost", "a raised limit is in force", "limits.go",
		"l.rate, l.burst, first = d.rate, d.burst, false", "first = false", "TestRaised"},
	{"I6", "a bucket that has been in use does not start full", "kind.go",
		"if q.Claim.Left == 0 || l.kind == KindQuota {", "if true {", "TestAdoption TestExplore"},
	{"I6", "what is held is debited when a claim is adopted", "ledger.go",
		"	l.pool -= above(a.held)\n", "", "TestAdoption"},
	{"I6", "so is what the lost lease has refilled since", "ledger.go",
		"l.pool -= float64(q.Claim.Rate*age) / 1e6", "", "TestAdoption"},
	{"I6", "a state that has lost answers gives nothing of them back", "ledger.go",
		"		missed = 0 // it", "		_ = 0 // it", "TestRolledBack"},
	{"cost", "an earmark for nearly all of the Burst ends soon", "earmark.go",
		"if l.earmark*2 > l.burst {", "if false {", "TestEarmarkOfOneThatIsGone"},
	{"cost", "a lowered Burst lowers it", "ledger.go",
		"	l.earmark = min(l.earmark, l.burst)", "	if l.earmark > l.burst {\n		l.earmark = 0\n	}", "TestEarmarkFollowsTheLimit"},
	{"cost", "large requests are served where nobody owns a slice, too", "earmark.go",
		"first && l.rates == 0 && l.pool*few >= q.Min", "first && l.rates == 0", "TestEarmarkWithoutSlices"},
	{"cost", "the first process to ask does not get all", "divide.go",
		"max(lend*target/l.rate, float64(p.Batch))", "lend", "TestFirstTakesNotAll"},
	{"cost", "but what its way needs, when it comes back", "divide.go",
		"	if a.was > 0 {", "	if false {", "TestFarAndAlone"},
	{"cost", "holders come back later while nobody is in need", "divide.go",
		"if l.unrest < laterUnrest && l.calm(", "if false && l.calm(", "TestComesBackLater"},
	{"cost", "and not while demand shifts", "divide.go",
		"if l.unrest < laterUnrest && l.calm(", "if l.calm(", "TestComesBackLater"},
	{"cost", "what few requests do by chance is no unrest", "divide.go",
		" && shift*micros(p.MaxRefresh) >= float64(p.Smallest)*1e6 {", " {", "TestFewRequestsAreNoUnrest"},
	{"cost", "few requests tell little", "demand.go",
		"const doubt = 0.25", "const doubt = 1e-9", "TestDemandFromTheStart"},
	{"cost", "calm keys lend no more than a flash may miss", "long.go",
		"half := min(float64(lend*calmLent), missed)", "half := max(float64(lend*calmLent), 0*missed)", "TestFlashAfterCalm"},
	{"cost", "a part of the pool is kept for those without a slice", "ledger.go",
		"a.scarce = float64(p.Reserve *", "a.scarce = float64(0 *", "TestTable/100/s"},
	{"cost", "a slice is lent for long only while little is wanted", "long.go",
		"!l.calm(sum, steadyDemand,", "!l.calm(sum, 1,", "TestSteady"},
	{"cost", "who has it for long gives it back when its traffic has gone", "agenda.go",
		"!h.contended && !h.shape.Long():", "!h.contended:", "TestSteadyHolder"},
	{"cost", "silence is information", "agenda.go",
		"silence = 10", "silence = 1e9", "TestTable/of_1_s"},
	{"cost", "that part is no more than they may need", "ledger.go",
		"a.spared = min(a.scarce, float64(others*micros(p.MaxRefresh))/1e6)", "a.spared = a.scarce + 0*others", "TestTable/offered_2_r"},
	{"cost", "who holds more than others needs less", "divide.go",
		"target = min(target, max(a.demand+float64((above-a.held)*1e6)/refresh, 0))", "_ = above", "TestLevels"},
	{"cost", "no slice flows through its sub-bucket during an exchange", "divide.go",
		"float64(a.trips()*rate*micros(q.Lag))/1e6", "0*rate", "TestFar"},
	{"cost", "but one that exists is not taken back at once", "divide.go",
		"if !a.leased {", "if true {", "TestFar"},
	{"cost", "what pauses while others need it is lent less readily", "divide.go",
		"	if a.contended {\n		trips *= 2\n	}\n", "", "TestFar"},
	{"cost", "nobody is denied while the pool has something", "holder.go",
		"h.out && h.dry && h.holds(now)", "h.out && h.contended && h.holds(now)", "TestDeniesWhenDry"},
	{"cost", "requests of several sizes are served together", "queue.go",
		"!h.dry && h.denial.until == 0", "false && h.denial.until == 0", "TestTakesAllSizes"},
	{"cost", "but not where a remainder is likely", "queue.go",
		"!h.dry && h.denial.until == 0", "h.denial.until == 0", "TestTakesAllSizes"},
	{"cost", "one slow exchange is not the usual one", "ask.go",
		"return h.trip + 2*h.off", "return h.trip + 4*h.off", "TestLag"},
	{"cost", "a sub-bucket is filled by half", "ledger.go",
		"filled = 0.5", "filled = 1", "TestLevels"},
	{"cost", "who is too small for a lease asks for what it is due", "term.go",
		"a.retry = l.turn(a, q, scarce)", "a.retry = 0", "TestTurn"},
	{"cost", "and is back before the pool is full", "term.go",
		"min(wait, full, micros", "min(wait, 0*full+wait, micros", "TestTurnBeforeFull"},
	{"cost", "by the time of an exchange", "term.go",
		"full-float64(fewTrips*2*micros(q.Lag))", "full-float64(0*micros(q.Lag))", "TestTurnBeforeFull"},
	{"cost", "Policy.Batch and Smallest count requests", "ask.go",
		"float64(n)*max(h.meter.cost, 1)", "float64(n)", "TestPolicyCountsRequests"},
	{"cost", "a lease is for one request in MaxRefresh and more", "agenda.go",
		"h.meter.demand()*h.policy.MaxRefresh.Seconds() < h.meter.cost", "h.meter.demand()*h.policy.MaxRefresh.Seconds() < h.meter.cost/2", "TestWorthALease"},
	{"cost", "in unrest everybody comes back sooner", "term.go",
		"haste = 1.5", "haste = 0", "TestTable/of_1_s"},
	{"cost", "a batch that cannot be filled is not asked for again and again", "agenda.go",
		"h.sent+1", "0*h.sent", "TestLowAsksOnce"},
	{"I6", "a claim is believed as long as a calm key's batch may live", "ledger.go",
		"min(micros(q.Claim.Left), l.ends.width*era)", "min(micros(q.Claim.Left), l.ends.width*reach)", "TestCalmClaim"},
	{"I6", "a slice that is handed back is debited as well", "ledger.go",
		"age < l.ends.width*longestTerm {", "age < micros(q.Policy.MaxHold)/6+micros(q.Policy.MaxRefresh) {", "TestQuitAfterLoss"},
	{"cost", "lives longer than the calendar's slots are counted by eras", "ends.go",
		"if end-r.at <= c.width*reach {", "if true {", "TestCalmEndIsNoticed"},
	{"cost", "a slot is as wide as eras need it", "ends.go",
		"return max(math.Floor(micros(p.MaxRefresh)/4), math.Ceil(micros(p.MaxHold)/era))", "return math.Floor(micros(p.MaxRefresh) / 4)", "TestCalmWidth"},
	{"cost", "a key is calm while demand is low", "long.go",
		"!l.calm(sum, calmDemand,", "!l.calm(0*sum, calmDemand,", "TestCalmBatch"},
	{"cost", "and its pool nearly full", "long.go",
		" && left >= float64((l.burst-l.bursts)*calmPool)", "", "TestCalmBatch"},
	{"cost", "a calm key's batch is a small part of the pool", "long.go",
		"smallest*calmMost, left*calmBatch)", "smallest*calmMost, left)", "TestCalmBatch"},
	{"cost", "a raised limit waits for those who declare the lower one", "limits.go",
		"l.rate, l.burst = min(l.rate, d.rate), min(l.burst, d.burst)", "l.rate, l.burst = d.rate, d.burst", "TestLowestOfBoth"},
	{"I4", "and goes when they do", "ends.go",
		"l.limits.leave(r.limit)", "_ = r.limit", "TestLimitGoesWithItsRecord"},
	{"cost", "nobody waits behind one who asks for more than the Burst in force", "reply.go",
		"case h.queue.first() > float64(h.InForce().Burst):", "case false:", "TestAboveLimitInForce"},
	{"cost", "a crowd comes back less often", "term.go",
		"micros(p.MinRefresh), lag, crowd)", "micros(p.MinRefresh), lag+0*crowd)", "TestCrowd"},
	{"cost", "what was not sent is asked for after a pause", "ready.go",
		"	h.failed.renew = max(h.failed.renew, now+h.jitter(putOff))\n", "", "TestPutOff"},
	{"I2", "a parked batch is not spent after its end", "park.go",
		"if now >= p.expires {", "if false {", "TestPark"},
	{"cost", "who holds more brings it back first", "long.go",
		"if batch < a.held {", "if false {", "TestCalmHandsBack"},
	{"cost", "all of them are half of what may be lent", "long.go",
		"min(float64(lend*calmLent), missed)", "min(lend, missed)", "TestCalmBatch"},
	{"cost", "in parts by demand, so that all can have one", "long.go",
		"most = min(half*a.demand/sum, lend-l.bursts)", "_ = sum", "TestCallsOfCalmKeys"},
	{"cost", "a busy process lives on a slice", "long.go",
		"	if used >= smallest {", "	if false {", "TestCalmBatch"},
	{"cost", "nobody comes back for a calm key's batch that is not used", "agenda.go",
		"since: used,", "since: 0*used,", "TestCalmBatchLapses"},
	{"cost", "requests renew it ahead of its end", "reply.go",
		"return refresh / 4 * 3", "return refresh / 4 * 5", "TestCalmBatchIsRenewedAhead"},
	{"cost", "a stream is measured before it gets one", "ask.go",
		"!measured && h.seq > 0:", "!measured && h.seq > 1e9:", "TestCalmNeedsMeasuring"},
	{"cost", "its holder hears of another limit", "agenda.go",
		"return now + h.policy.MaxRefresh", "return never", "TestCalmHolderHearsOfLimit"},
	{"cost", "and tells the ledger", "holder.go",
		"h.refresh = min(h.refresh, h.arrivals.last)", "_ = h.arrivals.last", "TestCalmHolderHearsOfLimit"},
	{"cost", "demand is measured over a second", "demand.go",
		"slowMemory = time.Second", "slowMemory = fastMemory", "TestDemandIsSteady"},
	{"cost", "but what has changed is believed at once", "demand.go",
		"m.slow = m.fast", "m.slow = average{m.slow.tokens, m.slow.span}", "TestDemandFollows"},
	{"cost", "it is right from the first moment", "demand.go",
		"func (a *average) over() float64 { return max(a.span, shortest) }", "func (a *average) over() float64 { return fastMemory.Seconds() }", "TestDemandFromTheStart"},
	{"cost", "a pause ends what has been measured", "demand.go",
		"expected > 0 && expected >= silence*m.cost", "expected < 0", "TestDemandAfterAPause"},
	{"cost", "requests that came all at once have not lasted", "ask.go",
		"h.arrivals.last-h.arrivals.since < lasting", "now-h.arrivals.since < lasting", "TestClumpIsNoStream"},
	{"cost", "a denial looks at those in front again", "queue.go",
		"looked == front && w.seen", "looked == 0 && w.seen", "TestDenyAsOneByOne"},
	{"cost", "those that it passes over are ahead of newcomers", "queue.go",
		"if ahead, w = q.seen, q.latest.next;", "if w = q.latest.next;", "TestDenyAsOneByOne"},
	{"cost", "but for those that have gone", "queue.go",
		"		q.seen -= w.N\n", "", "TestDenyAsOneByOne"},
}

// quotaMutations are those of quotas.
var quotaMutations = []mutation{
	{"Q1", "what was held before the boundary is worth nothing", "quota.go",
		"a.was, a.marked = r.demand, r.marked || float64(q.Seen) >= r.seq", "a.was, a.marked = r.demand, true", "TestQuotaHeldBefore"},
	{"Q1", "a repeat of a message whose lease has ended gives nothing back", "quota.go",
		"case r != nil && float64(q.Seq) > r.seq:", "case r != nil:", "TestQuotaInvariants"},
	{"Q1", "an answer that has arrived does not come back", "quota.go",
		"if float64(q.Seen) < r.seq {", "if true {", "TestQuotaInvariants TestExplore"},
	{"cost", "one that was lost does", "quota.go",
		"if float64(q.Seen) < r.seq {", "if false {", "TestQuotaLostReply"},
	{"Q1", "no more comes back than was lent", "quota.go",
		"min(back, r.burst-above(a.held))", "back", "TestQuotaRolledBack"},
	{"Q1", "a lease ends with its window", "quota.go",
		"a.granted = min(float64(2*a.refresh)+lag, a.refills)", "a.granted = float64(2*a.refresh) + lag", "TestQuotaInvariants TestExplore"},
	{"Q1", "what was taken is spent in its window", "quota.go",
		"if now < h.window.last {", "if true {", "TestQuotaInvariants TestQuotaBoundary"},
	{"Q1", "which counts from before the request was sent", "quota.go",
		"last: sent + early(r.Window)", "last: now + early(r.Window)", "TestQuotaInvariants TestQuotaBoundary"},
	{"Q1", "with a margin for slow clocks", "quota.go",
		"last: sent + early(r.Window)", "last: sent + r.Window", "TestQuotaBoundary"},
	{"Q1", "what has been used stays used when a quota changes", "quota.go",
		"l.pool += float64(l.burst - was)", "l.pool += 0 * float64(l.burst-was)", "TestQuotaChanged"},
	{"Q1", "a window begins anew, and what is out has ended", "quota.go",
		"if l.at < start {", "if false {", "TestQuotaIsUsedUp"},
	{"I6", "what is held is debited when a claim is adopted", "quota.go",
		"	l.pool -= above(a.held)\n	}\n", "	}\n", "TestQuotaAdoption"},
	{"cost", "but not if it is of the window before", "quota.go",
		" && l.born >= start:", ":", "TestQuotaAdoption"},
	{"cost", "a lease is a part of what is left", "quota.go",
		"avail*quotaPart", "avail", "TestQuotaPart"},
	{"cost", "tokens come back when others were denied", "quota.go",
		"case a.dry && l.unrest > quotaHunger:", "case false:", "TestQuotaComesBack"},
	{"cost", "who was denied asks again while others hold tokens", "quota.go",
		"if l.bursts > 0 {", "if false {", "TestQuotaComesBack"},
	{"cost", "holders with few requests come back later while much is left", "quota.go",
		"longest = max(longest, calm)", "longest = max(longest, 0*calm)", "TestQuotaIsUsedUp"},
	{"cost", "requests after a boundary are spread", "quota.go",
		"8*(span-h.jitter(span))", "0*span", "TestQuotaSpread"},
	{"cost", "a denial that comes after the boundary is none", "quota.go",
		"case now >= h.sent+r.Window:", "case false:", "TestQuotaLateDenial"},
	{"cost", "whoever leaves a kind of limit makes way for another one", "kind.go",
		"	if r := l.holders[q.Holder]; r != nil {", "	if r := l.holders[q.Holder]; false {", "TestKindsChange"},
	{"Q1", "a kind is in force while anybody goes by it", "kind.go",
		"return len(l.holders) == 0", "return true", "TestKindsChange"},
	{"Q1", "what was held by one kind is not spent by another", "holder.go",
		"		h.forfeit()\n", "", "TestKindsChange"},
}

// slotsMutations are those of slots.
var slotsMutations = []mutation{
	{"S1", "slots are divided", "slots.go",
		"free := l.burst - l.bursts - a.held - l.earmark", "free := l.burst - a.held - l.earmark", "TestSlotsInvariants TestExplore/slots"},
	{"S1", "what is held stays set aside", "slots.go",
		"min(math.Ceil(q.Held), 2*MaxBurst-l.bursts)", "min(0*math.Ceil(q.Held), 2*MaxBurst-l.bursts)", "TestSlotsInvariants TestExplore/slots"},
	{"S1", "a holder is told a shorter life", "slots.go",
		"slotsTold = 15.0 / 16", "slotsTold = 1", "TestSlotsInvariants TestSlotsLife"},
	{"S1", "a shorter life counts only once it has been heard of", "slots.go",
		"a.life = max(a.life, a.left)", "a.life = max(a.life, 0*a.left)", "TestSlotsShorterLife"},
	{"S1", "a block outlives its refreshes", "slots.go",
		"max(micros(p.MaxHold), longest*slotsLife)", "max(micros(p.MaxHold), 0*longest*slotsLife)", "TestSlotsLife"},
	{"I6", "a holder that is not known is believed", "slots.go",
		"float64(q.Seq) > r.seq || q.Claim.Left > 0", "float64(q.Seq) > r.seq", "TestSlotsAdoption TestSlotsLostState"},
	{"S1", "each block has a larger fence", "slots.go",
		"	l.at++ // each", "	// each", "TestSlotsFence"},
	{"S1", "what was taken for jobs is in the block", "slots.go",
		"a.kept = a.taken\n	a.rate", "a.rate", "TestSlotsBlock"},
	{"cost", "a block is no more than the part of its holder", "slots.go",
		"keep = max(a.fair, 1)", "keep = max(a.demand, 1)", "TestSlotsContended"},
	{"cost", "idle slots are lent while there are enough", "slots.go",
		"keep += math.Floor(min(spare,", "keep += 0 * math.Floor(min(spare,", "TestSlotsBlock"},
	{"cost", "slots are kept for a large job", "slots.go",
		"a.marked, l.earmark = true, max(q.Min, 1)", "a.marked, l.earmark = false, 0*max(q.Min, 1)", "TestSlotsEarmark"},
	{"cost", "others are due less for it", "slots.go",
		"l.burst-l.earmark-l.low", "l.burst-0*l.earmark-l.low", "TestSlotsEarmark"},
	{"cost", "whoever has waited longest is next", "slots.go",
		"waited >= float64(l.unrest*slotsTurn)", "waited >= float64(0*l.unrest*slotsTurn)", "TestSlotsTurn"},
	{"cost", "a holder with all its slots in use comes back seldom", "slots.go",
		"case a.burst == a.rate && !denied:", "case false:", "TestSlotsRenewal"},
	{"cost", "idle slots go back", "slots.go",
		"h.keep = min(h.keep, max(h.usage.most, h.reserved+h.queue.sum))", "_ = h.usage.most", "TestSlotsReturned"},
	{"cost", "what may not be kept is not used again", "slots.go",
		"	h.tokens -= max(min(h.tokens+h.reserved-h.keep, h.tokens), 0)\n", "", "TestSlotsReturned"},
	{"cost", "and goes back at once if others wait", "slots.go",
		"		h.refresh = min(h.refresh, now)\n", "", "TestSlotsReturned"},
	{"cost", "also those that were let go while a request was under way", "slots.go",
		"fewer := h.tokens+h.reserved < h.burst", "fewer := false", "TestSlotsReturned"},
}

var mutate = flag.Bool("mutations", false, "run TestMutations")

// TestMutations copies the package, takes one rule away, and runs the tests
// that guard it.
func TestMutations(t *testing.T) {
	if !*mutate {
		t.Skip("builds the package once for each rule, about a minute: run it with -mutations, as CI does")
	}
	for _, m := range slices.Concat(mutations, quotaMutations, slotsMutations) {
		t.Run(m.invariant+" "+m.rule, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files, err := filepath.Glob("*.go")
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				if f == m.file {
					if strings.Count(string(text), m.old) != 1 {
						t.Fatalf("%q stands %d times in %s, want once", m.old, strings.Count(string(text), m.old), f)
					}
					text = []byte(strings.Replace(string(text), m.old, m.new, 1))
				}
				if err := os.WriteFile(filepath.Join(dir, f), text, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			mod := "module github.com/seed13b07268/ration/lease\n\ngo 1.26\n"
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o600); err != nil {
				t.Fatal(err)
			}
			for guard := range strings.FieldsSeq(m.tests) {
				test, row, _ := strings.Cut(guard, "/")
				run := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-timeout=60s", "-run", "^"+test+"$/"+row, ".")
				run.Dir = dir
				out, err := run.CombinedOutput()
				if err == nil {
					t.Errorf("%s passes without the rule", guard)
				} else if !bytes.Contains(out, []byte("--- FAIL: "+test)) {
					t.Errorf("%s did not run: %v\n%s", guard, err, out)
				}
			}
		})
	}
}
