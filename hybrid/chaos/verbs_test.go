//go:build linux || darwin

package chaos

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// together asks for the key and for those with it, or for some of them, in any order.
func (w *worker) together(l *hybrid.Limiter, i int, random *rand.Rand) {
	keys := append([]int{i}, w.Keys[i].With...)
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+random.IntN(len(keys))]
	var asks []hybrid.Ask
	for _, j := range keys {
		asks = append(asks, hybrid.Ask{Key: w.Keys[j].Name, N: 1 + random.IntN(w.Keys[i].Most)})
	}
	before := clock()
	all, err := l.TakeAll(context.Background(), asks...)
	after := clock()
	list := make([]decision, len(asks))
	for j, ask := range asks {
		list[j] = decision{before: before, after: after, key: uint16(keys[j]), n: uint16(ask.N)}
		list[j].verdict = failed
		if err == nil {
			list[j].verdict = part(all, all.Each[j])
		}
	}
	record(list...)
}

// part is the verdict on one of several keys.
func part(all hybrid.Decisions, one hybrid.Decision) verdict {
	v := verdictOn(one, nil)
	switch {
	case all.Allowed:
		return v
	case v == shared:
		return closed
	case v == admitted:
		return overruled
	}
	return v
}

// reserve reserves tokens for a job that takes no time, or some, and settles what that has
// cost. Now and then it charges them instead.
func (w *worker) reserve(l *hybrid.Limiter, d decision, random *rand.Rand) {
	name := w.Keys[d.key].Name
	if random.IntN(20) == 0 {
		d.verdict = charged
		if err := l.Charge(name, int(d.n)); err != nil {
			d.verdict = failed
		}
		d.after = clock()
		record(d)
		return
	}
	r, err := l.Reserve(context.Background(), name, int(d.n))
	if err != nil {
		d.verdict = failed
	} else if d.verdict = verdictOn(r.Decision, nil); d.verdict == admitted {
		d.verdict = reserved
	}
	d.after = clock()
	record(d)
	if d.verdict != reserved {
		return
	}
	actual := int(d.n)
	switch x := random.IntN(10); {
	case x < 3:
		actual = 0
	case x < 7:
		actual = random.IntN(actual + 1)
	case x == 9:
		actual += 1 + random.IntN(actual)
	}
	if random.IntN(2) == 0 {
		settle(r, d, actual)
		return
	}
	pause := time.Duration(random.ExpFloat64() * float64(meanJob))
	go func() {
		time.Sleep(pause)
		settle(r, d, actual)
	}()
}

// settle ends a reservation. If its lease had ended, all of it had been settled then.
func settle(r *hybrid.Reservation, d decision, actual int) {
	d.verdict = settled
	c := d
	c.before, c.verdict = clock(), charged
	err := r.Settle(actual)
	d.after = clock()
	c.after = d.after
	var list []decision
	if n := min(actual, int(d.n)); n > 0 {
		d.n = uint16(n)
		list = append(list, d)
	}
	if more := actual - int(c.n); more > 0 && err == nil {
		c.n = uint16(more)
		list = append(list, c)
	}
	record(list...)
}

const (
	// meanJob is for how long jobs have slots, or tokens reserved, on average.
	meanJob = 150 * time.Millisecond

	// look is how often a job looks whether it still has its slots.
	look = 20 * time.Millisecond
)

// job has slots in use for a time, or until its context ends.
func (w *worker) job(l *hybrid.Limiter, d decision, lasts time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
	defer cancel()
	d.before = clock()
	slot, err := l.Acquire(ctx, w.Keys[d.key].Name, int(d.n))
	d.after = clock()
	switch {
	case err == nil:
		d.verdict, d.fence = began, slot.Fence()
	case errors.Is(err, context.DeadlineExceeded):
		d.verdict = abandoned
	default:
		d.verdict = failed
	}
	record(d)
	if err != nil {
		return
	}
	end := d.after + lasts
	for d.verdict = held; ; {
		d.before = clock()
		if d.before >= end || slot.Context().Err() != nil {
			break
		}
		record(d)
		time.Sleep(min(look, end-d.before))
	}
	d.before = clock()
	d.verdict = released
	if slot.Release() != nil {
		d.verdict = lost
	}
	record(d)
}

// TestPart: what a request for several keys is for each of them.
func TestPart(t *testing.T) {
	for _, c := range []struct {
		all, one bool
		source   hybrid.Source
		want     verdict
	}{
		{true, true, hybrid.Lease, admitted},
		{true, true, hybrid.OutagePolicy, shared},
		{false, true, hybrid.Ledger, overruled},
		{false, false, hybrid.Ledger, denied},
		{false, true, hybrid.OutagePolicy, closed},
		{false, false, hybrid.OutagePolicy, closed},
	} {
		one := hybrid.Decision{Allowed: c.one, Source: c.source}
		if got := part(hybrid.Decisions{Allowed: c.all}, one); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
