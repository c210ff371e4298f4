// Package rlqs serves Envoy's rate limit quota service, envoy.service.rate_limit_quota.v3, over
// rules.
//
// An Envoy decides by itself, by a token bucket that it is assigned for a second or more, and
// tells each 5 s how many requests it has let through and denied. The limit is for all Envoys
// together: each has a part of it, by its demand.
//
// # Promise
//
// An assignment is paid before it is sent: the service takes from the limiter all that the Envoy
// can spend by it, whichever messages and reports are lost, and however late they are, up to half a
// second. So all Envoys together never admit a token that was not taken, and in any T seconds at
// most
//
//	Burst + Rate*T + A for each service, A = Burst/2 + Rate*(Life + 2 s) + 2 for each Envoy
//
// tokens of a bucket: what was taken in the T seconds, and what was alive or could come back at
// their beginning. Others whom the limiter serves are in the sum. docs/rlqs.md has what Envoy's own
// fallbacks add to it: what it does before it has an assignment, and after one has ended.
//
// It does not promise that each token is used. What an Envoy cannot spend any more comes back with
// its next report. It is lost if that is lost, if the Envoy goes away, or if so much was taken in
// its place that A has no room for it.
package rlqs

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc"

	"github.com/seed13b07268/ration/hybrid/rules"
)

const (
	// flight is how long a message may be on its way from here to an Envoy. One that takes longer
	// lets that Envoy spend its rate for longer, by as much.
	flight = 500 * time.Millisecond

	// tick is how often a bucket is looked at.
	tick = 250 * time.Millisecond

	// shortTick is that at least, of a bucket that is small for its rate.
	shortTick = 20 * time.Millisecond

	// Least is the least Config.Life, and the life of an assignment that has just changed: as the
	// tokens of all its life are paid before, a rate moves to another Envoy the sooner, the shorter
	// it is.
	Least = 2 * time.Second
)

// aliveMore is by how much longer than a life the rate may be bought ahead.
const aliveMore = 2 * time.Second

// mostMembers bounds how many buckets of all Envoys are served. More get no assignment.
const mostMembers = 100_000

// Config configures the service.
type Config struct {
	// Life is how long an assignment goes on at most without another message, in whole seconds
	// from Least to 1 min.
	Life time.Duration

	// Log is told, at level debug, why there was no assignment, and, at level warn and at most once
	// a minute, that there are too many buckets. Default: slog.Default().
	Log *slog.Logger
}

// Register serves limiter on a server of gRPC. Nothing of it runs when all streams have ended.
func Register(server grpc.ServiceRegistrar, limiter *rules.Limiter, c Config) {
	pb.RegisterRateLimitQuotaServiceServer(server, newService(limiter, c))
}

func newService(limiter *rules.Limiter, c Config) *service {
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &service{limiter: limiter, config: c, buckets: map[string]*bucket{}}
}

type service struct {
	pb.UnimplementedRateLimitQuotaServiceServer
	limiter *rules.Limiter
	config  Config
	orders  orders
	members atomic.Int64 // of all buckets
	warned  atomic.Int64 // when there were too many, in Unix seconds

	mu      sync.Mutex
	buckets map[string]*bucket // by nameOf
}

// tell gives a bucket a report. The first report begins it.
func (s *service) tell(domain string, id *pb.BucketId, r report) {
	name := nameOf(domain, id.GetBucket())
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.buckets[name]
	if b == nil {
		b = &bucket{
			service: s, name: name, domain: domain, id: id,
			wake: make(chan struct{}, 1), level: 1,
		}
		s.buckets[name] = b
		go b.run()
	}
	b.tell(r)
}

// gone tells all buckets that a stream has ended.
func (s *service) gone(x *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.buckets {
		b.tell(report{from: x, gone: true})
	}
}

// warn tells that there are too many buckets, at most once a minute.
func (s *service) warn(now time.Time) {
	last := s.warned.Load()
	if now.Unix()-last >= 60 && s.warned.CompareAndSwap(last, now.Unix()) {
		s.config.Log.Warn("rlqs: Envoys have too many buckets: others get no assignment", "most", mostMembers)
	}
}

// ended forgets a bucket, unless something has been told to it meanwhile.
func (s *service) ended(b *bucket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(b.inbox) > 0 {
		return false
	}
	delete(s.buckets, b.name)
	return true
}
