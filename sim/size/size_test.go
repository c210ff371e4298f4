package size

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/simtest"
)

func deployment(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text), nil)
	simtest.OK(t, err)
	return s
}

// answer plays all of a plan.
func answer(t *testing.T, q Question, effort float64) *Answer {
	t.Helper()
	p, err := plan(q, effort)
	simtest.OK(t, err)
	for _, play := range p.Plays {
		r, holders, err := engine.RunStored(t.Context(), play.Scenario, q.Seed, play.Replication, nil)
		simtest.OK(t, err)
		p.Add(play, r, holders)
	}
	return p.Answer()
}

// whole plays all keys in one run, several times.
func whole(t *testing.T, q Question) (calls, memory measure.Interval) {
	t.Helper()
	s := q.Scenario.Clone()
	s.Keys.Number, s.KeySkew = q.Keys, q.Skew
	s.Load.Rate = scenario.Rate{PerSecond: q.Rate}
	s.Duration, s.Warmup = 70*time.Second, 40*time.Second
	simtest.OK(t, s.Resolve())
	var all [2][]float64
	for n := range 5 {
		r, holders, err := engine.RunStored(t.Context(), s, q.Seed+1000, n, nil)
		simtest.OK(t, err)
		kept := stored(s.Processes) // of the census
		for _, h := range holders {
			kept += stored(h)
		}
		all[0] = append(all[0], r.CallsPerSecond+float64(s.Processes)/census)
		all[1] = append(all[1], kept)
	}
	return measure.Estimate(all[0]), measure.Estimate(all[1])
}

// What samples of the classes say is what the whole fleet does, as far as both can be known:
// their means are no further apart than both 95 % intervals together, which is four standard
// deviations of the difference where both are as wide. At other seeds that fails once in some
// thousand times. Samples are made small: of 500 keys no more than 80 are played.
func TestWholeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("plays all of 500 keys several times: too long with -short")
	}
	for name, c := range map[string]struct {
		skew, rate float64
		text       string
	}{
		"calm":           {1, 500, "{processes: 8, limit: 100/s}"},
		"hot above":      {1.2, 1000, "{processes: 8, limit: 100/s}"},
		"even":           {0, 500, "{processes: 8, limit: 10/s, burst: 10}"},
		"small and slow": {0.8, 300, "{processes: 8, limit: 30/m, burst: 30, policy: {max_hold: 10s}}"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "calm" || name == "even" {
				longform.Only(t, "plays all of 500 keys several times, as the other two do")
			}
			q := Question{Scenario: deployment(t, c.text), Keys: 500, Skew: c.skew, Rate: c.rate,
				Exchange: Exchange, Seed: 1, Replications: 20}
			a := answer(t, q, 0.5)
			sampled := 0
			for _, part := range a.Classes {
				sampled += part.Sample
			}
			if sampled > 80 {
				t.Fatalf("%d keys are sampled: that is no test of the weights", sampled)
			}
			calls, memory := whole(t, q)
			for _, x := range []struct {
				name      string
				got, want measure.Interval
			}{{"calls/s", a.Calls, calls}, {"bytes", a.Memory, memory}} {
				tolerance := (x.got.High - x.got.Low + x.want.High - x.want.Low) / 2
				text := fmt.Sprintf("%s of %d sampled keys: %.5g (%.5g to %.5g); of all %.5g (%.5g to %.5g)",
					x.name, sampled, x.got.Mean, x.got.Low, x.got.High, x.want.Mean, x.want.Low, x.want.High)
				t.Log(text)
				if math.Abs(x.got.Mean-x.want.Mean) > tolerance || tolerance > x.want.Mean/5 {
					t.Error(text)
				}
			}
		})
	}
}

// Classes have all keys once, and all requests.
func TestDivide(t *testing.T) {
	for _, keys := range []int{1, 2, 3, 9, 10, 11, 500, 100_000} {
		for _, skew := range []float64{0, 0.5, 1, 1.5} {
			classes := divide(keys, skew, 1000)
			next, sum := 1, 0.0
			for _, c := range classes {
				if c.First != next || c.Keys < 1 {
					t.Fatalf("%d keys, skew %v: %+v where rank %d is next", keys, skew, c, next)
				}
				each := 0.0
				for i := range c.Keys {
					each += c.of(c.First + i)
				}
				if math.Abs(each/c.Rate-1) > 1e-6 {
					t.Errorf("%d keys, skew %v: keys of %+v have %v/s", keys, skew, c, each)
				}
				next += c.Keys
				sum += c.Rate
			}
			if next != keys+1 || math.Abs(sum/1000-1) > 1e-6 {
				t.Errorf("%d keys, skew %v: classes to rank %d with %v/s", keys, skew, next-1, sum)
			}
		}
	}
	if n := len(divide(MostKeys, 1, 1)); n != 25 {
		t.Errorf("%d classes of 100 million keys", n)
	}
}

func TestRanks(t *testing.T) {
	for _, skew := range []float64{0.5, 1, 1.000001, 2.5} {
		for _, span := range [][2]int{{1, 7}, {1, 300_000}, {9_990, 10_010}, {20_000, 500_000}} {
			want := 0.0
			for i := span[0]; i <= span[1]; i++ {
				want += math.Pow(float64(i), -skew)
			}
			if got := ranks(span[0], span[1], skew); math.Abs(got/want-1) > 1e-9 {
				t.Errorf("ranks %v, skew %v: %v, want %v", span, skew, got, want)
			}
		}
	}
}

// A sample has a key of each part of its class; one of all keys has each once.
func TestSample(t *testing.T) {
	c := Class{First: 11, Keys: 90, skew: 1, all: 1}
	all := c.sample(90, 0.7)
	for i, rate := range all {
		if rate != c.of(11+i) {
			t.Fatalf("key %d has %v/s", 11+i, rate)
		}
	}
	for _, place := range []float64{0, 0.5, 0.999} {
		for i, rate := range c.sample(9, place) {
			if rank := int(math.Round(1 / rate)); rank < 11+10*i || rank > 20+10*i {
				t.Errorf("place %v: rank %d stands for part %d", place, rank, i)
			}
		}
	}
}

func TestQuestions(t *testing.T) {
	good := Question{Scenario: deployment(t, "{}"), Keys: 10, Rate: 10, Exchange: Exchange,
		Replications: 2}
	if _, err := New(good); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Question){
		"size: keys 0 is not from 1 to 100000000":           func(q *Question) { q.Keys = 0 },
		"size: keys 100000001 is not from 1 to 100000000":   func(q *Question) { q.Keys = 1e8 + 1 },
		"size: key skew NaN is not from 0 to 10":            func(q *Question) { q.Skew = math.NaN() },
		"size: key skew -1 is not from 0 to 10":             func(q *Question) { q.Skew = -1 },
		"size: rate 0 is not a number of requests/s":        func(q *Question) { q.Rate = 0 },
		"size: rate NaN is not":                             func(q *Question) { q.Rate = math.NaN() },
		"size: rate +Inf is not":                            func(q *Question) { q.Rate = math.Inf(1) },
		"size: rate 1e+08/s gives one key 1e+07 requests/s": func(q *Question) { q.Rate = 1e8 },
		"size: exchange 0s is not from 1µs to 1s":           func(q *Question) { q.Exchange = 0 },
		"size: replications 0 is not from 1 to 1000":        func(q *Question) { q.Replications = 0 },
		"size: processes 5001 is not from 1 to 5000": func(q *Question) {
			q.Scenario = deployment(t, "processes: 5001")
		},
		"scenario: processes -3 is not from 1": func(q *Question) {
			q.Scenario = deployment(t, "processes: -3")
		},
		"size: limit 100/day is not a token bucket": func(q *Question) {
			q.Scenario = deployment(t, "limit: 100/day")
		},
		"scenario: redis: latency -1s is not from 0 to 1m": func(q *Question) {
			q.Scenario = deployment(t, "redis: {latency: -1s}")
		},
	} {
		q := good
		change(&q)
		if _, err := New(q); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// Where the answer is known: a process that is asked now and then for each of many keys, of
// which nothing can be lent, calls for each request; and with one replication there is no
// interval.
func TestOneCallEach(t *testing.T) {
	a := answer(t, Question{Scenario: deployment(t, "{processes: 4, policy: {mode: per-request}}"),
		Keys: 1_000_000, Rate: 1000, Exchange: Exchange, Replications: 1}, 0.1)
	want := 1000 + 4/census
	if math.Abs(a.Calls.Mean/want-1) > 4/math.Sqrt(1000*30*float64(a.Classes[0].Sample)/1e6) {
		t.Errorf("%v calls/s, want %v", a.Calls.Mean, want)
	}
	if a.Calls.Low != a.Calls.Mean || a.Masters.Mean != 1 || a.Denied.Mean != 0 || a.Waited.Mean != 1 {
		t.Errorf("%+v", a)
	}
}

// Without a whole replication there is no answer.
func TestNothingPlayed(t *testing.T) {
	p, err := New(Question{Scenario: deployment(t, "{}"), Keys: 100, Skew: 1, Rate: 10,
		Exchange: Exchange, Replications: 1})
	simtest.OK(t, err)
	for i, play := range p.Plays {
		if a := p.Answer(); a != nil {
			t.Fatalf("after %d of %d plays: %+v", i, len(p.Plays), a)
		}
		r, holders, err := engine.RunStored(context.Background(), play.Scenario, 1, play.Replication, nil)
		simtest.OK(t, err)
		p.Add(play, r, holders)
	}
	if p.Answer() == nil {
		t.Error("no answer after all of them")
	}
}
