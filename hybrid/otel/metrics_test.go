package otel

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A distant Backend is a millisecond away, and answers with err if that is set.
type distant struct {
	*hybrid.Memory
	err error
}

func (d *distant) Exchange(ctx context.Context, calls []*lease.Call) {
	time.Sleep(time.Millisecond)
	d.Memory.Exchange(ctx, calls)
	for _, c := range calls {
		if d.err != nil {
			c.Err = d.err
		}
	}
}

// newLimiter returns a Limiter of ten a minute, which ends with the test.
func newLimiter(t *testing.T, store hybrid.Store, namespace string) *hybrid.Limiter {
	t.Helper()
	l, err := hybrid.New(store, hybrid.Config{Limit: hybrid.PerMinute(10), Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(context.Background()) })
	return l
}

// collect returns what a reader sees, by the names and attributes.
func collect(t *testing.T, reader metric.Reader) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, s := range all.ScopeMetrics {
		for _, m := range s.Metrics {
			var points []metricdata.DataPoint[float64]
			switch data := m.Data.(type) {
			case metricdata.Sum[float64]:
				points = data.DataPoints
			case metricdata.Gauge[float64]:
				points = data.DataPoints
			default:
				t.Errorf("%s is a %T", m.Name, data)
			}
			for _, p := range points {
				values[m.Name+" "+p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
			}
		}
	}
	return values
}

// TestAllOfStats: each figure of Stats is the value of exactly one instrument, but for those that
// are said here.
func TestAllOfStats(t *testing.T) {
	next, flags := 2, 0
	var figures []string // by value, from 2
	var s hybrid.Stats
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			f := v.Field(i)
			if v.Type().Field(i).Name == "DeniedKeys" { // it is of MostDenied, which is not shown
				continue
			}
			switch x := f.Interface().(type) {
			case uint64:
				f.SetUint(uint64(next))
			case int:
				f.SetInt(int64(next))
			case time.Duration:
				f.SetInt(int64(next) * int64(time.Second))
			case bool:
				f.SetBool(true)
				flags++
				continue
			case hybrid.Verdicts:
				fill(f)
				continue
			case string, []hybrid.DeniedKey, hybrid.RoundTrips: // no asynchronous histograms
				continue
			default:
				t.Errorf("%s is a %T", v.Type().Field(i).Name, x)
			}
			figures = append(figures, v.Type().Field(i).Name)
			next++
		}
	}
	fill(reflect.ValueOf(&s).Elem())
	counts := map[float64]int{}
	for _, i := range instruments {
		i.read(s, func(value float64, _ ...attribute.KeyValue) { counts[value]++ })
	}
	for i, name := range figures {
		want := 1
		if name == "Exchanges" { // the sum of others
			want = 0
		}
		if n := counts[float64(i+2)]; n != want {
			t.Errorf("%d instruments have the value of %s", n, name)
		}
	}
	if counts[1] != flags || flags != 2 || len(figures) < 20 {
		t.Errorf("%d flags are shown, of %d; there are %d figures", counts[1], flags, len(figures))
	}
}

// TestRegister: what a reader sees are the Stats of each Limiter, until it is unregistered.
func TestRegister(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader := metric.NewManualReader()
		provider := metric.NewMeterProvider(metric.WithReader(reader))
		a := newLimiter(t, &distant{Memory: hybrid.NewMemory()}, "a")
		b := newLimiter(t, hybrid.NewMemory(), "b")
		rule := attribute.String("rule", "user")
		if _, err := Register(provider, a, rule); err != nil {
			t.Fatal(err)
		}
		registration, err := Register(provider, b, rule)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			a.Allow("user:42")
		}
		b.Allow("user:42")
		time.Sleep(time.Second)
		got, s := collect(t, reader), a.Stats()
		const admitted = ",ration.source=ledger,ration.verdict=admitted,rule=user"
		for name, want := range map[string]float64{
			"ration.requests ration.limiter=a" + admitted:                         10,
			"ration.tokens ration.limiter=b" + admitted:                           1,
			"ration.exchanges ration.limiter=a,ration.outcome=answered,rule=user": float64(s.Answered),
			"ration.round_trip.p50 ration.limiter=a,rule=user":                    s.RoundTripP50.Seconds(),
			"ration.keys ration.limiter=a,rule=user":                              1,
		} {
			if got[name] != want || want == 0 {
				t.Errorf("%s is %v, want %v", name, got[name], want)
			}
		}
		for name := range got {
			if strings.Contains(name, "42") {
				t.Errorf("%s names a key", name)
			}
		}
		if _, ok := got["ration.round_trip.p50 ration.limiter=b,rule=user"]; ok {
			t.Error("b shows round trips of 0 s")
		}
		if err := registration.Unregister(); err != nil {
			t.Fatal(err)
		}
		for name := range collect(t, reader) {
			if strings.Contains(name, "ration.limiter=b") {
				t.Errorf("%s is still there", name)
			}
		}
	})
}

// TestKinds: counts are monotonic sums, and what may be added up over processes is a sum. All
// have a description.
func TestKinds(t *testing.T) {
	reader := metric.NewManualReader()
	l := newLimiter(t, hybrid.NewMemory(), "")
	if _, err := Register(metric.NewMeterProvider(metric.WithReader(reader)), l); err != nil {
		t.Fatal(err)
	}
	l.Allow("k")
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	monotonic, sums, gauges := 0, 0, 0
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[float64]:
			if data.IsMonotonic {
				monotonic++
			} else {
				sums++
			}
		case metricdata.Gauge[float64]:
			gauges++
		}
		if m.Description == "" {
			t.Errorf("%s has no description", m.Name)
		}
	}
	if monotonic != 9 || sums != 2 || gauges < 3 {
		t.Errorf("%d counters, %d sums, %d gauges", monotonic, sums, gauges)
	}
}

// TestOwnAttributes: an attribute of the metrics cannot be given another value.
func TestOwnAttributes(t *testing.T) {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	l := newLimiter(t, hybrid.NewMemory(), "a")
	for _, key := range []string{
		"ration.limiter", "ration.source", "ration.verdict", "ration.outcome",
	} {
		_, err := Register(provider, l, attribute.String("rule", "user"), attribute.String(key, "b"))
		if want := "otel: register: attribute " + key + ` "b"`; err == nil ||
			!strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if got := collect(t, reader); len(got) > 0 {
		t.Errorf("%d series are shown", len(got))
	}
	if _, err := Register(provider, l, attribute.String("ration.plan", "b")); err != nil {
		t.Error(err)
	}
}

// TestNil: what is missing is an error.
func TestNil(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), "")
	if _, err := Register(nil, l); err == nil {
		t.Error("no provider")
	}
	if _, err := Register(noop.NewMeterProvider(), nil); err == nil {
		t.Error("no Limiter")
	}
	if _, err := NewStore(nil, nil); err == nil {
		t.Error("no Backend")
	}
}
