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
	line                bytes.Reader
	csv                 *csv.Reader // of line: one for all lines saves 4 KiB for each
	time, key, upstream int         // columns; key and upstream are -1 if there is none
	guessed             bool        // the key, which may be an address with a port
	count               int         // column, or -1
	verdict, status     int         // the same
	costs               []int       // columns to add up
	costFound           bool        // they were not given
	columns             int         // of the header
	least               int         // columns that a line must have: what was guessed it may lack
	ragged              int         // lines that had another number of columns
}

// header reads the names of the columns. A line without any, with a time in it, is no header: its
// columns are called 1, 2 and so on, and the first time is theirs.
func (t *table) header(line []byte, o *Options) (names []string, none bool, err error) {
	t.csv = csv.NewReader(&t.line)
	t.csv.Comma = separator(line)
	t.csv.ReuseRecord = true
	t.csv.FieldsPerRecord = -1
	record, err := t.record(line)
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
	for _, c := range []struct {
		name    string
		guesses []string
		place   *int
	}{
		{o.TimeCol, timeNames, &t.time}, {o.KeyCol, keyNames, &t.key},
		{o.UpstreamCol, upstreamNames, &t.upstream}, {o.CountCol, nil, &t.count},
		{"", verdictNames, &t.verdict}, {"", statusNames, &t.status},
	} {
		if *c.place, err = find(names, c.name, c.guesses); err != nil {
			return err
		}
		if c.name != "" {
			t.least = max(t.least, 1+*c.place)
		}
	}
	if t.time < 0 {
		return fmt.Errorf("no time column (%s) among %.200q: %s", strings.Join(timeNames, ", "),
			strings.Join(names, ", "), nameTime)
	}
	t.guessed = o.KeyCol == "" && t.key >= 0 && !slices.ContainsFunc(plainNames, func(name string) bool {
		return strings.EqualFold(name, names[t.key])
	})
	if t.costs, err = costColumns(names, o.CostCol); err != nil {
		return err
	}
	if t.least, t.costFound = max(t.least, 1+t.time), o.costFound; !t.costFound {
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
	return record
}

func (t *table) parse(line []byte) (entry, error) {
	record := t.split(line)
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
	if t.key >= 0 && t.key < len(record) {
		if q.key = strings.TrimSpace(record[t.key]); t.guessed {
			q.key = client(q.key)
		}
	}
	if t.upstream >= 0 && t.upstream < len(record) {
		q.upstream = served(record[t.upstream])
	}
	if t.verdict >= 0 && t.verdict < len(record) {
		q.verdict = verdictOf(strings.TrimSpace(record[t.verdict]))
	}
	if q.verdict == Unknown && t.status >= 0 && t.status < len(record) {
		q.verdict = answered(strings.TrimSpace(record[t.status]))
	}
	if t.count >= 0 {
		if q.count, err = requests(record[t.count]); err != nil {
			return entry{}, err
		}
	}
	q.cost, err = t.cost(record)
	if err != nil && t.costFound {
		q.cost, q.costless, err = 1, err, nil
	}
	return q, err
}

// cost is what the line takes.
func (t *table) cost(record []string) (int64, error) {
	var sum cost
	for _, i := range t.costs {
		if i >= len(record) {
			return 0, fmt.Errorf("%d columns, and the cost is in column %d", len(record), i+1)
		}
		if err := sum.add(record[i]); err != nil {
			return 0, err
		}
	}
	return sum.tokens()
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
