package otel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A Backend is a hybrid.Store with all that Limiters use: *remote.Store and *hybrid.Memory are.
type Backend interface {
	hybrid.Store
	hybrid.Publisher
	Reset(ctx context.Context, key string) error
}

// A Store makes a span of each Exchange of the Backend that it wraps.
type Store struct {
	Backend
	tracer trace.Tracer
}

// NewStore returns a Store for hybrid.New that makes spans by provider, or an error if one of
// the two is nil. A span is a trace of its own, of one round trip of up to 256 exchanges, and
// goes on until the Backend returns, which may be after hybrid.Config.Timeout. It has the number of
// exchanges, and, if some have failed or were refused, the status Error and the cause of one.
func NewStore(backend Backend, provider trace.TracerProvider) (*Store, error) {
	if backend == nil || provider == nil {
		return nil, errors.New("otel: store: backend or provider is nil")
	}
	return &Store{backend, provider.Tracer(scope)}, nil
}

// Identity is that of the Backend: see hybrid.Process.
func (s *Store) Identity() any {
	if b, ok := s.Backend.(interface{ Identity() any }); ok {
		return b.Identity()
	}
	return s.Backend
}

// Exchange implements hybrid.Store.
func (s *Store) Exchange(ctx context.Context, calls []*lease.Call) {
	ctx, span := s.tracer.Start(ctx, "ration exchange",
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(exchangesKey.Int(len(calls))))
	defer span.End()
	s.Backend.Exchange(ctx, calls)
	failed, why := 0, error(nil)
	for _, c := range calls {
		if c.Err != nil {
			failed, why = failed+1, c.Err
		}
	}
	if failed > 0 {
		span.SetStatus(codes.Error, fmt.Sprintf("%d of %d: %v", failed, len(calls), cause(why)))
	}
}

// Take is limiter.Take in a span, if that of ctx is recorded. The span has the tokens and the
// Attributes of the Decision. An error is its status; a denial is none.
func Take(
	ctx context.Context, limiter *hybrid.Limiter, key string, n int,
) (hybrid.Decision, error) {
	ctx, span := begin(ctx, "ration take", n)
	if span == nil {
		return limiter.Take(ctx, key, n)
	}
	defer span.End()
	d, err := limiter.Take(ctx, key, n)
	if err == nil {
		span.SetAttributes(Attributes(d)...)
	} else {
		span.SetStatus(codes.Error, cause(err).Error())
	}
	return d, err
}

// Wait is limiter.Wait in a span, as Take is. The span is as long as the wait.
func Wait(ctx context.Context, limiter *hybrid.Limiter, key string, n int) error {
	ctx, span := begin(ctx, "ration wait", n)
	if span == nil {
		return limiter.Wait(ctx, key, n)
	}
	defer span.End()
	err := limiter.Wait(ctx, key, n)
	if err != nil {
		span.SetStatus(codes.Error, cause(err).Error())
	}
	return err
}

// begin starts a span below that of ctx, or returns nil if that is not recorded.
func begin(ctx context.Context, name string, n int) (context.Context, trace.Span) {
	parent := trace.SpanFromContext(ctx)
	if !parent.IsRecording() {
		return ctx, nil
	}
	return parent.TracerProvider().Tracer(scope).Start(
		ctx, name, trace.WithAttributes(tokensKey.Int(n)))
}
