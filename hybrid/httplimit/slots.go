package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// SlotsConfig configures Slots.
type SlotsConfig struct {
	// Name stands before the key in the store, and in errors, as Limit.Name does. Required.
	Name string

	// Key says which key a request holds a slot of, or that it needs none. Default: one key for
	// all requests.
	Key Key

	// Wait is for how long a request waits for a slot, 1 ms to 1 h. Default: 1 s.
	Wait time.Duration

	// OnError is FailOpen or FailClosed, as of a Guard. Required.
	OnError OnError

	// Refuse answers a request that has got no slot. Default: Problem.
	Refuse func(w http.ResponseWriter, r *http.Request, o Outcome)

	// Observe is told of each request that has got no slot, and of each that has lost its slot
	// while it was served: Err wraps hybrid.ErrSlotLost then. Default: nobody is told.
	Observe func(r *http.Request, o Outcome)
}

// Slots bound how many requests are served at once over all processes, by a limit of
// hybrid.Slots. It is safe for concurrent use.
type Slots struct {
	limiter *hybrid.Limiter
	config  SlotsConfig
}

// NewSlots returns Slots of limiter, whose keys begin with the Name and a colon and must have
// slots; or an error that names the field of config that is wrong.
func NewSlots(limiter *hybrid.Limiter, config SlotsConfig) (*Slots, error) {
	if limiter == nil {
		return nil, errors.New("httplimit: limiter is nil")
	}
	if config.Wait == 0 {
		config.Wait = time.Second
	}
	if config.Wait < time.Millisecond || config.Wait > time.Hour {
		return nil, fmt.Errorf("httplimit: SlotsConfig.Wait %v is not from 1ms to 1h", config.Wait)
	}
	if config.OnError != FailOpen && config.OnError != FailClosed {
		return nil, fmt.Errorf("httplimit: SlotsConfig.OnError %d is not FailOpen or FailClosed",
			config.OnError)
	}
	l := Limit{Name: config.Name, Key: config.Key}
	if err := l.validate(); err != nil {
		return nil, fmt.Errorf("httplimit: SlotsConfig%w", err)
	}
	if config.Refuse == nil {
		config.Refuse = Problem
	}
	if config.Observe == nil {
		config.Observe = func(*http.Request, Outcome) {}
	}
	return &Slots{limiter: limiter, config: config}, nil
}

// Handler returns a handler that runs next while it holds a slot. A request waits for one for
// Wait, or until its context ends. If it gets none it is refused with 429 and a Retry-After of a
// second, which is missing where the key is Blocked.
//
// The context of the request that next gets ends with that of the slot, too: when the lease of the
// slot is lost, as the store is away for too long. Then context.Cause is hybrid.ErrSlotLost. The
// slot is released when next returns or panics.
func (s *Slots) Handler(next http.Handler) http.Handler {
	limit := &Limit{Name: s.config.Name, Key: s.config.Key}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ask, ok := limit.ask(r)
		if !ok {
			next.ServeHTTP(w, r)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), s.config.Wait)
		slot, err := s.limiter.Acquire(ctx, ask.Key, 1)
		cancel()
		if err != nil {
			s.without(w, r, next, err)
			return
		}
		s.serve(w, r, next, slot)
	})
}

// serve runs next while it holds the slot.
func (s *Slots) serve(
	w http.ResponseWriter, r *http.Request, next http.Handler, slot *hybrid.Slot,
) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := context.AfterFunc(slot.Context(), func() { cancel(context.Cause(slot.Context())) })
	defer func() {
		stop()
		cancel(nil)
		if err := slot.Release(); err != nil && !errors.Is(err, hybrid.ErrClosed) {
			s.config.Observe(r, Outcome{Err: err})
		}
	}()
	next.ServeHTTP(w, r.WithContext(ctx))
}

// without is for a request that has got no slot.
func (s *Slots) without(
	w http.ResponseWriter, r *http.Request, next http.Handler, err error,
) {
	o := Outcome{Err: err, Status: http.StatusServiceUnavailable, RetryAfter: time.Second}
	switch {
	case r.Context().Err() != nil:
	case errors.Is(err, hybrid.ErrExceedsBurst): // a Blocked key: waiting does not help
		o.Status, o.Denied, o.RetryAfter = http.StatusTooManyRequests, []string{s.config.Name}, 0
	case errors.Is(err, context.DeadlineExceeded):
		o.Status, o.Denied = http.StatusTooManyRequests, []string{s.config.Name}
	case s.config.OnError == FailOpen:
		o.Status, o.RetryAfter = 0, 0
	}
	s.config.Observe(r, o)
	if o.Status == 0 {
		next.ServeHTTP(w, r)
		return
	}
	if o.RetryAfter > 0 {
		w.Header().Set("Retry-After", "1")
	}
	s.config.Refuse(w, r, o)
}
