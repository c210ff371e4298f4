package rules

import (
	"context"
	"errors"

	"github.com/seed13b07268/ration/hybrid"
)

// askQuotas is askAll for rules in quota mode: those that deny are left out, and the others are
// asked again, as long as a rule in quota mode admits the request or a shadow of one is among them.
// Each round leaves out one ask at least. It returns the ask that is denied longest, or -1.
func (p *plan) askQuotas(ctx context.Context, v verb) (denied int, err error) {
	for {
		denied, err = p.askAll(ctx, v)
		if errors.Is(err, hybrid.ErrExceedsBurst) {
			denied, err = p.beyond(), nil
		}
		if err != nil || denied < 0 || !p.others() {
			return denied, err
		}
		if p.leaveOut(v); len(p.asks) == 0 {
			return -1, nil
		}
	}
}

// others reports whether only rules in quota mode deny, and others in quota mode do not, as far as
// is known.
func (p *plan) others() bool {
	passes := false
	for _, s := range p.each {
		if !s.QuotaMode {
			if s.State == Limited && !s.Decision.Allowed {
				return false
			}
			continue
		}
		passes = passes || s.State == Shadow || s.State == Limited && s.Decision.Allowed
	}
	return passes
}

// leaveOut drops the asks that are denied, and counts them unless nothing is taken.
func (p *plan) leaveOut(v verb) {
	kept := 0
	for i, ask := range p.asks {
		if !p.each[p.from[i]].Decision.Allowed {
			if v != peeking {
				p.counts[i].denied.Add(1)
			}
			p.out, p.outOf = append(p.out, ask), append(p.outOf, p.from[i])
			continue
		}
		p.asks[kept], p.from[kept], p.counts[kept] = ask, p.from[i], p.counts[i]
		kept++
	}
	p.asks = p.asks[:kept]
}
