package rules

import "slices"

// maxPins is how many rules of a domain may name a bucket.
const maxPins = 1_000

// pin reads the Buckets of rules, when all rules are known.
func (t *treeReader) pin() {
	if len(t.pins) > maxPins {
		t.fail(t.pins[maxPins].place, "more than %d rules name a bucket", maxPins)
		return
	}
	for _, p := range t.pins {
		t.pinOne(p)
	}
	if len(t.errs) > 0 {
		return
	}
	stores := make([][]storedPattern, len(t.domain.rules))
	for i, r := range t.domain.rules {
		stores[i] = r.store()
	}
	for _, p := range t.pins {
		own := stores[p.rule.index]
		for i, other := range t.domain.rules {
			if other != p.rule && overlap(own, stores[i]) && !alike(p.rule, other) {
				t.fail(p.place, "rule %.200s in line %d counts on this bucket, by another limit",
					other.Path, other.Line)
				break
			}
		}
	}
}

// pinOne reads one Bucket.
func (t *treeReader) pinOne(p pin) {
	text := t.text(p.place)
	entries, err := ParsePath(text)
	if err != nil || len(entries) > MaxEntries {
		t.fail(p.place, "%.200q is not a path of up to %d entries: key=value,key", text, MaxEntries)
		return
	}
	own, named := 0, 0
	for _, l := range p.rule.trail {
		if l.varies() {
			own++
		}
	}
	if t.domain.pins == nil {
		t.domain.pins = &level{}
	}
	at := t.domain.pins
	for _, e := range entries {
		if e.Value == "" {
			named++
		}
		at = at.child(e)
	}
	if own != named {
		t.fail(p.place, "%.200q has %d entries without a value, and %d of the rule's path vary",
			text, named, own)
		return
	}
	if l := t.domain.top.otherBucket(p.rule.trail, entries); l != nil {
		t.fail(p.place, "descriptor %s in line %d and the rule's path do not have the same "+
			"transform and share_threshold: they have different buckets", l.shown(), l.written)
		return
	}
	p.rule.Bucket, p.rule.pinned, at.rule = PathOf(entries...), entries, p.rule
}

// otherBucket returns the descriptor on the path of a Bucket, as far as that is in the document,
// whose transform or shared wildcard is not that of the trail's level which varies there; or nil.
func (l *level) otherBucket(trail []*level, entries []Entry) *level {
	for _, e := range entries {
		own := &level{}
		if e.Value == "" {
			for !trail[0].varies() {
				trail = trail[1:]
			}
			own, trail = trail[0], trail[1:]
			l = l.any[e.Key]
		} else {
			l = l.next(e)
		}
		if l == nil {
			return nil
		}
		if l.change != own.change || l.share != own.share {
			return l
		}
	}
	return nil
}

// A storedPattern is an entry of the names of all buckets of a rule.
type storedPattern struct {
	key   string
	value pattern
}

// each is the pattern of all values.
var each = pattern{"", ""}

// store is what the names of a rule's buckets have in common.
func (r *Rule) store() (list []storedPattern) {
	for _, e := range r.pinned {
		value := pattern{e.Value}
		if e.Value == "" {
			value = each
		}
		list = append(list, storedPattern{e.Key, value})
	}
	if r.pinned != nil {
		return list
	}
	for _, l := range r.trail {
		value := l.pattern
		if l.Value == "" {
			value = each
		}
		list = append(list, storedPattern{l.Key, value})
	}
	return list
}

// overlap reports whether two rules may have a bucket in common.
func overlap(a, b []storedPattern) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].key != b[i].key || !a[i].value.meets(b[i].value) {
			return false
		}
	}
	return true
}

// alike reports whether a rule with a Bucket and another one go by the same limit for each key, so
// that they can share a bucket. Requests of a rule that has no classes have the last one there.
func alike(pinned, b *Rule) bool {
	classes := slices.Equal(pinned.Classes, b.Classes) || b.Classes == nil && b.Bucket == ""
	return pinned.Limit == b.Limit && pinned.Trial == nil && b.Trial == nil && classes
}
