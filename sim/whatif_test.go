package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// trafficOf reads a record as `sim whatif` does with these flags.
func trafficOf(t *testing.T, record, flags string) *traffic {
	t.Helper()
	name := simtest.File(t, "record.jsonl", record)
	s := newSettings("whatif", "")
	s.log = true
	c, err := s.parse(t.Context(), append(strings.Fields(flags), name), nil, nil)
	if err == nil {
		c, err = s.recorded(t.Context(), c, nil)
	}
	simtest.OK(t, err)
	all, err := newTraffic(t.Context(), c)
	simtest.OK(t, err)
	return all
}

// recordOf is the record of a Limiter that asks its store for each request.
func recordOf(t *testing.T, limit hybrid.Limit, play func(l *hybrid.Limiter, r *rand.Rand)) string {
	t.Helper()
	var record bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		l, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
			Limit: limit, Policy: lease.Policy{Mode: lease.PerRequest},
			Record: hybrid.Recording{To: &record, Name: true},
		})
		simtest.OK(t, err)
		time.Sleep(time.Millisecond + time.Microsecond) // times are not whole seconds
		play(l, rand.New(rand.NewPCG(1, 2)))
		simtest.OK(t, l.Close(context.Background()))
		if s := l.Stats(); s.LostRecords > 0 {
			t.Fatalf("%d decisions are not written", s.LostRecords)
		}
	})
	return record.String()
}

// TestRecordPlayedAgain: the same limit does to a record what it did to the requests, where the
// Limiter is exact; by key, for each kind of limit, with costs, charges and reservations.
func TestRecordPlayedAgain(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	for _, c := range []struct {
		flags string
		limit hybrid.Limit
	}{
		{"-limit 10/s -burst 40", hybrid.PerSecond(10).WithBurst(40)},
		{"-limit 500/minute", hybrid.Quota(500, time.Minute)},
		{"-limit 40/5s -burst 50", hybrid.Per(40, 5*time.Second).WithBurst(50)},
	} {
		t.Run(c.flags, func(t *testing.T) {
			asked, denied := [3]int64{}, [3]int64{}
			record := recordOf(t, c.limit, func(l *hybrid.Limiter, r *rand.Rand) {
				for range 20_000 {
					key, n := r.IntN(3), 1+r.IntN(3)*r.IntN(3)
					name := fmt.Sprintf("10.0.0.1:%d", key) // no address whose port is to be taken off
					asked[key]++
					if n == 2 {
						asked[key]--
						_ = l.Charge(name, 1)
					} else if d, err := l.Take(context.Background(), name, n); err != nil {
						t.Fatal(err)
					} else if !d.Allowed {
						denied[key]++
					}
					time.Sleep(time.Duration(r.ExpFloat64() * 40e6))
				}
			})
			all := trafficOf(t, record, c.flags)
			would, err := all.under(t.Context(), lease.Limit(c.limit))
			simtest.OK(t, err)
			if len(would) != 3 || !all.known {
				t.Fatalf("%d keys, known: %v", len(would), all.known)
			}
			for i := range would {
				var key int
				fmt.Sscanf(all.scenario.KeyName(i), "10.0.0.1:%d", &key)
				want := ideal.Fate{Requests: asked[key], Denied: denied[key]}
				if all.done[i] != want || would[i] != want || want.Denied == 0 || want.Part() > 0.9 {
					t.Errorf("key %d: %+v; recorded %+v, played again %+v", key, want, all.done[i], would[i])
				}
			}
		})
	}
}

// slowly says whether a bucket denies no key more than a part of its requests, in whole tokens of
// a thousand millionths: another arithmetic than that of local/ideal.
func slowly(lines []line, rate float64, burst int64, atMost float64) bool {
	type bucket struct {
		level            float64 // seconds of the rate that are used
		at               time.Duration
		requests, denied int
	}
	all := map[string]*bucket{}
	for _, q := range lines {
		b := all[q.key]
		if b == nil {
			b = &bucket{at: q.at}
			all[q.key] = b
		}
		b.level = max(b.level-(q.at-b.at).Seconds(), 0)
		b.at = q.at
		b.requests++
		if used := b.level + float64(q.cost)/rate; used <= float64(burst)/rate+1e-9 {
			b.level = used
		} else {
			b.denied++
		}
	}
	for _, b := range all {
		if float64(b.denied) > atMost*float64(b.requests)+1e-9 {
			return false
		}
	}
	return true
}

// A line of a log that a test makes.
type line struct {
	at   time.Duration
	key  string
	cost int64
}

// TestSmallestSuffices: what is suggested denies no key more than a part of its requests, and one
// less denies more of one. Of requests of a token each, no smaller one suffices.
func TestSmallestSuffices(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 5))
		costs, atMost := seed%2 == 1, []float64{0, 0.001, 0.05}[seed%3]
		var lines []line
		var text strings.Builder
		text.WriteString("time,key,cost\n")
		at := time.Duration(0)
		for range 3000 {
			at += time.Duration(r.ExpFloat64()*2000) * time.Microsecond * time.Duration(1+99*r.IntN(50)/49)
			q := line{at, string(rune('a' + r.IntN(4)*r.IntN(2))), 1}
			if costs {
				q.cost += int64(r.ExpFloat64() * 5)
			}
			lines = append(lines, q)
			fmt.Fprintf(&text, "%d,%s,%d\n", 1_700_000_000_000_001+at.Microseconds(), q.key, q.cost)
		}
		all := trafficOf(t, text.String(), "-time-unit us -cost-col cost")
		for name, limit := range map[string]func(n int64) lease.Limit{
			"n/s":           func(n int64) lease.Limit { return lease.Per(float64(n), time.Second) },
			"n/m":           func(n int64) lease.Limit { return lease.Per(float64(n), time.Minute) },
			"burst at 40/s": func(n int64) lease.Limit { return lease.Limit{Rate: 40, Burst: n} },
			"rate at burst": func(n int64) lease.Limit {
				return lease.Per(float64(n), time.Minute).WithBurst(60)
			},
		} {
			n, err := all.least(t.Context(), atMost, limit)
			simtest.OK(t, err)
			holds := func(n int64) bool {
				l := limit(n)
				return slowly(lines, l.Rate, l.Burst, atMost)
			}
			if n < 2 || !holds(n) || holds(n-1) {
				t.Errorf("seed %d, %s: %d, which suffices: %v, and one less: %v",
					seed, name, n, holds(n), holds(n-1))
			}
			for x := int64(1); !costs && x < n; x = max(x+1, int64(math.Ceil(float64(x)*1.05))) {
				if holds(x) {
					t.Errorf("seed %d, %s: %d suffices, and %d is suggested", seed, name, x, n)
					break
				}
			}
		}
	}
}

// TestWhatIf: what the command prints of a record and of a log without verdicts, and its mistakes.
func TestWhatIf(t *testing.T) {
	record := recordOf(t, hybrid.PerSecond(10), func(l *hybrid.Limiter, _ *rand.Rand) {
		for i := range 300 {
			l.AllowN([]string{"busy", "busy", "calm"}[i%3], 1)
			time.Sleep(30 * time.Millisecond)
		}
	})
	jsonl, log := simtest.File(t, "record.jsonl", record), writeLog(t, 0, 1, 1.5, 2, 2.1, 9)
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{jsonl}, []string{
			"what was done       300     102  34.00 %       2 of 2    50.50 %",
			"  # denies 0 requests of 300, of 0 keys; 0.00 % at most of a key\n" +
				"  - key: key\n    rate_limit: {unit: second, requests_per_unit: 21}\n",
			"{unit: day, requests_per_unit: 200}",
		}},
		{[]string{jsonl, "-limit", "15/s", "-burst", "30", "-procs", "1", "-at-most", "10%"}, []string{
			"limit     15/s, burst 30, each of 2 keys",
			"an ideal limit       300 ",
			"1 process            300 ",
			"  busy       200          101",
			"deny no key more than 10 % of its requests",
			"{unit: second, requests_per_unit: 15, burst: ",
			", burst: 30}",
		}},
		{[]string{jsonl, "-limit", "10/m", "-procs", "10"}, []string{
			"limit     10/m, burst 10, each of 2 keys",
			"{unit: minute, requests_per_unit: 10, burst: ", ", burst: 10}",
		}},
		{[]string{jsonl, "-limit", "50 in any 90s"},
			[]string{"# 200 in any 1m30s, for which rules have no unit"}},
		{[]string{jsonl, "-limit", "50 in any minute"},
			[]string{"requests_per_unit: 200, kind: sliding}"}},
		{[]string{jsonl, "-limit", "50/day UTC+02:00"}, []string{"kind: quota, offset: 2h0m0s}"}},
		{[]string{jsonl, "-burst", "20", "-at-most", "0"},
			[]string{"{unit: minute, requests_per_unit: ", ", burst: 20}"}},
		{[]string{jsonl, "-per-client=false", "-at-most", "0"},
			[]string{"{unit: day, requests_per_unit: 300}"}},
		{[]string{log}, []string{"the log         6       -        -            -          -"}},
	} {
		simtest.Has(t, fmt.Sprint(c.args[1:]), must(t, "whatif", c.args...), c.want...)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "no log: want a FILE"},
		{[]string{jsonl, log}, "two logs, "},
		{[]string{""}, `the log "" has no name`},
		{[]string{jsonl, "-limit", "5 slots"}, "slots: a log does not tell how long jobs hold them"},
		{[]string{jsonl, "-limit", "10/m", "-burst", "0"},
			"burst 0 is not in its range; leave it out for its default, the NUMBER of the limit or more"},
		{[]string{jsonl, "-at-most", "100%"}, "want a part such as 0.1% or 0.001, from 0 to below 1"},
		{[]string{jsonl, "-at-most", "NaN"}, "want a part such as"},
		{[]string{jsonl, "-keys", "3"}, "flag provided but not defined: -keys"},
	} {
		refused(t, c.want, "whatif", c.args...)
	}
}

// TestNoLimitSuffices: requests that are larger than the burst are denied by any rate.
func TestNoLimitSuffices(t *testing.T) {
	name := simtest.File(t, "log.csv", "time,cost\n1700000000001,5\n1700000001002,9\n")
	prints(t, "whatif -cost-col cost -burst 8 "+name, "more than its burst is asked for at once")
}

// TestWhatIfJSON: -json has what the text has.
func TestWhatIfJSON(t *testing.T) {
	log := writeLog(t, 0, 0, 0, 1, 1, 9)
	flags := "whatif -limit 1/s -burst 1 -procs 1 -at-most 0 "
	var w whatIf
	simtest.OK(t, json.Unmarshal([]byte(must(t, flags+"-json "+log)), &w))
	ideal, rate := w.Fates[1], w.Suggestions[1]
	if len(w.Fates) != 3 || w.Fates[0].Known || ideal.Requests != 6 || ideal.Denied != 1 || ideal.Keys != 2 ||
		len(w.Keys) != 1 || rate.Suffices || rate.Rule != "" || w.Suggestions[0].Limit != "1/s burst 2" {
		t.Errorf("%+v", w)
	}
	prints(t, flags+log, "  an ideal limit         6       1  16.67 %       1 of 2    33.33 %\n",
		w.Suggestions[0].Rule, "# none like 1/s burst 1: more than its burst")
}

// TestStatusTellsDenials: each format's status 429 is a denial, whatever its request says.
func TestStatusTellsDenials(t *testing.T) {
	for name, lines := range map[string]string{
		"clf": `10.0.0.1 - - [02/Mar/2024:08:00:00 +0000] "GET /\" 200 HTTP/1.1" 429 12 "-" "M"` + "\n" +
			`10.0.0.1 - - [02/Mar/2024:08:00:01 +0000] "GET /429 HTTP/1.1" 200 429`,
		"json": `{"time":"2024-03-02T08:00:00Z","status":429}` + "\n" + `{"time":"2024-03-02T08:00:01Z","status":"200"}`,
		"csv":  "time,status\n2024-03-02T08:00:00Z,429\n2024-03-02T08:00:01Z,200",
		"envoy": `[2024-03-02T08:00:00.097Z] "GET /x HTTP/1.1" 429 - 0 8 3 2 "10.0.0.4" "c" "a" "s" "10.9.0.2:80"` + "\n" +
			`[2024-03-02T08:00:01.097Z] "GET /x HTTP/1.1" 200 - 429 8 3 2 "10.0.0.4" "c" "a" "s" "10.9.0.2:80"`,
		"alb": `http 2024-03-02T08:00:00.0Z app/b/5 10.0.0.4:2817 10.1.0.2:80 0 0 0 429 429 34 8 "GET / HTTP/1.1" "c"` + "\n" +
			`http 2024-03-02T08:00:01.0Z app/b/5 10.0.0.4:2817 10.1.0.2:80 0 0 0 200 200 429 8 "GET / HTTP/1.1" "c"`,
	} {
		text := must(t, "whatif -json "+simtest.File(t, name, lines+"\n"))
		var w whatIf
		if err := json.Unmarshal([]byte(text), &w); err != nil || !w.Fates[0].Known || w.Fates[0].Denied != 1 ||
			w.Fates[0].Requests != 2 {
			t.Errorf("%s: %v, %+v", name, err, w.Fates)
		}
	}
}

// TestLogsNamesAreTold: what a log decides is not silently another one than was asked for, and
// requests above the burst are denied.
func TestLogsNamesAreTold(t *testing.T) {
	ups := simtest.File(t, "ups.csv", "time,user,upstream\n1700000000.5,ann,a\n1700000001.5,bob,b\n")
	large := simtest.File(t, "large.csv", "time,tokens\n1700000000.5,2\n1700000001.5,20\n")
	for line, want := range map[string]string{
		"run -replications 1 -limit 1/s -procs 8 -trace " + ups:              "processes 8 does not count: the log names 2 upstreams",
		"run -replications 1 -limit 1/s -skew 1 -trace " + ups:               "neither weights nor skew count",
		"run -replications 1 -limit 1/s -keys 5 -trace " + ups:               "keys 5 does not count",
		"whatif -limit 1/s -procs 2 " + ups:                                  "of 2 keys",
		"whatif -limit 1/s " + large:                                         "no client is known; if a column is it, say so (load.trace.key, -key-col): time, tokens",
		"run -replications 1 -limit 1/s -burst 10 -trace " + large:           "  requests denied                  1",
		"sweep -replications 1 -over burst=10,30 -limit 1/s -trace " + large: "50.00 %",
	} {
		prints(t, line, want)
	}
}
