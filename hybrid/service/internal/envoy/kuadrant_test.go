package envoy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy/kuadrantv1"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

// models are those of a tenant: 1000 tokens a year for each, and 1500 for all of them.
const models = `domain: llm
descriptors:
  - key: model
    rate_limit: {unit: year, requests_per_unit: 1000}
  - key: tenant
    rate_limit: {unit: year, requests_per_unit: 1500}
`

// twoDomains is a Source of models, and of the same rules for the domain other.
type twoDomains struct{ fixed }

func (d twoDomains) Load(context.Context) ([]rules.Document, string, error) {
	other := strings.Replace(string(d.fixed), "llm", "other", 1)
	return []rules.Document{
		{Name: "llm.yaml", Text: []byte(d.fixed)}, {Name: "other.yaml", Text: []byte(other)},
	}, "1", nil
}

// A kuadrant calls replicas that share the store of tokens and of holds.
type kuadrant struct {
	*testing.T
	replicas []*envoy.Kuadrant
	services []*envoy.Service // for Envoy, of the same replicas
}

// playKuadrant plays a test in virtual time.
func playKuadrant(t *testing.T, play func(g kuadrant)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer synctest.Wait()
		defer cancel()
		tokens, open := hybrid.NewMemory(), holds.NewMemory()
		quiet := slog.New(slog.DiscardHandler)
		g := kuadrant{T: t}
		for range 2 {
			l, err := rules.New(tokens, twoDomains{models}, rules.Config{
				Limiter: hybrid.Config{SlogLogger: quiet},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close(context.Background())
			k, err := reservations.New(reservations.Real{Limiter: l}, open, quiet)
			if err != nil {
				t.Fatal(err)
			}
			go k.Run(ctx)
			s := envoy.New(l, envoy.Config{Log: quiet})
			g.services = append(g.services, s)
			g.replicas = append(g.replicas, envoy.NewKuadrant(s, k))
		}
		play(g)
	})
}

// of are the descriptors of a model and a tenant.
func of(model string) []*ratelimit.RateLimitDescriptor {
	one := func(key, value string) *ratelimit.RateLimitDescriptor {
		return &ratelimit.RateLimitDescriptor{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: key, Value: value}},
		}
	}
	return []*ratelimit.RateLimitDescriptor{one("model", model), one("tenant", "ann")}
}

func (g kuadrant) reserve(replica int, model string, amount uint64, ttl time.Duration) (
	string, bool,
) {
	g.Helper()
	out, err := g.replicas[replica].Reserve(g.Context(), &kuadrantv1.ReserveRequest{
		Domain: "llm", Descriptors: of(model), Amount: amount, Ttl: durationpb.New(ttl),
	})
	if err != nil {
		g.Fatal(err)
	}
	return out.GetReservationId(), out.GetCode() == pb.RateLimitResponse_OK
}

func (g kuadrant) commit(replica int, model, id string, amount uint64) (released bool, _ error) {
	out, err := g.replicas[replica].Commit(g.Context(), &kuadrantv1.CommitRequest{
		Domain: "llm", Descriptors: of(model), ReservationId: id, ActualAmount: amount,
	})
	g.settle()
	return out.GetReservationReleased(), err
}

// settle lets time pass until each replica knows.
func (g kuadrant) settle() {
	time.Sleep(holds.Poll)
	synctest.Wait()
}

func (g kuadrant) check(replica int, model string) bool {
	g.Helper()
	out, err := g.replicas[replica].CheckRateLimit(g.Context(), &pb.RateLimitRequest{
		Domain: "llm", Descriptors: of(model),
	})
	if err != nil {
		g.Fatal(err)
	}
	return out.GetOverallCode() == pb.RateLimitResponse_OK
}

// left is how many tokens of a model can be reserved at once.
func (g kuadrant) left(model string) (n uint64) {
	for step := uint64(1024); step > 0; step /= 2 {
		id, ok := g.reserve(0, model, n+step, time.Minute)
		if !ok {
			continue
		}
		n += step
		if released, err := g.commit(0, model, id, 0); err != nil || !released {
			g.Fatal(released, err)
		}
	}
	return n
}

// TestKuadrant: what one replica reserves another one commits, once for as long as the store of
// holds remembers it. What is not used comes back.
func TestKuadrant(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		id, ok := g.reserve(0, "large", 700, time.Minute)
		if !ok || id == "" {
			g.Fatal(id, ok)
		}
		if again, ok := g.reserve(1, "large", 700, time.Minute); ok || again != "" {
			g.Error("1400 of 1000 tokens are reserved")
		}
		for range 2 { // the second is a repeat
			if released, err := g.commit(1, "large", id, 100); err != nil || !released {
				g.Fatal(released, err)
			}
		}
		if n := g.left("large"); n != 900 {
			g.Errorf("%d tokens are left after a job of 100", n)
		}
		if _, err := g.commit(0, "large", id, 300); status.Code(err) != codes.FailedPrecondition {
			g.Errorf("another amount: %v", err)
		}
		if n := g.left("large"); n != 900 {
			g.Errorf("%d tokens are left after a commit that was refused", n)
		}
		time.Sleep(holds.Kept)
		if released, err := g.commit(1, "large", id, 100); err != nil || released {
			g.Error(released, err)
		}
		if n := g.left("large"); n != 800 {
			g.Errorf("%d tokens are left after a commit that came when nobody remembered the first", n)
		}
	})
}

// TestKuadrantReports: what is reported counts, whether it fits or not, and is a debt of the model
// and of the tenant. Without an amount Reserve only looks.
func TestKuadrantReports(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		if id, ok := g.reserve(0, "large", 0, time.Minute); !ok || id != "" {
			g.Errorf("of nothing: %q, %v", id, ok)
		}
		if released, err := g.commit(0, "large", "", 900); err != nil || released {
			g.Error(released, err)
		}
		if !g.check(1, "large") {
			g.Error("100 tokens are left, and none is allowed")
		}
		if _, err := g.replicas[1].Report(g.Context(), &pb.RateLimitRequest{
			Domain: "llm", Descriptors: of("large"), HitsAddend: 300,
		}); err != nil {
			g.Error(err)
		}
		g.settle()
		if g.check(0, "large") {
			g.Error("1200 of 1000 tokens are used, and one is allowed")
		}
		if _, ok := g.reserve(0, "large", 0, time.Minute); ok {
			g.Error("1200 of 1000 tokens are used, and Reserve allows")
		}
		if n := g.left("small"); n != 300 {
			g.Errorf("%d of the tenant's tokens are left", n)
		}
	})
}

// TestKuadrantRefunds: a report of negative hits gives back what was just reported, also beside one
// that counts, and one of 0 changes nothing.
func TestKuadrantRefunds(t *testing.T) {
	for _, scene := range []struct {
		model, tenant int64 // hits of the second report; negative ones come back
		left          uint64
	}{{0, 0, 500}, {-200, -200, 700}, {-200, 100, 700}, {100, -200, 400}} {
		playKuadrant(t, func(g kuadrant) {
			report := func(model, tenant int64) {
				descriptors := of("large")
				for i, n := range []int64{model, tenant} {
					descriptors[i].HitsAddend = wrapperspb.UInt64(uint64(max(n, -n)))
					descriptors[i].IsNegativeHits = n < 0
				}
				if _, err := g.replicas[0].Report(g.Context(), &pb.RateLimitRequest{
					Domain: "llm", Descriptors: descriptors,
				}); err != nil {
					g.Fatal(err)
				}
			}
			report(500, 500)
			report(scene.model, scene.tenant)
			if n := g.left("large"); n != scene.left {
				g.Errorf("%+v: %d tokens are left", scene, n)
			}
		})
	}
}

// TestKuadrantLooks: a look makes no debts of hits that another gateway asks for by Envoy's
// protocol.
func TestKuadrantLooks(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		g.check(0, "small")
		g.reserve(0, "small", 0, time.Minute)
		hits := func(n uint32) pb.RateLimitResponse_Code {
			g.Helper()
			out, err := g.services[0].ShouldRateLimit(g.Context(), &pb.RateLimitRequest{
				Domain: "llm", Descriptors: of("large")[:1], HitsAddend: n,
			})
			if err != nil {
				g.Fatal(err)
			}
			return out.GetOverallCode()
		}
		hits(700)
		if code := hits(600); code != pb.RateLimitResponse_OVER_LIMIT {
			g.Errorf("600 of 300 tokens: %v", code)
		}
		if code := hits(300); code != pb.RateLimitResponse_OK {
			g.Errorf("300 of 300 tokens after a denial: %v", code)
		}
	})
}

// TestKuadrantExpiry: what nobody commits in time is not used. A commit that comes later counts,
// and so does its repeat.
func TestKuadrantExpiry(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		id, _ := g.reserve(0, "large", 700, 2*time.Second)
		time.Sleep(2*time.Second + 2*holds.Poll)
		synctest.Wait()
		if n := g.left("large"); n != 1000 {
			g.Errorf("%d tokens are left after a job that nobody committed", n)
		}
		for _, want := range []uint64{700, 400} { // a repeat counts again
			if released, err := g.commit(1, "large", id, 300); err != nil || released {
				g.Error(released, err)
			}
			if n := g.left("large"); n != want {
				g.Errorf("%d tokens are left after a late job of 300, not %d", n, want)
			}
		}
	})
}

// TestKuadrantRoom: where nothing is limited there are no reservations, however many are asked for,
// and those of a limit have room beside them.
func TestKuadrantRoom(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		free := []*ratelimit.RateLimitDescriptor{{
			Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: "user", Value: "ann"}},
		}}
		for i := range 1001 { // more than a domain may have
			for _, in := range []*kuadrantv1.ReserveRequest{
				{Domain: "llm", Descriptors: free, Amount: 1},
				{Domain: fmt.Sprint("nobody", i%2), Descriptors: of("large"), Amount: 1},
			} {
				out, err := g.replicas[0].Reserve(g.Context(), in)
				if err != nil || out.GetCode() != pb.RateLimitResponse_OK || out.GetReservationId() != "" {
					g.Fatalf("%d of domain %s: %v %v", i, in.GetDomain(), out, err)
				}
			}
		}
		if id, ok := g.reserve(0, "large", 700, time.Minute); id == "" || !ok {
			g.Error("no tokens of a limit are reserved")
		}
	})
}

// TestKuadrantRoomOfClient: a client has room for 1,000 reservations at a replica, also by several
// domains. Another client has room beside it; an address of its network of IPv6 has not.
func TestKuadrantRoomOfClient(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		reserve := func(from, domain string) codes.Code {
			ctx := peer.NewContext(g.Context(), &peer.Peer{
				Addr: net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from)),
			})
			_, err := g.replicas[0].Reserve(ctx, &kuadrantv1.ReserveRequest{
				Domain: domain, Descriptors: of("large")[:1], Amount: 1,
			})
			return status.Code(err)
		}
		for i := range 1000 {
			if code := reserve("[2001:db8::1]:7", []string{"llm", "other"}[i%2]); code != codes.OK {
				g.Fatal(i, code)
			}
		}
		for from, want := range map[string]codes.Code{
			"[2001:db8::1]:8": codes.ResourceExhausted, "[2001:db8::2]:7": codes.ResourceExhausted,
			"[2001:db8:0:1::1]:7": codes.OK, "10.0.0.1:7": codes.OK,
		} {
			for _, domain := range []string{"llm", "other"} {
				if code := reserve(from, domain); code != want {
					g.Errorf("%s, domain %s: %v, not %v", from, domain, code, want)
				}
			}
		}
	})
}

// TestKuadrantMistakes: each has its code, and takes nothing.
func TestKuadrantMistakes(t *testing.T) {
	playKuadrant(t, func(g kuadrant) {
		k := g.replicas[0]
		reserve := func(domain string, amount uint64, ttl *durationpb.Duration) error {
			_, err := k.Reserve(g.Context(), &kuadrantv1.ReserveRequest{
				Domain: domain, Descriptors: of("large"), Amount: amount, Ttl: ttl,
			})
			return err
		}
		id, _ := g.reserve(0, "large", 1, time.Hour)
		_, numbers := k.Commit(g.Context(), &kuadrantv1.CommitRequest{
			Domain: "llm", Descriptors: of("large")[:1], ReservationId: id, ActualAmount: 1,
		})
		commit := func(domain, id string) error {
			_, err := k.Commit(g.Context(), &kuadrantv1.CommitRequest{
				Domain: domain, Descriptors: of("large"), ReservationId: id, ActualAmount: 1,
			})
			return err
		}
		negative := of("large")
		negative[1].IsNegativeHits = true
		_, back := k.Reserve(g.Context(), &kuadrantv1.ReserveRequest{
			Domain: "llm", Descriptors: negative, Amount: 1,
		})
		_, empty := k.CheckRateLimit(g.Context(), &pb.RateLimitRequest{Domain: "llm"})
		_, report := k.Report(g.Context(), &pb.RateLimitRequest{Descriptors: of("large")})
		for name, err := range map[string]error{
			"no domain":     reserve("", 1, nil),
			"a long amount": reserve("llm", math.MaxUint64, nil),
			"no time":       reserve("llm", 1, durationpb.New(0)),
			"time back":     reserve("llm", 1, durationpb.New(-time.Second)),
			"no real time":  reserve("llm", 1, &durationpb.Duration{Nanos: -1, Seconds: 1}),
			"a long domain": reserve(strings.Repeat("d", 257), 1, nil),
			"a late domain": commit(strings.Repeat("d", 257), id),
			"a long id":     commit("llm", strings.Repeat("i", 129)),
			"negative hits": back, "numbers": numbers, "nothing to check": empty, "report without a domain": report,
		} {
			if status.Code(err) != codes.InvalidArgument {
				g.Errorf("%s: %v", name, err)
			}
		}
		if err := reserve("llm", 1, nil); err != nil {
			g.Error(err)
		}
		if n := g.left("large"); n != 998 {
			g.Errorf("%d tokens are left", n)
		}
	})
}

// noHolds is a Store of holds that does not answer.
type noHolds struct{}

func (noHolds) Do(context.Context, holds.Batch) (holds.Reply, error) {
	return holds.Reply{}, errors.New("secret: 192.0.2.1 is away")
}

// TestKuadrantAway: without the store of holds nothing is reserved, and the error names nobody.
func TestKuadrantAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		quiet := slog.New(slog.DiscardHandler)
		l, err := rules.New(hybrid.NewMemory(), fixed(models), rules.Config{
			Limiter: hybrid.Config{SlogLogger: quiet},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close(context.Background())
		keeper, err := reservations.New(reservations.Real{Limiter: l}, noHolds{}, quiet)
		if err != nil {
			t.Fatal(err)
		}
		k := envoy.NewKuadrant(envoy.New(l, envoy.Config{Log: quiet}), keeper)
		_, reserve := k.Reserve(t.Context(), &kuadrantv1.ReserveRequest{
			Domain: "llm", Descriptors: of("large"), Amount: 10,
		})
		_, commit := k.Commit(t.Context(), &kuadrantv1.CommitRequest{
			Domain: "llm", Descriptors: of("large"), ReservationId: "a", ActualAmount: 10,
		})
		for _, err := range []error{reserve, commit} {
			if fmt.Sprint(err) != "rpc error: code = Unavailable desc = the store did not answer" {
				t.Error(err)
			}
		}
		synctest.Wait()
		if d, err := l.Peek(t.Context(), "llm", rules.Descriptor{
			Entries: []rules.Entry{{Key: "model", Value: "large"}},
		}); err != nil || d.Each[0].Decision.Remaining != 1000 {
			t.Error(d, err)
		}
	})
}
