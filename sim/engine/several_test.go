package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// keysOf are the keys of a request, of all limits.
func keysOf(s *scenario.Scenario, q *request) []int {
	keys := []int{q.Key}
	for i := range len(s.Limits()) - 1 {
		keys = append(keys, int(q.More[i]))
	}
	return keys
}

// naive is an ideal limit of a key, written from its definition.
type naive struct {
	limit lease.Limit
	level float64
	at    time.Duration
}

func (b *naive) tokens(at time.Duration) float64 {
	if b.limit.Kind == lease.KindQuota {
		if at/b.limit.Window > b.at/b.limit.Window {
			b.level = float64(b.limit.Burst)
		}
	} else {
		b.level = min(b.level+b.limit.Rate*(at-b.at).Seconds(), float64(b.limit.Burst))
	}
	b.at = at
	return b.level
}

// Several limits for each request, against a count of their own of verdicts and of an ideal
// all-or-nothing check: each limit is kept, whatever befalls the fleet, and every token of
// each is accounted for.
func TestSeveralAreKept(t *testing.T) {
	for seed := range longform.Of[uint64](8, 30) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := drawSeveral(t, rand.New(rand.NewPCG(seed, 8)))
			limits := s.Limits()
			ideals := map[int]*naive{}
			windows := map[[2]int]float64{} // tokens by key and window of a quota
			ideal, admitted := 0.0, 0.0
			undecided := map[workload.Request]float64{} // what the ideal limits admit of requests under way
			e, r := watch(t, s, int(seed), func(h happening) {
				keys := keysOf(s, &h.request)
				switch {
				case h.what == asked:
					all := true
					for i, k := range keys {
						if ideals[k] == nil {
							ideals[k] = &naive{limits[i].Limit, float64(limits[i].Limit.Burst), h.at}
						}
						all = all && ideals[k].tokens(h.at) >= float64(h.Cost)-1e-9
					}
					if all {
						undecided[h.came()] += float64(h.Cost)
						for _, k := range keys {
							ideals[k].level -= float64(h.Cost)
						}
					}
				case h.what == settled:
					ideal += undecided[h.came()]
					delete(undecided, h.came())
					if h.verdict != lease.Admitted {
						return
					}
					admitted += float64(h.Cost)
					for i, k := range keys {
						if l := limits[i].Limit; l.Kind == lease.KindQuota && !h.byOutage {
							windows[[2]int{k, int(h.at / l.Window)}] += float64(h.Cost)
							if windows[[2]int{k, int(h.at / l.Window)}] > float64(l.Burst) {
								t.Errorf("%s: above the quota at %v", s.KeyName(k), h.at)
							}
						}
					}
				}
			})
			if math.Abs(r.TokensIdeal-ideal) > 1e-3*ideal || r.TokensAdmitted != admitted ||
				r.Admitted == 0 {
				t.Errorf("ideal %v, by hand %v; admitted %v, by hand %v\n%s", r.TokensIdeal, ideal,
					r.TokensAdmitted, admitted, s.Text())
			}
			for _, l := range r.Limits {
				if l.Excess > l.ExcessAllowed && r.ByOutage == 0 {
					t.Errorf("%s: %v tokens above the limit, %v allowed\n%s", l.Name, l.Excess, l.ExcessAllowed,
						s.Text())
				}
			}
			if r.ExcessDebited > 0.01 && r.ByOutage == 0 {
				t.Errorf("%v tokens above a limit with grants counted at the debit\n%s", r.ExcessDebited,
					s.Text())
			}
			if r.Pending < 0 || r.Pending > int64(s.Processes)*40 ||
				r.CallsAdmitting+r.CallsDenying+r.CallsAhead != r.Calls {
				t.Errorf("%d pending, %d of %d calls", r.Pending, r.CallsAdmitting+r.CallsDenying+r.CallsAhead,
					r.Calls)
			}
			checkTokens(t, s, r)
			checkJoints(t, e)
		})
	}
}

// checkJoints: what waits is under way, and what is over is forgotten.
func checkJoints(t *testing.T, e *engine) {
	t.Helper()
	waiting := 0
	for _, d := range present(e.drivers) {
		waiting += len(d.joints)
	}
	asking := 0
	for _, c := range present(e.cells) {
		asking += len(c.asking)
	}
	if waiting != e.meter.pending || asking > waiting*len(e.limits) || len(e.lapses) < waiting {
		t.Errorf("%d joints wait, %d ledgers are asked, %d requests are pending, %d lapse", waiting,
			asking, e.meter.pending, len(e.lapses))
	}
}

func drawSeveral(t *testing.T, r *rand.Rand) *scenario.Scenario {
	one := oneOf(r)
	return read(t, fmt.Sprintf(`{duration: 12s, processes: %d,
		keys: [{name: client, limit: %s, number: %s, skew: %s}, {name: window, limit: quota %s/3s},
			{name: all, limit: %s/s, burst: %s}],
		load: {rate: %s/s, %s}, balance: {skew: %s}, redis: {latency: %s, timeout: 60ms, %s},
		policy: {mode: %s}, outage: %s, faults: %s}`,
		1+r.IntN(12), one("5/s", "30/s", "quota 50/2s"), one("1", "4", "60"), one("0", "1"),
		one("90", "2000"),
		one("20", "300"), one("7", "50", "300"), one("60", "700"),
		one("cost: 1", "costs: [1, 1, 5]", "retry: {times: 2}", "cost: 2"), one("0", "1.5"),
		one("1ms", "20ms"),
		one("lost: 0", "lost: 0.05", "repeated: 0.1", "jitter: 0.5"),
		one("auto", "auto", "batches", "shares", "per-request"),
		one("share", "deny", "allow"),
		one("[]", "[]", "[{kind: crash, at: 1s, every: 900ms, for: 300ms}]",
			"[{kind: leave, at: 1s, every: 900ms, for: 300ms}]",
			"[{kind: outage, at: 5s, for: 2s}]", "[{kind: partition, at: 5s, for: 3s}]")))
}

// A request that one limit denies costs the others nothing: a thousand of them leave the
// other bucket as full as none do, in one process and in eight (issue 14).
func TestDenialCostsOthersNothing(t *testing.T) {
	for _, processes := range []int{1, 8} {
		for _, mode := range []string{"auto", "per-request"} {
			s := read(t, fmt.Sprintf(`{duration: 20s, processes: %d, policy: {mode: %s},
				keys: [{name: small, limit: 3/day}, {name: large, limit: 0.0057/h, burst: 50}],
				load: {rate: 100/s, flash: [{at: 10s, for: 10s, times: 0}]}}`, processes, mode))
			e, r := watch(t, s, 0, nil)
			left, _ := e.keys[1].pool(e.now)
			for _, c := range present(e.cells) {
				if c.number == 1 {
					left += held(c.entry.Lease(e.now))
				}
			}
			t.Logf("%d processes, %s: %d admitted, %d denied, "+
				"the other bucket has %.4f of 50, %.4f calls a request",
				processes, mode, r.Admitted, r.Denied, left, r.CallsPerRequest)
			if r.Admitted != 3 || r.Denied < 900 || r.Limits[0].Denied != r.Denied ||
				r.Limits[1].Denied != 0 {
				t.Errorf("%d processes, %s: %d admitted, %d denied: %+v", processes, mode, r.Admitted, r.Denied,
					r.Limits)
			}
			if math.Abs(left-47) > 0.01 {
				t.Errorf("%d processes, %s: the other bucket has %.3f tokens, want 47", processes, mode, left)
			}
			checkTokens(t, s, r)
		}
	}
}

// A request above the burst of one limit is denied by that one, and by an ideal one of its burst.
func TestAboveABurstIsDeniedByIt(t *testing.T) {
	for _, mode := range []string{"auto", "per-request"} {
		s := read(t, fmt.Sprintf(`{duration: 20s, warmup: 1s, processes: 2, policy: {mode: %s},
			keys: [{name: small, limit: 100/s, burst: 5}, {name: large, limit: 1000/s, burst: 500}],
			load: {rate: 10/s, costs: [1, 10]}}`, mode))
		r := play(t, s, 0)
		small, large := r.Limits[0], r.Limits[1]
		if r.AboveBurst < 50 || r.Denied != r.AboveBurst || small.Denied != r.AboveBurst ||
			small.IdealDenied != r.AboveBurst || large.Denied+large.IdealDenied != 0 {
			t.Errorf("%s: %d denied, %d above the burst: %+v", mode, r.Denied, r.AboveBurst, r.Limits)
		}
	}
}

// came is the request as it came, before it was sent to a process.
func (h *happening) came() workload.Request {
	q := h.request.Request
	q.Process = 0
	return q
}
