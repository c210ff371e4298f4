//go:build linux || darwin

package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

const (
	// aftermath is how long after its end a fault is held responsible.
	aftermath = 2 * time.Second

	// slack is for a machine that does not run a process at once, for shorter than
	// its watch notes (a few milliseconds).
	slack = 100 * time.Millisecond

	// threads run a process. The machine stops one after the other, each with the requests
	// that are its to go on with, and the watch sees only what happens to its own.
	threads = 2

	// A process that the machine kept from running for a larger part of the last
	// seconds than that cannot get answers in time.
	patience, mostBusy = 10 * time.Second, 0.1

	// notices is how long a process may not notice that Redis is back: until it may probe,
	// and while the probe is under way; and a second for a request that probes to come on a
	// busy machine. For a process whose probe has failed, Redis was not back before.
	notices = local.ProbeInterval*3/2 + timeout + time.Second

	// forgotten is how long after its last request a key that failed alone is surely
	// evicted, and what was shared of it forgotten.
	forgotten = 5 * time.Second

	// mostUnjudged is the part of ends that may go unjudged.
	mostUnjudged = 0.02

	rounding = 1e-6 // tokens; see guarantees.md
)

// A finding is what a history was like.
type finding struct {
	violations []string
	unjudged   []string // ends that were not, and why
	ends       int      // of a key in a process, with or without a verdict

	count  map[verdict]int
	faults map[string]int

	// The worst windows, in parts of the key's Burst above Burst + Rate*T: with no
	// loss of state in them, beyond all that is allowed, and by the kind of fault
	// during or soon after which they ended.
	excess, beyond float64
	excessOf       map[string]float64

	slowest     time.Duration // request of a process that ran all the time
	unavailable time.Duration // the longest time without a verdict in a process that asked
	recovery    time.Duration // what of it came after the last fault had ended
	late        time.Duration // the longest that a process shared after Redis was back

	// By kind of fault: requests for the keys it spares, and how many had no verdict.
	asked, without map[string]int

	panics int // of loggers

	jobs, unfinished int // that had slots, and of those how many did not release them

	ideal, spent float64 // tokens that an ideal bucket admits on the same requests, and those admitted
}

func newFinding() *finding {
	return &finding{
		count: map[verdict]int{}, faults: map[string]int{}, excessOf: map[string]float64{},
		asked: map[string]int{}, without: map[string]int{},
		excess: math.Inf(-1), beyond: math.Inf(-1),
	}
}

// add puts another finding to f.
func (f *finding) add(x *finding) {
	f.violations = append(f.violations, x.violations...)
	f.unjudged = append(f.unjudged, x.unjudged...)
	f.ends += x.ends
	for v, n := range x.count {
		f.count[v] += n
	}
	for kind, n := range x.faults {
		f.faults[kind] += n
	}
	for kind, e := range x.excessOf {
		f.exceed(kind, e)
	}
	for kind, n := range x.asked {
		f.asked[kind] += n
		f.without[kind] += x.without[kind]
	}
	f.panics += x.panics
	f.excess, f.beyond = max(f.excess, x.excess), max(f.beyond, x.beyond)
	f.slowest, f.recovery = max(f.slowest, x.slowest), max(f.recovery, x.recovery)
	f.unavailable, f.late = max(f.unavailable, x.unavailable), max(f.late, x.late)
	f.ideal, f.spent = f.ideal+x.ideal, f.spent+x.spent
	f.jobs, f.unfinished = f.jobs+x.jobs, f.unfinished+x.unfinished
}

func (f *finding) exceed(kind string, excess float64) {
	if old, ok := f.excessOf[kind]; !ok || excess > old {
		f.excessOf[kind] = excess
	}
}

func (f *finding) violate(format string, args ...any) {
	const most = 20 // the rest tells no more
	if len(f.violations) < most {
		f.violations = append(f.violations, fmt.Sprintf(format, args...))
	}
}

// judge holds a history against the promises.
func (h *history) judge() *finding {
	f := newFinding()
	slices.SortFunc(h.faults, func(a, b fault) int { return cmp.Compare(a.from, b.from) })
	for _, x := range h.faults {
		f.faults[x.kind]++
	}
	for i := range h.keys {
		switch h.keys[i].Limit.Kind {
		case lease.KindQuota:
			h.judgeQuota(f, i)
		case lease.KindSliding:
			h.judgeSliding(f, i)
		case lease.KindSlots:
			h.judgeSlots(f, i)
		default:
			h.judgeEnvelope(f, i)
		}
		h.judgeUse(f, i)
	}
	for _, l := range h.lives {
		h.judgeLife(f, l)
		h.judgeSharing(f, l)
		f.panics += int(l.panics)
	}
	h.judgeServed(f)
	return f
}

// judgeEnvelope is I1 and I6, also of what is settled.
func (h *history) judgeEnvelope(f *finding, i int) {
	k := h.keys[i]
	list := h.admissions(i, admitted, shared, settled, charged)
	if len(list) == 0 {
		h.judgeNothing(f, k)
		return
	}
	debts := h.debts(i)
	allowances := append(h.losses(k.Limit), h.sharing(i)...)
	allowances = append(allowances, h.forgotten(k.Limit, debts)...)
	bare, judged := excesses(k.Limit, list, nil), excesses(k.Limit, list, allowances)
	for j, owed := range owed(debts, inOrder(list)) {
		bare[j], judged[j] = bare[j]-owed, judged[j]-owed
	}
	burst := float64(k.Limit.Burst)
	worst, at, bad := 0.0, time.Duration(0), 0
	for j, a := range inOrder(list) {
		f.beyond = max(f.beyond, judged[j]/burst)
		if judged[j] > rounding {
			bad++
			if judged[j] > worst {
				worst, at = judged[j], a.to
			}
		}
		if !slices.ContainsFunc(allowances, func(x allowance) bool { return x.from <= a.to }) {
			f.excess = max(f.excess, bare[j]/burst)
		}
		for _, x := range h.faults {
			if x.from <= a.to && a.to <= x.to+aftermath {
				f.exceed(x.kind, bare[j]/burst)
			}
		}
	}
	if bad > 0 {
		f.violate("%s (%v): %.3f tokens above Burst + Rate*T and what is allowed in a window "+
			"that ended at %v of %v, and %d like it, with %v",
			k.Name, k.Limit, worst, at-h.from, h.to-h.from, bad-1, h.around(i, at))
	}
}

// admissions are those of a key that have one of the verdicts.
func (h *history) admissions(key int, verdicts ...verdict) (list []admission) {
	for _, l := range h.lives {
		for _, d := range l.decisions {
			if int(d.key) == key && slices.Contains(verdicts, d.verdict) {
				list = append(list, admission{span{d.before, d.after}, float64(d.n)})
			}
		}
	}
	return list
}

// judgeNothing is for a key of which nothing was admitted.
func (h *history) judgeNothing(f *finding, k key) {
	idle := time.Duration(0)
	for _, l := range h.lives {
		idle += l.stalled(h.span)
	}
	busy := idle.Seconds() / float64(h.processes) / (h.to - h.from).Seconds()
	switch {
	case h.cut:
	case busy > mostBusy:
		f.unjudged = append(f.unjudged, fmt.Sprintf("%s: nothing was admitted, but the "+
			"processes did not run for %.0f %% of the time", k.Name, 100*busy))
	default:
		f.violate("%s: nothing was admitted", k.Name)
	}
}

// losses are allowances for lost state, as docs/guarantees.md has them (I6).
func (h *history) losses(limit lease.Limit) (list []allowance) {
	p := h.policy.Resolved()
	// Old leases refill for at most 2.25 MaxRefresh; while demand does not move for 3.25, and those
	// of a key with a surplus for MaxHold/6 and 1.25 MaxRefresh, all together what the surplus was.
	refill := (p.MaxRefresh * 9 / 4).Seconds()
	if p.MaxHold > p.MaxRefresh {
		surplus := float64(limit.Burst)/limit.Rate*(1+p.Headroom) + (p.MaxRefresh * 5 / 4).Seconds()
		surplus = min(surplus, (p.MaxHold/6 + p.MaxRefresh*5/4).Seconds())
		refill = max((p.MaxRefresh * 13 / 4).Seconds(), surplus)
	}
	for _, x := range h.faults {
		if x.lost {
			list = append(list, allowance{
				span{max(x.from, x.gone.to), x.to + h.outlives(limit)},
				float64(limit.Burst) + limit.Rate*(refill+(x.split.to-x.split.from).Seconds()),
			})
		}
	}
	return list
}

// outlives is for how long leases of before a loss of state may be spent from at most.
func (h *history) outlives(limit lease.Limit) time.Duration {
	p := h.policy.Resolved()
	switch limit.Kind {
	case lease.KindSlots:
		return max(p.MaxHold, p.MaxRefresh*4)
	case lease.KindSliding:
		// They live for two refreshes and an exchange, and what is too much is back after
		// another one.
		return max(min(limit.Window/3, p.MaxHold*4/9), p.MaxRefresh)*3 + p.MaxRefresh
	}
	life := p.MaxRefresh * 17 / 4
	if p.MaxHold > p.MaxRefresh {
		life = max(life, p.MaxHold, p.MaxHold/6*17/16+p.MaxRefresh*5/4)
	}
	return life
}

// sharing are allowances for what processes share by themselves of a key. While the store
// is gone for all there is no ledger beside them, but each rounds its part of the Burst
// up to a whole token. Once it is back its bucket has filled.
func (h *history) sharing(i int) (list []allowance) {
	if !h.shares {
		return nil
	}
	limit := h.keys[i].Limit
	// Of each, from when to when processes went by themselves.
	noticed := make([]span, len(h.faults))
	for _, l := range h.lives {
		for _, s := range l.spells(i) {
			list = append(list, h.beside(limit, s)...)
			for j, x := range h.faults {
				if !x.within(s) {
					continue
				}
				if noticed[j].to == 0 {
					noticed[j] = s
				}
				noticed[j] = span{min(noticed[j].from, s.from), max(noticed[j].to, s.to, x.gone.to)}
			}
		}
	}
	for j, x := range noticed {
		if x.to > 0 {
			list = append(list, allowance{x, float64(h.processes)},
				allowance{span{h.faults[j].gone.to, x.to}, float64(limit.Burst)})
		}
	}
	return list
}

// beside are allowances for what a process shares in a spell beside the ledger, before
// the store has gone and after it is back: its equal part of the Rate, if it has heard of
// all others.
func (h *history) beside(limit lease.Limit, s span) []allowance {
	rate := limit.Rate
	if s.from >= h.heard {
		rate /= float64(h.processes)
	}
	after := span{h.back(s), s.to}
	before := after.from - s.from
	for _, x := range h.faults {
		before -= s.overlap(x.gone)
	}
	return []allowance{
		{s, rate * before.Seconds()}, {after, rate * (after.to - after.from).Seconds()},
	}
}

// back is when in a spell the store was back for good: at its end, if it was never gone.
func (h *history) back(s span) time.Duration {
	back := time.Duration(0)
	for _, x := range h.faults {
		if x.within(s) {
			back = max(back, x.gone.to)
		}
	}
	if back == 0 {
		return s.to
	}
	return min(back, s.to)
}

// judgeSharing is how soon a process notices that the store is back: until then it shares
// beside it.
func (h *history) judgeSharing(f *finding, l *life) {
	if !h.shares {
		return
	}
	for _, s := range merged(l.away) {
		after := span{h.back(s), s.to}
		for _, at := range l.unanswered {
			if at <= s.to {
				after.from = max(after.from, at)
			}
		}
		late := after.to - after.from - l.stalled(after)
		f.late = max(f.late, late)
		if late > notices {
			f.violate("a process went by itself until %v, for %v after the store was back",
				s.to-h.from, late)
		}
	}
}

// within reports whether the store was gone in some of a spell.
func (x *fault) within(s span) bool {
	return x.gone.to > 0 && x.gone.from <= s.to && s.from <= x.gone.to
}

// spells are the times in which a process went by itself for a key: it took the store for
// away, or the key failed alone. Without sharing they would be of no interest: a process
// may deny by itself while the store is slow.
func (l *life) spells(i int) []span { return merged(append(l.alone(i), l.away...)) }

// alone are the times in which a key failed alone, from the first request that was not
// answered to the last one that was shared. The first one may have ended just after the
// process had noticed that the store is back, which it tells a little later.
func (l *life) alone(i int) (list []span) {
	s, last := span{}, -forgotten
	for _, d := range l.decisions {
		if int(d.key) != i || d.verdict != shared && d.verdict != closed {
			continue
		}
		away := l.isAway(d)
		if away || d.before >= last+forgotten {
			list, s = append(list, s), span{from: d.before}
		}
		// Decisions are told in the order in which they end.
		s.from, last = min(s.from, d.before), max(last, d.after)
		if d.verdict == shared && !away {
			s.to = max(s.to, d.after)
		}
	}
	return slices.DeleteFunc(append(list, s), func(s span) bool { return s.to == 0 })
}

// merged are spans in order, none of which touches another one.
func merged(list []span) []span {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	done := list[:0]
	for _, s := range list {
		if n := len(done); n > 0 && s.from <= done[n-1].to {
			done[n-1].to = max(done[n-1].to, s.to)
		} else {
			done = append(done, s)
		}
	}
	return done
}

// isAway reports whether a decision may have been made while the process took the store
// for away.
func (l *life) isAway(d decision) bool {
	i, _ := slices.BinarySearchFunc(l.away, d.before, func(x span, at time.Duration) int { return cmp.Compare(x.to, at) })
	return i < len(l.away) && l.away[i].from <= d.after
}

// around are the faults near a time, and when processes went by themselves for a key.
func (h *history) around(key int, at time.Duration) (list []string) {
	near := func(s span) bool { return s.from-aftermath <= at && at <= s.to+aftermath }
	for _, x := range h.faults {
		if near(x.span) {
			list = append(list, fmt.Sprintf("%s %v-%v", x.kind, x.from-h.from, x.to-h.from))
		}
	}
	if !h.shares {
		return list
	}
	for n, l := range h.lives {
		for _, s := range l.spells(key) {
			if !near(s) {
				continue
			}
			text := fmt.Sprintf("process %d by itself %v-%v", n, s.from-h.from, s.to-h.from)
			for _, failed := range l.unanswered {
				if s.from <= failed && failed <= s.to {
					text += fmt.Sprintf(", not answered %v", failed-h.from)
				}
			}
			list = append(list, fmt.Sprintf("%s, did not run for %v", text, l.stalled(s)))
		}
	}
	return list
}

// judgeUse compares what was admitted with what an ideal bucket, quota or log admits, which
// gets the same requests in no time.
func (h *history) judgeUse(f *finding, i int) {
	if how := h.keys[i].How; how == acquire || how == reserve || how == refund {
		return // what an ideal one admits depends on what jobs do then
	}
	var list []decision
	for _, l := range h.lives {
		for _, d := range l.decisions {
			if int(d.key) == i && d.verdict != overruled {
				list = append(list, d)
			}
		}
	}
	slices.SortFunc(list, func(a, b decision) int { return cmp.Compare(a.before, b.before) })
	switch limit := h.keys[i].Limit; limit.Kind {
	case lease.KindQuota:
		f.ideal += h.idealQuota(limit, list)
	case lease.KindSliding:
		f.ideal += idealLog(limit, list)
	default:
		f.ideal += h.idealBucket(limit, list)
	}
	for _, d := range list {
		if d.verdict == admitted || d.verdict == shared {
			f.spent += float64(d.n)
		}
	}
}

// idealBucket is what a central bucket admits of these requests.
func (h *history) idealBucket(limit lease.Limit, list []decision) (admitted float64) {
	tokens, at := float64(limit.Burst), h.from
	for _, d := range list {
		tokens = min(tokens+limit.Rate*(d.before-at).Seconds(), float64(limit.Burst))
		at = d.before
		if n := float64(d.n); tokens >= n {
			tokens -= n
			admitted += n
		}
	}
	return admitted
}

// judgeLife is what one process had to wait for.
func (h *history) judgeLife(f *finding, l *life) {
	slices.SortFunc(l.decisions, func(a, b decision) int { return cmp.Compare(a.before, b.before) })
	fails := make([]span, len(h.keys)) // since when there is no verdict, and the last request without one
	last := make([]time.Duration, len(h.keys))
	for _, d := range l.decisions {
		last[d.key] = max(last[d.key], d.after)
		f.count[d.verdict]++
		if d.verdict.none() {
			continue
		}
		whole := span{d.before, d.after}
		took := d.after - d.before - threads*l.stalled(whole)
		f.slowest = max(f.slowest, took)
		if took > 2*h.timeout+slack {
			f.violate("%s: a request took %v, and for %v of it the process did not run",
				h.keys[d.key].Name, d.after-d.before, l.stalled(whole))
		}
		without := &fails[d.key]
		switch {
		case d.verdict == failed || d.verdict == closed:
			if without.to == 0 {
				without.from = d.before
			}
			without.to = max(without.to, d.after)
		case d.verdict != abandoned && without.to > 0:
			if h.keys[d.key].sparse() {
				h.unavailable(f, l, *without) // it did not ask meanwhile
			} else {
				h.unavailable(f, l, span{without.from, d.after})
			}
			*without = span{}
		}
	}
	for i, without := range fails {
		if last[i] >= h.to-time.Second {
			f.ends++
		}
		if without.to == 0 {
			continue
		}
		h.unavailable(f, l, without)
		if h.cut || without.to < h.to-time.Second || without.to-without.from <= time.Second {
			continue
		}
		end := span{h.to - patience, h.to}
		if busy := l.stalled(end).Seconds() / patience.Seconds(); busy > mostBusy {
			f.unjudged = append(f.unjudged, fmt.Sprintf("%s: a process is without a verdict at "+
				"the end, but did not run for %.0f %% of the last %v",
				h.keys[i].Name, 100*busy, patience))
		} else {
			f.violate("%s: a process is without a verdict since %v, at the end %v of a time "+
				"without faults", h.keys[i].Name, without.from-h.from, h.to-h.from)
		}
	}
}

// unavailable notes a time in which a process had no verdict though it asked.
func (h *history) unavailable(f *finding, l *life, s span) {
	f.unavailable = max(f.unavailable, s.to-s.from-l.stalled(s))
	after := s.from
	for _, x := range h.faults {
		if x.from < s.to {
			after = max(after, min(x.to, s.to))
		}
	}
	s.from = after
	f.recovery = max(f.recovery, s.to-s.from-l.stalled(s))
}

// stalled is for how much of s the process did not run.
func (l *life) stalled(s span) (sum time.Duration) {
	i, _ := slices.BinarySearchFunc(l.stalls, s.from, func(x span, at time.Duration) int { return cmp.Compare(x.to, at) })
	for ; i < len(l.stalls) && l.stalls[i].from < s.to; i++ {
		sum += s.overlap(l.stalls[i])
	}
	return sum
}
