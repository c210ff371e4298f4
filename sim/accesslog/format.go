package accesslog

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Format is how a log is written.
type Format int

const (
	// Auto is CLF if any line in the first MiB reads as CLF, else CSV.
	Auto Format = iota
	// CLF is the Common Log Format and all that extend it at the end of the
	// line, such as the Combined one. Where a virtual host stands before the
	// client's IP address (Apache's vhost_combined), it is passed over.
	CLF
	// CSV has a header, and the separator (, or ; or tab) that the header
	// has most of.
	CSV
)

var formatNames = [...]string{Auto: "auto", CLF: "clf", CSV: "csv"}

// String returns the format's name in lower case.
func (f Format) String() string {
	if f < 0 || int(f) >= len(formatNames) {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formatNames[f]
}

// parser reads one line. Its Request may share memory with the parser's
// buffers.
type parser func(line []byte) (Request, error)

// newParser settles the format and, for CSV, reads the header; io.EOF if there
// is not even that.
func newParser(in *lines, o Options) (parser, error) {
	format := o.Format
	if format == Auto {
		format = detect(in)
	}
	switch format {
	case CLF:
		if cols := o.TimeCol + o.KeyCol + o.CostCol; cols != "" {
			return nil, fmt.Errorf("column %q: the log is in Common Log Format, which has none", cols)
		}
		return parseCLF, nil
	case CSV:
	default:
		return nil, fmt.Errorf("format %v: want auto, clf or csv", format)
	}
	header, err := in.next()
	if err == io.EOF {
		return nil, err
	}
	t := &table{}
	if err == nil {
		err = t.open(header, o)
	}
	if err != nil && o.Format == Auto {
		err = fmt.Errorf("%w (read as CSV: no line is in Common Log Format)", err)
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: header: %w", in.number, err)
	}
	return t.parse, nil
}

// detect looks ahead. One good line settles it, rather than the first line,
// which a rotated or damaged log may begin with half of.
func detect(in *lines) Format {
	ahead, _ := in.r.Peek(maxLine)
	for line := range bytes.Lines(ahead) {
		if _, err := parseCLF(line); err == nil {
			return CLF
		}
	}
	return CSV
}

const clfTime = "02/Jan/2006:15:04:05 -0700" // time.Parse takes a fraction after the second too

var errCLFTime = fmt.Errorf("want %q", clfTime)

// parseCLF reads host ident user [time] and leaves the rest of the line
// alone: requests are sent by strangers and hold anything.
func parseCLF(line []byte) (Request, error) {
	// The time stands before the first quote. A time beyond it was put there
	// by a client, or belongs to a message quoted in a CSV field.
	head, _, _ := bytes.Cut(line, []byte{'"'})
	host, rest, _ := bytes.Cut(bytes.TrimLeft(head, " \t"), []byte{' '})
	ident, _, _ := bytes.Cut(rest, []byte{' '})
	if len(ident) > 1 {
		if _, err := netip.ParseAddr(string(ident)); err == nil {
			host = ident // vhost_combined
		}
	}
	// A user name may hold spaces and brackets: the first bracket that
	// closes after a time is the time.
	reason := errors.New("no [time] before the request")
	for {
		_, after, found := bytes.Cut(rest, []byte{'['})
		if !found {
			return Request{}, reason
		}
		rest = after
		// Times are shorter than 48 bytes. Without a bound, a line full of
		// brackets would take time by the square of its length.
		text, _, closed := bytes.Cut(rest[:min(len(rest), 48)], []byte{']'})
		if !closed {
			continue
		}
		at, err := time.Parse(clfTime, string(text))
		if err != nil {
			err = errCLFTime
		}
		at, err = checked(string(text), at, err)
		if err == nil {
			return Request{At: at, Key: string(host), Cost: 1}, nil
		}
		reason = err
	}
}

// timeCols are the names guessed for Options.TimeCol, the likeliest to hold
// both day and time first.
var timeCols = []string{"timestamp", "@timestamp", "datetime", "time", "ts", "date"}

// maxCost is 2^32 tokens, or what an int can hold.
const maxCost = min(1<<32, math.MaxInt)

// table is a CSV file: a header, then a record per line.
type table struct {
	line      bytes.Reader
	csv       *csv.Reader // of line: one for all lines saves 4 KiB for each
	time, key int         // columns; key is -1 if there is none
	costs     []int       // columns to add up
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
	t.key = -1
	if o.KeyCol != "" {
		if t.key, err = column(names, o.KeyCol); err != nil {
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
	for _, guess := range timeCols {
		if t.time, err = column(names, guess); err == nil {
			return nil
		}
	}
	return fmt.Errorf("no time column (%s) among %.200q", strings.Join(timeCols, ", "), strings.Join(names, ", "))
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
	sum := 0.0
	for _, i := range t.costs {
		v, err := strconv.ParseFloat(strings.TrimSpace(record[i]), 64)
		if err != nil || !(v >= 0) { // NaN is not >= 0
			return Request{}, fmt.Errorf("cost %.40q: want a number >= 0", record[i])
		}
		sum += v
	}
	if sum = math.Ceil(sum); sum > maxCost {
		return Request{}, fmt.Errorf("cost %g: over %d", sum, int64(maxCost))
	}
	q.Cost = max(1, int(sum))
	return q, nil
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
