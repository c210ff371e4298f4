package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// csvTimes are the names guessed for Options.TimeCol, the likeliest to hold
// both day and time first.
var csvTimes = []string{"timestamp", "@timestamp", "datetime", "time", "ts", "date"}

// table is a CSV file: a header, then a record per line.
type table struct {
	line                bytes.Reader
	csv                 *csv.Reader // of line: one for all lines saves 4 KiB for each
	time, key, upstream int         // columns; key and upstream are -1 if there is none
	costs               []int       // columns to add up
}

func (t *table) open(header []byte, o Options) error {
	t.csv = csv.NewReader(&t.line)
	t.csv.Comma = separator(header)
	t.csv.ReuseRecord = true
	names, err := t.record(header)
	if err != nil {
		return err
	}
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	t.key, t.upstream = -1, -1
	if o.KeyCol != "" {
		if t.key, err = column(names, o.KeyCol); err != nil {
			return err
		}
	}
	if o.UpstreamCol != "" {
		if t.upstream, err = column(names, o.UpstreamCol); err != nil {
			return err
		}
	}
	if o.CostCol != "" {
		terms := []string{o.CostCol}
		if _, err := column(names, o.CostCol); err != nil { // else the plus is the name's own
			terms = strings.Split(o.CostCol, "+")
		}
		for _, term := range terms {
			i, err := column(names, strings.TrimSpace(term))
			if err != nil {
				return err
			}
			t.costs = append(t.costs, i)
		}
	}
	if o.TimeCol != "" {
		t.time, err = column(names, o.TimeCol)
		return err
	}
	for _, guess := range csvTimes {
		if t.time, err = column(names, guess); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no time column (%s) among %.200q", strings.Join(csvTimes, ", "), strings.Join(names, ", "))
}

func (t *table) parse(line []byte) (Request, error) {
	record, err := t.record(line)
	if err != nil {
		return Request{}, err
	}
	q := Request{Cost: 1}
	if q.At, err = parseStamp(strings.TrimSpace(record[t.time])); err != nil {
		return Request{}, err
	}
	if t.key >= 0 {
		q.Key = strings.TrimSpace(record[t.key])
	}
	if t.upstream >= 0 {
		q.Upstream = served(record[t.upstream])
	}
	var sum cost
	for _, i := range t.costs {
		if err := sum.add(record[i]); err != nil {
			return Request{}, err
		}
	}
	q.Cost, err = sum.tokens()
	return q, err
}

// record splits one line. The csv.Reader takes all of it and then meets the
// end of its input, whether the line is sound or not, so that nothing of it
// is left for the next.
func (t *table) record(line []byte) ([]string, error) {
	t.line.Reset(line)
	record, err := t.csv.Read()
	if errors.Is(err, csv.ErrFieldCount) {
		return nil, fmt.Errorf("%d fields, the header has %d", len(record), t.csv.FieldsPerRecord)
	}
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
