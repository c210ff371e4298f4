package accesslog

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// Places in a list of fields. The cost by its whole name, which may hold a plus, is before the terms
// of a sum.
const (
	timeField = iota
	keyField
	upstreamField
	countField
	dateField // of a time that is one of day
	verdictField
	statusField
	costField
	termFields
)

// fields are the values that are looked for in lines whose columns have names.
type fields struct {
	list    []field // those above, then the terms of the cost
	options Options
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

func newFields(o Options, times []string) (s fields, err error) {
	s.options = o
	look := func(named string, guesses ...string) {
		if named != "" {
			guesses = []string{named}
		}
		f := field{named: named != ""}
		for _, name := range guesses {
			f.names = append(f.names, []byte(name))
		}
		s.list = append(s.list, f)
	}
	look(o.TimeCol, times...)
	look(o.KeyCol, keyNames...)
	look(o.UpstreamCol, upstreamNames...)
	look(o.CountCol)
	look("", dateNames...)
	look("", verdictNames...)
	look("", statusNames...)
	look(o.CostCol)
	if strings.Contains(o.CostCol, "+") {
		for _, term := range strings.Split(o.CostCol, "+") {
			if term = strings.TrimSpace(term); term == "" {
				return s, fmt.Errorf("column %.200q: a term has no name", o.CostCol)
			}
			look(term)
		}
	}
	return s, nil
}

// rankOf is the rank that a value of this name has, if it is one of the field.
func (f *field) rankOf(name []byte) (rank int, ok bool) {
	for i, known := range f.names {
		if len(known) == len(name) && bytes.EqualFold(known, name) {
			if rank = 2 * i; !bytes.Equal(known, name) {
				rank++
			}
			return rank, true
		}
	}
	return 0, false
}

// entry makes an entry of the values of a line.
func (s *fields) entry() (q entry, err error) {
	for _, i := range []int{timeField, countField} {
		if f := &s.list[i]; !f.value.Exists() && (i == timeField || f.named) {
			return entry{}, f.missing(i == timeField)
		}
	}
	text := func(field int) string {
		text, _ := s.list[field].text()
		return strings.TrimSpace(text)
	}
	upstream, _ := s.list[upstreamField].text() // of which spaces are a part
	q = entry{cost: 1, count: 1, key: text(keyField), upstream: served(upstream)}
	if q.stamp, err = s.options.stampOf(text(dateField), text(timeField)); err != nil {
		return entry{}, err
	}
	if f := &s.list[keyField]; !f.named && f.rank/2 < len(addressNames) {
		q.key = client(q.key)
	}
	if q.verdict = verdictOf(text(verdictField)); q.verdict == Unknown {
		q.verdict = answered(text(statusField))
	}
	if count, ok := s.list[countField].text(); ok {
		if q.count, err = requests(count); err != nil {
			return entry{}, err
		}
	}
	q.cost, err = s.cost()
	if err != nil && s.options.costFound {
		q.cost, q.costless, err = 1, err, nil
	}
	return q, err
}

// cost is that of the line, or the sum of its terms.
func (s *fields) cost() (int64, error) {
	costs := s.list[costField : costField+1]
	if len(costs[0].names) == 0 {
		return 1, nil
	}
	if !costs[0].value.Exists() && len(s.list) > termFields {
		costs = s.list[termFields:]
	}
	var sum cost
	for _, f := range costs {
		text, ok := f.text()
		if !ok {
			return 0, f.missing(false)
		}
		if err := sum.add(text); err != nil {
			return 0, err
		}
	}
	return sum.tokens()
}

// missing is the error of a line that does not have the field: of the time, while none had one,
// with what to do.
func (f field) missing(time bool) error {
	err := fmt.Errorf("no string or number named %s", f)
	if time && !f.named && !f.ever {
		err = fmt.Errorf("%w: %s", err, nameTime)
	}
	return err
}

// String names the field in errors.
func (f field) String() string {
	return fmt.Sprintf("%.200q", bytes.Join(f.names, []byte(", ")))
}

func (f field) text() (text string, ok bool) { return textOf(f.value), f.value.Exists() }
