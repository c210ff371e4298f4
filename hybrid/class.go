package hybrid

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/seed13b07268/ration/lease"
)

// Class is a class of requests, see [Config.Classes]. Floor is the part of the Rate that the class
// gets if it asks for so much, 0 to 1, and at most 1 for all classes together. What floors leave is
// divided by Weight, among classes that want more; a class with a Weight of 0 gets what is left
// then. So a class alone gets all, and a floor that nobody asks for is lent to others.
//
// Floor of a quota is a part of each window, in whole tokens. It is kept for the class until the
// window ends, asked for or not. The rest goes to whoever comes first, and Weight has no effect.
type Class = lease.Class

// A Classed is a Limiter for requests of one class. Its methods are those of the Limiter, and it is
// safe for concurrent use.
type Classed struct {
	limiter *Limiter
	class   string
}

// As returns the Limiter for requests of a class of [Config.Classes], or an error that names the
// class if there is none. With [Config.ClassesFor] each key has its own classes: for a key that has
// none of that name it is the last one.
//
// Over any time above two refreshes, all processes together admit about the lower of the demand and
// the Floor of each class; docs/classes.md measures how much less. In a process, a
// request of a higher class may have what a lower class has, and never the other way round; of a
// quota it leaves what is lent for floors. Callers of Wait stand in a line for each class, and each
// line has its part. While the store is away, classes do not count.
func (l *Limiter) As(class string) (*Classed, error) {
	if class == "" || !l.config.knows(class) {
		return nil, fmt.Errorf("hybrid: class %.100q is none of Config.Classes", class)
	}
	return &Classed{limiter: l, class: class}, nil
}

// knows reports whether a key may have a class of that name, or of none: that is the last one.
func (c *Config) knows(class string) bool {
	return class == "" || c.ClassesFor != nil ||
		slices.ContainsFunc(c.Classes, func(c Class) bool { return c.Name == class })
}

// same reports whether two names that Config knows are of the same class, whatever the key.
func (c *Config) same(a, b string) bool {
	last := ""
	if n := len(c.Classes); n > 0 {
		last = c.Classes[n-1].Name
	}
	return a == b || cmp.Or(a, last) == cmp.Or(b, last)
}

func (c *Classed) request(key string, n int) *request {
	return &request{key: key, n: n, class: c.class}
}

// Allow is [Limiter.Allow] for a request of the class.
func (c *Classed) Allow(key string) bool { return c.AllowN(key, 1) }

// AllowN is [Limiter.AllowN] for a request of the class.
func (c *Classed) AllowN(key string, n int) bool { return c.limiter.allow(c.request(key, n)) }

// Take is [Limiter.Take] for a request of the class.
func (c *Classed) Take(ctx context.Context, key string, n int) (Decision, error) {
	return c.limiter.take(ctx, c.request(key, n))
}

// TakeUpTo is [Limiter.TakeUpTo] for a request of the class.
func (c *Classed) TakeUpTo(ctx context.Context, key string, n int) (int, Decision, error) {
	return c.limiter.takeUpTo(ctx, c.request(key, n))
}

// Wait is [Limiter.Wait] for a request of the class. While there is enough for all, callers of
// higher classes are served first. While there is not, each class has its part.
func (c *Classed) Wait(ctx context.Context, key string, n int) error {
	return c.limiter.wait(ctx, c.request(key, n))
}

// Peek is [Limiter.Peek] for a request of the class: it tells what the class may spend. Where Peek
// finds nothing, the class's demand counts a request of the mean cost of those before.
func (c *Classed) Peek(ctx context.Context, key string) (Decision, error) {
	return c.limiter.peek(ctx, c.request(key, 0))
}

// Charge is [Limiter.Charge] for tokens that the class has used. While the key has a lease that
// refills, the class's part of it pays, and other classes go on. The store is told of what is above
// twice the lease, and of all without a lease: then the debt is that of all classes. Of a quota
// what the class may spend pays, the rest is a debt of all classes, and both count as had by it.
func (c *Classed) Charge(key string, n int) error { return c.limiter.chargeAs(key, n, c.class) }

// Refund is [Limiter.Refund] for tokens that the class has taken or charged. What the class owes is
// forgiven; what comes back can be used by all classes.
func (c *Classed) Refund(key string, n int) (back int, err error) {
	return c.limiter.refundAs(key, n, c.class)
}

// valid returns an error unless limit may be used with these Classes.
func (c *Config) valid(limit Limit) error {
	if len(c.Classes) > 0 && !limit.Kind.Classes() {
		return fmt.Errorf("%w: Kind %v beside Config.Classes: floors are parts of a Rate or of a quota",
			ErrInvalidLimit, limit.Kind)
	}
	return limit.Validate()
}
