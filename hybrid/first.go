package hybrid

import (
	"context"
	"errors"
)

// TakeFirst takes the tokens of the first of up to MaxAsks Asks whose limit has them all: of a free
// tier, and else of credits. It returns the Ask's index and Decision, and takes nothing of the
// others. It asks LimitFor of no key before it comes to that. If all deny, the index is -1, and the
// Decision that of the limit which has the tokens soonest. A limit that can never have them, as N
// is above its Burst, is passed over. How to split a cost among limits is an example of TakeAll.
//
// It blocks as TakeAll does, for each Ask that it comes to. Errors are those of TakeAll; nothing is
// taken then, and those that follow are not asked. It is [ErrExceedsBurst] only if no limit can
// ever have the tokens.
func (l *Limiter) TakeFirst(ctx context.Context, asks ...Ask) (first int, d Decision, err error) {
	if err := l.checkAsks("take first", asks); err != nil {
		return -1, Decision{}, err
	}
	var exceeds error
	denied := false
	for i := range asks {
		all, err := l.takeAll(ctx, asks[i:i+1], i)
		switch {
		case errors.Is(err, ErrExceedsBurst):
			exceeds = err
		case err != nil:
			return -1, Decision{}, err
		case all.Allowed:
			return i, all.Each[0], nil
		case !denied || all.Each[0].RetryAfter < d.RetryAfter:
			denied, d = true, all.Each[0]
		}
	}
	if !denied {
		return -1, Decision{}, exceeds
	}
	return -1, d, nil
}
