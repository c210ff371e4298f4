package ideal

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func TestBucketSteps(t *testing.T) {
	b, _ := Of(0, lease.Per(10, time.Second).WithBurst(3), 0)
	for i, step := range []struct {
		at   time.Duration
		n    float64
		want bool
	}{
		{0, 2, true},
		{0, 2, false}, // one left, and a denial takes nothing
		{0, 1, true},
		{50 * time.Millisecond, 1, false},
		{100 * time.Millisecond, 1, true},
		{10 * time.Second, 4, false}, // never more than the burst
		{10 * time.Second, 3, true},
	} {
		if got := b.Take(step.at, step.n, 0); got != step.want {
			t.Errorf("step %d: take %v at %v: %v, want %v", i, step.n, step.at, got, step.want)
		}
	}
}

// The gauge against its definition: all windows, one by one.
func TestGaugeFindsWorstWindow(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		limit := lease.Per(100, time.Second).WithBurst(5)
		_, g := Of(0, limit, 0)
		var times []time.Duration
		var costs []float64
		at := time.Duration(0)
		worst, want := math.Inf(-1), math.Inf(-1)
		for range 100 {
			at += time.Duration(rng.ExpFloat64() * float64(8*time.Millisecond))
			n := float64(1 + rng.IntN(3))
			times, costs = append(times, at), append(costs, n)
			worst = max(worst, g.Pour(at, at, n, 0))
			sum := 0.0
			for i := len(times) - 1; i >= 0; i-- { // windows that end now
				sum += costs[i]
				want = max(want, sum-limit.Rate*(at-times[i]).Seconds()-float64(limit.Burst))
			}
		}
		if math.Abs(worst-want) > 1e-9 {
			t.Errorf("seed %d: worst excess %v, all windows say %v", seed, worst, want)
		}
	}
}

// What the ideal bucket admits is by definition within the limit.
func TestBucketNeverExceeds(t *testing.T) {
	limit := lease.Per(100, time.Second).WithBurst(5)
	rng := rand.New(rand.NewPCG(1, 0))
	b, g := Of(0, limit, 0)
	at := time.Duration(0)
	for range 10_000 {
		at += time.Duration(rng.ExpFloat64() * float64(3*time.Millisecond))
		if b.Take(at, 1, 0) {
			if over := g.Pour(at, at, 1, 0); over > 1e-9 {
				t.Fatalf("at %v: %v tokens over the limit", at, over)
			}
		}
	}
}

// queued is what callers wait in who take tokens in order of arrival. It goes from
// caller to caller, where a Bucket counts tokens that are owed.
type queued struct {
	limit  lease.Limit
	tokens float64 // that there are at at
	at     float64 // seconds; ahead of now while some wait: then the last one is served
}

// serve returns when a caller of now who wants n has them: after all who came before.
func (q *queued) serve(now, n float64) (at float64) {
	if now > q.at { // nobody waits any more
		q.tokens = min(q.tokens+(now-q.at)*q.limit.Rate, float64(q.limit.Burst))
		q.at = now
	}
	there := min(n, q.tokens)
	q.tokens -= there
	q.at += (n - there) / q.limit.Rate
	return q.at
}

// A Bucket whose callers wait admits those who a queue would serve in time, in
// order of arrival. It serves none of them later than their patience.
func TestPatientBucketIsAQueue(t *testing.T) {
	const slack = 1e-9 // s, of rounding
	admitted, waited, refused := 0, 0, 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 0))
		rate := math.Exp2(float64(random.IntN(8)))
		limit := lease.Limit{Rate: rate, Burst: int64(1 + random.IntN(20))}
		patience := time.Duration(1+random.IntN(50)) * 100 * time.Millisecond
		offered := 0.5 + 3*random.Float64()
		b, _ := Of(0, limit, patience)
		q := &queued{limit: limit, tokens: float64(limit.Burst)}
		at := time.Duration(0)
		longest := 0.0
		for range 300 {
			at += time.Duration(random.ExpFloat64() / rate / offered * 1e9)
			n := float64(1 + random.IntN(int(min(limit.Burst, 3))))
			now := at.Seconds()
			if to := *q; to.serve(now, n)-now <= patience.Seconds()-slack {
				if !b.Take(at, n, 0) {
					t.Fatalf("seed %d: %v tokens are refused at %v, which come in time", seed, n, at)
				}
			} else if to = *q; to.serve(now, n)-now >= patience.Seconds()+slack {
				if b.Take(at, n, 0) {
					t.Fatalf("seed %d: %v tokens are admitted at %v that come too late", seed, n, at)
				}
				refused++
				continue
			} else if !b.Take(at, n, 0) { // too close to tell
				continue
			}
			wait := q.serve(now, n) - now
			admitted++
			if wait > 0 {
				waited++
			}
			longest = max(longest, wait)
		}
		if longest > patience.Seconds()+slack {
			t.Errorf("seed %d: a caller waited %v s, longer than %v", seed, longest, patience)
		}
	}
	if admitted-waited < 1000 || waited < 1000 || refused < 1000 {
		t.Errorf("%d admitted, %d of them waited, %d refused: this shows little",
			admitted, waited, refused)
	}
}

// Who waits is owed tokens: a lower limit makes it wait for longer, and a burst that
// comes later finds none.
func TestPatientBucketOwes(t *testing.T) {
	b, _ := Of(0, lease.Per(10, time.Second).WithBurst(5), time.Second)
	for i, step := range []struct {
		at     time.Duration
		n      float64
		want   bool
		tokens float64 // left
	}{
		{0, 5, true, 0},
		{0, 10, true, -10}, // served after just a second
		{0, 1, false, -10},
		{100 * time.Millisecond, 1, true, -10},
		{100 * time.Millisecond, 1, false, -10},
		{1100 * time.Millisecond, 1, true, -1},
		{10 * time.Second, 5, true, 0},
	} {
		got := b.Take(step.at, step.n, 0)
		if left := b.Tokens(step.at); got != step.want || math.Abs(left-step.tokens) > 1e-9 {
			t.Errorf("step %d: take %v at %v: %v and %v left, want %v and %v",
				i, step.n, step.at, got, left, step.want, step.tokens)
		}
	}
}
