package lease_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// playHistories plays one history of each seed, from -first on. It fails with the first seed
// whose history breaks an invariant. begin makes a history, and run lets it happen.
func playHistories(
	t *testing.T, seeds int, begin func(seed uint64) *history, run func(h *history),
) {
	t.Helper()
	for seed := range longform.Seeds(seeds) {
		h := begin(seed)
		run(h)
		if h.err != nil {
			t.Fatalf("seed %d, %v, %+v: %v", seed, h.limit, h.policy, h.err)
		}
	}
}

// playFull plays histories of 400 steps, few of them in the short form. full is how often a history
// used up all that its limit has: in many that must be so.
func playFull(
	t *testing.T, few int, begin func(seed uint64) *history, full func(h *history) int,
) {
	t.Helper()
	seeds := longform.Histories(few, 4000)
	n := 0
	playHistories(t, seeds, begin, func(h *history) {
		h.run(400)
		n += full(h)
	})
	t.Logf("%d histories of 400 steps, all was used %d times", seeds, n)
	if n < seeds/4 {
		t.Error("too few to mean anything")
	}
}

// playChanges plays histories in which limits change. In the short form it plays few of them.
func playChanges(t *testing.T, few int, begin func(seed uint64) *history) {
	t.Helper()
	playHistories(t, longform.Histories(few, 1000), begin, func(h *history) {
		h.changes = true
		h.run(400)
	})
}

// playLostState plays histories in which the ledger loses its state halfway. beyond is by how
// much a history exceeds its limit at worst: some must do so.
func playLostState(
	t *testing.T, begin func(seed uint64) *history, beyond func(h *history) float64,
) {
	t.Helper()
	worst := 0.0
	playHistories(t, longform.Histories(100, 1000), begin, func(h *history) {
		h.charges = false // debts may be lost as well
		h.run(200)
		h.lose()
		h.run(400)
		worst = max(worst, beyond(h)/float64(h.largest.Burst))
	})
	t.Logf("worst: %.2f of the limit more", worst)
	if worst == 0 {
		t.Error("no history lost what mattered")
	}
}

// TestInvariants plays thousands of histories. Each is checked for I1 to I4
// after every step; see history.check.
func TestInvariants(t *testing.T) {
	seeds := longform.Histories(300, 4000)
	worst, calm, parked, back, forfeited := 0.0, 0, 0, 0.0, 0.0
	playHistories(t, seeds, newHistory, func(h *history) {
		h.run(400)
		if !h.charges {
			worst = max(worst, h.excess/h.limit.Rate)
		}
		back, forfeited = back+h.back, forfeited+h.ended
		calm += h.calm
		parked += h.parked
	})
	if calm < 10*seeds || parked < seeds {
		t.Errorf("%d batches of calm keys, %d parked holders are too few to mean anything", calm, parked)
	}
	if least := 10 * float64(seeds); back < least || forfeited < least {
		t.Errorf("%v tokens came back, and %v were forfeited: too few to mean anything", back, forfeited)
	}
	t.Logf("%d histories of 400 steps, %d holders parked; worst excess %.1f ms of rate, at most %v allowed", seeds, parked, worst*1000, historyTimeout)
}

// TestSettled: what is settled in any window of T seconds is at most Burst + Rate*T and what is
// owed at its end. Tokens are reserved again and again, come back, are forfeited, charged, and
// refunded.
func TestSettled(t *testing.T) {
	seeds := longform.Histories(200, 3000)
	back, forfeited, refunded, owed, chains := 0.0, 0.0, 0.0, 0, 0
	begin := func(seed uint64) *history {
		h := newHistory(3000 + seed)
		h.settles, h.charges, h.refunds = true, seed%2 == 0, seed%3 > 0
		return h
	}
	playHistories(t, seeds, begin, func(h *history) {
		h.run(400)
		back, forfeited, chains = back+h.back, forfeited+h.ended, chains+h.chains
		refunded += h.refunded
		if h.owed > float64(h.limit.Burst)/4 {
			owed++
		}
	})
	t.Logf("%d histories: %.0f tokens came back, %.0f were forfeited, %.0f refunded, "+
		"%d reservations after that, %d large debts",
		seeds, back, forfeited, refunded, chains, owed)
	few := 10 * float64(seeds)
	if back < 5*few || forfeited < few || refunded < few || chains < 20*seeds || owed < seeds/10 {
		t.Error("too few to mean anything")
	}
}

// TestLimitChanges: while limits change, admissions stay within the largest of
// them, and a lowered limit is what is divided within one lease's life.
func TestLimitChanges(t *testing.T) { playChanges(t, 300, newHistory) }

// TestLowered: I4 holds again within one life of a lease after a limit is lowered.
func TestLowered(t *testing.T) {
	h := newHistory(1)
	h.lossy, h.waits, h.policy = false, false, lease.Policy{}
	h.limit = lease.Limit{Rate: 1000, Burst: 1000}
	h.actors = nil
	for i := range 4 {
		a := &actor{}
		h.start(a, i)
		h.actors = append(h.actors, a)
	}
	h.largest = h.limit
	busy := func(d time.Duration) {
		for end := h.now + d; h.now < end; {
			h.now += time.Millisecond
			for _, a := range h.actors {
				if a.holder.Take(a.clock(h.now), 1) == lease.Pending {
					a.holder.Enter(&lease.Waiter{N: 1})
				}
				h.tend(a)
			}
			for len(h.net) > 0 {
				h.deliver()
			}
		}
	}
	busy(time.Second)
	lowered := lease.Limit{Rate: 100, Burst: 100}
	for _, a := range h.actors {
		a.holder.SetLimit(lowered)
	}
	busy(750 * time.Millisecond) // tokenLife and rate life of a 250 ms refresh
	if v := h.ledger.View(); v.Pool+v.Bursts > 100 || v.Rates > 100 {
		t.Errorf("a life after the limit was lowered to %v, %v tokens and %v/s are out", lowered, v.Pool+v.Bursts, v.Rates)
	}
}

// TestLostState is I6: when the ledger's state is lost under load, at most one
// Burst is admitted beyond the envelope, and what the old leases refill until
// they end.
func TestLostState(t *testing.T) {
	worst := 0.0
	for seed := range longform.Of[uint64](200, 1000) {
		h := newHistory(seed)
		h.settles, h.charges, h.refunds = false, false, false
		h.run(200)
		h.ledger, h.flushed = new(lease.Ledger), true
		h.level, h.spent = 0, nil // what was admitted before is before
		before := h.excess
		h.excess = 0
		slackOnly := h.err
		for i := 0; i < 400; i++ {
			h.step()
		}
		p := h.policy.Resolved()
		allowed := float64(h.limit.Burst) + h.limit.Rate*(p.MaxRefresh*9/4+historyTimeout).Seconds()
		if h.excess > allowed+rounding || slackOnly != nil {
			t.Fatalf("seed %d, %v, %+v: %v excess, %v allowed; before %v, %v", seed, h.limit, h.policy, h.excess, allowed, before, slackOnly)
		}
		worst = max(worst, h.excess/float64(h.limit.Burst))
	}
	t.Logf("worst excess %.2f Burst", worst)
}
