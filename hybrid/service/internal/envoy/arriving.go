package envoy

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// arriving bounds what messages of gRPC hold that have not arrived as a whole: on all connections
// there are at most so many, each for some time. A call has a seat from when its handler begins,
// which is before anything of its message is read, until the message is there. A stream has one
// until it ends, as its messages may come at any time.
//
// One timer serves all seats. A timer and a context for each call would cost 16 allocations, where
// a whole call has 160 at both of its ends (ADR 117).
type arriving struct {
	wait time.Duration // of a message

	mu    sync.Mutex
	seats []seat
	free  []*seat     // of seats
	timer *time.Timer // of look
	armed bool        // the timer runs: to the first due, or to an earlier time
	ended bool        // there are no more streams
}

// A seat is that of a call.
type seat struct {
	call ender     // nil: it is free
	due  time.Time // of the message; zero: it is a stream, or it has been ended
}

// An ender ends a call with a status, wherever its handler is: that stops to read. gRPC's own type
// of a call is one, though grpc.ServerTransportStream does not say so.
type ender interface{ WriteStatus(*status.Status) error }

var (
	errMany = status.Error(codes.ResourceExhausted, "too many messages arrive at once")
	errLate = status.New(codes.DeadlineExceeded, "the message did not arrive in time")
	errEnds = status.New(codes.Unavailable, "the service ends")
)

func newArriving(most int, wait time.Duration) *arriving {
	a := &arriving{wait: wait, seats: make([]seat, most), free: make([]*seat, most)}
	for i := range a.seats {
		a.free[i] = &a.seats[i]
	}
	a.timer = time.AfterFunc(wait, a.look)
	return a
}

// begin gives a call a seat, or an error. End it.
func (a *arriving) begin(ctx context.Context, stream bool) (*seat, error) {
	call, ok := grpc.ServerTransportStreamFromContext(ctx).(ender)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.free) - 1
	switch {
	case !ok:
		return nil, status.Error(codes.Internal, "this version of gRPC cannot end calls")
	case stream && a.ended:
		return nil, errEnds.Err()
	case n < 0:
		return nil, errMany
	}
	p := a.free[n]
	a.free = a.free[:n]
	p.call = call
	if stream {
		return p, nil
	}
	p.due = time.Now().Add(a.wait)
	if !a.armed {
		a.armed = true
		a.timer.Reset(a.wait)
	}
	return p, nil
}

// end frees a seat.
func (a *arriving) end(p *seat) {
	a.mu.Lock()
	defer a.mu.Unlock()
	*p = seat{}
	a.free = append(a.free, p)
}

// look ends the calls whose messages are late. Their handlers end, and free their seats.
func (a *arriving) look() {
	now := time.Now()
	a.mu.Lock()
	var late []ender
	var next time.Time
	for i := range a.seats {
		switch p := &a.seats[i]; {
		case p.due.IsZero():
		case !p.due.After(now):
			late, p.due = append(late, p.call), time.Time{}
		case next.IsZero() || p.due.Before(next):
			next = p.due
		}
	}
	if a.armed = !next.IsZero(); a.armed {
		a.timer.Reset(next.Sub(now))
	}
	a.mu.Unlock()
	endAll(late, errLate)
}

// endStreams ends streams, which have no end of their own. There are none from now on.
func (a *arriving) endStreams() {
	a.mu.Lock()
	a.ended = true
	var streams []ender
	for _, p := range a.seats {
		if p.call != nil && p.due.IsZero() {
			streams = append(streams, p.call)
		}
	}
	a.mu.Unlock()
	endAll(streams, errEnds)
}

func endAll(calls []ender, with *status.Status) {
	for _, c := range calls {
		_ = c.WriteStatus(with) // an error says that the connection has ended, and the call with it
	}
}

// bound returns a service with the bound.
func (a *arriving) bound(service grpc.ServiceDesc) *grpc.ServiceDesc {
	service.Methods = slices.Clone(service.Methods)
	for i := range service.Methods {
		service.Methods[i].Handler = a.method(service.Methods[i].Handler)
	}
	service.Streams = slices.Clone(service.Streams)
	for i := range service.Streams {
		service.Streams[i].Handler = a.stream(service.Streams[i].Handler)
	}
	return &service
}

// method bounds a method with one message.
func (a *arriving) method(handler grpc.MethodHandler) grpc.MethodHandler {
	return func(
		srv any, ctx context.Context, receive func(any) error, i grpc.UnaryServerInterceptor,
	) (any, error) {
		return handler(srv, ctx, func(message any) error {
			p, err := a.begin(ctx, false)
			if err != nil {
				return err
			}
			defer a.end(p)
			return receive(message)
		}, i)
	}
}

// stream bounds a method that is a stream.
func (a *arriving) stream(handler grpc.StreamHandler) grpc.StreamHandler {
	return func(srv any, s grpc.ServerStream) error {
		p, err := a.begin(s.Context(), true)
		if err != nil {
			return err
		}
		defer a.end(p)
		return handler(srv, s)
	}
}
