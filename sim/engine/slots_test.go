package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/workload"
)

// drawJobs draws a scene with slots.
func drawJobs(t *testing.T, r *rand.Rand) *scenario.Scenario {
	one := oneOf(r)
	return read(t, fmt.Sprintf(`{duration: 31s, warmup: 1500ms, processes: %d, keys: %s,
		limit: %s slots, load: {offered: %s, %s, hold: {mean: %s, %s}}, balance: {skew: %s},
		redis: {latency: %s, timeout: 60ms, %s}, policy: {mode: %s, max_hold: 5s}, faults: %s}`,
		2+r.IntN(20), one("1", "1", "3"), one("1", "7", "40"), one("0.5", "1", "3"),
		one("cost: 1", "patience: 2s", "patience: 30ms"), one("100ms", "300ms", "4s"),
		one("times: even", "times: exponential", "times: gamma"), one("0", "1.5"),
		one("1ms", "20ms"), one("lost: 0", "lost: 0.05", "repeated: 0.1", "jitter: 0.5"),
		one("auto", "auto", "batches", "per-request"),
		one("[]", "[{kind: crash, at: 1s, every: 900ms, for: 300ms}]",
			"[{kind: leave, at: 1s, every: 900ms, for: 300ms}]", "[{kind: outage, at: 5s, for: 8s}]",
			"[{kind: partition, at: 5s, for: 8s, every: 17s}]")))
}

// S1, by a count of verdicts and ends alone, whatever befalls a fleet: no more slots are in use
// than there are. Each job ends once, when it is done or before, and each slot is accounted for.
func TestSlotsAreKept(t *testing.T) {
	for seed := range longform.Of[uint64](6, 20) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			s := drawJobs(t, rand.New(rand.NewPCG(seed, 65)))
			inUse, working, begun := map[int]int64{}, map[request]int{}, 0
			e, r := watch(t, s, int(seed), func(h happening) {
				switch {
				case h.what == settled && h.verdict == lease.Admitted:
					begun++
					working[h.request]++
					if inUse[h.Key]++; inUse[h.Key] > s.Limit.Burst {
						t.Fatalf("%d jobs at %v\n%s", inUse[h.Key], h.at, s.Text())
					}
				case h.what == ended:
					inUse[h.Key]--
					if working[h.request]--; working[h.request] < 0 {
						t.Fatalf("a job ends twice: %+v", h)
					}
				}
			})
			if r.ExcessDebited > 0 || r.Excess > 0 || begun == 0 {
				t.Errorf("excess %v, %v debited, %d jobs\n%s", r.Excess, r.ExcessDebited, begun, s.Text())
			}
			if r.Utilisation < 0.05 || r.Utilisation > 1.25 {
				t.Errorf("utilisation %v\n%s", r.Utilisation, s.Text())
			}
			for key, n := range inUse {
				var have int64
				for _, c := range present(e.cells) {
					if c.number == key {
						have += int64(len(c.working))
					}
				}
				if have != n {
					t.Errorf("key %d: %d jobs have slots, by their verdicts and ends %d", key, have, n)
				}
			}
			checkTokens(t, s, r)
		})
	}
}

// The gauge finds jobs that are too many: after Redis has lost its data, n more at most.
func TestSlotsTooMany(t *testing.T) {
	const text = `{processes: 9, limit: 12 slots, duration: 20s, load: {offered: 2, hold: {mean: 3s}}`
	worst := 0.0
	for i := range 5 {
		r := play(t, read(t, text+`}`), i)
		if r.Excess > 0 || r.ExcessDebited > 0 || r.ExcessAllowed > 0 {
			t.Errorf("excess %v, %v debited, %v allowed", r.Excess, r.ExcessDebited, r.ExcessAllowed)
		}
		r = play(t, read(t, text+`, faults: [{at: 9s, kind: flush}]}`), i)
		worst = max(worst, r.Excess)
		if r.Excess != r.ExcessDebited || r.Excess > 12 || r.ExcessAllowed != 12 {
			t.Errorf("after a loss: excess %v, %v debited, %v allowed", r.Excess, r.ExcessDebited,
				r.ExcessAllowed)
		}
	}
	if worst <= 0 {
		t.Error("a loss of all data has no job too many")
	}
}

// What an ideal semaphore with a queue admits, by one that is played job by job: each waits for
// those before it, and until its patience is over.
func TestIdealSemaphore(t *testing.T) {
	for seed := range longform.Of[uint64](6, 20) {
		r := rand.New(rand.NewPCG(seed, 79))
		patience := []string{"", ", patience: 50ms", ", patience: 1s"}[r.IntN(3)]
		s := read(t, fmt.Sprintf(`{processes: 3, limit: %d slots, duration: 20s,
			load: {offered: %v, hold: {mean: 200ms, times: gamma}%s}}`, 1+r.IntN(9),
			[]float64{0.7, 1, 2}[r.IntN(3)], patience))
		var free []time.Duration // when each slot is
		for range s.Limit.Burst {
			free = append(free, 0)
		}
		want, admits := 0.0, map[workload.Request]float64{}
		_, result := watch(t, s, int(seed), func(h happening) {
			if h.what == settled { // it is counted when it has its verdict
				want += admits[h.Request]
			}
			if h.what != asked {
				return
			}
			slices.Sort(free)
			if begins := max(free[0], h.at); begins <= h.at+s.Load.Patience {
				free[0] = begins + h.Hold
				admits[h.Request] = h.Hold.Seconds()
			}
		})
		if got := result.TokensIdeal; math.Abs(got-want) > 1e-6*want {
			t.Errorf("seed %d: %v slot-seconds, want %v\n%s", seed, got, want, s.Text())
		}
	}
}

// erlang is the part of customers that n servers without a queue turn away, M/M/n/n, and the part
// that waits where there is one, M/M/n, at a load of a servers (Erlang's B and C).
func erlang(n int, a float64) (lost, waits float64) {
	b := 1.0
	for i := 1; i <= n; i++ {
		b = a * b / (float64(i) + a*b)
	}
	rho := a / float64(n)
	return b, b / (1 - rho*(1-b))
}

func TestErlangKnownValues(t *testing.T) {
	// One server: B = a/(1+a), C = a. Two, by hand: B = a^2/2 / (1+a+a^2/2).
	for _, a := range []float64{0.3, 0.9} {
		if lost, waits := erlang(1, a); math.Abs(lost-a/(1+a)) > 1e-12 || math.Abs(waits-a) > 1e-12 {
			t.Errorf("a %v, n 1: %v, %v", a, lost, waits)
		}
		if lost, _ := erlang(2, a); math.Abs(lost-a*a/2/(1+a+a*a/2)) > 1e-12 {
			t.Errorf("a %v, n 2: %v", a, lost)
		}
	}
}

// One process in per-request mode, with Redis next door, is a semaphore. Poisson jobs that do not
// wait are lost as those of M/M/n/n are, whatever the distribution of their hold times. Those that
// wait do so as those of M/M/n.
func TestSlotsAreErlangs(t *testing.T) {
	for _, c := range []struct {
		n       int
		offered float64
		times   string
	}{
		{1, 0.5, "exponential"}, {5, 0.8, "exponential"}, {20, 0.9, "exponential"},
		{20, 0.9, "even"}, {5, 1.3, "gamma"},
	} {
		if c.n == 20 && c.times == "exponential" && !longform.Set() {
			continue
		}
		text := func(patience string) *scenario.Scenario {
			return read(t, fmt.Sprintf(`{processes: 1, limit: %d slots, duration: %s, warmup: 20s,
				load: {offered: %v, hold: {mean: 500ms, times: %s}%s}, redis: {latency: 1ns},
				policy: {mode: per-request}}`, c.n, longform.Of("70s", "220s"), c.offered, c.times, patience))
		}
		a := c.offered * float64(c.n)
		wantLost, wantWaits := erlang(c.n, a)
		var lost, used, waits, wait []float64
		at, patient := text(""), text(", patience: 1h")
		for i := range replications {
			r := play(t, at, i)
			lost = append(lost, float64(r.Denied)/float64(r.Requests))
			used = append(used, r.TokensAdmitted/r.Seconds)
			if c.times != "exponential" || c.offered >= 1 {
				continue
			}
			part, mean := waitsOf(t, patient, i)
			waits, wait = append(waits, part), append(wait, mean)
		}
		check := func(what string, x []float64, want float64) {
			got, ok := within(x, want)
			t.Logf("n %2d, offered %.1f, %s: %s %.4f (%.4f to %.4f), closed form %.4f", c.n, c.offered,
				c.times, what, got.Mean, got.Low, got.High, want)
			if !ok {
				t.Errorf("n %d, offered %v, %s: %s %v, closed form %v", c.n, c.offered, c.times, what,
					got, want)
			}
		}
		check("lost", lost, wantLost)
		check("in use", used, a*(1-wantLost))
		if waits != nil {
			check("wait", waits, wantWaits)
			check("mean wait", wait, wantWaits*0.5/(float64(c.n)-a))
		}
	}
}

// Processes that share few slots deny little more jobs than one semaphore does, Erlang's B, and
// call no more often than its two calls a job. Where slots are plenty they hardly call. A slot is
// on its way for a round trip beside each job, and a denial lasts for MinRefresh at least: most of
// what is left.
func TestSlotsBesideErlang(t *testing.T) {
	for _, c := range []struct {
		processes, n int
		offered      float64
		hold         string
		lost         float64 // times Erlang's B, at most
		calls        float64 // for each job, at most
	}{
		{8, 10, 0.8, "100ms", 1.3, 2}, {8, 10, 0.8, "50ms", 1.3, 2}, {8, 10, 0.8, "500ms", 1.3, 2},
		{64, 100, 0.8, "500ms", 1.3, 2}, {2, 1, 0.6, "100ms", 1.3, 2}, {1, 10, 0.8, "50ms", 1.3, 0.1},
		{8, 1000, 0.8, "500ms", 1.3, 0.15},
	}[:longform.Of(6, 7)] {
		for _, mode := range []string{"auto", "per-request"} {
			s := read(t, fmt.Sprintf(`{processes: %d, limit: %d slots, duration: 45s, warmup: 5s,
				load: {offered: %v, hold: {mean: %s}}, balance: {skew: 0}, redis: {latency: 1ms},
				policy: {mode: %s}}`, c.processes, c.n, c.offered, c.hold, mode))
			var lost, calls []float64
			for i := range longform.Of(1, 4) {
				r := play(t, s, i)
				lost = append(lost, float64(r.Denied)/float64(r.Requests))
				calls = append(calls, r.CallsPerRequest)
			}
			want, _ := erlang(c.n, c.offered*float64(c.n))
			l, n := measure.Estimate(lost), measure.Estimate(calls).Mean
			t.Logf("%2d processes, %4d slots, offered %.1f for %5s, %-11s: lost %.4f, Erlang's B %.4f; %.3f calls a job",
				c.processes, c.n, c.offered, c.hold, mode, l.Mean, want, n)
			if l.Mean > c.lost*want+1e-4 || n > c.calls {
				t.Errorf("%+v, %s: %v lost, Erlang's B %v; %v calls a job", c, mode, l, want, n)
			}
		}
	}
}

// waitsOf plays a scenario, and counts the part of jobs that wait, and for how long in the mean,
// in seconds. A call takes a nanosecond.
func waitsOf(t *testing.T, s *scenario.Scenario, replication int) (part, mean float64) {
	n := 0.0
	watch(t, s, replication, func(h happening) {
		if h.what == settled && h.At >= s.Warmup {
			n++
			if waited := h.at - h.At; waited > time.Microsecond {
				part++
				mean += waited.Seconds()
			}
		}
	})
	return part / n, mean / n
}
