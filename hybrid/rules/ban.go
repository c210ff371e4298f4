package rules

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/seed13b07268/ration/hybrid"
)

// Bounds of bans.
const (
	MaxBans      = 200                  // of a domain that have not ended
	MaxBanBytes  = 512                  // of the Entries, as PathOf writes them
	MaxBanReason = 256                  // bytes
	MaxBanTime   = 366 * 24 * time.Hour // from SetBan to Until
)

// A Ban denies each request of a domain that has a descriptor with all of its Entries, until a
// time and whatever the rules say. Their order does not matter, nor what else the descriptor has.
type Ban struct {
	// Entries are 1 to MaxEntries. One of them has a Value at least; where it is empty it stands
	// for each. A Value that is an address or a prefix stands for all addresses in it, whose own
	// form may be a prefix as well.
	Entries []Entry

	Until time.Time // by the clock of each process

	// Reason has 1 to MaxBanReason bytes of UTF-8 without control characters.
	Reason string

	// Author and Since are who has set it, and when. A document may leave them out.
	Author string
	Since  time.Time
}

// String writes the Entries as ParsePath reads them.
func (b Ban) String() string { return PathOf(b.Entries...) }

// Ended reports whether it denies nothing any more.
func (b Ban) Ended(now time.Time) bool { return !now.Before(b.Until) }

// ErrBan is wrapped by errors about a Ban that makes no sense.
var ErrBan = errors.New("invalid ban")

// check returns an error that names a field which is out of bounds.
func (b Ban) check() error {
	if n := len(b.Entries); n < 1 || n > MaxEntries {
		return fmt.Errorf("%w: %d entries are not 1 to %d", ErrBan, n, MaxEntries)
	}
	values := false
	for _, e := range b.Entries {
		if _, _, err := addresses(e.Value); err != nil {
			return fmt.Errorf("%w: %.100s: %w", ErrBan, PathOf(e), err)
		}
		values = values || e.Value != ""
	}
	switch {
	case !values:
		return fmt.Errorf("%w: %.100q has no value: it would deny everybody", ErrBan, b)
	case len(b.String()) > MaxBanBytes:
		return fmt.Errorf("%w: the entries have %d bytes, more than %d", ErrBan, len(b.String()),
			MaxBanBytes)
	case b.Until.IsZero():
		return fmt.Errorf("%w: it has no end", ErrBan)
	}
	return checkBanReason(b.Reason)
}

func checkBanReason(reason string) error {
	switch {
	case strings.TrimSpace(reason) == "":
		return fmt.Errorf("%w: the reason is missing", ErrBan)
	case len(reason) > MaxBanReason:
		return fmt.Errorf("%w: the reason has %d bytes, more than %d", ErrBan, len(reason),
			MaxBanReason)
	case !utf8.ValidString(reason) || strings.ContainsFunc(reason, unicode.IsControl):
		return fmt.Errorf("%w: the reason %.100q is no UTF-8, or has control characters", ErrBan,
			reason)
	}
	return nil
}

// addresses are those that a value stands for, if it is an address or a prefix. An error says that
// it is a prefix which nobody can mean.
func addresses(value string) (p netip.Prefix, is bool, err error) {
	a, err := netip.ParseAddr(value)
	if err == nil {
		a = a.Unmap().WithZone("")
		return netip.PrefixFrom(a, a.BitLen()), true, nil
	}
	if p, err = netip.ParsePrefix(value); err != nil {
		return netip.Prefix{}, false, nil
	}
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	switch {
	case p.Bits() == 0:
		err = errors.New("it would deny all addresses")
	case p != p.Masked():
		err = fmt.Errorf("it has bits beyond its length: write %v", p.Masked())
	}
	return p.Masked(), true, err
}

// bans are those of a domain.
type bans struct {
	list []*ban
	lead map[string]*lead // by the Key of the first entry with a value
}

// A lead has the bans whose first entry with a value has a key.
type lead struct {
	exact  map[string][]*ban // by that value
	within []*ban            // it is a prefix
}

// A ban is one with what its values stand for.
type ban struct {
	Ban
	lead     int            // index of the first entry with a value
	prefixes []netip.Prefix // of the Entries; the zero Prefix: it is no address
}

func newBans(list []Ban) *bans {
	all := &bans{lead: map[string]*lead{}}
	for _, b := range list {
		x := &ban{Ban: b, lead: -1}
		for i, e := range b.Entries {
			p, _, _ := addresses(e.Value)
			x.prefixes = append(x.prefixes, p)
			if x.lead < 0 && e.Value != "" {
				x.lead = i
			}
		}
		all.add(x)
	}
	return all
}

func (b *bans) add(x *ban) {
	first := x.Entries[x.lead]
	l := b.lead[first.Key]
	if l == nil {
		l = &lead{exact: map[string][]*ban{}}
		b.lead[first.Key] = l
	}
	if x.prefixes[x.lead].IsValid() {
		l.within = append(l.within, x)
	} else {
		l.exact[first.Value] = append(l.exact[first.Value], x)
	}
	b.list = append(b.list, x)
}

// find returns the ban of a descriptor that ends last, or nil.
func (b *bans) find(entries []Entry, now time.Time) (found *Ban) {
	try := func(x *ban) {
		later := found == nil || x.Until.After(found.Until)
		if later && !x.Ended(now) && x.fits(entries) {
			found = &x.Ban
		}
	}
	for _, e := range entries {
		l := b.lead[e.Key]
		if l == nil {
			continue
		}
		for _, x := range l.exact[e.Value] {
			try(x)
		}
		if len(l.within) == 0 {
			continue
		}
		if p, is, _ := addresses(e.Value); is {
			for _, x := range l.within {
				if within(p, x.prefixes[x.lead]) {
					try(x)
				}
			}
		}
	}
	return found
}

// within reports whether all addresses of a prefix are in another one.
func within(p, in netip.Prefix) bool { return p.Bits() >= in.Bits() && in.Contains(p.Addr()) }

// fits reports whether a descriptor has all entries of a ban.
func (b *ban) fits(entries []Entry) bool {
	for i, want := range b.Entries {
		has := false
		for _, e := range entries {
			has = has || e.Key == want.Key && b.covers(i, e.Value)
		}
		if !has {
			return false
		}
	}
	return true
}

// covers reports whether entry i of the ban stands for a value.
func (b *ban) covers(i int, value string) bool {
	own := b.Entries[i].Value
	if own == "" || own == value {
		return true
	}
	if !b.prefixes[i].IsValid() {
		return false
	}
	p, is, _ := addresses(value)
	return is && within(p, b.prefixes[i])
}

// Bans returns the bans of a domain that the documents have, and that have not ended at a time.
func (r *Rules) Bans(domain string, now time.Time) (list []Ban) {
	if d := r.domains[domain]; d != nil && d.bans != nil {
		for _, b := range d.bans.list {
			if !b.Ended(now) {
				list = append(list, b.Ban)
			}
		}
	}
	return list
}

// Banned returns the ban that denies a descriptor of a domain at a time, the last one to end. It
// asks nobody.
func (r *Rules) Banned(domain string, now time.Time, of Descriptor) (b Ban, banned bool) {
	if d := r.domains[domain]; d != nil && d.bans != nil {
		if found := d.bans.find(of.Entries, now); found != nil {
			return *found, true
		}
	}
	return Ban{}, false
}

// banned decides a request that a ban denies: the rest of it is not looked at. It returns the
// index of the descriptor whose ban ends last, or -1.
func (p *plan) banned() (denied int) {
	denied = -1
	if p.domain == nil || p.domain.bans == nil {
		return denied
	}
	now := time.Now()
	var found [MaxDescriptors]*Ban
	for i, d := range p.descriptors {
		found[i] = p.domain.bans.find(d.Entries, now)
		if found[i] != nil && (denied < 0 || found[i].Until.After(found[denied].Until)) {
			denied = i
		}
	}
	if denied < 0 {
		return denied
	}
	clear(p.each)
	for i, b := range found[:len(p.descriptors)] {
		if b != nil {
			left := b.Until.Sub(now)
			p.each[i] = Status{State: Banned, Ban: b, Decision: hybrid.Decision{
				Limit: hybrid.Blocked, RetryAfter: left, ResetAfter: left,
			}}
		}
	}
	return denied
}
