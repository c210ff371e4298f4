package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Every command that plays a scenario plays one with classes, and tells of each class.
func TestClasses(t *testing.T) {
	longform.None(t)
	simtest.Long(t)
	const short = " -duration 200ms -warmup 100ms -replications 2 "
	page := filepath.Join(t.TempDir(), "page.html")
	for _, c := range []struct {
		line string
		want []string
	}{
		{"run classes" + short + "-html " + page, []string{
			"\nclasses   critical 30 % of the requests, floor 0.5; normal 30 % of the requests, floor 0.2, " +
				"weight 2; batch 40 % of the requests, weight 1, on for 4s of 8s\n",
			"each class at others", "\n  floors honoured ", "\nclasses: tokens, ", "\n  normal  "}},
		{"compare classes -b mode=per-request" + short, []string{"\nA: classes: ", "\nB: classes: "}},
		{"sweep -over load.offered=1,3 classes" + short, []string{"floors honoured"}},
		{"tune classes -min-floors 0.5 -duration 100ms -warmup 20ms -effort 0.01",
			[]string{", floors honoured to at least 0.5\n"}},
		{"tune classes -duration 100ms -warmup 20ms -effort 0.01", []string{"a call for each request", ", floors honoured to at least "}},
	} {
		prints(t, c.line, c.want...)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), "lacks at worst") {
		t.Errorf("the page does not tell of each class: %v", err)
	}
	given := must(t, "run -json"+short, "-classes", "[{name: a, floor: 0.5, share: 0.2}, {name: b, share: 0.8}]")
	var d struct {
		Variants []struct {
			Results []struct {
				Classes []map[string]any `json:"classes"`
			} `json:"results"`
		} `json:"variants"`
	}
	simtest.OK(t, json.Unmarshal([]byte(given), &d))
	first := d.Variants[0].Results[0].Classes
	if len(first) != 2 || first[0]["name"] != "a" || first[0]["within_floor"].(float64) <= 0 ||
		first[1]["within_floor"].(float64) != 0 {
		t.Errorf("classes %v", first)
	}
	simtest.Lacks(t, "no classes", must(t, "run steady"+short), "class", "floor")
}
