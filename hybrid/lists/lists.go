// Package lists lets keys and addresses through, or turns them away, whatever their limit is.
//
// A List holds keys and prefixes of addresses, each to be allowed or denied. A key in the List
// goes by its entry. An address goes by the longest prefix that contains it. An entry may have an
// end, which makes it a ban until then. A change is atomic, and may be made while the List is in
// use.
//
// LimitFor puts a List in front of a function from keys to limits: keys that are allowed are
// hybrid.Unlimited, and those that are denied hybrid.Blocked. Neither asks the store. Addresses
// are found in keys that are nothing else.
//
// It does not say which address a request comes from, nor where entries are kept: each process
// has its own List, and the caller tells it of changes.
package lists

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A Verdict is what a List says of a key or an address.
type Verdict int

const (
	// Neither is for what is not in the List: its limit decides.
	Neither Verdict = iota
	// Allow is for what is let through, without a limit.
	Allow
	// Deny is for what is turned away.
	Deny
)

// String returns "neither", "allow" or "deny".
func (v Verdict) String() string {
	switch v {
	case Neither:
		return "neither"
	case Allow:
		return "allow"
	case Deny:
		return "deny"
	}
	return fmt.Sprintf("Verdict(%d)", int(v))
}

// Entries are the contents of a List. A Verdict of Neither excepts an entry from a shorter
// prefix.
type Entries struct {
	Keys map[string]Verdict

	// Prefixes have no bits beyond their length: 10.0.0.0/8 is one, and 10.1.0.0/8 is none.
	// Those of IPv4 are not written as IPv6. A single address is a prefix of 32 or 128 bits.
	Prefixes map[netip.Prefix]Verdict

	// KeyEnds and PrefixEnds are from when on some entries are not in the List any more, by the
	// clock of the process; others have no end.
	KeyEnds    map[string]time.Time
	PrefixEnds map[netip.Prefix]time.Time
}

// A List says which keys and addresses are allowed, and which are denied. The zero List has no
// entries. It is safe for concurrent use, and none of its methods blocks.
type List struct{ now atomic.Pointer[contents] }

// contents do not change.
type contents struct {
	entries Entries
	end     time.Time // of the entry that ends first; zero: none does
	keys    map[string]Verdict
	spans   []span
}

// A span is the addresses from its first one to the next span, which have one Verdict. All
// addresses of IPv4 come before those of IPv6, as netip.Addr orders them.
type span struct {
	from    netip.Addr
	verdict Verdict
}

// Set replaces all entries at once, and sorts the prefixes. The end of an entry costs the next look
// as much. If an entry is wrong it returns an
// error that names it, and the List stays as it was.
func (l *List) Set(e Entries) error {
	for key, v := range e.Keys {
		if v < Neither || v > Deny {
			return fmt.Errorf("lists: Entries.Keys[%.100q] is %v, not Neither, Allow or Deny", key, v)
		}
	}
	for p, v := range e.Prefixes {
		if err := check(p, v); err != nil {
			return fmt.Errorf("lists: Entries.Prefixes[%v] %w", p, err)
		}
	}
	if err := e.checkEnds(); err != nil {
		return err
	}
	l.now.Store(newContents(Entries{
		maps.Clone(e.Keys), maps.Clone(e.Prefixes), maps.Clone(e.KeyEnds), maps.Clone(e.PrefixEnds),
	}, time.Now()))
	return nil
}

// checkEnds refuses ends of entries that are not there: they are likely to be of others.
func (e Entries) checkEnds() error {
	for key := range e.KeyEnds {
		if _, ok := e.Keys[key]; !ok {
			return fmt.Errorf("lists: Entries.KeyEnds[%.100q] is of no entry of Keys", key)
		}
	}
	for p := range e.PrefixEnds {
		if _, ok := e.Prefixes[p]; !ok {
			return fmt.Errorf("lists: Entries.PrefixEnds[%v] is of no entry of Prefixes", p)
		}
	}
	return nil
}

// newContents are those of entries at a time, but for those that have ended. It keeps the maps.
func newContents(e Entries, now time.Time) *contents {
	c := &contents{entries: e, keys: e.Keys}
	prefixes := e.Prefixes
	if len(e.KeyEnds) > 0 {
		c.keys = alive(e.Keys, e.KeyEnds, now, &c.end)
	}
	if len(e.PrefixEnds) > 0 {
		prefixes = alive(e.Prefixes, e.PrefixEnds, now, &c.end)
	}
	c.spans = flatten(prefixes)
	return c
}

// alive are the entries that have not ended. It notes the first end that is to come.
func alive[K comparable](
	all map[K]Verdict, ends map[K]time.Time, now time.Time, first *time.Time,
) map[K]Verdict {
	left := maps.Clone(all)
	for k, end := range ends {
		switch {
		case !now.Before(end):
			delete(left, k)
		case first.IsZero() || end.Before(*first):
			*first = end
		}
	}
	return left
}

// load returns the contents of now, or nil. Where an entry has ended it makes new ones, as Set
// does.
func (l *List) load() *contents {
	c := l.now.Load()
	for c != nil && !c.end.IsZero() {
		now := time.Now()
		if now.Before(c.end) {
			break
		}
		if later := newContents(c.entries, now); l.now.CompareAndSwap(c, later) {
			return later
		}
		c = l.now.Load() // somebody else was faster, or has called Set
	}
	return c
}

func check(p netip.Prefix, v Verdict) error {
	switch {
	case !p.IsValid():
		return fmt.Errorf("is not a prefix")
	case p.Addr().Is4In6():
		return fmt.Errorf("is IPv4 written as IPv6: write %v", p.Addr().Unmap())
	case p != p.Masked():
		return fmt.Errorf("has bits beyond its length: write %v", p.Masked())
	case v < Neither || v > Deny:
		return fmt.Errorf("is %v, not Neither, Allow or Deny", v)
	}
	return nil
}

// flatten makes spans of prefixes, of which each is within another one or apart from it. So one
// search finds the longest prefix, however many lengths there are.
func flatten(prefixes map[netip.Prefix]Verdict) []span {
	order := slices.SortedFunc(maps.Keys(prefixes), func(a, b netip.Prefix) int {
		if c := a.Addr().Compare(b.Addr()); c != 0 {
			return c
		}
		return a.Bits() - b.Bits()
	})
	var spans []span
	put := func(from netip.Addr, v Verdict) {
		if n := len(spans); n > 0 && spans[n-1].from == from {
			spans[n-1].verdict = v
			return
		}
		spans = append(spans, span{from, v})
	}
	var open []netip.Prefix // each within the one before
	leave := func() {
		end := last(open[len(open)-1]).Next()
		open = open[:len(open)-1]
		switch {
		case len(open) > 0 && open[len(open)-1].Contains(end):
			put(end, prefixes[open[len(open)-1]])
		case end.IsValid():
			put(end, Neither)
		}
	}
	for _, p := range order {
		for len(open) > 0 && !open[len(open)-1].Contains(p.Addr()) {
			leave()
		}
		put(p.Addr(), prefixes[p])
		open = append(open, p)
	}
	for len(open) > 0 {
		leave()
	}
	return slices.CompactFunc(spans, func(a, b span) bool {
		return a.verdict == b.verdict && a.from.BitLen() == b.from.BitLen()
	})
}

// last returns the last address of a prefix.
func last(p netip.Prefix) netip.Addr {
	bytes := p.Addr().AsSlice()
	for i := range bytes {
		switch bits := p.Bits() - 8*i; {
		case bits <= 0:
			bytes[i] = 0xff
		case bits < 8:
			bytes[i] |= 0xff >> bits
		}
	}
	a, _ := netip.AddrFromSlice(bytes)
	return a
}

// Addr is the Verdict on an address: that of the longest prefix that contains it. An address of
// IPv4 that is written as IPv6 counts as IPv4, and a zone does not count. It costs a binary
// search.
func (l *List) Addr(a netip.Addr) Verdict {
	c := l.load()
	if c == nil || !a.IsValid() {
		return Neither
	}
	a = a.Unmap().WithZone("")
	if i := c.find(a); i >= 0 && c.spans[i].from.BitLen() == a.BitLen() {
		return c.spans[i].verdict
	}
	return Neither
}

// find returns the index of the span that holds a, or -1.
func (c *contents) find(a netip.Addr) int {
	low, high := 0, len(c.spans)
	for low < high {
		if middle := (low + high) / 2; c.spans[middle].from.Compare(a) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low - 1
}

// Prefix is the Verdict on all addresses of a prefix, or Neither if they do not have the same. A
// prefix of IPv4 that is written as IPv6 counts as IPv4.
func (l *List) Prefix(p netip.Prefix) Verdict {
	c := l.load()
	if c == nil || !p.IsValid() {
		return Neither
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 { // it has addresses of both families
			return Neither
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	p = p.Masked()
	if c.find(p.Addr()) != c.find(last(p)) {
		return Neither
	}
	return l.Addr(p.Addr())
}

// Key is the Verdict on a key. If the key itself is not in the List, and is an address or a
// prefix, it is that of Addr or Prefix.
func (l *List) Key(key string) Verdict {
	c := l.load()
	if c == nil {
		return Neither
	}
	if v, ok := c.keys[key]; ok {
		return v
	}
	if a, err := netip.ParseAddr(key); err == nil {
		return l.Addr(a)
	}
	if p, err := netip.ParsePrefix(key); err == nil {
		return l.Prefix(p)
	}
	return Neither
}

// LimitFor puts the List in front of a function from keys to limits, such as
// hybrid.Config.LimitFor: allowed keys are hybrid.Unlimited, denied ones hybrid.Blocked. A key
// that is in use goes by a change of the List within Policy.MaxRefresh, or a second if that is
// shorter, as by any change of LimitFor.
//
// Prefixes decide on keys that are addresses alone, such as "192.0.2.7". A key with anything
// before its address, such as "client:192.0.2.7" of httplimit, is found in Entries.Keys only:
// there, put the List in front of httplimit.Limit.For, whose keys have no name before them. And a
// name that a user has chosen can be an address: give such keys a prefix, as in "user:10.1.2.3".
func (l *List) LimitFor(next func(key string) hybrid.Limit) func(key string) hybrid.Limit {
	return func(key string) hybrid.Limit {
		switch l.Key(key) {
		case Allow:
			return hybrid.Unlimited
		case Deny:
			return hybrid.Blocked
		}
		return next(key)
	}
}
