package accesslog

import (
	"bytes"
	"errors"
	"strings"
)

// fieldsMark begins the line of W3C that names the columns.
const fieldsMark = "#Fields:"

// newExtended is the parser of W3C. Lines before the first that names columns are read by it, too: a
// log that was cut has them.
func newExtended(in *lines, o Options, l *Log) (parser, error) {
	ahead, _ := in.r.Peek(maxLine)
	var names string
	found := false
	for line := range bytes.Lines(ahead) {
		if names, found = strings.CutPrefix(string(line), fieldsMark); found {
			break
		}
	}
	if !found {
		return nil, errors.New("no line " + fieldsMark + " in the first MiB")
	}
	t := &table{extended: true}
	t.csv = newReader(&t.line, ' ')
	look := lookAhead(in, o, W3C, t, strings.Fields(names))
	look.settle(&o, l)
	if err := t.open(look.names, o); err != nil {
		return nil, err
	}
	in.directive = t.directed
	return t, nil
}

// directed follows a directive.
func (t *table) directed(line []byte) {
	name, value, _ := strings.Cut(string(line), ":")
	values := strings.Fields(value)
	switch {
	case name+":" == fieldsMark:
		t.unread = t.open(values, t.options)
	case name == "#Date" && len(values) > 0:
		t.day = values[0]
	}
}
