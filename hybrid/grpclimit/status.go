package grpclimit

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed13b07268/ration/hybrid"
)

// errCost is that of a call with a cost below 0, which its client may have chosen.
var errCost = errors.New("its cost is below 0")

// failure is the status of a denial, or nil if FailOpen lets the call pass.
func (i *Interceptors) failure(ctx context.Context, d Denial) error {
	switch {
	case d.Err == nil:
		return denied(d)
	case errors.Is(d.Err, hybrid.ErrExceedsBurst): // no FailOpen: large calls would be free
		return status.Error(codes.ResourceExhausted,
			"rate limit: the call needs more tokens than the limit ever has")
	case errors.Is(d.Err, errCost): // nor would such calls count
		return status.Error(codes.ResourceExhausted, "rate limit: the call has a cost below 0")
	case errors.Is(d.Err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, "rate limit: no tokens before the deadline")
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case i.config.OnError == FailOpen:
		return nil
	case errors.Is(d.Err, hybrid.ErrUnavailable), errors.Is(d.Err, hybrid.ErrClosed):
		return status.Error(codes.Unavailable, "rate limit: no decision")
	}
	return status.Error(codes.Internal, "rate limit: no decision")
}

// denied is RESOURCE_EXHAUSTED with its details.
func denied(d Denial) error {
	s := status.Newf(codes.ResourceExhausted, "rate limit: %s", d.Limit)
	details := []protoadapt.MessageV1{
		&errdetails.RetryInfo{RetryDelay: durationpb.New(d.Decision.RetryAfter)},
		&errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{
			Subject: d.Limit, Description: fmt.Sprint("limit of ", d.Decision.Limit),
		}}},
	}
	detailed, err := s.WithDetails(details...)
	if err != nil {
		return s.Err()
	}
	return detailed.Err()
}
