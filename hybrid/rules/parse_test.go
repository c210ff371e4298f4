package rules_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// TestEnvoyFiles: the example files of envoyproxy/ratelimit load unchanged, where the module is
// in the cache of modules.
func TestEnvoyFiles(t *testing.T) {
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(cache)),
		"github.com/envoyproxy/ratelimit@*/examples/ratelimit/config/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("github.com/envoyproxy/ratelimit is not in the cache of modules: " +
			"TestEnvoyFormat has files of the same structure")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := rules.Parse(rules.Document{Name: filepath.Base(file), Text: text})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range r.Domains() {
			if len(d.Rules) < 2 {
				t.Errorf("%s: %d rules", file, len(d.Rules))
			}
			for _, rule := range d.Rules {
				t.Logf("%s %s (%v)", d.Name, rule, rule.Limit)
			}
		}
		t.Log(r.Notes())
	}
}

// TestEnvoyFormat: each construct of those files means what it means there.
func TestEnvoyFormat(t *testing.T) {
	text, err := os.ReadFile("testdata/envoy.yaml")
	must(t, err)
	r, err := parse(string(text))
	must(t, err)
	d, ok := r.Domain("edge")
	if !ok {
		t.Fatal("there is no domain")
	}
	var has []string
	for _, rule := range d.Rules {
		has = append(has, fmt.Sprintf("%d %v", rule.Line, rule))
	}
	want := []string{
		`5 kind=login: 4/minute, replaces ["each_user" "nobody_has_this_name"]`,
		`16 from=proxy,to=orders: 2/minute`,
		`21 from=proxy,to=closed: 0/minute, name "closed"`,
		`27 user: 2/second, name "each_user"`,
		`33 user,path=/files/*: 3/minute`,
		`39 user,path=/beta: 3/hour, shadow`,
		`45 user,path: unlimited`,
		`48 path=/api/*/admin: 5/minute`,
		`53 path=*.example.*: 6/minute`,
		`59 backend=first: 1/minute, quota mode, ` +
			`metadata map[service:map[name:first zones:[1 two true]]]`,
		`71 address: 7/day by the calendar`,
	}
	if !slices.Equal(has, want) {
		t.Errorf("%s", strings.Join(has, "\n"))
	}
	const note = "x.yaml:72:22: descriptors[7].detailed_metric: it has no effect"
	if n := r.Notes(); len(n) != 2 || !strings.HasPrefix(n[0], note) {
		t.Errorf("%q", n)
	}
}

// TestNoEffect: what envoyproxy/ratelimit reads and ignores is a note.
func TestNoEffect(t *testing.T) {
	for text, says := range map[string]string{
		"shadow_mode: true": "x.yaml:4:16: descriptors[0].shadow_mode: " +
			"it has no effect without a rate_limit beside it",
		"quota_mode: true": "x.yaml:4:15: descriptors[0].quota_mode: " +
			"it has no effect without a rate_limit beside it",
		"metadata: {a: b}": "x.yaml:4:13: descriptors[0].metadata: " +
			"it has no effect without a rate_limit beside it",
		"rate_limit: {unlimited: true, requests_per_unit: 5}": "x.yaml:4:52: " +
			"descriptors[0].rate_limit.requests_per_unit: it has no effect: the rule is unlimited",
		"rate_limit: {unlimited: true}\n  shadow_mode: true": "x.yaml:5:16: " +
			"descriptors[0].shadow_mode: it has no effect: the rule is unlimited",
	} {
		r, err := parse("domain: d\ndescriptors:\n- key: k\n  " + text)
		if err != nil || len(r.Notes()) != 1 || r.Notes()[0] != says {
			t.Errorf("%s: %v, %q, not %q", text, err, r.Notes(), says)
		}
	}
}

// TestUnits: what each unit and kind is.
func TestUnits(t *testing.T) {
	year, india := 365*hybrid.Day, 330*time.Minute
	for text, want := range map[string]hybrid.Limit{
		"unit: second, requests_per_unit: 5":                hybrid.PerSecond(5),
		"unit: Minute, requests_per_unit: 5":                hybrid.PerMinute(5),
		"unit: HOUR, requests_per_unit: 5":                  hybrid.PerHour(5),
		"unit: day, requests_per_unit: 5":                   hybrid.Quota(5, hybrid.Day),
		"unit: week, requests_per_unit: 5":                  hybrid.Quota(5, hybrid.Week),
		"unit: month, requests_per_unit: 5":                 hybrid.Quota(5, hybrid.Month),
		"unit: year, requests_per_unit: 5":                  hybrid.Quota(5, year),
		"unit: minute, requests_per_unit: 5, kind: quota":   hybrid.Quota(5, hybrid.Minute),
		"unit: day, requests_per_unit: 5, kind: bucket":     hybrid.Per(5, hybrid.Day),
		"unit: minute, requests_per_unit: 5, kind: sliding": hybrid.Sliding(5, hybrid.Minute),
		"unit: second, requests_per_unit: 5, burst: 9":      hybrid.PerSecond(5).WithBurst(9),
		"unit: day, requests_per_unit: 5, offset: 5h30m":    hybrid.Quota(5, hybrid.Day).In(india),
		"unit: year, requests_per_unit: 0":                  hybrid.Blocked,
		"unit: second, requests_per_unit: 4294967296":       hybrid.PerSecond(1 << 32),
		"unlimited: true":                                   hybrid.Unlimited,
		"unlimited: true, name: n":                          hybrid.Unlimited,
	} {
		r, err := parse("domain: d\ndescriptors: [{key: k, rate_limit: {" + text + "}}]")
		must(t, err)
		d, _ := r.Domain("d")
		if limit := d.Rules[0].Limit; limit != want || limit.Validate() != nil {
			t.Errorf("%s: %+v, not %+v", text, limit, want)
		}
	}
}

// TestMistakes: a mistake is told with its file, line, column, field and value.
func TestMistakes(t *testing.T) {
	script, err := os.ReadFile("testdata/mistakes.txt")
	must(t, err)
	blocks := strings.Split(strings.TrimSuffix(string(script), "\n"), "\n\n")[1:]
	for _, block := range blocks {
		text, says, _ := strings.Cut(block, "\n=> ")
		_, err := parse(text)
		if has := strings.ReplaceAll(fmt.Sprint(err), "rules: x.yaml", "x.yaml"); err == nil ||
			has != strings.ReplaceAll(says, "\n=> ", "\n") {
			t.Errorf("%s\nhas %s\nnot %s", text, has, says)
			continue
		}
		if e, ok := errors.AsType[*rules.Error](err); !ok || e.File != "x.yaml" {
			t.Errorf("%#v", err)
		}
	}
	if len(blocks) < 50 {
		t.Errorf("%d mistakes", len(blocks))
	}
	for text, says := range map[string]string{
		"":                                    "rules: x.yaml: no YAML: yaml: no documents",
		"domain: d\n\tx: 1":                   "rules: x.yaml:2:",
		"domain: " + strings.Repeat("d", 257): "1:9: domain: 257 bytes are more than 256",
	} {
		if _, err := parse(text); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, not %s", err, says)
		}
	}
}

// TestManyMistakes: several mistakes are told at once, and not without end.
func TestManyMistakes(t *testing.T) {
	_, err := parse("domain: d\ndescriptors:\n" + strings.Repeat("- kye: k\n", 500))
	if n := strings.Count(err.Error(), "\n") + 1; n != 21 ||
		!strings.Contains(err.Error(), "x.yaml: 480 more mistakes") {
		t.Errorf("%d lines: %.3000s", n, err)
	}
	bad := rules.Document{Name: "b.yaml", Text: []byte("domain:")}
	_, err = rules.Parse(slices.Repeat([]rules.Document{bad}, 500)...)
	if n := strings.Count(err.Error(), "\n") + 1; n != 21 {
		t.Errorf("%d lines: %.3000s", n, err)
	}
}

// TestSeveralDocuments: each domain is in one document, which its source calls by its name.
func TestSeveralDocuments(t *testing.T) {
	for _, c := range []struct {
		docs []rules.Document
		says string
	}{
		{[]rules.Document{{Name: "a", Text: []byte("domain: d")}, {Name: "b", Text: []byte("domain: d")}},
			`rules: b: domain "d" is in a already`},
		{[]rules.Document{{Name: "a", Domain: "e", Text: []byte("domain: d")}},
			`rules: a:1:9: domain: "d" is not "e"`},
		{[]rules.Document{{Name: "a", Text: []byte("domain: d\n---\ndomain: e\n")}}, "rules: a:"},
		{make([]rules.Document, rules.MaxDomains+1), "rules: 1001 documents are more than 1000"},
		{[]rules.Document{{Name: "a", Text: make([]byte, rules.MaxText+1)}},
			"rules: a: 4194305 bytes are more"},
	} {
		if _, err := rules.Parse(c.docs...); err == nil || !strings.HasPrefix(err.Error(), c.says) {
			t.Errorf("%v, not %s", err, c.says)
		}
	}
}

// TestManyBuckets: the check of many buckets against many rules makes nothing for each pair.
func TestManyBuckets(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "- {key: k%d, rate_limit: {unit: day, requests_per_unit: 1}}\n", i)
		if i < 500 {
			fmt.Fprintf(&b, "- {key: p%d, bucket: b%d, rate_limit: {unit: day, requests_per_unit: 1}}\n",
				i, i)
		}
	}
	text := b.String()
	made := testing.AllocsPerRun(1, func() {
		if _, err := parse(text); err != nil {
			t.Error(err)
		}
	})
	if made > 500*1500/2 {
		t.Errorf("%.0f allocations for 500 buckets and 1500 rules", made)
	}
}

// TestLarge: 10,000 descriptors are read in a moment, one more is refused, and so is what grows
// without end.
func TestLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("domain: d\ndescriptors:\n")
	for i := range rules.MaxRules {
		fmt.Fprintf(&b, "- {key: k, value: v%d, rate_limit: {unit: day, requests_per_unit: %d}}\n",
			i, i+1)
	}
	r, err := parse(b.String())
	must(t, err)
	if d, _ := r.Domain("d"); len(d.Rules) != rules.MaxRules {
		t.Errorf("%d rules", len(d.Rules))
	}
	for text, says := range map[string]string{
		b.String() + "- key: more": "there are more than 10000 descriptors",
		"domain: d\ndescriptors: " + strings.Repeat("[{key: k, descriptors: ", 18) + "[]" +
			strings.Repeat("}]", 18): "descriptors are more than 16 levels deep",
		"domain: d\nx: " + strings.Repeat("[", 100_000):                 "rules: x.yaml:",
		"domain: d\ndescriptors:\n- key: " + strings.Repeat("k", 65536): "more than 4096",
	} {
		if _, err := parse(text); says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.300v, not %s", err, says)
		}
	}
}
