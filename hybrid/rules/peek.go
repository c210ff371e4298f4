package rules

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// Peek tells what Take would say now, and takes nothing. No rule counts it, nor does a shadow. It
// promises nothing: others may take the tokens first, and it looks at one limit after the other,
// or at several at the same time, but not at all of them at one moment.
//
// Where Hits are more than are left, RetryAfter of a bucket is by its Rate, and that of a quota or
// a sliding window is until nothing of it is used: an estimate, which may be too long.
//
// It blocks as hybrid.Limiter.Peek does, for all limits at the same time. Errors are those, and
// ErrDescriptor.
func (l *Limiter) Peek(
	ctx context.Context, domain string, descriptors ...Descriptor,
) (Result, error) {
	result, _, err := l.decide(ctx, domain, descriptors, peeking)
	return result, err
}

// peekAll is askAll, and takes nothing.
func (p *plan) peekAll(ctx context.Context) (denied int, err error) {
	var each [MaxDescriptors]hybrid.Decision
	var errs [MaxDescriptors]error
	var all sync.WaitGroup
	limiter := p.domain.limiter // the plan of a Take is to stay on the stack
	for i, a := range p.asks {
		if p.first(i) == i {
			all.Go(func() { each[i], errs[i] = as(limiter, a.Class).Peek(ctx, a.Key) })
		}
	}
	all.Wait()
	denied = -1
	longest := time.Duration(0)
	for i := range p.asks {
		if errs[i] != nil {
			return -1, errs[i]
		}
		d, n := each[p.first(i)], p.sum(i)
		if n > d.Limit.Burst && d.Limit != hybrid.Blocked {
			return -1, hybrid.ErrExceedsBurst
		}
		d = forMore(d, n)
		if p.decided(i, d); !d.Allowed && (denied < 0 || d.RetryAfter > longest) {
			denied, longest = i, d.RetryAfter
		}
	}
	return denied, nil
}

// forMore makes a Decision for n tokens of one that is for one token.
func forMore(d hybrid.Decision, n int64) hybrid.Decision {
	if n <= max(d.Remaining, 1) || d.Limit == hybrid.Blocked {
		return d
	}
	d.Allowed = false
	if d.Limit.Kind == hybrid.KindBucket {
		missing := float64(n - max(d.Remaining, 1))
		d.RetryAfter += time.Duration(missing / d.Limit.Rate * float64(time.Second))
	} else {
		d.RetryAfter = max(d.RetryAfter, d.ResetAfter)
	}
	d.RetryAfter = max(d.RetryAfter, time.Millisecond)
	return d
}

// first is the first ask of the same key.
func (p *plan) first(ask int) int { return p.firstOf(p.asks[ask].Key) }

// firstOf is the first ask of a key, or -1.
func (p *plan) firstOf(key string) int {
	return slices.IndexFunc(p.asks, func(a hybrid.Ask) bool { return a.Key == key })
}

// sum is how many tokens of the key of an ask the request asks for in all.
func (p *plan) sum(ask int) (n int64) {
	for _, a := range p.asks {
		if a.Key == p.asks[ask].Key {
			n += int64(a.N)
		}
	}
	return n
}
