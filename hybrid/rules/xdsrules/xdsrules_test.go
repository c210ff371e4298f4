package xdsrules_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	pb "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/xdsrules"
)

// A plane is a control plane of go-control-plane, over connections in memory.
type plane struct {
	cache    cache.SnapshotCache
	conn     *grpc.ClientConn
	requests chan *discovery.DiscoveryRequest // of clients: acks and nacks
	stop     func()
}

func newPlane(t testing.TB) *plane {
	t.Helper()
	p := &plane{
		cache:    cache.NewSnapshotCache(true, cache.IDHash{}, nil),
		requests: make(chan *discovery.DiscoveryRequest, 100),
	}
	ctx, cancel := context.WithCancel(context.Background())
	serves := server.NewServer(ctx, p.cache, server.CallbackFuncs{
		StreamRequestFunc: func(_ int64, r *discovery.DiscoveryRequest) error {
			p.requests <- r
			return nil
		},
	})
	listener, s := bufconn.Listen(1<<20), grpc.NewServer()
	discovery.RegisterAggregatedDiscoveryServiceServer(s, serves)
	go s.Serve(listener)
	conn, err := grpc.NewClient("passthrough:", grpc.WithTransportCredentials(
		insecure.NewCredentials()), grpc.WithContextDialer(
		func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	must(t, err)
	p.conn, p.stop = conn, func() { cancel(); s.Stop() }
	t.Cleanup(func() { p.conn.Close(); p.stop() })
	return p
}

// send gives the fleet "default" another state.
func (p *plane) send(t testing.TB, version string, configs ...*pb.RateLimitConfig) {
	t.Helper()
	list := make([]types.Resource, len(configs))
	for i, c := range configs {
		list[i] = c
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{
		resource.RateLimitConfigType: list,
	})
	must(t, err)
	must(t, p.cache.SetSnapshot(t.Context(), "default", snapshot))
}

// acked waits for the ack of a version.
func (p *plane) acked(t testing.TB, version string) {
	t.Helper()
	p.answer(t, func(r *discovery.DiscoveryRequest) bool {
		return r.GetErrorDetail() == nil && r.GetVersionInfo() == version
	})
}

// answer is the next request of the client that is so.
func (p *plane) answer(
	t testing.TB, so func(*discovery.DiscoveryRequest) bool,
) *discovery.DiscoveryRequest {
	t.Helper()
	for {
		select {
		case r := <-p.requests:
			if so(r) {
				return r
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the control plane has no answer")
		}
	}
}

func nacked(r *discovery.DiscoveryRequest) bool { return r.GetErrorDetail() != nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shop has rules for users, so many requests a day for each.
func shop(users int, requests uint32) *pb.RateLimitConfig {
	c := &pb.RateLimitConfig{Name: "shop", Domain: "shop"}
	for i := range users {
		c.Descriptors = append(c.Descriptors, &pb.RateLimitDescriptor{
			Key: "user", Value: fmt.Sprint(i), RateLimit: &pb.RateLimitPolicy{
				Unit: pb.RateLimitUnit_YEAR, RequestsPerUnit: requests,
			},
		})
	}
	return c
}

func newSource(t testing.TB, p *plane, file string) *xdsrules.Source {
	t.Helper()
	source, err := xdsrules.New(p.conn, xdsrules.Config{
		File: file, Log: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	t.Cleanup(func() { must(t, source.Close()) })
	return source
}

func newLimiter(t testing.TB, source rules.Source) *rules.Limiter {
	t.Helper()
	l, err := rules.New(hybrid.NewMemory(), source, rules.Config{
		Empty: true, Limiter: hybrid.Config{SlogLogger: slog.New(slog.DiscardHandler)},
	})
	must(t, err)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	return l
}

// TestChange: a control plane changes 1,000 rules under load. All are acknowledged, none is
// refilled, and none is lost. On an idle machine the change is in force within a second: the test
// tells.
func TestChange(t *testing.T) {
	const users = 1000
	p := newPlane(t)
	p.send(t, "1", shop(users, 5))
	l := newLimiter(t, newSource(t, p, ""))
	p.acked(t, "1")
	take := func(user int) bool {
		r, err := l.Take(t.Context(), "shop", rules.Of("user", fmt.Sprint(user)))
		must(t, err)
		return r.Allowed
	}
	for range 3 {
		for user := range users {
			if !take(user) {
				t.Fatalf("user %d is denied", user)
			}
		}
	}
	p.send(t, "2", shop(users, 4))
	sent := time.Now()
	p.acked(t, "2")
	for l.Stats().Source.Changes < 2 { // requests go on meanwhile, of others
		take(users)
		time.Sleep(time.Millisecond) // Stats of 1,000 rules cost some
		if time.Since(sent) > 10*time.Second {
			t.Fatal("the change is not in force")
		}
	}
	t.Logf("the change was in force after %v", time.Since(sent))
	if d, _ := l.Rules().Domain("shop"); len(d.Rules) != users {
		t.Errorf("%d rules", len(d.Rules))
	}
	for user := range users {
		yes := 0
		for range 3 {
			if take(user) {
				yes++
			}
		}
		// The keys in use go by the new limit within MaxRefresh, so that it may be 5 still.
		if yes < 1 || yes > 2 || take(user) {
			t.Fatalf("user %d: %d of 3 are admitted after 3 of 5, now 4", user, yes)
		}
	}
}

// TestRefused: what is no valid rules is refused with its mistakes, the rules before stay, and
// Stats tell. Better ones heal it. A state without documents is refused, too: a domain without
// descriptors lifts its limits.
func TestRefused(t *testing.T) {
	p := newPlane(t)
	p.send(t, "1", shop(1, 5))
	source := newSource(t, p, "")
	l := newLimiter(t, source)
	p.acked(t, "1")
	bad := shop(1, 5)
	bad.Descriptors[0].Key = ""
	p.send(t, "2", bad)
	nack := p.answer(t, nacked)
	if nack.GetVersionInfo() != "1" || !strings.Contains(nack.GetErrorDetail().GetMessage(),
		"xds shop:3:7: descriptors[0]: the key is missing") {
		t.Errorf("%v", nack)
	}
	until(t, func() bool {
		err := l.Stats().Source.Err
		return err != nil && strings.Contains(err.Error(), "the key is missing")
	})
	if d, _ := l.Rules().Domain("shop"); len(d.Rules) != 1 {
		t.Errorf("%+v", d)
	}
	p.send(t, "3", shop(2, 5))
	p.acked(t, "3")
	until(t, func() bool {
		d, _ := l.Rules().Domain("shop")
		return len(d.Rules) == 2 && l.Stats().Source.Err == nil
	})
	p.send(t, "4")
	nack = p.answer(t, nacked)
	if nack.GetVersionInfo() != "3" ||
		!strings.Contains(nack.GetErrorDetail().GetMessage(), "no document at all") {
		t.Errorf("%v", nack)
	}
	if d, _ := l.Rules().Domain("shop"); len(d.Rules) != 2 {
		t.Errorf("%+v", d)
	}
	p.send(t, "5", &pb.RateLimitConfig{Name: "shop", Domain: "shop"})
	p.acked(t, "5")
	until(t, func() bool {
		d, _ := l.Rules().Domain("shop")
		return len(d.Rules) == 0 && l.Stats().Source.Err == nil
	})
}

func until(t *testing.T, what func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !what(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never was")
		}
	}
}

// TestRestart: the last good rules are in force without the control plane. Stats tell that they may
// be old, and when it is there again its rules are.
func TestRestart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "last.pb")
	p := newPlane(t)
	p.send(t, "1", shop(3, 5))
	source := newSource(t, p, file)
	l := newLimiter(t, source)
	p.acked(t, "1")
	bad := shop(1, 5)
	bad.Domain = ""
	p.send(t, "2", bad)
	p.answer(t, nacked)
	p.stop()
	until(t, func() bool { return l.Stats().Source.Err != nil })

	away := newPlane(t) // has nothing to send
	again := newLimiter(t, newSource(t, away, file))
	if d, _ := again.Rules().Domain("shop"); len(d.Rules) != 3 {
		t.Errorf("%+v", d)
	}
	until(t, func() bool { return again.Stats().Source.Err != nil })
	away.send(t, "1", shop(4, 5))
	until(t, func() bool {
		d, _ := again.Rules().Domain("shop")
		return len(d.Rules) == 4 && again.Stats().Source.Err == nil
	})
}

// TestRestartToNothing: a control plane that has lost its state lifts no limits, and what it sends
// first after a restart does not, either.
func TestRestartToNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "last.pb")
	p := newPlane(t)
	p.send(t, "1", shop(3, 5))
	newSource(t, p, file)
	p.acked(t, "1")
	p.send(t, "2")
	p.answer(t, nacked)
	for range 2 {
		lost := newPlane(t)
		lost.send(t, "1")
		again := newLimiter(t, newSource(t, lost, file))
		lost.answer(t, nacked)
		if d, _ := again.Rules().Domain("shop"); len(d.Rules) != 3 {
			t.Errorf("%+v", d)
		}
	}
	// Where there never was a rule, nothing is a state as any other, and it is not kept.
	empty, kept := newPlane(t), filepath.Join(t.TempDir(), "last.pb")
	empty.send(t, "1")
	newLimiter(t, newSource(t, empty, kept))
	empty.acked(t, "1")
	if _, err := os.Stat(kept); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing is kept: %v", err)
	}
}

// TestBadFile: a File without valid rules is as none, and logged: Load waits for the control plane,
// whose rules come into force.
func TestBadFile(t *testing.T) {
	bad, err := anypb.New(&pb.RateLimitConfig{Name: "no domain"})
	must(t, err)
	refused, err := proto.Marshal(&discovery.DiscoveryResponse{Resources: []*anypb.Any{bad}})
	must(t, err)
	for name, text := range map[string]string{"empty": "", "damaged": "\xff", "refused": string(refused)} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "last.pb")
			must(t, os.WriteFile(file, []byte(text), 0o600))
			p := newPlane(t)
			var log strings.Builder
			source, err := xdsrules.New(p.conn, xdsrules.Config{
				File: file, Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			must(t, err)
			if !strings.Contains(log.String(), "the file has no valid ones") { // New has ended
				t.Errorf("the log: %s", log.String())
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if docs, _, err := source.Load(ended); err == nil {
				t.Errorf("there are rules before there is anything: %v", docs)
			}
			p.send(t, "1", shop(2, 5))
			if d, _ := newLimiter(t, source).Rules().Domain("shop"); len(d.Rules) != 2 {
				t.Errorf("%+v", d)
			}
			p.acked(t, "1")
			must(t, source.Close())
		})
	}
	if _, err := xdsrules.New(newPlane(t).conn, xdsrules.Config{File: t.TempDir()}); err == nil {
		t.Error("a folder is a File")
	}
}

// A told calls f at each line of a log.
type told func(line string)

func (f told) Write(line []byte) (int, error) {
	f(string(line))
	return len(line), nil
}

// TestKeepsLast: rules are in force before they are kept, as that may take long.
func TestKeepsLast(t *testing.T) {
	p := newPlane(t)
	p.send(t, "1", shop(2, 5))
	begun, loaded := make(chan *xdsrules.Source, 1), make(chan error, 1)
	source, err := xdsrules.New(p.conn, xdsrules.Config{
		File: filepath.Join(t.TempDir(), "no folder", "last.pb"),
		Log: slog.New(slog.NewTextHandler(told(func(line string) {
			if strings.Contains(line, "will not know") {
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_, _, err := (<-begun).Load(ended)
				loaded <- err
			}
		}), nil)),
	})
	must(t, err)
	begun <- source
	must(t, <-loaded)
	p.acked(t, "1")
	must(t, source.Close())
}

// TestDocument: each field of the protocol means what it means in a file.
func TestDocument(t *testing.T) {
	metadata, err := structpb.NewStruct(map[string]any{"backend": "one"})
	must(t, err)
	p := newPlane(t)
	p.send(t, "1", &pb.RateLimitConfig{Name: "all", Domain: "d", Descriptors: []*pb.RateLimitDescriptor{
		{Key: "a", Value: "/api/*/admin", RateLimit: &pb.RateLimitPolicy{
			Unit: pb.RateLimitUnit_MINUTE, RequestsPerUnit: 5, Name: "n",
			Replaces: []*pb.RateLimitReplace{{Name: "m"}},
		}, QuotaMode: true, Metadata: metadata, DetailedMetric: true},
		{Key: "b", Value: "true", Descriptors: []*pb.RateLimitDescriptor{{Key: "c", ShadowMode: true,
			RateLimit: &pb.RateLimitPolicy{Unit: pb.RateLimitUnit_SECOND}}}},
		{Key: "e", RateLimit: &pb.RateLimitPolicy{Unlimited: true, RequestsPerUnit: 7}},
		{Key: "f"},
	}})
	l := newLimiter(t, newSource(t, p, ""))
	d, _ := l.Rules().Domain("d")
	var has []string
	for _, r := range d.Rules {
		has = append(has, r.String())
	}
	const want = `a=/api/*/admin: 5/minute, quota mode, name "n", replaces ["m"], metadata map[backend:one]
b=true,c: 0/second, shadow
e: unlimited`
	if text := strings.Join(has, "\n"); text != want {
		t.Errorf("%s\nnot\n%s", text, want)
	}
}
