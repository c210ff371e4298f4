package rules

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// Parse reads the documents, each of one domain, or of its bans. It returns all of them, or an
// error that joins an *Error for each mistake, up to 20 of a document. docs/rules.md has the
// format.
//
// It is strict: a field that is unknown or has no effect beside another one is a mistake. It
// reads no aliases and merge keys of YAML.
func Parse(docs ...Document) (*Rules, error) { return parse(&Rules{}, docs) }

// parse is Parse that takes the domains of documents which have not changed from before: a ban does
// not have all rules read again.
func parse(before *Rules, docs []Document) (*Rules, error) {
	if len(docs) > MaxDomains {
		return nil, fmt.Errorf("rules: %d documents are more than %d", len(docs), MaxDomains)
	}
	rules := &Rules{domains: map[string]*domain{}}
	banned := map[string]bansDocument{}
	known := map[string]*domain{}
	for _, d := range before.domains {
		known[d.document.Name] = d
	}
	var errs []error
	for _, doc := range docs {
		r := &reader{file: doc.Name}
		if d := known[doc.Name]; d != nil && d.document.equal(doc) {
			same := *d
			same.bans, r.notes = nil, d.notes
			rules.add(r, &same)
		} else {
			rules.read(r, doc, banned)
		}
		if err := r.err(); err != nil {
			errs = append(errs, err)
		}
		rules.notes = append(rules.notes, r.notes...)
	}
	if len(errs) > mostErrors {
		errs = append(errs[:mostErrors],
			fmt.Errorf("rules: %d more documents have mistakes", len(errs)-mostErrors))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for name, b := range banned {
		if d := rules.domains[name]; d != nil && len(b.list) > 0 {
			d.bans = newBans(b.list)
		}
	}
	return rules, nil
}

// A bansDocument is one of bans.
type bansDocument struct {
	name string
	list []Ban
}

// read reads a document of rules, or of bans, which it adds to banned by their domain.
func (rules *Rules) read(r *reader, doc Document, banned map[string]bansDocument) {
	root, ok := r.root(doc.Text)
	switch {
	case !ok:
	case has(root, "bans"):
		name, list := r.bans(root)
		if doc.Domain != "" && doc.Domain != BansPrefix+name {
			r.fail(root, "bans of %q are not %q, which the source calls them", name, doc.Domain)
		}
		if first, twice := banned[name]; twice {
			r.fail(place{}, "bans of %q are in %s already", name, first.name)
		}
		banned[name] = bansDocument{doc.Name, list}
	default:
		if d := r.document(root, doc); d != nil {
			d.notes = r.notes
			rules.add(r, d)
		}
	}
}

// add adds a domain.
func (rules *Rules) add(r *reader, d *domain) {
	if first, twice := rules.domains[d.Name]; twice {
		r.fail(place{}, "domain %q is in %s already", d.Name, first.document.Name)
	}
	rules.domains[d.Name] = d
}

// has reports whether a mapping has a field.
func has(p place, name string) bool {
	if p.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i < len(p.Content); i += 2 {
		if p.Content[i].Value == name {
			return true
		}
	}
	return false
}

// ParseDomain reads the text of one domain, as a Revision has it. That of a deletion is nil, and so
// are its rules.
func ParseDomain(domain string, text []byte) (*Rules, error) {
	if text == nil {
		return nil, nil
	}
	return Parse(Document{Domain: domain, Name: domain, Text: text})
}

// maxDomain is how long the name of a domain may be, in bytes.
const maxDomain = 256

// document reads one of rules. It returns nil if there is no domain.
func (r *reader) document(root place, doc Document) *domain {
	fields := r.fields(root, "domain", "descriptors", "fairness", "outage")
	d := &domain{document: doc, top: &level{}}
	d.Name = r.text(fields["domain"])
	switch {
	case d.Name == "":
		r.fail(root, "the domain is missing")
		return nil
	case len(d.Name) > maxDomain:
		r.fail(fields["domain"], "%d bytes are more than %d", len(d.Name), maxDomain)
		return nil
	case strings.HasPrefix(d.Name, BansPrefix):
		r.fail(fields["domain"], "%.80q begins with %q, as bans do", d.Name, BansPrefix)
	case doc.Domain != "" && doc.Domain != d.Name:
		r.fail(fields["domain"], "%q is not %q, which the source calls it", d.Name, doc.Domain)
	}
	if f := fields["fairness"]; !null(f) {
		d.Fairness = new(lease.Fairness)
		if err := d.Fairness.UnmarshalText([]byte(r.text(f))); err != nil {
			r.fail(f, "%.80q is not proportional or max-min", f.Value)
		}
	}
	if o := fields["outage"]; !null(o) {
		d.Outage = r.outage(o)
	}
	t := &treeReader{reader: r, domain: d}
	t.descriptors(fields["descriptors"], d.top, nil)
	t.pin()
	t.reach()
	return d
}

func (r *reader) outage(p place) *hybrid.Outage {
	text := r.text(p)
	for _, o := range []hybrid.Outage{hybrid.Share, hybrid.Deny, hybrid.Allow} {
		if text == o.String() {
			return &o
		}
	}
	r.fail(p, "%.80q is not share, deny or allow", text)
	return nil
}

// A treeReader reads the descriptors of one domain.
type treeReader struct {
	*reader
	domain *domain
	levels int
	pins   []pin

	divided []divided
}

// A pin is a rule with a Bucket, and where that stands.
type pin struct {
	rule  *Rule
	place place
}

// descriptors reads a list of them, below a level.
func (t *treeReader) descriptors(p place, above *level, trail []*level) {
	if null(p) || !t.is(p, yaml.SequenceNode, "a list of descriptors") {
		return
	}
	if len(p.Content) > 0 && len(trail) == MaxEntries {
		t.fail(p, "descriptors are more than %d levels deep", MaxEntries)
		return
	}
	for i, n := range p.Content {
		if t.levels++; t.levels > MaxRules {
			t.fail(place{n, p.path}, "there are more than %d descriptors", MaxRules)
			return
		}
		t.descriptor(place{n, fmt.Sprintf("%s[%d]", p.path, i)}, above, trail)
	}
}

// descriptor reads one of a list.
func (t *treeReader) descriptor(p place, above *level, trail []*level) {
	fields := t.fields(p, "key", "value", "rate_limit", "descriptors", "shadow_mode", "percent",
		"trial", "bucket", "overdraft", "transform", "share_threshold", "classes",
		"detailed_metric", "value_to_metric", "quota_mode", "metadata")
	if len(fields) == 0 {
		return
	}
	l := t.entry(p, fields, above)
	t.unsupported(fields)
	if l == nil {
		l = &level{} // for mistakes below it
	}
	trail = append(trail[:len(trail):len(trail)], l)
	t.limit(p, fields, trail)
	t.descriptors(fields["descriptors"], l, trail)
}

// entry reads the key and the value, and how values are counted. It returns nil after a mistake.
func (t *treeReader) entry(p place, fields map[string]place, above *level) *level {
	e := Entry{t.text(fields["key"]), t.text(fields["value"])}
	switch {
	case e.Key == "":
		t.fail(p, "the key is missing")
		return nil
	case len(e.Key)+len(e.Value) > MaxBytes:
		t.fail(p, "key and value have %d bytes, more than %d", len(e.Key)+len(e.Value), MaxBytes)
		return nil
	case strings.Contains(e.Key, "*"):
		t.fail(fields["key"], "a wildcard %.80q for keys is not supported, only for values", e.Key)
		return nil
	}
	l := &level{Entry: e, pattern: patternOf(e.Value), written: p.Line, depth: above.depth + 1}
	if f := fields["share_threshold"]; t.flag(f) {
		if l.share = l.pattern.wildcard(); !l.share {
			t.fail(f, "it needs a value with a *, and the value is %.80q", e.Value)
		}
	}
	if f := fields["transform"]; !null(f) {
		var err error
		if l.change, err = parseTransform(t.text(f)); err != nil {
			t.fail(f, "%v", err)
		}
		if e.Value != "" {
			t.fail(f, "it needs a descriptor without a value, and the value is %.80q", e.Value)
		}
	}
	if first := above.add(l); first != nil {
		t.fail(p, "descriptor %.200s is there already, in line %d", PathOf(e), first.written)
		return nil
	}
	return l
}

// add puts a level below another one, or returns the one that is there.
func (l *level) add(n *level) (first *level) {
	if l.exact == nil {
		l.exact, l.any = map[Entry]*level{}, map[string]*level{}
	}
	if n.Value == "" {
		if first = l.any[n.Key]; first == nil {
			l.any[n.Key] = n
		}
		return first
	}
	if first = l.exact[n.Entry]; first == nil {
		l.exact[n.Entry] = n // a value of the text of a wildcard is matched by it, too
		if n.pattern.wildcard() {
			l.wild = append(l.wild, n)
		}
	}
	return first
}

// unsupported reads what has no effect here, and would have one in envoyproxy/ratelimit.
func (t *treeReader) unsupported(fields map[string]place) {
	for _, name := range []string{"detailed_metric", "value_to_metric"} {
		if f := fields[name]; t.flag(f) {
			t.note(f, "it has no effect: figures are by rule, and never by value")
		}
	}
}
