package engine

import (
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

// A Result is what one replication measured. Its JSON names are for programs.
// All of it leaves the warm-up out, but for Excess, Excused and Timeline. Rates and ratios of nothing
// are those of a perfect limiter, so that no NaN arises.
type Result struct {
	Replication int     `json:"replication"`
	Seconds     float64 `json:"seconds"` // measured

	// Requests is the sum of the next four. Retries count as requests.
	Requests   int64 `json:"requests"`
	Admitted   int64 `json:"admitted"`
	Denied     int64 `json:"denied"`
	Unanswered int64 `json:"unanswered"`  // no verdict: Redis did not answer
	Pending    int64 `json:"pending"`     // still waiting at the end
	ByOutage   int64 `json:"by_outage"`   // of the above, decided by the outage policy
	AboveBurst int64 `json:"above_burst"` // of those denied: can never be admitted
	Unrouted   int64 `json:"unrouted"`    // no process was up to take them

	// What an ideal central limit makes of those that have their verdict.
	IdealAdmitted int64 `json:"ideal_admitted"`
	IdealDenied   int64 `json:"ideal_denied"`

	// Decided and Denied are of the Requests. Offered and Admitted are of all that were decided in
	// the time measured, also of what had come before, but for those above the burst.
	TokensDecided  float64 `json:"tokens_decided"`
	TokensOffered  float64 `json:"tokens_offered"`
	TokensAdmitted float64 `json:"tokens_admitted"`
	TokensDenied   float64 `json:"tokens_denied"`
	TokensIdeal    float64 `json:"tokens_ideal"` // admitted by an ideal central limit
	Utilisation    float64 `json:"utilisation"`  // TokensAdmitted / TokensIdeal

	// Fairness is Jain's index over the processes' admitted tokens / fair
	// share. The fair share is what the policy is for: of what the ideal
	// bucket admits in each window of 100 ms, a part in proportion to what
	// was offered, or the max-min one, by water-filling. FairnessP5 is its 5th
	// percentile over windows of a second, WorstShare the smallest
	// admitted / fair share of a process.
	Fairness   float64 `json:"fairness"`
	FairnessP5 float64 `json:"fairness_p5"`
	WorstShare float64 `json:"worst_share"`

	// The same index over other ratios, whatever the policy is for.
	JainAccepted float64 `json:"jain_accepted"` // admitted / offered
	// admitted / what the ideal bucket admits of the process
	JainIdeal     float64 `json:"jain_ideal"`
	JainWaterFill float64 `json:"jain_water_fill"` // admitted / max-min fair share

	// Excess is the worst window of any key over Burst + Rate*T, in tokens,
	// negative if none exceeds. ExcessAllowed is what is promised at most:
	// Rate*Timeout, and a Burst for each loss of Redis' data. Excused says that the outage
	// policy, of which nothing is promised, has admitted something.
	Excess        float64 `json:"excess"`
	Excused       bool    `json:"excused"`
	ExcessAllowed float64 `json:"excess_allowed"`

	// ExcessDebited is the same without what an outage policy admitted, and with
	// grants counted when the ledger debits them. No time that a reply is under
	// way excuses it: above 0 there is an error, but for lost data.
	ExcessDebited float64 `json:"excess_debited"`

	// Calls are exchanges with Redis: those that brought a waiting request its
	// tokens, those that brought only denials, and those for which nobody
	// waited. A call that failed counts with the last.
	Calls           int64   `json:"calls"`
	CallsAdmitting  int64   `json:"calls_admitting"`
	CallsDenying    int64   `json:"calls_denying"`
	CallsAhead      int64   `json:"calls_ahead"`
	CallsFailed     int64   `json:"calls_failed"`
	CallsPerRequest float64 `json:"calls_per_request"`
	CallsPerSecond  float64 `json:"calls_per_second"`

	// Latency is the time to a decision, seconds; those from a lease take none.
	LatencyP50  float64   `json:"latency_p50_seconds"`
	LatencyP90  float64   `json:"latency_p90_seconds"`
	LatencyP99  float64   `json:"latency_p99_seconds"`
	LatencyP999 float64   `json:"latency_p999_seconds"`
	Latencies   []Latency `json:"latencies"`
	Waited      int64     `json:"waited"` // requests that waited for Redis

	// Starvation is the longest time from a process's first denial to its last one
	// before the next admission, seconds, while it is asked at least once a second. A
	// request that waits is not denied: latencies tell that.
	Starvation float64 `json:"starvation_seconds"`

	// FirstToken is the time from the first request of a process that starts
	// to its first admission, median and longest, seconds; of Starts starts.
	FirstTokenP50 float64 `json:"first_token_p50_seconds"`
	FirstTokenMax float64 `json:"first_token_max_seconds"`
	Starts        int     `json:"starts"`

	// Settle is how long, after traffic shifted among processes or processes
	// came and went, their shares were less fair than before, mean, seconds;
	// of Shifts shifts that could be judged.
	Settle float64 `json:"settle_seconds"`
	Shifts int     `json:"shifts"`

	// Limits are those that each request meets, where there are several.
	Limits []LimitShare `json:"limits,omitempty"`

	// Classes are those of the requests, if they have some.
	Classes []ClassShare `json:"classes,omitempty"`

	Tokens    Tokens          `json:"tokens"`
	Processes []measure.Share `json:"processes"`
	Keys      measure.Keys    `json:"keys"`
	Timeline  Timeline        `json:"timeline"`
}

// A LimitShare is what one of several limits did to the requests.
type LimitShare struct {
	Name  string `json:"name"`
	Limit string `json:"limit"`
	Keys  int    `json:"keys"`

	// Denied is how many requests this limit denied, perhaps among others, and IdealDenied
	// how many an ideal one has no tokens for, of those that all ideal limits together see.
	Denied      int64 `json:"denied"`
	IdealDenied int64 `json:"ideal_denied"`

	// Used is the part of what its keys let through at most in the time measured: Burst +
	// Rate*T each, or so many quotas as there are windows.
	Used float64 `json:"used"`

	CallsPerRequest float64 `json:"calls_per_request"` // 0 in a live run: not known

	// As for the Result.
	Excess        float64 `json:"excess"`
	ExcessAllowed float64 `json:"excess_allowed"`
}

// share tells of the limit, of which each key lets through so much at most.
func (l *limited) share(r *Result, allowed, most float64) LimitShare {
	return LimitShare{
		Name: l.Name, Limit: l.Text, Keys: l.Number,
		Denied: l.denied, IdealDenied: l.idealDenied, Used: measure.Ratio(l.admitted, most*float64(l.Number)),
		CallsPerRequest: measure.Ratio(l.calls, r.Requests),
		Excess:          l.excess, ExcessAllowed: allowed,
	}
}

// Tokens is where all tokens went: Supply is the sum of what follows, but for
// IdealSpilt.
type Tokens struct {
	// there at the beginning, and flowed in since, at the rate that was last set
	Supply    float64 `json:"supply"`
	Admitted  float64 `json:"admitted"`
	Left      float64 `json:"left"`       // in the pool and in leases, at the end
	PoolSpilt float64 `json:"pool_spilt"` // the pool was full
	Spilt     float64 `json:"spilt"`      // a lease was full
	// flowed into leases that did not add it: exchanges under way; below zero: came back from
	// before measuring began, or was lent under a larger limit
	Asking    float64 `json:"asking"`
	Expired   float64 `json:"expired"`   // in leases that ended
	Unclaimed float64 `json:"unclaimed"` // granted to callers who had gone
	// handed back, or lent and missed, and there was no room for it
	Refused   float64 `json:"refused"`
	Messages  float64 `json:"messages"`  // in messages that were lost or late
	Forfeited float64 `json:"forfeited"` // in leases of processes that crashed
	// a raised limit was not in force yet; below zero: nor was a lowered one
	HeldBack float64 `json:"held_back"`
	// all is named above, but for what a lost state lends twice (below zero)
	Other float64 `json:"other"`

	// IdealSpilt is what the ideal bucket had no room for either: nobody
	// wanted it.
	IdealSpilt float64 `json:"ideal_spilt"`
}

// Losses are the ways in which tokens get lost, for people.
var Losses = []struct {
	Name, Note string
	Of         func(Tokens) float64
}{
	{"not lent",
		"flowed by while Redis' part of the bucket was full, or was left when a quota's window ended",
		func(t Tokens) float64 { return t.PoolSpilt }},
	{"lease full", "flowed by in processes whose part was full", func(t Tokens) float64 { return t.Spilt }},
	{"expired", "in leases that ended", func(t Tokens) float64 { return t.Expired }},
	{"crashed", "in leases of processes that crashed", func(t Tokens) float64 { return t.Forfeited }},
	{"held back", "by a raised limit until it is in force, half a minute; negative: of a lowered one",
		func(t Tokens) float64 { return t.HeldBack }},
	{"while asking", "flowed into leases that did not add it: exchanges under way, " +
		"margins for clocks; negative: lent under a larger limit", func(t Tokens) float64 { return t.Asking }},
	{"unclaimed", "granted to callers who had gone", func(t Tokens) float64 { return t.Unclaimed }},
	{"refused", "handed back or missed, and no room for it", func(t Tokens) float64 { return t.Refused }},
	{"messages", "in messages that were lost or late", func(t Tokens) float64 { return t.Messages }},
	{"other", "negative: lent twice, by a state that was lost and the one after it",
		func(t Tokens) float64 { return t.Other }},
}

// Timeline is the run in steps, tokens/s in each.
type Timeline struct {
	Step     float64   `json:"step_seconds"`
	Offered  []float64 `json:"offered"`
	Admitted []float64 `json:"admitted"`
	Ideal    []float64 `json:"ideal"`
	Limit    []float64 `json:"limit"` // of all keys together
	Events   []Event   `json:"events"`
}

// Event is something that happened to the fleet.
type Event struct {
	At    float64 `json:"at_seconds"`
	Until float64 `json:"until_seconds"` // its end, if it has one
	Text  string  `json:"text"`
}

// Latency is how many requests were decided within UpTo seconds and not within the next
// lower UpTo: 0, or 1, 2 or 5 times a power of ten. It is 3 % wider than it says.
type Latency struct {
	UpTo     float64 `json:"up_to_seconds"`
	Requests int64   `json:"requests"`
}

// latencies gathers what a histogram counts.
func latencies(h *gauge.Histogram) (list []Latency) {
	tenths := [...]time.Duration{20, 20, 25} // from 5 to 10, from 1 to 2, from 2 to 5
	upTo, step := time.Duration(0), 0
	for least, n := range h.All() {
		for ; least > upTo; step++ {
			upTo = max(time.Microsecond, upTo*tenths[step%3]/10)
		}
		if len(list) == 0 || list[len(list)-1].UpTo != upTo.Seconds() {
			list = append(list, Latency{UpTo: upTo.Seconds()})
		}
		list[len(list)-1].Requests += int64(n)
	}
	return list
}

// conclude fills in what follows from Processes, the counts, and what each key got.
func (m *meter) conclude(r *Result, keys []measure.KeyShare) {
	r.CallsPerRequest = measure.Ratio(r.Calls, r.Requests)
	r.CallsPerSecond = measure.Ratio(float64(r.Calls), r.Seconds)
	r.LatencyP50 = m.latency.Quantile(0.5).Seconds()
	r.LatencyP90 = m.latency.Quantile(0.9).Seconds()
	r.LatencyP99 = m.latency.Quantile(0.99).Seconds()
	r.LatencyP999 = m.latency.Quantile(0.999).Seconds()
	r.Latencies = latencies(&m.latency)
	if r.Starts = len(m.firsts); r.Starts > 0 {
		r.FirstTokenP50 = time.Duration(measure.Rank(m.firsts, 0.5, 0)).Seconds()
		r.FirstTokenMax = time.Duration(slices.Max(m.firsts)).Seconds()
	}
	j := measure.Judge(r.Processes)
	r.TokensOffered, r.TokensAdmitted, r.TokensIdeal = j.Sum.Offered, j.Sum.Admitted, j.Sum.Ideal
	r.Utilisation, r.Fairness, r.WorstShare = j.Utilisation, j.Fair, j.Worst
	r.JainAccepted, r.JainIdeal, r.JainWaterFill = j.Accepted, j.Ideal, j.Level
	r.FairnessP5 = measure.Rank(slices.Clone(m.jains), 0.05, 1)
	r.Keys = measure.JudgeKeys(keys, m.scenario.KeyName)
}

// result is what was measured until now.
func (e *engine) result() *Result {
	r := e.measured()
	e.meter.account(r)
	return r
}

// measured is the same without where tokens went.
func (e *engine) measured() *Result {
	m := &e.meter
	r := m.counts
	r.Replication = e.replication
	r.Pending = r.Requests - r.Admitted - r.Denied - r.Unanswered
	r.Seconds = max(e.now-e.begins, 0).Seconds()
	r.Timeline = m.timeline
	r.CallsAhead = r.Calls - r.CallsAdmitting - r.CallsDenying
	burst := -float64(e.limits[0].Limit.Burst)
	r.Excess, r.ExcessDebited, r.Excused = max(m.excess, burst), burst, m.excused
	for _, k := range present(m.keys) {
		r.ExcessDebited = max(r.ExcessDebited, k.debits.worst())
	}
	r.ExcessAllowed = m.allowances(&r)
	r.Settle, r.Shifts = m.settling.mean()
	keys := m.shareOut(&r)
	if m.classes != nil {
		r.Classes = m.classes.result()
	}
	m.conclude(&r, keys)
	return &r
}

// allowances is what is promised at most above a limit, and tells of each limit, where there
// are several.
func (m *meter) allowances(r *Result) (most float64) {
	lives := 0
	for i := range m.processes {
		lives += m.processes[i].lives
	}
	for i, l := range m.scenario.Limits() {
		largest := l.Limit
		for _, f := range m.scenario.Faults {
			if f.Kind == "limit" {
				largest.Rate = max(largest.Rate, f.LimitOf().Rate)
				largest.Burst = max(largest.Burst, f.LimitOf().Burst)
			}
		}
		allowed := float64(largest.Rate*m.timeout.Seconds()) +
			float64(float64(largest.Burst)*float64(m.flushes)) +
			float64(float64(m.scenario.Eager)*float64(lives))
		most = max(most, allowed)
		if len(m.limits) > 1 {
			admits := ideal.Most(l.Limit, m.since, m.now)
			r.Limits = append(r.Limits, m.limits[i].share(r, allowed, admits))
		}
	}
	return most
}

// capacity is what all keys let through, of the narrowest limit, tokens/s.
func (m *meter) capacity() (least float64) {
	for i := range m.limits {
		l := &m.limits[i]
		if all := scenario.Mean(l.Limit) * float64(l.Number); i == 0 || all < least {
			least = all
		}
	}
	return least
}

// shareOut says what processes and keys got, and what they should have had.
func (m *meter) shareOut(r *Result) (keys []measure.KeyShare) {
	m.share() // of the last window, which has not ended
	for i := range m.processes {
		p := &m.processes[i]
		if p.lives > 0 {
			r.Processes = append(r.Processes, measure.Share{
				Offered: p.offered, Admitted: p.admitted, Ideal: p.ideal, Fair: p.fair})
		}
	}
	for i, k := range present(m.keys) {
		got := measure.KeyShare{Key: i, Admitted: k.admitted}
		for _, c := range k.of {
			got.Offered += c.offered
			got.Ideal += c.ideal
		}
		if got.Offered > 0 {
			keys = append(keys, got)
		}
		demand := func(c *cellTally) float64 { return c.offered }
		m.divide(lease.MaxMin, k.of, demand, got.Ideal, func(c *cellTally, x float64) {
			r.Processes[c.process.index].Level += x
		})
	}
	return keys
}
