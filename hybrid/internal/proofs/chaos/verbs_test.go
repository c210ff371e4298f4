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

// some are the key and those with it, or some of them, in any order, as Asks for up to Most.
func (w *worker) some(i int, random *rand.Rand) (keys []int, asks []hybrid.Ask) {
	keys = append([]int{i}, w.Keys[i].With...)
	random.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	keys = keys[:1+random.IntN(len(keys))]
	for _, j := range keys {
		asks = append(asks, hybrid.Ask{Key: w.Keys[j].Name, N: 1 + random.IntN(w.Keys[i].Most)})
	}
	return keys, asks
}

// together asks for some keys at once, and waits for them now and then. A request that waited
// does not tell who has admitted it, which matters where the outage policy admits.
func (w *worker) together(l *hybrid.Limiter, i int, random *rand.Rand) {
	keys, asks := w.some(i, random)
	waits := w.Outage == hybrid.Deny && random.IntN(2) == 0
	list := decisions(keys, asks)
	var verdictOf func(int) verdict
	if waits {
		ctx, cancel := context.WithTimeout(context.Background(), w.Timeout)
		defer cancel()
		v := waited(l.WaitAll(ctx, asks...))
		verdictOf = func(int) verdict { return v }
	} else {
		all, err := l.TakeAll(context.Background(), asks...)
		verdictOf = func(j int) verdict { return partOf(all, err, j) }
	}
	after := clock()
	for j := range list {
		list[j].after, list[j].verdict = after, verdictOf(j)
	}
	record(list...)
}

// decisions are those on the Asks for some keys, which begin now.
func decisions(keys []int, asks []hybrid.Ask) []decision {
	list := make([]decision, len(asks))
	before := clock()
	for j, ask := range asks {
		list[j] = decision{before: before, key: uint16(keys[j]), n: uint16(ask.N)}
	}
	return list
}

// partOf is the verdict on the j-th of several keys.
func partOf(all hybrid.Decisions, err error, j int) verdict {
	if err != nil {
		return failed
	}
	return part(all, all.Each[j])
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

// reserve reserves tokens for a job that takes no time, or some, of one key or several, and
// settles what that has cost of each. Now and then it charges them instead.
func (w *worker) reserve(l *hybrid.Limiter, d decision, random *rand.Rand) {
	if random.IntN(20) == 0 {
		d.verdict = charged
		if err := l.Charge(w.Keys[d.key].Name, int(d.n)); err != nil {
			d.verdict = failed
		}
		d.after = clock()
		record(d)
		return
	}
	keys, asks := w.some(int(d.key), random)
	list := decisions(keys, asks)
	all, err := reserveAll(l, asks)
	after := clock()
	for j := range list {
		list[j].after, list[j].verdict = after, partOf(all.Decisions, err, j)
		if list[j].verdict == admitted {
			list[j].verdict = reserved
		}
	}
	record(list...)
	for j, r := range all.Reserved {
		d, actual := list[j], cost(int(list[j].n), random)
		if random.IntN(2) == 0 {
			settle(r, d, actual)
			continue
		}
		later(random, func() { settle(r, d, actual) })
	}
}

// reserveAll is ReserveAll, and Reserve for one key.
func reserveAll(l *hybrid.Limiter, asks []hybrid.Ask) (hybrid.Reservations, error) {
	ctx := context.Background()
	if len(asks) > 1 {
		return l.ReserveAll(ctx, asks...)
	}
	r, err := l.Reserve(ctx, asks[0].Key, asks[0].N)
	if err != nil {
		return hybrid.Reservations{}, err
	}
	all := hybrid.Reservations{
		Decisions: hybrid.Decisions{Allowed: r.Allowed, Each: []hybrid.Decision{r.Decision}},
	}
	if r.Allowed {
		all.Reserved = append(all.Reserved, r)
	}
	return all, nil
}

// cost is what a job has needed of n tokens: none, less, all or more.
func cost(n int, random *rand.Rand) int {
	switch x := random.IntN(10); {
	case x < 3:
		return 0
	case x < 7:
		return random.IntN(n + 1)
	case x == 9:
		return n + 1 + random.IntN(n)
	}
	return n
}

// later does what when a job has ended.
func later(random *rand.Rand, do func()) {
	time.AfterFunc(time.Duration(random.ExpFloat64()*float64(meanJob)), do)
}

// refund takes tokens and gives some of them back, at once or later. Those that it keeps are
// what was admitted, whether the others come back or not: they have not been used.
func (w *worker) refund(l *hybrid.Limiter, d decision, random *rand.Rand) {
	name := w.Keys[d.key].Name
	d.verdict = verdictOn(l.Take(context.Background(), name, int(d.n)))
	d.after = clock()
	if d.verdict != admitted {
		record(d)
		return
	}
	kept := uint16(random.IntN(int(d.n) + 1))
	back := d
	back.n, d.n, back.taken = d.n-kept, kept, d.before
	record(d)
	give := func() {
		back.before = clock()
		if n, err := l.Refund(name, int(back.n)); err == nil {
			back.after, back.verdict, back.n = clock(), refunded, uint16(n)
			record(back)
		}
	}
	if random.IntN(2) == 0 {
		give()
	} else {
		later(random, give)
	}
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
