package live

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

func newHistory() *history { return &history{domains: map[string]*domain{}} }

// sampleOf has one domain with rules that have admitted so much.
func sampleOf(admitted map[string]uint64) []rules.DomainStats {
	d := rules.DomainStats{Domain: "d"}
	for path, n := range admitted {
		d.Rules = append(d.Rules, rules.RuleStats{Path: path, Counts: rules.Counts{Admitted: n}})
	}
	return []rules.DomainStats{d}
}

// TestCountsAreExact: what was counted before the first sample is of no time. Rules that come
// count from 0, and so do counters that begin anew, also of a rule that was away for a while.
func TestCountsAreExact(t *testing.T) {
	h := newHistory()
	for i, c := range []struct {
		counted map[string]uint64
		a, b    uint64 // in the history afterwards
	}{
		{map[string]uint64{"a": 100}, 0, 0},
		{map[string]uint64{"a": 107}, 7, 0},
		{map[string]uint64{"a": 107, "b": 5}, 7, 5}, // b has come
		{map[string]uint64{"a": 3, "b": 6}, 10, 6},  // a began anew
		{map[string]uint64{"a": 4}, 11, 6},          // b is away
		{map[string]uint64{"a": 4, "b": 0}, 11, 6},
		{map[string]uint64{"a": 4, "b": 9}, 11, 15},
		{map[string]uint64{"a": 4}, 11, 15},
		{map[string]uint64{"a": 4, "b": 50}, 11, 65}, // it came and went, and has counted more
		{nil, 11, 65},
		{map[string]uint64{"a": 1}, 12, 65},
	} {
		h.add(time.Duration(i)*sampleEvery, sampleOf(c.counted))
		d := h.domains["d"]
		for s := range spans {
			a, b := h.sum(d.rules["a"], s, admitted), h.sum(d.rules["b"], s, admitted)
			all := h.sum(&d.total, s, admitted)
			if a != c.a || b != c.b || all != c.a+c.b {
				t.Errorf("sample %d, span %d: a %d, b %d and all %d, not %d and %d",
					i, s, a, b, all, c.a, c.b)
			}
		}
	}
}

// TestCountersBeginTogether: where one counter of a rule is lower than it was, all have begun
// anew.
func TestCountersBeginTogether(t *testing.T) {
	was := tally{admitted: 10, denied: 2, trialDenied: 1}
	now := tally{admitted: 11, denied: 1, trialDenied: 5}
	if got := now.since(was); got != now {
		t.Errorf("%v", got)
	}
	now = tally{admitted: 11, denied: 2, trialDenied: 5}
	if got, want := now.since(was), (tally{admitted: 1, trialDenied: 4}); got != want {
		t.Errorf("%v, not %v", got, want)
	}
}

// TestRings: both spans against a list of all that was ever counted, with samples that are late,
// missing, or away for hours.
func TestRings(t *testing.T) {
	const seed = 1
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	h := newHistory()
	type event struct {
		tick int64
		n    uint64
	}
	var all []event
	at, total := time.Duration(0), uint64(0)
	h.add(0, sampleOf(map[string]uint64{"a": 0}))
	for i := range 20_000 {
		at += sampleEvery
		switch rng.IntN(500) {
		case 0:
			at += time.Duration(rng.IntN(200)) * sampleEvery
		case 1:
			at += time.Duration(rng.IntN(30)) * time.Hour
		}
		late := time.Duration(rng.IntN(900)) * time.Millisecond
		n := uint64(rng.IntN(5))
		total += n
		h.add(at+late, sampleOf(map[string]uint64{"a": total}))
		all = append(all, event{int64(at / sampleEvery), n})
		if i%97 != 0 {
			continue
		}
		tick, want := int64(at/sampleEvery), [spans]uint64{}
		for _, e := range slices.Backward(all) {
			if e.tick > tick-recentSlots {
				want[recent] += e.n
			}
			if minute(e.tick) > minute(tick)-daySlots {
				want[day] += e.n
			} else {
				break
			}
		}
		for s := range spans {
			if got := h.sum(h.domains["d"].rules["a"], s, admitted); got != want[s] {
				t.Fatalf("sample %d, span %d: %d, not %d", i, s, got, want[s])
			}
		}
	}
}

// TestRates: a rate is over the time that was sampled, and what was not sampled is a gap.
func TestRates(t *testing.T) {
	h := newHistory()
	total := uint64(0)
	for _, second := range []int{0, 2, 4, 20, 22} {
		total += 10
		h.add(time.Duration(second)*time.Second, sampleOf(map[string]uint64{"a": total}))
	}
	got := h.rates(h.domains["d"].rules["a"], recent, 1, admitted)[recentSlots-12:]
	nan := math.NaN()
	want := []float64{nan, 5, 5, nan, nan, nan, nan, nan, nan, nan, 10.0 / 16, 5}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", got, want)
	}
	if now := h.now(h.domains["d"].rules["a"], admitted); math.Abs(now-20.0/18) > 1e-9 {
		t.Errorf("%v/s now", now)
	}
	for range 2 * recentSlots {
		total += 10
		h.add(h.at+sampleEvery, sampleOf(map[string]uint64{"a": total}))
	}
	h.add(h.at+3*sampleEvery, sampleOf(map[string]uint64{"a": total}))
	got = h.rates(h.domains["d"].rules["a"], recent, 1, admitted)[recentSlots-5:]
	if want := []float64{5, 5, nan, nan, 0}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("later %v, not %v", got, want)
	}
}

// TestMemoryIsBounded: with 10,000 rules that admit and deny, those that move first have room.
// When they rest, others get theirs. All of it is within what package live promises.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("plays one goroutine: left out with -short")
	}
	h := newHistory()
	d := rules.DomainStats{Domain: "d"}
	for i := range rules.MaxRules {
		d.Rules = append(d.Rules, rules.RuleStats{Path: fmt.Sprint("rule", i)})
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	at := time.Duration(0)
	sample := func(from, to int) {
		for i := range d.Rules[from:to] {
			d.Rules[from+i].Admitted++
			d.Rules[from+i].Denied++
		}
		at += sampleEvery
		h.add(at, []rules.DomainStats{d})
	}
	kept := func(i int) bool {
		s := h.domains["d"].rules[fmt.Sprint("rule", i)]
		return h.sum(s, day, admitted) > 0 && h.sum(s, day, denied) > 0
	}
	h.add(0, []rules.DomainStats{d})
	sample(0, rules.MaxRules)
	runtime.GC()
	runtime.ReadMemStats(&after)
	used := after.HeapAlloc - before.HeapAlloc
	t.Logf("%d bytes with %d rules", used, rules.MaxRules)
	if used > 60<<20 || h.tracks != mostTracks {
		t.Errorf("%d tracks", h.tracks)
	}
	if !kept(0) || kept(9999) || !h.domains["d"].rules["rule9999"].short {
		t.Error("not the first have room")
	}
	for range recentSlots + 1 {
		sample(0, 0)
	}
	sample(9000, 10_000)
	if !kept(9999) || h.tracks != mostTracks {
		t.Errorf("%d tracks", h.tracks)
	}
	at += 25 * time.Hour
	for range tickMinute {
		sample(0, 0)
	}
	if h.tracks != 0 {
		t.Errorf("%d tracks after a day of rest", h.tracks)
	}
	d.Rules = nil
	for range tickMinute {
		sample(0, 0)
	}
	if n := len(h.domains["d"].rules); n != 0 {
		t.Errorf("%d rules that are gone", n)
	}
	runtime.KeepAlive(h)
}
