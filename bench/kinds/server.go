package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/bench/netem"
	"github.com/seed13b07268/ration/remote/redistest/redisserver"
)

// A server is a process of redis-server, or of what RATION_SERVER names, with a far end.
type server struct {
	process *redisserver.Server
	far     *netem.Proxy
	client  *redis.Client // near
}

// added is what the way to the far end adds to a round trip.
const added = 5 * time.Millisecond

func startServer() (*server, error) {
	process, err := redisserver.Start(redisserver.Program())
	if err != nil {
		return nil, err
	}
	s := &server{process: process, client: newClient(process.Addr)}
	if s.far, err = netem.Start(process.Addr, added/2); err != nil {
		s.stop()
		return nil, err
	}
	return s, nil
}

func (s *server) stop() {
	if s.far != nil {
		s.far.Close()
	}
	s.client.Close()
	s.process.Kill()
}

// addr is where limiters find it.
func (s *server) addr(place string) string {
	if place == far {
		return s.far.Addr
	}
	return s.process.Addr
}

func (s *server) version() (string, error) {
	info, err := s.client.InfoMap(context.Background(), "server").Result()
	if err != nil {
		return "", fmt.Errorf("INFO: %w", err)
	}
	if v := info["Server"]["valkey_version"]; v != "" {
		return "Valkey " + v, nil
	}
	return "Redis " + info["Server"]["redis_version"], nil
}

// roundTrip is the median of PINGs.
func (s *server) roundTrip(ctx context.Context, place string) (time.Duration, error) {
	client := newClient(s.addr(place))
	defer client.Close()
	var took []time.Duration
	for range 100 {
		start := time.Now()
		if err := client.Ping(ctx).Err(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// calls is how many calls clients have made for limits: scripts, and the removals of the
// semaphore, which no script makes.
func (s *server) calls() (calls float64, err error) {
	info, err := s.client.InfoMap(context.Background(), "commandstats").Result()
	if err != nil {
		return 0, fmt.Errorf("INFO: %w", err)
	}
	for _, command := range []string{"evalsha", "zrem"} {
		var n float64
		// It is absent before the first.
		_, _ = fmt.Sscanf(info["Commandstats"]["cmdstat_"+command], "calls=%g", &n)
		calls += n
	}
	return calls, nil
}

// bytes is the MEMORY USAGE of all that is kept of users' keys.
func (s *server) bytes() (bytes float64, err error) {
	ctx := context.Background()
	names, err := s.client.Keys(ctx, "*"+keyPrefix+"*").Result()
	if err != nil {
		return 0, err
	}
	pipe := s.client.Pipeline()
	sizes := make([]*redis.IntCmd, len(names))
	for i, name := range names {
		sizes[i] = pipe.MemoryUsage(ctx, name, 0)
	}
	if _, err := pipe.Exec(ctx); err != nil && !errors.Is(err, redis.Nil) { // some may have gone
		return 0, err
	}
	for _, size := range sizes {
		bytes += float64(size.Val())
	}
	return bytes, nil
}
