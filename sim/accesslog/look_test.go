package accesslog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

// A column of tokens is found by its name and its numbers, and asked for where they do not agree.
func TestCostIsFound(t *testing.T) {
	for _, c := range []struct {
		file           string
		o              accesslog.Options
		cost, uncosted string
		first          int64
	}{
		{"time,total_tokens\n1,70\n2,5\n", accesslog.Options{}, "total_tokens", "", 70},
		{"time,Cost\n1,7\n2,1\n", accesslog.Options{}, "Cost", "", 7},
		{"TIMESTAMP,ContextTokens,GeneratedTokens\n1,30,4\n2,5,6\n", accesslog.Options{},
			"ContextTokens+GeneratedTokens", "", 34},
		{`{"ts":1,"usage":{"input_tokens":3,"output_tokens":4}}` + "\n" +
			`{"ts":2,"usage":{"input_tokens":0,"output_tokens":"9"}}`, accesslog.Options{},
			"usage.input_tokens+usage.output_tokens", "", 7},
		{"2026-01-01T00:00:00Z,5\n2026-01-01T00:00:01Z,6\n", accesslog.Options{}, "", "", 1},
		{"time,tokens\n1,1\n2,1\n", accesslog.Options{}, "", "", 1},
		{"time,tokens\n1,70\n2,\n", accesslog.Options{}, "", "tokens", 1},
		{"time,cost\n1,0.002\n2,0.1\n", accesslog.Options{}, "", "cost", 1},
		{"time,prompt_tokens\n1,70\n2,5\n", accesslog.Options{}, "", "prompt_tokens", 1},
		{"time,token\n1,x7f\n2,abc\n", accesslog.Options{}, "", "", 1},
		{"time,tokens,n\n1,70,2\n2,5,3\n", accesslog.Options{CostCol: "n"}, "", "", 2},
		{"time,tokens\n1,70\n2,5\n", accesslog.Options{CostCol: accesslog.NoCost}, "", "", 1},
	} {
		log := read(t, c.file, c.o)
		if got := requests(log)[0].Cost; log.Cost != c.cost || log.Uncosted != c.uncosted || got != c.first ||
			log.Bad != 0 {
			t.Errorf("%q: cost %q, perhaps %q, %d tokens, %d bad", c.file, log.Cost, log.Uncosted, got, log.Bad)
		}
	}
}

// A few cells of a column of tokens that are no numbers cost their own lines a token each, and the
// others what they say. With many of them, or in a column that was named, it is another matter.
func TestCostless(t *testing.T) {
	const lines = 20
	file := func(name, line string, odd map[int]string) string {
		text := name
		for i := range lines {
			cost := "7"
			if other, ok := odd[i]; ok {
				cost = other
			}
			text += fmt.Sprintf(line+"\n", i+1, cost)
		}
		return text
	}
	const csvHead, csvLine, object = "time,tokens\n", "%d,%s", `{"ts":%d,"tokens":%s}`
	for name, c := range map[string]struct {
		file            string
		o               accesslog.Options
		costless, first int // lines, and the number of the first one
		tokens          int64
		bad             int
		uncosted        string
	}{
		"csv":           {file: file(csvHead, csvLine, map[int]string{4: "n/a", 9: ""}), costless: 2, first: 6, tokens: 18*7 + 2},
		"csv, short":    {file: file(csvHead, csvLine, nil) + "21\n", costless: 1, first: 22, tokens: 20*7 + 1},
		"json":          {file: file("", object, map[int]string{2: `"n/a"`}), costless: 1, first: 3, tokens: 19*7 + 1},
		"json, missing": {file: file("", object, map[int]string{2: `null`}), costless: 1, first: 3, tokens: 19*7 + 1},
		"many":          {file: file(csvHead, csvLine, map[int]string{1: "-", 2: "-", 3: "-"}), tokens: 20, uncosted: "tokens"},
		"named": {file: file(csvHead, csvLine, map[int]string{4: "n/a"}), o: accesslog.Options{CostCol: "tokens"},
			tokens: 19 * 7, bad: 1},
	} {
		log := read(t, c.file, c.o)
		tokens, first := int64(0), 0
		for _, q := range requests(log) {
			tokens += q.Cost
		}
		if log.CostlessLine != nil {
			first = log.CostlessLine.Number
		}
		if log.Costless != c.costless || first != c.first || tokens != c.tokens || log.Bad != c.bad ||
			log.Uncosted != c.uncosted {
			t.Errorf("%s: %d lines without a cost, the first %d; %d tokens, %d bad, uncosted %q", name,
				log.Costless, first, tokens, log.Bad, log.Uncosted)
		}
	}
}

// A stray quote before a line, and quotes around all of it, are not the log's.
func TestLinesInQuotes(t *testing.T) {
	const clf = `192.0.2.7 - - [02/Mar/2024:08:00:%02d +0000] "GET / HTTP/1.0" 200 - "-" "a, b"`
	const object = `{"ts":17%02d,"client_ip":"192.0.2.7"}`
	wrapped := func(line string) string { return `"` + strings.ReplaceAll(line, `"`, `""`) + `"` }
	stray := func(line string) string { return `"` + line }
	for name, quote := range map[string]func(string) string{"stray": stray, "wrapped": wrapped} {
		for _, format := range []string{clf, object} {
			var file strings.Builder
			for i := range 20 {
				fmt.Fprintln(&file, quote(fmt.Sprintf(format, i)))
			}
			log, err := accesslog.Read(strings.NewReader(file.String()), accesslog.Options{})
			if err != nil || log.Bad != 0 || log.Len() != 20 || log.Keys[0] != "192.0.2.7" {
				t.Errorf("%s: %v, %+v", name, err, log)
			}
		}
	}
	log, err := accesslog.Read(strings.NewReader("\"time,client\n\"1,a\n\"2,b\n"), accesslog.Options{})
	if err != nil || log.Bad != 0 || log.Len() != 2 || log.Keys[1] != "b" {
		t.Errorf("CSV: %v, %+v", err, log)
	}
}

// A CSV without a header has columns 1, 2 and so on.
func TestNoHeader(t *testing.T) {
	for _, file := range []string{
		"a,2024-03-02T08:00:02.5Z,70\nb,2024-03-02T08:00:03.5Z,5\n", "a,1700000000.5,70\nb,1700000001.5,5\n",
	} {
		log := read(t, file, accesslog.Options{KeyCol: "1", CostCol: "3"})
		if got := requests(log); !log.Headless || log.Len() != 2 || log.Keys[0] != "a" || got[0].Cost != 70 ||
			log.Span != time.Second || log.Lines != 2 {
			t.Errorf("%q: %+v, %v", file, log, got)
		}
	}
	_, err := accesslog.Read(strings.NewReader("a,7,70\nb,8,5\n"), accesslog.Options{})
	simtest.Refused(t, "no time that is sure", err, `among "a, 7, 70": name the column that has it`)
}

// Of counts as much is read as is wanted.
func TestCountsUntil(t *testing.T) {
	const file = "time,n\n2026-01-01T00:00:00Z,50\n2026-01-01T00:01:00Z,7\n2026-01-01T00:02:00Z,100000000\n"
	o := accesslog.Options{CountCol: "n"}
	if _, err := accesslog.Read(strings.NewReader(file), o); err == nil ||
		!strings.Contains(err.Error(), "play a part of the log (duration, -duration)") {
		t.Errorf("all of it: %v", err)
	}
	o.Until = 90 * time.Second
	log, err := accesslog.Read(strings.NewReader(file), o)
	if err != nil || log.Len() != 57 || log.Beyond != 100_000_000 {
		t.Errorf("%v, %+v", err, log)
	}
}
