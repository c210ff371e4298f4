package accesslog_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

// A good line of each format that is known by its lines.
const (
	clfLine   = `h - - [02/Mar/2024:08:00:02 +0000] "GET / HTTP/1.0" 200 -`
	jsonLine  = `{"time":"2024-03-02T08:00:02Z","remote_addr":"h"}`
	envoyLine = `[2024-03-02T08:00:02.000Z] "GET / HTTP/2" 200 - 0 0 0 0 "h" "curl" "id" "example.com" "10.0.0.1:80"`
	albLine   = `h2 2024-03-02T08:00:02.000000Z app/lb/1 192.0.2.1:5 10.0.0.1:80 0.0 0.0 0.0 200 200 1 2 "GET https://example.com:443/ HTTP/2.0" "curl" - -`
	textLine  = `2024/03/02 08:00:02 main.go:7: GET / from 192.0.2.1`
	w3cLine   = "#Fields: date time c-ip\n2024-03-02 08:00:02 h"
)

func TestParseFormat(t *testing.T) {
	for f := accesslog.Auto; f <= accesslog.Text; f++ {
		if got, err := accesslog.ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("%v: got %v, %v", f, got, err)
		}
	}
	for _, name := range []string{"", "CLF", "xml", "Format(8)"} {
		got, err := accesslog.ParseFormat(name)
		want := fmt.Sprintf("accesslog: format %q: want auto, clf, csv, json, envoy, alb, w3c or text", name)
		if got != accesslog.Auto || err == nil || err.Error() != want {
			t.Errorf("%q: got %v, %v, want %s", name, got, err, want)
		}
	}
}

// Auto reads each format as the format itself does, and as no other does: the
// first line that reads as one decides, and one within a CSV's quotes is none.
func TestAuto(t *testing.T) {
	quoted := func(line string) string { return `"` + strings.ReplaceAll(line, `"`, `""`) + `"` }
	csv := "time,message\n"
	for i, line := range []string{clfLine, jsonLine, envoyLine, albLine} {
		csv += fmt.Sprintf("%d.5,%s\n", i, quoted(line))
	}
	for _, c := range []struct {
		name, file string
		want       accesslog.Format
	}{
		{"CLF", clfLine, accesslog.CLF},
		{"JSON", jsonLine, accesslog.JSON},
		{"Envoy", envoyLine, accesslog.Envoy},
		{"ALB", albLine, accesslog.ALB},
		{"W3C", w3cLine, accesslog.W3C},
		{"text", textLine, accesslog.Text},
		{"text after a half", "02 h\n" + textLine, accesslog.Text},
		{"CSV of text", "time,message\n1.5," + textLine + "\n", accesslog.CSV},
		{"W3C after a half", "02 h\n" + w3cLine, accesslog.W3C},
		{"CSV of log lines", csv, accesslog.CSV},
		{"CSV of log lines, message first", "message;time\n" + quoted(jsonLine) + ";1.5\n" + quoted(clfLine) + ";2.5\n", accesslog.CSV},
		{"JSON of a log line", `{"log":` + fmt.Sprintf("%q", clfLine) + `,"ts":1.5}`, accesslog.JSON},
		{"CLF, then JSON", clfLine + "\n" + jsonLine + "\n" + jsonLine, accesslog.CLF},
		{"JSON, then CLF", jsonLine + "\n" + clfLine + "\n" + clfLine, accesslog.JSON},
		{"Envoy after halves", jsonLine[:30] + "\n\n" + albLine[20:] + "\n \t" + envoyLine + "\r\n" + clfLine, accesslog.Envoy},
		{"ALB after halves", "\ufeff" + envoyLine[20:] + "\n" + albLine + "\n" + envoyLine, accesslog.ALB},
		{"CLF that quotes the others", `h - {1} [02/Mar/2024:08:00:02 +0000] "GET / HTTP/1.0" 200 - "` + envoyLine + `" "` + albLine + `"`, accesslog.CLF},
	} {
		auto := read(t, c.file, accesslog.Options{})
		for f := accesslog.CLF; f <= accesslog.Text; f++ {
			log, err := accesslog.Read(strings.NewReader(c.file), accesslog.Options{Format: f})
			same := err == nil && show(log) == show(auto)
			if same != (f == c.want) {
				t.Errorf("%s: read as %v: %v, %+v; auto %+v", c.name, f, err, log, auto)
			}
		}
	}
}

// An object a line: where its values are found, and what they may be.
func TestJSON(t *testing.T) {
	longform.None(t)
	const at = `"t":1.5,`
	for _, c := range []struct {
		line string
		o    accesslog.Options
		want string // "time key cost upstream", or a part of the reason
	}{
		// Times. A file of whole seconds is spread, so they have fractions.
		{`{"t":1700000000.123}`, accesslog.Options{TimeCol: "t"}, `1700000000.123000000 "" 1 ""`},
		{`{"t":1700000000123456789}`, accesslog.Options{TimeCol: "t"}, `1700000000.123456789 "" 1 ""`},
		{`{"t":" 1700000000123456789 "}`, accesslog.Options{TimeCol: "t"}, `1700000000.123456789 "" 1 ""`},
		{`{"t":1.7000000005e9}`, accesslog.Options{TimeCol: "t"}, `1700000000.500000000 "" 1 ""`},
		{`{"t":"14/Nov/2023:23:13:20.5 +0100"}`, accesslog.Options{TimeCol: "t"}, `1700000000.500000000 "" 1 ""`},
		{`{"t":"14/Nov/2023:22:13:20.5"}`, accesslog.Options{TimeCol: "t"}, `1700000000.500000000 "" 1 ""`},
		{`{"t":"14/Nov/2023:22:13:20.5 CET"}`, accesslog.Options{TimeCol: "t"}, `time "14/Nov/2023:22:13:20.5 CET": want "02/Jan/2006:15:04:05 -0700"`},
		{`{"t":"2023-11-14 22:13:20.5"}`, accesslog.Options{TimeCol: "T"}, `1700000000.500000000 "" 1 ""`},
		{`{"t":"noon"}`, accesslog.Options{TimeCol: "t"}, `time "noon": want RFC 3339`},
		{`{"t":1e300}`, accesslog.Options{TimeCol: "t"}, "not in the years"},
		{`{"t":true}`, accesslog.Options{TimeCol: "t"}, `no string or number named "t"`},
		{`{"t":{"t":1.5}}`, accesslog.Options{TimeCol: "t"}, `no string or number named "t"`},
		{`{"t":null}`, accesslog.Options{TimeCol: "t"}, `no string or number named "t"`},

		// Guesses: the finest time, and of each the first that has a value.
		{`{"time":1.5,"ts":2.5,"msec":"3.5","time_iso8601":"2024-03-02T08:00:02Z"}`, accesslog.Options{}, `3.500000000 "" 1 ""`},
		{`{"time":1.5,"TS":2.5,"msec":null,"timestamp":{}}`, accesslog.Options{}, `2.500000000 "" 1 ""`},
		{`{"ts":1.5,"remote_addr":"192.0.2.1","client":"c"}`, accesslog.Options{}, `1.500000000 "192.0.2.1" 1 ""`},
		{`{"ts":1.5,"client":{"ip":"x"},"remote_ip":"2001:db8::1"}`, accesslog.Options{}, `1.500000000 "2001:db8::1" 1 ""`},
		{`{"ts":1.5,"client":"[2001:db8::1]:5","backend":7}`, accesslog.Options{}, `1.500000000 "2001:db8::1" 1 "7"`},
		{`{"ts":1.5,"client":"192.0.2.1:5","upstream":"-"}`, accesslog.Options{}, `1.500000000 "192.0.2.1" 1 ""`},
		{`{"ts":1.5,"client":"a:5"}`, accesslog.Options{}, `1.500000000 "a:5" 1 ""`},
		{`{"ts":1.5,"client":"-"}`, accesslog.Options{}, `1.500000000 "" 1 ""`},
		{`{"level":"info","ts":1.5,"logger":"http.log.access","request":{"remote_ip":"10.0.0.1","client_ip":"192.0.2.1","headers":{"User-Agent":["curl"]}},"status":200}`,
			accesslog.Options{}, `1.500000000 "192.0.2.1" 1 ""`}, // Caddy
		{`{"start_time":"2023-11-14T22:13:20.500Z","downstream_remote_address":"10.0.0.1:4711","upstream_host":"10.0.0.2:80","x_forwarded_for":null}`,
			accesslog.Options{}, `1700000000.500000000 "10.0.0.1" 1 "10.0.0.2:80"`}, // Envoy, json_format

		// Names.
		{`{` + at + `"k":" x "}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "x" 1 ""`},
		{`{` + at + `"k":"192.0.2.1:5"}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "192.0.2.1:5" 1 ""`},
		{`{` + at + `"k":"1","K":"2"}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "1" 1 ""`},
		{`{` + at + `"K":"2","k":"1","K":"3"}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "1" 1 ""`},
		{`{` + at + `"k":"1","k":"2","k":null}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "2" 1 ""`},
		{`{` + at + `"\u006b":"caf\u00e9 \"\ud83d\ude00\" \\"}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "café \"😀\" \\" 1 ""`},
		{`{` + at + `"a":{"b":{"c":"1"},"k":"2"},"c":"3"}`, accesslog.Options{TimeCol: "t", KeyCol: "A.B.c"}, `1.500000000 "1" 1 ""`},
		{`{` + at + `"a.b":{"c":"1"}}`, accesslog.Options{TimeCol: "t", KeyCol: "a.b.c"}, `1.500000000 "1" 1 ""`},
		{`{` + at + `"a.b.c":"1","a":{"b":{}}}`, accesslog.Options{TimeCol: "t", KeyCol: "a.b.c"}, `1.500000000 "1" 1 ""`},
		{`{` + at + `"a":[{"k":"1"}],"s":"\"k\":\"2\"","k":"3"}`, accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "3" 1 ""`},
		{"\t{ \"t\" : 1.5 , \"k\" :\t\"x\" , \"e\" : { } , \"f\" : [ ] } \r", accesslog.Options{TimeCol: "t", KeyCol: "k"}, `1.500000000 "x" 1 ""`},

		// Costs.
		{`{` + at + `"in":12,"out":"3.5"}`, accesslog.Options{TimeCol: "t", CostCol: "in + out"}, `1.500000000 "" 16 ""`},
		{`{` + at + `"in":12,"out":3,"in+out":5}`, accesslog.Options{TimeCol: "t", CostCol: "in+out"}, `1.500000000 "" 5 ""`},
		{`{` + at + `"in":12}`, accesslog.Options{TimeCol: "t", CostCol: "in+out"}, `no string or number named "out"`},
		{`{` + at + `"in":"-"}`, accesslog.Options{TimeCol: "t", CostCol: "in"}, `cost "-": want a number >= 0`},
		{`{` + at + `"in":-1}`, accesslog.Options{TimeCol: "t", CostCol: "in"}, `cost "-1": want a number >= 0`},
		{`{` + at + `"in":4294967297}`, accesslog.Options{TimeCol: "t", CostCol: "in"}, `over 4294967296`},

		// Damage.
		{`{}`, accesslog.Options{}, "no string or number named"},
		{`{` + at[:7] + `} x`, accesslog.Options{TimeCol: "t"}, "not JSON: invalid character 'x'"},
		{`{` + at[:7], accesslog.Options{TimeCol: "t"}, "not JSON: unexpected end"},
		{`{` + at + `"k":-}`, accesslog.Options{TimeCol: "t"}, "not JSON: invalid character '}'"},
		{`"{"`, accesslog.Options{TimeCol: "t"}, "not a JSON object"},
		{`{` + at + `"a":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, accesslog.Options{TimeCol: "t"}, "not JSON: invalid character '[' exceeded max depth"},
		{`{` + at + `"a":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, accesslog.Options{TimeCol: "t"}, `1.500000000 "" 1 ""`},
		{strings.Repeat(`{"a":`, 9000) + "1" + strings.Repeat("}", 9000), accesslog.Options{TimeCol: strings.Repeat("a.", 8999) + "a", KeyCol: "a.a"},
			"no line has a string or number named \"a.a\""},
	} {
		c.o.Format = accesslog.JSON
		log, err := accesslog.Read(strings.NewReader(c.line+"\n"), c.o)
		got := fmt.Sprint(err)
		if err == nil {
			q := requests(log)[0]
			got = fmt.Sprintf("%d.%09d %q %d %q", q.At.Unix(), q.At.Nanosecond(), q.Key, q.Cost, q.Upstream)
		}
		if err == nil && got != c.want || !strings.Contains(got, c.want) {
			t.Errorf("%.200s: got %s, want %s", c.line, got, c.want)
		}
	}
}

// A key or an upstream may be missing in some lines, but not in all: see
// TestErrors.
func TestSparseNames(t *testing.T) {
	log, err := accesslog.Read(strings.NewReader(`{"ts":1.5,"tenant":"a"}
{"ts":2.5,"pod":"p"}
`), accesslog.Options{KeyCol: "tenant", UpstreamCol: "pod"})
	if err != nil || log.Len() != 2 || requests(log)[0].Key != "a" || requests(log)[1].Upstream != "p" {
		t.Errorf("got %v, %+v", err, log)
	}
}

// What nginx writes for a request that it tried on several servers.
func TestUpstream(t *testing.T) {
	for cell, want := range map[string]string{
		"":                                "",
		"-":                               "",
		" web-1 ":                         "web-1",
		"192.168.1.1:80":                  "192.168.1.1:80",
		"[2001:db8::1]:80":                "[2001:db8::1]:80",
		"192.168.1.1:80, 192.168.1.2:80":  "192.168.1.2:80",
		"192.168.1.1:80,unix:/tmp/sock":   "unix:/tmp/sock",
		"10.0.0.1:80 : 10.0.0.2:80":       "10.0.0.2:80",
		"a, b, unix:/tmp/s : c:80, d:80":  "d:80",
		"10.0.0.1:80, 10.0.0.2:80 : ":     "10.0.0.2:80",
		"10.0.0.1:80 : -":                 "10.0.0.1:80",
		" : ":                             "",
		" , - , ":                         "",
		"10.0.0.1:80, group":              "group", // no server of it could be selected
		strings.Repeat(" : ,", 250) + "a": "a",
	} {
		log, err := accesslog.Read(strings.NewReader("time;by\n1.5;"+cell+"\n"), accesslog.Options{UpstreamCol: "By"})
		if err != nil || requests(log)[0].Upstream != want {
			t.Errorf("%q: %v, %+v, want %q", cell, err, log, want)
		}
	}
}

// Stamps that are finer than a second stay, even if some of them are whole;
// those of whole seconds are spread, in any format.
func TestFineStamps(t *testing.T) {
	for _, line := range []string{clfLine, jsonLine, envoyLine, albLine, "time\n2024-03-02 08:00:02"} {
		whole, err := accesslog.Read(strings.NewReader(line+"\n"), accesslog.Options{})
		if err != nil || whole.Spread != time.Second || requests(whole)[0].At.Nanosecond() == 0 {
			t.Errorf("%s: %v, %+v, want it spread", line, err, whole)
		}
		first, second, _ := strings.Cut(line, ":02")
		second = strings.TrimLeft(second, ".0") // the fraction
		if _, zone, found := strings.Cut(second, "Z"); found {
			second = "Z" + zone
		}
		if line == clfLine {
			second = " +0000" + strings.TrimPrefix(second, " +0000")
		}
		fine, err := accesslog.Read(strings.NewReader(line+"\n"+strings.TrimPrefix(first, "time\n")+":02.001"+second+"\n"), accesslog.Options{})
		if err != nil || fine.Bad != 0 || fine.Spread > 0 || requests(fine)[0].At.Nanosecond() != 0 || requests(fine)[1].At.Nanosecond() != 1e6 {
			t.Errorf("%s: %v, %+v, want it as it is", line, err, fine)
		}
	}
}

// Long lines and lines full of what a parser looks for cost themselves, in time
// that is no more than proportional to their length.
func TestHostileLines(t *testing.T) {
	const long, limit = 1 << 18, 1 << 20
	fill := func(s string) string { return strings.Repeat(s, long/len(s)) }
	for _, good := range []string{clfLine, jsonLine, envoyLine, albLine} {
		file := good + "\n"
		for _, s := range []string{" ", `"`, `\"`, `\`, "[", "{", `{"`, `{"time":`, `" "`, `] "`, "- ", ",", " : ", "0 "} {
			file += "h " + fill(s) + "\n" + good[:len(good)/2] + fill(s) + "\n"
			if strings.HasPrefix(good, "{") {
				file += `{"time":"` + strings.TrimSuffix(fill(`\"`), `"`) + "\n"
			}
		}
		file += good + strings.Repeat(" ", limit) + "\n" + good
		start := time.Now()
		log, err := accesslog.Read(strings.NewReader(file), accesslog.Options{})
		if err != nil || log.Lines != log.Len()+log.Bad || log.Len() < 2 || log.Bad == 0 {
			t.Errorf("%s: %v, %+v", good, err, log)
		}
		if took := time.Since(start); took > 20*time.Second { // some 0.1 s; by the square of the lengths, a minute and more
			t.Errorf("%s: took %v", good, took)
		}
	}
}

// What reading takes, by format, on lines of usual length.
func BenchmarkRead(b *testing.B) {
	for _, c := range []struct {
		name, line string
	}{
		{"clf", `203.0.113.7 - - [02/Mar/2024:08:00:02 +0000] "GET /images/logo.png HTTP/1.1" 200 5120 "https://example.org/index.html" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36"`},
		{"csv", ""},
		{"json", `{"time_iso8601":"2024-03-02T08:00:02+00:00","remote_addr":"203.0.113.7","remote_user":"","request":"GET /images/logo.png HTTP/1.1","status": "200","body_bytes_sent":"5120","request_time":"0.004","http_referrer":"https://example.org/index.html","upstream_addr":"10.0.0.1:8080","http_user_agent":"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36"}`},
		{"envoy", `[2024-03-02T08:00:02.310Z] "GET /images/logo.png HTTP/2" 200 - 0 5120 4 3 "203.0.113.7" "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/122.0.0.0 Safari/537.36" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "example.org" "10.0.0.1:8080"`},
		{"alb", ""},
		{"text", `2024/03/02 08:00:02 [error] 31#31: *1 limiting requests, excess: 20.500 by zone "api", client: 203.0.113.7, server: example.org, request: "GET /a HTTP/1.1", host: "example.org"`},
	} {
		const lines = 20000
		file := []byte(strings.Repeat(c.line+"\n", lines))
		switch c.name {
		case "csv":
			file = []byte("time,client,tokens\n" + strings.Repeat("2024-03-02 08:00:02.5,203.0.113.7,374\n", lines))
		case "alb":
			sample, err := os.ReadFile(filepath.Join("testdata", "alb.log"))
			simtest.OK(b, err)
			line, _, _ := bytes.Cut(sample, []byte("\n"))
			file = bytes.Repeat(append(line, '\n'), lines)
		}
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			for b.Loop() {
				if _, err := accesslog.Read(bytes.NewReader(file), accesslog.Options{}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(lines*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
