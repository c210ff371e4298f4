package accesslog_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

func ExampleRead() {
	const file = `time,tenant,prompt,answer
2024-03-02 08:00:00.750,acme,374,44
2024-03-02 08:00:00.500,globex,91,16
yesterday,acme,1,1
`
	log, err := accesslog.Read(strings.NewReader(file), accesslog.Options{
		KeyCol:  "tenant",
		CostCol: "prompt+answer",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	all := log.Requests()
	for q := (accesslog.Request{}); all.Next(&q); {
		fmt.Println(log.Start.Add(q.At).Format("15:04:05.000"), log.Keys[q.Key], q.Cost)
	}
	if all.Err() != nil {
		fmt.Println(all.Err())
	}
	fmt.Println(log.Bad, "of", log.Lines, "lines bad,", log.Inversions, "inversion")
	fmt.Println(log.BadSamples[0])
	// Output:
	// 08:00:00.500 globex 107
	// 08:00:00.750 acme 418
	// 1 of 3 lines bad, 1 inversion
	// accesslog: line 4: time "yesterday": want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time, or say how it is written (time_layout, -time-layout)
}

// request is a Request with its names and its time of day.
type request struct {
	At            time.Time
	Key, Upstream string
	Cost          int64
}

// requests are all of a log.
func requests(l *accesslog.Log) (all []request) {
	c := l.Requests()
	for q := (accesslog.Request{}); c.Next(&q); {
		r := request{At: l.Start.Add(q.At), Key: l.Keys[q.Key], Cost: q.Cost}
		if q.Upstream >= 0 {
			r.Upstream = l.Upstreams[q.Upstream]
		}
		all = append(all, r)
	}
	if c.Err() != nil {
		panic(c.Err())
	}
	return all
}

// read reads a log.
func read(t *testing.T, text string, o accesslog.Options) *accesslog.Log {
	t.Helper()
	log, err := accesslog.Read(strings.NewReader(text), o)
	simtest.OK(t, err)
	return log
}

// show writes a log as text: the requests, then what the caller should know.
func show(l *accesslog.Log) string {
	var b strings.Builder
	for _, q := range requests(l) {
		at := q.At
		if l.Spread > 0 {
			at = at.Truncate(time.Second)
		}
		fmt.Fprintf(&b, "%s %q %d", at.Format("15:04:05.999999999"), q.Key, q.Cost)
		if q.Upstream != "" {
			fmt.Fprintf(&b, " by %s", q.Upstream)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "lines %d bad %d inversions %d spread %v\n", l.Lines, l.Bad, l.Inversions, l.Spread > 0)
	for _, err := range l.BadSamples {
		fmt.Fprintln(&b, err)
	}
	return b.String()
}

func TestReadFile(t *testing.T) {
	for _, c := range []struct {
		file string
		o    accesslog.Options
		want string
	}{
		{"combined.log", accesslog.Options{}, `
08:00:00 "203.0.113.9" 1
08:00:01 "2001:db8::7" 1
08:00:02 "203.0.113.7" 1
08:00:02 "203.0.113.7" 1
08:00:02 "gateway.example" 1
08:00:03 "203.0.113.8" 1
lines 9 bad 3 inversions 2 spread true
accesslog: line 6: no [time] before the request
accesslog: line 9: time "31/Feb/2024:08:00:00 +0000": want "02/Jan/2006:15:04:05 -0700"
accesslog: line 10: no [time] before the request
`},
		{"tenants.csv", accesslog.Options{KeyCol: "tenant", CostCol: "In + Out"}, `
08:00:00.125 "say \"hi" 2
08:00:00.25 "acme; \"east\"" 120
08:00:00.5 "globex" 1
08:00:01 "acme" 2
08:00:01 "initech" 2
08:00:03 "globex" 10
lines 10 bad 4 inversions 1 spread false
accesslog: line 6: 3 columns, the header has 5, and 5 are needed
accesslog: line 9: cost "-1": want a number >= 0
accesslog: line 10: time "noon": want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time, or say how it is written (time_layout, -time-layout)
accesslog: line 11: cost 4.294967297e+09: over 4294967296
`},
		{"nginx.json", accesslog.Options{}, `
08:00:01 "2001:db8::7" 1
08:00:02 "203.0.113.7" 1 by 10.0.0.1:8080
08:00:02 "203.0.113.7" 1 by unix:/run/app.sock
08:00:03 "203.0.113.9" 1 by 10.0.0.2:8080
lines 10 bad 6 inversions 1 spread true
accesslog: line 5: not JSON: invalid character 'x' in string escape code
accesslog: line 6: not JSON: invalid character 'd' looking for beginning of value
accesslog: line 8: no string or number named "msec, time_iso8601, @timestamp, timestamp, datetime, start_time, ts, time, time_local, created_at, created, date"
accesslog: line 9: time "2024-03-02T08:00:61+00:00": want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time, or say how it is written (time_layout, -time-layout)
accesslog: line 10: a JSON array: want an object per line, as from jq -c '.[]'
`},
		{"nginx_error.log", accesslog.Options{}, `
08:00:00 "203.0.113.7" 1
08:00:01 "" 1
08:00:02 "2001:db8::7" 1
lines 4 bad 1 inversions 1 spread true
accesslog: line 2: no time at its beginning, or by name
`},
		{"envoy.log", accesslog.Options{}, `
20:17:00.25 "10.52.2.21" 1
20:17:00.31 "10.0.35.28" 1 by tcp://10.0.2.1:80
20:17:01 "192.88.34.220" 1 by [2001:db8::5]:8080
20:17:02.001 "2001:db8::9" 1 by 10.0.2.2:80
20:17:03.5 "" 1 by 10.0.2.2:5432
lines 10 bad 5 inversions 1 spread false
accesslog: line 6: want code, flags, two sizes and two durations after the request, as in Envoy's default format
accesslog: line 7: want [time] "METHOD path PROTOCOL" at the beginning, as in Envoy's default format
accesslog: line 8: want five quoted fields at the end, as in Envoy's default format
accesslog: line 9: time "2016-04-15T24:17:07.500Z": want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time
accesslog: line 10: want [time] "METHOD path PROTOCOL" at the beginning, as in Envoy's default format
`},
		{"alb.log", accesslog.Options{}, `
23:39:43.065466 "192.168.131.39" 1 by 10.0.0.1:80
22:22:48.364 "10.0.0.140" 1 by 10.0.1.192:8010
22:22:48.364 "192.168.131.39" 1 by 10.0.0.1:80
22:22:48.364 "192.168.131.39" 1 by 10.0.0.1:80
22:22:48.364 "10.0.1.252" 1 by 10.0.0.66:9000
22:22:48.364 "192.168.131.39" 1
23:55:00.358 "2a02:a33c:4538:1:bcf4:5264:e01c:f215" 1 by 10.0.0.1:80
00:00:01.000001 "2001:db8::1" 1
lines 13 bad 5 inversions 2 spread false
accesslog: line 10: a quoted field does not end
accesslog: line 11: client "192.168.131.39": want address:port
accesslog: line 12: time "2018-07-02T22:22:48.36400x": want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time
accesslog: line 13: want type, time, load balancer, client:port, target:port, seven numbers and the request in quotes, as AWS ALB has them
accesslog: line 14: want type, time, load balancer, client:port, target:port, seven numbers and the request in quotes, as AWS ALB has them
`},
	} {
		name := filepath.Join("testdata", c.file)
		want, err := readFile(name, c.o)
		simtest.OK(t, err)
		if got := show(want); got != c.want[1:] {
			t.Errorf("%s: got\n%swant\n%s", c.file, got, c.want[1:])
		}

		// Zipped, under a name that does not say so, and in pieces of one byte.
		plain, err := os.ReadFile(name)
		simtest.OK(t, err)
		zipped := filepath.Join(t.TempDir(), c.file)
		simtest.OK(t, os.WriteFile(zipped, pack(t, plain), 0o600))
		if got, err := readFile(zipped, c.o); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s zipped: %v, %+v, want %+v", c.file, err, got, want)
		}
		if got, err := accesslog.Read(iotest.OneByteReader(bytes.NewReader(plain)), c.o); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s by bytes: %v, %+v, want %+v", c.file, err, got, want)
		}
	}
}

func pack(t testing.TB, plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	simtest.OK(t, z.Close())
	return b.Bytes()
}

func TestTimes(t *testing.T) {
	const want, other = "2023-11-16T18:15:46.680590000Z", "other"
	for _, c := range []struct{ stamp, want string }{
		{"2023-11-16 18:15:46.6805900", want},
		{"2023-11-16 18:15:46.6805900Z", want},
		{"2023-11-16 18:15:46.680590 UTC", want},
		{"2023-11-16 18:15:46.680590 +0000 UTC", want}, // time.Time.String
		{"2023-11-16 20:15:46.68059+02", want},
		{"2023-11-16 20:15:46.68059+02:00", want},
		{"2023-11-16 20:15:46.68059 +0200", want},
		{"2023-11-16T18:15:46.68059", want},
		{"2023-11-16T18:15:46.68059Z", want},
		{"2023-11-16T13:15:46.68059-05:00", want},
		{" 2023-11-16T18:15:46,68059Z ", want},
		{"2023/11/16 18:15:46.68059", want}, // package log
		{"2023/11/16 20:15:46.68059 +0200", want},
		{"16.11.2023 18:15:46.68059", want},
		{"16-Nov-2023 18:15:46.68059", want},
		{"Thu Nov 16 18:15:46.68059 2023", want},
		{"Thu, 16 Nov 2023 18:15:46 GMT", "2023-11-16T18:15:46.000000000Z"},
		{"Thu, 16 Nov 2023 19:15:46 +0100", "2023-11-16T18:15:46.000000000Z"},
		{"Thu Nov 16 2023 19:15:46 GMT+0100 (Central European Standard Time)", "2023-11-16T18:15:46.000000000Z"},
		{"Nov  6 18:15:46", "1972-11-06T18:15:46.000000000Z"},
		{"11/16/2023 18:15:46", `-time-layout "1/2/2006 15:04:05"`},
		{"1/6/2023 6:15", `-time-layout "1/2/2006 15:04:05"`},
		{"16/Nov/2023:20:15:46.68059 +0200", want},
		{"16/Nov/2023:18:15:46.68059", want},
		{"2023/11/16 - 18:15:46.68059", want}, // Gin
		{"16 Nov 2023 18:15:46.68059", want},  // Redis
		{"1700158546.68059", want},
		{"1.70015854668059e9", want},
		{"1700158546680.59", want},
		{"1700158546680590", want},
		{"1700158546680590000", want},
		{"1700158546680", "2023-11-16T18:15:46.680000000Z"},
		{"1700158546680590001", "2023-11-16T18:15:46.680590001Z"},
		{"100000000000", "1973-03-03T09:46:40.000000000Z"},
		{"100000000000000", "1973-03-03T09:46:40.000000000Z"},
		{"100000000000000000", "1973-03-03T09:46:40.000000000Z"},
		{"0.25", "1970-01-01T00:00:00.250000000Z"},
		{"2200-12-31T23:59:59.5Z", "2200-12-31T23:59:59.500000000Z"},

		{"", "want RFC 3339"},
		{"18:15:46", "want RFC 3339"},
		{"2023-11-16", "a day without a time of day"},
		{"16/Nov/2023", "a day without a time of day"},
		{"31/Feb/2023:18:15:46 +0000", "want \"02/Jan/2006:15:04:05 -0700\""},
		{"2023-13-16 18:15:46", "want RFC 3339"},
		{"2023-11-16 18:15:46 CET", "want RFC 3339"}, // names of zones are ambiguous
		{"1e999", "want RFC 3339"},
		{"2201-01-01T00:00:00Z", "not in the years"},
		{"2200-12-31T23:30:00-01:00", "not in the years"},
		{"1970-01-01T00:30:00+01:00", "not in the years"},
		{"0001-01-01 00:00:00", "not in the years"},
		{"-1", "not in the years"},
		{"-0.5", "not in the years"},
		{"99999999999", "not in the years"},
		{"99999999999999", "not in the years"},
		{"99999999999990000", "not in the years"},
		{"9300000000", "not in the years"},
		{"9223372036854775807", "not in the years"},
		{"9223372036854775808", "not in the years"},
		{"NaN", "not in the years"},
		{"Inf", "not in the years"},
	} {
		// The good line below keeps the log from being refused whole, its half
		// second keeps it from being spread, and a date tells nothing of a unit.
		log := read(t, "ts\tn\n"+c.stamp+"\t1\n2023-11-16T00:00:00.5Z\t2\n", accesslog.Options{Format: accesslog.CSV, KeyCol: "n"})
		got := ""
		if log.Bad > 0 {
			got = log.BadSamples[0].Error()
		}
		for _, q := range requests(log) {
			if q.Key == "1" {
				got = q.At.Format("2006-01-02T15:04:05.000000000Z07:00")
			}
		}
		if strings.HasPrefix(got, "accesslog") {
			if !strings.HasPrefix(got, "accesslog: line 2: time ") || !strings.Contains(got, c.want) {
				t.Errorf("%q: %s, want %s", c.stamp, got, c.want)
			}
		} else if got != c.want {
			t.Errorf("%q: %s, want %s", c.stamp, got, c.want)
		}
	}
}

func TestCosts(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int64 // 0 if the line is bad
	}{
		{"374", "44", 418}, {"0", "0", 1}, {"0.2", "0.3", 1}, {"1.5", "0.75", 3}, {"1e3", " 1 ", 1001},
		{"4294967295", "0.5", 1 << 32}, {"4294967296", "0", 1 << 32},
		{"4294967296", "1", 0}, {"4294967297", "0", 0}, {"1e308", "1e308", 0}, {"1e999", "0", 0},
		{"-1", "2", 0}, {"NaN", "1", 0}, {"Inf", "1", 0}, {"", "1", 0}, {"many", "1", 0},
	} {
		log := read(t, "time,a,b\n7,"+c.a+","+c.b+"\n8,5,5\n", accesslog.Options{CostCol: "a+b"})
		got := int64(0)
		if log.Bad == 0 {
			got = requests(log)[0].Cost
		} else if !strings.Contains(log.BadSamples[0].Error(), "line 2: cost ") {
			t.Errorf("%s+%s: %v", c.a, c.b, log.BadSamples[0])
		}
		if got != c.want {
			t.Errorf("%s+%s: cost %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

// What is wrong with the whole file, or with the options, is an error that
// says what to change.
func TestErrors(t *testing.T) {
	const clf = "h - - [02/Mar/2024:08:00:02 +0000] \"-\" 200 -\n"
	const array = "a JSON array: want an object per line, as from jq -c '.[]'"
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct {
		name, file string
		o          accesslog.Options
		want       string
	}{
		{"empty", "", accesslog.Options{}, "no request in 0 lines"},
		{"blank", " \n\t\r\n\n", accesslog.Options{}, "no request in 0 lines"},
		{"empty CLF", "", accesslog.Options{Format: accesslog.CLF}, "no request in 0 lines"},
		{"header only", "time,x\n", accesslog.Options{}, "no request in 0 lines"},
		{"no time column", "\nwhen,who\n1,2\n", accesslog.Options{Format: accesslog.CSV},
			`line 2: header: no time column (msec, time_iso8601, @timestamp, timestamp, datetime, start_time, ts, time, time_local, created_at, created, date) among "when, who": name the column that has it (load.trace.time, -time-col)`},
		{"neither", "a word\n", accesslog.Options{}, `among "a word": name the column that has it (load.trace.time, -time-col) (read as CSV: no line is JSON, W3C with its #Fields:, Envoy, ALB or CLF, or begins with a time; if lines do, say how it is written: time_layout, -time-layout)`},
		{"TimeCol", "time,who\n", accesslog.Options{TimeCol: "at"}, `no column "at" among "time, who"`},
		{"KeyCol", "time,who\n", accesslog.Options{KeyCol: "client"}, `no column "client" among "time, who"`},
		{"CostCol", "time,a,b\n", accesslog.Options{CostCol: "a+c"}, `no column "c" among "time, a, b"`},
		{"CostCol open", "time,a,b\n", accesslog.Options{CostCol: "a+"}, `column "a+": a term has no name`},
		{"column of CLF", clf, accesslog.Options{KeyCol: "host"}, `column "host": the log is in Common Log Format`},
		{"column of Envoy", envoyLine, accesslog.Options{CostCol: "n"}, `column "n": the log is in Envoy's default format`},
		{"column of ALB", albLine, accesslog.Options{UpstreamCol: "n"}, `column "n": the log is in the format of AWS ALB`},
		{"UpstreamCol", "time,who\n", accesslog.Options{UpstreamCol: "by"}, `no column "by" among "time, who"`},
		{"format", clf, accesslog.Options{Format: 9}, "format Format(9): want auto, clf, csv, json, envoy, alb, w3c or text"},
		{"W3C without columns", "#Version: 1.0\n", accesslog.Options{Format: accesslog.W3C}, "no line #Fields:"},
		{"W3C without a time", "#Fields: c-ip\nh\n", accesslog.Options{}, `no time column`},
		{"layout of CLF", clf, accesslog.Options{TimeLayout: "15"}, `time layout "15": the log is in Common Log Format`},
		{"JSON TimeCol", jsonLine, accesslog.Options{TimeCol: "at"}, `no request in 1 lines; line 1: no string or number named "at"`},
		{"JSON KeyCol", jsonLine, accesslog.Options{KeyCol: "client"}, `no line has a string or number named "client"`},
		{"JSON UpstreamCol", jsonLine, accesslog.Options{UpstreamCol: "x.by"}, `no line has a string or number named "x.by"`},
		{"JSON CostCol", jsonLine, accesslog.Options{CostCol: "n+m"}, `line 1: no string or number named "n"`},
		{"JSON CostCol open", jsonLine, accesslog.Options{CostCol: "n+"}, `column "n+": a term has no name`},
		{"JSON by force", clf, accesslog.Options{Format: accesslog.JSON}, `line 1: not JSON: invalid character 'h'`},
		{"JSON without a time", `{"at":1}`, accesslog.Options{}, "time_local, created_at, created, date\": name the column that has it (load.trace.time, -time-col)"},
		{"JSON in an array", "[" + jsonLine + "]\n", accesslog.Options{}, array},
		{"JSON in an array, by force", "[" + jsonLine + "]\n", accesslog.Options{Format: accesslog.JSON}, "line 1: " + array},
		{"JSON in a long array", "[" + strings.Repeat(jsonLine+",", (1<<20)/len(jsonLine)) + jsonLine + "]\n", accesslog.Options{}, "line 1: " + array},
		{"JSON in an array, line by line", "\n[\n" + jsonLine + ",\n" + jsonLine + "\n]\n", accesslog.Options{TimeCol: "at"}, "line 2: " + array},
		{"JSON in a pretty array", "[\n  {\n    \"time\": 1\n  }\n]\n", accesslog.Options{}, "line 1: " + array},
		{"JSON over several lines", "{\n  \"time\": 1\n}\n", accesslog.Options{}, "line 1: a JSON object over several lines: want one per line, as from jq -c ."},
		{"CSV in brackets", "[at],x\n1,2\n", accesslog.Options{}, "among \"[at], x\""},
		{"JSON array as CSV, by force", "[" + jsonLine + "]\n", accesslog.Options{Format: accesslog.CSV}, "header: "},
		{"long header", long + "\ntime\n1\n", accesslog.Options{}, "line 1: header: longer than 1048576 bytes"},
		{"bad header", "time,\"x\n1\n", accesslog.Options{}, `line 1: header: "time,\"x": extraneous or missing "`},
		{"reasons", "time\nx\n\ny\n", accesslog.Options{}, `no request in 2 lines; line 2: time "x": want RFC`},
		{"columns", "time,who\nx,y\n", accesslog.Options{}, "; columns: time, who"},
		{"gzip header", "\x1f\x8b\x08", accesslog.Options{}, "gzip header: unexpected EOF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			log, err := accesslog.Read(strings.NewReader(c.file), c.o)
			if log != nil || err == nil || !strings.HasPrefix(err.Error(), "accesslog: ") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, %v, want ... %s", log, err, c.want)
			}
		})
	}
}

// readFile reads the named log.
func readFile(name string, o accesslog.Options) (*accesslog.Log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return accesslog.Read(f, o)
}

// A reader that fails is not a damaged file: the rest may be all that matters.
func TestReaderFails(t *testing.T) {
	cause := errors.New("disk on fire")
	r := io.MultiReader(strings.NewReader("time\n1\n2\n"), iotest.ErrReader(cause))
	log, err := accesslog.Read(r, accesslog.Options{})
	if log != nil || !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), "accesslog: line 4: ") {
		t.Errorf("got %v, %v", log, err)
	}
}

func TestLongLines(t *testing.T) {
	const limit = 1 << 20
	csv, clf := accesslog.CSV, accesslog.CLF
	fit := "2,\"" + strings.Repeat("x", limit-5) + "\"" // with its line break, exactly the limit
	for _, c := range []struct {
		name      string
		format    accesslog.Format
		file      string
		good, bad int
	}{
		{"fits", csv, "time,x\n1,a\n" + fit + "\n3,b\n", 3, 0},
		{"too long by one", csv, "time,x\n1,a\n" + fit + "\r\n3,b\n", 2, 1},
		{"much too long", csv, "time,x\n1,a\n" + strings.Repeat(fit, 5) + "\n3,b\n", 2, 1},
		{"too long at the end", csv, "time,x\n1,a\n3,b\n" + fit + fit, 2, 1},
		{"two", csv, "time,x\n" + fit + fit + "\n" + fit + fit + "\n1,a", 1, 2},
		{"brackets", clf, "h [1/Jan/2024:00:00:00 +0000]\nh " + strings.Repeat("[", limit-10) + "]\nh [01/Jan/2024:00:00:00 +0000]", 1, 2},
	} {
		log, err := accesslog.Read(strings.NewReader(c.file), accesslog.Options{Format: c.format})
		if err != nil || log.Len() != c.good || log.Bad != c.bad || log.Lines != c.good+c.bad {
			t.Errorf("%s: %v, %+v", c.name, err, log)
		}
	}
}

// A gzip stream that is damaged anywhere gives a beginning of the whole and one
// bad line, and never a torn number: all costs have six digits.
func TestTornGzip(t *testing.T) {
	const lines = 8000 // 120 KB: several times the 32 KiB that gzip holds back
	var plain strings.Builder
	plain.WriteString("time,cost\n")
	for i := range lines {
		fmt.Fprintf(&plain, "%d.5,%d\n", i, 100000+i*7919%100000)
	}
	whole := pack(t, []byte(plain.String()))
	read := func(file []byte) (*accesslog.Log, error) {
		return accesslog.Read(bytes.NewReader(file), accesslog.Options{CostCol: "cost"})
	}
	all, err := read(whole)
	if err != nil || all.Bad != 0 || all.Len() != lines {
		t.Fatalf("whole: %v, %+v", err, all)
	}
	check := func(what string, file []byte, least int) {
		t.Helper()
		log, err := read(file)
		if err != nil {
			if least > 0 {
				t.Errorf("%s: %v", what, err)
			}
			return // not one line could be unpacked
		}
		n := log.Len()
		if n < least || log.Bad != 1 || log.Lines != n+1 || !strings.Contains(log.BadSamples[0].Error(), "stream breaks off") {
			t.Errorf("%s: lines %d bad %d %v, want %d good", what, log.Lines, log.Bad, log.BadSamples, least)
		}
		if !slices.Equal(requests(log), requests(all)[:n]) {
			t.Errorf("%s: not a beginning of the whole", what)
		}
	}
	for cut := 1; cut < len(whole); cut += len(whole) / 25 {
		check(fmt.Sprint("cut at ", cut), whole[:cut], (lines*cut/len(whole))-lines/2)
	}
	check("no checksum", whole[:len(whole)-1], lines)
	check("rubbish behind", append(slices.Clone(whole), "rubbish, longer than a header"...), lines)
	wrong := slices.Clone(whole)
	wrong[len(wrong)-5]++
	check("wrong checksum", wrong, lines)

	// A second member (gzip files may be joined) that begins with a block of
	// a type that does not exist.
	check("corrupt", append(slices.Clone(whole), "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x07\x07\x07"...), lines)
}

// One good line among damaged ones settles the format; a log line quoted in a
// CSV field does not.
func TestFormats(t *testing.T) {
	const clf = "h - - [02/Mar/2024:08:00:02 +0000] \"GET / HTTP/1.0\" 200 -\n"
	for _, c := range []struct{ name, file, key string }{
		{"CLF after rubbish", "time,half a line\n\n" + clf, "h"},
		{"CLF indented", " \t" + clf, "h"},
		{"separator in quotes", "time,\"a;b;c\"\n1.5,x\n", ""},
		{"CLF after BOM", "\ufeff" + clf, "h"},
		{"CSV with log lines", "time,message\n1.5,\"h - - [02/Mar/2024:08:00:02 +0000] \"\"-\"\" 200 -\"\n", ""},
	} {
		log, err := accesslog.Read(strings.NewReader(c.file), accesslog.Options{})
		if err != nil || log.Len() != 1 || requests(log)[0].Key != c.key {
			t.Errorf("%s: %v, %+v", c.name, err, log)
		}
	}

	// The likeliest name is guessed, not the first column; an exact name goes
	// before one in another case; a plus may be part of a name.
	log, err := accesslog.Read(strings.NewReader("DATE,Timestamp,N,n,n+m\nnever,1.5,2,3,4\n"),
		accesslog.Options{KeyCol: "n", CostCol: "n+m"})
	want := request{At: time.Unix(1, 5e8).UTC(), Key: "3", Cost: 4}
	if err != nil || requests(log)[0] != want {
		t.Errorf("got %v, %+v, want %v", err, log, want)
	}
}
