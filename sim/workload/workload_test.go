package workload

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/simtest"
)

// parse reads a scenario; one without a limit has 1000/s.
var parse = simtest.Scenario

// requests are those of all streams of one replication, with all processes up
// that are there at the start, in the order of time.
func requests(t *testing.T, text string, seed uint64, replication int) []Request {
	t.Helper()
	s := parse(t, text)
	w := New(s, seed, replication)
	for i := range s.Processes {
		w.SetUp(i, true)
	}
	var all []Request
	for i := range w.Streams() {
		for q := (Request{}); w.Next(i, &q); {
			all = append(all, q)
		}
	}
	slices.SortStableFunc(all, func(a, b Request) int { return int(a.At - b.At) })
	for i := range all {
		p, ok := w.Route(&all[i])
		if !ok {
			t.Fatal("nobody takes a request")
		}
		all[i].Process = p
	}
	return all
}

// Jobs last as long as they are said to, in the mean and around it, and other requests do not.
func TestHolds(t *testing.T) {
	const n = 20_000
	for times, cv := range map[string]float64{"exponential": 1, "even": 0, "gamma, cv: 3": 3} {
		sum, squares := 0.0, 0.0
		for _, q := range requests(t, "{limit: 5 slots, duration: 20s, "+
			"load: {rate: 1000/s, arrivals: even, hold: {mean: 2s, times: "+times+"}}}", 7, 0) {
			sum += q.Worth() / n
			squares += q.Worth() * q.Worth() / n
		}
		if got := math.Sqrt(max(squares-sum*sum, 0)) / sum; math.Abs(sum-2) > 0.02+0.05*cv ||
			math.Abs(got-cv) > 0.01+0.1*cv {
			t.Errorf("%s: %v s in the mean, cv %v", times, sum, got)
		}
	}
	for _, q := range requests(t, "{duration: 1s, load: {costs: [3]}}", 7, 0) {
		if q.Hold != 0 || q.Worth() != 3 {
			t.Fatalf("%+v", q)
		}
	}
}

// within holds that a count is what is expected, but for what chance does to it.
func within(t *testing.T, what string, got int, want, variance float64) {
	t.Helper()
	if math.Abs(float64(got)-want) > 4*math.Sqrt(variance)+1 {
		t.Errorf("%s: %d, want %.0f +- %.0f", what, got, want, 4*math.Sqrt(variance))
	}
}

// between counts the requests from a time on and before another one, in seconds.
func between(all []Request, from, to float64) (n int) {
	for _, q := range all {
		if s := q.At.Seconds(); s >= from && s < to {
			n++
		}
	}
	return n
}

// Every kind of load offers in the mean what it says. A count of gamma gaps with
// coefficient c varies c^2 times as much as a Poisson one.
func TestOfferedLoad(t *testing.T) {
	for _, c := range []struct {
		text   string
		want   float64 // in 100 s
		factor float64 // of the variance
	}{
		{"load: {offered: 0.5}", 50_000, 1},
		{"load: {rate: 300/s}", 30_000, 1},
		{"load: {rate: 10/m}", 100. / 6, 1},
		{"limit: 50/s\nkeys: 20\nload: {offered: 0.5}", 50_000, 1},
		{"load: {offered: 2, cost: 10}", 20_000, 1},
		{"load: {offered: 2, costs: [1, 1, 6]}", 75_000, 1},
		{"load: {rate: 300/s, arrivals: even}", 30_000, 0},
		{"load: {rate: 300/s, arrivals: gamma, cv: 3}", 30_000, 9},
		{"load: {rate: 300/s, arrivals: gamma, cv: 0.3}", 30_000, 0.09},
		{"load: {rate: 300/s, diurnal: {period: 10s, low: 0}}", 30_000, 1},
		{"load: {rate: 300/s, flash: [{at: 10s, for: 20s, times: 3}]}", 42_000, 1},
		{"load: {rate: 300/s, flash: [{at: 10s, for: 20s, times: 0}]}", 24_000, 1},
		{"load: {rate: 300/s}\nbalance: {by: own, skew: 1}", 30_000, 1},
		{"load: {rate: 300/s}\nbalance: {by: own, skew: 1, moves: 700ms}", 30_000, 1},
		{"load: {rate: 300/s}\nbalance: {by: own, on_off: {on: 1s, period: 5s}}", 30_000, 1},
		{"load: {rate: 300/s}\nbalance: {by: own, on_off: {on: 1s, period: 5s, together: true}}", 30_000, 1},
	} {
		s := parse(t, "duration: 100s\n"+c.text)
		if got := s.RequestRate() * 100; s.Load.Flash == nil && math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("%s: the rate is %v in 100 s, want %v", c.text, got, c.want)
		}
		for seed := range uint64(2) {
			all := requests(t, "duration: 100s\n"+c.text, seed, 0)
			within(t, c.text, len(all), c.want, c.want*c.factor)
		}
	}
}

// The gaps of each kind of arrivals have the spread that is asked for.
func TestGaps(t *testing.T) {
	for text, want := range map[string]float64{"poisson": 1, "even": 0, "gamma, cv: 0.5": 0.5, "gamma, cv: 2": 2} {
		all := requests(t, "duration: 100s\nload: {rate: 1000/s, arrivals: "+text+"}", 1, 0)
		var sum, squares float64
		for i := 1; i < len(all); i++ {
			gap := (all[i].At - all[i-1].At).Seconds() * 1000
			sum += gap
			squares += gap * gap
		}
		n := float64(len(all) - 1)
		mean := sum / n
		cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		// 100,000 gaps; the fourth moment of gamma gaps at cv 2 makes 1.5 % a sigma.
		if math.Abs(cv-want) > 0.02+0.03*want {
			t.Errorf("%s: coefficient of variation %.4f, want %v", text, cv, want)
		}
	}
}

// A day has its noon in the first half of its period, and its night in the second.
func TestDiurnal(t *testing.T) {
	all := requests(t, "duration: 80s\nload: {rate: 1000/s, diurnal: {period: 40s, low: 0.2}}", 1, 0)
	mean := func(from, to float64) float64 { // of 1 + 0.8 sin
		return 1 + 0.8*40/(2*math.Pi)*(math.Cos(2*math.Pi*from/40)-math.Cos(2*math.Pi*to/40))/(to-from)
	}
	for _, span := range [][2]float64{{0, 5}, {8, 12}, {20, 25}, {28, 32}, {0, 40}, {48, 52}, {68, 72}} {
		want := 1000 * (span[1] - span[0]) * mean(span[0], span[1])
		within(t, fmt.Sprint(span), between(all, span[0], span[1]), want, want+math.Pow(0.005*want, 2)) // 48 steps
	}
	if noon, night := between(all, 8, 12), between(all, 28, 32); noon < 7*night {
		t.Errorf("%d at noon, %d at night: want about nine times", noon, night)
	}
}

// A flash begins and ends at its edges; two at the same time multiply.
func TestFlash(t *testing.T) {
	all := requests(t, "duration: 50s\nload: {rate: 1000/s, flash: [{at: 10s, for: 20s, times: 3}, {at: 20s, for: 20s, times: 0.5}]}", 1, 0)
	for _, c := range []struct{ from, to, times float64 }{{0, 10, 1}, {10, 20, 3}, {20, 30, 1.5}, {30, 40, 0.5}, {40, 50, 1}, {9.9, 10, 1}, {10, 10.1, 3}, {29.9, 30, 1.5}, {30, 30.1, 0.5}} {
		want := 1000 * (c.to - c.from) * c.times
		within(t, fmt.Sprintf("%v to %v s", c.from, c.to), between(all, c.from, c.to), want, want)
	}
	got := Shifts(parse(t, "duration: 50s\nload: {flash: [{at: 10s, for: 2s, times: 3}]}\nbalance: {moves: 20s}"))
	if want := "[10s 12s 20s 40s]"; fmt.Sprint(got) != want {
		t.Errorf("shifts at %v, want %v", got, want)
	}
}

// Clients who come and go are there only in their phase, which is another one
// for each process, or the same.
func TestOnOff(t *testing.T) {
	for _, c := range []struct {
		together string
		phase    func(process int) time.Duration
	}{
		{"true", func(int) time.Duration { return 0 }},
		{"false", func(p int) time.Duration { return time.Duration(p) * time.Second }},
	} {
		all := requests(t, "processes: 4\nduration: 40s\nload: {rate: 1000/s}\nbalance: {by: own, on_off: {on: 1s, period: 4s, together: "+c.together+"}}", 1, 0)
		counts := make([]int, 4)
		for _, q := range all {
			if in := (q.At + c.phase(q.Process)) % (4 * time.Second); in >= time.Second {
				t.Fatalf("together %s: process %d is asked at %v, %v after its phase begins", c.together, q.Process, q.At, in)
			}
			counts[q.Process]++
		}
		for p, n := range counts {
			within(t, fmt.Sprintf("together %s, process %d", c.together, p), n, 10_000, 10_000)
		}
	}
}

// Processes are chosen by their weights, by whichever of random and own.
func TestWeights(t *testing.T) {
	for _, by := range []string{"random", "own"} {
		for text, want := range map[string][]float64{
			"":                              {0.25, 0.25, 0.25, 0.25},
			", weights: [1, 0, 2, 5]":       {0.125, 0, 0.25, 0.625},
			", weights: [1e12, 0, 0, 1e12]": {0.5, 0, 0, 0.5},
			", skew: 1":                     {0.48, 0.24, 0.16, 0.12},
			", skew: 0.5":                   {0.35913, 0.25394, 0.20734, 0.17956},
			", skew: 100":                   {1, 0, 0, 0},
		} {
			all := requests(t, "processes: 4\nduration: 30s\nload: {rate: 1000/s}\nbalance: {by: "+by+text+"}", 1, 0)
			counts := make([]int, 4)
			for _, q := range all {
				counts[q.Process]++
			}
			for p, n := range counts {
				within(t, by+text, n, 30_000*want[p], 30_000*want[p])
			}
		}
	}
}

// The busiest process moves on to the next one, and around.
func TestMoves(t *testing.T) {
	for _, by := range []string{"random", "own"} {
		all := requests(t, "processes: 3\nduration: 12s\nload: {rate: 3000/s}\nbalance: {by: "+by+", weights: [1, 0, 0], moves: 2s}", 1, 0)
		seen := map[int]bool{}
		for _, q := range all {
			// Process p has the weight (p+n) mod 3 in the nth turn: 0, 2, 1, 0, ...
			if want := (6 - int(q.At/(2*time.Second))) % 3; q.Process != want {
				t.Fatalf("%s: process %d at %v, want %d", by, q.Process, q.At, want)
			}
			seen[q.Process] = true
		}
		if len(seen) != 3 {
			t.Errorf("%s: it went to %v", by, seen)
		}
	}
}

// Keys and clients are as popular as Zipf's law has them, for any exponent >= 0,
// and costs as frequent as they are listed.
func TestPopularity(t *testing.T) {
	for _, skew := range []float64{0, 0.5, 1, 2.5} {
		text := fmt.Sprintf("duration: 30s\nkeys: 5\nkey_skew: %v\nload: {rate: 2000/s, costs: [1, 4, 4]}\nbalance: {by: sticky, clients: 5, client_skew: %v}", skew, skew)
		all := requests(t, text, 1, 0)
		keys, clients, costs := make([]int, 5), make([]int, 5), map[int64]int{}
		for _, q := range all {
			keys[q.Key]++
			clients[q.Client]++
			costs[q.Cost]++
		}
		sum := 0.0
		for i := range 5 {
			sum += math.Pow(float64(i+1), -skew)
		}
		n := float64(len(all))
		for i := range 5 {
			want := n * math.Pow(float64(i+1), -skew) / sum
			within(t, fmt.Sprintf("skew %v, key %d", skew, i), keys[i], want, want)
			within(t, fmt.Sprintf("skew %v, client %d", skew, i), clients[i], want, want)
		}
		within(t, "cost 1", costs[1], n/3, n/3)
		within(t, "cost 4", costs[4], n*2/3, n/3)
	}
}

// The same seed and replication make the same requests; any other one makes
// others, of every stream.
func TestSameSeedSameRequests(t *testing.T) {
	for _, text := range []string{
		"load: {offered: 1}\nbalance: {skew: 1}",
		"load: {arrivals: gamma, costs: [1, 2, 3]}\nkeys: 3",
		"balance: {by: own, skew: 1, on_off: {on: 100ms, period: 300ms}}",
		"balance: {by: sticky}",
		"balance: {by: least-outstanding}",
	} {
		text = "duration: 2s\n" + text
		first := requests(t, text, 1, 0)
		if again := requests(t, text, 1, 0); !reflect.DeepEqual(first, again) {
			t.Errorf("%s: other requests the second time", text)
		}
		for _, other := range [][]Request{requests(t, text, 2, 0), requests(t, text, 1, 1)} {
			same := 0
			for i := range min(len(first), len(other)) {
				if first[i].At == other[i].At {
					same++
				}
			}
			if same > 3 {
				t.Errorf("%s: another seed or replication has %d of %d times", text, same, len(first))
			}
		}
	}
	// Processes with clients of their own have times of their own.
	times := map[time.Duration]int{}
	for _, q := range requests(t, "duration: 2s\nload: {rate: 1000/s}\nbalance: {by: own}", 1, 0) {
		times[q.At]++
	}
	if len(times) < 1900 {
		t.Errorf("2000 requests have only %d times", len(times))
	}
}

// What becomes of requests does not change those that follow: neither where
// they were sent, nor who was up, nor how busy.
func TestOpenLoadHeedsNothing(t *testing.T) {
	s := parse(t, "duration: 2s\nkeys: 3\nload: {rate: 1000/s, costs: [1, 2]}\nbalance: {skew: 1}")
	calm, busy := New(s, 1, 0), New(s, 1, 0)
	calm.SetUp(0, true)
	for i := range 10 {
		busy.SetUp(i, true)
	}
	for n := 0; ; n++ {
		var a, b Request
		more := calm.Next(0, &a)
		if more != busy.Next(0, &b) || a != b {
			t.Fatalf("request %d: %+v and %+v", n, a, b)
		}
		if !more {
			break
		}
		p, _ := busy.Route(&b)
		busy.Busy(p, 1)
		busy.SetUp(n%10, n%3 != 0)
	}
}

// Streams of processes that join later leave those of the others alone.
func TestStreamsAreTheirOwn(t *testing.T) {
	few := requests(t, "processes: 3\nduration: 2s\nload: {rate: 300/s}\nbalance: {by: own}", 1, 0)
	s := parse(t, "processes: 3\nduration: 2s\nload: {rate: 300/s}\nbalance: {by: own}\nfaults: [{kind: join, at: 1s, count: 2}]")
	w := New(s, 1, 0)
	if w.Streams() != 5 || w.Processes() != 5 {
		t.Fatalf("%d streams, %d processes", w.Streams(), w.Processes())
	}
	for i := range 3 {
		var want, got []time.Duration
		for _, q := range few {
			if q.Process == i {
				want = append(want, q.At)
			}
		}
		for q := (Request{}); w.Next(i, &q); {
			got = append(got, q.At)
		}
		if !slices.Equal(got, want) {
			t.Errorf("process %d has other requests", i)
		}
	}
}

// balanced returns a workload of so many processes, all up.
func balanced(t *testing.T, processes int, balance string) *Workload {
	s := parse(t, fmt.Sprintf("processes: %d\nbalance: %s\nfaults: [{kind: join, at: 1s, count: 2}]", processes, balance))
	w := New(s, 1, 0)
	for i := range processes {
		w.SetUp(i, true)
	}
	return w
}

// routes counts where so many requests go.
func routes(t *testing.T, w *Workload, n int) map[int]int {
	t.Helper()
	counts := map[int]int{}
	for i := range n {
		p, ok := w.Route(&Request{Process: -1, Client: i})
		if !ok {
			t.Fatal("nobody takes it")
		}
		counts[p]++
	}
	return counts
}

// Whoever is down gets nothing, whoever joins gets a part, and with nobody there
// requests go nowhere; by every balancer.
func TestMembership(t *testing.T) {
	for _, by := range []string{"random", "round-robin", "sticky", "least-outstanding"} {
		w := balanced(t, 3, "{by: "+by+"}")
		w.SetUp(1, false)
		w.SetUp(1, false) // twice is once
		w.SetUp(3, true)
		w.SetUp(3, true)
		counts := routes(t, w, 3000)
		if len(counts) != 3 || counts[1] > 0 {
			t.Errorf("%s: %v", by, counts)
		}
		for _, p := range []int{0, 2, 3} {
			if n := counts[p]; n < 800 || n > 1200 {
				t.Errorf("%s: process %d takes %d of 3000, one of three", by, p, n)
			}
			w.SetUp(p, false)
		}
		if p, ok := w.Route(&Request{Process: -1}); ok {
			t.Errorf("%s: process %d is down and takes a request", by, p)
		}
		w.SetUp(1, true)
		if counts = routes(t, w, 10); counts[1] != 10 {
			t.Errorf("%s: only process 1 is up: %v", by, counts)
		}
	}
	// Those with no weight take what is there when nobody else is.
	w := balanced(t, 3, "{weights: [1, 0, 0]}")
	w.SetUp(0, false)
	if counts := routes(t, w, 1000); counts[1] < 400 || counts[2] < 400 {
		t.Errorf("without weights: %v", counts)
	}
}

// In turn means in turn.
func TestRoundRobin(t *testing.T) {
	w := balanced(t, 4, "{by: round-robin}")
	last := -1
	for range 12 {
		p, _ := w.Route(&Request{Process: -1})
		if last >= 0 && p != (last+1)%4 {
			t.Errorf("%d after %d", p, last)
		}
		last = p
	}
	if counts := routes(t, w, 4000); !reflect.DeepEqual(counts, map[int]int{0: 1000, 1: 1000, 2: 1000, 3: 1000}) {
		t.Errorf("%v", counts)
	}
}

// A client stays where it is for as long as the same processes are up, whatever
// else happens.
func TestSticky(t *testing.T) {
	w := balanced(t, 5, "{by: sticky}")
	home := map[int]int{}
	where := func(client int) int {
		p, _ := w.Route(&Request{Process: -1, Client: client})
		return p
	}
	for c := range 1000 {
		home[c] = where(c)
	}
	w.Busy(0, 1000)
	for c := range 1000 {
		if p := where(c); p != home[c] {
			t.Fatalf("client %d moved from %d to %d", c, home[c], p)
		}
	}
	w.SetUp(2, false)
	w.SetUp(2, true)
	for c := range 1000 {
		if p := where(c); p != home[c] {
			t.Fatalf("client %d does not come back to %d, but goes to %d", c, home[c], p)
		}
	}
}

// The idlest process takes the next request; among several any of them.
func TestLeastOutstanding(t *testing.T) {
	w := balanced(t, 4, "{by: least-outstanding}")
	for p, n := range []int{3, 1, 2, 5} {
		w.Busy(p, n)
	}
	if counts := routes(t, w, 100); counts[1] != 100 {
		t.Errorf("not the idlest: %v", counts)
	}
	w.Busy(2, -1)
	counts := routes(t, w, 4000)
	if len(counts) != 2 || counts[1] < 1850 || counts[2] < 1850 {
		t.Errorf("two are as idle: %v", counts)
	}
	w.SetUp(1, false)
	w.SetUp(2, false)
	if counts := routes(t, w, 100); counts[0] != 100 {
		t.Errorf("the idlest of those that are up: %v", counts)
	}
}

// Closed clients think for as long as they say, each with a stream of its own.
func TestThink(t *testing.T) {
	s := parse(t, "load: {clients: {count: 3, think: 200ms}, costs: [1, 3]}")
	w, again := New(s, 1, 0), New(s, 1, 0)
	if w.Clients() != 3 || w.Streams() != 0 {
		t.Fatalf("%d clients, %d streams", w.Clients(), w.Streams())
	}
	sum := 0.0
	const n = 20_000
	for i := range n {
		now := time.Duration(i) * time.Second
		q := w.Think(now, 1)
		if q.Client != 1 || q.Process != -1 || q.At < now || q.Cost != 1 && q.Cost != 3 {
			t.Fatalf("%+v", q)
		}
		sum += (q.At - now).Seconds()
		again.Think(now, 0) // another client does not disturb it
		if q != again.Think(now, 1) {
			t.Fatalf("%d: another request", i)
		}
	}
	if mean := sum / n; math.Abs(mean-0.2) > 4*0.2/math.Sqrt(n) {
		t.Errorf("thinks for %v s, want 0.2", mean)
	}
}

// A log is replayed in its order; the process that it names takes the request,
// if it is up, and Redis' keys are its clients.
func TestReplay(t *testing.T) {
	log := simtest.File(t, "log.csv", "time,key,cost,upstream\n"+
		"2026-01-01T00:00:00.001Z,a,3,x\n2026-01-01T00:00:00.501Z,b,1,y\n2026-01-01T00:00:01.001Z,a,2,-\n")
	s := parse(t, "duration: 5s\nload: {trace: {file: "+log+", key: key, cost: cost, upstream: upstream, per_client: true}}")
	w := New(s, 1, 0)
	if w.Streams() != 1 {
		t.Fatalf("%d streams", w.Streams())
	}
	w.SetUp(0, true)
	var got []string
	for q := (Request{}); w.Next(0, &q); {
		p, ok := w.Route(&q)
		got = append(got, fmt.Sprintf("%v key %d cost %d: %d %v", q.At, q.Key, q.Cost, p, ok))
	}
	want := "0s key 0 cost 3: 0 true, 500ms key 1 cost 1: 1 false, 1s key 0 cost 2: 0 true"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

// Loads at the edge of what is allowed come to an end, and those of nothing at
// once.
func TestExtremes(t *testing.T) {
	for _, c := range []struct {
		text string
		want float64
	}{
		{"duration: 2ms\nload: {rate: 1e8/s}", 2e5},
		{"duration: 2ms\nload: {rate: 1e8/s, arrivals: gamma, cv: 20}", -1},
		{"duration: 1000h\nload: {offered: 1e-300}", 0},
		{"duration: 1000h\nload: {offered: 1e-300, diurnal: {period: 36s, low: 0}}", 0},
		{"duration: 1000h\nload: {offered: 1e-300}\nbalance: {by: own, on_off: {on: 1ms, period: 36s}}\nprocesses: 2", 0},
		{"duration: 1000h\nload: {rate: 1/h, flash: [{at: 0s, for: 1000h, times: 0}]}", 0},
		{"duration: 1ms\nload: {rate: 1e6/s, diurnal: {period: 1000h, low: 1}}", 1000},
		{"duration: 1000h\nprocesses: 1\nload: {rate: 1/h}\nbalance: {by: own, weights: [1], moves: 1000h}", 1000},
		{"duration: 1000h\nprocesses: 10000\nload: {rate: 1/h}\nbalance: {by: own, on_off: {on: 1000h, period: 1000h}}", 1000},
	} {
		all := requests(t, c.text, 1, 0)
		if c.want >= 0 {
			within(t, c.text, len(all), c.want, c.want+math.Pow(0.001*c.want, 2)) // gaps of 10 ns are rounded
		}
		for i, q := range all {
			if q.At < 0 || i > 0 && q.At < all[i-1].At {
				t.Fatalf("%s: request %d at %v", c.text, i, q.At)
			}
		}
	}
}
