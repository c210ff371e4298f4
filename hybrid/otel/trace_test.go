package otel

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed13b07268/ration/hybrid"
)

// newProvider returns one that keeps what is exported, and those spans.
func newProvider() (*sdk.TracerProvider, *tracetest.InMemoryExporter) {
	spans := tracetest.NewInMemoryExporter()
	return sdk.NewTracerProvider(sdk.WithSyncer(spans)), spans
}

// has reports whether a span has this attribute.
func has(s tracetest.SpanStub, key attribute.Key, value any) bool {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.AsInterface() == value
		}
	}
	return false
}

// TestStore: each exchange is a span, as long as it takes, and says what has failed without
// the names of keys.
func TestStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, spans := newProvider()
		backend := &distant{Memory: hybrid.NewMemory()}
		store, err := NewStore(backend, provider)
		if err != nil {
			t.Fatal(err)
		}
		l := newLimiter(t, store, "")
		if !l.Allow("secret") {
			t.Fatal("denied")
		}
		time.Sleep(50 * time.Millisecond)
		if got := spans.GetSpans(); uint64(len(got)) < l.Stats().Exchanges || len(got) == 0 {
			t.Fatalf("%d spans of %d exchanges", len(got), l.Stats().Exchanges)
		}
		for _, s := range spans.GetSpans() {
			if s.Name != "ration exchange" || s.EndTime.Sub(s.StartTime) != time.Millisecond ||
				s.Status.Code != codes.Unset || !has(s, "ration.exchanges", int64(1)) {
				t.Errorf("%+v", s)
			}
		}
		spans.Reset()
		backend.err = fmt.Errorf("exchange %q: %w", "secret", errors.New("moved"))
		l.Allow("secret:2")
		got := spans.GetSpans()
		if len(got) == 0 || got[0].Status.Code != codes.Error ||
			got[0].Status.Description != "1 of 1: moved" {
			t.Errorf("%+v", got)
		}
	})
}

// TestStoreIsWhole: a Limiter has of a Store what it has of its Backend.
func TestStoreIsWhole(t *testing.T) {
	provider, _ := newProvider()
	memory := hybrid.NewMemory()
	store, err := NewStore(memory, provider)
	if err != nil {
		t.Fatal(err)
	}
	if store.Identity() != any(memory) {
		t.Errorf("it is %v", store.Identity())
	}
	outer, err := NewStore(store, provider)
	if err != nil || outer.Identity() != any(memory) {
		t.Errorf("%v, it is %v", err, outer.Identity())
	}
	l, err := hybrid.New(store, hybrid.Config{Limit: hybrid.PerHour(3), Publish: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(t.Context())
	l.AllowN("k", 3)
	if err := l.Reset(t.Context(), "k"); err != nil {
		t.Error(err)
	}
	if !l.AllowN("k", 3) {
		t.Error("the key has not been reset")
	}
}

// TestRequests: a request in a trace that is recorded is a span below its parent.
func TestRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider, spans := newProvider()
		l := newLimiter(t, &distant{Memory: hybrid.NewMemory()}, "")
		ctx, parent := provider.Tracer("test").Start(context.Background(), "parent")
		for range 2 {
			if _, err := Take(ctx, l, "secret", 10); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Take(ctx, l, "secret", 11); !errors.Is(err, hybrid.ErrExceedsBurst) {
			t.Error(err)
		}
		if err := Wait(ctx, l, "secret", 1); err != nil {
			t.Error(err)
		}
		short, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if err := Wait(short, l, "secret", 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		got := spans.GetSpans()
		if len(got) != 5 {
			t.Fatalf("%d spans", len(got))
		}
		for i, want := range []struct {
			name, status, verdict string
			tokens                int64
		}{
			{"ration take", "", "admitted", 10}, {"ration take", "", "denied", 10},
			{"ration take", "request exceeds the limit's burst", "", 11},
			{"ration wait", "", "", 1}, {"ration wait", "context deadline exceeded", "", 1},
		} {
			s := got[i]
			if s.Name != want.name || s.Parent.SpanID() != parent.SpanContext().SpanID() ||
				s.Status.Description != want.status || !has(s, tokensKey, want.tokens) ||
				want.verdict != "" && !has(s, verdictKey, want.verdict) {
				t.Errorf("span %d is %+v", i, s)
			}
			if strings.Contains(fmt.Sprint(s.Attributes), "secret") {
				t.Errorf("span %d names a key", i)
			}
		}
		if !has(got[0], sourceKey, "ledger") || has(got[0], retryAfterKey, 0.0) {
			t.Errorf("the first span is %+v", got[0])
		}
		if took := got[3].EndTime.Sub(got[3].StartTime); took < 5*time.Second {
			t.Errorf("the wait is a span of %v", took)
		}
	})
}

// TestOff: without a recorded trace, Take and Wait make no spans, and cost no more memory.
func TestOff(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), "")
	ctx := context.Background()
	if allocs := testing.AllocsPerRun(100, func() {
		if _, err := Take(ctx, l, "k", 0); err != nil {
			t.Fatal(err)
		}
	}); allocs > testing.AllocsPerRun(100, func() { l.Take(ctx, "k", 0) }) {
		t.Errorf("%v allocations", allocs)
	}
	if err := Wait(ctx, l, "k", 1); err != nil {
		t.Error(err)
	}
}
