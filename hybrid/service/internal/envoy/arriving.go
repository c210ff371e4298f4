package envoy

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"
)

// arriving bounds what messages of gRPC hold that have not arrived as a whole: on all connections
// there are at most so many, each for some time. A call has a seat from when its handler begins,
// which is before anything of its message is read, until the message is there. A stream has one
// until it ends, as its messages may come at any time: so streams have a sixteenth of the seats.
//
// One timer serves all seats: one for each call would cost more than a decision (ADR 103).
type arriving struct {
	wait time.Duration // of a message

	mu    sync.Mutex
	seats []seat
	free  []*seat     // of seats
	more  int         // streams that may begin
	timer *time.Timer // of look
	armed bool        // the timer runs: to the first due, or to an earlier time
	ended bool        // there are no more streams
}

// A seat is that of a call.
type seat struct {
	cancel context.CancelFunc // of the call; nil: the seat is free
	due    time.Time          // of the message; zero: it is a stream, or it has been canceled
	stream bool
}

// A call is the context of one that can be canceled: reading its messages ends then.
type call struct {
	context.Context
	cancel context.CancelFunc
}

type callKey struct{}

// Value implements context.Context.
func (c *call) Value(key any) any {
	if key == (callKey{}) {
		return c
	}
	return c.Context.Value(key)
}

// cancelable is a tap.ServerInHandle. gRPC cancels the context that it gives, and so this one, when
// the call ends.
func cancelable(ctx context.Context, _ *tap.Info) (context.Context, error) {
	ctx, cancel := context.WithCancel(ctx)
	return &call{ctx, cancel}, nil
}

var (
	errMany    = status.Error(codes.ResourceExhausted, "too many messages arrive at once")
	errStreams = status.Error(codes.ResourceExhausted, "too many streams are open")
	errEnds    = status.Error(codes.Unavailable, "the service ends")
)

func newArriving(most int, wait time.Duration) *arriving {
	a := &arriving{wait: wait, seats: make([]seat, most), free: make([]*seat, most),
		more: max(most/16, 1)}
	for i := range a.seats {
		a.free[i] = &a.seats[i]
	}
	a.timer = time.AfterFunc(wait, a.look)
	return a
}

// begin gives a call a seat, or an error. End it.
func (a *arriving) begin(ctx context.Context, stream bool) (*seat, error) {
	call := ctx.Value(callKey{}).(*call)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := len(a.free) - 1
	switch {
	case stream && a.ended:
		return nil, errEnds
	case stream && a.more == 0:
		return nil, errStreams
	case n < 0:
		return nil, errMany
	}
	p := a.free[n]
	a.free = a.free[:n]
	p.cancel, p.stream = call.cancel, stream
	if stream {
		a.more--
		return p, nil
	}
	p.due = time.Now().Add(a.wait)
	if !a.armed {
		a.armed = true
		a.timer.Reset(a.wait)
	}
	return p, nil
}

// end frees a seat. It reports whether streams are to end.
func (a *arriving) end(p *seat) (ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.stream {
		a.more++
	}
	*p = seat{}
	a.free = append(a.free, p)
	return a.ended
}

// look cancels the calls whose messages are late. Their handlers end, and free their seats.
func (a *arriving) look() {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	var next time.Time
	for i := range a.seats {
		switch p := &a.seats[i]; {
		case p.due.IsZero():
		case !p.due.After(now):
			p.due = time.Time{}
			p.cancel()
		case next.IsZero() || p.due.Before(next):
			next = p.due
		}
	}
	if a.armed = !next.IsZero(); a.armed {
		a.timer.Reset(next.Sub(now))
	}
}

// endStreams cancels streams, which have no end of their own. There are none from now on.
func (a *arriving) endStreams() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	for i := range a.seats {
		if p := &a.seats[i]; p.stream {
			p.cancel()
		}
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
		err = handler(srv, s)
		if a.end(p) {
			return errEnds
		}
		return err
	}
}
