package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// table is a CSV file: a header, then a record per line. That of W3C is in directives.
type table struct {
	line bytes.Reader
	csv  *csv.Reader // of line: one for all lines saves 4 KiB for each
	fields
	places   []int    // columns of the fields, -1 if there is none
	columns  int      // of the header
	least    int      // columns that a line must have: what was guessed it may lack
	ragged   int      // lines that had another number of columns
	record   []string // of the line under way
	extended bool     // it is W3C
	day      string   // of W3C, as the last #Date: had it
	unread   error    // of W3C, why the columns of the last #Fields: cannot be read
}

func newReader(of *bytes.Reader, separator rune) *csv.Reader {
	r := csv.NewReader(of)
	r.Comma, r.ReuseRecord, r.FieldsPerRecord = separator, true, -1
	return r
}

// header reads the names of the columns. A line without any, with a time in it, is no header: its
// columns are called 1, 2 and so on, and the first time is theirs.
func (t *table) header(line []byte, o *Options) (names []string, none bool, err error) {
	t.csv = newReader(&t.line, separator(line))
	record, err := t.cells(line)
	if err != nil {
		return nil, false, fmt.Errorf("%.80q: %w", line, err)
	}
	times, numbers := -1, []string(nil)
	for i, name := range record {
		name = strings.TrimSpace(name)
		names, numbers = append(names, strings.Clone(name)), append(numbers, strconv.Itoa(i+1))
		if s, err := o.stamp(name); times < 0 && err == nil && (s.kind == date || s.number() >= sinceEpoch) {
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

// open finds the columns that are wanted among these.
func (t *table) open(names []string, o Options) (err error) {
	if t.fields, err = newFields(o, timeNames); err != nil {
		return err
	}
	t.least, t.columns, t.places = 1, len(names), make([]int, len(t.list))
	for i := range t.list {
		f := &t.list[i]
		t.places[i] = -1
		for column, name := range names {
			if rank, ok := f.rankOf([]byte(name)); ok && (t.places[i] < 0 || rank < f.rank) {
				t.places[i], f.rank = column, rank
			}
		}
	}
	columns := fmt.Sprintf("%.200q", strings.Join(names, ", "))
	if t.places[timeField] < 0 && o.TimeCol == "" {
		return fmt.Errorf("no time column (%s) among %s: %s", strings.Join(timeNames, ", "), columns, nameTime)
	}
	need := func(from, to int) error {
		for i := from; i < to; i++ {
			if f := &t.list[i]; t.places[i] < 0 && f.named {
				return fmt.Errorf("no column %.200q among %s", f.names[0], columns)
			} else if f.named || i == timeField {
				t.least = max(t.least, 1+t.places[i])
			}
		}
		return nil
	}
	err = need(0, costField)
	switch {
	case err != nil || o.costFound: // a line may lack what was found
	case t.places[costField] >= 0 || len(t.list) == termFields:
		err = need(costField, termFields)
	default:
		err = need(termFields, len(t.list))
	}
	return err
}

// split reads the columns of a line.
func (t *table) split(line []byte) []string {
	if t.extended {
		t.csv.Comma = ' '
		if bytes.IndexByte(line, '\t') >= 0 {
			t.csv.Comma = '\t'
		}
	}
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
	if t.unread != nil {
		return entry{}, t.unread
	}
	t.record = t.split(line)
	if n := len(t.record); n < t.least {
		return entry{}, fmt.Errorf("%d columns, the header has %d, and %d are needed", n, t.columns, t.least)
	}
	for i, place := range t.places {
		f := &t.list[i]
		if f.value = (gjson.Result{}); place >= 0 && place < len(t.record) {
			f.value = gjson.Result{Type: gjson.String, Str: t.record[place]}
		} else if i == dateField && t.day != "" {
			f.value = gjson.Result{Type: gjson.String, Str: t.day}
		}
	}
	q, err := t.entry()
	if err == nil && len(t.record) != t.columns {
		t.ragged++
	}
	return q, err
}

func (t *table) end() error { return nil }

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

// separator returns whichever of , ; | and tab the header has most of outside
// quotes; the comma if it has none.
func separator(header []byte) rune {
	best, most := ',', 0
	for _, sep := range ",;|\t" {
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
