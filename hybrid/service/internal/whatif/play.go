package whatif

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

const (
	// mostPlays is how many questions are answered at once, and patience how long others wait.
	mostPlays = 2
	patience  = 3 * time.Second

	// longest is how long what was recorded is played.
	longest = 10 * time.Second

	// mostKeys is how many of the keys that are denied most an Answer has.
	mostKeys = 10
)

// ErrBusy says that too many questions are asked at once.
var ErrBusy = errors.New("whatif: too many ask at once")

// An Answer is what another limit would have done to what was recorded of a rule.
type Answer struct {
	From, To time.Time

	// Requests are those of all keys. Denied are those that the limit then has denied, or would have
	// as a shadow; Would those that the other limit denies.
	Requests, Denied, Would int64

	// Keys are all of them, KeysDenied those of which anything was denied, and KeysWould those of which
	// the other limit denies anything.
	Keys, KeysDenied, KeysWould int

	Charges int64     // costs that were reported afterwards: no requests, but tokens
	Worst   []KeyFate // those that the other limit denies most, at most ten

	// OneOf says that of so many keys one was recorded, as others did not fit. It is 1 if all were.
	OneOf int64

	Services, Missing int // whose records there are, and those that have not answered
}

// All is how many services there are.
func (a Answer) All() int { return a.Services + a.Missing }

// A KeyFate is what became of the requests of a key, which is the name of a bucket.
type KeyFate struct {
	Key                     string
	Requests, Denied, Would int64
}

// Ask tells what a limit, which is valid and no slots, would have denied of the requests that were
// recorded under the Path of a rule. It waits for up to 3 s while others ask, and returns ErrBusy
// after that; then for up to 2.5 s until other services have told what they recorded, and as long
// if another caller is asking them. Other errors are of ctx: context.DeadlineExceeded says that 10 s
// do not do to play all.
func (r *Record) Ask(
	ctx context.Context, domain, path string, limit hybrid.Limit,
) (Answer, error) {
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case r.room <- struct{}{}:
		defer func() { <-r.room }()
	case <-wait.C:
		return Answer{}, ErrBusy
	case <-ctx.Done():
		return Answer{}, ctx.Err()
	}
	parts := []part{r.part(domain, path)}
	missing := 0
	if r.board != nil {
		others, silent := r.board.ask(ctx, domain, path)
		parts, missing = append(parts, others...), silent
	}
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	a, err := play(ctx, parts, limit)
	a.To, a.Missing = time.Now(), missing
	return a, err
}

// A part is what one process has recorded of a rule.
type part struct {
	names  []string // by index
	chunks []chunk
	most   uint64    // hash of the keys that are kept
	from   time.Time // since when all of them are
}

// part is that of this process.
func (r *Record) part(domain, path string) part {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := time.Now().Add(-lasts)
	if r.began.After(from) {
		from = r.began
	}
	p := part{most: allKeys, from: from}
	d := r.domains[domain]
	if d == nil || d.traces[path] == nil {
		return p
	}
	t := d.traces[path]
	t.flush()
	p.most, p.chunks = t.sure, slices.Clone(t.chunks)
	if cut := time.UnixMilli(t.cut); cut.After(from) {
		p.from = cut
	}
	p.names = make([]string, len(t.keys))
	for i, k := range t.keys {
		if k != nil {
			p.names[i] = k.name
		}
	}
	return p
}

// A cursor reads the events of a part in the order of time.
type cursor struct {
	part
	event event
	text  []byte
	last  int64
	keys  []int32 // of all parts together, by index; -1: it is left out
}

// next goes to the next event, and reports whether there is one.
func (c *cursor) next() bool {
	for {
		for len(c.text) == 0 {
			if len(c.chunks) == 0 {
				return false
			}
			c.text, c.last = c.chunks[0].text, c.chunks[0].minute*minute
			c.chunks = c.chunks[1:]
		}
		var ok bool
		if c.event, c.text, ok = next(c.text, c.last); !ok {
			c.text = nil
			continue
		}
		c.last = c.event.at
		if key := c.event.key; int(key) < len(c.keys) && c.keys[key] >= 0 {
			c.event.key = c.keys[key]
			return true
		}
	}
}

// together are cursors of parts, and the names of the keys that all of them keep.
func together(parts []part) (all []*cursor, names []string, a Answer) {
	most := uint64(allKeys)
	for _, p := range parts {
		most = min(most, p.most)
		if p.from.After(a.From) {
			a.From = p.from
		}
	}
	index := map[string]int32{}
	for _, p := range parts {
		c := &cursor{part: p, keys: make([]int32, len(p.names))}
		for i, name := range p.names {
			if c.keys[i] = -1; name == "" || hash(name) > most {
				continue
			}
			n, known := index[name]
			if !known {
				n = int32(len(names))
				index[name], names = n, append(names, name)
			}
			c.keys[i] = n
		}
		if c.next() {
			all = append(all, c)
		}
	}
	a.Services, a.OneOf = len(parts), int64(min(allKeys/most, math.MaxInt64))
	return all, names, a
}

// play plays what was recorded again.
func play(ctx context.Context, parts []part, limit hybrid.Limit) (Answer, error) {
	all, names, a := together(parts)
	done, would := make(ideal.Fates, len(names)), make(ideal.Fates, len(names))
	admits := newJudge(limit, len(names))
	from := a.From.UnixMilli()
	const often = 1 << 16 // requests between two looks at the context
	for n := int64(often); len(all) > 0; {
		if n >= often {
			if n = 0; ctx.Err() != nil {
				return a, ctx.Err()
			}
		}
		first := 0
		for i, c := range all {
			if c.event.at < all[first].event.at {
				first = i
			}
		}
		e := all[first].event
		if !all[first].next() {
			all = slices.Delete(all, first, first+1)
		}
		if n++; e.at < from {
			continue
		}
		n += e.n
		for range e.n {
			allowed := admits(e.key, time.Duration(e.at)*time.Millisecond, e.cost, e.verdict == charged)
			if e.verdict != charged && !allowed {
				would[e.key].Denied++
			}
		}
		a.count(e, &done[e.key])
	}
	a.sum(names, done, would)
	return a, nil
}

// newJudge returns a function that decides by a limit.
func newJudge(
	limit hybrid.Limit, keys int,
) func(key int32, at time.Duration, n int64, charged bool) bool {
	if limit == hybrid.Unlimited || limit == hybrid.Blocked {
		return func(int32, time.Duration, int64, bool) bool { return limit == hybrid.Unlimited }
	}
	return ideal.NewReplay(lease.Limit(limit), keys).Admits
}

// count adds what became of an event's requests then.
func (a *Answer) count(e event, done *ideal.Fate) {
	switch e.verdict {
	case charged:
		a.Charges += e.n
		return
	case denied:
		done.Denied += e.n
	}
	done.Requests += e.n
}

// sum adds up keys. One that has only charges is none.
func (a *Answer) sum(names []string, done, would ideal.Fates) {
	for i, name := range names {
		k := KeyFate{name, done[i].Requests, done[i].Denied, would[i].Denied}
		if k.Requests == 0 {
			continue
		}
		a.Keys++
		if k.Denied > 0 {
			a.KeysDenied++
		}
		a.Requests += k.Requests
		a.Denied += k.Denied
		a.Would += k.Would
		if k.Would > 0 {
			a.KeysWould++
			a.Worst = append(a.Worst, k)
		}
	}
	slices.SortFunc(a.Worst, func(a, b KeyFate) int {
		return cmp.Or(cmp.Compare(b.Would, a.Would), cmp.Compare(b.Requests, a.Requests),
			cmp.Compare(a.Key, b.Key))
	})
	a.Worst = a.Worst[:min(len(a.Worst), mostKeys)]
}
