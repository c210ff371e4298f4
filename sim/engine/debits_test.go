package engine

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// What a grant gives out counts at its debit, however late its answer comes, and
// whatever was spent meanwhile. The limit is ten a second and a burst of 5.
func TestGrantCountsAtItsDebit(t *testing.T) {
	const (
		spend = iota
		grant
		arrive // n is the number of the grant
		limit  // tokens is the Rate of another one
	)
	type step struct {
		ms     int
		what   int
		n      int
		tokens float64
	}
	none := math.Inf(-1)
	for _, c := range []struct {
		name  string
		steps []step
		want  float64 // excess
	}{
		{"nothing", nil, none},
		{"a spend", []step{{0, spend, 0, 3}}, -2},
		{"a burst, and what has come since", []step{{0, spend, 0, 5}, {100, spend, 0, 1}}, 0},
		{"a token more", []step{{0, spend, 0, 5}, {100, spend, 0, 2}}, 1},
		{"a grant at its debit, not at its arrival",
			[]step{{0, grant, 0, 0}, {500, arrive, 0, 5}, {500, spend, 0, 5}}, 0},
		{"it excuses nothing that is spent before it arrives",
			[]step{{0, grant, 0, 0}, {0, spend, 0, 5}, {500, arrive, 0, 5}}, 5},
		{"a grant of which nothing is given out",
			[]step{{0, grant, 0, 0}, {0, spend, 0, 5}, {500, arrive, 0, 0}}, 0},
		{"a grant of which a part is",
			[]step{{0, grant, 0, 0}, {0, spend, 0, 5}, {500, arrive, 0, 2}}, 2},
		{"two in order",
			[]step{{0, grant, 0, 0}, {100, grant, 1, 0}, {200, arrive, 0, 5}, {300, arrive, 1, 1}}, 0},
		{"two out of order",
			[]step{{0, grant, 0, 0}, {100, grant, 1, 0}, {200, arrive, 1, 1}, {300, arrive, 0, 5}}, 0},
		{"two out of order, a token more",
			[]step{{0, grant, 0, 0}, {100, grant, 1, 0}, {200, arrive, 1, 2}, {300, arrive, 0, 5}}, 1},
		{"another after those have come",
			[]step{{0, grant, 0, 0}, {100, grant, 1, 0}, {200, arrive, 1, 1}, {300, arrive, 0, 5},
				{300, grant, 2, 0}, {400, arrive, 2, 2}, {400, spend, 0, 1}}, 0},
		{"a larger limit from then on",
			[]step{{0, spend, 0, 5}, {0, limit, 0, 100}, {100, spend, 0, 5}}, 0},
		{"but not before", []step{{0, spend, 0, 5}, {100, limit, 0, 100}, {100, spend, 0, 5}}, 4},
		{"a limit that changes while a grant is under way",
			[]step{{0, grant, 0, 0}, {100, limit, 0, 100},
				{130, spend, 0, 4}, {900, arrive, 0, 5}}, 0},
		{"the old one counts until then",
			[]step{{0, grant, 0, 0}, {100, limit, 0, 100},
				{130, spend, 0, 5}, {900, arrive, 0, 5}}, 1},
		{"one that is still under way hides nothing",
			[]step{{0, grant, 0, 0}, {100, spend, 0, 8}}, 3},
		{"nor do two",
			[]step{{0, grant, 0, 0}, {0, grant, 1, 0}, {100, spend, 0, 8}, {200, arrive, 1, 2}}, 4},
	} {
		_, unused := ideal.Of(0, lease.Per(10, time.Second).WithBurst(5), 0)
		d := newDebits(unused)
		var numbers []int
		for _, s := range c.steps {
			at := time.Duration(s.ms) * time.Millisecond
			switch s.what {
			case spend:
				d.spend(at, s.tokens, 0)
			case grant:
				numbers = append(numbers, d.grant(at))
			case arrive:
				d.arrive(numbers[s.n], s.tokens)
			case limit:
				d.setLimit(at, lease.Limit{Rate: s.tokens, Burst: 5})
			}
		}
		if got := d.worst(); got != c.want && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: excess %v, want %v", c.name, got, c.want)
		}
	}
}

// On any history debits are what a gauge says that is told everything in the order
// of its debits, which it would have to foresee.
func TestDebitsAreAGaugeThatForesees(t *testing.T) {
	type poured struct {
		at     time.Duration
		tokens float64
		limit  lease.Limit
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		first := lease.Per(100, time.Second).WithBurst(5)
		_, unused := ideal.Of(0, first, 0)
		d := newDebits(unused)
		var history []poured   // in the order of debits
		place := map[int]int{} // of a grant in history, by its number
		var out []int          // numbers under way
		at := time.Duration(0)
		answer := func(i int) {
			number := out[i]
			out = slices.Delete(out, i, i+1)
			tokens := float64(random.IntN(4))
			history[place[number]].tokens = tokens
			d.arrive(number, tokens)
		}
		for range 200 {
			at += time.Duration(random.ExpFloat64() * float64(10*time.Millisecond))
			switch random.IntN(6) {
			case 0, 1:
				n := float64(1 + random.IntN(3))
				history = append(history, poured{at: at, tokens: n})
				d.spend(at, n, 0)
			case 2, 3:
				number := d.grant(at)
				place[number] = len(history)
				out = append(out, number)
				history = append(history, poured{at: at})
			case 4:
				if len(out) > 0 {
					answer(random.IntN(len(out)))
				}
			default:
				if random.IntN(5) == 0 {
					l := lease.Per(float64(50+random.IntN(200)), time.Second).WithBurst(5)
					history = append(history, poured{at: at, limit: l})
					d.setLimit(at, l)
				}
			}
		}
		if seed%2 == 0 { // else some are under way in the end: they give out nothing
			for len(out) > 0 {
				answer(random.IntN(len(out)))
			}
			if len(d.waiting) > 0 {
				t.Errorf("seed %d: %d wait for nothing", seed, len(d.waiting))
			}
		}
		want := math.Inf(-1)
		_, gauge := ideal.Of(0, first, 0)
		for _, h := range history {
			switch {
			case h.limit != lease.Limit{}:
				gauge.SetLimit(h.at, h.limit)
			case h.tokens > 0:
				want = max(want, gauge.Pour(h.at, h.at, h.tokens, 0))
			}
		}
		if got := d.worst(); got != want {
			t.Errorf("seed %d: excess %v, want %v", seed, got, want)
		}
	}
}
