package peer

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/envoyproxy/ratelimit/src/config"
	"github.com/envoyproxy/ratelimit/src/provider"
	"github.com/envoyproxy/ratelimit/src/redis"
	"github.com/envoyproxy/ratelimit/src/server"
	ratelimit "github.com/envoyproxy/ratelimit/src/service"
	"github.com/envoyproxy/ratelimit/src/settings"
	"github.com/envoyproxy/ratelimit/src/stats"
	gostats "github.com/lyft/gostats"
	"github.com/sirupsen/logrus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
)

// document is for both: theirs has fixed windows, and ours has quotas. KIND stands where ours says
// so, which theirs does not know.
const document = `domain: shop
descriptors:
  - {key: second, rate_limit: {unit: second, requests_per_unit: 3 KIND}}
  - {key: minute, rate_limit: {name: per-minute, unit: minute, requests_per_unit: 5 KIND}}
  - {key: hour, rate_limit: {unit: hour, requests_per_unit: 7 KIND}}
  - {key: day, rate_limit: {unit: day, requests_per_unit: 9 KIND}}
  - {key: week, rate_limit: {unit: week, requests_per_unit: 9 KIND}}
  - {key: month, rate_limit: {unit: month, requests_per_unit: 9 KIND}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 11 KIND}}
  - {key: batch, rate_limit: {unit: minute, requests_per_unit: 12 KIND}}
  - {key: second, value: vip, rate_limit: {unit: second, requests_per_unit: 20 KIND}}
  - {key: second, value: bot*, rate_limit: {unit: second, requests_per_unit: 1 KIND}}
  - key: path
    value: /files/*
    share_threshold: true
    rate_limit: {unit: minute, requests_per_unit: 10 KIND}
  - {key: bucket, rate_limit: {unit: minute, requests_per_unit: 5}}
  - {key: load, rate_limit: {unit: hour, requests_per_unit: 1000000 KIND}}
  - {key: blocked, rate_limit: {unit: hour, requests_per_unit: 0}}
  - {key: free, rate_limit: {unlimited: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 2 KIND}}
  - key: better
    rate_limit: {unit: minute, requests_per_unit: 8, replaces: [{name: per-minute}] KIND}
  - key: tenant
    descriptors:
      - {key: user, rate_limit: {unit: minute, requests_per_unit: 4 KIND}}
      - {key: user, value: root, rate_limit: {unit: minute, requests_per_unit: 30 KIND}}
`

// clock is the time of theirs, in seconds since 1970.
type clock struct{ atomic.Int64 }

func (c *clock) UnixNow() int64 { return c.Load() }

// memory is a redis.Client of theirs, with the commands that it sends.
type memory struct {
	mu     sync.Mutex
	counts map[string]uint64 // names have the window in them
	todo   []func()
	gone   bool // it does not answer
}

func (m *memory) DoCmd(any, string, string, ...any) error { panic("not sent") }
func (m *memory) Close() error                            { return nil }
func (m *memory) NumActiveConns() int                     { return 1 }

func (m *memory) PipeAppend(
	p redis.Pipeline, to any, command, key string, args ...any,
) redis.Pipeline {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.todo = append(m.todo, func() {
		switch command {
		case "INCRBY":
			m.counts[key] += args[0].(uint64)
			*to.(*uint64) = m.counts[key]
		case "GET":
			*to.(*uint64) = m.counts[key]
		case "EXPIRE": // a window that is over is asked for no more
		default:
			panic(command)
		}
	})
	return append(p, redis.PipelineAction{Key: key})
}

// do is what PipeDo does, which has other arguments in newer versions.
func (m *memory) do() error {
	if m.gone {
		return redis.RedisError("connection refused")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, do := range m.todo {
		do()
	}
	m.todo = nil
	return nil
}

// once is a provider with one configuration.
type once chan provider.ConfigUpdateEvent

func (o once) ConfigUpdateEvent() <-chan provider.ConfigUpdateEvent { return o }
func (o once) Stop()                                                {}

type loaded struct{ config.RateLimitConfig }

func (l loaded) GetConfig() (config.RateLimitConfig, any) { return l.RateLimitConfig, nil }

func manager() stats.Manager {
	logrus.SetLevel(logrus.ErrorLevel)
	store := gostats.NewStore(gostats.NewNullSink(), false)
	return stats.NewStatManager(store, settings.NewSettings())
}

// theirs is theirsOf the document.
func theirs(client redis.Client, now *clock, stop bool) pb.RateLimitServiceServer {
	return theirsOf(strings.ReplaceAll(document, " KIND", ""), client, now, stop)
}

// theirsOf is the service of theirs. stop is its setting to leave the counters of a request alone
// that is over the limit of another one; by default it does not.
func theirsOf(
	text string, client redis.Client, now *clock, stop bool,
) pb.RateLimitServiceServer {
	m := manager()
	updates := make(once, 1)
	updates <- loaded{config.NewRateLimitConfigImpl([]config.RateLimitConfigToLoad{{
		Name: "shop", ConfigYaml: config.ConfigFileContentToYaml("shop", text),
	}}, m, false)}
	cache := redis.NewFixedRateLimitCacheImpl(client, nil, now, rand.New(rand.NewSource(1)), 0,
		nil, 0.8, "", m, stop)
	return ratelimit.NewService(cache, updates, m,
		server.NewHealthChecker(health.NewServer(), "ratelimit", false), now, false, false, false)
}

// documents is a source of one.
type documents string

func (d documents) Load(context.Context) ([]rules.Document, string, error) {
	return []rules.Document{{Name: "shop", Text: []byte(d)}}, "", nil
}

func (d documents) Wait(ctx context.Context, _ string) error {
	<-ctx.Done()
	return ctx.Err()
}

// caught is the implementation that is registered.
type caught struct{ pb.RateLimitServiceServer }

func (c *caught) RegisterService(_ *grpc.ServiceDesc, impl any) {
	c.RateLimitServiceServer = impl.(pb.RateLimitServiceServer)
}

// ours is oursOf the document, with quotas for their fixed windows.
func ours(t testing.TB, store hybrid.Store) pb.RateLimitServiceServer {
	return oursOf(t, store, strings.ReplaceAll(document, " KIND", ", kind: quota"))
}

// oursOf is our service. It ends with the test.
func oursOf(t testing.TB, store hybrid.Store, text string) pb.RateLimitServiceServer {
	silent := slog.New(slog.DiscardHandler)
	limiter, err := rules.New(store, documents(text), rules.Config{
		Limiter: hybrid.Config{SlogLogger: silent},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close(context.Background()) })
	var c caught
	envoy.New(limiter, envoy.Config{Log: silent}).Register(&c)
	return c
}

// say prints an answer.
func say(out *pb.RateLimitResponse, err error) string {
	if err != nil {
		return fmt.Sprintf("%v: %s", status.Code(err), status.Convert(err).Message())
	}
	words := []string{out.GetOverallCode().String()}
	for _, s := range out.GetStatuses() {
		words = append(words, line(s))
	}
	return strings.Join(words, "; ")
}

func line(s *pb.RateLimitResponse_DescriptorStatus) string {
	word := fmt.Sprintf("%v, %d left", s.GetCode(), s.GetLimitRemaining())
	if l := s.GetCurrentLimit(); l != nil {
		word += fmt.Sprintf(" of %d/%v %s", l.GetRequestsPerUnit(), l.GetUnit(), l.GetName())
	}
	if d := s.GetDurationUntilReset(); d != nil {
		seconds := d.GetSeconds()
		if d.GetNanos() > 0 {
			seconds++ // theirs has whole seconds
		}
		word += fmt.Sprintf(" for %d s", seconds)
	}
	return word
}
