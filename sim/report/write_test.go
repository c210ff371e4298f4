package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/sim/simtest"
)

var pagesDir = flag.String("pages", "", "folder to write the tests' pages to, to look at them")

var pages = map[string]Page{
	"3":       fleetPage(3),
	"10":      fleetPage(10),
	"64":      fleetPage(64),
	"500":     fleetPage(500),
	"compare": fleetPage(10, "shares", "batches of 100"),
	"tune":    tunePage(60),
	"hunt":    huntPage(500),
	"sweep":   sweepPage(),
	"hostile": hostilePage(),
	"small":   smallPage(),
	"gaps":    gapsPage(),
	"empty":   {},
}

func write(t *testing.T, p Page) []byte {
	t.Helper()
	var out bytes.Buffer
	simtest.OK(t, Write(&out, p))
	return out.Bytes()
}

var (
	dataBlock = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)
	script    = regexp.MustCompile(`(?s)<script>(.*?)</script>`)
	styles    = regexp.MustCompile(`(?s)<style>(.*?)</style>`)
	// What makes a browser load something.
	loads = regexp.MustCompile(`(?i)((src|href|action|srcset|poster)\s*=\s*["']?|url\(\s*["']?|@import\s+["']?|import\(?["'])[^>\s]*//`)
)

func TestPages(t *testing.T) {
	sections := []string{"front", "timeline", "shares", "losses", "again", "words", "scatters", "sweep", "paste"}
	words := sections[1:6]
	has := map[string][]string{
		"3": words, "10": words, "64": words, "500": words, "compare": words,
		"tune": {"front", "again", "words"}, "hunt": {"again", "words", "scatters"},
		"hostile": sections, "small": sections[:4], "gaps": sections[:4], "empty": {},
		"sweep": {"sweep", "words"},
	}
	for name, p := range pages {
		out := write(t, p)
		if *pagesDir != "" {
			simtest.OK(t, os.WriteFile(filepath.Join(*pagesDir, name+".html"), out, 0o644))
		}
		limit := 250_000
		if name == "hunt" { // ten charts of 500 points, each with its label
			limit = 1_500_000
		}
		if len(out) > limit {
			t.Errorf("%s: %d bytes", name, len(out))
		}
		if found := loads.Find(out); found != nil {
			t.Errorf("%s loads something: %s", name, found)
		}
		if m := dataBlock.FindSubmatch(out); m == nil || !json.Valid(m[1]) {
			t.Errorf("%s: the charts' data is not JSON", name)
		}
		for _, section := range sections {
			want := slices.Contains(has[name], section)
			if got := bytes.Contains(out, []byte(`<section id="`+section+`">`)); got != want {
				t.Errorf("%s: section %s: %v, want %v", name, section, got, want)
			}
		}
		if bytes.Contains(out, []byte("ZgotmplZ")) || bytes.Contains(out, []byte("<no value>")) {
			t.Errorf("%s: the template did not take a value", name)
		}
	}
}

func TestEmptySections(t *testing.T) {
	out := string(write(t, Page{
		Front: &Front{}, Timeline: &Timeline{Step: 1, Admitted: [][]float64{nil}}, Shares: &Shares{}, Bars: []Bars{{Name: "losses"}}, Tables: []Table{{}},
		Scatters: &Scatters{Title: "t", Lead: "l", Value: "v"}, Sweep: &Sweep{Values: []string{"a"}, Charts: []SweepChart{{Mean: []float64{0}}}},
	}))
	if n := strings.Count(out, "<section"); n != 0 {
		t.Errorf("%d sections of nothing", n)
	}
}

// Only what has a value is drawn: no line of zeros, no empty bar.
func TestNothingEmptyIsDrawn(t *testing.T) {
	out := string(write(t, sweepPage()))
	if n := strings.Count(out, `<path class="curve"`); n != 2 {
		t.Errorf("%d curves of two figures that are not 0", n)
	}
	if n := strings.Count(out, `<g class="mean">`); n != 9 {
		t.Errorf("%d means of 9 that are known", n)
	}
	simtest.Has(t, "a note", out, "Stamps of whole seconds")
	simtest.Lacks(t, "a warning", out, `class="warning"><b>`)
	out = string(write(t, Page{Bars: []Bars{{Rest: "Nothing was lost otherwise", Items: []Item{
		{Name: "expired", Values: []float64{0}}, {Name: "crashed", Values: []float64{3}},
		{Name: "refused", Values: []float64{0}}}}}}))
	if n := strings.Count(out, `<div class="bar">`); n != 1 {
		t.Errorf("%d bars for one loss", n)
	}
	simtest.Has(t, "the others", out, "Nothing was lost otherwise: expired, refused.")
}

// A reader finds what to paste, to the last byte, and what it is worth.
func TestSnippetsAndGains(t *testing.T) {
	out := string(write(t, Page{Gains: []string{"It saves 71 % <of> all."}, Snippets: []Snippet{{"Go", "Policy: hybrid.Policy{Batch: 20},\n\tOutage: a < b"}}}))
	simtest.Has(t, "page", out, "<li>It saves 71 % &lt;of&gt; all.</li>",
		"<code>Policy: hybrid.Policy{Batch: 20},\n\tOutage: a &lt; b</code>")
}

func TestHostileText(t *testing.T) {
	p := hostilePage()
	out := string(write(t, p))
	if n := strings.Count(out, "<script"); n != 3 {
		t.Errorf("%d scripts, want the data, the library and ours", n)
	}
	simtest.Lacks(t, "text as markup", out, "<img", "<!--")
	var d data
	simtest.OK(t, json.Unmarshal([]byte(dataBlock.FindStringSubmatch(out)[1]), &d))
	if d.Front.Points[0].Label != p.Title || d.Shares.Names[0] != p.Title {
		t.Error("the charts' text is not what it was")
	}
	title := regexp.MustCompile(`(?s)<title>(.*?)</title>`).FindStringSubmatch(out)[1]
	if html.UnescapeString(title) != p.Title {
		t.Errorf("title %q", title)
	}
}

// The browser runs what has these hashes and nothing else.
func TestSecurityPolicy(t *testing.T) {
	out := write(t, fleetPage(3))
	policy := string(regexp.MustCompile(`Content-Security-Policy" content="([^"]*)"`).FindSubmatch(out)[1])
	if !strings.HasPrefix(policy, "default-src 'none'; ") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %s", policy)
	}
	for _, directive := range []struct {
		name     string
		elements *regexp.Regexp
		n        int
	}{{"script-src", script, 2}, {"style-src", styles, 1}} {
		want := directive.name
		found := directive.elements.FindAllSubmatch(out, -1)
		if len(found) != directive.n {
			t.Errorf("%s: %d elements, want %d", directive.name, len(found), directive.n)
		}
		for _, m := range found {
			sum := sha256.Sum256(m[1])
			want += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		}
		simtest.Has(t, "policy", policy, want)
	}
	if !bytes.Contains(out, []byte(strings.TrimSpace(uplotLicence))) {
		t.Error("the licence of uPlot is not in the page")
	}
}

// The files of the library are those that its README names.
func TestVendored(t *testing.T) {
	readme, err := os.ReadFile("uplot/README.md")
	simtest.OK(t, err)
	for name, text := range map[string]string{"dist/uPlot.iife.min.js": uplotJS, "dist/uPlot.min.css": uplotCSS, "LICENSE": uplotLicence} {
		if row := fmt.Sprintf("| %s | %x |", name, sha256.Sum256([]byte(text))); !bytes.Contains(readme, []byte(row)) {
			t.Errorf("uplot/README.md lacks %s", row)
		}
	}
}

func TestErrors(t *testing.T) {
	for want, p := range map[string]Page{
		"report: 3 variants, at most 2 can be compared":                {Variants: []string{"a", "b", "c"}},
		"report: timeline: a step of 0 s":                              {Timeline: &Timeline{Admitted: [][]float64{nil}}},
		"report: timeline: a step of NaN s":                            {Timeline: &Timeline{Step: math.NaN()}},
		"report: timeline: admitted of 0 variants instead of 1":        {Timeline: &Timeline{Step: 1}},
		`report: process 0 ("x"): admitted of 0 variants instead of 1`: {Shares: &Shares{Processes: []Process{{Name: "x"}}}},
		`report: losses 0 ("x"): values of 1 variants instead of 2`: {Variants: []string{"a", "b"},
			Bars: []Bars{{Name: "losses", Items: []Item{{Name: "x", Values: []float64{1}}}}}},
	} {
		var out bytes.Buffer
		if err := Write(&out, p); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if out.Len() > 0 {
			t.Errorf("%s: a page all the same", want)
		}
	}
	if err := Write(full{}, Page{}); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestInputUnchanged(t *testing.T) {
	build := func() Page {
		p := fleetPage(10, "a", "b")
		slices.Reverse(p.Shares.Processes)
		slices.Reverse(p.Timeline.Events)
		p.Bars = nil // has a NaN, which equals nothing
		p.Front = tunePage(9).Front
		slices.Reverse(p.Front.Points)
		return p
	}
	p := build()
	write(t, p)
	if !reflect.DeepEqual(p, build()) {
		t.Error("Write changed what it was given")
	}
}

// A long timeline keeps its tokens.
func TestThinned(t *testing.T) {
	timeline := &Timeline{Step: 0.5, Admitted: [][]float64{nil}}
	for i := range 6001 {
		timeline.Admitted[0] = append(timeline.Admitted[0], float64(i%100))
	}
	timeline.Admitted[0][3] = math.NaN()
	out := write(t, Page{Timeline: timeline})
	var d struct {
		Timeline struct {
			Step     float64
			Admitted [][]*float64
		}
	}
	simtest.OK(t, json.Unmarshal(dataBlock.FindSubmatch(out)[1], &d))
	points := d.Timeline.Admitted[0]
	if len(points) != 546 || d.Timeline.Step != 5.5 { // 6001 in elevens
		t.Fatalf("%d points of %v s", len(points), d.Timeline.Step)
	}
	if got, want := *points[0], (55.0-3)/10; got != want {
		t.Errorf("mean of 0, 1, 2, a gap, 4 ... 10 is %v, want %v", got, want)
	}
	if got, want := *points[1], 16.0; got != want {
		t.Errorf("mean of 11 ... 21 is %v, want %v", got, want)
	}
}

func TestShareOrder(t *testing.T) {
	out := write(t, Page{Shares: &Shares{Processes: []Process{
		{"small", 1, 1, []float64{1}}, {"large", 9, 9, []float64{9}}, {"unknown", 5, math.NaN(), []float64{5}}, {"middle", 5, 5, []float64{5}},
	}}})
	var d data
	simtest.OK(t, json.Unmarshal(dataBlock.FindSubmatch(out)[1], &d))
	if want := []string{"large", "middle", "small", "unknown"}; !slices.Equal(d.Shares.Names, want) {
		t.Errorf("%v, want %v", d.Shares.Names, want)
	}
}

// Admitted tokens must not squash the bars of what was lost.
func TestBars(t *testing.T) {
	out := string(write(t, Page{Bars: []Bars{{Unit: "tokens", Items: []Item{
		{Name: "admitted", Values: []float64{999_700}, Kept: true},
		{Name: "nobody could have used", Values: []float64{500_000}, Kept: true, Again: true},
		{Name: "expired", Values: []float64{200}},
		{Name: "other", Values: []float64{100}},
		{Name: "odd", Values: []float64{math.Inf(1)}},
	}}}}))
	simtest.Has(t, "bars", out, "<b>admitted</b>: 999,700 tokens (99.97 %)", "500,000 tokens (50.00 %)",
		`width="100.00"`, `width="50.00"`, "<span>-</span>", "0.02 %")
}

func TestTableAlignment(t *testing.T) {
	rows := [][]string{
		{"batches of 10", "0.9975-0.9979", "310 ns", "none", "10/s", "-", "1", "3 x"},
		{"", "1,234.5", "< 0.01 %", "0.4", "-", "", "yes", "4 of five"},
	}
	want := []bool{false, true, true, true, true, false, false, false}
	if got := isNumeric(8, rows); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestFormat(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", -1: "-1", 1.5: "1.5", 12.345: "12.35", 99.999: "100", 999.5: "1,000", 1234.4: "1,234", -1234567: "-1,234,567",
		123456: "123,456", 0.99876: "0.9988", 0.000554: "0.000554", 1e-9: "0", 0.99999: "1", 1e16: "1e+16",
		math.Inf(1): "-", math.Inf(-1): "-",
	} {
		if got := format(v); got != want {
			t.Errorf("%v: %s, want %s", v, got, want)
		}
	}
	if got := format(math.NaN()); got != "-" {
		t.Errorf("NaN: %s", got)
	}
}
