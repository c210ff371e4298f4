package otel_test

import (
	"context"
	"fmt"
	"log"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed13b07268/ration/hybrid"
	rationotel "github.com/seed13b07268/ration/hybrid/otel"
)

// A whole program: a Limiter with metrics, and with spans of its exchanges and of a request. With
// Redis the Backend is remote.New(client), and reader and exporter are those of the program.
func Example() {
	spans := tracetest.NewInMemoryExporter()
	traces := trace.NewTracerProvider(trace.WithSyncer(spans))
	reader := metric.NewManualReader()
	metrics := metric.NewMeterProvider(metric.WithReader(reader))

	store, err := rationotel.NewStore(hybrid.NewMemory(), traces)
	if err != nil {
		log.Fatal(err)
	}
	limiter, err := hybrid.New(store, hybrid.Config{
		Limit: hybrid.PerMinute(3), Namespace: "logins",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	registration, err := rationotel.Register(metrics, limiter, attribute.String("rule", "per user"))
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()

	ctx, span := traces.Tracer("program").Start(context.Background(), "login")
	d, err := rationotel.Take(ctx, limiter, "user:42", 1)
	span.End()
	fmt.Println(d.Allowed, err)

	var all metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &all); err != nil {
		log.Fatal(err)
	}
	fmt.Println(all.ScopeMetrics[0].Metrics[0].Name)
	for _, s := range spans.GetSpans() {
		if s.Parent.IsValid() {
			fmt.Println(s.Name)
		}
	}
	// Output:
	// true <nil>
	// ration.requests
	// ration take
}

// Attributes add a Decision to a span that is there anyway.
func ExampleAttributes() {
	traces := trace.NewTracerProvider()
	_, span := traces.Tracer("program").Start(context.Background(), "login")
	defer span.End()
	d := hybrid.Decision{Allowed: true, Limit: hybrid.PerMinute(60)}
	span.SetAttributes(rationotel.Attributes(d)...)
	for _, a := range rationotel.Attributes(d) {
		fmt.Println(a.Key, a.Value.String())
	}
	// Output:
	// ration.source lease
	// ration.verdict admitted
	// ration.limit 1/s burst 60
}
