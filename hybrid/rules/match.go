package rules

import "github.com/seed13b07268/ration/hybrid"

// A level is a descriptor of a document: what one entry may match.
type level struct {
	Entry
	pattern pattern // of Value
	share   bool
	classes []hybrid.Class // its values, or nil
	change  transform
	rule    *Rule // nil: no limit

	exact   map[Entry]*level
	any     map[string]*level // by key, without a value
	wild    []*level          // in the order of the document
	depth   int
	written int // line
}

// next returns what an entry of a descriptor matches, or nil: the value, or else the first
// wildcard of the document that fits, or else the key.
func (l *level) next(e Entry) *level {
	if n := l.exact[e]; n != nil {
		return n
	}
	for _, n := range l.wild {
		if n.Key == e.Key && n.pattern.matches(e.Value) {
			return n
		}
	}
	return l.any[e.Key]
}

// shown is the level's own part of a path.
func (l *level) shown() string { return PathOf(l.Entry) }

// match returns the rule of a descriptor, or nil. Descriptors match rules of the same depth.
func (d *domain) match(entries []Entry) *Rule {
	at := d.top
	for _, e := range entries {
		if at = at.next(e); at == nil {
			return nil
		}
	}
	return at.rule
}

// bucket appends the name of the bucket that counts a descriptor, which the rule matches. It is
// the descriptor's entries: so it does not depend on the order of rules, on their names, or on
// which of them matches.
func (r *Rule) bucket(b []byte, entries []Entry) []byte {
	if r.pinned != nil {
		return r.pinnedBucket(b, entries)
	}
	for i, e := range entries {
		b = appendStored(b, r.trail[i].stored(e))
	}
	return b
}

// pinnedBucket is bucket for a rule with a Bucket: that path, whose entries without a value get
// those of the descriptor that vary, in their order.
func (r *Rule) pinnedBucket(b []byte, entries []Entry) []byte {
	from := 0
	for _, p := range r.pinned {
		s := stored{Entry: p, how: raw}
		if p.Value == "" {
			for !r.trail[from].varies() {
				from++
			}
			s = r.trail[from].stored(entries[from])
			s.Key = p.Key
			from++
		}
		b = appendStored(b, s)
	}
	return b
}

// stored is what is written of an entry that the level matches.
func (l *level) stored(e Entry) stored {
	switch {
	case l.share:
		return stored{Entry{e.Key, l.Value}, shared}
	case l.change.is():
		return stored{Entry{e.Key, l.change.of(e.Value)}, changed}
	}
	return stored{e, raw}
}

// varies reports whether the level matches several values.
func (l *level) varies() bool { return l.Value == "" && l.classes == nil || l.pattern.wildcard() }

// nextStored is next for an entry of a bucket's name. It finds the level that has written it
// (TestBucketOfRule).
func (l *level) nextStored(s stored) *level {
	switch s.how {
	case shared:
		if n := l.any[s.Key]; s.Value == "" && n != nil { // also while its classes go
			return n
		}
		for _, n := range l.wild {
			if n.Key == s.Key && n.share && n.Value == s.Value {
				return n
			}
		}
		return nil
	case changed:
		if n := l.any[s.Key]; n != nil && n.change.is() {
			return n
		}
		return nil
	}
	return l.next(s.Entry)
}

// ruleOf returns the rule that a bucket's name is of now, or nil.
func (d *domain) ruleOf(name []stored) *Rule {
	if r := d.pins.pinOf(name); r != nil {
		return r
	}
	at := d.top
	for _, s := range name {
		if at = at.nextStored(s); at == nil {
			return nil
		}
	}
	return at.rule
}

// pinOf returns the rule with a Bucket that the rest of a bucket's name leads to from l, or nil.
// Several of those paths may fit the beginning of a name, so it tries a value, and then the key.
func (l *level) pinOf(name []stored) *Rule {
	switch {
	case l == nil:
		return nil
	case len(name) == 0:
		return l.rule
	}
	if s := name[0]; s.how == raw {
		if r := l.exact[s.Entry].pinOf(name[1:]); r != nil {
			return r
		}
	}
	return l.any[name[0].Key].pinOf(name[1:])
}

// child returns the level of an entry below l, and makes it if there is none.
func (l *level) child(e Entry) *level {
	if l.exact == nil {
		l.exact, l.any = map[Entry]*level{}, map[string]*level{}
	}
	if e.Value == "" {
		if l.any[e.Key] == nil {
			l.any[e.Key] = &level{Entry: e, depth: l.depth + 1}
		}
		return l.any[e.Key]
	}
	if l.exact[e] == nil {
		l.exact[e] = &level{Entry: e, depth: l.depth + 1}
	}
	return l.exact[e]
}
