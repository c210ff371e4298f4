package httplimit

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed13b07268/ration/hybrid"
)

// mostCost is the largest cost that can be settled.
const mostCost int64 = 1 << 40

// An ending is what a limit has yet to be told of a request: its cost.
type ending struct {
	limit  *Limit
	ask    hybrid.Ask
	settle func(cost int) error
}

// reserve is take where a limit has an After: all or none are reserved, and what has no After is
// spent at once.
func (p *pass) reserve(ctx context.Context) (bool, error) {
	all, err := p.guard.limiter.ReserveAll(ctx, p.asks...)
	if err == nil {
		err = p.refuseSlots(all)
	}
	if err != nil {
		return false, err
	}
	if p.each = all.Each; !all.Allowed {
		return false, nil
	}
	var failed error
	for i, r := range all.Reserved {
		l := &p.guard.config.Limits[p.limits[i]]
		if l.After != nil {
			p.ends = append(p.ends, ending{l, p.asks[i], r.Settle})
		} else {
			failed = errors.Join(failed, r.Settle(p.asks[i].N))
		}
	}
	if failed != nil {
		p.guard.config.Observe(p.r, Outcome{Err: failed})
	}
	return true, nil
}

// refuseSlots gives all back where a key has slots, as the error says.
func (p *pass) refuseSlots(all hybrid.Reservations) error {
	for i, d := range all.Each {
		if err := slotsError(p.asks[i].Key, d.Limit); err != nil {
			all.Cancel()
			return err
		}
	}
	return nil
}

// slotsError is of a key that has slots, which Reserve lets a request have. But the request would
// not end with its slots, nor have them until it ends if its limit has no After.
func slotsError(key string, limit hybrid.Limit) error {
	if limit.Kind != hybrid.KindSlots {
		return nil
	}
	return fmt.Errorf("httplimit: %.100q: limit %v is for NewSlots: %w", key, limit, hybrid.ErrKind)
}

// end tells each limit once what the request has cost. It does not block, but for LimitFor.
func (p *pass) end(e End) {
	ends := p.ends
	p.ends = nil
	for _, x := range ends {
		defer p.settle(x, e) // so that a panic of one After keeps no other from its end
	}
}

func (p *pass) settle(x ending, e End) {
	if x.limit.Shadow {
		defer x.limit.rescue()
	}
	cost := x.ask.N
	defer func() {
		err := x.settle(int(min(max(int64(cost), 0), mostCost)))
		if err != nil && !errors.Is(err, hybrid.ErrClosed) {
			p.guard.config.Observe(p.r, Outcome{Err: err})
		}
	}()
	cost = x.limit.After(p.r, e)
}
