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
	count               int         // column, -1 if there is none
	costs               []int       // columns to add up
	columns             int         // of the header
	least               int         // columns that a line must have
	ragged              int         // lines that had another number of columns
}

func (t *table) open(header []byte, o Options) error {
	t.csv = csv.NewReader(&t.line)
	t.csv.Comma = separator(header)
	t.csv.ReuseRecord = true
	t.csv.FieldsPerRecord = -1
	names, err := t.record(header)
	if err != nil {
		return err
	}
	t.columns = len(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	for _, c := range []struct {
		name  string
		place *int
	}{{o.KeyCol, &t.key}, {o.UpstreamCol, &t.upstream}, {o.CountCol, &t.count}} {
		*c.place = -1
		if c.name != "" {
			if *c.place, err = column(names, c.name); err != nil {
				return err
			}
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
	if t.time, err = timeColumn(names, o.TimeCol); err != nil {
		return err
	}
	t.least = 1 + max(t.time, t.key, t.upstream, t.count, slices.Max(append(t.costs, -1)))
	return nil
}

func timeColumn(names []string, name string) (int, error) {
	if name != "" {
		return column(names, name)
	}
	for _, guess := range csvTimes {
		if i, err := column(names, guess); err == nil {
			return i, nil
		}
	}
	return -1, fmt.Errorf("no time column (%s) among %.200q", strings.Join(csvTimes, ", "), strings.Join(names, ", "))
}

func (t *table) parse(line []byte) (entry, error) {
	record, err := t.record(line)
	if err != nil || len(record) != t.columns {
		// A quote that is not CSV's hides separators, or shows too many.
		if plain := strings.Split(string(line), string(t.csv.Comma)); err != nil || len(plain) == t.columns {
			record = plain
			for i := range record {
				record[i] = strings.Trim(record[i], ` "`)
			}
		}
	}
	if len(record) < t.least {
		return entry{}, fmt.Errorf("%d columns, the header has %d, and %d are needed", len(record), t.columns, t.least)
	}
	q, err := t.entry(record)
	if err == nil && len(record) != t.columns {
		t.ragged++
	}
	return q, err
}

func (t *table) end() error { return nil }

func (t *table) entry(record []string) (q entry, err error) {
	q = entry{cost: 1, count: 1}
	if q.stamp, err = parseStamp(strings.TrimSpace(record[t.time])); err != nil {
		return entry{}, err
	}
	if t.key >= 0 {
		q.key = strings.TrimSpace(record[t.key])
	}
	if t.upstream >= 0 {
		q.upstream = served(record[t.upstream])
	}
	if t.count >= 0 {
		if q.count, err = requests(record[t.count]); err != nil {
			return entry{}, err
		}
	}
	var sum cost
	for _, i := range t.costs {
		if err := sum.add(record[i]); err != nil {
			return entry{}, err
		}
	}
	q.cost, err = sum.tokens()
	return q, err
}

// record splits one line. The csv.Reader takes all of it and then meets the
// end of its input, whether the line is sound or not, so that nothing of it
// is left for the next.
func (t *table) record(line []byte) ([]string, error) {
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
