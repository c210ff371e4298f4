package api

import (
	"context"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// real is a rules.Limiter as a limiter.
type real struct{ *rules.Limiter }

func (r real) Reserve(
	ctx context.Context, domain string, descriptors ...rules.Descriptor,
) (reservation, rules.Result, error) {
	made, err := r.Limiter.Reserve(ctx, domain, descriptors...)
	if err != nil {
		return nil, rules.Result{Denied: -1}, err
	}
	return made, made.Result, nil
}
