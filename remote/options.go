package remote

import (
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options returns settings for redis.NewClient that suit a Store whose Limiters have the
// default Timeout. go-redis' own defaults let a call to a dead server hold its connection for
// seconds. With a Timeout above 250 ms, set the three timeouts of 500 ms to twice of it.
//
// redis.FailoverOptions, redis.ClusterOptions and redis.RingOptions have the same
// fields; set them alike. A ClusterClient tries another connection up to
// MaxRedirects times, and pauses from MinRetryBackoff up to MaxRetryBackoff
// before each, also when it is redirected: 3, 8 ms and 512 ms by default.
//
// A Ring whose server stops answering moves its keys to the others, where their
// buckets are full: each such move may admit one more Burst, and what the leases
// that were out refill until they end.
func Options(addr string) *redis.Options {
	return &redis.Options{
		Addr: addr,

		// A server of the same region answers a dial in milliseconds. One that
		// is down refuses at once; one that is cut off does not answer, and is
		// given this long. 5 s by default.
		DialTimeout: 500 * time.Millisecond,
		// One attempt: by default there are 5, 100 ms apart, behind the back of
		// the caller. (0 means the default.)
		DialerRetries: 1,

		// The longest that a connection is held for one round trip, and for each one
		// of its handshake. Twice hybrid.Config.Timeout, which ends the exchange: an
		// answer that is late keeps its connection, as a new one costs two round
		// trips more. 5 s by default.
		ReadTimeout:  500 * time.Millisecond,
		WriteTimeout: 500 * time.Millisecond,
		// The deadline of an exchange does not count on the wire. The handshake would
		// share it, and no connection to a server half as far away be opened at all.
		ContextTimeoutEnabled: false,

		// A new connection neither names its library to the server (CLIENT SETINFO)
		// nor asks for news of maintenance (CLIENT MAINT_NOTIFICATIONS): the user
		// that docs/security.md has may not, and ACL LOG would tell of each
		// attempt. Servers that send such news would also have go-redis wait 10 s
		// for a reply.
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},

		// Nothing is sent twice. The Store's commands say so themselves, this is
		// for the others on the same client.
		MaxRetries: -1,

		// All that a Store sends are pipelines. By default these have a pool
		// of their own, of 10 connections with 256 KiB of buffers each, that
		// keeps none idle; an exchange of 100 keys fits the 32 KiB of the
		// ordinary pool's.
		PipelinePoolSize: -1,
		// Exchanges run side by side only while refreshes of many keys are due
		// at once. Beyond this number they wait, for at most PoolTimeout.
		PoolSize:    16,
		PoolTimeout: 250 * time.Millisecond,
		// The first exchange after a pause finds an open connection.
		MinIdleConns: 2,
	}
}
