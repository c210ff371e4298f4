package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck: what the command prints, and its exit codes.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good.yaml", "domain: shop\ndescriptors:\n- key: user\n  detailed_metric: true\n"+
		"  rate_limit: {unit: day, requests_per_unit: 5}\n"+
		"  trial: {unit: day, requests_per_unit: 4, percent: 100}\n- key: free\n")
	classes := file("classes.yaml", "domain: models\ndescriptors:\n- key: priority\n"+
		"  rate_limit: {unit: second, requests_per_unit: 100}\n"+
		"  classes: [{value: critical, floor: 0.5}, {value: batch, weight: 1}]\n")
	misspelt := file("misspelt.yaml", "domain: models\ndescriptors:\n- key: priority\n"+
		"  rate_limit: {unit: second, requests_per_unit: 100}\n  classes: [{value: critical, flor: 0.5}]\n")
	other := file("other.yaml", "domain: other\n")
	bad := file("bad.yaml", "domain: shop\ndescriptors:\n- key: user\n  limit: 5\n- value: 3\n")
	for _, c := range []struct {
		args string
		code int
		says []string
	}{
		{"", 2, []string{"check [-domain NAME"}},
		{"-h", 0, []string{"check [-domain NAME"}},
		{"-nonsense", 2, []string{"-nonsense", "check [-domain NAME"}},
		{"-domain shop " + good, 2, []string{"check [-domain NAME"}},
		{"-descriptor a=b=c " + good, 2, []string{`path "a=b=c" is not key=value,key=value`}},
		{good, 0, []string{"domain shop: 1 rules\n",
			good + ":3: user: 5/day by the calendar, trial 4/day",
			"note: " + good + ":4:20: descriptors[0].detailed_metric: it has no effect"}},
		{bad, 1, []string{bad + `:4:3: descriptors[0]: unknown field "limit"`,
			bad + ":5:3: descriptors[1]: the key is missing"}},
		{dir + "/none.yaml", 1, []string{"rules: stat " + dir + "/none.yaml: no such file"}},
		{"-descriptor user=bob -descriptor free=1 -descriptor x " + good, 0, []string{
			"user=bob: limited by " + good + ":3: user: 5/day",
			"\n  limit 4/day, key rules.shop:user=bob!trial\n",
			"\nfree=1: not configured\nx: not configured\n",
		}},
		{"-descriptor priority=critical -descriptor priority=x " + classes, 0, []string{
			`, class "critical"`, `, class "batch"`,
		}},
		{misspelt, 1, []string{`5:31: descriptors[0].classes[0]: unknown field "flor": "floor" is the nearest one`}},
		{"-descriptor user=bob " + good + " " + other, 2, []string{"there are 2 domains"}},
		{"-domain more -descriptor user=bob " + good, 1, []string{`there is no domain "more"`}},
		{"-domain other -descriptor user=bob " + good + " " + other, 0, []string{
			"user=bob: not configured",
		}},
	} {
		var out strings.Builder
		if code := run(strings.Fields(c.args), &out, &out); code != c.code {
			t.Errorf("%s: exit code %d, not %d", c.args, code, c.code)
		}
		for _, says := range c.says {
			if !strings.Contains(out.String(), says) {
				t.Errorf("%s prints\n%s\nwithout %s", c.args, out.String(), says)
			}
		}
	}
}
