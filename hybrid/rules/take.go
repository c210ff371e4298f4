package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/seed13b07268/ration/hybrid"
)

// MaxDescriptors is how many descriptors one request may have.
const MaxDescriptors = hybrid.MaxAsks

// MaxHits is how many tokens a descriptor may take.
const MaxHits = 1 << 40

// A Result is the answer to a request.
type Result struct {
	// Allowed says whether the tokens of all descriptors were taken, or of none. Those that rules
	// in quota mode deny are left out, as long as another rule in quota mode admits the request.
	Allowed bool

	// Denied is the index of the descriptor whose limit denies longest, or -1.
	Denied int

	// Each has a Status for each descriptor.
	Each []Status
}

// A Status is what a Result says of one descriptor.
type Status struct {
	State State

	// Rule is the Path of the rule, and Name its name. They are empty if no rule matches, or the
	// descriptor has a Limit.
	Rule, Name string

	// Trial says that the limit of the rule's trial was in force, and not its own. QuotaMode is
	// the rule's: its denial does not deny the request while another rule in quota mode admits it.
	Trial, QuotaMode bool

	// Ban is the one that denies the request, if State is Banned. It is shared: do not change it.
	Ban *Ban

	// Decision of the limit, if State is Limited, or of the Ban, whose end is its RetryAfter. After
	// a denial Decision.Allowed tells whether this limit alone would let the request pass, as far
	// as is known.
	Decision hybrid.Decision
}

// A State says what a rule has to do with a descriptor.
type State int

const (
	// NotConfigured: no rule matches, or one without a limit.
	NotConfigured State = iota
	// Unlimited: the rule admits everything, or the Limit of the descriptor.
	Unlimited
	// Replaced: the rule of another descriptor of the request replaces this one.
	Replaced
	// Shadow: the rule only counts. Limiter.Stats has what it would deny.
	Shadow
	// Limited: the rule has decided, or the Limit of the descriptor.
	Limited
	// Banned: a Ban denies the request. The States of descriptors without one are NotConfigured
	// then, since no limit was asked.
	Banned
)

// String returns the name in lower case.
func (s State) String() string {
	names := []string{"not configured", "unlimited", "replaced", "shadow", "limited", "banned"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int(s))
	}
	return names[s]
}

// Take asks for the tokens of a request that has one or more descriptors, up to MaxDescriptors:
// all of them, or none. A denial is a Result, and not an error. It waits as hybrid.TakeAll does:
// where only the store can tell, and no longer than ctx and the Timeout. A request without any
// rule is allowed.
//
// Rules in shadow count beside it, and never make it wait. What a request that was denied asks
// for costs them nothing.
//
// A request for more than a limit can ever admit is a denial, too. The Decision has the Limit then,
// and no RetryAfter: it is not worth repeating.
//
// A Ban denies without asking the store, and before any rule.
//
// Descriptors whose Hits are Used count in any case. If they do not fit, the Result is a denial,
// and has 0 as what is left.
//
// Errors are those of hybrid.TakeAll but for hybrid.ErrExceedsBurst, and ErrDescriptor. Nothing is
// taken then, but what is Used: only hybrid.ErrClosed and ErrDescriptor, and a lack of room by
// MaxKeys, keep that from being counted.
func (l *Limiter) Take(
	ctx context.Context, domain string, descriptors ...Descriptor,
) (Result, error) {
	result, _, err := l.decide(ctx, domain, descriptors, taking)
	return result, err
}

// A verb is what becomes of the tokens.
type verb int

const (
	taking verb = iota
	peeking
	reserving
)

// decide answers a request by the rules of a moment. The Reservation is nil but for reserving.
func (l *Limiter) decide(
	ctx context.Context, domain string, descriptors []Descriptor, v verb,
) (Result, *Reservation, error) {
	if err := check(descriptors); err != nil {
		return Result{Denied: -1}, nil, err
	}
	for {
		s := l.state.Load()
		p := newPlan(s.domains[domain], descriptors)
		if l.closed.Load() {
			return Result{Denied: -1}, nil, hybrid.ErrClosed
		}
		result, err := p.decide(ctx, v)
		switch {
		case errors.Is(err, hybrid.ErrClosed) && s != l.state.Load():
			continue // the domain has another Limiter by now, and nothing was taken
		case v == taking:
			err = errors.Join(err, p.charge(ctx, l, domain, result.Allowed))
		case v == reserving && err == nil:
			return result, p.reservation(l, domain, result), nil
		}
		return result, nil, err
	}
}

// ErrDescriptor is wrapped by errors about a request that makes no sense: one without descriptors
// or with more than MaxDescriptors, or a descriptor without entries, with more than MaxEntries or
// MaxBytes, with Hits that are not 0 to MaxHits, or with a Limit that is invalid or slots. Other
// errors are of the store or the Limiter.
var ErrDescriptor = errors.New("invalid descriptor")

// check refuses descriptors that make no sense.
func check(descriptors []Descriptor) error {
	if len(descriptors) < 1 || len(descriptors) > MaxDescriptors {
		return fmt.Errorf("rules: %w: %d descriptors are not 1 to %d",
			ErrDescriptor, len(descriptors), MaxDescriptors)
	}
	for i, d := range descriptors {
		if len(d.Entries) < 1 || len(d.Entries) > MaxEntries {
			return fmt.Errorf("rules: %w: descriptor %d has %d entries, not 1 to %d",
				ErrDescriptor, i, len(d.Entries), MaxEntries)
		}
		if d.Hits < 0 || int64(d.Hits) > MaxHits {
			return fmt.Errorf("rules: %w: Hits %d of descriptor %d is not 0 to %d",
				ErrDescriptor, d.Hits, i, int64(MaxHits))
		}
		bytes := 0
		for _, e := range d.Entries {
			bytes += len(e.Key) + len(e.Value)
		}
		if bytes > MaxBytes {
			return fmt.Errorf("rules: %w: descriptor %d has %d bytes, more than %d",
				ErrDescriptor, i, bytes, MaxBytes)
		}
		if err := checkOverride(i, d.Limit); err != nil {
			return err
		}
	}
	return nil
}

// A plan is what a request asks for, by the rules of a moment.
type plan struct {
	domain      *live
	descriptors []Descriptor
	each        []Status
	rules       [MaxDescriptors]*Rule // nil: none, or the descriptor has a Limit
	asks        []hybrid.Ask
	from        [MaxDescriptors]int     // the descriptor of an ask
	counts      [MaxDescriptors]*counts // of an ask
	shadows     []shadow
	out         []hybrid.Ask          // that were left out, of rules in quota mode
	outOf       []int                 // their descriptors
	held        []*hybrid.Reservation // of asks, if they are reserved
}

// newPlan plans for descriptors. The domain may be nil.
func newPlan(domain *live, descriptors []Descriptor) plan {
	p := plan{domain: domain, descriptors: descriptors, each: make([]Status, len(descriptors))}
	if domain != nil {
		p.plan()
	}
	return p
}

func (p *plan) plan() {
	replace := false
	for i, d := range p.descriptors {
		if d.Limit != (hybrid.Limit{}) {
			continue
		}
		if r := p.domain.match(d.Entries); r != nil {
			p.rules[i] = r
			p.each[i] = Status{Rule: r.Path, Name: r.Name, QuotaMode: r.QuotaMode}
			replace = replace || len(r.Replaces) > 0
		}
	}
	p.asks = make([]hybrid.Ask, 0, len(p.descriptors))
	for i, d := range p.descriptors {
		switch r := p.rules[i]; {
		case d.Limit != hybrid.Limit{}:
			p.override(i)
		case r == nil:
		case replace && p.replaced(r):
			p.each[i].State = Replaced
		case r.Limit == hybrid.Unlimited && r.Trial == nil:
			p.each[i].State = Unlimited
		default:
			p.limit(i, d)
		}
	}
}

// replaced reports whether another rule of the request replaces one.
func (p *plan) replaced(r *Rule) bool {
	if r.Name == "" || r.Limit == hybrid.Unlimited && r.Trial == nil {
		return false
	}
	for _, other := range p.rules {
		if other != nil && slices.Contains(other.Replaces, r.Name) {
			return true
		}
	}
	return false
}

// limit plans for a descriptor that has a limit, or a trial of one.
func (p *plan) limit(i int, d Descriptor) {
	var buffer [256]byte
	r, count := p.rules[i], p.domain.countsOf(p.rules[i])
	name := r.bucket(buffer[:0], d.Entries)
	bucket, n := string(name), max(d.Hits, 1)
	class := r.classOf(d.Entries)
	trial := r.Trial != nil && chosen(p.domain.Name, bucket, r.Trial.Percent)
	if r.Trial != nil {
		p.ask(i, hybrid.Ask{Key: string(append(name, trialMark...)), N: n, Class: class}, &count.trial, trial)
		p.each[i].Trial = trial
	}
	if r.Limit == hybrid.Unlimited {
		if !trial {
			p.each[i].State = Unlimited
		}
		return
	}
	p.ask(i, hybrid.Ask{Key: bucket, N: n, Class: class}, &count.own,
		!trial && chosen(p.domain.Name, bucket, r.Percent))
}

// ask adds an ask, or a shadow of one if it is not in force.
func (p *plan) ask(i int, ask hybrid.Ask, c *counts, force bool) {
	if !force {
		if p.each[i].State != Limited {
			p.each[i].State = Shadow
		}
		p.shadows = append(p.shadows, shadow{
			p.domain.Name, p.domain.limiter, ask, c, i, p.descriptors[i].Used,
		})
		return
	}
	p.each[i].State = Limited
	if at := p.firstOf(ask.Key); at >= 0 {
		ask.Class = p.asks[at].Class
	}
	p.from[len(p.asks)], p.counts[len(p.asks)] = i, c
	p.asks = append(p.asks, ask)
}

// decide asks for what is planned, and counts it unless it takes nothing.
func (p *plan) decide(ctx context.Context, v verb) (Result, error) {
	result := Result{Allowed: true, Denied: -1, Each: p.each}
	if banned := p.banned(); banned >= 0 {
		result.Allowed, result.Denied = false, banned
		if v != peeking {
			p.domain.banned.Add(1)
		}
		return result, nil
	}
	if len(p.asks) == 0 {
		return result, nil
	}
	denied, err := p.askQuotas(ctx, v)
	if err != nil {
		return Result{Denied: -1}, err
	}
	if denied >= 0 {
		result.Allowed, result.Denied = false, p.from[denied]
	}
	if v == peeking {
		return result, nil
	}
	for i := range p.asks {
		switch {
		case result.Allowed:
			p.counts[i].admitted.Add(1)
		case !p.each[p.from[i]].Decision.Allowed:
			p.counts[i].denied.Add(1)
		}
	}
	return result, nil
}

// askAll asks for all, and returns the index of the ask that is denied longest, or -1.
func (p *plan) askAll(ctx context.Context, v verb) (denied int, err error) {
	switch {
	case v == peeking:
		return p.peekAll(ctx)
	case v == reserving:
		return p.reserveAll(ctx)
	case len(p.asks) > 1:
		all, err := p.domain.limiter.TakeAll(ctx, p.asks...)
		for i, d := range all.Each {
			p.decided(i, d)
		}
		return all.Denied, err
	}
	a := p.asks[0]
	d, err := as(p.domain.limiter, a.Class).Take(ctx, a.Key, a.N)
	if p.decided(0, d); d.Allowed {
		return -1, err
	}
	return 0, err
}

// verbs are what both a hybrid.Limiter and its Classed do.
type verbs interface {
	Take(ctx context.Context, key string, n int) (hybrid.Decision, error)
	Peek(ctx context.Context, key string) (hybrid.Decision, error)
	Charge(key string, n int) error
	Refund(key string, n int) (back int, err error)
}

// as is l for requests of a class, or of none.
func as(l *hybrid.Limiter, class string) verbs {
	if c, err := l.As(class); err == nil {
		return c
	}
	return l
}

// charge counts what a request has used already of limits that have not taken it: of all if it is
// denied or not decided, else of those that were left out. Shadows take all of an admitted request.
func (p *plan) charge(ctx context.Context, l *Limiter, domain string, allowed bool) (err error) {
	asks, from := p.out, p.outOf
	if !allowed {
		asks, from = append(asks, p.asks...), append(from, p.from[:len(p.asks)]...)
	}
	for i, a := range asks {
		if d := from[i]; p.descriptors[d].Used {
			err = errors.Join(err, l.owe(ctx, domain, p.domain.limiter, a))
			if e := &p.each[d]; !e.Decision.Allowed {
				e.Decision.Remaining = 0
			}
		}
	}
	for _, s := range p.shadows {
		if allowed || s.used {
			l.cast(s)
		}
	}
	return err
}

// mostDebt is how many times its Burst a bucket may owe by Hits that are Used. It is paid in as
// many times what an empty bucket takes to be full.
const mostDebt = 2

// owe charges an ask that does not fit: of a bucket what its debt has room for, and of others,
// whose debt ends with their window, all. Where it is not known what the bucket owes, it is a Burst
// at most. It may wait for the store as Peek does. Two at the same instant may not see each
// other's.
func (l *Limiter) owe(
	ctx context.Context, domain string, limiter *hybrid.Limiter, a hybrid.Ask,
) error {
	limit := l.limitFor(domain, a.Key)
	if limit.Kind != hybrid.KindBucket || limit == hybrid.Unlimited {
		return l.charge(domain, a)
	}
	room := float64(limit.Burst)
	if d, err := as(limiter, a.Class).Peek(ctx, a.Key); err == nil && d.Source != hybrid.OutagePolicy {
		room = (1+mostDebt)*float64(d.Limit.Burst) - d.ResetAfter.Seconds()*d.Limit.Rate
	}
	a.N = int(min(float64(a.N), max(room, 0)))
	return l.charge(domain, a)
}

// beyond decides where some ask is for more than its limit can ever admit. It returns the one
// that asks for the largest part of its limit: other processes may have lower ones in force.
func (p *plan) beyond() (denied int) {
	most := -1.0
	for i := range p.asks {
		n, limit := p.sum(i), p.limitOf(i)
		p.decided(i, hybrid.Decision{Allowed: n <= limit.Burst, Limit: limit})
		if part := float64(n) / float64(limit.Burst); part > most {
			most, denied = part, i
		}
	}
	p.each[p.from[denied]].Decision.Allowed = false
	return denied
}

func (p *plan) decided(ask int, d hybrid.Decision) { p.each[p.from[ask]].Decision = d }
