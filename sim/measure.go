package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// figures are what a run of a fleet measured. Its JSON names are for programs:
// they do not change.
type figures struct {
	Interrupted bool    `json:"interrupted"`
	Seconds     float64 `json:"seconds"`

	Requests   int `json:"requests"` // fired: the sum of the next four
	Admitted   int `json:"admitted"`
	Denied     int `json:"denied"`
	AboveBurst int `json:"above_burst"` // refused: can never be admitted
	NoVerdict  int `json:"no_verdict"`  // Redis did not answer
	Ideal      int `json:"ideal"`       // admitted by the ideal central bucket

	// All that follows leaves requests above the burst out. Tokens differ from
	// numbers of requests only in a log with costs.
	TokensOffered  float64 `json:"tokens_offered"`
	TokensAdmitted float64 `json:"tokens_admitted"`
	TokensIdeal    float64 `json:"tokens_ideal"`

	Utilisation  float64 `json:"utilisation"`   // TokensAdmitted / TokensIdeal
	Acceptance   float64 `json:"acceptance"`    // TokensAdmitted / TokensOffered
	JainAccepted float64 `json:"jain_accepted"` // of the processes' Acceptance
	JainIdeal    float64 `json:"jain_ideal"`    // of the processes' Utilisation

	// Excess is the worst window of any key over Burst + Rate*T, in tokens,
	// negative if none exceeds. Slack is what the limiter promises at most.
	Excess float64 `json:"excess"`
	Slack  float64 `json:"slack"`

	RedisCalls      uint64  `json:"redis_calls"`
	FailedCalls     uint64  `json:"failed_calls"`
	CallsPerRequest float64 `json:"calls_per_request"`
	RoundTrips      uint64  `json:"round_trips"`
	TripsSaved      float64 `json:"trips_saved"` // part of one for each request
	OutageDecisions uint64  `json:"outage_decisions"`

	// Late is by how much requests were fired after their time, seconds.
	LateP99 float64 `json:"late_p99_seconds"`
	LateMax float64 `json:"late_max_seconds"`

	Processes []share `json:"processes"`
}

// share is what one process got. Tokens are as in figures.
type share struct {
	Requests       int     `json:"requests"`
	TokensOffered  float64 `json:"tokens_offered"`
	TokensAdmitted float64 `json:"tokens_admitted"`
	TokensIdeal    float64 `json:"tokens_ideal"`
	Acceptance     float64 `json:"acceptance"`
	Utilisation    float64 `json:"utilisation"`
}

// shot is a request that was fired.
type shot struct {
	arrival
	answer
	proc int
}

// measure judges what the drivers wrote down. It is done after the run: then
// the events of all processes can be put in order, and no shared lock was in
// the requests' way.
func measure(drivers []*driver, keys int, limit hybrid.Limit, timeout time.Duration) figures {
	f := figures{Processes: make([]share, len(drivers)), Slack: limit.Rate * timeout.Seconds()}
	shots := gather(drivers)
	f.tally(shots)
	f.idealise(shots, keys, limit)
	f.gauge(shots, keys, limit)
	f.late(shots)
	f.compare()
	return f
}

func gather(drivers []*driver) (shots []shot) {
	for i, d := range drivers {
		for j, a := range d.arrivals {
			if r := d.answers[j]; r.verdict != unfired {
				shots = append(shots, shot{a, r, i})
			}
		}
	}
	return shots
}

func (f *figures) tally(shots []shot) {
	for _, s := range shots {
		p := &f.Processes[s.proc]
		f.Requests++
		p.Requests++
		if s.verdict == refused {
			f.AboveBurst++
			continue
		}
		p.TokensOffered += float64(s.cost)
		switch s.verdict {
		case admitted:
			f.Admitted++
			p.TokensAdmitted += float64(s.cost)
		case denied:
			f.Denied++
		case unknown:
			f.NoVerdict++
		}
	}
}

// idealise lets an ideal bucket for each key decide the same requests, at the
// times at which they came in truth.
func (f *figures) idealise(shots []shot, keys int, limit hybrid.Limit) {
	slices.SortFunc(shots, func(a, b shot) int { return cmp.Compare(a.fired, b.fired) })
	buckets := make([]*bucket, keys)
	for _, s := range shots {
		b := buckets[s.key]
		if b == nil {
			b = newBucket(limit)
			buckets[s.key] = b
		}
		if b.take(s.fired, float64(s.cost)) {
			f.Ideal++
			f.Processes[s.proc].TokensIdeal += float64(s.cost)
		}
	}
}

func (f *figures) gauge(shots []shot, keys int, limit hybrid.Limit) {
	slices.SortFunc(shots, func(a, b shot) int { return cmp.Compare(a.returned, b.returned) })
	gauges := make([]gauge, keys)
	f.Excess = -float64(limit.Burst)
	for _, s := range shots {
		if s.verdict == admitted {
			g := &gauges[s.key]
			g.limit = limit
			f.Excess = max(f.Excess, g.pour(s.returned, float64(s.cost)))
		}
	}
}

func (f *figures) late(shots []shot) {
	if len(shots) == 0 {
		return
	}
	late := make([]time.Duration, len(shots))
	for i, s := range shots {
		late[i] = s.fired - s.at
	}
	slices.Sort(late)
	f.LateP99 = late[(len(late)-1)*99/100].Seconds()
	f.LateMax = late[len(late)-1].Seconds()
}

// compare fills in ratios. Processes that asked for nothing, or for which the
// ideal bucket had nothing either, have none and do not count.
func (f *figures) compare() {
	var accepted, used []float64
	for i := range f.Processes {
		p := &f.Processes[i]
		f.TokensOffered += p.TokensOffered
		f.TokensAdmitted += p.TokensAdmitted
		f.TokensIdeal += p.TokensIdeal
		p.Acceptance = ratio(p.TokensAdmitted, p.TokensOffered)
		p.Utilisation = ratio(p.TokensAdmitted, p.TokensIdeal)
		if p.TokensOffered > 0 {
			accepted = append(accepted, p.Acceptance)
		}
		if p.TokensIdeal > 0 {
			used = append(used, p.Utilisation)
		}
	}
	f.Acceptance = ratio(f.TokensAdmitted, f.TokensOffered)
	f.Utilisation = ratio(f.TokensAdmitted, f.TokensIdeal)
	f.JainAccepted, f.JainIdeal = jain(accepted), jain(used)
}

// charge adds what the run cost.
func (f *figures) charge(t traffic, trips uint64) {
	f.RedisCalls, f.FailedCalls, f.OutageDecisions, f.RoundTrips = t.calls, t.failed, t.outage, trips
	if asked := float64(f.Requests - f.AboveBurst); asked > 0 {
		f.CallsPerRequest = float64(t.calls) / asked
		f.TripsSaved = 1 - float64(trips)/asked
	}
}

// ratio is a/b, and 0 where b is: JSON knows no NaN.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}
