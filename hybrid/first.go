package hybrid

import (
	"context"
	"errors"
	"slices"
)

// TakeFirst takes the tokens of the first of up to MaxAsks Asks whose limit has them all: of a free
// tier, and else of credits. It returns the Ask's index and Decision, and takes nothing of the
// others. If all deny, the index is -1, and the Decision that of the limit which has the tokens
// soonest. A limit that can never have them, as N is above its Burst, is passed over. How to split
// a cost among limits is an example of TakeAll.
//
// It blocks as TakeAll does, for each Ask that it comes to. Errors are those of TakeAll; nothing is
// taken then, and those that follow are not asked. It is [ErrExceedsBurst] only if no limit can ever
// have the tokens.
func (l *Limiter) TakeFirst(ctx context.Context, asks ...Ask) (first int, d Decision, err error) {
	if err := l.checkAsks("take first", asks); err != nil {
		return -1, Decision{}, err
	}
	var exceeds error
	denied := false
	for i, ask := range asks {
		alone := slices.Clone(asks)
		for j := range alone {
			alone[j].N = 0
		}
		alone[i].N = ask.N
		all, err := l.TakeAll(ctx, alone...)
		switch {
		case errors.Is(err, ErrExceedsBurst):
			exceeds = err
		case err != nil:
			return -1, Decision{}, err
		case all.Allowed:
			return i, all.Each[i], nil
		case !denied || all.Each[i].RetryAfter < d.RetryAfter:
			denied, d = true, all.Each[i]
		}
	}
	if !denied {
		return -1, Decision{}, exceeds
	}
	return -1, d, nil
}
