package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// OnError says what becomes of a request when the Limiter returns an error instead of a
// decision: ErrUnavailable, ErrClosed, ErrInvalidLimit or ErrKind. What decides while the store
// is away is no error, see hybrid.Config.Outage.
//
// Two errors mean the same whatever OnError is. ErrExceedsBurst is a denial, with 429 and without
// Retry-After: the request costs more than the limit ever admits. So is a Cost below 0. A request
// whose context has ended gets 503, which only one that has a deadline lives to see.
type OnError int

const (
	// FailOpen lets the request through.
	FailOpen OnError = 1 + iota
	// FailClosed refuses it with 503 and a Retry-After of a second.
	FailClosed
)

// Config configures a Guard.
type Config struct {
	// Limits are those that each request must pass, as far as they apply. Required.
	Limits Limits

	// OnError is FailOpen or FailClosed. Required.
	OnError OnError

	// List is asked first: a request that it allows passes without a limit, and one that it
	// denies gets 403. See Client.Listed. Default: none.
	List func(r *http.Request) lists.Verdict

	// Fields writes header fields about the limits that are not hidden, to allowed responses
	// before the handler runs, which may change them, and to those of 429. The states are for
	// the call only. For more than one format call several functions; for none write nothing.
	// Default: Draft11.
	Fields func(h http.Header, states []State)

	// Refuse answers a request that is refused. Retry-After and other fields are in the header
	// by then, and o has no hidden limit. Default: Problem.
	Refuse func(w http.ResponseWriter, r *http.Request, o Outcome)

	// Observe is told of each request that is refused, or would have been if OnError or Shadow
	// were not, and of costs that the Limiter did not take. It runs by the goroutine of the
	// request, before the answer is written. For a shadow it runs by another one, with a copy by
	// Request.Clone, while the handler may be running; a panic is logged there by slog.Default.
	// Default: nobody is told.
	Observe func(r *http.Request, o Outcome)
}

// A Guard limits requests: those that a Handler serves, or that a Transport sends. It is safe
// for concurrent use.
type Guard struct {
	limiter *hybrid.Limiter
	config  Config
	later   bool            // a limit in force has an After
	shadows chan struct{}   // one for each decision of theirs under way; nil without shadows
	hidden  map[string]bool // names
	denied  []atomic.Uint64 // by limit
	skipped []atomic.Uint64 // by limit
}

// New returns a Guard that takes its tokens from limiter, or an error that names the field of
// config that is wrong. The Limits must not be changed afterwards. A Guard needs no Close.
func New(limiter *hybrid.Limiter, config Config) (*Guard, error) {
	if limiter == nil {
		return nil, errors.New("httplimit: limiter is nil")
	}
	if err := config.Limits.validate(); err != nil {
		return nil, fmt.Errorf("httplimit: Config.Limits%w", err)
	}
	if config.OnError != FailOpen && config.OnError != FailClosed {
		return nil, fmt.Errorf("httplimit: Config.OnError %d is not FailOpen or FailClosed", config.OnError)
	}
	if config.Fields == nil {
		config.Fields = Draft11
	}
	if config.Refuse == nil {
		config.Refuse = Problem
	}
	if config.Observe == nil {
		config.Observe = func(*http.Request, Outcome) {}
	}
	g := &Guard{
		limiter: limiter, config: config, hidden: map[string]bool{},
		denied:  make([]atomic.Uint64, len(config.Limits)),
		skipped: make([]atomic.Uint64, len(config.Limits)),
	}
	for _, l := range config.Limits {
		g.later = g.later || l.After != nil && !l.Shadow
		if l.Shadow && g.shadows == nil {
			g.shadows = make(chan struct{}, mostShadows)
		}
		if l.Hidden {
			g.hidden[l.Name] = true
		}
	}
	return g, nil
}

// Denied returns how many requests each limit has denied, or would have as a shadow, by name.
// hybrid.Stats has the other figures.
func (g *Guard) Denied() map[string]uint64 {
	n := map[string]uint64{}
	for i, l := range g.config.Limits {
		n[l.Name] = g.denied[i].Load()
	}
	return n
}

// Skipped returns how many requests each shadow was not asked about, as 256 decisions were under
// way, by name.
func (g *Guard) Skipped() map[string]uint64 {
	n := map[string]uint64{}
	for i, l := range g.config.Limits {
		if l.Shadow {
			n[l.Name] = g.skipped[i].Load()
		}
	}
	return n
}

// listed is what the list says of a request.
func (g *Guard) listed(r *http.Request) lists.Verdict {
	if g.config.List == nil {
		return lists.Neither
	}
	return g.config.List(r)
}

// A pass is a request on its way through the limits.
type pass struct {
	guard  *Guard
	r      *http.Request
	limits [hybrid.MaxAsks]uint8 // of the Guard's, by Ask
	asks   []hybrid.Ask
	one    [1]hybrid.Decision // has that of a single Ask
	each   []hybrid.Decision
	ends   []ending
}

// mostShadows is how many decisions of shadows are under way at most, in a Guard.
const mostShadows = 256

// ask collects what a request wants of the limits that apply, but for shadows.
func (g *Guard) ask(r *http.Request) *pass {
	p := &pass{guard: g, r: r}
	for i := range g.config.Limits {
		l := &g.config.Limits[i]
		if l.Shadow {
			continue
		}
		if a, ok := l.ask(r); ok {
			if p.asks == nil {
				p.asks = make([]hybrid.Ask, 0, len(g.config.Limits))
			}
			p.limits[len(p.asks)] = uint8(i)
			p.asks = append(p.asks, a)
		}
	}
	return p
}

// take takes the tokens of all limits, or of none. It reports whether it has.
func (p *pass) take(ctx context.Context) (bool, error) {
	g := p.guard
	switch {
	case len(p.asks) == 0:
		return true, nil
	case g.later:
		return p.reserve(ctx)
	case len(p.asks) == 1:
		var err error
		p.one[0], err = g.limiter.Take(ctx, p.asks[0].Key, p.asks[0].N)
		p.each = p.one[:]
		return p.one[0].Allowed, err
	}
	d, err := g.limiter.TakeAll(ctx, p.asks...)
	p.each = d.Each
	return d.Allowed, err
}

// states are those of the limits but for hidden ones, if these are not wanted.
func (p *pass) states(hidden bool) []State {
	states := make([]State, 0, len(p.each))
	for i, d := range p.each {
		if l := &p.guard.config.Limits[p.limits[i]]; hidden || !l.Hidden {
			states = append(states, State{Name: l.Name, Key: p.asks[i].Key, Decision: d})
		}
	}
	return states
}

// denial counts, and tells, that limits deny.
func (p *pass) denial() Outcome {
	o := Outcome{Status: http.StatusTooManyRequests, States: p.states(true)}
	for i, s := range o.States {
		if !s.Allowed {
			p.guard.denied[p.limits[i]].Add(1)
			o.Denied = append(o.Denied, s.Name)
			o.RetryAfter = max(o.RetryAfter, s.RetryAfter)
		}
	}
	return o
}

// failure is what an error of the Limiter means.
func (p *pass) failure(ctx context.Context, err error) Outcome {
	g, late := p.guard, ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded)
	switch {
	case errors.Is(err, hybrid.ErrExceedsBurst), slices.ContainsFunc(p.asks, negative):
		return p.exceeding(err)
	case g.config.OnError == FailOpen && !late:
		return Outcome{Err: err}
	}
	return Outcome{Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Err: err}
}

// negative reports a Cost below 0, which a client may have chosen: it must not pass for free.
func negative(a hybrid.Ask) bool { return a.N < 0 }

// exceeding is for a request whose cost a limit never admits. The error does not say which one it
// is: it is named if the Guard knows its limit.
func (p *pass) exceeding(err error) Outcome {
	o := Outcome{Status: http.StatusTooManyRequests, Err: err}
	for i, a := range p.asks {
		l := &p.guard.config.Limits[p.limits[i]]
		if negative(a) || l.Limit != (hybrid.Limit{}) && int64(a.N) > l.Limit.Burst {
			p.guard.denied[p.limits[i]].Add(1)
			o.Denied = append(o.Denied, l.Name)
		}
	}
	return o
}
