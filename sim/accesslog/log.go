// Package accesslog reads real request logs as arrivals for the simulator:
// who asked, when, and for how many tokens.
//
// It reads the Common and Combined Log Format of web servers, JSON Lines such
// as nginx's and Caddy's, the formats of Envoy and of AWS's Application Load
// Balancer, the W3C's of AWS CloudFront and Microsoft IIS, text that begins with a time, and CSV
// with a header, plain or gzipped, in UTF-8, or in UTF-16 with a byte order mark. A line is a
// request, or a count of requests.
//
// # Promise
//
//   - A line that cannot be read costs that line. It is counted, the first few
//     are kept with line number and reason, and no line ends the reading.
//   - Requests come out sorted by time, equal times in the order of the file.
//   - The same input and Options give the same Log.
//   - Memory stays below 300 MB, whatever the length of the log and of a line
//     (TestMemory). It grows with the names of keys and upstreams, a million of
//     each at most, and with the requests of one second or minute, where stamps
//     are whole ones. What is longer than 8 MiB waits in a temporary file, 32 bytes for
//     each request, twice that while it is sorted.
//
// It does not promise to prove a line sound: of a web server's or a proxy's
// line only what becomes a Request is looked at. Nor does it promise that a key
// is true: Envoy does not escape what clients send, so that one may choose its
// own. It does not read CSV fields that contain line breaks, nor JSON objects
// over several lines: every line is a record of its own, so that one stray
// quote cannot swallow the rest of the file.
//
// # Caller's duties
//
// Look at Bad, Ragged, Headless, Cost, Costless, Uncosted, Uncounted, Inversions, Spread, Step and
// Times before trusting a result, and say in a report what they were.
package accesslog

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	maxLine    = 1 << 20 // bytes, line break included; also the read buffer
	maxSamples = 5       // reasons kept in Log.BadSamples
)

// Log is what could be read of a file.
type Log struct {
	Format Format // that it was read in

	Start time.Time     // of the first request, UTC
	Span  time.Duration // from the first request to the last

	// Keys are client addresses, or what the KeyCol column has, by Request.Key;
	// "" is the one of requests of which the log does not tell. Upstreams are
	// the processes that served, behind the balancer that wrote the log, by
	// Request.Upstream. Both are in the order in which they come first.
	Keys, Upstreams []string

	// Crowded says that there were more than a million keys: those that came
	// later share numbers with others.
	Crowded bool

	// Lines counts lines that are neither blank nor a CSV header nor one of W3C's directives nor, as
	// indented text without a time, part of the line before: without a CountCol, Lines == Len() + Bad
	// (FuzzRead). A stream that breaks off counts as one bad line, in place of all that is lost.
	Lines, Bad int

	// Ragged counts the lines, none of them bad, that had another number of
	// columns than the CSV's header. Their columns were counted from the left.
	Ragged int

	// Inversions counts the lines earlier than the one before them in the
	// file. Servers log a request when it ends, so some are normal.
	Inversions int

	// BadSamples are the first 5 bad lines.
	BadSamples []*BadLine

	// Times says what the numbers in the time column were taken for, or that dates have no year; ""
	// if they have one.
	Times string

	// Relative says that they count from the beginning of the log: what Start is
	// since 1970 tells nothing.
	Relative bool

	// Spread is the second or the minute of which every stamp was a whole number, or 0. The
	// requests of each were spread over it: uniformly, at random, in their order. Left alone
	// they would arrive as bursts that never happened.
	Spread time.Duration

	// Step is the time that a line with a count stands for: the commonest
	// time from one line to the next. Its requests are spread over it,
	// uniformly, at random. 0 without a CountCol.
	Step time.Duration

	// Columns are the names of what the first lines have, in CSV and JSON. Headless says that
	// the CSV has no header: its columns are called 1, 2 and so on.
	Columns  []string
	Headless bool

	// TimeCol is the column of the times where none has a name that is known: it was found by its
	// values. "" if it was not.
	TimeCol string

	// Cost is the column, or the sum of two, that was found to be what a request takes: by its
	// name, and since nine tenths of the first thousand lines have whole numbers in it. "" if none
	// was. Uncosted is one that may be, "" if there is none: no column was taken.
	Cost, Uncosted string

	// Costless counts the lines, none of them bad, whose Cost is no valid number: a token each.
	// CostlessLine is the first of them, nil if there is none.
	Costless     int
	CostlessLine *BadLine

	// Uncounted is the column, named requests or count, that has whole numbers other
	// than 1 in the first thousand lines, while no CountCol is given: each line counted as one
	// request all the same. "" if there is none.
	Uncounted string

	// Beyond counts the requests after Until, of a log of counts. They were not read.
	Beyond int64

	requests spool // sorted by time, which counts from Start
}

// Len is the number of requests, at least one.
func (l *Log) Len() int { return l.requests.n }

// Requests returns a Cursor before the first request. Each has its own place, and
// several may be used at the same time.
func (l *Log) Requests() *Cursor { return &Cursor{all: l.requests.cursor(0, l.requests.n)} }

// A Cursor goes through the requests of a Log in order of time.
type Cursor struct {
	all *cursor
	err error
}

// Next sets q to the next request; it returns false after the last, or after an error.
func (c *Cursor) Next(q *Request) bool {
	r, err := c.all.next()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			c.err = err
		}
		return false
	}
	*q = Request{time.Duration(r.value), r.key, r.upstream, r.cost, r.verdict}
	return true
}

// Err is why the temporary file that a long log waits in could not be read on.
func (c *Cursor) Err() error { return c.err }

// Request is one request of a log.
type Request struct {
	At       time.Duration // since Start; in some formats when it was answered
	Key      int32         // in Log.Keys
	Upstream int32         // in Log.Upstreams; -1 if the log does not tell or none did
	Cost     int64         // tokens, from 1 to 2^32; 1 unless the log has a cost column
	Verdict  Verdict       // Unknown unless the log is a record of decisions, or has status 429
}

// A Verdict is what became of a request: what a column "verdict" says, in the words of String.
type Verdict uint8

const (
	Unknown Verdict = iota
	Admitted
	Denied
	Charged // after its use, without being asked
)

var verdicts = [...]string{Unknown: "", Admitted: "admitted", Denied: "denied", Charged: "charged"}

// String returns the word of a record.
func (v Verdict) String() string { return verdicts[v] }

func verdictOf(s string) Verdict { return Verdict(max(slices.Index(verdicts[:], s), 0)) }

// answered is the verdict that the status of an answer tells. One of success does not tell that
// there was a limit.
func answered[T ~string | ~[]byte](status T) Verdict {
	if string(status) == "429" {
		return Denied
	}
	return Unknown
}

// BadLine is a line that could not be read.
type BadLine struct {
	Number int    // in the file as an editor counts, from 1 and with blank lines and header
	Text   string // its first 80 bytes at most; "" if it could not be kept
	Err    error
}

func badLine(number int, text []byte, err error) *BadLine {
	return &BadLine{number, strings.ToValidUTF8(string(text[:min(len(text), 80)]), "?"), err}
}

func (b *BadLine) Error() string { return fmt.Sprintf("accesslog: line %d: %v", b.Number, b.Err) }
func (b *BadLine) Unwrap() error { return b.Err }

// entry is what a line says.
type entry struct {
	stamp
	key, upstream string // "" if the line does not tell
	cost, count   int64
	verdict       Verdict
	costless      error // why it takes a token, where the column of tokens was found
}

// Options say how to read a log. The zero value finds out for itself.
type Options struct {
	Format Format

	// Columns of CSV, JSON, W3C and text by name: the exact name, else one that differs
	// in case only. To name one for a log of another format is an error; so is
	// one that the CSV's header lacks, or, for the key and the upstream, that
	// no line of JSON has.
	//
	// In JSON, "a.b" is b in the object a, or the name itself. A value is a
	// string or a number; others are as if they were not there. If a name
	// occurs twice, the last such value counts. A line must have the time and
	// the cost.
	//
	// Where one is empty, the first of some names that the CSV's header has, or
	// that the line of JSON has, takes its place:
	//
	// TimeCol: msec, time_iso8601, @timestamp, timestamp, datetime, start_time,
	// ts, time, time_local, created_at, created, date; of text first what it begins with; else what
	// Log.TimeCol tells. It is an error to have none. Before a time of day comes the column date, or
	// of W3C the last #Date:.
	// KeyCol: remote_addr, client_ip, remote_ip, client, request.client_ip,
	// request.remote_ip, httpRequest.remoteIp, downstream_remote_address, ClientHost, c-ip, ip,
	// host, all without their port, or key, user, user_id, tenant, tenant_id, account,
	// api_key; else every Key is "".
	// UpstreamCol: upstream_addr, upstream_host, upstream, backend; else every
	// Upstream is "". Of a list, as nginx logs retries ("a, b : c"), the last
	// counts; "-" is "".
	// The status, which tells a denial: status, status_code, response_code,
	// DownstreamStatus, sc-status, httpRequest.status.
	// CostCol: one column or a sum, "ContextTokens+GeneratedTokens"; if empty, what is found
	// (see Log.Cost), else every Cost is 1, as with NoCost. Each term is a number >= 0; the sum, at
	// most 2^32, is rounded up to a whole number and to at least 1. CountCol: how many requests a
	// line stands for, a whole number from 0 to 100,000,000, as is their sum until Until; if empty,
	// one. See Log.Step and Log.Uncounted.
	TimeCol, KeyCol, UpstreamCol, CostCol, CountCol string

	// TimeUnit is s, ms, us or ns for times that are numbers. If empty, it is
	// found: from the size of times that count from 1970; of those that count
	// from the beginning of the log, seconds if any has a point, else the
	// coarsest in which there is a request in 50 s. An error asks for it if
	// the log then took more than a day.
	TimeUnit string

	// TimeLayout is how dates of CSV, JSON, W3C and text are written, as package time has it. One
	// without an hour is an error, but of counts; one without a day is of the time beside a column of
	// dates; one without a year is of 1972, and over New Year of 1971 and 1972. If empty,
	// dates are RFC 3339, also with a space for the T or slashes for the hyphens, those of CLF, or
	// otherLayouts. Without a zone they are UTC.
	TimeLayout string

	costFound bool // CostCol was not given

	from, words int // of the last line of text, in which it had its time: before it, and of it

	Until time.Duration // of a log of counts, what is read from its beginning on; 0 is all

	Seed uint64 // of the offsets within a second or a step; see Log.Spread
}

// Read reads a log to its end. It knows gzip by its first bytes, not by a
// name. Of a gzip stream that is cut off or corrupt it keeps the whole lines
// unpacked by then (the last 32 KiB before the damage may be missing) and
// reports it as a bad line. The torn line is dropped, since half a number is
// still a number.
//
// The error is not nil if r fails, if Options do not fit the log (no such
// column), or if not one line could be read; it then has the first reasons.
func Read(r io.Reader, o Options) (*Log, error) {
	var l *Log
	err := o.checkLayout()
	if err == nil {
		l, err = read(r, o)
	}
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	return l, nil
}

func read(r io.Reader, o Options) (*Log, error) {
	in, err := newLines(r)
	if err != nil {
		return nil, err
	}
	l := &Log{}
	p, err := newParser(in, o, l)
	if errors.Is(err, io.EOF) {
		return nil, l.nothing()
	}
	if err != nil {
		return nil, err
	}
	var c contents
	for more := true; more; {
		if more, err = l.readLine(in, p, &c); err != nil {
			return nil, err
		}
	}
	if c.lines.n == 0 {
		return nil, l.nothing()
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	if t, ok := p.(*table); ok {
		l.Ragged = t.ragged
	}
	if err := l.arrange(&c, o); err != nil {
		return nil, err
	}
	return l, nil
}

// contents are what has been read of a log.
type contents struct {
	lines           spool
	keys, upstreams names
	times           times
}

// readLine reads a line into c; it returns false after the last.
func (l *Log) readLine(in *lines, p parser, c *contents) (more bool, err error) {
	line, err := in.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	var q entry
	more = true
	switch {
	case err == nil:
		q, err = p.parse(line)
	case errors.Is(err, errLong):
	case damaged(err):
		more, err = false, fmt.Errorf("stream breaks off, the rest is lost: %w", err)
	default:
		return false, fmt.Errorf("line %d: %w", in.number, err)
	}
	if errors.Is(err, errTimeless) && indented(line) && l.Lines > 0 {
		return more, nil // goes on with the line before it, as a stack trace does
	}
	l.Lines++
	if err != nil {
		l.bad(badLine(in.number, line, err))
		return more, nil
	}
	if q.costless != nil {
		if l.Costless++; l.CostlessLine == nil {
			l.CostlessLine = badLine(in.number, line, q.costless)
		}
	}
	c.times.see(q.stamp, q.count, in.number, line)
	r := record{
		stamp: q.stamp, cost: q.cost, key: c.keys.of(q.key), upstream: -1, count: q.count, verdict: q.verdict,
	}
	if q.upstream != "" {
		r.upstream = c.upstreams.of(q.upstream)
	}
	return more, c.lines.add(r)
}

// bad counts a bad line, and keeps the first ones.
func (l *Log) bad(line *BadLine) {
	l.Bad++
	if len(l.BadSamples) < maxSamples {
		l.BadSamples = append(l.BadSamples, line)
	}
}

// nothing is the error of a log without a single request.
func (l *Log) nothing() error {
	text := fmt.Sprintf("no request in %d lines", l.Lines)
	for _, b := range l.BadSamples[:min(2, len(l.BadSamples))] { // the others mostly say the same
		text += "; " + strings.TrimPrefix(b.Error(), "accesslog: ")
	}
	if l.Columns != nil {
		text += "; columns: " + strings.Join(l.Columns, ", ")
	}
	return fmt.Errorf("%.2000s", text)
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// lines hands out the lines of a log. bufio.Scanner would stop for good at
// the first line that is too long.
type lines struct {
	r      *bufio.Reader
	number int    // of the line last handed out, from 1
	held   []byte // that is handed out next once more, or nil
	json   bool   // is what was asked for

	directive func(line []byte) // of W3C, is told lines that begin with #; nil else
}

func newLines(r io.Reader) (*lines, error) {
	raw := bufio.NewReader(r)
	r = raw
	if magic, _ := raw.Peek(2); string(magic) == "\x1f\x8b" {
		z, err := gzip.NewReader(raw)
		if err != nil {
			return nil, fmt.Errorf("gzip header: %w", err)
		}
		r = z
	}
	in := &lines{r: bufio.NewReaderSize(r, maxLine)}
	mark, _ := in.r.Peek(3)
	switch {
	case string(mark) == "\ufeff":
		in.r.Discard(len(mark))
	case bytes.HasPrefix(mark, []byte("\xff\xfe")):
		in.r = bufio.NewReaderSize(&wide{r: in.r, order: binary.LittleEndian}, maxLine)
	case bytes.HasPrefix(mark, []byte("\xfe\xff")):
		in.r = bufio.NewReaderSize(&wide{r: in.r, order: binary.BigEndian}, maxLine)
	}
	return in, nil
}

// next returns the next line that is not blank, without its end, valid until
// the call after; errLong for one that is too long, which is passed over; any
// other error is the reader's, and the last.
func (in *lines) next() ([]byte, error) {
	if line := in.held; line != nil {
		in.held = nil
		return line, nil
	}
	for {
		in.number++
		line, err := in.r.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = in.r.ReadSlice('\n')
		}
		switch {
		case err != nil && err != io.EOF:
			return nil, err
		case long:
			return nil, errLong
		case in.directive != nil && bytes.HasPrefix(line, []byte{'#'}):
			in.directive(line)
			continue
		}
		if line = in.plain(bytes.TrimRight(line, "\r\n")); len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
	}
}

// damaged tells a file that is broken, whose beginning is still good, from a
// reader that failed and may do better next time.
func damaged(err error) bool {
	var corrupt flate.CorruptInputError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt)
}
