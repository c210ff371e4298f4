package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestCalls: whatever the limit, the cost and the policy, a request costs about
// one exchange at most, and a lease one each MaxRefresh, as long as it is used:
// for half a request at least. Polls are not many more than that.
func TestCalls(t *testing.T) {
	requests := longform.Of(100.0, 400)
	worst, worstPolls := 0.0, 0.0
	for _, f := range odd() {
		rate := f.offered * f.limit.Rate / f.cost // requests/s
		f.duration = time.Duration(min(requests/rate, 1e8) * 1e9)
		s := f.sim(1)
		offered := 0.0
		for _, p := range s.procs {
			offered += p.offered
		}
		refreshes := float64(f.procs) * f.duration.Seconds() / f.policy.MaxRefresh.Seconds()
		calls := (float64(s.calls) - min(refreshes, 2*offered)) / (offered + 10)
		polls := float64(s.polls) / (offered + float64(s.calls) + 10)
		worst, worstPolls = max(worst, calls), max(worstPolls, polls)
		if calls > 1.5 || polls > 2 {
			t.Errorf("%v, %v tokens a request, offered %v, %d processes, %+v: %v requests, %d calls, %d polls",
				f.limit, f.cost, f.offered, f.procs, f.policy, offered, s.calls, s.polls)
		}
	}
	t.Logf("at most %.2f calls a request and %.2f polls a request and call", worst, worstPolls)
}

// odd are fleets of all kinds, most of which nobody would run.
func odd() (all []fleet) {
	for _, mode := range []lease.Mode{lease.Auto, lease.Batches, lease.Shares, lease.PerRequest} {
		for _, fairness := range []lease.Fairness{lease.Proportional, lease.MaxMin} {
			for _, refresh := range []time.Duration{ms, 250 * ms, time.Hour} {
				for _, rate := range []float64{1e-3, 1, 1000, 1e6} {
					for _, burst := range []int64{1, 10, 1000, lease.MaxBurst} {
						limit := lease.Limit{Rate: rate, Burst: burst}
						if limit.Validate() != nil || fairness == lease.MaxMin && (mode == lease.Batches || mode == lease.PerRequest) {
							continue
						}
						for _, cost := range []float64{1, 7, 100, lease.MaxBurst} {
							// Who forces shares on requests that no share can hold
							// pays for renewing what is of no use.
							if cost > float64(burst) || mode == lease.Shares && cost*20 > float64(burst) {
								continue
							}
							for _, offered := range []float64{0.1, 0.9, 3} {
								for _, procs := range []int{1, 3} {
									all = append(all, fleet{
										limit: limit, procs: procs, skew: 1, offered: offered, cost: cost, rtt: ms, timeout: time.Second,
										policy: lease.Policy{Mode: mode, Fairness: fairness, MaxRefresh: refresh}.Resolved(),
									})
								}
							}
						}
					}
				}
			}
		}
	}
	return all
}

// TestMeterSurvives: requests all at once, or so near each other that the time
// between them is nothing, or hours apart, give a demand that is a number.
func TestMeterSurvives(t *testing.T) {
	for _, gap := range []time.Duration{0, 1, 50, time.Microsecond, time.Second, time.Hour, 1000 * time.Hour} {
		for _, n := range []float64{1, lease.MaxBurst} {
			limit := lease.Limit{Rate: 1e6, Burst: lease.MaxBurst}
			h := lease.NewHolder("a", limit, &lease.Policy{}, 1)
			for i := range 20000 {
				now := time.Hour + time.Duration(i)*min(gap, 100*365*24*time.Hour/20000)
				if h.Take(now, n) == lease.Pending {
					h.Enter(&lease.Waiter{N: n})
				}
				if i%5000 == 0 {
					h.Probe(0, true)
				}
				q, ok := h.Request(now)
				if !ok {
					continue
				}
				if err := q.Validate(); err != nil {
					t.Fatalf("%v apart: %v", gap, err)
				}
				if most := max(1.1*n/max(gap.Seconds(), 1e-12), 60*n); q.Demand > most {
					t.Fatalf("%v tokens each %v seem %v/s", n, gap, q.Demand)
				}
				r := share
				r.Seq, r.Taken, r.Contended, r.Limit = q.Seq, q.Take, true, limit
				r.Rate, r.Burst, r.Keep = 1e6, lease.MaxBurst, lease.MaxBurst
				h.Handle(now, r)
			}
			h.Probe(0, true)
			q, ok := h.Request(time.Hour + 20000*min(gap, 100*365*24*time.Hour/20000))
			if !ok || math.IsNaN(q.Demand) {
				t.Fatalf("%v apart: %v %+v", gap, ok, q)
			}
			if want := n / max(gap.Seconds(), 1e-12); gap >= time.Microsecond && gap < 50*ms && math.Abs(q.Demand-min(want, lease.MaxRate)) > 0.3*want {
				t.Errorf("%v tokens each %v seem %v/s", n, gap, q.Demand)
			}
		}
	}
}
