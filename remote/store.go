// Package remote keeps ledgers in Redis.
//
// # Promise
//
// A Store answers exchanges as a lease.Ledger does, to the last bit, with the
// Redis server's clock. One key is one hash; one exchange is one script call.
// All the calls of an Exchange travel in one pipeline per node. A script runs
// at most once per call: what may have run is never sent again, because an
// answer that comes after a silent retry is slower than a new request, whose
// numbers are fresh. (A resend by a proxy would do no harm: the script refuses
// a repeated sequence number.)
//
// It does not promise to return when its context ends: a go-redis client gives
// up by its own timeouts, see Options.
//
// # The caller's duties
//
// Give it a client with short timeouts. After an error the outcome is unknown:
// the holder must go on with a new request (lease.Holder.Fail).
package remote

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
)

// Client is what a Store needs of go-redis. *redis.Client (a single server or
// Sentinel's master), *redis.ClusterClient and *redis.Ring have it.
type Client interface {
	Pipeline() redis.Pipeliner
}

// A Store keeps each key's ledger in a Redis hash. It is safe for concurrent use.
type Store struct {
	rdb    Client
	prefix string
	hash   func(key string) string // nil: keys are named as they are
	secret string                  // of hash

	answered atomic.Bool // a server has, so that a ClusterClient knows where the slots are
}

// An Option changes a new Store.
type Option func(*Store)

// WithPrefix sets what is put before a key to name its hash in Redis, by
// default "ration:".
func WithPrefix(prefix string) Option {
	return func(s *Store) { s.prefix = prefix }
}

// New returns a Store that talks through rdb, which remains the caller's to
// close. Without one (nil, or a nil pointer) every exchange fails.
func New(rdb Client, opts ...Option) *Store {
	if v := reflect.ValueOf(rdb); v.Kind() == reflect.Pointer && v.IsNil() {
		rdb = nil
	}
	s := &Store{rdb: rdb, prefix: "ration:"}
	for _, opt := range opts {
		opt(s)
	}
	return s
}

var errNoClient = errors.New("remote: New: client is nil")

var (
	exchange = newScript(lua.Exchange)
	quota    = newScript(lua.Quota)
	slots    = newScript(lua.Slots)
	sliding  = newScript(lua.Sliding)
	inspect  = newScript(lua.Inspect)
)

// Identity is equal for Stores that keep the same ledgers as far as can be told: those of
// one client that name keys alike. The Limiters of a process that have such Stores share
// one part of a limit in an outage, see hybrid.Process.
func (s *Store) Identity() any {
	return struct {
		rdb            Client
		prefix, secret string
		hashed         bool
	}{s.rdb, s.prefix, s.secret, s.hash != nil}
}

// name is what key's hash is called in Redis.
func (s *Store) name(key string) string {
	if s.hash != nil {
		key = s.hash(key)
	}
	return s.prefix + key
}

// Exchange delivers all calls and fills in the Reply or the Err of each.
func (s *Store) Exchange(ctx context.Context, calls []*lease.Call) {
	if s.rdb == nil {
		for _, c := range calls {
			c.Reply, c.Err = lease.Reply{}, errNoClient
		}
		return
	}
	sent := make([]*lease.Call, 0, len(calls))
	cmds := make([]*command, 0, len(calls))
	room := make([]byte, 0, encodedSize*len(calls))
	for _, c := range calls {
		c.Reply, c.Err = lease.Reply{}, nil
		if err := c.Request.Validate(); err != nil {
			c.Err = exchangeError(c.Key, err)
			continue
		}
		request, limit := encode(room, &c.Request)
		room = limit
		sent = append(sent, c)
		args := []any{c.Request.Holder, request, limit}
		if by := c.Request.ByClass; by != nil {
			args = append(args, encodeClasses(c.Request.Limit.Kind, by))
		}
		cmds = append(cmds, kinds[c.Request.Limit.Kind].script().command(ctx, s.name(c.Key), args...))
	}
	s.run(ctx, cmds)
	for i, c := range sent {
		v, err := cmds[i].Result()
		if err == nil {
			c.Reply, err = parseReply(c.Request.Seq, v)
		}
		if err != nil {
			c.Err = exchangeError(c.Key, classed(err))
		}
	}
}

// classed wraps lease.ErrRefused or lease.ErrUnable if a server's answer says so.
func classed(err error) error {
	if redis.HasErrorPrefix(err, "RATION ") { // says the script: see lua/exchange.lua
		err = fmt.Errorf("%w: %w", lease.ErrRefused, err)
	}
	if remedy := unable(err); remedy != "" {
		err = fmt.Errorf("%w: %w (%s)", lease.ErrUnable, err, remedy)
	}
	return err
}

func exchangeError(key string, err error) error {
	return fmt.Errorf("remote: exchange %s: %w", shorten(key), err)
}

// shorten quotes a key for an error message.
func shorten(key string) string {
	const most = 64
	if len(key) > most {
		return fmt.Sprintf("%q...", key[:most])
	}
	return fmt.Sprintf("%q", key)
}
