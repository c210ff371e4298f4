package lease_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestWithdrawSome: whoever of five goes away, the others are served in their
// order, and nothing is asked for or expected on behalf of those who have gone.
func TestWithdrawSome(t *testing.T) {
	const all = 5
	for leaves := range 1 << all {
		h := lease.NewHolder("a", thousand, lease.Policy{}, 1)
		var gone, stay []*lease.Waiter
		first, sum := 0.0, 0.0 // of those who stay
		for i := range all {
			w := &lease.Waiter{N: float64(int(1) << i), Until: time.Hour}
			h.Take(0, w.N)
			h.Enter(w)
			if leaves>>i&1 != 0 {
				gone = append(gone, w)
				continue
			}
			if len(stay) == 0 {
				first = w.N
			}
			stay, sum = append(stay, w), sum+w.N
		}
		for _, i := range rand.New(rand.NewPCG(uint64(leaves), 0)).Perm(len(gone)) {
			if !h.Withdraw(0, gone[i]) || h.Withdraw(0, gone[i]) {
				t.Fatalf("%05b: a waiter withdraws once", leaves)
			}
		}
		if got, want := h.RetryAfter(0, float64(thousand.Burst)), time.Duration(max(sum, 1))*ms; got != want {
			t.Errorf("%05b: a Burst behind them takes %v, want %v", leaves, got, want)
		}
		h.Probe(0, true) // also if nobody is left
		q, ok := h.Poll(0)
		if !ok || q.Take != first || q.Min != first {
			t.Fatalf("%05b: %v, asks for %v and %v, want %v", leaves, ok, q.Take, q.Min, first)
		}
		h.Handle(0, lease.Reply{Seq: q.Seq, Taken: sum})
		if done := h.Resolved(); !slices.Equal(done, stay) {
			t.Errorf("%05b: %d served, want %d in their order", leaves, len(done), len(stay))
		}
		for _, w := range stay {
			if h.Withdraw(0, w) {
				t.Errorf("%05b: who has been served withdraws", leaves)
			}
		}
	}
}

// TestWithdrawAll: a crowd goes away in any order, and each in no time: it does so
// under its caller's lock. All take some 40 ms; with a search for each they
// would half a minute.
func TestWithdrawAll(t *testing.T) {
	const crowd, most = 200_000, 2 * time.Second
	h := lease.NewHolder("a", thousand, lease.Policy{}, 1)
	all := make([]lease.Waiter, crowd)
	for i := range all {
		all[i] = lease.Waiter{N: 1, Until: time.Hour}
		h.Take(0, 1)
		h.Enter(&all[i])
	}
	start := time.Now()
	for n, i := range rand.New(rand.NewPCG(1, 0)).Perm(crowd) {
		if !h.Withdraw(0, &all[i]) {
			t.Fatalf("%d was not there", i)
		}
		if took := time.Since(start); took > most {
			t.Fatalf("%d of %d have gone after %v", n, crowd, took)
		}
	}
	t.Logf("%d have gone after %v", crowd, time.Since(start))
}
