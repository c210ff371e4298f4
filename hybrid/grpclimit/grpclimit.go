// Package grpclimit limits calls of gRPC, at servers and at clients, by any number of processes
// together.
//
// # Promise
//
// An interceptor asks for the tokens of all Limits that apply to a call at once, all or none: a
// call that one limit denies costs the others nothing (see hybrid.Limiter.TakeAll). A call
// that is denied does not reach the handler of a server, nor leave a client. Its status is
// RESOURCE_EXHAUSTED with two details: RetryInfo has the RetryAfter of the limit that denies
// longest, and QuotaFailure its Name. No key and no text of an error is told to the other side.
//
// It does not promise to hold back what a stream's handler does with a denial: see Messages. It
// does not count the messages of answers, and it has no limits of calls in progress: for those
// see hybrid.Limiter.Acquire.
//
// # The caller's duties
//
// Keys are the caller's: the peer of a connection may be a proxy, and metadata are what the client
// says. Choose what happens when there is no decision: Config.OnError. Close the Limiter after
// the server has stopped.
package grpclimit

import (
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/seed13b07268/ration/hybrid"
)

// A Limit is one of those that a call must pass.
type Limit struct {
	// Name is what clients are told, 1 to 100 bytes of UTF-8, such as "calls of a user".
	Name string

	// Ask says how many tokens of which key a call needs. It is false for calls that the limit
	// does not apply to. It must be safe for concurrent use, and runs in the goroutine of the
	// call. If it panics, the call panics.
	Ask func(Call) (hybrid.Ask, bool)

	// Of says what Ask is called for. Default: Calls.
	Of Events
}

// Events are what a Limit counts: Calls, Messages, or both (Calls | Messages).
type Events int

const (
	// Calls are unary calls, and openings of streams.
	Calls Events = 1 << iota

	// Messages are unary calls, and the messages that clients send on streams. If one is denied
	// at a server, RecvMsg returns the status to the handler, and the message is lost: the
	// handler should return that error. If one is denied at a client, SendMsg returns the status,
	// and the stream is ended as by a cancel.
	Messages
)

// OnError says what becomes of a call if the Limiter has no decision: its errors are those of
// TakeAll, such as hybrid.ErrUnavailable when the store did not answer and the outage policy
// does not decide. Some errors are not for OnError: a call for more tokens than a limit's Burst, or
// for fewer than 0, is denied, and one whose context ends has the status of that.
type OnError int

const (
	// FailClosed ends it: UNAVAILABLE, if that may pass, and else INTERNAL.
	FailClosed OnError = iota + 1
	// FailOpen lets it pass.
	FailOpen
)

// Config says what interceptors do.
type Config struct {
	// Limits are 1 to hybrid.MaxAsks. A call that none applies to passes.
	Limits []Limit

	// OnError is required: FailClosed or FailOpen.
	OnError OnError

	// Wait lets calls and messages wait for their tokens until the deadline of the call, in place
	// of being denied. One whose deadline is too near gets DEADLINE_EXCEEDED at once. It is meant
	// for clients. At a server each call that waits costs a goroutine, and one without a deadline
	// waits for as long as its client does.
	Wait bool

	// Shadow lets all pass, and waits for no tokens: Denied is told what would have been denied.
	// Two interceptors, one of them a shadow, try new limits beside those in force.
	Shadow bool

	// Denied is told of each call and message that was denied or had no decision, also if it has
	// passed by Shadow or FailOpen. It runs in the goroutine of the call, which waits for it.
	// Default: nothing.
	Denied func(Call, Denial)
}

// A Denial is why a call has no tokens.
type Denial struct {
	// Limit is the Name of the one with the longest RetryAfter, and Decision its answer. They are
	// zero if Err is set.
	Limit    string
	Decision hybrid.Decision

	// Err is that of the Limiter, which has no decision, or of Config.Wait, for which the time
	// was too short; else nil. It may name keys.
	Err error
}

// Interceptors are those of one Config. Pass its methods to grpc.UnaryInterceptor and its
// like. It is safe for concurrent use.
type Interceptors struct {
	limiter *hybrid.Limiter
	config  Config
}

// New returns Interceptors that ask limiter, or an error that names the field that is wrong.
func New(limiter *hybrid.Limiter, config Config) (*Interceptors, error) {
	if limiter == nil {
		return nil, fmt.Errorf("grpclimit: limiter is nil")
	}
	if n := len(config.Limits); n < 1 || n > hybrid.MaxAsks {
		return nil, fmt.Errorf("grpclimit: Config.Limits: %d are not 1 to %d", n, hybrid.MaxAsks)
	}
	if config.OnError != FailClosed && config.OnError != FailOpen {
		return nil, fmt.Errorf(
			"grpclimit: Config.OnError %d is neither FailClosed nor FailOpen", config.OnError)
	}
	config.Limits = slices.Clone(config.Limits)
	for i := range config.Limits {
		l := &config.Limits[i]
		if l.Of == 0 {
			l.Of = Calls
		}
		switch {
		case l.Name == "" || len(l.Name) > 100 || !utf8.ValidString(l.Name):
			return nil, fmt.Errorf(
				"grpclimit: Config.Limits[%d].Name %.100q is not 1 to 100 bytes of UTF-8", i, l.Name)
		case l.Ask == nil:
			return nil, fmt.Errorf("grpclimit: Config.Limits[%d].Ask is nil", i)
		case l.Of&^(Calls|Messages) != 0:
			return nil, fmt.Errorf(
				"grpclimit: Config.Limits[%d].Of %d is not of Calls and Messages", i, l.Of)
		}
	}
	return &Interceptors{limiter, config}, nil
}

// counts reports whether any Limit counts one of these events.
func (i *Interceptors) counts(of Events) bool {
	for _, l := range i.config.Limits {
		if l.Of&of != 0 {
			return true
		}
	}
	return false
}

// admit asks for the tokens of a call, for the Limits that count one of these events. Its error
// is a status.
func (i *Interceptors) admit(c Call, of Events) error {
	asks := make([]hybrid.Ask, 0, len(i.config.Limits))
	names := make([]string, 0, len(i.config.Limits)) // by Ask
	for _, l := range i.config.Limits {
		if l.Of&of == 0 {
			continue
		}
		if ask, ok := l.Ask(c); ok {
			asks, names = append(asks, ask), append(names, l.Name)
		}
	}
	if len(asks) == 0 {
		return nil
	}
	d, err := i.take(c.Context, asks)
	if err == nil && d.Allowed {
		return nil
	}
	denial := Denial{Err: err}
	if err == nil {
		denial.Limit, denial.Decision = names[d.Denied], d.Each[d.Denied]
	}
	if i.config.Denied != nil {
		i.config.Denied(c, denial)
	}
	if i.config.Shadow {
		return nil
	}
	return i.failure(c.Context, denial)
}

// take asks the Limiter. One key needs no agreement with others: that is cheaper, and those that
// wait are served in the order in which they came.
func (i *Interceptors) take(ctx context.Context, asks []hybrid.Ask) (hybrid.Decisions, error) {
	for _, a := range asks {
		if a.N < 0 {
			return hybrid.Decisions{}, fmt.Errorf("grpclimit: take %d of %.100q: %w", a.N, a.Key, errCost)
		}
	}
	waits, single := i.config.Wait && !i.config.Shadow, len(asks) == 1
	switch {
	case waits && single:
		return hybrid.Decisions{Allowed: true}, i.limiter.Wait(ctx, asks[0].Key, asks[0].N)
	case waits:
		return hybrid.Decisions{Allowed: true}, i.limiter.WaitAll(ctx, asks...)
	case single:
		d, err := i.limiter.Take(ctx, asks[0].Key, asks[0].N)
		return hybrid.Decisions{Allowed: d.Allowed, Each: []hybrid.Decision{d}}, err
	}
	return i.limiter.TakeAll(ctx, asks...)
}
