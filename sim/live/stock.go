package live

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
	"github.com/seed13b07268/ration/remote"
)

// A holding is what a process held of a key when the warm-up ended, as far as messages tell: of
// the last one that left or came before.
type holding struct {
	Process              int
	Key                  string
	Asked                time.Duration
	Tokens               float64       // at Asked, with those that the answer brought
	Taken                float64       // of these, for callers that waited: they need no room
	Rate, Burst          float64       // the rate is 0 while there is no answer (lease.Holder.running)
	From, Until, Expires time.Duration // of the rate, and of the lease
}

// asks notes that a request leaves.
func (h *holding) asks(at time.Duration, q *lease.Request) {
	h.Asked, h.Tokens, h.Taken, h.Rate = at, q.Held, 0, 0
}

// answered notes that the answer to a request comes.
func (h *holding) answered(asked, at time.Duration, q *lease.Request, r *lease.Reply) {
	h.Asked, h.Tokens, h.Taken, h.Burst = asked, q.Held+r.Add+r.Taken, r.Taken, r.Burst
	if h.Rate = 0; r.Shape.Refills() {
		h.Rate = r.Rate
	}
	h.From, h.Until, h.Expires = at, asked+r.RateUntil, asked+r.Expires
}

// left is what is left at now of it, when these were admitted since it was asked for.
func (h *holding) left(now time.Duration, admitted []*shot) float64 {
	if now >= h.Expires {
		return 0
	}
	slices.SortFunc(admitted, func(a, b *shot) int { return cmp.Compare(a.Returned, b.Returned) })
	tokens, taken, at := h.Tokens, h.Taken, h.From
	until := func(now time.Duration) {
		if now > at {
			tokens += h.Rate * max(min(now, h.Until)-at, 0).Seconds()
			at = now
		}
		tokens = min(tokens, h.Burst+taken)
	}
	for _, s := range admitted {
		until(s.Returned)
		tokens = max(tokens-float64(s.Cost), 0)
		taken = max(taken-float64(s.Cost), 0)
	}
	until(now)
	return min(tokens, h.Burst)
}

// mostLooks is how many keys are looked at when the warm-up ends: more would
// take so long that the moment has passed.
const mostLooks = 100

// look returns the pools of all keys, as of now; none if there are too many keys.
func look(ctx context.Context, space ledgers, keys []string) ([]float64, error) {
	if len(keys) > mostLooks {
		return nil, nil
	}
	pools := make([]float64, len(keys))
	for i, key := range keys {
		var err error
		if pools[i], err = space.pool(ctx, key); err != nil {
			return nil, err
		}
	}
	return pools, nil
}

// pool is what the ledger of a key has not lent out.
func (k *keyspace) pool(ctx context.Context, key string) (float64, error) {
	rdb := k.admin
	v, err := remote.New(rdb, remote.WithPrefix(k.prefix)).Inspect(ctx, key)
	now, errTime := k.clock(ctx)
	return poolAt(&v.View, now), errors.Join(err, errTime)
}

// clock is the time that Redis shows.
func (k *keyspace) clock(ctx context.Context) (sinceEpoch time.Duration, err error) {
	now, err := k.admin.Time(ctx).Result()
	return time.Duration(now.UnixNano()), err
}

// poolAt is the pool of a ledger at now on its clock: the ledger itself counts when it is
// next asked.
func poolAt(v *lease.View, now time.Duration) float64 {
	if v.Limit.Burst == 0 {
		return math.NaN() // nobody has asked yet
	}
	if starts, _ := ideal.Window(v.Limit, now); v.At < float64(starts/time.Microsecond) {
		return float64(v.Limit.Burst)
	}
	passed := max(float64(now/time.Microsecond)-v.At, 0)
	pool := v.Pool + max(v.Limit.Rate-v.Rates, 0)*passed/1e6
	return min(pool, max(float64(v.Limit.Burst)-v.Bursts, min(v.Pool, 0)))
}

// savings are what the fleet had of each key when the warm-up ended, in pools
// and leases; NaN where that is not known.
func savings(p *plan, r *recording) []float64 {
	w := p.setting.Warmup
	saved := make([]float64, len(p.keys))
	if r.pools == nil {
		for i := range saved {
			saved[i] = math.NaN()
		}
		return saved
	}
	copy(saved, r.pools)
	type cell struct {
		process int
		key     string
	}
	held := map[cell]*holding{}
	for i := range r.traffic.Held {
		h := &r.traffic.Held[i]
		held[cell{h.Process, h.Key}] = h
	}
	spent := map[cell][]*shot{}
	for i := range r.shots {
		s := &r.shots[i]
		if s.Verdict != admitted || s.ByOutage || s.Returned > w {
			continue
		}
		for _, n := range p.setting.keysOf(&s.Request) {
			c := cell{s.Process, p.keys[n]}
			if h := held[c]; h != nil && s.Returned > h.Asked {
				spent[c] = append(spent[c], s)
			}
		}
	}
	number := map[string]int{}
	for i, key := range p.keys {
		number[key] = i
	}
	for c, h := range held {
		if p.alive(c.process, w) {
			saved[number[c.key]] += h.left(w, spent[c])
		}
	}
	return saved
}

// alive reports whether a process is up at now.
func (p *plan) alive(process int, now time.Duration) bool {
	for i := range p.lives {
		if l := &p.lives[i]; l.Process == process && l.From <= now && now < l.To {
			return true
		}
	}
	return false
}
