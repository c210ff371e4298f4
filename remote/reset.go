package remote

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// Reset deletes the ledger of key: its bucket is full then, less what leases that are
// still out come back with (I6). Limiter.Reset tells a Limiter as well. A failover to a
// replica that has not heard of it brings the old ledger back. It needs no right that an
// exchange does not need: the key expires at once.
func (s *Store) Reset(ctx context.Context, key string) error {
	if s.rdb == nil {
		return errNoClient
	}
	cmd := &command{Cmd: redis.NewCmd(ctx, "pexpire", s.name(key), "0")}
	s.send(ctx, []*command{cmd})
	if err := cmd.Err(); err != nil {
		return fmt.Errorf("remote: reset %s: %w", shorten(key), err)
	}
	return nil
}
