package hybrid

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// mostTokens is the largest cost that can be settled or charged.
const mostTokens = 1 << 40

// ErrSettled is wrapped by a Settle or a Cancel of a reservation that has been settled or
// cancelled, or was denied. It changes nothing.
var ErrSettled = errors.New("reservation has ended")

// A Reservation is tokens of a key for a job whose cost is known when it has been done. End
// it with Settle or Cancel. It is safe for concurrent use.
//
// Reserved tokens keep their room in the bucket, so that all of them can come back. They are
// on lease to this process, which renews that lease while a reservation of the key is open:
// a call to the store each Policy.MaxRefresh, for all of the key together. A reservation may
// stay open for as long as the job takes.
//
// What is reserved counts as spent when the lease ends before Settle: as the process is cut off
// from the store for longer than 119 MaxRefresh and than MaxHold, 30 s by default (of a sliding
// window, for two refreshes), Reset is called, the process ends, or the Limiter is closed. A
// process that crashes leaves the room of its lease in a bucket unused for as long. What
// is reserved counts as spent at once if the outage policy has admitted it, or if MaxKeys left no
// room for the key.
//
// Of a key that has slots it is a [Slot]: see Context and Fence. The slots are released by Settle,
// whatever that tells, and by Cancel.
type Reservation struct {
	// Decision says whether the tokens are reserved, and if not, when they may be.
	Decision

	limiter  *Limiter
	key      string
	n        float64
	class    string
	entry    *local.Entry
	reserved lease.Reserved
	slot     *Slot // of a key that has slots, in place of what is reserved
	context  context.Context
	came     time.Duration // when it was decided
	ended    atomic.Bool
}

// Reservations are those of several keys.
type Reservations struct {
	// Decisions says whether all are reserved, or none. Its Each has a Decision for each Ask, also
	// after a denial.
	Decisions

	// Reserved has a Reservation for each Ask if all are allowed, and is empty otherwise. Asks
	// that name the same key have one of their sum, which is settled once.
	Reserved []*Reservation
}

// Reserve takes n tokens of key, an estimate, for a job whose cost is known when it is done.
// Then tell it: see Reservation. It blocks as Take does, and has its errors. A denial is no
// error: see [Reservation.Allowed]. It does not wait for tokens: after a denial try again after
// RetryAfter. Of slots it is an Acquire that does not wait.
func (l *Limiter) Reserve(ctx context.Context, key string, n int) (*Reservation, error) {
	all, err := l.ReserveAll(ctx, Ask{Key: key, N: n})
	if err != nil {
		return nil, err
	}
	if all.Reserved == nil {
		return &Reservation{Decision: all.Each[0], key: key}, nil
	}
	return all.Reserved[0], nil
}

// WaitReserve is Reserve that waits until it can, as Wait does. A caller that polls Reserve in its
// place is denied again and again, and served in no order.
//
// It returns an error that wraps context.DeadlineExceeded as soon as it knows that the deadline of
// ctx is too near. Its other errors are those of WaitAll.
func (l *Limiter) WaitReserve(ctx context.Context, key string, n int) (*Reservation, error) {
	all, err := l.WaitReserveAll(ctx, Ask{Key: key, N: n})
	if err != nil {
		return nil, err
	}
	return all.Reserved[0], nil
}

// ReserveAll reserves tokens and slots of several keys, all or none. It blocks as TakeAll does,
// costs as much, and has its errors, but keys may have slots: then MaxKeys must leave room for
// them, or it is [ErrUnavailable]. Each Reservation is settled by itself.
func (l *Limiter) ReserveAll(ctx context.Context, asks ...Ask) (Reservations, error) {
	return l.reserve(ctx, "reserve", asks, (*several).decide)
}

// WaitReserveAll reserves tokens and slots of several keys, all at once, and waits until it can. It
// queues as WaitAll does, and has its errors, and [ErrUnavailable] if MaxKeys leaves no room for
// slots. For slots it queues last, for those of the smallest limit first: so they stay in use while
// it waits for tokens, and slots for all while it waits for a part of them. What it has is kept
// while it waits for slots. Nobody knows when those come, so it waits for them until ctx ends. So
// no job may wait for tokens while it holds slots by Acquire: it could wait for tokens that are
// kept until its slots are released.
func (l *Limiter) WaitReserveAll(ctx context.Context, asks ...Ask) (Reservations, error) {
	return l.reserve(ctx, "wait to reserve", asks, (*several).wait)
}

func (l *Limiter) reserve(
	ctx context.Context, verb string, asks []Ask,
	ask func(s *several, ctx context.Context, keep bool) (Decisions, error),
) (Reservations, error) {
	s, err := l.several(ctx, verb, asks)
	if err != nil {
		return Reservations{Decisions: Decisions{Denied: -1}}, err
	}
	defer s.leave()
	d, err := ask(s, ctx, true)
	s.noted(true, err)
	all := Reservations{Decisions: d}
	if err != nil || !d.Allowed {
		return all, err
	}
	made, came := map[*local.Part]*Reservation{}, l.now()
	for i, p := range s.parts {
		if made[p] == nil {
			made[p] = &Reservation{
				Decision: d.Each[i], limiter: l, key: asks[i].Key, n: p.N, class: p.Class, entry: p.Entry, reserved: p.Reserved(),
				slot: s.slot(p), context: ctx, came: came,
			}
		}
		all.Reserved = append(all.Reserved, made[p])
	}
	return all, nil
}

// Settle ends the reservation with what the job has cost. What is left of the tokens can be
// used again at once, by this process first. What is missing is charged to the reservation's class:
// see Charge. It does not block.
//
// Errors: [ErrSettled]; those of Charge, if actual is above the estimate, which is spent then; of
// slots those of Slot.Release; and an actual below 0 or above 2^40, which ends nothing.
func (r *Reservation) Settle(actual int) error {
	if actual < 0 || int64(actual) > mostTokens {
		return fmt.Errorf("hybrid: settle %.100q: actual %d is not from 0 to 2^40", r.key, actual)
	}
	if r.limiter == nil {
		return fmt.Errorf("hybrid: settle %.100q, which was denied: %w", r.key, ErrSettled)
	}
	if r.ended.Swap(true) {
		return fmt.Errorf("hybrid: settle %.100q: %w", r.key, ErrSettled)
	}
	switch {
	case r.slot != nil:
		return r.slot.Release()
	case r.n == 0 && r.Limit.Kind == KindSlots:
		return nil
	}
	r.limiter.recorder.settled(r, actual)
	more := float64(actual) - r.n
	r.entry.Release(r.limiter.now(), r.reserved, max(-more, 0))
	r.limiter.driver.attend(r.entry)
	if more > 0 {
		return r.limiter.charge(r.key, more, r.class)
	}
	return nil
}

// Context ends when the job must end that has reserved slots, as [Slot.Context] does: their lease
// has ended, or the reservation has; context.Cause says which. Where the key has no slots it never
// ends. It has the values of the context of Reserve, and does not end with that.
func (r *Reservation) Context() context.Context {
	switch {
	case r.slot != nil:
		return r.slot.context
	case r.context == nil: // it was denied
		return context.Background()
	}
	return context.WithoutCancel(r.context)
}

// Fence is that of the reserved slots, as [Slot.Fence] says. It is 0 where the key has none.
func (r *Reservation) Fence() uint64 {
	if r.slot == nil {
		return 0
	}
	return r.slot.Fence()
}

// Cancel ends the reservation of a job that has not been done: it is Settle(0).
func (r *Reservation) Cancel() error { return r.Settle(0) }

// Settle ends all reservations with what the job has cost: a number for each Ask, or one for all.
// Of Asks that name the same key the numbers are summed. It does not block.
//
// Errors are those of Reservation.Settle, of all that have one. One that is settled already does
// not keep the others from it. A number of numbers that is not 1 or that of the Asks, one that is
// below 0, and a sum above 2^40 end nothing.
func (r Reservations) Settle(actual ...int) error {
	if len(actual) != 1 && len(actual) != len(r.Each) {
		return fmt.Errorf("hybrid: settle several keys: %d numbers are not 1 or %d, the number of Asks",
			len(actual), len(r.Each))
	}
	if len(r.Reserved) == 0 {
		return fmt.Errorf("hybrid: settle several keys, which were denied: %w", ErrSettled)
	}
	costs := map[*Reservation]int64{}
	for i, x := range r.Reserved {
		n := int64(actual[min(i, len(actual)-1)])
		if costs[x] += n; n < 0 || n > mostTokens || costs[x] > mostTokens {
			return fmt.Errorf("hybrid: settle %.100q, Ask[%d]: actual %d is not from 0 to 2^40",
				x.key, i, n)
		}
	}
	var all error
	for i, x := range r.Reserved {
		if slices.Index(r.Reserved, x) == i {
			all = errors.Join(all, x.Settle(int(costs[x])))
		}
	}
	return all
}

// Cancel ends all reservations of jobs that have not been done. Those that have been settled
// stay as they are.
func (r Reservations) Cancel() {
	for _, x := range r.Reserved {
		_ = x.Cancel() // which can only have ended
	}
}

// Charge takes n tokens of key that have been used already: bytes that were sent, a query
// that was long. It is never denied. What the bucket does not have is a debt. The store is
// told of it at once, and the process admits nothing of the key before as much has flowed
// into the bucket. Nor is anything granted from the bucket to another process; those with
// leases go on with their own part of the rate.
//
// Of a key with classes it is the last class that has used them: see [Classed.Charge].
//
// A debt is told once, whatever is lost on the way. It stays with this process until then,
// also through an outage, and Close waits for it until its ctx ends. If the process ends
// without that, or Reset is called, it is forgotten. That of a quota ends with its window.
//
// It does not block, but for the first call of LimitFor for the key. A charge of an Unlimited
// or Blocked key does nothing.
//
// Errors: [ErrUnavailable] if MaxKeys leaves no room for the key, and nothing is charged then;
// [ErrKind] if the key has slots; [ErrInvalidLimit]; [ErrClosed]; and an empty key, or an n below 0
// or above 2^40.
func (l *Limiter) Charge(key string, n int) error { return l.chargeAs(key, n, "") }

func (l *Limiter) chargeAs(key string, n int, class string) error {
	if n < 0 || int64(n) > mostTokens {
		return fmt.Errorf("hybrid: charge %.100q: n %d is not from 0 to 2^40", key, n)
	}
	err := l.charge(key, float64(n), class)
	if l.recorder != nil && n > 0 && err == nil {
		l.recorder.take(note{key: key, cost: int64(n), verdict: charged})
	}
	return err
}

func (l *Limiter) charge(key string, n float64, class string) error {
	q := &request{key: key}
	for {
		e, err := l.look(context.Background(), q)
		if err != nil {
			return err
		}
		if n == 0 || e.Charge(l.now(), n, class) {
			l.driver.attend(e)
			l.leave(e)
			return nil
		}
		if limit := Limit(e.Limit()); limit.Kind.Jobs() {
			l.leave(e)
			return wrongVerb(fmt.Sprint("charge ", n), key, limit)
		}
		if e.Stray() {
			l.leave(e)
			return fmt.Errorf("hybrid: charge %.100q: %w", key, l.full())
		}
	}
}

// Refund gives back n tokens of key that this process has taken, and that were not of use after
// all. It is for callers that cannot know beforehand what may come back: where one can, Reserve is
// better, which loses nothing. What comes back can be used again at once, by this process first.
//
// It gives back as much as is certain not to break the limit, and returns how many whole tokens
// these are, from 0 to n. The rest stays spent:
//
//   - A debt is forgiven first, of which the store has not been told: see Charge.
//   - Of a quota comes back what this process has spent in its window. What its lease has no room
//     for goes to the store at once: it is lost if the process ends before, or if the store's
//     answers are lost until the window ends. Another process that was denied hears of it within
//     Policy.MaxHold.
//   - Of a bucket comes back what this process has spent from its lease since the last answer of
//     the store, as far as the lease has room for it. Nothing comes back while the store is being
//     asked, nor where it decides each request, as for keys that get few requests or have a small
//     limit.
//   - Of a sliding window comes back what this process has spent and still counts there, the newest
//     first.
//   - Of a key whose lease has ended, and that this process has not used for 2 s, nothing does:
//     what it has spent is forgotten.
//
// Stats go on to count the tokens as admitted. It does not block: it waits neither for the store
// nor for LimitFor. A refund of an Unlimited or Blocked key does nothing.
//
// Errors: [ErrKind] if the key has slots, and this process knows of them; [ErrClosed]; and an empty
// key, or an n below 0 or above 2^40.
func (l *Limiter) Refund(key string, n int) (back int, err error) { return l.refundAs(key, n, "") }

func (l *Limiter) refundAs(key string, n int, class string) (back int, err error) {
	if n < 0 || int64(n) > mostTokens {
		return 0, fmt.Errorf("hybrid: refund %.100q: n %d is not from 0 to 2^40", key, n)
	}
	if l.closed.Load() {
		return 0, ErrClosed
	}
	if err := checkKey(key); err != nil {
		return 0, err
	}
	e := l.table.Find(key)
	if e == nil {
		return int(l.table.Refund(l.now(), key, float64(n))), nil
	}
	tokens, ok := e.Refund(l.now(), float64(n), class)
	switch {
	case ok:
		l.driver.attend(e)
	case e.Limit().Kind.Jobs():
		return 0, wrongVerb(fmt.Sprint("refund ", n), key, Limit(e.Limit()))
	}
	return int(tokens), nil
}
