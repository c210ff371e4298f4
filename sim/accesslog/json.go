package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
)

// objects are lines each with names of its own: JSON Lines, an object per line, and text.
type objects struct {
	fields
	textual bool
	path    []byte // scratch of walk
}

func newObjects(o Options, textual bool) (*objects, error) {
	times := timeNames
	if textual {
		times = append([]string{textTime}, timeNames...)
	}
	f, err := newFields(o, times)
	return &objects{fields: f, textual: textual}, err
}

func (s *objects) parse(line []byte) (entry, error) {
	for i := range s.list {
		s.list[i].value = gjson.Result{}
	}
	if s.textual {
		s.options.columns(line, func(name, value string) {
			s.found([]byte(name), gjson.Result{Type: gjson.String, Str: value})
		})
	} else if err := s.object(bytes.TrimLeft(line, " \t")); err != nil {
		return entry{}, err
	}
	if f := &s.list[timeField]; s.textual && !f.named && !f.value.Exists() {
		return entry{}, errTimeless
	}
	return s.entry()
}

// object looks through a line of JSON.
func (s *objects) object(line []byte) error {
	if err := otherJSON(line); err != nil {
		return err
	}
	if !json.Valid(line) {
		return fmt.Errorf("not JSON: %w", json.Unmarshal(line, &json.RawMessage{})) // for the reason
	}
	if line[0] != '{' {
		return errors.New("not a JSON object")
	}
	s.path = walk(gjson.ParseBytes(line), s.path[:0], s.within, s.found)
	return nil
}

// otherJSON is the error of JSON that begins with this line, or the first part of it, and
// is not an object per line; nil if it may be.
func otherJSON(line []byte) error {
	line = bytes.TrimSpace(line)
	inside, array := bytes.CutPrefix(line, []byte{'['})
	inside = bytes.TrimSpace(inside)
	switch {
	case array && (len(inside) == 0 || inside[0] == '{'):
		return errors.New("a JSON array: want an object per line, as from jq -c '.[]'")
	case string(line) == "{":
		return errors.New("a JSON object over several lines: want one per line, as from jq -c .")
	}
	return nil
}

// end returns an error if the options name a key or an upstream that not one
// line had. A line may leave them out, but a name that is nowhere is misspelt.
func (s *objects) end() error {
	for _, f := range s.list[keyField : upstreamField+1] {
		if f.named && !f.ever {
			return fmt.Errorf("no line has a string or number named %s", f)
		}
	}
	return nil
}

// textOf returns a value as a log would have it without JSON: numbers digit by
// digit, so that large ones stay exact.
func textOf(value gjson.Result) string {
	if value.Type == gjson.Number {
		return value.Raw
	}
	return value.Str
}

// walk calls found with the strings and numbers of an object, and of those in it that enter says,
// and with the path of each: names of objects and its own, with dots between them. It returns the
// room that path takes.
func walk(
	object gjson.Result, path []byte, enter func(path []byte) bool, found func([]byte, gjson.Result),
) []byte {
	around := len(path)
	object.ForEach(func(name, value gjson.Result) bool {
		path = append(path[:around], name.Str...)
		switch {
		case value.IsObject() && enter(path):
			path = walk(value, append(path, '.'), enter, found)
		case value.Type == gjson.String || value.Type == gjson.Number:
			found(path, value)
		}
		return true
	})
	return path
}

func always([]byte) bool { return true }

// within tells whether a name is looked for within the object at path. So no object is entered
// that is deeper than a name has dots.
func (s *objects) within(path []byte) bool {
	n := len(path)
	for _, f := range s.list {
		for _, name := range f.names {
			if len(name) > n && name[n] == '.' && bytes.EqualFold(name[:n], path) {
				return true
			}
		}
	}
	return false
}

// found notes the value at path if it is looked for.
func (s *objects) found(path []byte, value gjson.Result) {
	for i := range s.list {
		f := &s.list[i]
		if rank, ok := f.rankOf(path); ok && (!f.value.Exists() || rank <= f.rank) {
			f.value, f.rank, f.ever = value, rank, true
		}
	}
}
