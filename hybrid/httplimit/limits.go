package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed13b07268/ration/hybrid"
)

// A Limit is one of those that a request must pass.
type Limit struct {
	// Name stands in header fields and errors, and before the key in the store. It has 1 to 64
	// bytes of printable ASCII without a colon, and is unique among the Limits of a Guard.
	Name string

	// Key says which key of the limit a request is counted on, or that the limit does not apply
	// to it: see Client, Header, Pattern and KeyFunc. Default: one key for all requests.
	Key Key

	// Limit holds for each key. It, or For, is what Limits.For returns. Neither is needed if the
	// Limiter gets its limits elsewhere.
	Limit hybrid.Limit

	// For returns the limit of a key, instead of Limit, by the rules of hybrid.Config.LimitFor.
	// The key is that of Key, without the Name.
	For func(key string) hybrid.Limit

	// Cost is how many tokens the request takes, at least 0; it is never called twice for a
	// request. A cost below 0 or above the limit's Burst is answered with 429 without Retry-After,
	// whatever OnError says. Request.ContentLength is -1 for a body of unknown length, such as a
	// chunked one: return an estimate for it. Default: 1.
	Cost func(r *http.Request) int

	// After returns what the request has cost in all, 0 to 2^40 tokens, when it has ended. Cost
	// is an estimate then, which is reserved meanwhile: the difference comes back, or is charged
	// and may be a debt. See hybrid.Limiter.Reserve. Default: what Cost said is what it costs.
	//
	// It is called once for each request whose tokens were reserved, also if the handler panics,
	// or anything before it. So it is not called for a request that a List allows, or that passes
	// by FailOpen after an error. If After panics itself the estimate counts. The r is the one that
	// the handler got, with the Pattern that a mux has set.
	After func(r *http.Request, end End) int

	// Shadow is for a limit that is tried: it never refuses a request, and never makes one wait.
	// A request that it would have denied is counted, and told to Config.Observe. It sees only
	// requests that the other limits let through, and decides beside the handler. While 256
	// decisions are under way, as the store is slow, further requests are not asked for, but
	// counted by Guard.Skipped. A panic of its Key, Cost or After is logged by slog.Default, and
	// fails no request. Its After is called for each request that it was asked about.
	Shadow bool

	// Hidden keeps the limit from clients: neither header fields nor errors tell of it, but for
	// Retry-After. A limit of all clients together tells each how much capacity there is.
	Hidden bool
}

// An End tells how a request ended.
type End struct {
	// Status is that of the response, or 0 if none was begun.
	Status int
	// Header is that of the response. It must not be changed.
	Header http.Header
	// Bytes of the body were written by the handler, or read by the client. What goes over a
	// connection after Hijack, or after a response of 101, is not counted.
	Bytes int64
	// Completed says that the handler has returned and did not panic, or that the body of the
	// response was read to its end.
	Completed bool
}

// Limits are those of one Guard, up to hybrid.MaxAsks.
type Limits []Limit

// For returns the limit of a key of the store: it is meant for hybrid.Config.LimitFor. A key that
// does not begin with the name of a limit has the zero Limit, which the Limiter answers with
// ErrInvalidLimit.
func (ls Limits) For(key string) hybrid.Limit {
	name, rest, found := strings.Cut(key, ":")
	for i := range ls {
		switch l := &ls[i]; {
		case !found || l.Name != name:
		case l.For != nil:
			return l.For(rest)
		default:
			return l.Limit
		}
	}
	return hybrid.Limit{}
}

func (ls Limits) validate() error {
	if len(ls) < 1 || len(ls) > hybrid.MaxAsks {
		return fmt.Errorf(" has %d limits, not 1 to %d", len(ls), hybrid.MaxAsks)
	}
	names := map[string]bool{}
	for i, l := range ls {
		if err := l.validate(); err != nil {
			return fmt.Errorf("[%d]%w", i, err)
		}
		if names[l.Name] {
			return fmt.Errorf("[%d].Name %q is that of another limit", i, l.Name)
		}
		names[l.Name] = true
	}
	return nil
}

func (l *Limit) validate() error {
	if err := validName(l.Name); err != nil {
		return fmt.Errorf(".Name %.100q %w", l.Name, err)
	}
	if v, ok := l.Key.(interface{ Validate() error }); ok {
		if err := v.Validate(); err != nil {
			return fmt.Errorf(".Key: %w", err)
		}
	}
	if l.For != nil && l.Limit != (hybrid.Limit{}) {
		return fmt.Errorf(".Limit %v and .For are both set", l.Limit)
	}
	if l.Limit != (hybrid.Limit{}) {
		if err := l.Limit.Validate(); err != nil {
			return fmt.Errorf(".Limit: %w", err)
		}
		if l.Limit.Kind == hybrid.KindSlots {
			return fmt.Errorf(".Limit %v is for NewSlots: %w", l.Limit, hybrid.ErrKind)
		}
	}
	return nil
}

func validName(name string) error {
	if len(name) < 1 || len(name) > 64 {
		return fmt.Errorf("has %d bytes, not 1 to 64", len(name))
	}
	for i := range len(name) {
		if c := name[i]; c < ' ' || c > '~' || c == ':' {
			return errors.New("is not printable ASCII without a colon")
		}
	}
	return nil
}

// ask returns what a request wants of the limit, or false if the limit does not apply to it.
func (l *Limit) ask(r *http.Request) (hybrid.Ask, bool) {
	ask := hybrid.Ask{N: 1}
	key := ""
	if l.Key != nil {
		var ok bool
		if key, ok = l.Key.Key(r); !ok {
			return ask, false
		}
	}
	if l.Cost != nil {
		ask.N = l.Cost(r)
	}
	ask.Key = l.Name + ":" + key
	return ask, true
}

// A State is what a request met at one limit.
type State struct {
	Name string
	Key  string // in the store: the name, a colon, and what Limit.Key returned
	hybrid.Decision
}
