package accesslog_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
)

// Of a line of text the time is at its beginning or has a name, and the client is the first of
// the names that are known, else the first address. What a client writes into a URL is no column.
func TestText(t *testing.T) {
	for _, c := range []struct {
		line string
		o    accesslog.Options
		want string // the first request
	}{
		{"2024/03/02 08:00:00.5 main.go:7: GET /a?user=b from 192.0.2.7:51, took=3ms", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"2024-03-02 08:00:00,500 - app - INFO - GET / [2001:db8::1]:80", accesslog.Options{}, `08:00:00.5 "2001:db8::1" 1`},
		{"2024-03-02T08:00:00.5Z stdout F served client_ip=192.0.2.7", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"[Sat Mar 02 08:00:00.500000 2024] [core:error] [client 192.0.2.7:51] AH00124", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"Mar  2 08:00:00.5 web1 haproxy[14389]: 192.0.2.7:33317 in/srv 10/0", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{`1709366400.500000 [0 192.0.2.7:50214] "incr" "a"`, accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{`level=info ts=2024-03-02T08:00:00.5Z msg="a b" user=u`, accesslog.Options{}, `08:00:00.5 "u" 1`},
		{`time="2024-03-02T08:00:00.5Z" tenant="a b" tokens=7`, accesslog.Options{CostCol: "tokens"}, `08:00:00.5 "a b" 7`},
		{"[pod/api-1/web] 2024/03/02 08:00:00.5 GET / from 192.0.2.7", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"web-1  | [GIN] 2024/03/02 - 08:00:00.5 | 200 | 2ms | 192.0.2.7 | GET \"/\"", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"<134>Mar  2 08:00:00.5 web1 app[7]: due 2024-03-02 09:00:00 192.0.2.7", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{`<165>1 2024-03-02T08:00:00.5Z web1 app 7 ID47 [a@1 client="192.0.2.7"] 10.0.0.1`, accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"W0302 08:00:00.5   12 a.go:5] from 192.0.2.7", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"1:M 02 Mar 2024 08:00:00.5 * Accepted 192.0.2.7:51", accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{`I, [2024-03-02T08:00:00.5 #42]  INFO -- : GET "/" for 192.0.2.7`, accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{`192.0.2.7 - - [02/Mar/2024:08:00:00.5] "GET / HTTP/1.0" 200 2`, accesslog.Options{Format: accesslog.Text}, `08:00:00.5 "192.0.2.7" 1`},
		{"2024-03-02T08:00:00.5Z\tINFO\tserved\t{\"client\": \"192.0.2.7\", \"tokens\": 7}", accesslog.Options{CostCol: "tokens"}, `08:00:00.5 "192.0.2.7" 7`},
		{`web-1 | {"time":"2024-03-02T08:00:00.5Z","request":{"client_ip":"192.0.2.7"},"msg":"10.0.0.1 user=b"}`, accesslog.Options{}, `08:00:00.5 "192.0.2.7" 1`},
		{"\x1b[90m2024-03-02T08:00:00.5Z\x1b[0m \x1b[32mINF\x1b[0m served \x1b[36muser=\x1b[0mu", accesslog.Options{}, `08:00:00.5 "u" 1`},
		{`{"log":"\u001b[36muser=\u001b[0m\"a b\"\r\n","stream":"stdout","time":"2024-03-02T08:00:00.5Z"}`, accesslog.Options{}, `08:00:00.5 "a b" 1`},
		{"10.0.0.1 at 08h00m00.5, ip=192.0.2.7", accesslog.Options{TimeLayout: "15h04m05"}, `08:00:00.5 "192.0.2.7" 1`},
		{"2024/03/02 08:00:00.5 msec=12 ts=3 peer: p", accesslog.Options{KeyCol: "Peer"}, `08:00:00.5 "p" 1`},
	} {
		log := read(t, c.line+"\n", c.o)
		if got := show(log); log.Format != accesslog.Text || got[:len(c.want)] != c.want {
			t.Errorf("%s: as %v %swant %s", c.line, log.Format, got, c.want)
		}
	}
}

// Indented lines without a time go on with the one before, as Docker writes them, too.
func TestStackTrace(t *testing.T) {
	const end = `","stream":"stderr","time":"2024-03-02T08:00:00.5Z"}` + "\n"
	for _, file := range []string{
		"2024-03-02 08:00:00.5 failed user=u\nException: x\n\tat a.b(A.java:1)\n  at c.d(C.java:2)\n",
		`{"log":"failed user=u\n` + end + `{"log":"\tat a.b(A.java:1)\n` + end + `{"log":"\n` + end + "Exception: x\n",
	} {
		log := read(t, file, accesslog.Options{})
		if log.Lines != 2 || log.Bad != 1 || log.Len() != 1 {
			t.Errorf("%s: %d lines, %d bad, %d requests", file, log.Lines, log.Bad, log.Len())
		}
	}
}

// JSON with a field "log" is Docker's only without fields that Docker does not write, and if JSON
// is not wanted.
func TestNotDocker(t *testing.T) {
	for line, o := range map[string]accesslog.Options{
		`{"log":"x","stream":"stdout","time":"2024-03-02T08:00:00.5Z","user":"u"}`:          {},
		`{"log":"x","stream":"stdout","time":"2024-03-02T08:00:00.5Z","attrs":{"tag":"u"}}`: {Format: accesslog.JSON, KeyCol: "attrs.tag"},
	} {
		log := read(t, line+"\n", o)
		if log.Format != accesslog.JSON || log.Keys[0] != "u" {
			t.Errorf("%s: as %v, of %q", line, log.Format, log.Keys)
		}
	}
}

// A column of times has a name that is known, or is found by its values.
func TestTimeIsFound(t *testing.T) {
	for file, want := range map[string]string{
		"id,createdAt\n1800000001,2024-03-02 08:00:00.5\n":      "createdAt",
		"a|when\n3|2024-03-02T08:00:00.5Z\n":                    "when",
		`{"id":1800000001,"event":{"ts":1709366400500}}` + "\n": "event.ts",
		`{"at":{"$date":"2024-03-02T08:00:00.5Z"}}` + "\n":      "at.$date",
		"sep=;\nWann;x\n02.03.2024 08:00:00.5;1\n":              "Wann",
		"when,time\n2024-03-02 08:00:00.5,1709366400.5\n":       "",
	} {
		log := read(t, file, accesslog.Options{})
		if got := log.Start.Format("15:04:05.9"); log.TimeCol != want || got != "08:00:00.5" {
			t.Errorf("%q: column %q, %s", file, log.TimeCol, got)
		}
	}
}

// The client of a line of a web server stands before the request, behind what collected the line.
func TestClientBeforeTheRequest(t *testing.T) {
	const time, rest = "[02/Mar/2024:08:00:00 +0000] ", `"GET /1.2.3.4 HTTP/1.0" 200 -`
	for line, want := range map[string]string{
		"203.0.113.7 - - " + time + rest:                               "203.0.113.7",
		"example.org:80 203.0.113.7 - - " + time + rest:                "203.0.113.7",
		"2024-03-02T08:00:00Z stdout F 203.0.113.7 - - " + time + rest: "203.0.113.7",
		"owner bucket " + time + "203.0.113.7 id REST.GET - " + rest:   "203.0.113.7",
		"gateway.example - 7 " + time + rest:                           "gateway.example",
	} {
		if log := read(t, line+"\n", accesslog.Options{}); log.Format != accesslog.CLF || log.Keys[0] != want {
			t.Errorf("%s: %v, %q", line, log.Format, log.Keys)
		}
	}
}

// Without a year a log that goes over New Year is of two.
func TestNewYear(t *testing.T) {
	log := read(t, "Dec 31 23:59:59 a\nJan  1 00:00:00 b\nJan  1 00:00:02 c\nFeb 29 00:00:00 d\n", accesslog.Options{})
	if got := log.Start.Format(time.DateTime); got != "1971-12-31 23:59:59" || log.Span.Round(time.Hour) != 59*24*time.Hour ||
		log.Times != "times have no year: as if it were 1972" {
		t.Errorf("from %s, %v; %s", got, log.Span, log.Times)
	}
}

// A line with cells of which one is a time is of CSV, not text.
func TestCellsAreNoText(t *testing.T) {
	for _, file := range []string{
		"when, what\n2024-03-02T08:00:00Z, GET /\n", "when|what\n2024-03-02 08:00:00|GET /\n",
		"2024-03-02 08:00:00|GET /\n", "when,what\n2024-03-02 08:00:00,\"{\"\"ts\"\":1}\"\n",
		"2024-03-02 08:00:00\n",
	} {
		if log := read(t, file, accesslog.Options{}); log.Format != accesslog.CSV || log.Start.Hour() != 8 {
			t.Errorf("%q: %v, %v", file, log.Format, log.Start)
		}
	}
}
