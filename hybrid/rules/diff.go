package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// A Difference is what a change does to one rule, or to what holds for a domain.
type Difference struct {
	Domain string
	Path   string // of the rule, see ParsePath; empty for what holds for the domain
	Was    string // empty: it was not there
	Is     string // empty: it is not there any more
}

// String reads "shop user: 5/minute -> 10/minute", or has "none" where there is no rule.
func (d Difference) String() string {
	what := d.Domain
	if d.Path != "" {
		what += " " + d.Path
	}
	return fmt.Sprintf("%s: %s -> %s", what, cmp.Or(d.Was, "none"), cmp.Or(d.Is, "none"))
}

// Diff returns in what two sets of rules differ, sorted by domain and path. Either may be nil,
// and is empty then. Comments, the order of rules that is of no effect, and the way in which a
// text is written are no difference.
func Diff(was, is *Rules) []Difference {
	old, now := facts(was), facts(is)
	var list []Difference
	for at, text := range old {
		if now[at] != text {
			list = append(list, Difference{at.domain, at.path, text, now[at]})
		}
	}
	for at, text := range now {
		if _, known := old[at]; !known {
			list = append(list, Difference{at.domain, at.path, "", text})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int {
		return cmp.Or(strings.Compare(a.Domain, b.Domain), strings.Compare(a.Path, b.Path))
	})
	return list
}

// A spot is a descriptor of a domain, or the domain where path is empty.
type spot struct{ domain, path string }

// facts are all that decides, as text.
func facts(r *Rules) map[spot]string {
	texts := map[spot]string{}
	if r == nil {
		return texts
	}
	for _, d := range r.domains {
		texts[spot{d.Name, ""}] = d.fact()
		d.top.facts(d.Name, nil, texts)
	}
	return texts
}

// fact is what holds for all of a domain.
func (d *domain) fact() string {
	words := []string{"domain"}
	if d.Fairness != nil {
		words = append(words, fmt.Sprintf("fairness %v", *d.Fairness))
	}
	if d.Outage != nil {
		words = append(words, fmt.Sprintf("outage %v", *d.Outage))
	}
	return strings.Join(words, ", ")
}

// facts adds the texts of all levels below l. above is the path of l.
func (l *level) facts(domain string, above []Entry, texts map[spot]string) {
	for e, n := range l.exact {
		n.fact(l, domain, append(above[:len(above):len(above)], e), texts)
	}
	for key, n := range l.any {
		n.fact(l, domain, append(above[:len(above):len(above)], Entry{Key: key}), texts)
	}
}

// fact adds the texts of n, which is below l, and of all below n.
func (n *level) fact(l *level, domain string, path []Entry, texts map[spot]string) {
	at := PathOf(path...)
	var words []string
	switch {
	case n.rule != nil:
		words = append(words, strings.TrimPrefix(n.rule.String(), at+": "))
		for _, a := range n.rule.trail[:len(n.rule.trail)-1] { // they are part of the bucket's name
			for _, how := range a.counted() {
				words = append(words, a.shown()+" "+how)
			}
		}
	case n.hides(l):
		words = append(words, "no limit")
	}
	words = append(words, n.counted()...)
	if before := n.beaten(l); before != "" {
		words = append(words, "after "+before)
	}
	if len(words) > 0 {
		texts[spot{domain, at}] = strings.Join(words, ", ")
	}
	n.facts(domain, path, texts)
}

// counted is how values of the level are counted, if not each by itself.
func (l *level) counted() (words []string) {
	if l.change.is() {
		words = append(words, "by "+l.change.String())
	}
	switch {
	case l.classes != nil:
		words = append(words, "by class: "+classText(l.classes))
	case l.share:
		words = append(words, "shared by all values")
	}
	return words
}

// hides reports whether a level without a rule decides all the same: nothing is below it, or it
// takes values from another level beside it.
func (n *level) hides(l *level) bool {
	if len(n.exact)+len(n.any) == 0 {
		return true
	}
	return n.Value != "" && l.any[n.Key] != nil || slices.ContainsFunc(l.wild, func(w *level) bool {
		return w != n && w.Key == n.Key && w.pattern.meets(n.pattern)
	})
}

// beaten is the first wildcard that stands before a wildcard and takes some or all of its
// values, as text.
func (n *level) beaten(l *level) string {
	for _, w := range l.wild {
		if w == n {
			break
		}
		if n.pattern.wildcard() && w.Key == n.Key && w.pattern.meets(n.pattern) {
			return w.shown()
		}
	}
	return ""
}
