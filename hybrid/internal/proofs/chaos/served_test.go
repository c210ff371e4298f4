//go:build linux || darwin

package chaos

import (
	"cmp"
	"slices"
	"testing"
	"time"
)

const (
	// mostUnserved is which part of the requests for spared keys may have no verdict. A busy
	// machine keeps servers from running, and no process sees it. Each defect that the bound is
	// there to find cost 15 % or more.
	mostUnserved = 0.05
)

// judgeServed judges the keys that a fault spares: while the fault lasts, requests for these keys
// have verdicts.
func (h *history) judgeServed(f *finding) {
	links := &life{stalls: merged(h.late)}
	// For how long at a time a process, or a link, may stand still: longer makes answers late.
	kept := (h.timeout - h.distance) * 2 / 3
	for _, x := range h.faults {
		for i, spared := range x.spares {
			if !spared || !h.simple(i) {
				continue
			}
			for _, l := range h.lives {
				a, w := l.without(i, x.span, kept, links)
				f.asked[x.kind] += a
				f.without[x.kind] += w
			}
		}
	}
	for kind, asked := range f.asked {
		if without := f.without[kind]; float64(without) > mostUnserved*float64(asked)+1 {
			f.violate("%s: %d of %d requests that it does not concern have no verdict",
				kind, without, asked)
		}
	}
}

// simple reports whether requests for a key are for no other key, and tell that they have failed.
func (h *history) simple(i int) bool {
	how := h.keys[i].How
	return (how == take || how == wait) &&
		!slices.ContainsFunc(h.keys, func(k key) bool { return slices.Contains(k.With, i) })
}

// without counts the requests for a key that came within s, and how many have no verdict.
func (l *life) without(key int, s span, kept time.Duration, links *life) (asked, without int) {
	for _, d := range l.decisions {
		if int(d.key) != key || d.before < s.from || d.before > s.to || d.verdict.none() {
			continue
		}
		// A process that took the store for away then may deny for as long.
		if s := (span{d.before - notices, d.after}); max(l.longest(s), links.longest(s)) > kept {
			continue
		}
		asked++
		if d.verdict == failed || d.verdict == closed || d.verdict == shared {
			without++
		}
	}
	return asked, without
}

// longest is the process's longest stall that overlaps s.
func (l *life) longest(s span) (most time.Duration) {
	i, _ := slices.BinarySearchFunc(l.stalls, s.from, func(x span, at time.Duration) int { return cmp.Compare(x.to, at) })
	for ; i < len(l.stalls) && l.stalls[i].from < s.to; i++ {
		most = max(most, l.stalls[i].to-l.stalls[i].from)
	}
	return most
}

// all are the spares of a fault that spares all keys.
func all(r *round) []bool { return slices.Repeat([]bool{true}, len(r.history.keys)) }

// TestServed: how the keys that a fault spares are judged.
func TestServed(t *testing.T) {
	const from, to = 2 * time.Second, 3 * time.Second // 100 requests
	for _, c := range []struct {
		name   string
		change func(*history)
		want   int // violations
	}{
		{"all served", func(*history) {}, 0},
		{"six of a hundred are not", func(h *history) { unserve(h, from, 6) }, 0},
		{"seven are not", func(h *history) { unserve(h, from, 7) }, 1},
		{"before", func(h *history) { unserve(h, from-80*ms, 8) }, 0},
		{"it concerns the key", func(h *history) {
			unserve(h, from, 50)
			h.faults[0].spares[0] = false
		}, 0},
		{"the process did not run", func(h *history) {
			unserve(h, from, 50)
			h.lives[0].stalls = []span{{from - time.Second, from - 800*ms}}
		}, 0},
		{"the links did not run", func(h *history) {
			unserve(h, from, 50)
			h.late = []span{{from - 200*ms, from + 400*ms}, {from, from + 20*ms}}
		}, 0},
		{"a request for several keys", func(h *history) {
			unserve(h, from, 50)
			h.keys = append(h.keys, key{Name: "other", With: []int{0}, How: together})
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := greedy()
			h.suffer(fault{kind: "elsewhere", span: span{from, to}, spares: []bool{true}})
			c.change(h)
			f := newFinding()
			if h.judgeServed(f); len(f.violations) != c.want {
				t.Errorf("%q", f.violations)
			}
		})
	}
}

// unserve lets the first n requests of a history fail, from a time on.
func unserve(h *history, from time.Duration, n int) {
	list := h.lives[0].decisions
	for i := range list {
		if list[i].before > from && n > 0 {
			list[i].verdict = failed
			n--
		}
	}
}
