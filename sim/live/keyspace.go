package live

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"slices"
	"strings"
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
	admin   *redis.Client        // of the one who opened it
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
		k.admin = redis.NewClient(k.options)
		return k, nil
	}
	if k.options, err = redisOptions(addr); err != nil {
		return nil, fmt.Errorf("address %q of Redis: %w", withoutPassword(addr), err)
	}
	k.admin = redis.NewClient(k.options)
	if err := k.check(ctx); err != nil {
		_ = k.admin.Close()
		return nil, fmt.Errorf("ledgers on Redis at %s: %w", k.options.Addr, err)
	}
	return k, nil
}

// redisOptions reads host:port or a redis:// URL.
func redisOptions(addr string) (*redis.Options, error) {
	if strings.Contains(addr, "://") {
		u, err := redis.ParseURL(addr)
		if err != nil {
			return nil, ErrAddress // the cause would quote the password
		}
		o := remote.Options(u.Addr)
		o.Username, o.Password, o.DB, o.TLSConfig = u.Username, u.Password, u.DB, u.TLSConfig
		return o, nil
	}
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return nil, ErrAddress
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
	name := k.prefix + "check"
	if err := k.admin.Set(ctx, name, 1, checkTime).Err(); err != nil {
		return err
	}
	return k.admin.Unlink(ctx, name).Err()
}

// Embedded is the name of the Redis in this program.
const Embedded = "embedded"

// name tells where the ledgers are.
func (k *keyspace) name() string {
	if k.server != nil {
		return Embedded
	}
	return k.options.Addr
}

// open returns a store with connections of its own, which give up when the
// limiter does, and a function that closes them.
func (k *keyspace) open() (store hybrid.Store, hangUp func()) {
	o := *k.options
	o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = k.timeout, k.timeout, k.timeout
	rdb := redis.NewClient(&o)
	return remote.New(rdb, remote.WithPrefix(k.prefix)), func() { _ = rdb.Close() } // nothing depends on it any more
}

// close deletes the ledgers of keys, and that of the fleet. It is called when the limiters are
// closed, also after an interrupt. Should it never come to that, the ledgers have a time to live.
func (k *keyspace) close(keys []string) error {
	defer k.admin.Close()
	if k.server != nil {
		k.server.Close()
		return nil
	}
	return k.delete(append(slices.Clone(keys), hybrid.FleetKey))
}

// address is where others find the keyspace.
func (k *keyspace) address(given string) string {
	if k.server != nil {
		return k.server.Addr()
	}
	return given
}

// joinKeyspace opens a keyspace that somebody else has opened and will close.
func joinKeyspace(addr, prefix string, timeout time.Duration) (*keyspace, error) {
	o, err := redisOptions(addr)
	return &keyspace{prefix: prefix, options: o, timeout: timeout}, err
}

// delete deletes the ledgers of keys.
func (k *keyspace) delete(keys []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	for some := range slices.Chunk(keys, 1000) {
		names := make([]string, len(some))
		for i, key := range some {
			names[i] = k.prefix + key
		}
		if err := k.admin.Unlink(ctx, names...).Err(); err != nil {
			return fmt.Errorf("keys %s* were left behind, until their time to live ends: %w", k.prefix, err)
		}
	}
	return nil
}
