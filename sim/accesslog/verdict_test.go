package accesslog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/accesslog"
)

// TestRecordOfDecisions: a record is read by the names of its columns, as JSON and as CSV. Its
// costs are taken, also where those of the first thousand lines are 1, and its keys as they are:
// one may look like an address with a port.
func TestRecordOfDecisions(t *testing.T) {
	lines := []struct {
		key, verdict string
		cost         int
	}{
		{"10.0.0.1:80", "admitted", 1}, {"-", "denied", 7}, {"10.0.0.1:81", "charged", 3},
		{"a", "shadowed", 2},
	}
	for range 1500 {
		lines = append(lines[:1:1], lines...)
	}
	var jsonl, csv strings.Builder
	csv.WriteString("time,key,n,cost,verdict\n")
	for i, l := range lines {
		at := fmt.Sprintf("2026-11-26T10:%02d:%02d.000000001Z", i/60, i%60)
		fmt.Fprintf(&jsonl, `{"time":%q,"key":%q,"n":1,"cost":%d,"verdict":%q}`+"\n",
			at, l.key, l.cost, l.verdict)
		fmt.Fprintf(&csv, "%s,%s,1,%d,%s\n", at, l.key, l.cost, l.verdict)
	}
	for format, text := range map[accesslog.Format]string{
		accesslog.JSON: jsonl.String(), accesslog.CSV: csv.String(),
	} {
		log, err := accesslog.Read(strings.NewReader(text), accesslog.Options{})
		if err != nil || log.Format != format || log.Cost != "cost" || log.Len() != len(lines) {
			t.Fatalf("%v: %+v, %v", format, log, err)
		}
		all := log.Requests()
		for i, want := range lines {
			var q accesslog.Request
			if !all.Next(&q) {
				t.Fatal(all.Err())
			}
			if want.verdict == "shadowed" {
				want.verdict = "" // unknown
			}
			if log.Keys[q.Key] != want.key || q.Cost != int64(want.cost) ||
				q.Verdict.String() != want.verdict {
				t.Fatalf("%v, line %d: %+v, key %s; want %+v", format, i, q, log.Keys[q.Key], want)
			}
		}
	}
}
