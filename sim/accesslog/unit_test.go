package accesslog_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

// arrivals are the times of n requests from begin to begin+span, at random, in
// order, in such units.
func arrivals(n int, begin, span float64, format string) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	b.WriteString("time\n")
	for i := range n {
		at := begin + span*(float64(i)+random.Float64())/float64(n)
		if format == "%d" {
			fmt.Fprintf(&b, "%d\n", int64(at))
		} else {
			fmt.Fprintf(&b, format+"\n", at)
		}
	}
	return b.String()
}

// The unit of times is that of all of them: one stamp alone may be of any.
func TestUnits(t *testing.T) {
	longform.None(t)
	const epoch, minutes59 = 1.7e9, 59 * time.Minute
	for _, c := range []struct {
		name, file string
		unit       string
		want       time.Duration // from the first to the last, roughly; 0 if it is an error
		says       string
	}{
		{"small milliseconds", arrivals(20_000, 0, 3540e3, "%d"), "", minutes59, "milliseconds since the log's own beginning, found from all of them"},
		{"small seconds", arrivals(20_000, 0, 3540, "%d"), "", minutes59, "seconds since the log's own beginning"},
		{"small microseconds", arrivals(20_000, 0, 3540e6, "%d"), "", minutes59, "microseconds since the log's own beginning"},
		{"small nanoseconds", arrivals(20_000, 0, 3540e9, "%d"), "", minutes59, "nanoseconds since the log's own beginning"},
		{"small with a point", arrivals(300, 0, 86400*7, "%.3f"), "", 7 * 24 * time.Hour, "seconds since the log's own beginning"},
		{"seconds", arrivals(20_000, epoch, 3540, "%d"), "", minutes59, "seconds since 1970"},
		{"seconds with a point", arrivals(20_000, epoch, 3540, "%.6f"), "", minutes59, "seconds since 1970"},
		{"milliseconds", arrivals(20_000, epoch*1e3, 3540e3, "%d"), "", minutes59, "milliseconds since 1970"},
		{"microseconds", arrivals(20_000, epoch*1e6, 3540e6, "%d"), "", minutes59, "microseconds since 1970"},
		{"nanoseconds", arrivals(20_000, epoch*1e9, 3540e9, "%d"), "", minutes59, "nanoseconds since 1970"},
		{"milliseconds over 20 years", arrivals(1000, 1e12, 6e11, "%d"), "", 6e8 * time.Second, "milliseconds since 1970"},
		{"a line a minute", arrivals(60, 0, 3540, "%d"), "s", minutes59, "seconds since the log's own beginning, as was given"},
		{"given", arrivals(20_000, 0, 3540, "%d"), "ms", 3540 * time.Millisecond, "milliseconds since the log's own beginning, as was given"},
		{"a busy log's", arrivals(200_000, 0, 3540e3, "%d"), "ms", minutes59, "as was given"},
		{"a busy log's", arrivals(200_000, 0, 3540e3, "%d"), "", 0, "the log takes 983h19m37s in s, 58m59s in ms, 3s in us, 0s in ns; say which one is meant (time_unit, -time-unit)"},
		{"no unit", arrivals(10, 0, 10, "%d"), "hours", 0, `unit of time "hours": want s, ms, us or ns`},
		{"dates", "time\n2026-01-01T00:00:00.5Z\n", "ms", 0, `unit of time "ms": the times are dates, not numbers`},
		{"dates", "time\n2026-01-01T00:00:00.5Z\n2026-01-01T00:00:10.5Z\n", "", 10 * time.Second, ""},
	} {
		log, err := accesslog.Read(strings.NewReader(c.file), accesslog.Options{TimeUnit: c.unit})
		if err != nil {
			if c.want > 0 || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v, want %v, %q", c.name, err, c.want, c.says)
			}
			continue
		}
		if (log.Span-c.want).Abs() > c.want/50+time.Second || !strings.Contains(log.Times, c.says) || log.Bad > 0 {
			t.Errorf("%s: %v, %q, %d bad; want %v, %q", c.name, log.Span, log.Times, log.Bad, c.want, c.says)
		}
	}
}

// A time far from all others is a bad line: it would stretch the log by years.
func TestOddTimes(t *testing.T) {
	file := arrivals(100, 1.7e12, 3540e3, "%d") + "0\n17\n1700000000\n1700000000000000\n"
	log := read(t, file, accesslog.Options{})
	if log.Len() != 100 || log.Bad != 4 || log.Lines != 104 || log.Span > time.Hour {
		t.Errorf("%+v", log)
	}
	if got := log.BadSamples[0].Error(); got != "accesslog: line 102: time 0: far from most others, which are milliseconds" || log.BadSamples[0].Text != "0" {
		t.Errorf("%s, %q", got, log.BadSamples[0].Text)
	}
}

// A line may stand for many requests: they are spread over the time until the
// next line, mixed with those of other keys.
func TestCounts(t *testing.T) {
	const minutes = 60
	var csv, json strings.Builder
	csv.WriteString("minute,tenant,requests\n")
	for m := range minutes {
		for tenant, n := range []int{100, 20, 0} {
			at := time.Date(2026, 1, 1, 8, m, 0, 0, time.UTC).Format(time.RFC3339)
			fmt.Fprintf(&csv, "%s,t%d,%d\n", at, tenant, n)
			fmt.Fprintf(&json, `{"minute":%q,"tenant":"t%d","requests":"%d"}`+"\n", at, tenant, n)
		}
	}
	o := accesslog.Options{TimeCol: "minute", KeyCol: "tenant", CountCol: "requests"}
	log := read(t, csv.String(), o)
	if log.Len() != 120*minutes || log.Lines != 3*minutes || log.Bad != 0 || log.Step != time.Minute || log.Spread > 0 || len(log.Keys) != 2 {
		t.Errorf("%+v", log)
	}
	perMinute, early, sum := map[string]int{}, 0, time.Duration(0)
	for _, q := range requests(log) {
		perMinute[q.At.Format("15:04 ")+q.Key]++
		offset := q.At.Sub(q.At.Truncate(time.Minute))
		sum += offset
		if q.Key == "t1" && offset < 30*time.Second {
			early++
		}
	}
	for m := range minutes {
		for tenant, n := range []int{100, 20, 0} {
			if key := fmt.Sprintf("08:%02d t%d", m, tenant); perMinute[key] != n {
				t.Errorf("%s: %d, want %d", key, perMinute[key], n)
			}
		}
	}
	// Five standard deviations, of a mean of 7,200 offsets and of 1,200 halves.
	if mean := sum / (120 * minutes); (mean-30*time.Second).Abs() > 1020*time.Millisecond || early < 513 || early > 687 {
		t.Errorf("mean offset %v, %d of 1200 of the small tenant in the first half", mean, early)
	}
	same, err := accesslog.Read(strings.NewReader(json.String()), o)
	if err != nil || show(same) != show(log) {
		t.Errorf("as JSON: %v, %+v", err, same)
	}

	for _, c := range []struct{ file, want string }{
		{"time,n\n0,5\n0,6\n", "one time alone does not tell how long that is"},
		{"time,n\n0,0\n60,0\n", "no request in 2 lines"},
		{"time,n\n0,99999999\n60,2\n", "the counts add up to 100000001 requests; at most 100000000"},
		{"time,n\n0,1.5\n60,-1\n", `line 2: count "1.5": want a whole number from 0 to 100000000`},
		{"time,m\n0,1\n", `no column "n" among`},
		{`{"time":0,"m":1}`, `line 1: no string or number named "n"`},
		{"h - - [02/Mar/2024:08:00:02 +0000] \"-\" 200 -\n", `column "n": the log is in Common Log Format`},
	} {
		_, err := accesslog.Read(strings.NewReader(c.file), accesslog.Options{CountCol: "n", TimeUnit: unitOf(c.file)})
		simtest.Refused(t, c.file, err, c.want)
	}
}

// unitOf is a unit for times that are numbers.
func unitOf(file string) string {
	if strings.HasPrefix(file, "h ") {
		return ""
	}
	return "s"
}

// A column that is named like a count and has other numbers than 1 is told of, unless an
// option says what it is.
func TestUncounted(t *testing.T) {
	for _, c := range []struct {
		file string
		o    accesslog.Options
		want string
	}{
		{"time,Requests\n0.5,1\n1.5,7\n", accesslog.Options{}, "Requests"},
		{"time,count,requests\n0.5,1,0\n1.5,7,1\n", accesslog.Options{}, "requests"},
		{"time,x,count\n0.5,1\n1.5,7,3\n", accesslog.Options{}, "count"},
		{"time,count\n0.5,1\n1.5,1\n", accesslog.Options{}, ""},
		{"time,requests\n0.5,GET /\n1.5,1.5\n", accesslog.Options{}, ""},
		{"time,requests\n0.5,2\n1.5,3\n", accesslog.Options{CostCol: "Requests"}, ""},
		{"time,requests,n\n0.5,2,1\n1.5,3,1\n", accesslog.Options{CostCol: "n + requests"}, ""},
		{"time,requests,count\n0.5,2,9\n1.5,3,9\n", accesslog.Options{CountCol: "requests"}, ""},
		{`{"time":0.5,"count":1}` + "\n" + `{"time":1.5,"count":"7"}`, accesslog.Options{}, "count"},
		{`{"time":0.5,"count":1}` + "\n" + `{"time":1.5,"count":{"n":7}}`, accesslog.Options{}, ""},
		{`{"time":0.5,"count":2}` + "\n" + `{"time":1.5,"count":3}`, accesslog.Options{CountCol: "count"}, ""},
		{`{"time":0.5,"count":2}` + "\n" + `{"time":1.5,"count":3}`, accesslog.Options{CostCol: "count"}, ""},
	} {
		log, err := accesslog.Read(strings.NewReader(c.file), c.o)
		if err != nil || log.Uncounted != c.want || log.Bad != 0 || c.want != "" && log.Len() != 2 {
			t.Errorf("%q, %+v: %v, %+v, want %q", c.file, c.o, err, log, c.want)
		}
	}
}

// CSV and JSON guess the same columns, and addresses lose their ports. A line may lack
// what was guessed.
func TestGuesses(t *testing.T) {
	const csv = "client_ip,Upstream,client,msec\n192.0.2.7:1234,\"a, b\",x,1.25\n-,-,y,2.25\n"
	const json = `{"client_ip":"192.0.2.7:1234","Upstream":"a, b","client":"x","msec":1.25}
{"client_ip":"-","Upstream":"-","client":"y","msec":2.25}
`
	a := read(t, csv, accesslog.Options{})
	b := read(t, json, accesslog.Options{})
	if got := strings.Join(a.Keys, "|") + " " + strings.Join(a.Upstreams, "|"); got != "192.0.2.7| b" || show(a) != show(b) {
		t.Errorf("%s: %s\nas JSON %s", got, show(a), show(b))
	}
	named, err := accesslog.Read(strings.NewReader(csv), accesslog.Options{KeyCol: "client_ip"})
	if err != nil || named.Keys[0] != "192.0.2.7:1234" {
		t.Errorf("named: %v, %+v", err, named)
	}
	short, err := accesslog.Read(strings.NewReader("time,client\n0.5,a\n1.5\n"), accesslog.Options{})
	if err != nil || short.Bad != 0 || short.Ragged != 1 || strings.Join(short.Keys, "|") != "a|" {
		t.Errorf("without a client: %v, %+v", err, short)
	}
}

// What logs have that CSV does not allow costs no line, as long as the columns
// that matter are there.
func TestLooseCSV(t *testing.T) {
	file := "time,key,agent\n" + strings.Join([]string{
		`0.5,a,plain`, `1.5,b,5" disk`, `2.5,c,"open`, `3.5,d,"a ""quoted"" one, with a comma"`, `4.5,e,one, two, three`, `5.5,f`, `6.5,"g",x`,
		`7.5,h,"a" b`, `8.5`, `noon,i,x`,
	}, "\n")
	log := read(t, file, accesslog.Options{KeyCol: "key"})
	got := ""
	for _, q := range requests(log) {
		got += q.Key + strconv.Itoa(q.At.Second())
	}
	if got != "a0b1c2d3e4f5g6h7" || log.Bad != 2 || log.Ragged != 2 || log.Lines != 10 {
		t.Errorf("%s, %+v", got, log)
	}
	if text := log.BadSamples[0].Error(); text != "accesslog: line 10: 1 columns, the header has 3, and 2 are needed" || log.BadSamples[0].Text != "8.5" {
		t.Errorf("%s: %q", text, log.BadSamples[0].Text)
	}
}
