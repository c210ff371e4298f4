package prometheus

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/seed13b07268/ration/hybrid"
)

// newLimiter returns a Limiter of ten a minute, which ends with the test.
func newLimiter(t *testing.T, config hybrid.Config) *hybrid.Limiter {
	t.Helper()
	if config.Limit == (hybrid.Limit{}) {
		config.Limit = hybrid.PerMinute(10)
	}
	l, err := hybrid.New(hybrid.NewMemory(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(t.Context()); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	})
	return l
}

// fill sets each figure of s to another value above 0, which flags cannot have.
func fill(s reflect.Value, next *uint64) {
	for i := range s.NumField() {
		switch f := s.Field(i); f.Kind() {
		case reflect.Uint64:
			f.SetUint(*next)
		case reflect.Int:
			f.SetInt(int64(*next))
		case reflect.Int64: // a time.Duration
			f.SetInt(int64(*next) * int64(time.Second))
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Struct:
			fill(f, next)
		}
		*next++
	}
}

// gather returns the values of all metrics, by their names and labels.
func gather(t *testing.T, r prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += " " + l.GetName() + "=" + l.GetValue()
			}
			values[name] = m.GetCounter().GetValue()
			switch f.GetType() {
			case dto.MetricType_GAUGE:
				values[name] = m.GetGauge().GetValue()
			case dto.MetricType_HISTOGRAM:
				values[name] = float64(m.GetHistogram().GetSampleCount())
				values[name+" sum"] = m.GetHistogram().GetSampleSum()
			}
		}
	}
	return values
}

// TestAllOfStats: each figure of Stats is the value of exactly one metric, but for those that
// are said here.
func TestAllOfStats(t *testing.T) {
	var s hybrid.Stats
	next := uint64(2)
	fill(reflect.ValueOf(&s).Elem(), &next)
	c := New(newLimiter(t, hybrid.Config{}), nil)
	c.stats = func() hybrid.Stats { return s }
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	counts := map[float64]int{}
	for _, v := range gather(t, r) {
		counts[v]++
	}
	seen := 0
	var look func(v reflect.Value)
	look = func(v reflect.Value) {
		for i := range v.NumField() {
			want, name := 0.0, v.Type().Field(i).Name
			switch name {
			case "DeniedKeys", // it is of MostDenied, which is not shown
				"RoundTripP50", "RoundTripP99": // RoundTrips has them
				continue
			}
			switch f := v.Field(i).Interface().(type) {
			case uint64:
				want = float64(f)
			case int:
				want = float64(f)
			case time.Duration:
				want = f.Seconds()
			case hybrid.Verdicts, hybrid.RoundTrips:
				look(v.Field(i))
				continue
			case bool: // Away and Slow
				if counts[1] != 2 {
					t.Errorf("%d metrics are 1, for %s", counts[1], name)
				}
				continue
			default:
				if name != "Namespace" && name != "ID" && name != "MostDenied" && name != "AtMost" {
					t.Errorf("%s is a %T", name, f)
				}
				continue
			}
			seen++
			if wanted := map[bool]int{false: 1}[name == "Exchanges"]; counts[want] != wanted { // the sum
				t.Errorf("%d metrics have the value of %s", counts[want], name)
			}
		}
	}
	look(reflect.ValueOf(s))
	if seen < 20 {
		t.Errorf("%d figures were found", seen)
	}
}

// TestLint: what a Limiter in use shows is as Prometheus' linter wants it.
func TestLint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, hybrid.Config{Namespace: "logins"})
		r := prometheus.NewPedanticRegistry()
		r.MustRegister(New(l, prometheus.Labels{"rule": "user"}))
		for range 12 {
			l.Allow("user:42")
		}
		time.Sleep(time.Second)
		problems, err := testutil.GatherAndLint(r)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
		got := gather(t, r)
		for name, value := range got {
			if !strings.HasPrefix(name, "ration_") || !strings.Contains(name, " limiter=logins") ||
				!strings.Contains(name, " rule=user") || strings.Contains(name, "42") {
				t.Errorf("%s %v", name, value)
			}
		}
		const labels = " limiter=logins rule=user source=ledger verdict="
		if n := got["ration_requests_total"+labels+"admitted"]; n != 10 {
			t.Errorf("%v requests were admitted by the ledger: %v", n, got)
		}
	})
}

// TestRoundTrips: the histogram has the bounds of Stats in seconds, and what each counts.
func TestRoundTrips(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c := New(newLimiter(t, hybrid.Config{}), nil)
	r.MustRegister(c)
	c.stats = func() hybrid.Stats {
		return hybrid.Stats{RoundTrips: hybrid.RoundTrips{
			Count: 5, Sum: 2 * time.Second,
			AtMost: map[time.Duration]uint64{time.Millisecond: 1, 100 * time.Millisecond: 3},
		}}
	}
	const want = `
# HELP ration_round_trip_seconds Round trips that brought answers of the store.
# TYPE ration_round_trip_seconds histogram
ration_round_trip_seconds_bucket{limiter="",le="0.001"} 1
ration_round_trip_seconds_bucket{limiter="",le="0.1"} 3
ration_round_trip_seconds_bucket{limiter="",le="+Inf"} 5
ration_round_trip_seconds_sum{limiter=""} 2
ration_round_trip_seconds_count{limiter=""} 5
`
	err := testutil.GatherAndCompare(r, strings.NewReader(want), "ration_round_trip_seconds")
	if err != nil {
		t.Error(err)
	}
}

// TestRegister: what is wrong is said when a Collector is registered, and where it is not, when
// it is gathered.
func TestRegister(t *testing.T) {
	l := newLimiter(t, hybrid.Config{Namespace: "a"})
	for _, c := range []struct {
		name   string
		second *Collector
		want   string // "": no error
	}{
		{"no Limiter", New(nil, nil), "limiter is nil"},
		{"our label", New(l, prometheus.Labels{"limiter": "b"}), `label limiter "b"`},
		{"an invalid label", New(l, prometheus.Labels{"a-b\xff": "c"}), "a-b"},
		{"a variable label", New(l, prometheus.Labels{"source": "c"}), "duplicate label names"},
		{"twice", New(l, nil), "duplicate metrics collector"},
		{"another Limiter of that name", New(newLimiter(t, hybrid.Config{Namespace: "a"}), nil),
			"duplicate metrics collector"},
		{"other names of labels", New(l, prometheus.Labels{"rule": "c"}), "different label names"},
		{"another Limiter", New(newLimiter(t, hybrid.Config{Namespace: "b"}), nil), ""},
	} {
		r := prometheus.NewRegistry()
		r.MustRegister(New(l, nil))
		err := r.Register(c.second)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	families := make(chan prometheus.Metric, 1)
	New(nil, nil).Collect(families)
	if err := (<-families).Write(new(dto.Metric)); err == nil {
		t.Error("a Collector without a Limiter collects")
	}
}
