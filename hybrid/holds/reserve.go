package holds

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/hybrid/internal/foreign"
)

// Reserve makes a hold, and tells its ID. A repeat with the same ID and content has the answer of
// the first, whichever replica gets it; nothing is taken then. After the hold's end a repeat has
// ErrOver, as its job has been done. After a denial the Hold has no ID.
//
// It blocks as Take does, and then as the Store does, for three batches at most, or one more for
// each 256 calls that wait. If ctx ends meanwhile, a hold whose ID was made up is cancelled.
//
// Errors: ErrID, ErrFull, ErrDiffers, ErrOver, those of Take, of ctx and of the Store, and that of
// a field of the Order that is out of range. After an error of the Store the hold may have come
// into being; repeat it with the same ID, or it ends as if nobody had settled it.
func (k *Keeper) Reserve(ctx context.Context, o Order) (Hold, error) {
	chosen := o.ID != ""
	switch {
	case !chosen:
		o.ID = rand.Text()
	case !ValidID(o.ID):
		return Hold{}, fmt.Errorf("holds: reserve %.100q: %w", o.ID, ErrID)
	}
	if err := o.check(); err != nil {
		return Hold{}, fmt.Errorf("holds: reserve %.100q: %w", o.ID, err)
	}
	if k.time().IsZero() { // which any answer tells
		if _, err := k.do(ctx, Call{Verb: Look}); err != nil && !errors.Is(err, ErrAbsent) {
			return Hold{}, err
		}
	}
	for {
		h, err := k.reserve(ctx, o, chosen)
		if !errors.Is(err, errAgain) {
			return h, err
		}
	}
}

// check returns the error of a field that is out of range.
func (o *Order) check() error {
	if o.Content == "" {
		return errors.New("Order.Content is empty")
	}
	return errors.Join(checkLife(o.Life), checkNumbers("Order.Estimate", o.Estimate))
}

func checkLife(life time.Duration) error {
	if life < time.Millisecond || life > MaxLife {
		return fmt.Errorf("a life of %v is not from 1ms to %v", life, MaxLife)
	}
	return nil
}

func checkNumbers(field string, list []int) error {
	for i, n := range list {
		if n < 0 || int64(n) > mostTokens {
			return fmt.Errorf("%s[%d] is %d, and not from 0 to 2^53", field, i, n)
		}
	}
	return nil
}

// reserve is one try. Its error is errAgain if another caller's end has ended it.
func (k *Keeper) reserve(ctx context.Context, o Order, chosen bool) (Hold, error) {
	l, first, err := k.admit(o)
	if err != nil {
		return Hold{}, err
	}
	if first {
		k.take(ctx, o, l)
	} else if err := l.wait(ctx); err != nil {
		return Hold{}, fmt.Errorf("holds: reserve %.100q: %w", o.ID, err)
	}
	switch {
	case l.err != nil && !first && l.gone && ctx.Err() == nil:
		return Hold{}, errAgain
	case l.err != nil:
		return Hold{}, l.err
	case l.tokens == nil:
		return k.denied(ctx, o, l, chosen)
	}
	h, err := k.write(o, l)
	if err == nil && !chosen && ctx.Err() != nil {
		_ = k.Cancel(context.WithoutCancel(ctx), o.Owner, o.ID)
		return Hold{}, fmt.Errorf("holds: reserve: %w", ctx.Err())
	}
	return h, err
}

// wait waits for another caller's Take.
func (l *local) wait(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// admit returns the local hold of an order, and whether it is a new one.
func (k *Keeper) admit(o Order) (l *local, first bool, err error) {
	name := nameOf(o.Owner, o.ID)
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.mine[name]; l != nil {
		if l.Content != o.Content {
			return nil, false, fmt.Errorf("holds: reserve %.100q: %w", name, ErrDiffers)
		}
		return l, false, nil
	}
	client := cmp.Or(o.Client, o.Owner)
	if n := k.count[client]; n >= k.c.MostOfClient || len(k.mine) >= k.c.Most {
		return nil, false, fmt.Errorf("holds: reserve: %w: %d, of this client %d", ErrFull, len(k.mine), n)
	}
	k.made++
	l = &local{client: client, learn: o.Learn, ready: make(chan struct{}), Call: Call{
		Verb: Reserve, Name: name, Life: o.Life.Truncate(time.Millisecond), Content: o.Content,
		Token: fmt.Sprint(k.home, k.made), Estimate: o.Estimate, Spent: o.Spent,
	}}
	k.mine[name] = l
	k.count[client]++
	return l, true, nil
}

// forgetLocked undoes admit. Whoever it tells that it has, settles the tokens, and nobody else.
func (k *Keeper) forgetLocked(l *local) bool {
	if k.mine[l.Name] != l {
		return false
	}
	delete(k.mine, l.Name)
	if k.count[l.client]--; k.count[l.client] == 0 {
		delete(k.count, l.client)
	}
	return true
}

// take reserves the tokens of a new hold. A panic of Take leaves nothing behind.
func (k *Keeper) take(ctx context.Context, o Order, l *local) {
	defer close(l.ready)
	defer func() {
		if l.tokens == nil || l.err != nil {
			k.drop(l, l.Until)
		}
	}()
	l.err = errTake
	l.tokens, l.Answer, l.err = o.Take(ctx)
	l.gone = ctx.Err() != nil
}

var (
	errTake  = errors.New("holds: reserve: Take has panicked")
	errAgain = errors.New("another caller, or the hold's end at home, came between")
)

// denied answers an order without tokens: a hold that was made before is the answer all the same.
func (k *Keeper) denied(ctx context.Context, o Order, l *local, chosen bool) (Hold, error) {
	if !chosen {
		return Hold{Answer: l.Answer}, nil
	}
	a, err := k.do(ctx, Call{Verb: Look, Name: l.Name, Content: o.Content})
	switch {
	case errors.Is(err, ErrAbsent):
		return Hold{Answer: l.Answer}, nil
	case err != nil:
		return Hold{}, err
	}
	return Hold{o.ID, a.Answer, a.Ends}, nil
}

// write writes a hold whose tokens are taken. They come back at once if they are not needed, as
// there is a hold of the name already. While it is not known whether it was written, they stay.
func (k *Keeper) write(o Order, l *local) (Hold, error) {
	p := &pending{done: make(chan struct{})}
	k.mu.Lock()
	if k.mine[l.Name] != l {
		k.mu.Unlock()
		return Hold{}, errAgain
	}
	l.Until = k.timeLocked().Add(k.patience)
	p.Call = l.Call
	k.queueLocked(p)
	k.mu.Unlock()
	<-p.done
	if p.err != nil {
		return Hold{}, p.verdict()
	}
	if p.answer.Token != l.Token {
		k.drop(l, p.Until)
	}
	return Hold{o.ID, p.answer.Answer, p.answer.Ends}, p.verdict()
}

// drop ends a hold at home, and gives its tokens back, unless somebody has begun to write it since:
// that may succeed (TestLateRepeat).
func (k *Keeper) drop(l *local, until time.Time) {
	k.mu.Lock()
	had := l.Until.Equal(until) && k.forgetLocked(l)
	k.mu.Unlock()
	if had && l.tokens != nil {
		k.settle(l, nil)
	}
}

// settle settles the tokens of a hold at home; nil: nothing was used.
func (k *Keeper) settle(l *local, used []int) {
	if used == nil {
		used = make([]int, len(l.Estimate))
	}
	k.book("settle at home", l.Name, func() error { return l.tokens.Settle(used...) })
}

// book does what a record says. Its errors and panics are told: nobody waits for them.
func (k *Keeper) book(what, name string, do func() error) {
	var err error
	if p := foreign.Call(func() { err = do() }); p != nil {
		err = p
	}
	if err != nil {
		_ = foreign.Call(func() { k.c.Failed(fmt.Errorf("holds: %s, %.100q: %w", what, name, err)) })
	}
}
