package live

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// Counters of a rule.
const (
	admitted = iota
	denied
	shadowAdmitted
	shadowDenied
	shadowUnknown
	trialAdmitted
	trialDenied
	trialShadowAdmitted
	trialShadowDenied
	trialShadowUnknown
	counters
)

// A tally is a number for each counter.
type tally [counters]uint64

// overrides is the path of what requests' own limits have decided. It is that of no rule, as there
// are spaces in it.
const overrides = "limits of requests' own"

// byBans is the path of what bans have denied. It is that of no rule, either, and in no total:
// those are what limits have decided.
const byBans = "denied by bans"

// besides are what has counted but for the rules of a domain.
func besides(s rules.DomainStats) []rules.RuleStats {
	return []rules.RuleStats{
		{Path: overrides, Counts: s.Overrides},
		{Path: byBans, Counts: rules.Counts{Denied: s.Banned}},
	}
}

func tallyOf(r rules.RuleStats) tally {
	return tally{
		r.Admitted, r.Denied, r.ShadowAdmitted, r.ShadowDenied, r.ShadowUnknown,
		r.Trial.Admitted, r.Trial.Denied,
		r.Trial.ShadowAdmitted, r.Trial.ShadowDenied, r.Trial.ShadowUnknown,
	}
}

// since returns what was counted after an earlier tally. Counters that began anew meanwhile are
// lower than they were, and count from 0: all of a rule's, as they are made together.
func (t tally) since(was tally) tally {
	for i := range t {
		if t[i] < was[i] {
			return t
		}
	}
	for i := range t {
		t[i] -= was[i]
	}
	return t
}

// A span is how far back a chart looks: a ring of slots.
type span int

const (
	recent span = iota // the last 5 minutes by 2 s
	day                // the last 24 hours by minute
	spans
)

const (
	recentSlots = 150
	daySlots    = 1440
	slots       = recentSlots + daySlots
	tickMinute  = int64(time.Minute / sampleEvery)
)

// mostTracks bounds the memory of all rules: a track has 6,368 bytes, so 52 MB. A rule that
// admits and denies has two, one that never moved has none.
const mostTracks = 8192

// A track is one counter of one rule: what was counted in each slot of both rings.
type track struct {
	slots [slots]uint32
	moved int64 // tick
}

// A series is a rule, or all rules of a domain.
type series struct {
	last   tally
	seen   int64 // the number of the sample that had it last
	tracks [counters]*track
	short  bool  // something has moved for which there was no room
	asked  int64 // the tick at which it moved last; 0: it has not
}

type domain struct {
	total series
	rules map[string]*series // by path: those that have counted anything
	seen  int64
}

// A history is what the rules have counted in all services that are heard, in slots of time. Slot n
// of the last minutes is what was found since the sample of tick n-1, until that of tick n.
type history struct {
	domains map[string]*domain
	samples int64
	tick    int64
	at      time.Duration
	covered [slots]float32 // seconds that were sampled; 0: nothing is known
	tracks  int
	idle    []spot // tracks to give up, if need be at this tick, the idlest last
	sorted  int64  // the sample at which idle was made

	rings  [spans][]int // of the ticks in ringed
	ringed [spans]int64
}

// A spot is where a track is.
type spot struct {
	of      *series
	counter int
}

// minute is the slot of the day for a tick. Tick 30 is the last one of minute 0.
func minute(tick int64) int64 { return (tick + tickMinute - 1) / tickMinute }

// places are the slots of a tick in both rings.
func places(tick int64) [spans]int {
	return [spans]int{int(tick % recentSlots), recentSlots + int(minute(tick)%daySlots)}
}

// add takes a sample, at a time after the first one. What a rule had counted before the first is
// not known to be of any time, and is left out.
func (h *history) add(at time.Duration, stats []rules.DomainStats) {
	tick := max(h.tick, int64(math.Round(float64(at)/float64(sampleEvery))))
	h.advance(tick)
	for _, p := range places(tick) {
		h.covered[p] += float32((at - h.at).Seconds())
	}
	h.at = at
	h.samples++
	for _, s := range stats {
		h.addDomain(s)
	}
	if h.samples%tickMinute == 0 {
		h.prune()
	}
}

// A movement is what a rule has counted since the sample before.
type movement struct {
	of *series
	by tally
}

func (h *history) addDomain(s rules.DomainStats) {
	d := h.domain(s.Domain)
	d.seen = h.samples
	var moved []movement
	var total tally
	for _, r := range slices.Concat(s.Rules, besides(s)) {
		now, of := tallyOf(r), d.rules[r.Path]
		if of == nil && now == (tally{}) {
			continue
		}
		of = d.rule(r.Path)
		if of.seen != h.samples-1 {
			of.last = tally{} // the rule was not there: it counts from 0
		}
		by := now.since(of.last)
		of.last, of.seen = now, h.samples
		if h.samples > 1 && by != (tally{}) {
			moved = append(moved, movement{of, by})
			if r.Path == byBans {
				continue
			}
			for i, n := range by {
				total[i] += n
			}
		}
	}
	h.put(&d.total, total)
	h.put(&h.domain(processKey(s.Limiter.ID)).total, total)
	for _, m := range moved {
		h.put(m.of, m.by)
	}
}

// domain is what is kept of a domain, or of a process, see processKey.
func (h *history) domain(name string) *domain {
	d := h.domains[name]
	if d == nil {
		d = &domain{rules: map[string]*series{}}
		h.domains[name] = d
	}
	return d
}

// rule is what is kept of a rule.
func (d *domain) rule(path string) *series {
	s := d.rules[path]
	if s == nil {
		s = &series{}
		d.rules[path] = s
	}
	return s
}

// put adds to the slots of the tick.
func (h *history) put(s *series, by tally) {
	for i, n := range by {
		if n == 0 {
			continue
		}
		s.asked = h.tick
		t := s.tracks[i]
		if t == nil {
			if !h.room() {
				s.short = true
				continue
			}
			t = &track{}
			s.tracks[i] = t
			h.tracks++
		}
		t.moved = h.tick
		for _, p := range places(h.tick) {
			t.slots[p] = uint32(min(uint64(t.slots[p])+n, math.MaxUint32))
		}
	}
}

// room reports whether there is room for one more track. If need be it gives up that which has
// not moved for longest, and for 5 minutes at least.
func (h *history) room() bool {
	if h.tracks < mostTracks {
		return true
	}
	if h.sorted != h.samples {
		h.sorted, h.idle = h.samples, h.idle[:0]
		h.eachTrack(func(s *series, i int) {
			if s.tracks[i].moved+recentSlots < h.tick {
				h.idle = append(h.idle, spot{s, i})
			}
		})
		slices.SortFunc(h.idle, func(a, b spot) int {
			return cmp.Compare(b.of.tracks[b.counter].moved, a.of.tracks[a.counter].moved)
		})
	}
	for n := len(h.idle) - 1; n >= 0; n-- {
		s := h.idle[n]
		h.idle = h.idle[:n]
		if t := s.of.tracks[s.counter]; t != nil && t.moved+recentSlots < h.tick {
			s.of.tracks[s.counter], s.of.short = nil, true
			h.tracks--
			return true
		}
	}
	return false
}

// eachTrack calls f for all tracks.
func (h *history) eachTrack(f func(s *series, counter int)) {
	for _, d := range h.domains {
		for i, t := range d.total.tracks {
			if t != nil {
				f(&d.total, i)
			}
		}
		for _, s := range d.rules {
			for i, t := range s.tracks {
				if t != nil {
					f(s, i)
				}
			}
		}
	}
}

// advance begins the slots up to a tick. Those of ticks that were missed stay without a sample.
func (h *history) advance(tick int64) {
	var begin []int
	for t := max(h.tick+1, tick-recentSlots+1); t <= tick; t++ {
		begin = append(begin, places(t)[recent])
	}
	for m := max(minute(h.tick)+1, minute(tick)-daySlots+1); m <= minute(tick); m++ {
		begin = append(begin, recentSlots+int(m%daySlots))
	}
	for _, p := range begin {
		h.covered[p] = 0
	}
	h.eachTrack(func(s *series, i int) {
		for _, p := range begin {
			s.tracks[i].slots[p] = 0
		}
	})
	h.tick = tick
}

// prune forgets tracks in which nothing is left, and what has gone.
func (h *history) prune() {
	h.eachTrack(func(s *series, i int) {
		if minute(s.tracks[i].moved)+daySlots <= minute(h.tick) {
			s.tracks[i] = nil
			h.tracks--
		}
	})
	for name, d := range h.domains {
		for path, s := range d.rules {
			if s.seen != h.samples && s.tracks == ([counters]*track{}) {
				delete(d.rules, path)
			}
		}
		if d.seen != h.samples && len(d.rules) == 0 && d.total.tracks == ([counters]*track{}) {
			delete(h.domains, name)
		}
	}
}

// ring returns the slots of a span, the oldest first, as indexes.
func (h *history) ring(s span) []int {
	if h.rings[s] == nil || h.ringed[s] != h.tick {
		h.rings[s], h.ringed[s] = h.newRing(s), h.tick
	}
	return h.rings[s]
}

func (h *history) newRing(s span) []int {
	n, newest, from := int64(recentSlots), h.tick, 0
	if s == day {
		n, newest, from = daySlots, minute(h.tick), recentSlots
	}
	list := make([]int, n)
	for i := range list {
		list[i] = from + int(((newest-n+1+int64(i))%n+n)%n)
	}
	return list
}

// rates returns what some counters of a series have counted in each second, by groups of slots:
// NaN where nothing was sampled.
func (h *history) rates(s *series, at span, group int, of ...int) []float64 {
	var rates []float64
	for slots := range slices.Chunk(h.ring(at), group) {
		seconds, n := 0.0, 0.0
		for _, p := range slots {
			seconds += float64(h.covered[p])
			n += float64(s.at(p, of))
		}
		if seconds == 0 {
			rates = append(rates, math.NaN())
			continue
		}
		rates = append(rates, n/seconds)
	}
	return rates
}

// at sums counters in one slot.
func (s *series) at(slot int, of []int) (n uint64) {
	if s == nil {
		return 0
	}
	for _, c := range of {
		if t := s.tracks[c]; t != nil {
			n += uint64(t.slots[slot])
		}
	}
	return n
}

// sum returns what some counters have counted in a span.
func (h *history) sum(s *series, at span, of ...int) (n uint64) {
	if s == nil {
		return 0
	}
	for _, p := range h.ring(at) {
		n += s.at(p, of)
	}
	return n
}

// lately is how many slots the rate now is of: 10 s.
const lately = 5

// now returns the rate of the last 10 s, or NaN if nothing was sampled then.
func (h *history) now(s *series, of ...int) float64 {
	seconds, n := 0.0, 0.0
	for _, p := range h.ring(recent)[recentSlots-lately:] {
		seconds += float64(h.covered[p])
		n += float64(s.at(p, of))
	}
	if seconds == 0 {
		return math.NaN()
	}
	return n / seconds
}
