package engine

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
	"github.com/seed13b07268/ration/sim/workload"
)

// A witness writes down what happens, and measures it afterwards, from the
// definitions, with no thought for speed and nothing of the meter.
type witness struct {
	scenario *scenario.Scenario
	seen     []happening
	levels   map[int]float64           // of the ideal buckets, when measuring began
	underWay map[workload.Request]bool // requests then, and what ideal buckets said to them
}

// TestWitness: the meter, which looks at each request once, comes to the same
// figures as a witness who has the whole list.
func TestWitness(t *testing.T) {
	const small = "{duration: 8s, warmup: 2s, processes: 5, limit: 200/s, burst: 60, "
	for _, c := range []struct{ name, text string }{
		{"skew", small + "balance: {skew: 1}}"},
		{"warm-up within a window", "{duration: 8s, warmup: 2330ms, processes: 5, limit: 200/s, burst: 60, balance: {skew: 1}}"},
		{"no warm-up", "{duration: 4s, processes: 5, limit: 200/s, burst: 60, load: {arrivals: even}}"},
		{"a call each, far away", small + "policy: {mode: per-request}, redis: {latency: 20ms}, load: {offered: 1.1}}"},
		{"even", small + "policy: {mode: per-request}, load: {arrivals: even}}"},
		{"keys and costs", small + "keys: 4, key_skew: 1, load: {costs: [1, 1, 5]}}"},
		{"max-min", small + "balance: {by: own, skew: 1, on_off: {on: 300ms, period: 1s}}, policy: {fairness: max-min}}"},
		{"crashes", small + "faults: [{kind: crash, at: 1s, every: 700ms, for: 300ms}, {kind: leave, at: 1500ms, every: 1s, for: 100ms}]}"},
		{"outage", small + "redis: {timeout: 50ms}, load: {retry: {times: 2}}, faults: [{kind: outage, at: 3s, for: 2s}]}"},
		{"partition", small + "outage: deny, faults: [{kind: partition, process: '0', at: 3s, for: 2s}]}"},
		{"moves", "{duration: 20s, warmup: 5s, limit: 1000/s, balance: {skew: 1, moves: 3s}}"},
		{"many seconds", "{duration: 50s, warmup: 5s, processes: 4, limit: 100/s, burst: 40, balance: {skew: 1, moves: 3s}}"},
		{"hardly asked", "{duration: 40s, warmup: 5s, processes: 4, limit: 20/s, burst: 5, balance: {weights: [60, 1, 1, 1]}}"},
		{"a quota", "{duration: 23s, warmup: 2s, processes: 5, limit: quota 400/5s, balance: {skew: 1}}"},
		{"a quota by local time",
			"{duration: 20s, warmup: 2s, processes: 5, limit: quota 2100/7s UTC-00:10}"},
		{"quotas of keys, with costs",
			"{duration: 23s, processes: 5, limit: quota 300/4s, keys: 4, key_skew: 1, " +
				"load: {offered: 1.2, costs: [1, 1, 5]}}"},
		{"quotas and crashes",
			"{duration: 23s, warmup: 2s, processes: 5, limit: quota 400/3s, " +
				"faults: [{kind: crash, at: 1s, every: 700ms, for: 300ms}, " +
				"{kind: leave, at: 1500ms, every: 1s, for: 100ms}]}"},
		{"quotas and lost messages",
			"{duration: 23s, warmup: 2s, processes: 5, limit: quota 400/3s, " +
				"redis: {latency: 5ms, timeout: 50ms, lost: 0.1, repeated: 0.1}}"},
		{"least outstanding", small + "balance: {by: least-outstanding}, load: {clients: {count: 60, think: 100ms}, retry: {times: 1}}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := read(t, c.text)
			e := start(t, s, 0)
			w := &witness{scenario: s, levels: map[int]float64{}, underWay: map[workload.Request]bool{}}
			e.witness = func(h happening) {
				w.seen = append(w.seen, h)
				if h.what == settled && h.At < s.Warmup {
					w.underWay[h.Request] = h.ideal
				}
				if h.what == begun {
					for n, k := range present(e.keys) {
						w.levels[n] = k.ideal.Tokens(h.at)
					}
				}
			}
			simtest.OK(t, e.run(t.Context()))
			w.compare(t, e.result())
		})
	}
}

func (w *witness) compare(t *testing.T, r *Result) {
	t.Helper()
	same := func(name string, got, want, within float64) {
		t.Helper()
		if !(math.Abs(got-want) <= within) {
			t.Errorf("%s: the meter says %v, the witness %v", name, got, want)
		}
	}
	requests, outcomes, byOutage, pending := w.requests()
	same("requests", float64(r.Requests), float64(requests), 0)
	same("admitted", float64(r.Admitted), float64(outcomes[lease.Admitted]), 0)
	same("denied", float64(r.Denied), float64(outcomes[lease.Denied]), 0)
	same("unanswered", float64(r.Unanswered), float64(outcomes[lease.Unavailable]), 0)
	same("pending", float64(r.Pending), float64(pending), 0)
	same("by outage", float64(r.ByOutage), float64(byOutage), 0)
	ideal := w.ideal()
	admitted, decided := 0, w.of(settled, true)
	for i, yes := range w.decided(ideal) {
		if yes && decided[i].At >= w.scenario.Warmup {
			admitted++
		}
	}
	same("admitted by an ideal limit", float64(r.IdealAdmitted), float64(admitted), 0)
	same("denied by an ideal limit", float64(r.IdealDenied), float64(requests-pending-admitted), 0)

	calls, admitting, denying := w.calls()
	same("calls", float64(r.Calls), float64(calls), 0)
	same("calls that admit", float64(r.CallsAdmitting), float64(admitting), 0)
	same("calls that deny", float64(r.CallsDenying), float64(denying), 0)
	same("calls ahead", float64(r.CallsAhead), float64(calls-admitting-denying), 0)

	same("excess", r.Excess, w.excess(), 1e-6)
	p50, p99 := w.latency()
	same("p50", r.LatencyP50, p50, 0.04*p50)
	same("p99", r.LatencyP99, p99, 0.04*p99)
	w.compareLatencies(t, r)
	same("starvation", r.Starvation, w.starvation(), 1e-9)
	first, n := w.firstToken()
	same("starts", float64(r.Starts), float64(n), 0)
	same("first token", r.FirstTokenMax, first, 1e-9)

	shares := w.shares(ideal)
	var utilised, possible float64
	var fair, accepted, toIdeal []float64
	for i, p := range r.Processes {
		x := shares[i]
		same("offered", p.Offered, x.Offered, 1e-6)
		same("admitted tokens", p.Admitted, x.Admitted, 1e-6)
		same("ideal", p.Ideal, x.Ideal, 1e-6)
		same("fair", p.Fair, x.Fair, 1e-6)
		same("level", p.Level, x.Level, 1e-6)
		utilised, possible = utilised+x.Admitted, possible+x.Ideal
		if x.Offered > 0 {
			fair, accepted, toIdeal = append(fair, x.Admitted/x.Fair), append(accepted, x.Admitted/x.Offered), append(toIdeal, x.Admitted/x.Ideal)
		}
	}
	same("utilisation", r.Utilisation, utilised/possible, 1e-9)
	same("fairness", r.Fairness, index(fair), 1e-9)
	same("Jain of accepted", r.JainAccepted, index(accepted), 1e-9)
	same("Jain of ideal", r.JainIdeal, index(toIdeal), 1e-9)
	same("worst share", r.WorstShare, min(slices.Min(fair), 1), 1e-9)
	same("fairness p5", r.FairnessP5, w.worstSeconds(ideal, len(r.Processes)), 1e-9)
	w.compareKeys(t, r, ideal)
	settle, shifts := w.settle(len(r.Processes))
	// shifts of faults are not on the list
	if w.scenario.Faults == nil && w.scenario.Keys.Number == 1 {
		same("shifts", float64(r.Shifts), float64(shifts), 0)
		same("settle", r.Settle, settle, 1e-9)
	}
}

// compareKeys counts again what each key was asked for, got and should have had.
func (w *witness) compareKeys(t *testing.T, r *Result, ideal []bool) {
	t.Helper()
	want := map[int]measure.KeyShare{}
	add := func(key int, offered, admitted, ideal float64) {
		s := want[key]
		s.Key, s.Name = key, fmt.Sprintf("key-%d", key)
		s.Offered, s.Admitted, s.Ideal = s.Offered+offered, s.Admitted+admitted, s.Ideal+ideal
		want[key] = s
	}
	denied, decided := 0.0, w.decided(ideal)
	for i, h := range w.of(settled, true) {
		if ideal, measured := decided[i]; measured {
			add(h.Key, float64(h.Cost), 0, 0)
			if ideal {
				add(h.Key, 0, 0, float64(h.Cost))
			}
		}
		switch {
		case h.verdict == lease.Admitted:
			add(h.Key, 0, float64(h.Cost), 0)
		case h.verdict == lease.Denied && h.At >= w.scenario.Warmup:
			denied += float64(h.Cost)
		}
	}
	if r.TokensDenied != denied {
		t.Errorf("tokens denied: the meter says %v, the witness %v", r.TokensDenied, denied)
	}
	worst, parts := 1.0, []float64{}
	for _, got := range r.Keys.List {
		if got != want[got.Key] {
			t.Errorf("key %d: the meter says %+v, the witness %+v", got.Key, got, want[got.Key])
		}
		parts = append(parts, got.Admitted/got.Ideal)
		worst = min(worst, parts[len(parts)-1])
	}
	if r.Keys.Asked != len(want) || len(parts) != len(want) || !slices.IsSorted(parts) {
		t.Errorf("%d keys of %d, parts %v", r.Keys.Asked, len(want), parts)
	}
	if math.Abs(r.Keys.Fairness-index(parts)) > 1e-9 || math.Abs(r.Keys.Worst-worst) > 1e-9 {
		t.Errorf("fairness over keys %v, worst %v", r.Keys.Fairness, r.Keys.Worst)
	}
}

// of yields what is on the list of one occasion since measuring began, if measured.
func (w *witness) of(what occasion, measured bool) (list []happening) {
	begins := false
	for _, h := range w.seen {
		begins = begins || h.what == begun
		if h.what == what && (begins || !measured) {
			list = append(list, h)
		}
	}
	return list
}

func (w *witness) requests() (n int, outcomes map[lease.Verdict]int, byOutage, pending int) {
	n = len(w.of(asked, true))
	outcomes = map[lease.Verdict]int{}
	pending = n
	for _, h := range w.of(settled, true) {
		if h.At < w.scenario.Warmup {
			continue
		}
		pending--
		outcomes[h.verdict]++
		if h.byOutage {
			byOutage++
		}
	}
	return n, outcomes, byOutage, pending
}

// calls are those sent since measuring began. What a reply brings follows it on
// the list, at the same time, to requests of its cell that came before.
func (w *witness) calls() (n, admitting, denying int) {
	var out map[*cell]bool // sent while measuring
	for i, h := range w.seen {
		switch {
		case h.what == begun:
			out = map[*cell]bool{}
		case h.what == sent && out != nil:
			n++
			out[h.cell] = true
		case h.what == replied && out[h.cell]:
			out[h.cell] = false
			admitted, denied := 0, 0
			for _, x := range w.seen[i+1:] {
				if x.at > h.at || x.what == replied {
					break
				}
				if x.what == settled && x.cell == h.cell && x.At < h.at {
					switch x.verdict {
					case lease.Admitted:
						admitted++
					case lease.Denied:
						denied++
					}
				}
			}
			if admitted > 0 {
				admitting++
			} else if denied > 0 {
				denying++
			}
		}
	}
	return n, admitting, denying
}

// excess is the most that came above the limit in any window between two admissions of a key. Of
// the windows that end with one admission, the worst begins where the limit had been used least.
func (w *witness) excess() float64 {
	worst := math.Inf(-1)
	byKey := map[int][]happening{}
	for _, h := range w.of(settled, false) {
		if h.verdict == lease.Admitted {
			byKey[h.Key] = append(byKey[h.Key], h)
		}
	}
	if w.scenario.Limit.Kind == lease.KindQuota {
		for _, list := range byKey {
			admitted := map[int]float64{}
			for _, h := range list {
				n := w.window(h.at)
				admitted[n] += float64(h.Cost)
				worst = max(worst, admitted[n]-float64(w.scenario.Limit.Burst))
			}
		}
		return worst
	}
	for _, list := range byKey {
		sum, least := 0.0, math.Inf(1)
		for _, h := range list {
			flowed := w.scenario.Limit.Rate * h.at.Seconds()
			least = min(least, sum-flowed)
			sum += float64(h.Cost)
			worst = max(worst, sum-flowed-least-float64(w.scenario.Burst))
		}
	}
	return worst
}

// window is the number of that of a quota of 1 to 10 s.
func (w *witness) window(at time.Duration) int {
	return int((at + 60480*time.Second + w.scenario.Limit.Offset) / w.scenario.Limit.Window)
}

func (w *witness) latency() (p50, p99 float64) {
	var all []float64
	for _, h := range w.of(settled, true) {
		if h.At >= w.scenario.Warmup {
			all = append(all, (h.at - h.At).Seconds())
		}
	}
	slices.Sort(all)
	return all[len(all)/2], all[len(all)*99/100]
}

// compareLatencies counts again how many requests were decided within each UpTo, or within
// 3 % more, which the meter cannot tell apart.
func (w *witness) compareLatencies(t *testing.T, r *Result) {
	t.Helper()
	got := int64(0)
	for _, l := range r.Latencies {
		got += l.Requests
		least, most := int64(0), int64(0)
		for _, h := range w.of(settled, true) {
			if d := (h.at - h.At).Seconds(); h.At >= w.scenario.Warmup {
				if d <= l.UpTo {
					least++
				}
				if d <= l.UpTo*33/32 {
					most++
				}
			}
		}
		if got < least || got > most || l.Requests == 0 {
			t.Errorf("within %v s: the meter says %d, the witness %d to %d", l.UpTo, got, least, most)
		}
	}
	if all := r.Admitted + r.Denied + r.Unanswered; got != all {
		t.Errorf("%d latencies of %d decisions", got, all)
	}
}

// starvation: from a process's first denial to its last one before it is admitted again, unless it
// is not asked for a second.
func (w *witness) starvation() (longest float64) {
	byLife := map[*process]map[int][]happening{}
	for _, h := range w.seen {
		if h.what == asked || h.what == settled {
			p := h.cell.process
			if byLife[p] == nil {
				byLife[p] = map[int][]happening{}
			}
			byLife[p][h.cell.life] = append(byLife[p][h.cell.life], h)
		}
	}
	for _, lives := range byLife {
		for _, list := range lives {
			since, latest := time.Duration(-1), time.Duration(-1)
			for _, h := range list {
				switch {
				case h.what == asked:
					if latest >= 0 && h.at-latest > time.Second {
						since = -1
					}
					latest = h.at
				case h.verdict == lease.Admitted:
					since = -1
				case since < 0:
					since = max(h.at, w.scenario.Warmup)
				default:
					longest = max(longest, (h.at - since).Seconds())
				}
			}
		}
	}
	return longest
}

func (w *witness) firstToken() (longest float64, n int) {
	type life struct {
		process *process
		number  int
	}
	firstAsked, served := map[life]time.Duration{}, map[life]bool{}
	begins := false
	for _, h := range w.seen {
		if h.what == begun {
			begins = true
			continue
		}
		if h.cell == nil {
			continue // the census
		}
		l := life{h.cell.process, h.cell.life}
		if _, known := firstAsked[l]; h.what == asked && !known {
			firstAsked[l] = h.at
		}
		if h.what == settled && h.verdict == lease.Admitted && !served[l] {
			served[l] = true
			if begins {
				n++
				longest = max(longest, (h.at - firstAsked[l]).Seconds())
			}
		}
	}
	return longest, n
}

// ideal says which of the requests that were asked since measuring began an
// ideal bucket admits: tokens are what it began with, and what has flowed in,
// less what was taken and what did not fit. Its arithmetic is that of whole
// numbers: of tokens in a nanosecond.
func (w *witness) ideal() []bool {
	const unit = 1e9
	rate := int64(w.scenario.Limit.Rate) // units per nanosecond
	burst := w.scenario.LimitOf().Burst * unit
	type bucket struct {
		units int64
		at    time.Duration
	}
	buckets := map[int]*bucket{}
	for n, level := range w.levels {
		buckets[n] = &bucket{int64(level * unit), w.scenario.Warmup}
	}
	var yes []bool
	for _, h := range w.of(asked, true) {
		b := buckets[h.Key]
		if b == nil {
			b = &bucket{burst, h.at}
			buckets[h.Key] = b
		}
		b.units = min(burst, b.units+rate*int64(h.at-b.at))
		if w.scenario.Limit.Kind == lease.KindQuota && w.window(h.at) > w.window(b.at) {
			b.units = burst
		}
		b.at = h.at
		ok := b.units >= h.Cost*unit-2 // the meter's bucket rounds, and so does its level here
		if ok {
			b.units -= h.Cost * unit
		}
		yes = append(yes, ok)
	}
	return yes
}

// division is what was offered, ideal and admitted, by process, for one key.
type division struct{ offered, ideal []float64 }
