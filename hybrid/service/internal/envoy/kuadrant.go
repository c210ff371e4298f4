package envoy

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/envoy/kuadrantv1"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// usualTTL is how long a reservation lasts that says nothing, as in Limitador.
const usualTTL = time.Minute

// Kuadrant serves kuadrant.service.ratelimit.v1 as Limitador does: a check and a report, or a
// reservation and its cost. Any replica commits what another one has reserved.
type Kuadrant struct {
	kuadrantv1.UnimplementedRateLimitServiceServer
	service *Service
	keeper  *reservations.Keeper
}

// NewKuadrant returns it, with a Keeper whose Run is called elsewhere.
func NewKuadrant(s *Service, k *reservations.Keeper) *Kuadrant {
	return &Kuadrant{service: s, keeper: k}
}

// Register serves on a server of gRPC.
func (k *Kuadrant) Register(server grpc.ServiceRegistrar) {
	kuadrantv1.RegisterRateLimitServiceServer(server, k)
}

// CheckRateLimit says whether all descriptors have a token left, and takes nothing. It blocks as
// ShouldRateLimit does.
func (k *Kuadrant) CheckRateLimit(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	var r request
	if err := r.read(in); err != nil {
		return nil, err
	}
	result, err := k.look(ctx, &r)
	if err != nil {
		return nil, k.service.fail(ctx, err)
	}
	return k.service.answer(&r, result), nil
}

// look looks at all descriptors with 0 hits. Unlike a look of Envoy's it makes no reports of the
// hits that come later: Kuadrant's costs have calls of their own (TestKuadrantLooks).
func (k *Kuadrant) look(ctx context.Context, r *request) (rules.Result, error) {
	for i := range r.descriptors {
		r.descriptors[i].Hits, r.verbs[i] = 0, look
	}
	result, _, err := k.service.peek(ctx, r)
	return result, err
}

// Report counts the hits, whether they fit or not; what does not fit is a debt. Negative hits come
// back, as far as ShouldRateLimit gives them back. It blocks as ShouldRateLimit does.
func (k *Kuadrant) Report(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	var r request
	if err := r.read(in); err != nil {
		return nil, err
	}
	if err := k.report(ctx, &r); err != nil {
		return nil, k.service.fail(ctx, err)
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK}, nil
}

func (k *Kuadrant) report(ctx context.Context, r *request) error {
	explained, err := k.service.limiter.Rules().Explain(r.domain, r.descriptors...)
	if err == nil {
		err = k.service.refund(r)
	}
	var used []rules.Descriptor
	for i, e := range explained {
		if d := r.descriptors[i]; r.verbs[i] == take && e.State != rules.Replaced {
			d.Used = true
			used = append(used, d)
		}
	}
	if err != nil || used == nil {
		return err
	}
	_, err = k.service.limiter.Take(ctx, r.domain, used...)
	return err
}

// Reserve takes the amount of all descriptors or of none. It lasts for ttl, at most for
// holds.MaxLife; if nobody commits it by then, nothing was used. Where no limit is in force nothing
// is reserved: a replica has room for so many reservations (TestKuadrantRoom). It blocks as
// ShouldRateLimit and the store of holds do.
func (k *Kuadrant) Reserve(
	ctx context.Context, in *kuadrantv1.ReserveRequest,
) (*kuadrantv1.ReserveResponse, error) {
	r, err := readAmount(&pb.RateLimitRequest{
		Domain: in.GetDomain(), Descriptors: in.GetDescriptors(),
	}, "amount", in.GetAmount())
	if err != nil {
		return nil, err
	}
	ttl := usualTTL
	if in.GetTtl() != nil {
		ttl = min(in.GetTtl().AsDuration(), holds.MaxLife)
	}
	if in.GetTtl().CheckValid() != nil && in.GetTtl() != nil || ttl <= 0 {
		return nil, invalid("ttl %v is not above 0", in.GetTtl())
	}
	limited, err := k.limited(r)
	if err != nil {
		return nil, k.service.fail(ctx, err)
	}
	if in.GetAmount() == 0 || !limited {
		result, err := k.look(ctx, r)
		if err != nil {
			return nil, k.service.fail(ctx, err)
		}
		return &kuadrantv1.ReserveResponse{Code: codeOf(result.Allowed)}, nil
	}
	hold, err := k.keeper.Reserve(ctx, reservations.Order{
		Owner: ownerOf(r.domain), Client: clientOf(ctx),
		Content: reservations.Content{
			Domain: r.domain, Asks: r.descriptors, TTL: int(math.Ceil(ttl.Seconds())),
		},
	}, func(rules.Result, int) (string, error) { return "", nil })
	if err != nil {
		return nil, k.fail(ctx, err)
	}
	return &kuadrantv1.ReserveResponse{
		Code: codeOf(hold.ID != ""), ReservationId: hold.ID,
	}, nil
}

// limited reports whether a limit is in force for a descriptor.
func (k *Kuadrant) limited(r *request) (bool, error) {
	explained, err := k.service.limiter.Rules().Explain(r.domain, r.descriptors...)
	return slices.ContainsFunc(explained, func(e rules.Explanation) bool {
		return e.State == rules.Limited
	}), err
}

// Commit ends a reservation with the actual amount of each descriptor. A repeat changes nothing,
// for holds.Kept. Without a reservation, or after the end of its ttl, it reports the amount, and a
// repeat reports it again. It blocks as Reserve does.
func (k *Kuadrant) Commit(
	ctx context.Context, in *kuadrantv1.CommitRequest,
) (*kuadrantv1.CommitResponse, error) {
	r, err := readAmount(&pb.RateLimitRequest{
		Domain: in.GetDomain(), Descriptors: in.GetDescriptors(),
	}, "actual_amount", in.GetActualAmount())
	if err != nil {
		return nil, err
	}
	if id := in.GetReservationId(); id != "" {
		if !holds.ValidID(id) {
			return nil, invalid("reservation_id %.100q is not one that Reserve has answered", id)
		}
		used := slices.Repeat([]int{r.descriptors[0].Hits}, len(r.descriptors))
		err := k.keeper.Settle(ctx, ownerOf(r.domain), id, used)
		if !errors.Is(err, holds.ErrAbsent) && !errors.Is(err, holds.ErrOver) {
			return &kuadrantv1.CommitResponse{ReservationReleased: true}, k.fail(ctx, err)
		}
	}
	if in.GetActualAmount() > 0 {
		err = k.report(ctx, r)
	}
	return &kuadrantv1.CommitResponse{}, k.fail(ctx, err)
}

// readAmount reads a request whose descriptors all have an amount. Its domain goes into the name of
// a hold, and is as long as that of rules may be.
func readAmount(in *pb.RateLimitRequest, name string, amount uint64) (*request, error) {
	var r request
	if err := r.read(in); err != nil {
		return nil, err
	}
	if n := len(r.domain); n > validate.MaxDomain {
		return nil, invalid("a domain of %d bytes is longer than %d", n, validate.MaxDomain)
	}
	const most uint64 = min(rules.MaxHits, math.MaxInt) // an int may have 32 bits
	if amount > most {
		return nil, invalid("%s %d is more than %d", name, amount, most)
	}
	for i, d := range in.GetDescriptors() {
		if d.GetIsNegativeHits() {
			return nil, invalid("descriptor %d has is_negative_hits beside %s", i, name)
		}
		r.descriptors[i].Hits, r.verbs[i] = int(amount), take
	}
	return &r, nil
}

// ownerOf is who owns reservations of a domain. No user of the API is called so.
func ownerOf(domain string) string { return "kuadrant\x00" + domain }

// clientOf is who has sent a request: an address, or the network of an address of IPv6, as a client
// may have all of it. A client has no more room by using several domains.
func clientOf(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return "kuadrant"
	}
	at, _ := netip.ParseAddrPort(p.Addr.String())
	ip, bits := at.Addr().Unmap(), 32
	if ip.Is6() {
		bits = 64
	}
	network, _ := ip.Prefix(bits) // of what is no address: one for all
	return "kuadrant\x00" + network.String()
}

func codeOf(allowed bool) pb.RateLimitResponse_Code {
	if allowed {
		return pb.RateLimitResponse_OK
	}
	return pb.RateLimitResponse_OVER_LIMIT
}

// fail makes an error of gRPC, of reservations as well.
func (k *Kuadrant) fail(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, holds.ErrFull):
		return status.Error(codes.ResourceExhausted, "too many reservations are open")
	case errors.Is(err, holds.ErrNumbers):
		return invalid("the reservation has another number of descriptors")
	case errors.Is(err, holds.ErrDiffers):
		return status.Error(codes.FailedPrecondition, "the reservation was committed with another amount")
	}
	err = k.service.fail(ctx, err)
	if status.Code(err) == codes.Internal { // the store of holds knows no other error
		return status.Error(codes.Unavailable, "the store did not answer")
	}
	return err
}
