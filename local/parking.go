package local

import (
	"iter"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A lot holds what idle keys still have of calm keys' batches: a key that is
// asked for every few seconds needs neither an entry all the time nor an exchange
// each time. None of them is looked at again until its key is: what has come in
// one term is forgotten after the next one, all at once. The ledger has debited
// it, and it lapses there.
type lot struct {
	young, old map[string]parking
	weight     int           // of what was put there in this term
	turns      time.Duration // when the next term begins
}

// A parking is what is left of an entry.
type parking struct {
	serial uint64 // of the holder
	holder lease.Parked
}

// parkTerm is half the time that a batch is lent for by default.
const parkTerm = 15 * time.Second

// put keeps a parking, if those of this term weigh less than most.
func (l *lot) put(now time.Duration, key string, p parking, most int) {
	l.turn(now)
	if l.young == nil {
		l.young = map[string]parking{}
	}
	if l.weight < most {
		l.young[key] = p
		l.weight += weight(key)
	}
}

// find returns the parking of a key, if there is one.
func (l *lot) find(now time.Duration, key string) (p parking, ok bool) {
	l.turn(now)
	if p, ok = l.young[key]; !ok {
		p, ok = l.old[key]
	}
	return p, ok
}

// replace puts another parking where there is one.
func (l *lot) replace(key string, p parking) {
	if _, young := l.young[key]; young {
		l.young[key] = p
	} else {
		l.old[key] = p
	}
}

// take removes the parking of a key, if there is one.
func (l *lot) take(now time.Duration, key string) (p parking, ok bool) {
	p, ok = l.find(now, key)
	if _, young := l.young[key]; young {
		l.weight -= weight(key)
	}
	delete(l.young, key)
	delete(l.old, key)
	return p, ok
}

// all goes through the keys that are parked, which may be taken meanwhile.
func (l *lot) all(now time.Duration) iter.Seq[string] {
	l.turn(now)
	return func(yield func(string) bool) {
		for _, term := range []map[string]parking{l.young, l.old} {
			for key := range term {
				if !yield(key) {
					return
				}
			}
		}
	}
}

// len is how many parkings there are.
func (l *lot) len() int { return len(l.young) + len(l.old) }

// turn begins a new term when it is time.
func (l *lot) turn(now time.Duration) {
	if now < l.turns {
		return
	}
	l.old, l.young, l.weight = l.young, nil, 0
	if now >= l.turns+parkTerm {
		l.old = nil
	}
	l.turns = now + parkTerm
}
