package rules

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// classes reads those of a rule: the values of its last entry, which share one limit.
func (t *treeReader) classes(fields map[string]place, r *Rule) {
	f := fields["classes"]
	if null(f) || !t.is(f, yaml.SequenceNode, "a list of classes") {
		return
	}
	l := r.trail[len(r.trail)-1]
	for i, n := range f.Content {
		at := place{n, fmt.Sprintf("%s[%d]", f.path, i)}
		own := t.fields(at, "value", "floor", "weight")
		r.Classes = append(r.Classes, hybrid.Class{
			Name: t.text(own["value"]), Floor: t.part(own["floor"]), Weight: t.part(own["weight"]),
		})
	}
	policy := lease.Policy{}
	if t.domain.Fairness != nil {
		policy.Fairness = *t.domain.Fairness
	}
	switch below := fields["descriptors"]; {
	case len(r.Classes) == 0:
		t.fail(f, "the list is empty")
	case l.Value != "":
		t.fail(f, "they are the values of a descriptor without one, and the value is %.80q", l.Value)
	case l.change.is():
		t.fail(f, "transform is beside them, and would change the values")
	case !null(below) && len(below.Content) > 0:
		t.fail(below, "they are below classes: the entry of a class is the last one of a descriptor")
	case !divisible(r.Limit) || r.Trial != nil && !divisible(r.Trial.Limit):
		t.fail(f, "only a token bucket or a quota has classes: this is %s", r.Text)
	default:
		if err := lease.ValidateClasses(r.Classes, policy); err != nil {
			t.fail(f, "%s", strings.TrimPrefix(err.Error(), "lease: "))
		}
	}
	l.share, l.classes = true, r.Classes
	t.divided = append(t.divided, divided{r, f})
}

// divisible reports whether a limit may have classes.
func divisible(l hybrid.Limit) bool {
	return l.Kind.Classes() && l != hybrid.Unlimited && l != hybrid.Blocked
}

// A divided rule is one with classes, and where these stand.
type divided struct {
	rule  *Rule
	place place
}

// reach looks for classes that no request has, when all rules are known: descriptors of a value, or
// of a wildcard, match first.
func (t *treeReader) reach() {
	for _, d := range t.divided {
		above, own := t.domain.top, d.rule.trail
		if len(own) > 1 {
			above = own[len(own)-2]
			if above.rule == nil {
				path := pathOf(own[:len(own)-1])
				t.note(d.place, "a descriptor without %s has no limit: give %s the same rate_limit, and "+
					"this rule the bucket of %s", own[len(own)-1].Key, path, path)
			}
		}
		for _, c := range d.rule.Classes {
			n := above.next(Entry{own[len(own)-1].Key, c.Name})
			if n != nil && n != own[len(own)-1] {
				t.fail(d.place, "descriptor %s in line %d takes the class %.80q", n.shown(), n.written, c.Name)
			}
		}
	}
}

// part reads a number of 0 or more, 0 if there is none.
func (r *reader) part(p place) float64 {
	if null(p) || !r.is(p, yaml.ScalarNode, "a number") {
		return 0
	}
	var v float64
	if err := p.Decode(&v); err != nil || !(v >= 0) {
		r.fail(p, "%.80q is not a number of 0 or more", p.Value)
		return 0
	}
	return v
}

// classOf is the class of a descriptor that the rule matches, or "" for the last one.
func (r *Rule) classOf(entries []Entry) string {
	if r.Classes == nil {
		return ""
	}
	value := entries[len(entries)-1].Value
	for _, c := range r.Classes {
		if c.Name == value {
			return value
		}
	}
	return ""
}

// classText is how people write classes.
func classText(classes []hybrid.Class) string {
	var words []string
	for _, c := range classes {
		word := c.Name
		if c.Floor > 0 {
			word += fmt.Sprintf(" floor %g", c.Floor)
		}
		if c.Weight > 0 {
			word += fmt.Sprintf(" weight %g", c.Weight)
		}
		words = append(words, word)
	}
	return strings.Join(words, ", ")
}

// undividable is the error of a domain that has classes, and a policy that does not divide by them.
func (s *settings) undividable(d *domain) error {
	for _, r := range d.rules {
		if err := lease.ValidateClasses(r.Classes, s.policy.Resolved()); err != nil {
			return fmt.Errorf("rules: %s:%d: classes beside Config.Limiter.Policy: %w", r.File, r.Line, err)
		}
	}
	return nil
}
