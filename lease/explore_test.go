package lease_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

var exploreDepth = flag.Int("explore", 0, "how many moves TestExplore looks ahead, instead of 4 or 5")

// farSighted are beginnings from which the short form looks as far ahead as the long form. With a
// move less, TestMutations would miss a rule there.
var farSighted = map[string]bool{
	"from nothing, a calm key": true, "debts": true, "debts and reservations": true,
	"reservations of a calm key": true,
}

// TestExplore goes through all worlds that so many moves lead to, in every order:
// requests, polls, messages that are delivered at once, late, twice or never,
// crashes, leases that end, limits that change, state that is lost, tokens that are reserved,
// given back and charged. I1 to I4 are checked in each, what holds of debts (checkReserves), and
// I6 after a loss. What takes many moves is in the beginnings. (Most worlds are
// reached in several ways, and only looked at once.)
//
//	go test ./lease -run TestExplore -v -explore 7 -timeout 1h
func TestExplore(t *testing.T) {
	small, wide := lease.Limit{Rate: 100, Burst: 40}, lease.Limit{Rate: 400, Burst: 96}
	short := lease.Policy{MaxHold: 250 * ms} // nothing is lent of calm keys for longer
	quota := lease.Limit{Kind: lease.KindQuota, Burst: 300, Window: time.Second}
	slide := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: time.Second}
	fewer, longer := slide, slide
	fewer.Burst, longer.Window = 40, 2*time.Second
	mode := func(m lease.Mode) lease.Policy { return lease.Policy{Mode: m, Batch: 6} }
	for _, c := range []struct {
		name    string
		setting setting
		faults  int
		members int
		every   time.Duration // a request of each member, to begin with
		warm    time.Duration // for how long
		late    bool          // then a request of a is so late that another one is under way
		depth   int           // of the long form; the short form looks a move less ahead
	}{
		{"from nothing", setting{limit: small, waits: true}, 2, 2, 0, 0, false, 5},
		{"contended slices", setting{limit: small}, 2, 2, 8 * ms, 400 * ms, false, 5},
		{"contended slices, waiting", setting{limit: small, waits: true, stays: 30 * ms, sizes: []float64{1, 3}}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"slices", setting{limit: small, policy: short}, 2, 2, 25 * ms, 700 * ms, false, 5},
		{"slices for long", setting{limit: wide}, 2, 2, 25 * ms, 700 * ms, false, 5},
		{"calm batches", setting{limit: wide, waits: true}, 2, 2, 300 * ms, 3 * time.Second, false, 4},
		{"contended slices, a late request", setting{limit: small}, 1, 2, 8 * ms, 400 * ms, true, 4},
		{"slices, a late request", setting{limit: small, policy: short}, 1, 2, 25 * ms, 700 * ms, true, 5},
		{"slices for long, a late request", setting{limit: wide}, 1, 2, 25 * ms, 700 * ms, true, 4},
		{"batches, a late request", setting{limit: lease.Limit{Rate: 400, Burst: 40}, policy: mode(lease.Batches), waits: true}, 1, 2, 8 * ms, 400 * ms, true, 4},
		{"batches", setting{limit: lease.Limit{Rate: 400, Burst: 40}, policy: mode(lease.Batches), waits: true}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"shares", setting{limit: small, policy: mode(lease.Shares)}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"max-min", setting{limit: small, policy: lease.Policy{Fairness: lease.MaxMin}}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"every request asks", setting{limit: lease.Limit{Rate: 100, Burst: 3}, policy: mode(lease.PerRequest), waits: true, sizes: []float64{1, 2}}, 2, 2, 0, 0, false, 4},
		// A first batch is the only lease that can come 20 ms late and end within five
		// moves: with the slow clock of b, that is more than its margin, a 512th of 15 s.
		{"from nothing, a calm key", setting{limit: wide, waits: true}, 2, 2, 0, 0, false, 5},
		{"two limits", setting{limit: small, lower: lease.Limit{Rate: 30, Burst: 15}}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"a quota", setting{limit: quota}, 2, 2, 8 * ms, 400 * ms, false, 5},
		{"a quota, waiting", setting{limit: quota, waits: true, stays: 30 * ms, sizes: []float64{1, 3}}, 2, 2, 8 * ms, 940 * ms, false, 4},
		{"a quota, a late request", setting{limit: quota, waits: true}, 1, 2, 8 * ms, 600 * ms, true, 4},
		{"slots", setting{limit: slots(5), keeps: 2, waits: true}, 2, 2, 0, 0, false, 5},
		{"a slot", setting{limit: slots(2), keeps: 2, waits: true}, 1, 3, 0, 0, false, 5},
		{"slots that are in use", setting{limit: slots(5), keeps: 2, waits: true}, 2, 2, 60 * ms,
			300 * ms, false, 5},
		{"slots, a late request", setting{limit: slots(5), keeps: 2, waits: true}, 1, 2, 60 * ms,
			300 * ms, true, 4},
		{"fewer slots", setting{limit: slots(6), lower: slots(3), keeps: 2, waits: true}, 2, 2, 60 * ms,
			300 * ms, false, 4},
		{"a sliding window", setting{limit: slide}, 2, 2, 8 * ms, 400 * ms, false, 5},
		{"a sliding window that turns", setting{limit: slide, waits: true, sizes: []float64{1, 3}}, 2, 2,
			8 * ms, 1004 * ms, false, 4},
		{"a sliding window, a late request", setting{limit: slide, waits: true}, 1, 2, 8 * ms, 600 * ms,
			true, 4},
		{"a sliding window, reservations", setting{limit: slide, keeps: 2, waits: true}, 1, 2, 8 * ms,
			400 * ms, false, 4},
		{"a sliding window, debts", setting{limit: slide, charge: 60, waits: true}, 1, 2, 8 * ms,
			600 * ms, false, 4},
		{"a lower sliding window", setting{limit: slide, lower: fewer, waits: true}, 2, 2, 8 * ms,
			600 * ms, false, 4},
		{"another sliding window", setting{limit: slide, lower: longer, waits: true}, 1, 2, 8 * ms,
			400 * ms, false, 4},
		{"reservations", setting{limit: small, keeps: 2, waits: true}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"reservations of nothing", setting{limit: lease.Limit{Rate: 100, Burst: 3}, keeps: 2,
			waits: true, sizes: []float64{2}}, 2, 2, 0, 0, false, 5},
		{"reservations of batches", setting{limit: lease.Limit{Rate: 400, Burst: 40},
			policy: mode(lease.Batches), keeps: 4, waits: true}, 2, 2, 8 * ms, 400 * ms, false, 4},
		{"reservations of a calm key", setting{limit: wide, keeps: 2, waits: true}, 1, 2, 300 * ms,
			3 * time.Second, false, 4},
		{"reservations of a quota", setting{limit: quota, keeps: 2, waits: true}, 1, 2, 8 * ms, 940 * ms,
			false, 4},
		{"debts", setting{limit: small, charge: 20}, 2, 2, 8 * ms, 400 * ms, false, 5},
		{"debts and reservations", setting{limit: small, charge: 8, keeps: 2, waits: true}, 1, 2, 8 * ms,
			400 * ms, false, 4},
		{"debts of nothing", setting{limit: lease.Limit{Rate: 100, Burst: 3}, charge: 5, waits: true}, 1,
			1, 0, 0, false, 7},
		{"debts of a quota", setting{limit: quota, charge: 200, waits: true}, 1, 2, 8 * ms, 940 * ms,
			false, 4},
		{"three holders", setting{limit: small}, 1, 3, 15 * ms, 400 * ms, false, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.setting
			if s.sizes == nil {
				s.sizes = []float64{1}
			}
			w := newWorld(&s, c.members, c.faults)
			w.warmUp(t, c.every, c.warm)
			for c.late && len(w.net) < 2 {
				*w = *w.after(move{kind: "pass", until: max(w.calls(0), w.now)})
				*w = *w.after(move{kind: "polls", who: 0})
			}
			x := explorer{t: t, best: map[uint64]int{}}
			if !longform.Set() && !farSighted[c.name] {
				c.depth--
			}
			if *exploreDepth > 0 {
				c.depth = *exploreDepth
			}
			began := time.Now()
			x.explore(w, c.depth)
			t.Logf("%d worlds, %d moves, all orders of %d; lent at the beginning: %s; %v", len(x.best), x.moves, c.depth, w.lent(), time.Since(began))
		})
	}
}

// warmUp lets requests come at an even pace, and nothing go wrong.
func (w *world) warmUp(t *testing.T, every, length time.Duration) {
	defer func(waits bool) { w.waits = waits }(w.waits)
	w.waits = true // else nobody would ever ask
	for end := w.now + length; w.now < end; {
		*w = *w.after(move{kind: "pass", until: w.now + ms})
		for i := range w.members {
			if every > 0 && (w.now+time.Duration(i)*ms)%every == 0 {
				m := move{kind: "take", who: i, n: w.sizes[0]}
				if w.keeps > 0 && len(w.members[i].reserved) == 0 {
					m = move{kind: "reserves", who: i, n: w.keeps} // one is open from then on
				}
				if w.limit.Kind == lease.KindSlots {
					m = w.usual(i)
				}
				*w = *w.after(m)
			}
			if w.calls(i) <= w.now {
				*w = *w.after(move{kind: "polls", who: i})
			}
		}
		for len(w.net) > 0 {
			*w = *w.after(move{kind: "deliver", who: 0})
		}
		if err := w.check(); err != nil {
			t.Fatal(err)
		}
	}
}

// lent describes the leases that are out.
func (w *world) lent() string {
	var all []string
	for _, r := range w.ledger.View().Holders {
		all = append(all, fmt.Sprintf("%s %.3g/s burst %.3g", r.ID, r.Rate, r.Burst))
	}
	return strings.Join(all, ", ")
}

// An explorer knows the worlds that it has seen, and how many moves ahead it
// has looked from each.
type explorer struct {
	t     *testing.T
	best  map[uint64]int
	moves int
	path  []move
}

// explore looks so many moves ahead.
func (x *explorer) explore(w *world, depth int) {
	for _, m := range w.moves() {
		next := w.after(m)
		x.moves++
		x.path = append(x.path, m)
		if err := next.check(); err != nil {
			x.t.Fatalf("after %v:\n%v", x.path, err)
		}
		sum := next.digest()
		if best, ok := x.best[sum]; !ok || best < depth-1 {
			x.best[sum] = depth - 1
			if depth > 1 {
				x.explore(next, depth-1)
			}
		}
		x.path = x.path[:len(x.path)-1]
	}
}
