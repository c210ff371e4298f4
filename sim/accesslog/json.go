package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// The names guessed for Options' columns in JSON, the best first: times finer
// than a second, then times of day and date, then what might be something
// else; addresses that a proxy vouches for.
var (
	jsonTimes = []string{"msec", "time_iso8601", "@timestamp", "timestamp", "datetime", "start_time", "ts", "time", "time_local", "date"}
	jsonKeys  = []string{"remote_addr", "client_ip", "remote_ip", "client", "request.client_ip", "request.remote_ip", "downstream_remote_address"}
	upstreams = []string{"upstream_addr", "upstream_host", "upstream", "backend"}
)

// objects are JSON Lines: an object per line, each with names of its own.
type objects struct {
	// fields are the values looked for: the time, the key, the upstream, the
	// count, the cost by its whole name, which may hold a plus, then the cost's terms.
	fields []field
	path   []byte // names of the objects around the current value, and its own
}

const (
	timeField = iota
	keyField
	upstreamField
	countField
	costField
	termFields
)

// field is a value looked for in each line.
type field struct {
	names [][]byte // the best first
	named bool     // by the options, not guessed
	ever  bool     // some line had it

	// value is the line's: a string with its quotes, or a number; nil if
	// there is none. Of several, one of the lowest rank: the name's index,
	// doubled, and 1 more if it is written in another case.
	value []byte
	rank  int
}

func newObjects(o Options) (*objects, error) {
	s := &objects{}
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
	look(o.TimeCol, jsonTimes...)
	look(o.KeyCol, jsonKeys...)
	look(o.UpstreamCol, upstreams...)
	look(o.CountCol)
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
	if !json.Valid(line) {
		return entry{}, fmt.Errorf("not JSON: %w", json.Unmarshal(line, &json.RawMessage{})) // for the reason
	}
	if line[0] != '{' {
		return entry{}, errors.New("not a JSON object")
	}
	for i := range s.fields {
		s.fields[i].value = nil
	}
	s.path = s.path[:0]
	s.object(line, 0)

	q := entry{cost: 1, count: 1}
	var err error
	stamp, ok := s.fields[timeField].text()
	if !ok {
		return entry{}, fmt.Errorf("no string or number named %s", s.fields[timeField])
	}
	if q.stamp, err = parseStamp(strings.TrimSpace(stamp)); err != nil {
		return entry{}, err
	}
	q.key, _ = s.fields[keyField].text()
	if q.key = strings.TrimSpace(q.key); !s.fields[keyField].named {
		q.key = client(q.key)
	}
	upstream, _ := s.fields[upstreamField].text()
	q.upstream = served(upstream)
	if f := s.fields[countField]; len(f.names) > 0 {
		text, ok := f.text()
		if !ok {
			return entry{}, fmt.Errorf("no string or number named %s", f)
		}
		if q.count, err = requests(text); err != nil {
			return entry{}, err
		}
	}
	if len(s.fields[costField].names) > 0 {
		q.cost, err = s.cost()
	}
	return q, err
}

// cost is that of the line, or the sum of its terms.
func (s *objects) cost() (int64, error) {
	costs := s.fields[costField : costField+1]
	if costs[0].value == nil && len(s.fields) > termFields {
		costs = s.fields[termFields:]
	}
	var sum cost
	for _, f := range costs {
		text, ok := f.text()
		if !ok {
			return 0, fmt.Errorf("no string or number named %s", f)
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

// String names the field in errors.
func (f field) String() string {
	return fmt.Sprintf("%.200q", bytes.Join(f.names, []byte(", ")))
}

// text returns the value as a log would have it without JSON: numbers digit by
// digit, so that large ones stay exact.
func (f field) text() (text string, ok bool) {
	if f.value == nil || f.value[0] != '"' {
		return string(f.value), f.value != nil
	}
	return unquote(f.value), true
}

// object looks through the object that begins at line[i] and returns where it
// ends. It relies on json.Valid: to pick a few values out of what is known to
// be sound takes a fraction of the time of decoding all. It enters only objects
// that may hold one of them, so it goes no deeper than a name has dots.
func (s *objects) object(line []byte, i int) int {
	around := len(s.path)
	for i++; ; {
		for line[i] != '"' && line[i] != '}' {
			i++
		}
		if line[i] == '}' {
			return i + 1
		}
		end := stringEnd(line, i)
		s.path = s.path[:around]
		if name := line[i+1 : end-1]; bytes.IndexByte(name, '\\') < 0 {
			s.path = append(s.path, name...)
		} else {
			s.path = append(s.path, unquote(line[i:end])...)
		}
		for i = end; line[i] == ':' || space(line[i]); {
			i++
		}
		switch c := line[i]; {
		case c == '{' && s.within():
			s.path = append(s.path, '.')
			i = s.object(line, i)
		case c == '{' || c == '[':
			i = compositeEnd(line, i)
		case c == '"':
			end = stringEnd(line, i)
			s.found(line[i:end])
			i = end
		default: // a number, true, false or null
			end = i
			for line[end] != ',' && line[end] != '}' && !space(line[end]) {
				end++
			}
			if c == '-' || '0' <= c && c <= '9' {
				s.found(line[i:end])
			}
			i = end
		}
	}
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
func (s *objects) found(value []byte) {
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
			if f.value == nil || rank <= f.rank {
				f.value, f.rank, f.ever = value, rank, true
			}
			break
		}
	}
}

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// stringEnd returns where the string that begins at line[i] ends: behind the
// next quote that has an even number of backslashes before it.
func stringEnd(line []byte, i int) int {
	for {
		i += 1 + bytes.IndexByte(line[i+1:], '"')
		slashes := 0
		for line[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// compositeEnd returns where the object or array that begins at line[i] ends.
func compositeEnd(line []byte, i int) int {
	for depth := 0; ; i++ {
		switch line[i] {
		case '"':
			i = stringEnd(line, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
}

// unquote decodes a string in its quotes.
func unquote(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		panic(fmt.Sprintf("accesslog: %.100q is in valid JSON, but: %v", quoted, err))
	}
	return s
}
