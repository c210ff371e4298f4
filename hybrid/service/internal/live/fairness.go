package live

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/local/gauge"
)

const (
	keysOfDomain = 5  // that are inspected each jainEvery
	keysOfAll    = 50 // of all domains together

	jainSlots = 30 // the last 5 minutes by jainEvery
	tickJain  = int64(jainEvery / sampleEvery)
)

// An index is Jain's index of the keys that were inspected in a slot.
type index struct {
	sum, low float32
	n        uint16 // keys
}

// indexes are Jain's index of a domain over time, in 17,640 bytes, and of its keys now.
type indexes struct {
	rings *[jainSlots + daySlots]index // nil: no key had two holders that refill
	keys  []keyIndex
	at    time.Time
	err   bool // the store did not answer for all of keys
}

// A keyIndex is what the last inspection of a key has found.
type keyIndex struct {
	name    string // of the bucket
	jain    float64
	refills int // holders that refill from a lease
	holders int
}

// A fairness is Jain's index of all domains.
type fairness struct {
	domains map[string]*indexes
	tick    int64
	from    int // the domain that comes first, as not all of them may be asked for each time
	failing bool
}

// jainPlaces are the slots of a tick.
func jainPlaces(tick int64) [spans]int {
	return [spans]int{int(tick / tickJain % jainSlots), jainSlots + int(minute(tick)%daySlots)}
}

// advance begins the slots up to a tick.
func (f *fairness) advance(tick int64) {
	for t := max(f.tick+1, tick-daySlots*tickMinute+1); t <= tick; t++ {
		was, now := jainPlaces(t-1), jainPlaces(t)
		for s := range now {
			if was[s] == now[s] {
				continue
			}
			for _, d := range f.domains {
				if d.rings != nil {
					d.rings[now[s]] = index{}
				}
			}
		}
	}
	f.tick = tick
}

// put adds what an inspection that began at a tick has found of one domain.
func (f *fairness) put(tick int64, name string, found indexes) {
	d := f.domains[name]
	if d == nil {
		d = &indexes{}
		f.domains[name] = d
	}
	d.keys, d.at, d.err = found.keys, found.at, found.err
	for _, k := range found.keys {
		if k.refills < 2 {
			continue // of one holder the index is 1, which says nothing
		}
		if d.rings == nil {
			d.rings = new([jainSlots + daySlots]index)
		}
		for _, p := range jainPlaces(tick) {
			x := &d.rings[p]
			if x.n == 0 || float32(k.jain) < x.low {
				x.low = float32(k.jain)
			}
			if x.n < math.MaxUint16 {
				x.sum += float32(k.jain)
				x.n++
			}
		}
	}
}

// over returns the mean and the lowest index of a span by groups of slots: NaN where nothing was
// measured.
func (f *fairness) over(name string, at span, group int) (mean, low []float64) {
	n, newest, from := int64(jainSlots), f.tick/tickJain, 0
	if at == day {
		n, newest, from = daySlots, minute(f.tick), jainSlots
	}
	d := f.domains[name]
	for i := int64(0); i < n; i += int64(group) {
		var x index
		for j := i; d != nil && d.rings != nil && j < i+int64(group); j++ {
			y := d.rings[from+int(((newest-n+1+j)%n+n)%n)]
			if y.n > 0 && (x.n == 0 || y.low < x.low) {
				x.low = y.low
			}
			x.sum += y.sum
			x.n += y.n
		}
		if x.n == 0 {
			mean, low = append(mean, math.NaN()), append(low, math.NaN())
			continue
		}
		mean, low = append(mean, float64(x.sum)/float64(x.n)), append(low, float64(x.low))
	}
	return mean, low
}

// A suspect is a domain with keys to inspect.
type suspect struct {
	domain string
	keys   []rules.Bucket
	names  []string
}

// suspects are the most denied keys of each domain.
func suspects(r *rules.Rules, stats rules.Stats) []suspect {
	var list []suspect
	for _, d := range stats.Domains {
		s := suspect{domain: d.Domain}
		for _, k := range d.Limiter.MostDenied {
			b, ok := bucketOf(r, d.Domain, k)
			if ok && len(s.keys) < keysOfDomain {
				s.keys, s.names = append(s.keys, b), append(s.names, k.Key)
			}
		}
		list = append(list, s)
	}
	return list
}

// cut is the length of a hybrid.DeniedKey that may be the beginning of a longer one.
const cut = 256

// bucketOf returns the bucket of a denied key, and whether it can be inspected.
func bucketOf(r *rules.Rules, domain string, k hybrid.DeniedKey) (rules.Bucket, bool) {
	b, err := r.Bucket(domain, k.Key)
	return b, err == nil && len(k.Key) < cut
}

// inspect asks for the holders of the most denied keys, in turns if they are too many. The first
// failure ends it: what does not answer is not asked 50 times.
func (l *Live) inspect(ctx context.Context, tick int64) {
	l.mu.Lock()
	list, from := suspects(l.limiter.Rules(), l.stats), l.fairness.from
	known := map[string]bool{}
	for _, s := range list {
		known[s.domain] = true
	}
	for name := range l.fairness.domains {
		if !known[name] {
			delete(l.fairness.domains, name)
		}
	}
	l.mu.Unlock()
	if len(list) == 0 {
		return
	}
	asked, next := 0, 0
	for next < len(list) && ctx.Err() == nil {
		s := list[(from+next)%len(list)]
		if asked += len(s.keys); asked > keysOfAll {
			break
		}
		found := l.inspectDomain(ctx, s)
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		l.fairness.put(tick, s.domain, found)
		l.mu.Unlock()
		if next++; found.err {
			break
		}
	}
	l.mu.Lock()
	l.fairness.from = (from + next) % len(list)
	l.mu.Unlock()
}

func (l *Live) inspectDomain(ctx context.Context, s suspect) indexes {
	var found indexes
	for i, b := range s.keys {
		l.ask(ctx, &l.fairness.failing, "the holders of a key", func(ctx context.Context) error {
			v, err := l.store.Inspect(ctx, b.Key)
			if err != nil {
				return err
			}
			parts := v.Parts()
			found.keys = append(found.keys, keyIndex{
				name: s.names[i], jain: gauge.Jain(parts), refills: len(parts),
				holders: len(v.Holders),
			})
			return nil
		})
		if l.fairness.failing {
			found.err = true
			break
		}
	}
	found.at = time.Now()
	return found
}

// of returns what was last found of a key.
func (f *fairness) of(domain, name string) (keyIndex, bool) {
	d := f.domains[domain]
	if d == nil {
		return keyIndex{}, false
	}
	i := slices.IndexFunc(d.keys, func(k keyIndex) bool { return k.name == name })
	if i < 0 {
		return keyIndex{}, false
	}
	return d.keys[i], true
}
