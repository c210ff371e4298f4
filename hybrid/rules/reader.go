package rules

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// mostErrors is how many errors of a document are told.
const mostErrors = 20

// An Error is one mistake in a document.
type Error struct {
	File         string // Document.Name
	Line, Column int    // from 1; 0 if the mistake is in no line
	Path         string // of the field: "descriptors[2].rate_limit.unit"
	Text         string
}

// Error reads "rules: shop.yaml:12:7: descriptors[2].rate_limit.unit: ...".
func (e *Error) Error() string {
	b := "rules: " + e.File
	if e.Line > 0 {
		b += ":" + strconv.Itoa(e.Line) + ":" + strconv.Itoa(e.Column)
	}
	if e.Path != "" {
		b += ": " + e.Path
	}
	return b + ": " + e.Text
}

// A reader reads one document strictly. It goes on after a mistake, to find more of them.
type reader struct {
	file  string
	errs  []error
	more  int // mistakes beyond mostErrors
	notes []string
}

// A place is a node of a document and its path.
type place struct {
	*yaml.Node
	path string
}

func (p place) at(name string, n *yaml.Node) place {
	if p.path != "" {
		name = p.path + "." + name
	}
	return place{n, name}
}

// fail notes a mistake.
func (r *reader) fail(p place, format string, args ...any) {
	if len(r.errs) == mostErrors {
		r.more++
		return
	}
	e := &Error{File: r.file, Path: p.path, Text: fmt.Sprintf(format, args...)}
	if p.Node != nil {
		e.Line, e.Column = p.Line, p.Column
	}
	r.errs = append(r.errs, e)
}

// note notes what is no mistake.
func (r *reader) note(p place, format string, args ...any) {
	if len(r.notes) < mostErrors {
		r.notes = append(r.notes, fmt.Sprintf("%s:%d:%d: %s: ", r.file, p.Line, p.Column, p.path)+
			fmt.Sprintf(format, args...))
	}
}

// err joins all mistakes.
func (r *reader) err() error {
	if r.more > 0 {
		r.errs = append(r.errs, fmt.Errorf("rules: %s: %d more mistakes", r.file, r.more))
		r.more = 0
	}
	return errors.Join(r.errs...)
}

// root returns the top of a YAML text.
func (r *reader) root(text []byte) (place, bool) {
	if len(text) > MaxText {
		r.fail(place{}, "%d bytes are more than %d", len(text), MaxText)
		return place{}, false
	}
	var doc yaml.Node
	err := yaml.Load(text, &doc)
	if err != nil {
		r.fail(place{Node: mark(err)}, "%s", reason(err))
		return place{}, false
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		r.fail(place{}, "the document is empty: a domain is missing")
		return place{}, false
	}
	return place{Node: doc.Content[0]}, true
}

// mark is where a text is no YAML.
func mark(err error) *yaml.Node {
	if e, ok := errors.AsType[*yaml.LoadError](err); ok && e.Mark.Line > 0 {
		return &yaml.Node{Line: e.Mark.Line, Column: e.Mark.Column + 1}
	}
	return nil
}

// reason is what is wrong with a text that is no YAML.
func reason(err error) string {
	if e, ok := errors.AsType[*yaml.LoadError](err); ok {
		text := e.Message
		if e.ContextMsg != "" {
			text = e.ContextMsg + ": " + text
		}
		return "no YAML: " + text
	}
	return "no YAML: " + err.Error()
}

// fields returns the fields of a mapping by their names, which must be known ones.
func (r *reader) fields(p place, known ...string) map[string]place {
	fields := map[string]place{}
	if !r.is(p, yaml.MappingNode, "a mapping of fields") {
		return fields
	}
	for i := 0; i+1 < len(p.Content); i += 2 {
		key, value := p.Content[i], p.Content[i+1]
		at := place{key, p.path}
		if key.Kind != yaml.ScalarNode || key.ShortTag() != "!!str" {
			r.fail(at, "the name of a field is no string: %.80q", key.Value)
			continue
		}
		if !slices.Contains(known, key.Value) {
			r.fail(at, "unknown field %.80q%s", key.Value, nearest(key.Value, known))
			continue
		}
		if first, twice := fields[key.Value]; twice {
			r.fail(at, "field %q is there already, in line %d", key.Value, first.Line)
			continue
		}
		fields[key.Value] = p.at(key.Value, value)
	}
	return fields
}

// is reports whether a node is of a kind.
func (r *reader) is(p place, kind yaml.Kind, what string) bool {
	switch {
	case p.Kind == yaml.AliasNode:
		r.fail(p, "*%.80s is an alias of YAML, which is not read: write the value again", p.Value)
	case p.Kind != kind:
		r.fail(p, "%s is not %s", show(p.Node), what)
	case !strings.HasPrefix(p.ShortTag(), "!!"):
		r.fail(p, "the tag %.80s is not read", p.Tag)
	default:
		return true
	}
	return false
}

// show is what a node looks like in an error.
func show(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%.80q", n.Value)
}

// null reports whether a field is not there, or empty.
func null(p place) bool {
	return p.Node == nil || p.Kind == yaml.ScalarNode && p.ShortTag() == "!!null"
}

// text reads a scalar as it stands there.
func (r *reader) text(p place) string {
	if null(p) || !r.is(p, yaml.ScalarNode, "a text") {
		return ""
	}
	switch p.ShortTag() {
	case "!!str", "!!int", "!!float", "!!bool", "!!timestamp":
		return p.Value
	}
	r.fail(p, "the tag %.80s is not read", p.Tag)
	return ""
}

// flag reads a boolean.
func (r *reader) flag(p place) bool {
	if null(p) || !r.is(p, yaml.ScalarNode, "true or false") {
		return false
	}
	switch p.Value {
	case "true", "True", "TRUE", "yes", "on":
		return true
	case "false", "False", "FALSE", "no", "off":
		return false
	}
	r.fail(p, "%.80q is not true or false", p.Value)
	return false
}

// count reads a whole number from least to most.
func (r *reader) count(p place, least, most int64) (int64, bool) {
	if !r.is(p, yaml.ScalarNode, "a number") {
		return 0, false
	}
	if len(p.Value) > 1 && strings.HasPrefix(p.Value, "0") { // octal for some readers of YAML
		r.fail(p, "%.80q is not a whole number from %d to %d: it begins with 0", p.Value, least, most)
		return 0, false
	}
	n, err := strconv.ParseInt(p.Value, 10, 64)
	if err != nil || n < least || n > most {
		r.fail(p, "%.80q is not a whole number from %d to %d", p.Value, least, most)
		return 0, false
	}
	return n, true
}

// nearest proposes the known name that a name is likely meant to be.
func nearest(name string, known []string) string {
	best, least := "", 1+min(3, len(name)/2)
	if len(name) < 64 {
		for _, k := range known {
			if d := distance(strings.ToLower(name), k); d < least {
				best, least = k, d
			}
		}
	}
	if best == "" {
		return ": known are " + strings.Join(known, ", ")
	}
	return fmt.Sprintf(": %q is the nearest one", best)
}

// distance is Levenshtein's: how many bytes to add, drop or change.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
