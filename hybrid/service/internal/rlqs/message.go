package rlqs

import (
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	kinds "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// Short names of what is generated.
type (
	assignAction = pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_
	assignBody   = pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction
	leaveAction  = pb.RateLimitQuotaResponse_BucketAction_AbandonAction_
	leaveBody    = pb.RateLimitQuotaResponse_BucketAction_AbandonAction
)

// assign is an action that assigns a token bucket.
func (b *bucket) assign(n numbers, life time.Duration) *action {
	return b.strategy(life, &kinds.RateLimitStrategy{
		Strategy: &kinds.RateLimitStrategy_TokenBucket{TokenBucket: &kinds.TokenBucket{
			MaxTokens:     n.max,
			TokensPerFill: wrapperspb.UInt32(n.fill),
			FillInterval:  durationpb.New(fillInterval * time.Second),
		}},
	})
}

// blanket is an action that lets everything through, or nothing.
func (b *bucket) blanket(allow bool, life time.Duration) *action {
	rule := kinds.RateLimitStrategy_DENY_ALL
	if allow {
		rule = kinds.RateLimitStrategy_ALLOW_ALL
	}
	return b.strategy(life, &kinds.RateLimitStrategy{
		Strategy: &kinds.RateLimitStrategy_BlanketRule_{BlanketRule: rule},
	})
}

func (b *bucket) strategy(life time.Duration, s *kinds.RateLimitStrategy) *action {
	return &action{BucketId: b.id, BucketAction: &assignAction{
		QuotaAssignmentAction: &assignBody{
			AssignmentTimeToLive: durationpb.New(life), RateLimitStrategy: s,
		},
	}}
}

// abandon is an action that ends the bucket at an Envoy, until its next request.
func (b *bucket) abandon() *action {
	return &action{BucketId: b.id, BucketAction: &leaveAction{AbandonAction: &leaveBody{}}}
}
