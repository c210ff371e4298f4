package whatif

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

const (
	minute  = int64(60_000) // ms
	allKeys = math.MaxUint64

	// fewKeys is below how many keys a trace becomes shorter, and does not lose some of them.
	fewKeys = 16

	// mostAlike is how many requests an event has at most.
	mostAlike = 1 << 16

	// keySize is what a key takes beside its name, in bytes.
	keySize = 160

	// chunkSize is what a chunk takes beside its text, in bytes.
	chunkSize = 32
)

// A trace is what a rule has decided.
type trace struct {
	path   string
	most   uint64  // hash of the keys that are kept
	sure   uint64  // of those that were for all the time
	wider  int64   // minute since which most is larger than sure
	keys   []*kept // by index; nil: it is free
	free   []int32
	chunks []chunk // by minute
	open   event   // the last one, which is not in a chunk yet; n is 0 if there is none
	last   int64   // ms, of the last one in the last chunk
	size   int     // bytes
	cut    int64   // ms: what was before it did not fit; 0: nothing was cut off
}

// A kept key is one of a trace.
type kept struct {
	name  string
	hash  uint64
	trace *trace
	index int32
	seen  int64 // minute
}

// A chunk is the events of a minute. The time of each is since the one before.
type chunk struct {
	minute int64 // since 1970
	text   []byte
}

// An event is requests of a key in a millisecond that were alike.
type event struct {
	at, cost, n int64
	key         int32
	verdict     verdict
}

// hash is the same in each process. Callers choose names: it is one of which nobody finds the name
// to a number.
func hash(name string) uint64 {
	sum := sha256.Sum256([]byte(name))
	return binary.BigEndian.Uint64(sum[:])
}

// key begins a key.
func (t *trace) key(name string, h uint64) *kept {
	k := &kept{name: name, hash: h, trace: t, index: int32(len(t.keys))}
	if n := len(t.free); n > 0 {
		k.index, t.free = t.free[n-1], t.free[:n-1]
		t.keys[k.index] = k
	} else {
		t.keys = append(t.keys, k)
	}
	t.size += len(name) + keySize
	return k
}

// add takes a decision. A reservation comes with the time at which it began: it counts when it has
// ended, since nothing goes back.
func (t *trace) add(k *kept, d decision) {
	e := event{max(d.at, t.open.at, t.last), d.cost, 1, k.index, d.verdict}
	k.seen = e.at / minute
	if o := t.open; o.n > 0 && o.n < mostAlike && o.at == e.at && o.key == e.key && o.cost == e.cost &&
		o.verdict == e.verdict {
		t.open.n++
		return
	}
	t.flush()
	t.open = e
}

// flush puts the open event into the chunk of its minute.
func (t *trace) flush() {
	e := t.open
	if e.n == 0 {
		return
	}
	t.open = event{}
	now := e.at / minute
	last := len(t.chunks) - 1
	if last < 0 || t.chunks[last].minute != now {
		if last >= 0 { // what it has grown by in advance is given back
			t.chunks[last].text = append([]byte(nil), t.chunks[last].text...)
		}
		t.chunks = append(t.chunks, chunk{minute: now})
		t.size += chunkSize
		last++
		t.last = now * minute
	}
	c := &t.chunks[last]
	before := len(c.text)
	c.text = e.append(c.text, t.last)
	t.size += len(c.text) - before
	t.last = e.at
}

// plain is the bit of an event with one request for one token.
const plain = 4

// append appends an event that comes after another one.
func (e event) append(text []byte, last int64) []byte {
	head := uint64(e.key)<<3 | uint64(e.verdict)
	one := e.cost == 1 && e.n == 1
	if one {
		head |= plain
	}
	text = binary.AppendUvarint(text, head)
	text = binary.AppendUvarint(text, uint64(e.at-last))
	if !one {
		text = binary.AppendUvarint(text, uint64(e.cost))
		text = binary.AppendUvarint(text, uint64(e.n))
	}
	return text
}

// next reads the first event of a text, and returns what is behind it. A text that makes no sense
// has none.
func next(text []byte, last int64) (e event, rest []byte, ok bool) {
	var values [4]uint64
	n := 2
	for i := 0; i < n; i++ {
		v, size := binary.Uvarint(text)
		if size <= 0 || v > math.MaxInt64/2 {
			return event{}, nil, false
		}
		values[i], text = v, text[size:]
		if i == 0 && v&plain == 0 {
			n = 4
		}
	}
	head := values[0]
	e = event{last + int64(values[1]), 1, 1, int32(head >> 3), verdict(head & 3)}
	if n == 4 {
		e.cost, e.n = int64(values[2]), int64(values[3])
	}
	return e, text, head>>3 <= math.MaxInt32 && e.verdict <= charged && e.n <= mostAlike
}

// forget drops chunks before a minute, and returns the keys of which nothing is left.
func (t *trace) forget(oldest int64) (gone []*kept) {
	if t.open.at/minute < oldest {
		t.flush()
	}
	n := 0
	for n < len(t.chunks) && t.chunks[n].minute < oldest {
		t.size -= len(t.chunks[n].text) + chunkSize
		n++
	}
	t.chunks = append([]chunk(nil), t.chunks[n:]...)
	return t.drop(func(k *kept) bool { return k.seen < oldest })
}

// widen keeps twice as many keys again, where there is room: they are told of once they are whole.
func (t *trace) widen(now int64, room bool) {
	switch {
	case t.most == t.sure:
		if room && t.most < allKeys {
			t.most, t.wider = t.most*2+1, now
		}
	case now-t.wider > lasts.Milliseconds()/minute:
		t.sure = t.most
	}
}

// empty reports whether nothing is left, and nothing was cut off of the last hour.
func (t *trace) empty(oldest int64) bool {
	return len(t.keys) == len(t.free) && t.cut < oldest*minute
}

// drop drops keys, of which no event may be in a chunk.
func (t *trace) drop(which func(*kept) bool) (gone []*kept) {
	for i, k := range t.keys {
		if k != nil && which(k) {
			t.keys[i] = nil
			t.free = append(t.free, int32(i))
			t.size -= len(k.name) + keySize
			gone = append(gone, k)
		}
	}
	return gone
}

// thin makes a trace about half as large, and returns the keys of which nothing is left.
func (t *trace) thin() (gone []*kept) {
	t.flush()
	if len(t.keys)-len(t.free) < fewKeys || t.most == 1 { // most stays above 0
		half := t.chunks[len(t.chunks)-1].minute + 1
		if n := len(t.chunks); n > 1 {
			half = t.chunks[n/2].minute
		}
		t.cut = half * minute
		return t.forget(half)
	}
	t.most /= 2
	t.sure = min(t.sure, t.most)
	out := func(k *kept) bool { return k.hash > t.most }
	for i, c := range t.chunks {
		t.chunks[i], t.last = c.only(func(key int32) bool { return !out(t.keys[key]) })
		t.size += len(t.chunks[i].text) - len(c.text)
	}
	return t.drop(out)
}

// only is the chunk with the events of some keys, and the time of its last event.
func (c chunk) only(keys func(int32) bool) (some chunk, last int64) {
	some.minute, last = c.minute, c.minute*minute
	at := last
	for e, rest, ok := next(c.text, at); ok; e, rest, ok = next(rest, at) {
		if at = e.at; keys(e.key) {
			some.text, last = e.append(some.text, last), e.at
		}
	}
	return some, last
}
