package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
)

// keyspace is where the fleet's ledgers live: on a Redis in this program or on
// a real one, under a prefix that nobody else has.
type keyspace struct {
	prefix  string
	options *redis.Options
	timeout time.Duration        // of an exchange
	server  *miniredis.Miniredis // the embedded one, or nil
	clients []*redis.Client

	trips atomic.Uint64 // round trips with scripts
}

// checkTime bounds the look whether a Redis is there, and the clean-up.
const checkTime = 3 * time.Second

// openKeyspace starts the embedded Redis, or makes sure that the one at addr,
// host:port or a redis:// URL, can be written to.
func openKeyspace(ctx context.Context, addr string, timeout time.Duration) (k *keyspace, err error) {
	k = &keyspace{prefix: "ration:sim:" + rand.Text()[:10] + ":", timeout: timeout}
	if addr == "" {
		if k.server, err = miniredis.Run(); err != nil {
			return nil, fmt.Errorf("embedded Redis: %w", err)
		}
		k.options = remote.Options(k.server.Addr())
		return k, nil
	}
	if k.options, err = redisOptions(addr); err != nil {
		return nil, usageError{fmt.Errorf("invalid value %q for flag -redis: %w", withoutPassword(addr), err)}
	}
	if err := k.check(ctx); err != nil {
		return nil, fmt.Errorf("-redis %s: %w", k.options.Addr, err)
	}
	return k, nil
}

var errAddr = errors.New("want host:port or redis://user:password@host:port/db")

// redisOptions reads host:port or a redis:// URL.
func redisOptions(addr string) (*redis.Options, error) {
	if strings.Contains(addr, "://") {
		u, err := redis.ParseURL(addr)
		if err != nil {
			return nil, errAddr // the cause would quote the password
		}
		o := remote.Options(u.Addr)
		o.Username, o.Password, o.DB, o.TLSConfig = u.Username, u.Password, u.DB, u.TLSConfig
		return o, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, errAddr
	}
	return remote.Options(addr), nil
}

func withoutPassword(addr string) string {
	if at := strings.LastIndexByte(addr, '@'); at >= 0 {
		return "..." + addr[at:]
	}
	return addr
}

// check writes, because a ping would say nothing of a read-only replica or a
// user without rights.
func (k *keyspace) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	rdb := redis.NewClient(k.options)
	defer rdb.Close()
	name := k.prefix + "check"
	if err := rdb.Set(ctx, name, 1, checkTime).Err(); err != nil {
		return err
	}
	return rdb.Unlink(ctx, name).Err()
}

// embedded is the name of the Redis in this program.
const embedded = "embedded"

// name tells where the ledgers are.
func (k *keyspace) name() string {
	if k.server != nil {
		return embedded
	}
	return k.options.Addr
}

// open returns a store with connections of its own, which give up when the
// limiter does.
func (k *keyspace) open() hybrid.Store {
	o := *k.options
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = k.timeout, k.timeout, k.timeout
	rdb := redis.NewClient(&o)
	rdb.AddHook(tripCounter{&k.trips})
	k.clients = append(k.clients, rdb)
	return remote.New(rdb, remote.WithPrefix(k.prefix))
}

// close deletes the ledgers of keys and ends all connections. It is called
// when the limiters are closed, also after an interrupt. Should it never come
// to that, the ledgers have a time to live.
func (k *keyspace) close(keys []string) error {
	var err error
	if k.server == nil {
		err = k.delete(keys)
	}
	for _, rdb := range k.clients {
		_ = rdb.Close() // nothing depends on it any more
	}
	if k.server != nil {
		k.server.Close()
	}
	return err
}

func (k *keyspace) delete(keys []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	rdb := redis.NewClient(k.options)
	defer rdb.Close()
	for some := range slices.Chunk(keys, 1000) {
		names := make([]string, len(some))
		for i, key := range some {
			names[i] = k.prefix + key
		}
		if err := rdb.Unlink(ctx, names...).Err(); err != nil {
			return fmt.Errorf("keys %s* were left behind, until their time to live ends: %w", k.prefix, err)
		}
	}
	return nil
}

// tripCounter counts round trips that carry scripts. go-redis runs hooks also
// for the handshakes of its connections, which are no limiter's doing.
type tripCounter struct{ trips *atomic.Uint64 }

func (c tripCounter) count(cmd redis.Cmder) {
	if name := cmd.Name(); name == "evalsha" || name == "eval" {
		c.trips.Add(1)
	}
}

func (c tripCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

func (c tripCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.count(cmd)
		return next(ctx, cmd)
	}
}

func (c tripCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if len(cmds) > 0 {
			c.count(cmds[0])
		}
		return next(ctx, cmds)
	}
}
