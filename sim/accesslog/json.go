package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// objects are JSON Lines: an object per line, each with names of its own.
type objects struct {
	// fields are the values looked for: the time, the key, the upstream, the count, the verdict,
	// the status, the cost by its whole name, which may hold a plus, then the cost's terms.
	fields    []field
	path      []byte // names of the objects around the current value, and its own
	costFound bool   // the cost was not given
}

// field is a value looked for in each line.
type field struct {
	names [][]byte // the best first
	named bool     // by the options, not guessed
	ever  bool     // some line had it

	// value is the line's: a string or a number, gjson.Null if there is none.
	// Of several, one of the lowest rank: the name's index, doubled, and 1
	// more if it is written in another case.
	value gjson.Result
	rank  int
}

func newObjects(o Options) (*objects, error) {
	s := &objects{costFound: o.costFound}
	look := func(named string, guesses ...string) {
		if named != "" {
			guesses = []string{named}
		}
		f := field{named: named != ""}
		for _, name := range guesses {
			f.names = append(f.names, []byte(name))
		}
		s.fields = append(s.fields, f)
	}
	look(o.TimeCol, timeNames...)
	look(o.KeyCol, keyNames...)
	look(o.UpstreamCol, upstreamNames...)
	look(o.CountCol)
	look("", verdictNames...)
	look("", statusNames...)
	look(o.CostCol)
	if strings.Contains(o.CostCol, "+") {
		for _, term := range strings.Split(o.CostCol, "+") {
			if term = strings.TrimSpace(term); term == "" {
				return nil, fmt.Errorf("column %.200q: a term has no name", o.CostCol)
			}
			look(term)
		}
	}
	return s, nil
}

func (s *objects) parse(line []byte) (entry, error) {
	line = bytes.TrimLeft(line, " \t")
	if err := otherJSON(line); err != nil {
		return entry{}, err
	}
	if !json.Valid(line) {
		return entry{}, fmt.Errorf("not JSON: %w", json.Unmarshal(line, &json.RawMessage{})) // for the reason
	}
	if line[0] != '{' {
		return entry{}, errors.New("not a JSON object")
	}
	for i := range s.fields {
		s.fields[i].value = gjson.Result{}
	}
	s.path = s.path[:0]
	s.look(gjson.ParseBytes(line))

	if f := &s.fields[timeField]; !f.value.Exists() {
		return entry{}, f.noTime()
	}
	if f := &s.fields[countField]; f.named && !f.value.Exists() {
		return entry{}, f.missing()
	}
	return entryOf(s, s.costFound)
}

func (s *objects) text(field int) (text string, ok bool) { return s.fields[field].text() }

// address reports whether the name was guessed, and is one of those.
func (s *objects) address() bool {
	f := &s.fields[keyField]
	return !f.named && f.value.Exists() && f.rank/2 < len(addressNames)
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

// cost is that of the line, or the sum of its terms.
func (s *objects) cost() (int64, error) {
	costs := s.fields[costField : costField+1]
	if len(costs[0].names) == 0 {
		return 1, nil
	}
	if !costs[0].value.Exists() && len(s.fields) > termFields {
		costs = s.fields[termFields:]
	}
	var sum cost
	for _, f := range costs {
		text, ok := f.text()
		if !ok {
			return 0, f.missing()
		}
		if err := sum.add(text); err != nil {
			return 0, err
		}
	}
	return sum.tokens()
}

// end returns an error if the options name a key or an upstream that not one
// line had. A line may leave them out, but a name that is nowhere is misspelt.
func (s *objects) end() error {
	for _, f := range s.fields[keyField : upstreamField+1] {
		if f.named && !f.ever {
			return fmt.Errorf("no line has a string or number named %s", f)
		}
	}
	return nil
}

// missing is the error of a line that does not have the field.
func (f field) missing() error { return fmt.Errorf("no string or number named %s", f) }

// noTime is that of a line without a time, while none had one with what to do.
func (f field) noTime() error {
	err := f.missing()
	if !f.named && !f.ever {
		err = fmt.Errorf("%w: %s", err, nameTime)
	}
	return err
}

// String names the field in errors.
func (f field) String() string {
	return fmt.Sprintf("%.200q", bytes.Join(f.names, []byte(", ")))
}

// text returns the value as a log would have it without JSON: numbers digit by
// digit, so that large ones stay exact.
func (f field) text() (text string, ok bool) {
	if f.value.Type == gjson.Number {
		return f.value.Raw, true
	}
	return f.value.Str, f.value.Exists()
}

// look looks through an object. It enters only objects that may hold a value
// that is looked for, so it goes no deeper than a name has dots.
func (s *objects) look(object gjson.Result) {
	around := len(s.path)
	object.ForEach(func(name, value gjson.Result) bool {
		s.path = append(s.path[:around], name.Str...)
		switch {
		case value.IsObject() && s.within():
			s.path = append(s.path, '.')
			s.look(value)
		case value.Type == gjson.String || value.Type == gjson.Number:
			s.found(value)
		}
		return true
	})
}

// within tells whether a name is looked for within the object at path.
func (s *objects) within() bool {
	n := len(s.path)
	for _, f := range s.fields {
		for _, name := range f.names {
			if len(name) > n && name[n] == '.' && bytes.EqualFold(name[:n], s.path) {
				return true
			}
		}
	}
	return false
}

// found notes the value at path if it is looked for.
func (s *objects) found(value gjson.Result) {
	for i := range s.fields {
		f := &s.fields[i]
		for j, name := range f.names {
			if len(name) != len(s.path) || !bytes.EqualFold(name, s.path) {
				continue
			}
			rank := 2 * j
			if !bytes.Equal(name, s.path) {
				rank++
			}
			if !f.value.Exists() || rank <= f.rank {
				f.value, f.rank, f.ever = value, rank, true
			}
			break
		}
	}
}
