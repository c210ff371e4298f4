package prometheus

import (
	"os"
	"regexp"
	"slices"
	"testing"
)

// TestPage: docs/metrics.md has a row for each metric, with its type and the labels, and no others.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile(
		"(?m)^\\| `ration_([a-z0-9_]+)` \\| [^|]+ \\| (counter|gauge)[^|]*\\| ([^|]*)\\|")
	label := regexp.MustCompile("`([a-z]+)`")
	rows := row.FindAllStringSubmatch(string(page), -1)
	histogram := regexp.MustCompile("(?m)^\\| `ration_round_trip_seconds` \\| [^|]* \\| histogram \\|")
	if !histogram.Match(page) {
		t.Error("no row of the histogram")
	}
	if len(rows) != len(metrics) {
		t.Errorf("%d rows, %d metrics", len(rows), len(metrics))
	}
	for i, m := range metrics[:min(len(rows), len(metrics))] {
		var labels []string
		for _, l := range label.FindAllStringSubmatch(rows[i][3], -1) {
			labels = append(labels, l[1])
		}
		kind := map[string]bool{"counter": m.kind == counter, "gauge": m.kind == gauge}
		if rows[i][1] != m.name || !kind[rows[i][2]] || !slices.Equal(labels, m.labels) {
			t.Errorf("row %q, metric %s with labels %q", rows[i][0], m.name, m.labels)
		}
	}
}
