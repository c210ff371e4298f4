package hybrid

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// Store carries exchanges to the ledgers of keys: remote.Store to Redis,
// Memory to ledgers in this process.
type Store interface {
	// Exchange fills in the Reply or the Err of every call. It must not send
	// a request twice on its own, and must return in bounded time even when
	// the server hangs; the Limiter gives up on it after Config.Timeout. It is
	// called from several goroutines. An Err that wraps lease.ErrRefused is an answer, for
	// its key alone; one that wraps lease.ErrUnable is the answer that nobody can be served.
	// After both the outage policy decides at once; others may be that of a lost message.
	//
	// A Store of several servers may have a method Node(key string) string. It names the
	// server that has a key, and does not block. Exchange then gets keys of one server at a time.
	Exchange(ctx context.Context, calls []*lease.Call)
}

// Config configures a Limiter. A zero field means its documented default.
type Config struct {
	// Limit holds for every key. Either it or LimitFor is required.
	Limit Limit

	// LimitFor returns the limit of a key, instead of Limit. While a key is in use it is
	// called once in Policy.MaxRefresh, or in a second if that is shorter, counted from
	// when it has returned: never more often, nor twice at a time. It must be safe for
	// concurrent use.
	//
	// The first call for a key is made by its first request, which waits for it as long
	// as it takes. Requests that come meanwhile wait for Config.Timeout at most, and then get
	// ErrUnavailable. If the call panics, so does that request, and others get ErrUnavailable
	// until the next call. If it returns an invalid limit, requests get ErrInvalidLimit until
	// the next call.
	//
	// Further calls are made beside the requests, and decisions go by the limit before
	// until they return. The first request after a pause as long as that interval waits for the
	// call, for Config.Timeout at most, so that it does not go by a limit from before the pause;
	// Try returns ErrPending then. A request for more than the Burst waits alike, if it is time
	// for a call. No decision goes by a limit that is older than two intervals and the time that a
	// call takes. At most 64 of them are under way at a time. One that hangs keeps its key's limit
	// as it is, and no other's; when 64 hang, all limits stay, and a log line says so. If one
	// panics or returns an invalid limit, the limit before stays. That is logged, at most once a
	// minute. Close does not wait for calls.
	//
	// A changed limit goes to the store at once. While processes that use the key
	// disagree, the lowest Rate and the lowest Burst of them count, and more than that
	// Burst is answered with ErrExceedsBurst. So a raised limit is in force as soon as
	// all of them declare it, or have no lease any more.
	LimitFor func(key string) Limit

	// Namespace keeps the keys of this Limiter apart from those of others on the same
	// store, which may have other limits: the store knows a key as Namespace, a colon,
	// and the key. Give one to each of several Limiters. It has up to 64 bytes of 0-9
	// A-Z a-z _ - and a dot. Default: none, and the store knows keys as they are. If
	// others declare a lower limit for a key for more than a minute, that is logged once,
	// with both limits.
	Namespace string

	// Policy says how a bucket is divided among processes.
	Policy Policy

	// Classes are the classes of requests, the highest first: who is served first when there is
	// not enough. At most 8. They are for token buckets and quotas: a Limit of another kind is
	// invalid then. See [Limiter.As] for requests of a class; requests that do not say theirs have the
	// last one. All processes that share a key should have the same Classes. Default: none.
	Classes []Class

	// ClassesFor returns the classes of a key, instead of Classes; nil is for none. It is called
	// when LimitFor has returned, which must be there, a panic of it included, and the key goes by
	// what it returns for as long. Classes of slots and of sliding windows do not count, and
	// invalid ones are an invalid limit. A request has the class of its key, and the last one if
	// that has no class of its name. What it returns must not change.
	ClassesFor func(key string) []Class

	// Outage decides while the store does not answer. Default: Share.
	Outage Outage

	// Processes is how many processes share the store, 0 to 65,535: a hint for Share in a
	// process that starts while the store is away, until the store has told. Too low a hint
	// admits more than the limit. Default: none, and such a process admits nothing.
	Processes int

	// Process is what the Limiter counts as among those that share the store, from
	// NewProcess. Default: one Process for all Limiters of this program, however many
	// stores they use.
	Process *Process

	// Timeout ends an exchange without an answer, and bounds what a request waits for
	// one, 1 ms to 1 min. A request that comes while an exchange of its key is out waits
	// for its own for as long again. The store's context ends after seven eighths of it,
	// so that the answers of those nodes of a cluster that do answer are still in time.
	// Default: 250 ms.
	Timeout time.Duration

	// MaxKeys is how many keys are kept in memory, at least 1. One that is longer than
	// 1 KiB counts once more for each KiB. Keys in use for which there is no room ask the
	// store for each request. Default: 1,000,000.
	//
	// A key in use takes about 0.9 KiB, and each of the 1024 busiest up to 8 KiB more. A key
	// that was in use in the last half minute takes less than 256 B; there may be twice
	// MaxKeys of those besides.
	MaxKeys int

	// Eager is how many tokens of a key that this process does not hold are admitted at once,
	// before the store is asked, 0 to 2^32. They are charged with the next exchange, and until
	// the limit has made up for them no more are. So n processes may admit n*Eager tokens
	// above the limit's Burst, and the Rate holds in the long run; of a quota or a sliding window,
	// above each window. A process that starts anew counts once more. A request for more asks the
	// store, and so do slots, reservations, requests for several keys, and those of a class where
	// classes divide what there is. Default: 0.
	Eager int64

	// Publish is how often the Limiter tells the store its Stats, for Fleet to show them:
	// 1 s to 1 min. They are kept for three times as long, at most 4 KiB for each Limiter,
	// and hold no key. The store must be a Publisher. Default: never.
	Publish time.Duration

	// PublishName is what this process is called there, such as its host: at most 256
	// bytes. Default: none, it has a random id only.
	PublishName string

	// Record has decisions written down, for `sim whatif`. Default: none are.
	Record Recording

	// Logger, or SlogLogger, is told when the store goes away and when it is back, of
	// keys that fail alone, of what LimitFor got wrong, and of limits that differ. Lines
	// are few: none is written for a request. They are written by a goroutine of their own, so a
	// Logger may be slow. If it panics, its line is lost, and if it hangs, so are those that
	// follow: see Stats.Panics and Stats.LostLines. Set one of them at most. Default:
	// slog.Default(), as it is when a line is written. For silence set SlogLogger to
	// slog.New(slog.DiscardHandler).
	Logger     *zap.Logger
	SlogLogger *slog.Logger
}

// FleetKey is a key of the store that is not a user's: all processes exchange for it,
// see Share.
const FleetKey = local.FleetKey

// Outage says what decides while the store does not answer. Leases go on until they end, and
// decide first.
type Outage = local.Outage

const (
	// Share (the default) lets each process go on with an equal part of the limit's Rate: all
	// processes together admit the whole of it, wherever requests go. The Rate of a quota and
	// of a sliding window is their mean rate. The store tells every ten seconds how many
	// processes there are (FleetKey); Limiters of one program are one. A process that has not
	// heard from it yet goes by Config.Processes. Of slots a process goes on with those that it
	// has on lease, until that ends.
	Share = local.Share
	// Deny admits nothing. Of slots it is as Share.
	Deny = local.Deny
	// Allow admits everything. While the store answers, but too late, it admits what leases
	// and ledgers do, and no more. A Slot that it admits has no lease, and its Fence is 0.
	Allow = local.Allow
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("hybrid: limiter closed")
	// ErrInvalidLimit is wrapped by errors about limits that make no sense.
	ErrInvalidLimit = lease.ErrInvalidLimit
	// ErrExceedsBurst is wrapped when more tokens are asked for at once than
	// the bucket holds: waiting would not help.
	ErrExceedsBurst = errors.New("request exceeds the limit's burst")
	// ErrPending is wrapped by Try and its like where only the store, or LimitFor, can
	// tell. It is being asked.
	ErrPending = errors.New("not known yet")
	// ErrUnavailable is wrapped when the store did not answer and the outage
	// policy does not decide: there is no verdict.
	ErrUnavailable = errors.New("store did not answer")
)

const (
	defaultTimeout = 250 * time.Millisecond
	defaultMaxKeys = 1_000_000
	idleKey        = 2 * time.Second
)

// resolve returns c with defaults filled in, or an error that names a field
// and its value.
func (c Config) resolve() (Config, error) {
	if c.LimitFor == nil {
		if c.Limit == (Limit{}) {
			return c, errors.New("hybrid: Config.Limit and Config.LimitFor are both unset")
		}
		if err := c.valid(c.Limit); err != nil {
			return c, fmt.Errorf("hybrid: Config.Limit: %w", err)
		}
	} else if c.Limit != (Limit{}) {
		return c, fmt.Errorf("hybrid: Config.Limit %v and Config.LimitFor are both set", c.Limit)
	}
	if err := validNamespace(c.Namespace); err != nil {
		return c, err
	}
	if err := c.Policy.Validate(); err != nil {
		return c, fmt.Errorf("hybrid: Config.Policy: %w", err)
	}
	c.Classes = slices.Clone(c.Classes)
	if err := lease.ValidateClasses(c.Classes, c.Policy.Resolved()); err != nil {
		return c, fmt.Errorf("hybrid: Config.Classes: %w", err)
	}
	if c.ClassesFor != nil && (c.LimitFor == nil || c.Classes != nil) {
		return c, errors.New("hybrid: Config.ClassesFor is without LimitFor, or beside Classes")
	}
	if c.Outage < Share || c.Outage > Allow {
		return c, fmt.Errorf("hybrid: Config.Outage %v is not a known policy", c.Outage)
	}
	if c.Logger != nil && c.SlogLogger != nil {
		return c, errors.New("hybrid: Config.Logger and Config.SlogLogger are both set")
	}
	var err error
	if c.Record, err = c.Record.resolve(); err != nil {
		return c, err
	}
	c.Logger = c.logger()
	if c.Process == nil {
		c.Process = program
	}
	if c.Process.name == nil {
		return c, errors.New("hybrid: Config.Process is empty: it is not from NewProcess")
	}
	return c.numbers()
}

// numbers is resolve for the fields that are numbers.
func (c Config) numbers() (Config, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.Timeout < time.Millisecond || c.Timeout > time.Minute {
		return c, fmt.Errorf("hybrid: Config.Timeout %v is not from 1ms to 1m", c.Timeout)
	}
	if c.MaxKeys == 0 {
		c.MaxKeys = defaultMaxKeys
	}
	if c.MaxKeys < 1 {
		return c, fmt.Errorf("hybrid: Config.MaxKeys %d is not at least 1", c.MaxKeys)
	}
	if c.Processes < 0 || c.Processes > 65535 {
		return c, fmt.Errorf("hybrid: Config.Processes %d is not from 0 to 65535", c.Processes)
	}
	if c.Eager < 0 || c.Eager > lease.MaxBurst {
		return c, fmt.Errorf("hybrid: Config.Eager %d is not from 0 to 2^32", c.Eager)
	}
	if c.Publish != 0 && (c.Publish < time.Second || c.Publish > time.Minute) {
		return c, fmt.Errorf("hybrid: Config.Publish %v is not from 1s to 1m", c.Publish)
	}
	if len(c.PublishName) > 256 {
		return c, fmt.Errorf("hybrid: Config.PublishName %.100q has %d bytes, not at most 256",
			c.PublishName, len(c.PublishName))
	}
	return c, nil
}
