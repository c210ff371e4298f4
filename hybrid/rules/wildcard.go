package rules

import "strings"

// A pattern is a value with wildcards: its texts before, between and behind the *, each of which
// stands for any bytes, or for none. A pattern of one text is no wildcard.
type pattern []string

func patternOf(value string) pattern { return strings.Split(value, "*") }

func (p pattern) wildcard() bool { return len(p) > 1 }

// matches reports whether a value fits. The text between two * is searched for where the one
// before ends: if a value fits at all, then by the first place of each.
func (p pattern) matches(value string) bool {
	first, last := p[0], p[len(p)-1]
	if !p.wildcard() {
		return value == first
	}
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) ||
		!strings.HasSuffix(value, last) {
		return false
	}
	value = value[len(first) : len(value)-len(last)]
	for _, text := range p[1 : len(p)-1] {
		at := strings.Index(value, text)
		if at < 0 {
			return false
		}
		value = value[at+len(text):]
	}
	return true
}

// meets reports whether some value fits both. Of two wildcards the longer beginning, what stands
// between the * of each, and the longer end are such a value.
func (p pattern) meets(o pattern) bool {
	switch {
	case !o.wildcard():
		return p.matches(o[0])
	case !p.wildcard():
		return o.matches(p[0])
	}
	begin, otherBegin := p[0], o[0]
	end, otherEnd := p[len(p)-1], o[len(o)-1]
	return (strings.HasPrefix(begin, otherBegin) || strings.HasPrefix(otherBegin, begin)) &&
		(strings.HasSuffix(end, otherEnd) || strings.HasSuffix(otherEnd, end))
}
