package live

import (
	"math"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const (
	// muchUsed is from which part of a limit on its use needs a look.
	muchUsed = 0.9

	// leastKnown is of how much time counts are needed to tell the use of a limit.
	leastKnown = time.Minute
)

// used is which part of its limit a rule has admitted lately, in requests: of a rate over 5
// minutes, or over the time that the limit is for if this is longer, up to a day. It is NaN for a
// rule with a bucket for each value, as counts are of all together; for slots; and where too little
// is known.
func (h *history) used(r rules.Rule, s *series) float64 {
	l := r.Limit
	if s == nil || l == hybrid.Unlimited || l.Kind == hybrid.KindSlots || r.Percent < 100 ||
		!single(r) {
		return math.NaN()
	}
	window, rate := l.Window, float64(l.Burst)/l.Window.Seconds()
	if l.Kind == hybrid.KindBucket {
		window, rate = time.Duration(float64(l.Burst)/l.Rate*float64(time.Second)), l.Rate
	}
	at, length := recent, recent.length()
	if window > length {
		at, length = day, min(window, day.length())
	}
	each := sampleEvery
	if at == day {
		each = time.Minute
	}
	seconds, n := 0.0, uint64(0)
	ring := h.ring(at)
	for _, p := range ring[max(0, len(ring)-int(length/each)):] {
		seconds += float64(h.covered[p])
		n += s.at(p, ofAdmitted)
	}
	if at == day { // what is not known is taken for nothing
		seconds = window.Seconds()
	} else if seconds < leastKnown.Seconds() {
		return math.NaN()
	}
	return float64(n) / (rate * seconds)
}

// single reports whether a rule has one bucket.
func single(r rules.Rule) bool {
	entries, err := rules.ParsePath(r.Path)
	for _, e := range entries {
		if e.Value == "" || strings.Contains(e.Value, "*") {
			return false
		}
	}
	return err == nil
}
