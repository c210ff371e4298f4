package rlqs

import (
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// income is at which rate tokens can be had while they are scarce.
type income struct {
	rate  float64 // tokens/s, over incomeMemory
	at    time.Time
	short time.Time // when less than was asked for could be had
}

const (
	incomeMemory = 1500 * time.Millisecond
	shortage     = 2 * time.Second // for how long one is remembered
)

// add notes what could be had since the last time. What was not asked for could perhaps be had,
// too.
func (i *income) add(now time.Time, tokens float64, short bool) {
	since := now.Sub(i.at).Seconds()
	if i.at.IsZero() {
		i.rate, since = tokens/tick.Seconds(), tick.Seconds()
	}
	i.at = now
	if since <= 0 {
		return
	}
	rate := i.rate + (tokens/since-i.rate)*(1-math.Exp(-since/incomeMemory.Seconds()))
	if short {
		i.short = now
	}
	if short || rate > i.rate {
		i.rate = rate
	}
}

func (i *income) scarce(now time.Time) bool { return now.Sub(i.short) < shortage }

// What a rate is that stays: a change costs the tokens of a bucket that may be full.
const (
	low        = 0.95 // of its target: less is raised
	high       = 1.5  // more is lowered
	highScarce = 1.25
	leastRaise = 1.03 // of the rate before
)

// targets are the rates that the members should have, in tokens/s. While all needs fit, each has an
// equal part of what is spare beside its own, as far as the limit is not in use by others: so a
// demand that grows finds it. If not all fit, each has the same part of its need.
func (b *bucket) targets(scarce bool) []float64 {
	limit, n := b.limit.Limit, float64(len(b.members))
	bucket := limit.Kind == hybrid.KindBucket
	capacity := math.Inf(1)
	if bucket {
		capacity = limit.Rate
	}
	if scarce {
		capacity = min(capacity, b.income.rate*1.05)
	}
	unknown := float64(limit.Burst) / 100 / n // of a window, in a second
	if bucket {
		unknown = capacity / n
	}
	needs, sum := make([]float64, len(b.members)), 0.0
	for i, m := range b.members {
		needs[i] = unknown
		if m.known {
			needs[i] = 1.1*m.demand + math.Sqrt(m.demand/5)
		}
		sum += needs[i]
	}
	part, spare := 1.0, 0.0
	if sum > capacity {
		part = capacity / sum
	} else if bucket && !scarce {
		spare = (limit.Rate - sum) / n * min(max(2*b.level-0.5, 0), 1)
	}
	for i := range needs {
		needs[i] = needs[i]*part + spare
	}
	return needs
}

// numbers are a token bucket of a rate. Its tokens are the same part of half the Burst as the rate
// is of the limit's; while that is scarce, what evens out random arrivals, and what comes together.
func (b *bucket) numbers(rate float64, scarce bool) numbers {
	limit := b.limit.Limit
	tokens := min(2*rate, float64(limit.Burst)/50) // of a window
	if limit.Kind == hybrid.KindBucket {
		tokens = float64(limit.Burst) / 2 * min(rate/limit.Rate, 1)
	}
	if scarce {
		tokens = min(tokens, max(1+2*math.Sqrt(rate), rate/6))
	}
	return numbersOf(tokens, rate)
}

// A message is what a member may be told.
type message struct {
	*member
	next numbers
	life time.Duration
}

func (m message) price(now time.Time) float64 { return m.out.price(now, m.next, m.life) }

func priceOf(now time.Time, list []message) (sum float64) {
	for _, m := range list {
		sum += m.price(now)
	}
	return sum
}

// mostFilling is which part of the tokens may be for that, where a rate is raised by a part of the
// way. Else they are saved for a longer way.
const mostFilling = 0.1

// parts of the way to its target that a rate is raised by, as far as there are tokens for.
var parts = [...]float64{1, 0.7, 0.5, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0}

// divide sends the messages that are due, of a limit. What can be had lowers and keeps rates first,
// then raises them, and then lengthens lives.
func (b *bucket) divide(now time.Time) {
	scarce := b.income.scarce(now)
	targets := b.targets(scarce)
	plan := func(part float64, longer bool) []message {
		return b.plan(now, targets, scarce, part, longer)
	}
	// What the next tick will cost is not spent on more.
	cushion := 0.0
	for _, m := range b.members {
		cushion += m.out.rate() * tick.Seconds()
	}
	want := math.Ceil(cushion + priceOf(now, plan(1, !scarce)) - b.purse)
	got := 0.0
	asked := min(want, math.Floor(b.room(now)))
	if asked >= 1 {
		got = b.take(uint64(asked))
		b.purse += got
		now = time.Now() // it may have waited for the store
	}
	b.lose(now)
	b.income.add(now, got, got < asked)
	for _, part := range parts {
		list := plan(part, false)
		free := b.purse - cushion
		partly := part > 0 && part < 1
		if priceOf(now, list) > free || partly && filling(list) > free*mostFilling {
			continue
		}
		if long := plan(part, true); !scarce && priceOf(now, long) <= free {
			list = long
		}
		b.pay(now, list)
		return
	}
	b.pay(now, plan(0, false))
}

// plan returns the messages that raise rates by a part of the way to their targets.
func (b *bucket) plan(
	now time.Time, targets []float64, scarce bool, part float64, longer bool,
) (list []message) {
	above := high
	if scarce {
		above = highScarce
	}
	for i, m := range b.members {
		rate, target := m.out.rate(), targets[i]
		raised := b.numbers(rate+part*(target-rate), scarce)
		switch {
		case m.out.max == 0 && part > 0,
			rate < low*target && raised.rate() > leastRaise*rate:
			list = append(list, message{m, raised, Least})
		case m.out.max > 0 && rate > above*target && m.out.fill > 1:
			list = append(list, message{m, b.numbers(target, scarce), Least})
		case m.out.max > 0 && m.out.due(now):
			life := m.out.life
			if longer {
				life = min(life+time.Second, b.service.config.Life)
			}
			list = append(list, message{m, m.out.numbers, life})
		}
	}
	return list
}

// filling is the tokens of buckets that change, which an Envoy may not get: its bucket stays as
// full as it was.
func filling(list []message) (sum float64) {
	for _, m := range list {
		if m.out.max > 0 && m.next != m.out.numbers {
			sum += m.next.tokens()
		}
	}
	return sum
}

// most is how many tokens may be alive in a bucket: taken, and perhaps still to be spent.
func (b *bucket) most() float64 {
	limit := b.limit.Limit
	if limit.Kind != hybrid.KindBucket {
		return max(float64(limit.Burst)/10, 2)
	}
	return float64(limit.Burst)/2 + limit.Rate*(b.service.config.Life+aliveMore).Seconds() +
		2*float64(len(b.members))
}

// room is how many more there may be.
func (b *bucket) room(now time.Time) float64 { return b.most() - b.alive(now) }

// lose gives up what may come back, as far as it is above A together with what is alive: other
// tokens were taken in its place. So of what was taken before any time at most A is admitted after
// it (TestFleet/surge). What has probably been spent goes first: it does not come back anyway.
func (b *bucket) lose(now time.Time) {
	over := -b.room(now)
	for _, m := range b.members {
		over += m.dead(now)
	}
	for _, part := range []func(*member) float64{
		func(m *member) float64 { return min(m.dead(now), max(m.spends(now)-m.lost, 0)) },
		func(m *member) float64 { return m.dead(now) },
	} {
		sum := 0.0
		for _, m := range b.members {
			sum += part(m)
		}
		if over <= 0 || sum <= 0 {
			continue
		}
		share := min(over/sum, 1)
		for _, m := range b.members {
			m.lost += part(m) * share
		}
		over -= sum * share
	}
}

// spends is what an Envoy has probably spent since its last report.
func (m *member) spends(now time.Time) float64 {
	return min(m.demand, m.out.rate()) * now.Sub(m.last).Seconds()
}

// dead is what an Envoy can spend no more, and what comes back unless it has been spent.
func (m *member) dead(now time.Time) float64 { return max(m.funds-m.lost-m.alive(now), 0) }

// alive is how many there are.
func (b *bucket) alive(now time.Time) float64 {
	sum := b.purse
	for _, l := range b.left {
		sum += l.funds
	}
	for _, m := range b.members {
		sum += m.alive(now)
	}
	return sum
}

// alive is how many an Envoy can spend at most. While what it was told last may not have arrived,
// that is what it could spend before, and the price.
func (m *member) alive(now time.Time) float64 {
	switch {
	case m.out.end.Before(now):
		m.funds, m.lost = 0, 0
		return 0
	case now.Sub(m.changed) < flight:
		return min(m.funds, m.may)
	}
	return min(m.funds, m.out.most(now))
}

// pay sends the messages that there are tokens for. Who has least time left comes first, and what
// it lacks is saved for it.
func (b *bucket) pay(now time.Time, list []message) {
	slices.SortStableFunc(list, func(a, c message) int { return a.out.end.Compare(c.out.end) })
	for _, m := range list {
		price := m.price(now)
		if price > b.purse {
			return
		}
		b.purse -= price
		m.may = m.alive(now) + price
		m.funds += price
		if m.next != m.out.numbers || !m.out.renewable(now) {
			m.changed = now
		}
		m.out = told(now, m.next, m.life)
		m.stream.put(now, b.assign(m.next, m.life))
	}
}
