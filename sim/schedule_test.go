package main

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

func TestPoissonSchedule(t *testing.T) {
	load := poisson{rate: 2000, keys: 3, keySkew: 1, duration: 10 * time.Second}
	draw := func(seed uint64) *schedule {
		rng := rand.New(rand.NewPCG(seed, 1))
		s, err := load.schedule(4, spread(4, 1, rng), rng)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := draw(1)
	if n, want := float64(s.requests()), 20_000.0; math.Abs(n-want) > 5*math.Sqrt(want) {
		t.Errorf("%v requests, want about %v", n, want)
	}
	for i, p := range s.procs {
		if !slices.IsSortedFunc(p, func(a, b arrival) int { return int(a.at - b.at) }) {
			t.Errorf("process %d: not in order of time", i)
		}
		share := float64(len(p)) / float64(s.requests())
		if want := 1 / float64(i+1) / (1 + 1./2 + 1./3 + 1./4); math.Abs(share-want) > 0.02 {
			t.Errorf("process %d has %.3f of the requests, want about %.3f", i, share, want)
		}
	}
	if s.last() >= load.duration {
		t.Errorf("last request at %v", s.last())
	}
	if !reflect.DeepEqual(s, draw(1)) {
		t.Error("the same seed gives another schedule")
	}
	if reflect.DeepEqual(s, draw(2)) {
		t.Error("another seed gives the same schedule")
	}
}

func TestPoissonTooMany(t *testing.T) {
	load := poisson{rate: 1e9, keys: 1, duration: time.Hour}
	if _, err := load.schedule(1, sticky(1), nil); err == nil {
		t.Error("3.6e12 requests were accepted")
	}
}

func logOf(requests ...accesslog.Request) *accesslog.Log {
	return &accesslog.Log{Requests: requests}
}

func TestReplaySpeedsUpAndCutsOff(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	log := logOf(
		accesslog.Request{At: start, Key: "a", Cost: 1},
		accesslog.Request{At: start.Add(10 * time.Second), Key: "b", Cost: 7},
		accesslog.Request{At: start.Add(30 * time.Second), Key: "a", Cost: 2},
		accesslog.Request{At: start.Add(60 * time.Second), Key: "c", Cost: 1},
	)
	s, err := replay{log: log, speedup: 10, end: 3 * time.Second, perClient: true}.schedule(1, sticky(1))
	if err != nil {
		t.Fatal(err)
	}
	want := &schedule{
		keys:  []string{"a", "b"},
		procs: [][]arrival{{{0, 0, 1}, {time.Second, 1, 7}, {3 * time.Second, 0, 2}}},
	}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %v, want %v", s, want)
	}
	s, err = replay{log: log, speedup: 1}.schedule(1, sticky(1))
	if err != nil {
		t.Fatal(err)
	}
	if len(s.keys) != 1 || s.requests() != 4 || s.last() != time.Minute || s.tokens() != 11 || s.largest() != 7 {
		t.Errorf("to its end, with one key: %v", s)
	}
}

func TestStickyClientsStay(t *testing.T) {
	to := sticky(8)
	used := map[int]bool{}
	for i := range 200 {
		client := "10.0.0." + strconv.Itoa(i)
		p := to(client)
		if to(client) != p || sticky(8)(client) != p {
			t.Fatalf("client %s moved", client)
		}
		used[p] = true
	}
	if len(used) != 8 {
		t.Errorf("200 clients use %d of 8 processes", len(used))
	}
}

func TestAutoSpeedup(t *testing.T) {
	for _, c := range []struct {
		span, duration time.Duration
		want           float64
	}{
		{100 * time.Second, 0, 10},
		{100 * time.Second, 2 * time.Second, 50},
		{5 * time.Second, 0, 1}, // not slower than it was
		{0, 0, 1},
	} {
		if got := autoSpeedup(c.span, c.duration); got != c.want {
			t.Errorf("autoSpeedup(%v, %v) = %v, want %v", c.span, c.duration, got, c.want)
		}
	}
}

func TestHalfRateFitsTheLargest(t *testing.T) {
	s := &schedule{keys: []string{"a", "b"}, procs: [][]arrival{{{0, 0, 10}, {5 * time.Second, 1, 30}}}}
	limit := halfRate(s)
	if limit.Rate != 2 || limit.Burst != 30 { // 40 tokens in 5 s for 2 keys, halved
		t.Errorf("got %v", limit)
	}
}
