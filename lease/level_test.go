package lease_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A town is some holders and their ledger, each a millisecond of journey away in all.
// Time goes by milliseconds.
type town struct {
	ledger  lease.Ledger
	holders []*lease.Holder
	mail    []posted
	now     time.Duration
}

type posted struct {
	to    *lease.Holder
	at    time.Duration
	reply lease.Reply
}

func newTown(limit lease.Limit, policy lease.Policy, holders int) *town {
	w := &town{now: time.Hour}
	for i := range holders {
		id := string(rune('a' + i))
		w.holders = append(w.holders, lease.NewHolder(id, limit, &policy, uint64(i)))
	}
	return w
}

// tend does the drivers' duties until nobody has anything to do, and returns those who
// have their verdict.
func (w *town) tend() (done []*lease.Waiter) {
	for _, h := range w.holders {
		w.mail = slices.DeleteFunc(w.mail, func(m posted) bool {
			if m.to != h || m.at > w.now {
				return false
			}
			h.Handle(w.now, m.reply)
			return true
		})
		r := h.Ready(w.now)
		done = append(done, r.Resolved...)
		if q, ok := h.Request(w.now); r.Ask && ok {
			w.mail = append(w.mail, posted{h, w.now + ms, w.ledger.Exchange(w.now+ms/2, q)})
		}
	}
	return done
}

// step is a millisecond.
func (w *town) step() []*lease.Waiter {
	w.now += ms
	return w.tend()
}

// take asks the first holder for n tokens, and waits for the verdict.
func (w *town) take(n float64) lease.Verdict {
	h := w.holders[0]
	if v := h.Take(w.now, n); v != lease.Pending {
		w.tend()
		return v
	}
	x := &lease.Waiter{N: n}
	h.Enter(x)
	done := w.tend()
	for !slices.Contains(done, x) {
		done = w.step()
	}
	return x.Verdict
}

var modes = []lease.Mode{lease.Auto, lease.Batches, lease.Shares, lease.PerRequest}

// TestLevelCountsDown: to a process that is alone, the level says how many of 20 tokens
// are left after each of them, whoever decides.
func TestLevelCountsDown(t *testing.T) {
	limit := lease.Limit{Rate: 20.0 / 3600, Burst: 20}
	for _, mode := range modes {
		if mode == lease.Shares {
			continue // a slice may not get the pool's last tokens
		}
		for _, pause := range []time.Duration{0, ms, 20 * ms, 300 * ms} {
			w := newTown(limit, lease.Policy{Mode: mode, Smallest: 1}, 1)
			if left := w.holders[0].Level(w.now); left != 20 {
				t.Errorf("%v: %d before the first exchange", mode, left)
			}
			for want := int64(19); want >= 0; want-- {
				v := w.take(1)
				left, reset := w.holders[0].Level(w.now), w.holders[0].ResetAfter(w.now)
				if v != lease.Admitted || left != want {
					t.Fatalf("%v, every %v: %v, %d left, not %d", mode, pause, v, left, want)
				}
				// In all of this time, less than a token has come.
				full := time.Duration(20-want) * 180 * time.Second
				if reset > full || reset < full-7*time.Second {
					t.Fatalf("%v: full in %v, not in %v", mode, reset, full)
				}
				for range pause / ms {
					w.step()
				}
			}
			if v := w.take(1); v != lease.Denied || w.holders[0].Level(w.now) != 0 {
				t.Errorf("%v: %v, %d left", mode, v, w.holders[0].Level(w.now))
			}
		}
	}
}

// TestLevelIsTheLedgers: of a holder that is alone, the level is that of an ideal bucket,
// within what refills during a round trip, also between exchanges.
func TestLevelIsTheLedgers(t *testing.T) {
	for _, mode := range modes {
		for seed := range uint64(20) {
			rng := rand.New(rand.NewPCG(seed, 0))
			limit := lease.Limit{Rate: 50, Burst: 100}
			w := newTown(limit, lease.Policy{Mode: mode}, 1)
			h := w.holders[0]
			ideal, at := float64(limit.Burst), w.now
			worst, most := 0.0, 0.0
			for range 3000 {
				w.step()
				ideal = min(ideal+limit.Rate*(w.now-at).Seconds(), float64(limit.Burst))
				at = w.now
				if rng.IntN(15) == 0 {
					if n := float64(1 + rng.IntN(3)); w.take(n) == lease.Admitted {
						ideal -= n
					}
				}
				gap := ideal - float64(h.Level(w.now))
				worst, most = min(worst, gap), max(most, gap)
			}
			// What a lease has no room for is lost to the level, but not to the ideal.
			if worst < -1 || most > 25 {
				t.Errorf("%v, seed %d: off by %.2f to %.2f", mode, seed, worst, most)
			}
		}
	}
}

// TestLevelLeavesEarmark: what is kept for a large request of one holder is left for no
// other one, and counts as there for as long as it takes at least.
func TestLevelLeavesEarmark(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	l := new(lease.Ledger)
	now := time.Hour
	ask := func(id string, n float64) (*lease.Holder, lease.Reply) {
		h := lease.NewHolder(id, limit, &lease.Policy{Mode: lease.PerRequest}, 1)
		h.Take(now, n)
		h.Enter(&lease.Waiter{N: n})
		q, _ := h.Request(now)
		r := l.Exchange(now, q)
		h.Handle(now, r)
		return h, r
	}
	ask("small", 98)
	large, r := ask("large", 40)
	if r.Taken != 0 || r.Pool.Earmark != 0 || large.Level(now) != 2 {
		t.Errorf("%+v: the holder of the earmark finds %d left", r, large.Level(now))
	}
	now += 300 * ms
	other, r := ask("other", 1)
	if r.Taken != 0 || r.Pool.Level != 32 || r.Pool.Earmark != 40 || other.Level(now) != 0 {
		t.Errorf("%+v: another holder finds %d left", r, other.Level(now))
	}
	if left := other.Level(now + 200*ms); left != 12 {
		t.Errorf("%d of 52 are left beside 40", left)
	}
}

// TestLevelOfOthers: what others hold is not counted, also when time goes by.
func TestLevelOfOthers(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	l := new(lease.Ledger)
	now := time.Hour
	other := ask("b", 1, func(q *lease.Request) {
		q.Limit, q.Policy.Mode, q.Policy.Batch = limit, lease.Batches, 30
	})
	if r := l.Exchange(now, other); r.Add != 30 {
		t.Fatalf("lends %v", r.Add)
	}
	h := lease.NewHolder("a", limit, &lease.Policy{Mode: lease.PerRequest, MaxHold: 250 * ms}, 1)
	h.Take(now, 10)
	h.Enter(&lease.Waiter{N: 10})
	q, _ := h.Request(now)
	r := l.Exchange(now, q)
	want := lease.Pool{Level: 60, Flow: 100, Room: 70}
	if r.Pool != want {
		t.Errorf("%+v, not %+v", r.Pool, want)
	}
	h.Handle(now, r)
	for _, c := range []struct {
		after time.Duration
		level int64
		reset time.Duration
	}{{0, 60, 400 * ms}, {50 * ms, 65, 350 * ms}, {time.Second, 70, 300 * ms}} {
		got, reset := h.Level(now+c.after), h.ResetAfter(now+c.after)
		if got != c.level || (reset-c.reset).Abs() > time.Microsecond {
			t.Errorf("after %v: %d left, full in %v", c.after, got, reset)
		}
	}
}

// TestDryAtWhatIsSpared: where slices under contention leave the pool's last tokens to
// others, the pool has run dry for them. They live on their refill, and do not ask
// again before their refresh.
func TestDryAtWhatIsSpared(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, demanding(1000)))
	l.Exchange(ms, ask("b", 1, demanding(1000))) // both have just come: there is unrest
	thirsty := func(take, held float64) func(*lease.Request) {
		return func(q *lease.Request) { q.Demand, q.Take, q.Min, q.Held = 1000, take, min(take, 1), held }
	}
	r := l.Exchange(20*ms, ask("a", 2, thirsty(2000, 0)))
	if r.Shape != lease.Slice || r.Taken == 0 || r.Pool.Level < 1 {
		t.Fatalf("nothing is spared: %+v", r)
	}
	r = l.Exchange(20*ms, ask("a", 3, thirsty(0, r.Burst/8)))
	if r.Shape != lease.Slice || !r.Dry || r.RetryAfter != r.Refresh {
		t.Errorf("dry %v, back after %v, refreshed after %v: %+v", r.Dry, r.RetryAfter, r.Refresh, r)
	}
}

// TestOverloadFromTheStart: a fleet that uses up the burst, and goes on at twice the
// limit, does not ask more often at that moment.
func TestOverloadFromTheStart(t *testing.T) {
	f := fleet{
		limit: lease.Limit{Rate: 100_000, Burst: 100_000}, procs: 10, offered: 2, skew: 1,
		rtt: ms, timeout: 50 * ms,
	}
	s := f.begin(1)
	s.play(500 * ms)
	before := s.calls
	s.play(900 * ms)
	calm := s.calls - before
	s.play(1300 * ms) // the burst has gone after 1 s
	if dry := s.calls - before - calm; float64(dry) > 1.2*float64(calm) {
		t.Errorf("%d exchanges in 400 ms before the burst is used up, %d in those when it is", calm, dry)
	}
}

// TestAloneHasAll: a process without others is denied when the bucket is as good as empty.
func TestAloneHasAll(t *testing.T) {
	for _, limit := range []lease.Limit{
		{Rate: 50. / 3600, Burst: 50}, {Rate: 100. / 3600, Burst: 100}, {Rate: 1000. / 3600, Burst: 1000},
		{Rate: 5000. / 3600, Burst: 5000}, {Rate: 100, Burst: 1000}, {Rate: 1000, Burst: 1000},
	} {
		var l lease.Ledger
		h := lease.NewHolder("a", limit, &lease.Policy{}, 1)
		got, now := 0.0, time.Hour
		for ; ; now += 100 * time.Microsecond {
			v := h.Take(now, 1)
			if v == lease.Pending {
				w := &lease.Waiter{N: 1}
				h.Enter(w)
				for ; v == lease.Pending; now += ms {
					h.Ready(now)
					if q, due := h.Request(now); due {
						now += ms
						h.Handle(now, l.Exchange(now, q))
					}
					h.Ready(now)
					v = w.Verdict
				}
			}
			if v != lease.Admitted {
				break
			}
			got++
		}
		if all := float64(limit.Burst) + limit.Rate*(now-time.Hour).Seconds(); got < math.Floor(0.995*all) {
			t.Errorf("%v: the only process is denied after %v of %.0f tokens", limit, got, all)
		}
	}
}
