package otel

import (
	"os"
	"regexp"
	"testing"
)

// TestPage: docs/metrics.md has a row for each instrument, and no others.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| [^|]* \\| `([^`]+)` \\| (counter|gauge)(, s)? \\|")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if len(rows) != len(instruments) {
		t.Errorf("%d rows, %d instruments", len(rows), len(instruments))
	}
	for n, i := range instruments[:min(len(rows), len(instruments))] {
		if rows[n][1] != i.name || (rows[n][3] != "") != (i.unit == "s") {
			t.Errorf("row %q, instrument %s in %s", rows[n][0], i.name, i.unit)
		}
	}
}
