package deploy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// A board is in Grafana's schema 1, which it goes on to read. Version 2 is another file format.
type board = dashboard.Dashboard //nolint:staticcheck // deprecated for new programs

// load reads a dashboard by Grafana's schema, strictly: also the options of each panel and query.
func load(text []byte) (d board, err error) {
	cog.NewRuntime().RegisterPanelcfgVariant(timeseries.VariantConfig())
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
	var judged board
	var queries struct {
		Panels []struct{ Targets []json.RawMessage }
	}
	err = errors.Join(mistakes(judged.UnmarshalJSONStrict(text)), json.Unmarshal(text, &queries))
	for _, p := range queries.Panels { // which the panels' schema has without one
		for _, target := range p.Targets {
			var q prometheus.Dataquery
			err = errors.Join(err, mistakes(q.UnmarshalJSONStrict(target)))
		}
	}
	if err == nil { // what is judged strictly has no panels
		err = errors.Join(json.Unmarshal(text, &d), d.Validate())
	}
	return d, err
}

// mistakes returns an error of the schema, but not an empty list of them.
func mistakes(err error) error {
	var list cog.BuildErrors
	if errors.As(err, &list) && len(list) == 0 {
		return nil
	}
	return err
}

// TestDashboards: both dashboards are as Grafana's schema says, and no two panels overlap.
func TestDashboards(t *testing.T) {
	for _, name := range []string{"dashboard.json", "../../prometheus/dashboard.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d, err := load(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		taken, ids := map[[2]uint32]string{}, map[uint32]bool{}
		for _, p := range d.Panels {
			if p.Panel == nil || p.Panel.Type != "timeseries" || ids[*p.Panel.Id] {
				t.Fatalf("%s: panel %+v", name, p)
			}
			ids[*p.Panel.Id] = true
			at := p.Panel.GridPos
			if at.X+at.W > 24 {
				t.Errorf("%s: %s ends at %d of 24", name, *p.Panel.Title, at.X+at.W)
			}
			for x := at.X; x < at.X+at.W; x++ {
				for y := at.Y; y < at.Y+at.H; y++ {
					if other := taken[[2]uint32{x, y}]; other != "" {
						t.Errorf("%s: %s lies on %s", name, *p.Panel.Title, other)
					}
					taken[[2]uint32{x, y}] = *p.Panel.Title
				}
			}
		}
		for _, wrong := range [][2]string{
			{`"refresh": "30s"`, `"refreshes": "30s"`}, {`"displayMode": "list"`, `"displayMode": 1`},
			{`"placement"`, `"placed"`}, {`"expr"`, `"query"`}, {`"gridPos"`, `"position"`},
		} {
			if _, err := load(bytes.Replace(text, []byte(wrong[0]), []byte(wrong[1]), 1)); err == nil {
				t.Errorf("%s: %s is not refused", name, wrong[1])
			}
		}
	}
}

// scraped asks the service for its metrics, and returns the labels of each series.
func scraped(t *testing.T) (all []labels.Labels) {
	t.Helper()
	resp, err := http.Get(serving(t))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series := line[:strings.LastIndex(line, " ")]
		l, err := parser.ParseMetric(series)
		if err != nil {
			t.Fatalf("%s: %v", series, err)
		}
		b := labels.NewBuilder(l)
		b.Set("job", "ration")
		b.Set("instance", "ration:8082")
		all = append(all, b.Labels())
	}
	return all
}

// found fails unless each selector of an expression finds a series, and all labels by which it sums
// are those of one. It returns the names of the metrics.
func found(expr string, all []labels.Labels) (names []string, err error) {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		names = append(names, selector.Name)
		matches := func(l labels.Labels) bool {
			return !slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool {
				return !m.Matches(l.Get(m.Name))
			})
		}
		i := slices.IndexFunc(all, matches)
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("%s finds nothing", selector))
			return nil
		}
		for _, m := range selector.LabelMatchers {
			if !all[i].Has(m.Name) {
				err = errors.Join(err, fmt.Errorf("%s: there is no label %s", selector, m.Name))
			}
		}
		maps.Copy(known, labelsOf(all[i]))
		return nil
	})
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		sum, ok := n.(*parser.AggregateExpr)
		for i := 0; ok && i < len(sum.Grouping); i++ {
			if !known[sum.Grouping[i]] {
				err = errors.Join(err, fmt.Errorf("%s: there is no label %s", expr, sum.Grouping[i]))
			}
		}
		return nil
	})
	return names, err
}

func labelsOf(l labels.Labels) map[string]bool {
	names := map[string]bool{}
	l.Range(func(one labels.Label) { names[one.Name] = true })
	return names
}

var legend = regexp.MustCompile(`\{\{(\w+)\}\}`)

// TestPanels: each query of the dashboard finds metrics that the service has, by labels that they
// have, and all metrics of the service are on it.
func TestPanels(t *testing.T) {
	text, err := os.ReadFile("dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	d, err := load(text)
	if err != nil {
		t.Fatal(err)
	}
	all, used := scraped(t), map[string]bool{}
	variables := strings.NewReplacer("$__rate_interval", "1m", "$domain", ".*")
	for _, p := range d.Panels {
		for _, target := range p.Panel.Targets {
			q := target.(*prometheus.Dataquery)
			names, err := found(variables.Replace(q.Expr), all)
			if err != nil || len(names) == 0 {
				t.Errorf("%s: %v", *p.Panel.Title, err)
			}
			for _, name := range names {
				used[strings.TrimSuffix(name, "_bucket")] = true
			}
			for _, l := range legend.FindAllStringSubmatch(*q.LegendFormat, -1) {
				if l[1] != "instance" && !strings.Contains(q.Expr, l[1]) {
					t.Errorf("%s: nothing has the label %s", *p.Panel.Title, l[1])
				}
			}
		}
	}
	series := regexp.MustCompile(`_(bucket|sum|count)$`)
	for _, l := range all {
		name := series.ReplaceAllString(l.Get("__name__"), "")
		if strings.HasPrefix(name, "ration_") && !used[name] {
			t.Errorf("%s is on no panel", name)
		}
	}
	for _, wrong := range []string{
		`rate(ration_requests[1m])`, `sum by (rule) (ration_domain_keys)`,
		`ration_domain_keys{rule=~".*"}`, `ration_domain_requests_total{source="store"}`,
	} {
		if _, err := found(wrong, all); err == nil {
			t.Errorf("%s is not refused", wrong)
		}
	}
}
