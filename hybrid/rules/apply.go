package rules

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A state is the rules in force and what they need. A change replaces it as a whole.
type state struct {
	rules   *Rules
	domains map[string]*live
}

// A live domain is one with its hybrid.Limiter.
type live struct {
	*domain
	limiter   *hybrid.Limiter
	settings  settings
	counts    []*ruleCounts // by Rule.index
	overrides *counts
	banned    *atomic.Uint64 // requests that bans have denied
}

// settings are what a hybrid.Limiter cannot change.
type settings struct {
	policy hybrid.Policy
	outage hybrid.Outage
}

// countsOf returns those of a rule. A domain that only explains counts nowhere.
func (l *live) countsOf(r *Rule) *ruleCounts {
	if l.counts == nil {
		return &ruleCounts{}
	}
	return l.counts[r.index]
}

// newLive returns a domain, which goes on with what the one before has counted.
func newLive(d *domain, was *live) *live {
	l := &live{domain: d, counts: goesOn(d, was), overrides: &counts{}, banned: new(atomic.Uint64)}
	if was != nil {
		l.overrides, l.banned = was.overrides, was.banned
	}
	return l
}

// settings of a domain.
func (l *Limiter) settings(d *domain) settings {
	s := settings{l.config.Limiter.Policy, l.config.Limiter.Outage}
	if d.Fairness != nil {
		s.policy.Fairness = *d.Fairness
	}
	if d.Outage != nil {
		s.outage = *d.Outage
	}
	return s
}

// errEmpty is of a source that has lost its documents, as far as anybody can tell.
var errEmpty = errors.New("rules: the source has no documents")

// apply puts documents into force, all of them or none.
func (l *Limiter) apply(docs []Document) error {
	before := l.state.Load()
	rules, err := parse(before.rules, docs)
	switch {
	case err != nil:
		return err
	case len(rules.domains) == 0 && !l.config.Empty:
		return errEmpty
	}
	after := &state{rules: rules, domains: make(map[string]*live, len(rules.domains))}
	for name, d := range rules.domains {
		was := before.domains[name]
		now := newLive(d, was)
		now.settings = l.settings(d)
		if err = now.settings.undividable(d); err != nil {
			after.retire(l, before)
			return err
		}
		if was != nil && was.settings == now.settings {
			now.limiter = was.limiter
		} else if now.limiter, err = l.open(name, now.settings); err != nil {
			after.retire(l, before)
			return err
		}
		after.domains[name] = now
	}
	l.state.Store(after)
	before.retire(l, after)
	return nil
}

// open makes the hybrid.Limiter of a domain. Another one of the same domain may be there: each
// is a holder of its own, and the buckets are in the store.
func (l *Limiter) open(domain string, s settings) (*hybrid.Limiter, error) {
	config := l.config.Limiter
	config.Policy, config.Outage = s.policy, s.outage
	config.Namespace = namespaceOf(domain)
	if l.config.Record != nil {
		config.Record = l.config.Record(domain)
	}
	config.LimitFor = func(bucket string) hybrid.Limit { return l.limitFor(domain, bucket) }
	config.ClassesFor = func(bucket string) []hybrid.Class { return l.classesFor(domain, bucket) }
	return hybrid.New(l.store, config)
}

// retirement bounds how long a hybrid.Limiter hands its leases back.
const retirement = 5 * time.Second

// retire closes the Limiters that the next state does not have. Their requests begin anew by it.
func (s *state) retire(l *Limiter, next *state) {
	for name, d := range s.domains {
		if n := next.domains[name]; n != nil && n.limiter == d.limiter {
			continue
		}
		l.retiring.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), retirement)
			defer cancel()
			if err := d.limiter.Close(ctx); err != nil {
				l.warn("leases of a domain that has changed were not handed back",
					"domain", name, "error", err)
			}
		})
	}
}

// limitFor is the limit of a bucket: that in its name, or else that by the rules in force. A bucket
// without a rule is one of a request that began before the last change.
func (l *Limiter) limitFor(domain, bucket string) hybrid.Limit {
	d := l.state.Load().domains[domain]
	entries, mark, err := parseStored(bucket)
	if limit, ok := overrideOf(mark); ok {
		return limit
	}
	if d == nil || err != nil {
		return hybrid.Unlimited
	}
	r := d.ruleOf(entries)
	switch {
	case r == nil:
	case mark == "":
		return r.Limit
	case mark == trialMark && r.Trial != nil:
		return r.Trial.Limit
	}
	return hybrid.Unlimited
}

// classesFor are the classes of a bucket by the rules in force.
func (l *Limiter) classesFor(domain, bucket string) []hybrid.Class {
	d := l.state.Load().domains[domain]
	entries, mark, err := parseStored(bucket)
	if d == nil || err != nil || mark != "" && mark != trialMark {
		return nil
	}
	if r := d.ruleOf(entries); r != nil {
		return r.Classes
	}
	return nil
}

// namespaceOf encodes the name of a domain in the alphabet of namespaces, so that no two domains
// have the same one: _ stands before an escaped byte, and before the hash of a long name.
func namespaceOf(domain string) string {
	const most = 64
	var b strings.Builder
	b.WriteString("rules.")
	for _, c := range []byte(domain) {
		switch {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c == '-', c == '.':
			b.WriteByte(c)
		default:
			b.WriteString("_" + hex.EncodeToString([]byte{c}))
		}
	}
	if b.Len() <= most {
		return b.String()
	}
	sum := sha256.Sum256([]byte(domain))
	return "rules._h" + hex.EncodeToString(sum[:24])
}

// ruleCounts counts what became of a rule's requests, and of its trial's.
type ruleCounts struct{ own, trial counts }

type counts struct {
	admitted, denied                            atomic.Uint64
	shadowAdmitted, shadowDenied, shadowUnknown atomic.Uint64
}

// goesOn returns counts, which go on with those that rules of the same path had.
func goesOn(d *domain, was *live) []*ruleCounts {
	before := map[string]*ruleCounts{}
	if was != nil {
		for i, r := range was.rules {
			before[r.Path] = was.counts[i]
		}
	}
	list := make([]*ruleCounts, len(d.rules))
	for i, r := range d.rules {
		if list[i] = before[r.Path]; list[i] == nil {
			list[i] = &ruleCounts{}
		}
	}
	return list
}
