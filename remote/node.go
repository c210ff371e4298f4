package remote

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Node names the server that has a key, as far as the client knows without asking: the address
// of a Cluster's master or of a Ring's shard. It is "" for a client of one server, and before the
// first answer. By it a Limiter sends each node's exchanges by themselves, as a pipeline of several
// nodes comes back with the slowest of them (TestHungMaster).
func (s *Store) Node(key string) string {
	var node *redis.Client
	var err error
	switch c := s.rdb.(type) {
	case interface {
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}:
		if !s.answered.Load() {
			return "" // it would ask now where the slots are
		}
		node, err = c.MasterForKey(context.Background(), s.name(key))
	case interface {
		GetShardClientForKey(key string) (*redis.Client, error)
	}:
		node, err = c.GetShardClientForKey(s.name(key))
	}
	if err != nil || node == nil {
		return ""
	}
	return node.Options().Addr
}
