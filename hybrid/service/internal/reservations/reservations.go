// Package reservations keeps reservations by rules, which any replica settles: for the API and for
// Kuadrant's gateways.
package reservations

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/budget"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A Limiter is what a Keeper needs of a rules.Limiter: Real is one.
type Limiter interface {
	Reserve(ctx context.Context, domain string, ds ...rules.Descriptor) (
		holds.Tokens, rules.Result, error)
	Charge(domain string, ds ...rules.Descriptor) error
}

// A Keeper is a holds.Keeper of orders by rules.
type Keeper struct {
	*holds.Keeper
	limiter Limiter
	budget  *budget.Budget
}

// New returns a Keeper with a store that all replicas share. A cost above an estimate is charged
// to l, by the rules of then. Call its Run. The error is that of holds.New.
func New(l Limiter, store holds.Store, log *slog.Logger) (*Keeper, error) {
	costs, err := budget.New(budget.Config{})
	if err != nil {
		return nil, err
	}
	k, err := holds.New(holds.Config{
		Store: store,
		Charge: func(content string, above []int) error {
			var o Content
			if err := json.Unmarshal([]byte(content), &o); err != nil || len(above) != len(o.Asks) {
				return fmt.Errorf("reservations: charge %d numbers for %.200q: %w", len(above), content, err)
			}
			var asks []rules.Descriptor
			for i, n := range above {
				if o.Asks[i].Hits = n; n > 0 {
					asks = append(asks, o.Asks[i])
				}
			}
			return l.Charge(o.Domain, asks...)
		},
		Failed: func(err error) {
			if !errors.Is(err, hybrid.ErrClosed) {
				log.WarnContext(context.Background(), "reservation was not booked", "error", err)
			}
		},
	})
	return &Keeper{limiter: l, Keeper: k, budget: costs}, err
}

// An Order is what is to be reserved. Hits are the estimate, or 0: it is to be made of Estimate.
type Order struct {
	Owner, ID string // of a caller; no ID: one is made up
	Client    string // whose room it takes; empty: the Owner's
	Content
}

// A Content is what a repeat of an order must be equal in, and what a charge needs.
type Content struct {
	Domain string
	Asks   []rules.Descriptor
	TTL    int  // seconds
	Spent  bool // if nobody settles

	Estimate *Estimate `json:",omitempty"` // if Hits are 0
}

// An Estimate says how to make one: of MaxTokens above the Guess, which is a hard bound, or without
// MaxTokens of what this replica's last jobs of the same kind have cost above their guesses.
type Estimate struct {
	Of        string // the kind of job, such as a model or a rule
	Guess     int    // tokens of the prompt
	MaxTokens int    // 0: there is no bound
}

const most = min(rules.MaxHits, math.MaxInt) // an int may have 32 bits

// estimate returns how many hits a job has whose cost is estimated.
func (k *Keeper) estimate(c *Content) int {
	e := c.Estimate
	switch {
	case e == nil:
		return 0
	case e.MaxTokens > 0:
		return e.Guess + min(e.MaxTokens, most-e.Guess)
	}
	return min(k.budget.Estimate(e.key(c.Domain), e.Guess, 0), most)
}

// learn remembers the largest cost of the descriptors that were estimated.
func (k *Keeper) learn(c *Content, used []int) {
	cost := 0
	for i, n := range used {
		if c.Asks[i].Hits == 0 {
			cost = max(cost, n)
		}
	}
	if cost > 0 { // else it was not done
		k.budget.Settle(c.Estimate.key(c.Domain), c.Estimate.Guess, cost)
	}
}

func (e *Estimate) key(domain string) string { return domain + "\x00" + e.Of }

// Reserve makes a hold, or none if the order is denied, or if no rule limits or counts it: a
// replica has room for so many. It keeps the answer that is made of the first result and the
// estimate, which is 0 where none is made, for repeats. It blocks, and fails, as
// holds.Keeper.Reserve does.
func (k *Keeper) Reserve(
	ctx context.Context, o Order, answer func(rules.Result, int) (string, error),
) (holds.Hold, error) {
	content, err := json.Marshal(o.Content)
	if err != nil {
		return holds.Hold{}, err
	}
	estimate := k.estimate(&o.Content)
	asks := slices.Clone(o.Asks)
	hold := holds.Order{
		Owner: o.Owner, Client: o.Client, ID: o.ID, Content: string(content),
		Life: time.Duration(o.TTL) * time.Second, Spent: o.Spent, Estimate: make([]int, len(o.Asks)),
		Take: func(ctx context.Context) (holds.Tokens, string, error) {
			made, r, err := k.limiter.Reserve(ctx, o.Domain, asks...)
			if err != nil {
				return nil, "", err
			}
			text, err := answer(r, estimate)
			if !r.Allowed || err != nil || !slices.ContainsFunc(r.Each, counts) {
				return nil, text, err
			}
			return made, text, nil
		},
	}
	for i := range asks {
		if asks[i].Hits == 0 {
			asks[i].Hits = estimate
		}
		hold.Estimate[i] = asks[i].Hits
	}
	if o.Content.Estimate != nil {
		hold.Learn = func(used []int) { k.learn(&o.Content, used) }
	}
	return k.Keeper.Reserve(ctx, hold)
}

// counts reports whether there is something to settle.
func counts(s rules.Status) bool { return s.State == rules.Limited || s.State == rules.Shadow }

// Real is a rules.Limiter as a Limiter.
type Real struct{ *rules.Limiter }

// Reserve returns no tokens after an error.
func (r Real) Reserve(
	ctx context.Context, domain string, descriptors ...rules.Descriptor,
) (holds.Tokens, rules.Result, error) {
	made, err := r.Limiter.Reserve(ctx, domain, descriptors...)
	if err != nil {
		return nil, rules.Result{Denied: -1}, err
	}
	return made, made.Result, nil
}
