package rules

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/seed13b07268/ration/hybrid"
)

// An Entry is one key and value of a descriptor, or of the path of a rule. In a path an empty
// Value stands for each value, and a * in it for any bytes.
type Entry struct{ Key, Value string }

// A Descriptor is what one limit of a request is for: a list of entries, from the general to the
// special.
type Descriptor struct {
	Entries []Entry

	// Hits is how many tokens the request takes, up to MaxHits; 0 stands for 1.
	Hits int

	// Limit is the request's own one, in place of its rule's: there need not be a rule, but the
	// domain must be there. The zero Limit stands for the rule's. It has a bucket of its own, by
	// the entries and the limit: another Limit of the same entries begins with a full one, so let
	// only those choose it who may. It has no shadow, transform or Replaces, and is not replaced.
	Limit hybrid.Limit

	// Used says that the Hits are spent already, as the request has been served. Take counts them
	// though they do not fit, or others of the request are denied: what is missing is a debt, and
	// nothing is admitted until it is paid (see hybrid.Limiter.Charge). A bucket owes twice its
	// Burst at most, and what is beyond that is forgotten: it is paid in twice the time in which an
	// empty bucket fills. A debt of another limit ends with its window.
	Used bool
}

// Of returns the descriptor of one entry.
func Of(key, value string) Descriptor { return Descriptor{Entries: []Entry{{key, value}}} }

// And returns d with one more entry.
func (d Descriptor) And(key, value string) Descriptor {
	d.Entries = append(d.Entries[:len(d.Entries):len(d.Entries)], Entry{key, value})
	return d
}

// String writes the entries as ParsePath reads them.
func (d Descriptor) String() string { return PathOf(d.Entries...) }

// PathOf writes entries as ParsePath reads them: "category=account,user".
func PathOf(entries ...Entry) string {
	var b []byte
	for i, e := range entries {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, e.Key)
		if e.Value != "" {
			b = appendText(append(b, '='), e.Value)
		}
	}
	return string(b)
}

// ParsePath reads entries: key=value with commas between, or only a key where there is no value.
// What has other bytes than letters, digits and ._-:/*@+%()[]{} is in double quotes, as in Go.
func ParsePath(text string) ([]Entry, error) {
	stored, mark, err := parseStored(text)
	if err != nil || mark != "" {
		return nil, fmt.Errorf("rules: path %.200q is not key=value,key=value", text)
	}
	entries := make([]Entry, len(stored))
	for i, s := range stored {
		if s.how != raw {
			return nil, fmt.Errorf("rules: path %.200q is not key=value,key=value", text)
		}
		entries[i] = s.Entry
	}
	return entries, nil
}

// plain tells which bytes need no quotes.
var plain = func() (set [256]bool) {
	for c := range set {
		set[c] = c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	for _, c := range []byte("._-:/*@+%()[]{}") {
		set[c] = true
	}
	return set
}()

// appendText appends a key or a value, in quotes if need be.
func appendText(b []byte, s string) []byte {
	for i := range len(s) {
		if !plain[s[i]] {
			return strconv.AppendQuote(b, s)
		}
	}
	if s == "" {
		return append(b, `""`...)
	}
	return append(b, s...)
}

// cutText returns the first key or value of s, and the rest.
func cutText(s string) (text, rest string, ok bool) {
	if strings.HasPrefix(s, `"`) {
		quoted, err := strconv.QuotedPrefix(s)
		if err != nil {
			return "", "", false
		}
		text, err = strconv.Unquote(quoted)
		return text, s[len(quoted):], err == nil
	}
	n := 0
	for n < len(s) && plain[s[n]] {
		n++
	}
	return s[:n], s[n:], n > 0
}
