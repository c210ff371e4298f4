package queries

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	client "github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/prometheus"
	"github.com/seed13b07268/ration/lease"
)

// A scraper keeps what was gathered, as Prometheus would.
type scraper map[string]*series

// A series is the samples of one metric with its labels.
type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

// A sample is a value at a time.
type sample struct {
	chunks.Sample // the methods for histograms, which are not called
	at            int64
	value         float64
}

func (s sample) T() int64                 { return s.at }
func (s sample) ST() int64                { return 0 } // not known
func (s sample) F() float64               { return s.value }
func (s sample) Type() chunkenc.ValueType { return chunkenc.ValFloat }

// Querier implements storage.Queryable.
func (s scraper) Querier(_, _ int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
	) storage.SeriesSet {
		found := &seriesSet{SeriesSet: storage.EmptySeriesSet(), next: -1}
		for _, x := range s {
			if matches(x.labels, matchers) {
				found.series = append(found.series, storage.NewListSeries(x.labels, x.samples))
			}
		}
		return found
	}}, nil
}

// A seriesSet is what a selector has found.
type seriesSet struct {
	storage.SeriesSet // Err and Warnings, of none
	series            []storage.Series
	next              int
}

func (s *seriesSet) Next() bool         { s.next++; return s.next < len(s.series) }
func (s *seriesSet) At() storage.Series { return s.series[s.next] }

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

// A distant store is a millisecond away.
type distant struct{ hybrid.Store }

func (d distant) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	d.Store.Exchange(ctx, calls)
}

// limiters are those that are scraped. Process a has two of one Namespace.
var limiters = []struct{ instance, namespace, rule string }{
	{"a", "logins", "user"}, {"a", "logins", "address"},
	{"b", "logins", "user"}, {"b", "queries", "user"},
}

// trips are how many round trips of each Limiter take so long, a second: up to the bound in
// seconds, and longer than the bound before.
var trips = map[float64][4]float64{0.0016: {10, 20, 5, 30}, 0.0512: {8, 4, 1, 6}}

// figures are the values that the Limiters show: of a gauge the value, of a counter how much it
// grows in a second. All counters were at 1000 when Prometheus first saw them.
var figures = map[string][4]float64{
	"ration_requests_total lease admitted":  {60, 30, 10, 50},
	"ration_requests_total lease denied":    {3, 2, 5, 4},
	"ration_requests_total ledger admitted": {7, 4, 1, 8},
	"ration_requests_total ledger denied":   {5, 6, 9, 16},
	"ration_requests_total outage admitted": {8, 2, 1, 12},
	"ration_requests_total outage denied":   {7, 6, 4, 10},
	"ration_tokens_total lease admitted":    {600, 310, 105, 512},
	"ration_tokens_total lease denied":      {31, 22, 53, 41},
	"ration_tokens_total ledger admitted":   {71, 42, 13, 84},
	"ration_tokens_total ledger denied":     {52, 63, 94, 165},
	"ration_tokens_total outage admitted":   {81, 22, 13, 124},
	"ration_tokens_total outage denied":     {72, 63, 44, 105},
	"ration_settled_tokens_total":           {3, 5, 7, 11},
	"ration_charged_tokens_total":           {2, 4, 8, 13},
	"ration_exchanges_total answered":       {19, 8, 5, 30},
	"ration_exchanges_total refused":        {1, 2, 4, 3},
	"ration_exchanges_total failed":         {0.5, 1.5, 3, 2},
	"ration_exchanges_total late":           {2, 3, 1, 5},
	"ration_keys":                           {100, 300, 200, 50},
	"ration_waiters":                        {1, 2, 4, 8},
	"ration_processes":                      {2, 3, 4, 5},
	"ration_store_away":                     {1, 1, 1, 0},
	"ration_store_slow":                     {1, 1, 1, 1},
	"ration_store_away_seconds_total":       {0.2, 0.5, 0.1, 0.3},
	"ration_panics_total":                   {1, 2, 3, 5},
	"ration_lost_lines_total":               {4, 6, 8, 9},
	"ration_lost_records_total":             {7, 1, 6, 4},
}

// answers are what the panels show of these figures, by the legend. Requests are 170 a second of
// logins and 100 of queries, exchanges 50 and 40.
var answers = map[string]map[string]float64{
	"Admitted tokens":                    {"logins": 1257, "queries": 720},
	"Denied tokens":                      {"logins": 494, "queries": 311},
	"Denied requests":                    {"logins": 47. / 170, "queries": 0.3},
	"Requests that waited for the store": {"logins": 32. / 170, "queries": 0.24},
	"Exchanges for each request":         {"logins": 50. / 170, "queries": 0.4},
	"Exchanges without an answer": {
		"logins failed": 0.1, "queries failed": 0.05, "logins late": 0.12, "queries late": 0.125,
	},
	"Round trip": {
		"logins p50": 0.0008 + 0.0008*24/35, "logins p99": 0.0256 + 0.0256*12.52/13,
		"queries p50": 0.0008 + 0.0008*18/30, "queries p99": 0.0256 + 0.0256*5.64/6,
	},
	"Processes without the store": {
		"logins away": 2, "queries away": 0, "logins slow": 2, "queries slow": 1,
	},
	"Time without the store": {"logins": 0.6, "queries": 0.3},
	"Requests that the outage policy decided": {
		"logins admitted": 11, "queries admitted": 12, "logins denied": 17, "queries denied": 10,
	},
	"Refused exchanges": {"logins": 7, "queries": 3},
	"Waiters":           {"logins": 7, "queries": 8},
	"Settled and charged tokens": {
		"logins settled": 15, "queries settled": 11, "logins charged": 14, "queries charged": 13,
	},
	"Panics, lost log lines and decisions": {
		"logins panics": 6, "queries panics": 5, "logins lost lines": 18, "queries lost lines": 9,
		"logins lost records": 14, "queries lost records": 4,
	},
	"Keys in memory": {"logins": 300, "queries": 50},
	"Processes": {
		"logins known": 2, "queries known": 5, "logins scraped": 2, "queries scraped": 1,
	},
}

// gather returns what the Collector of a Limiter in use shows.
func gather(t *testing.T, namespace, rule string) []*dto.MetricFamily {
	t.Helper()
	l, err := hybrid.New(distant{hybrid.NewMemory()}, hybrid.Config{
		Limit: hybrid.PerSecond(20), Namespace: namespace,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(context.Background())
	l.Allow("k") // without a round trip none is shown
	registry := client.NewPedanticRegistry()
	registry.MustRegister(prometheus.New(l, client.Labels{"rule": rule}))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// end is when queries are made, after eight scrapes.
const end = 120 * time.Second

// scraped is what Prometheus has of the Limiters: their series with the figures for values.
func scraped(t *testing.T) scraper {
	t.Helper()
	s, missing := scraper{}, maps.Clone(figures)
	for n, limiter := range limiters {
		for _, f := range gather(t, limiter.namespace, limiter.rule) {
			for _, m := range f.GetMetric() {
				l := map[string]string{
					"__name__": f.GetName(), "job": "shop", "instance": limiter.instance,
				}
				name := f.GetName()
				for _, pair := range m.GetLabel() { // sorted
					l[pair.GetName()] = pair.GetValue()
					if pair.GetName() != "limiter" && pair.GetName() != "rule" {
						name += " " + pair.GetValue()
					}
				}
				if f.GetType() == dto.MetricType_HISTOGRAM {
					s.addBuckets(l, m.GetHistogram(), n)
					continue
				}
				known, ok := figures[name]
				if !ok {
					t.Errorf("%s has no figures", name)
				}
				delete(missing, name)
				s.add(l, known[n], f.GetType() == dto.MetricType_COUNTER)
			}
		}
	}
	for name := range missing {
		t.Errorf("%s is not shown", name)
	}
	return s
}

// add keeps a series: of a counter, a value is how much it grows in a second.
func (s scraper) add(l map[string]string, figure float64, counter bool) {
	x := series{labels: labels.FromMap(l)}
	for at := 15 * time.Second; at <= end; at += 15 * time.Second {
		value := figure
		if counter {
			value = 1000 + figure*at.Seconds()
		}
		x.samples = append(x.samples, sample{at: at.Milliseconds(), value: value})
	}
	s[x.labels.String()] = &x
}

// addBuckets keeps the buckets of a histogram, by the trips of the Limiter n.
func (s scraper) addBuckets(l map[string]string, h *dto.Histogram, n int) {
	l["__name__"] += "_bucket"
	below := 0.0
	for _, b := range h.GetBucket() {
		below += trips[b.GetUpperBound()][n]
		l["le"] = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
		s.add(l, below, true)
	}
	l["le"] = "+Inf"
	s.add(l, below, true)
}

// A panel is what the test reads of the dashboard's.
type panel struct {
	Title   string
	Targets []target
}

// A target is a query, and how its answers are called.
type target struct{ Expr, LegendFormat string }

// dashboard reads what Grafana would ask Prometheus.
func dashboard(t *testing.T) (panels []panel, variables []string) {
	t.Helper()
	var d struct {
		Panels     []panel
		Templating struct {
			List []struct {
				Type  string
				Query any
			}
		}
	}
	if err := json.Unmarshal([]byte(prometheus.Dashboard), &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Templating.List {
		if q, ok := v.Query.(map[string]any); ok && v.Type == "query" {
			variables = append(variables, q["query"].(string))
		}
	}
	return d.Panels, variables
}

// TestDashboard: each panel shows what answers say, of the Limiters that are chosen, and each
// metric is in one of them.
func TestDashboard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, engine := scraped(t), newEngine(t)
		panels, _ := dashboard(t)
		all, missing := "", maps.Clone(answers)
		for _, p := range panels {
			got := map[string]float64{}
			for _, target := range p.Targets {
				all += target.Expr
				found, err := ask(t, engine, s, target, ".*")
				if err != nil {
					t.Errorf("%s: %s: %v", p.Title, target.Expr, err)
				}
				maps.Copy(got, found)
				chosen, err := ask(t, engine, s, target, "logins")
				maps.DeleteFunc(found, func(legend string, _ float64) bool {
					return !strings.HasPrefix(legend, "logins")
				})
				if err != nil || !maps.EqualFunc(chosen, found, equal) {
					t.Errorf("%s: of logins %v, want %v: %v", p.Title, chosen, found, err)
				}
			}
			if !maps.EqualFunc(got, answers[p.Title], equal) {
				t.Errorf("%s: %v, want %v", p.Title, got, answers[p.Title])
			}
			delete(missing, p.Title)
		}
		for title := range missing {
			t.Errorf("there is no panel %q", title)
		}
		for _, x := range s {
			if name := x.labels.Get("__name__"); !strings.Contains(all, name) {
				t.Errorf("%s is in no panel", name)
			}
		}
	})
}

// equal reports whether two values differ by rounding only.
func equal(x, y float64) bool { return math.Abs(x-y) <= 1e-9*math.Abs(y) }

// newEngine returns that of Prometheus.
func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	t.Cleanup(func() { engine.Close() })
	return engine
}

// legendLabel is where the legend has the value of a label.
var legendLabel = regexp.MustCompile(`\{\{(\w+)\}\}`)

// ask makes a query as Grafana would with these Limiters chosen, and returns the values by the
// legend.
func ask(
	t *testing.T, engine *promql.Engine, s scraper, of target, chosen string,
) (map[string]float64, error) {
	t.Helper()
	query := strings.NewReplacer("$__rate_interval", "1m", "$limiter", chosen).Replace(of.Expr)
	q, err := engine.NewInstantQuery(t.Context(), s, nil, query, time.UnixMilli(end.Milliseconds()))
	if err != nil {
		return nil, err
	}
	defer q.Close()
	r := q.Exec(t.Context())
	answer, err := r.Vector()
	if err == nil {
		err = errors.Join(r.Warnings.AsErrors()...)
	}
	values := map[string]float64{}
	for _, x := range answer {
		values[legendLabel.ReplaceAllStringFunc(of.LegendFormat, func(l string) string {
			return x.Metric.Get(strings.Trim(l, "{}"))
		})] = x.F
	}
	return values, err
}

// TestWrongQueries: the figures are such that queries with a mistake have other answers.
func TestWrongQueries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, engine := scraped(t), newEngine(t)
		panels, _ := dashboard(t)
		for _, mistake := range []struct{ from, to string }{
			{`rate\((.*?)\[\$__rate_interval\]\)`, "$1"},
			{`\((ration_\w+\{[^}]*\})\)`, "(rate($1[$$__rate_interval]))"},
			{`max by`, "sum by"}, {`min by`, "sum by"}, {`min by`, "max by"},
			{`sum by`, "max by"}, {`sum by`, "avg by"}, {`count by`, "max by"},
			{`, job, instance`, ", instance, rule"}, {`, job, instance`, ""},
			{`verdict="admitted"`, `verdict="denied"`}, {`verdict="denied"`, `verdict="admitted"`},
			{`, verdict="\w+"`, ""}, {`by \(limiter, verdict\)`, "by (limiter)"},
			{`source="ledger"`, `source="lease"`}, {`source="outage"`, `source="ledger"`},
			{`outcome="late"`, `outcome="answered"`}, {`outcome="failed"`, `outcome="late"`},
			{`outcome="refused"`, `outcome="failed"`}, {`quantile\(0.5,`, "quantile(0.99,"}, {`quantile\(0.99,`, "quantile(0.5,"},
			{`_store_away\{`, "_store_slow{"}, {`_store_slow\{`, "_store_away{"},
			{`_settled_`, "_charged_"}, {`_charged_`, "_settled_"},
		} {
			made, from := 0, regexp.MustCompile(mistake.from)
			for _, p := range panels {
				for _, right := range p.Targets {
					wrong := right
					wrong.Expr = from.ReplaceAllString(right.Expr, mistake.to)
					quantile := strings.HasPrefix(right.Expr, "histogram_quantile")
					if wrong == right || quantile && mistake.to == "avg by" { // of a mean it is the same
						continue
					}
					made++
					got, err := ask(t, engine, s, wrong, ".*")
					want, _ := ask(t, engine, s, right, ".*")
					if err == nil && maps.EqualFunc(got, want, equal) {
						t.Errorf("%s: %s has the same answer: %v", p.Title, wrong.Expr, got)
					}
				}
			}
			if made == 0 {
				t.Errorf("%s is nowhere", mistake.from)
			}
		}
	})
}

// labelValues is how Grafana asks for the values of a variable.
var labelValues = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)

// TestVariables: each variable of the dashboard has the two Namespaces for its values.
func TestVariables(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scraped(t)
		_, variables := dashboard(t)
		for _, v := range variables {
			parts := labelValues.FindStringSubmatch(v)
			if parts == nil {
				t.Fatalf("%q is no label_values(metric, label)", v)
			}
			matchers, err := parser.ParseMetricSelector(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			values := map[string]bool{}
			for _, x := range s {
				if matches(x.labels, matchers) {
					values[x.labels.Get(parts[2])] = true
				}
			}
			if !values["logins"] || !values["queries"] || len(values) != 2 {
				t.Errorf("%s: %v", v, values)
			}
		}
		if len(variables) == 0 {
			t.Error("there are none")
		}
	})
}
