package rules

import (
	"fmt"
	"strings"

	"github.com/seed13b07268/ration/hybrid"
)

// A Bucket is what the name of a bucket says, as hybrid.Stats.MostDenied has it.
type Bucket struct {
	// Entries of the descriptor as it counts: an address by its /64 where the rule says so, and
	// the wildcard that several values share.
	Entries []Entry

	// Rule is the one that the bucket is of now, and Limit that of the bucket. They are zero if
	// no rule has it: it is of rules before the last change.
	Rule  Rule
	Limit hybrid.Limit
	Trial bool // the bucket is of the rule's trial

	// Override says that the bucket is of a Descriptor.Limit, which is Limit, and of no rule.
	Override bool

	// Shared says that a value in Entries is the wildcard that several share: no descriptor has it.
	Shared bool

	// Shadow says that the bucket only counts: what it denies is let through.
	Shadow bool

	// Key is what the store calls it, for Inspect.
	Key string
}

// Bucket reads the name of a bucket of a domain. An error says that it is none. A domain that is
// not there has no rules. A name of 256 bytes may be the beginning of a longer one, which
// hybrid.DeniedKey has cut: nobody can tell whose it is.
func (r *Rules) Bucket(domain, name string) (Bucket, error) {
	entries, mark, err := parseStored(name)
	if err != nil {
		return Bucket{}, err
	}
	b := Bucket{Trial: mark == trialMark, Key: namespaceOf(domain) + ":" + name}
	b.Limit, b.Override = overrideOf(mark)
	if mark != "" && !b.Trial && !b.Override {
		return Bucket{}, fmt.Errorf("rules: %.200q is no name of a bucket", name)
	}
	for _, e := range entries {
		b.Entries = append(b.Entries, e.Entry)
		b.Shared = b.Shared || e.how == shared
	}
	d := r.domains[domain]
	if d == nil || b.Override {
		return b, nil
	}
	rule := d.ruleOf(entries)
	if rule == nil || b.Trial && rule.Trial == nil {
		return b, nil
	}
	own := strings.TrimSuffix(name, trialMark)
	tried := rule.Trial != nil && chosen(domain, own, rule.Trial.Percent)
	b.Rule, b.Limit = rule.public(), rule.Limit
	b.Shadow = tried || !chosen(domain, own, rule.Percent)
	if b.Trial {
		b.Limit, b.Shadow = rule.Trial.Limit, !tried
	}
	return b, nil
}
