package hybrid

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

var (
	// ErrKind is wrapped by a verb that makes no sense for the key's kind of limit. The
	// error says which verb does.
	ErrKind = errors.New("limit is of another kind")

	// ErrSlotLost is the cause of the end of a Slot's Context when its lease has ended, and
	// is wrapped by a Release after that.
	ErrSlotLost = errors.New("lease of the slot has ended")

	// ErrReleased is the cause of the end of a Slot's Context when the Slot was released,
	// and is wrapped by a further Release, which changes nothing.
	ErrReleased = errors.New("slot has been released")
)

// A Slot is one or more slots of a key that a job has in use, until Release. It is safe for
// concurrent use.
//
// Slots are on lease to this process, which renews that lease. While it cannot, as the store
// is away, the job goes on until the lease ends: 15/16 of Policy.MaxHold after the last
// exchange, so 28 s by default. Then the Context ends, and a sixteenth of MaxHold later the
// store lends the slots to others. So it does when the process has crashed. But a Slot that is
// never released is renewed for as long as the process runs.
type Slot struct {
	limiter *Limiter
	key     string
	entry   *local.Entry
	job     *local.Job
	context context.Context
	cancel  context.CancelCauseFunc
}

// Acquire takes n slots of key for a job, and waits until it can. Jobs that wait in this
// process are served in their order, except during an outage; nobody overtakes. No process
// is passed over for ever, nor is a job that wants many slots: while it waits, those that come
// free in any process are kept for it, and others wait as long as the longest job. Never
// acquire more of a key while holding some of it.
//
// It waits until ctx ends, also while the store is away. It blocks besides for the first call
// of LimitFor. A process that uses the key steadily has idle slots on lease, and does not
// wait for the network. Of a key that is Unlimited there is always a slot.
//
// Errors: [ErrExceedsBurst] when there are fewer than n slots in all; [ErrKind] if the key has
// another kind of limit; [ErrUnavailable] if MaxKeys leaves no room for the key;
// [ErrInvalidLimit]; [ErrClosed]; the error of ctx; and an n below 1.
func (l *Limiter) Acquire(ctx context.Context, key string, n int) (*Slot, error) {
	return l.acquire(ctx, &request{key: key, n: n})
}

// Acquire is [Limiter.Acquire] for this key.
func (k *Key) Acquire(ctx context.Context, n int) (*Slot, error) {
	return k.limiter.acquire(ctx, &request{key: k.name, known: &k.memo, n: n})
}

func (l *Limiter) acquire(ctx context.Context, q *request) (*Slot, error) {
	if q.n < 1 {
		return nil, fmt.Errorf("hybrid: acquire %.100q: n %d is not at least 1", q.key, q.n)
	}
	s := l.newSlot(ctx, q.key, float64(q.n))
	for {
		if err := ctx.Err(); err != nil {
			return nil, q.acquiring(err)
		}
		v, err := l.seek(ctx, s, q)
		if err != nil {
			return nil, err
		}
		if v == lease.Admitted {
			return s, nil
		}
		pause, free := l.driver.dispatch.Turned(l.now(), s.entry, s.job, v)
		if free {
			return s, nil
		}
		if pause > 0 {
			_, _ = l.rest(ctx, nil, pause)
		}
	}
}

func (q *request) acquiring(err error) error {
	return fmt.Errorf("hybrid: acquire %d of %.100q: %w", q.n, q.key, err)
}

// newSlot is a Slot that nobody has granted yet.
func (l *Limiter) newSlot(ctx context.Context, key string, n float64) *Slot {
	s := &Slot{limiter: l, key: key}
	s.context, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.job = &local.Job{N: n, End: s.end}
	return s
}

// seek asks an entry of the key for the slots, and waits for the verdict. Pending is for
// one that is to ask anew.
func (l *Limiter) seek(ctx context.Context, s *Slot, q *request) (lease.Verdict, error) {
	e, err := l.look(ctx, q)
	if err != nil {
		return lease.Unavailable, err
	}
	if e.Stray() {
		l.leave(e)
		return lease.Unavailable, q.acquiring(l.full())
	}
	s.entry = e
	now := l.clock.awake()
	r := e.Acquire(now, s.job, patience(ctx), l.driver.dispatch.Away())
	v := r.Verdict
	if (r.Due == local.LimitFirst || v == lease.Exceeding) && l.recheck(ctx, now, e) || r.Gone {
		return lease.Pending, nil
	}
	l.follow(now, e, r)
	if v == lease.Pending {
		if v, err = l.await(ctx, e, q, r.Waiter); err != nil {
			l.driver.attend(e) // it has gone: what was gathered for it goes on
			return v, q.acquiring(err)
		}
		if _, constant := e.Constant(); constant && v != lease.Admitted {
			return lease.Pending, nil // so it has become while the job waited
		}
	}
	if v == lease.Exceeding {
		return v, tooMany(e, q)
	}
	return v, nil
}

// tooMany is the error of an Acquire for more slots than there are, or of none.
func tooMany(e *local.Entry, q *request) error {
	limit := Limit(e.InForce())
	if limit.Kind != KindSlots && limit != Blocked {
		return q.acquiring(fmt.Errorf("limit %v is for Take, Wait and Reserve: %w", limit, ErrKind))
	}
	return q.acquiring(fmt.Errorf("limit %v: %w", limit, ErrExceedsBurst))
}

// end ends the context of a job that is finished, or whose lease or entry has ended.
func (s *Slot) end(finished bool) {
	switch {
	case finished:
		s.cancel(ErrReleased)
	case s.limiter.closed.Load():
		s.cancel(ErrClosed)
	default:
		s.cancel(ErrSlotLost)
	}
}

// Context ends when the job must: its lease has ended, it was released, or the Limiter is
// closed; context.Cause says which. It has the values of the context of Acquire, and does not
// end with that. A context that has ended is not yet a job that has: see Fence.
func (s *Slot) Context() context.Context { return s.context }

// Fence is a number for a resource that only the job may use: with Slots(1), the resource
// remembers the largest number that it has seen, and refuses smaller ones. With more than
// one slot, a smaller number may be of a job that is still live. A job may go on after its
// Context has ended, because its process was stopped. It is refused as soon as the next job
// has come.
//
// It is the time by the store's clock, in µs, at which the block was lent: two slots of one
// block have the same, as one was released before. It is 0 where no lease covers the Slot:
// the outage policy Allow has admitted it, or the key is Unlimited.
func (s *Slot) Fence() uint64 { return s.job.Fence }

// Release ends the Context, and then gives the slots back. It does not block.
//
// Errors: the cause of the end of the Context if that has ended before. This is [ErrReleased] after
// a Release that has returned nil. It is [ErrSlotLost] or [ErrClosed] where another job may have
// had the slots meanwhile.
func (s *Slot) Release() error {
	kept := s.entry.Finish(s.limiter.clock.awake(), s.job)
	s.limiter.driver.attend(s.entry)
	if !kept {
		return fmt.Errorf("hybrid: release %.100q: %w", s.key, context.Cause(s.context))
	}
	return nil
}
