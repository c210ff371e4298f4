package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// table is a CSV file: a header, then a record per line.
type table struct {
	line      bytes.Reader
	csv       *csv.Reader    // of line: one for all lines saves 4 KiB for each
	places    [costField]int // columns, -1 if there is none; there is a time
	guessed   bool           // the key, which may be an address with a port
	costs     []int          // columns to add up
	costFound bool           // they were not given
	columns   int            // of the header
	least     int            // columns that a line must have: what was guessed it may lack
	ragged    int            // lines that had another number of columns
	record    []string       // of the line under way
}

// header reads the names of the columns. A line without any, with a time in it, is no header: its
// columns are called 1, 2 and so on, and the first time is theirs.
func (t *table) header(line []byte, o *Options) (names []string, none bool, err error) {
	t.csv = csv.NewReader(&t.line)
	t.csv.Comma = separator(line)
	t.csv.ReuseRecord = true
	t.csv.FieldsPerRecord = -1
	record, err := t.cells(line)
	if err != nil {
		return nil, false, err
	}
	times, numbers := -1, []string(nil)
	for i, name := range record {
		name = strings.TrimSpace(name)
		names, numbers = append(names, strings.Clone(name)), append(numbers, strconv.Itoa(i+1))
		if s, err := parseStamp(name); times < 0 && err == nil && (s.kind == date || s.number() >= sinceEpoch) {
			times = i
		}
	}
	if times < 0 {
		return names, false, nil
	}
	if o.TimeCol == "" {
		o.TimeCol = numbers[times]
	}
	return numbers, true, nil
}

func (t *table) open(names []string, o Options) (err error) {
	t.least = 1
	for i, c := range [costField]struct {
		name    string
		guesses []string
	}{
		timeField: {o.TimeCol, timeNames}, keyField: {o.KeyCol, keyNames},
		upstreamField: {o.UpstreamCol, upstreamNames}, countField: {o.CountCol, nil},
		verdictField: {"", verdictNames}, statusField: {"", statusNames},
	} {
		if t.places[i], err = find(names, c.name, c.guesses); err != nil {
			return err
		}
		if c.name != "" {
			t.least = max(t.least, 1+t.places[i])
		}
	}
	if t.places[timeField] < 0 {
		return fmt.Errorf("no time column (%s) among %.200q: %s", strings.Join(timeNames, ", "),
			strings.Join(names, ", "), nameTime)
	}
	key := t.places[keyField]
	t.guessed = o.KeyCol == "" && key >= 0 && !slices.ContainsFunc(plainNames, func(name string) bool {
		return strings.EqualFold(name, names[key])
	})
	if t.costs, err = costColumns(names, o.CostCol); err != nil {
		return err
	}
	if t.least, t.costFound = max(t.least, 1+t.places[timeField]), o.costFound; !t.costFound {
		t.least = max(t.least, 1+slices.Max(append(t.costs, -1)))
	}
	return nil
}

// costColumns are those of a name, or of the terms of a sum.
func costColumns(names []string, name string) (all []int, err error) {
	if name == "" {
		return nil, nil
	}
	terms := []string{name}
	if _, err := column(names, name); err != nil { // else the plus is the name's own
		terms = strings.Split(name, "+")
	}
	for _, term := range terms {
		i, err := column(names, strings.TrimSpace(term))
		if err != nil {
			return nil, err
		}
		all = append(all, i)
	}
	return all, nil
}

// find is the column of a name, or of the first guess that the header has; -1 if it
// has none of these.
func find(names []string, name string, guesses []string) (int, error) {
	if name != "" {
		return column(names, name)
	}
	for _, guess := range guesses {
		if i, err := column(names, guess); err == nil {
			return i, nil
		}
	}
	return -1, nil
}

// split reads the columns of a line.
func (t *table) split(line []byte) []string {
	record, err := t.cells(line)
	if err != nil || len(record) != t.columns {
		// A quote that is not CSV's hides separators, or shows too many.
		if plain := strings.Split(string(line), string(t.csv.Comma)); err != nil || len(plain) == t.columns {
			record = plain
			for i := range record {
				record[i] = strings.Trim(record[i], ` "`)
			}
		}
	}
	return record
}

func (t *table) parse(line []byte) (entry, error) {
	t.record = t.split(line)
	if n := len(t.record); n < t.least {
		return entry{}, fmt.Errorf("%d columns, the header has %d, and %d are needed", n, t.columns, t.least)
	}
	q, err := entryOf(t, t.costFound)
	if err == nil && len(t.record) != t.columns {
		t.ragged++
	}
	return q, err
}

func (t *table) end() error { return nil }

func (t *table) text(field int) (text string, ok bool) {
	place := t.places[field]
	if place < 0 || place >= len(t.record) {
		return "", false
	}
	return t.record[place], true
}

func (t *table) address() bool { return t.guessed }

func (t *table) cost() (int64, error) {
	var sum cost
	for _, i := range t.costs {
		if i >= len(t.record) {
			return 0, fmt.Errorf("%d columns, and the cost is in column %d", len(t.record), i+1)
		}
		if err := sum.add(t.record[i]); err != nil {
			return 0, err
		}
	}
	return sum.tokens()
}

// cells splits one line. The csv.Reader takes all of it and then meets the
// end of its input, whether the line is sound or not, so that nothing of it
// is left for the next.
func (t *table) cells(line []byte) ([]string, error) {
	t.line.Reset(line)
	record, err := t.csv.Read()
	var parse *csv.ParseError
	if errors.As(err, &parse) {
		err = parse.Err // its line numbers are not the file's
	}
	return record, err
}

// column finds a name in the header: the name itself, else in another case.
func column(names []string, name string) (int, error) {
	i := slices.Index(names, name)
	if i < 0 {
		i = slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
	}
	if i < 0 {
		return -1, fmt.Errorf("no column %q among %.200q", name, strings.Join(names, ", "))
	}
	return i, nil
}

// separator returns whichever of , ; and tab the header has most of outside
// quotes; the comma if it has none.
func separator(header []byte) rune {
	best, most := ',', 0
	for _, sep := range ",;\t" {
		n := 0
		for i, part := range bytes.Split(header, []byte{'"'}) {
			if i%2 == 0 { // not within quotes
				n += bytes.Count(part, []byte{byte(sep)})
			}
		}
		if n > most {
			best, most = sep, n
		}
	}
	return best
}
