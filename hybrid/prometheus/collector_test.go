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
			if f.GetType() == dto.MetricType_GAUGE {
				values[name] = m.GetGauge().GetValue()
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
			if name == "DeniedKeys" { // it is of MostDenied, which is not shown
				continue
			}
			switch f := v.Field(i).Interface().(type) {
			case uint64:
				want = float64(f)
			case int:
				want = float64(f)
			case time.Duration:
				want = f.Seconds()
			case hybrid.Verdicts:
				look(v.Field(i))
				continue
			case bool: // Away and Slow
				if counts[1] != 2 {
					t.Errorf("%d metrics are 1, for %s", counts[1], name)
				}
				continue
			default:
				if name != "Namespace" && name != "ID" && name != "MostDenied" {
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

// TestNoRoundTrip: where there was none, no round trip is shown, and not one of 0 s.
func TestNoRoundTrip(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c := New(newLimiter(t, hybrid.Config{}), nil)
	r.MustRegister(c)
	c.stats = func() hybrid.Stats { return hybrid.Stats{RoundTripP99: time.Second} }
	const name = "ration_round_trip_%_seconds limiter="
	got := gather(t, r)
	if v, ok := got[strings.Replace(name, "%", "p50", 1)]; ok {
		t.Errorf("p50 is %v", v)
	}
	if v := got[strings.Replace(name, "%", "p99", 1)]; v != 1 {
		t.Errorf("p99 is %v", v)
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
