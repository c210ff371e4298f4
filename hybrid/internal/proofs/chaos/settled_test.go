//go:build linux || darwin

package chaos

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// never is later than all that happens.
const never = time.Duration(math.MaxInt64)

// A debt is what a charge may have left, and from when to when it may be owed.
type debt struct {
	span
	n float64
}

// debts are those of a key. That of a charge is paid before its process admits more, whatever
// others do. Of one that never does, as it was killed, nobody knows when.
func (h *history) debts(key int) (list []debt) {
	for _, l := range h.lives {
		var charges, next []decision
		for _, d := range l.decisions {
			switch {
			case int(d.key) != key:
			case d.verdict == charged:
				charges = append(charges, d)
			case d.verdict == reserved:
				next = append(next, d)
			}
		}
		slices.SortFunc(next, func(a, b decision) int { return cmp.Compare(a.before, b.before) })
		// Of those from here on, when the first one was admitted.
		paid := make([]time.Duration, len(next)+1)
		paid[len(next)] = never
		for i, d := range slices.Backward(next) {
			paid[i] = min(paid[i+1], d.after)
		}
		for _, d := range charges {
			i, _ := slices.BinarySearchFunc(next, d.after,
				func(x decision, at time.Duration) int { return cmp.Compare(x.before, at) })
			list = append(list, debt{span{d.before, paid[i]}, float64(d.n)})
		}
	}
	return list
}

// owed is D of docs/guarantees.md, at most: for each admission, what may be owed while it may
// have happened. It is the last one of its windows.
func owed(debts []debt, list []admission) []float64 {
	begun, ended := slices.Clone(debts), slices.Clone(debts)
	slices.SortFunc(begun, func(a, b debt) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(ended, func(a, b debt) int { return cmp.Compare(a.to, b.to) })
	sums := func(list []debt) []float64 {
		sums := make([]float64, len(list)+1)
		for i, d := range list {
			sums[i+1] = sums[i] + d.n
		}
		return sums
	}
	until, before := sums(begun), sums(ended)
	all := make([]float64, len(list))
	for i, a := range list {
		b, _ := slices.BinarySearchFunc(begun, a.to+1,
			func(d debt, at time.Duration) int { return cmp.Compare(d.from, at) })
		e, _ := slices.BinarySearchFunc(ended, a.from,
			func(d debt, at time.Duration) int { return cmp.Compare(d.to, at) })
		all[i] = until[b] - before[e]
	}
	return all
}

// forgotten are allowances for debts that a loss of state forgets.
func (h *history) forgotten(limit lease.Limit, debts []debt) (list []allowance) {
	for _, x := range h.faults {
		for _, d := range debts {
			if x.lost && d.from <= x.to && x.from <= d.to {
				list = append(list, allowance{span{x.from, x.to + h.outlives(limit)}, d.n})
			}
		}
	}
	return list
}

// TestOwed holds the sums against all debts, one by one.
func TestOwed(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		at := func() time.Duration { return time.Duration(random.IntN(50)) }
		var debts []debt
		for range random.IntN(10) {
			from := at()
			debts = append(debts, debt{span{from, from + at()}, float64(1 + random.IntN(5))})
			if random.IntN(5) == 0 {
				debts[len(debts)-1].to = never
			}
		}
		var list []admission
		for range 20 {
			from := at()
			list = append(list, admission{span{from, from + at()/4}, 1})
		}
		got := owed(debts, list)
		for i, a := range list {
			want := 0.0
			for _, d := range debts {
				if d.from <= a.to && a.from <= d.to {
					want += d.n
				}
			}
			if got[i] != want {
				t.Fatalf("seed %d: %v are owed at %v, want %v", seed, got[i], a.span, want)
			}
		}
	}
}

// TestJudgeSettled: what the judge lets pass of what is settled and charged, and that it sees
// the least that it should not.
func TestJudgeSettled(t *testing.T) {
	const middle = 5 * time.Second
	at := func(at time.Duration, n uint16, v verdict) decision {
		return decision{before: at, after: at, n: n, verdict: v}
	}
	next := at(5300*ms, 1, reserved) // of the process that owes something
	charge := at(middle, 5, charged)
	beside := decision{before: middle - ms, after: middle + ms, n: 1, verdict: reserved}
	// Ten could be settled, after that.
	late := decision{before: 4900 * ms, after: middle, n: 1, verdict: settled}
	for _, c := range []struct {
		name   string
		list   []decision // of another process
		others int        // tokens that are not used in the three tenths of a second after the middle
		lost   bool
		want   string // of a violation, or none
	}{
		{"one too many", []decision{at(middle, 1, settled)}, 0, false, "1.000 tokens above"},
		{"one too many, at the latest", []decision{late}, 0, false, "1.000 tokens above"},
		{"reserved", []decision{at(middle, 9, reserved)}, 0, false, ""},
		{"charged, and nothing admitted any more", []decision{charge}, 0, false, ""},
		{"not paid", []decision{charge, next}, 0, false, "5.000 tokens above"},
		{"paid", []decision{charge, next}, 5, false, ""},
		{"one too few paid", []decision{charge, next}, 4, false, "1.000 tokens above"},
		{"admitted beside the charge", []decision{charge, beside}, 0, false, ""},
		{"lost", []decision{at(middle, 76, admitted), charge, next}, 0, true, ""},
		{
			"one more than that", []decision{at(middle, 77, admitted), charge, next}, 0, true,
			"0.750 tokens above",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := greedy()
			first := h.lives[0]
			first.decisions = slices.DeleteFunc(first.decisions, func(d decision) bool {
				c.others--
				if d.before <= middle || d.before > 5300*ms {
					c.others++
					return false
				}
				return c.others >= 0
			})
			l := h.begin()
			l.decisions = slices.Clone(c.list)
			slices.Reverse(l.decisions)
			if c.lost {
				h.suffer(fault{kind: "flushall", span: span{middle, middle}, lost: true})
			}
			got := strings.Join(h.judge().violations, ", ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
