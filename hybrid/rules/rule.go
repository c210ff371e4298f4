package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// Bounds of what is read.
const (
	MaxText    = 4 << 20 // bytes of a document
	MaxRules   = 10_000  // descriptors of a domain, with a limit or without
	MaxDomains = 1_000
	MaxEntries = 16   // of a descriptor, and levels of a domain
	MaxBytes   = 4096 // of the keys and values of a descriptor
)

// Rules are the rules of all domains, from Parse. They do not change.
type Rules struct {
	domains map[string]*domain
	notes   []string
}

// A Domain is what a document says: the rules of one application.
type Domain struct {
	Name string

	// Fairness and Outage are nil if the document does not say; Config.Limiter decides then.
	Fairness *lease.Fairness
	Outage   *hybrid.Outage

	// Rules are those with a limit, in the order of the document.
	Rules []Rule
}

// A Rule is a descriptor of a document with a limit.
type Rule struct {
	// Path is the keys and values from the top of the document to the rule, see ParsePath.
	Path string

	Name     string   // of rate_limit; other rules replace it by this name
	Replaces []string // names of rules that do not count where this one does

	// Limit of each bucket of the rule. Text is it as the document has it: "5/minute".
	Limit hybrid.Limit
	Text  string

	// Amount is Limit as the document writes it.
	Amount Amount

	// Percent of all keys are limited. For the others the rule is a shadow: it counts what it
	// would deny, and denies nothing. It is 100 by default, and 0 in shadow_mode.
	Percent float64

	// Counted is how values are counted, where not each is by itself: "address by ip/64", or
	// "path=/s* shared by all values".
	Counted []string

	// Classes are the values of the last entry of the Path, the highest first, or nil: they share a
	// bucket by them, see hybrid.Class. Other values have the last class.
	Classes []hybrid.Class

	// QuotaMode is an alternative: a request is denied by none of its rules in quota mode as long
	// as one of them admits it. Those that deny take nothing.
	QuotaMode bool

	// Metadata is what the document says beside the limit, for programs that read it: nil, or
	// maps, lists, strings, numbers, booleans and nil, as encoding/json decodes them. It is
	// shared: do not change it.
	Metadata map[string]any

	// Trial is another limit beside this one, or nil.
	Trial *Trial

	// Overdraft says how a server with Envoy's protocol takes hits that do not fit: true as a debt
	// (Descriptor.Used), false as a denial. nil is for a debt once somebody has looked at the rule
	// with 0 hits. A Limiter does not go by it.
	Overdraft *bool

	// Bucket is the path under which the store has the rule's buckets, if not under its own.
	Bucket string

	File string // Document.Name
	Line int

	index  int
	trail  []*level // from the top
	pinned []Entry  // of Bucket
}

// An Amount is the fields of a rate_limit that say how much it admits.
type Amount struct {
	Unlimited bool          // the other fields are zero
	Unit      string        // second, minute, hour, day, week, month or year
	Requests  int64         // per unit
	Burst     int64         // 0: it does not say
	Kind      string        // bucket, quota or sliding; "": that of the unit
	Offset    time.Duration // of a quota
}

// A Trial is a limit that is tried beside that of its rule, with buckets of its own. For Percent
// of all keys it is in force, and the rule's own one a shadow. For the others it is the shadow.
type Trial struct {
	Limit   hybrid.Limit
	Text    string
	Percent float64
}

// String reads `user: 5/minute, trial 10/minute for 10 %`.
func (r Rule) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", r.Path, r.Text)
	switch r.Percent {
	case 100:
	case 0:
		b.WriteString(", shadow")
	default:
		fmt.Fprintf(&b, " for %s %%", percent(r.Percent))
	}
	if r.Trial != nil {
		fmt.Fprintf(&b, ", trial %s for %s %%", r.Trial.Text, percent(r.Trial.Percent))
	}
	if r.QuotaMode {
		b.WriteString(", quota mode")
	}
	if r.Name != "" {
		fmt.Fprintf(&b, ", name %q", r.Name)
	}
	if len(r.Replaces) > 0 {
		fmt.Fprintf(&b, ", replaces %q", r.Replaces)
	}
	if r.Overdraft != nil {
		fmt.Fprintf(&b, ", overdraft %v", *r.Overdraft)
	}
	if r.Bucket != "" {
		fmt.Fprintf(&b, ", bucket %s", r.Bucket)
	}
	if r.Metadata != nil {
		fmt.Fprintf(&b, ", metadata %v", r.Metadata)
	}
	return b.String()
}

func percent(p float64) string { return strconv.FormatFloat(p, 'g', -1, 64) }

// Domains returns all domains, sorted by name.
func (r *Rules) Domains() []Domain {
	list := make([]Domain, 0, len(r.domains))
	for _, d := range r.domains {
		list = append(list, d.public())
	}
	slices.SortFunc(list, func(a, b Domain) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Domain returns one domain.
func (r *Rules) Domain(name string) (Domain, bool) {
	d, ok := r.domains[name]
	if !ok {
		return Domain{}, false
	}
	return d.public(), true
}

// Notes are what Parse has read and does not do, and what may be a mistake, with its place.
func (r *Rules) Notes() []string { return slices.Clone(r.notes) }

// A domain is a Domain with what matches descriptors.
type domain struct {
	Domain
	document Document
	notes    []string
	rules    []*Rule
	top      *level
	pins     *level // of the rules with a Bucket
	bans     *bans  // nil: none
}

func (d *domain) public() Domain {
	p := d.Domain
	p.Rules = make([]Rule, len(d.rules))
	for i, r := range d.rules {
		p.Rules[i] = r.public()
	}
	return p
}

// public returns a copy without what matches descriptors.
func (r *Rule) public() Rule {
	p := *r
	p.Replaces, p.Counted = slices.Clone(r.Replaces), slices.Clone(r.Counted)
	p.Classes = slices.Clone(r.Classes)
	p.trail, p.pinned = nil, nil
	if r.Trial != nil {
		trial := *r.Trial
		p.Trial = &trial
	}
	if r.Overdraft != nil {
		overdraft := *r.Overdraft
		p.Overdraft = &overdraft
	}
	return p
}
