package rules

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/seed13b07268/ration/hybrid"
)

// A Reservation is tokens for a job whose cost is known when it has been done. If it is Allowed,
// end it with Settle or Cancel: until then this process renews the leases of its buckets. It is
// safe for concurrent use.
//
// It is of the buckets that the rules of its beginning have named. A later limit of theirs holds
// for it, too; rules that match later, or no more, change nothing. What is reserved counts as spent
// where the lease ends first (see hybrid.Reservation), and so it does when the domain gets another
// fairness or outage, is removed, or the bucket gets another kind of limit. Then nothing comes
// back, and only a cost above the estimate is still charged, to the limit of then.
type Reservation struct {
	// Result says whether the tokens are reserved. If not, nothing is held.
	Result

	limiter *Limiter
	domain  string
	parts   []part
	shadows []shadow
	ended   atomic.Bool
}

// A part is what a Reservation holds of one key.
type part struct {
	held        *hybrid.Reservation
	ask         hybrid.Ask
	estimate    int64 // of all descriptors
	descriptors []int
}

// Reserve is Take for a job whose cost is known when it has been done: Hits are an estimate. A
// denial is a Reservation that is not Allowed, and not an error. It does not wait for tokens: after
// a denial try again after RetryAfter.
//
// A shadow counts what is settled, when it is.
//
// It blocks as hybrid.Limiter.ReserveAll does. Errors are those of Take; the Reservation is nil
// then, and nothing is held.
func (l *Limiter) Reserve(
	ctx context.Context, domain string, descriptors ...Descriptor,
) (*Reservation, error) {
	_, r, err := l.decide(ctx, domain, descriptors, reserving)
	return r, err
}

// reserveAll is askAll for a Reservation.
func (p *plan) reserveAll(ctx context.Context) (denied int, err error) {
	all, err := p.domain.limiter.ReserveAll(ctx, p.asks...)
	for i, d := range all.Each {
		p.decided(i, d)
	}
	p.held = all.Reserved
	return all.Denied, err
}

// reservation is what has become of the plan.
func (p *plan) reservation(l *Limiter, domain string, result Result) *Reservation {
	r := &Reservation{Result: result, limiter: l, domain: domain}
	if !result.Allowed {
		return r
	}
	r.shadows = p.shadows
	at := map[string]int{}
	for i, a := range p.asks {
		n, known := at[a.Key]
		if !known {
			n, at[a.Key] = len(r.parts), len(r.parts)
			r.parts = append(r.parts, part{held: p.held[i], ask: a, estimate: p.sum(i)})
		}
		r.parts[n].descriptors = append(r.parts[n].descriptors, p.from[i])
	}
	return r
}

// Settle ends the reservation with what the job has cost: a number of tokens for each descriptor,
// or one for all of them. Those without a limit ignore theirs. What is left of the estimate can be
// used again at once. What is missing is charged, and may leave a debt: see hybrid.Limiter.Charge.
// It does not block, but may call LimitFor once for a key.
//
// Errors: one that wraps hybrid.ErrSettled if the reservation has ended before, or was denied; a
// number that is not 0 to MaxHits (nor may the sum of those of one bucket be more), or numbers that
// are not one for each descriptor, which end nothing; and those of Charge, where the estimate is
// spent and what is missing is not charged.
func (r *Reservation) Settle(used ...int) error {
	if len(used) != 1 && len(used) != len(r.Each) {
		return fmt.Errorf("rules: settle: %d numbers are not 1 or %d, the number of descriptors",
			len(used), len(r.Each))
	}
	costs, err := r.costs(used)
	switch {
	case err != nil:
		return err
	case !r.Allowed:
		return fmt.Errorf("rules: settle a reservation that was denied: %w", hybrid.ErrSettled)
	case r.ended.Swap(true):
		return fmt.Errorf("rules: settle: %w", hybrid.ErrSettled)
	}
	for i, p := range r.parts {
		settled := p.held.Settle(int(costs[i]))
		if errors.Is(settled, hybrid.ErrClosed) {
			more := p.ask
			more.N = int(costs[i] - p.estimate)
			settled = r.limiter.charge(r.domain, more)
		}
		err = errors.Join(err, settled)
	}
	r.cast(used)
	return err
}

// Cancel ends the reservation of a job that has not been done: it is Settle(0).
func (r *Reservation) Cancel() error { return r.Settle(0) }

// costs is what each part has cost.
func (r *Reservation) costs(used []int) (costs [MaxDescriptors]int64, err error) {
	const most = min(MaxHits, math.MaxInt)
	for i, n := range used {
		if n < 0 || int64(n) > most {
			return costs, fmt.Errorf("rules: settle: %d of descriptor %d is not 0 to %d",
				n, i, int64(most))
		}
	}
	for i, p := range r.parts {
		for _, d := range p.descriptors {
			costs[i] += int64(costOf(used, d))
		}
		if costs[i] > most {
			return costs, fmt.Errorf("rules: settle: %d of bucket %.100q is not 0 to %d",
				costs[i], p.ask.Key, int64(most))
		}
	}
	return costs, nil
}

// costOf is what is told of a descriptor.
func costOf(used []int, descriptor int) int {
	if len(used) == 1 {
		return used[0]
	}
	return used[descriptor]
}

// cast lets shadows count what was used, by the domain's Limiter of now.
func (r *Reservation) cast(used []int) {
	d := r.limiter.state.Load().domains[r.domain]
	if d == nil {
		return
	}
	for _, s := range r.shadows {
		if s.ask.N = costOf(used, s.descriptor); s.ask.N > 0 {
			s.limiter = d.limiter
			r.limiter.cast(s)
		}
	}
}

// charge charges what was used on the domain's Limiter of now. Of a domain that is gone nobody
// counts anything.
func (l *Limiter) charge(domain string, a hybrid.Ask) error {
	for {
		s := l.state.Load()
		d := s.domains[domain]
		if d == nil {
			return nil
		}
		err := as(d.limiter, a.Class).Charge(a.Key, a.N)
		if !errors.Is(err, hybrid.ErrClosed) || s == l.state.Load() {
			return err
		}
	}
}
