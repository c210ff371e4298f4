// Package accesslog reads real request logs as arrivals for the simulator:
// who asked, when, and for how many tokens.
//
// It reads the Common and Combined Log Format of web servers, JSON Lines such
// as nginx's and Caddy's, the formats of Envoy and of AWS's Application Load
// Balancer, and CSV with a header, plain or gzipped.
//
// # Promise
//
//   - A line that cannot be read costs that line. It is counted, the first few
//     are kept with line number and reason, and no line ends the reading.
//   - Requests come out sorted by time, equal times in the order of the file,
//     all in UTC.
//   - The same input and Options give the same Log.
//   - Beside the requests and one copy of each key and upstream, memory stays
//     within some tens of MiB, whatever the length of a line.
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
// Look at Bad, Inversions and Spread before trusting a result, and say in a
// report what they were.
package accesslog

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
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
	Requests []Request // at least one, sorted by time

	// Lines counts lines that are neither blank nor a CSV header:
	// Lines == len(Requests) + Bad (FuzzRead). A stream that breaks off
	// counts as one bad line, in place of all that is lost.
	Lines, Bad int

	// Inversions counts the requests earlier than the one before them in the
	// file. Servers log a request when it ends, so some are normal.
	Inversions int

	// BadSamples are the first 5 bad lines: reason, and number in the file as
	// an editor counts, from 1 and with blank lines and header.
	BadSamples []error

	// Spread says that every stamp was a whole second and that the requests
	// of each second were spread over it: uniformly, at random, in their
	// order. Left alone they would arrive as bursts that never happened.
	Spread bool
}

// Request is one line of a log that could be read.
type Request struct {
	At   time.Time // when it arrived, UTC; in some formats when it was answered
	Key  string    // client address, or the KeyCol column; "" if the log does not tell
	Cost int       // tokens, from 1 to 2^32; 1 unless the log has a cost column

	// Upstream is the process that served it, behind the balancer that wrote
	// the log; "" if the log does not tell or none did.
	Upstream string
}

// Options say how to read a log. The zero value finds out for itself.
type Options struct {
	Format Format

	// Columns of CSV and JSON by name: the exact name, else one that differs
	// in case only. To name one for a log of another format is an error; so is
	// one that the CSV's header lacks, or, for the key and the upstream, that
	// no line of JSON has.
	//
	// In JSON, "a.b" is b in the object a, or the name itself. A value is a
	// string or a number; others are as if they were not there. If a name
	// occurs twice, the last such value counts. A line must have the time and
	// the cost.
	//
	// TimeCol: if empty, the first of timestamp, @timestamp, datetime, time,
	// ts, date that the CSV's header has; of msec, time_iso8601, @timestamp,
	// timestamp, datetime, start_time, ts, time, time_local, date that the
	// line of JSON has.
	// KeyCol: if empty, every Key is "" in CSV; in JSON it is the first of
	// remote_addr, client_ip, remote_ip, client, request.client_ip,
	// request.remote_ip, downstream_remote_address, without its port, or "".
	// UpstreamCol: if empty, every Upstream is "" in CSV; in JSON it is the
	// first of upstream_addr, upstream_host, upstream, backend, or "". Of a
	// list, as nginx logs retries ("a, b : c"), the last counts; "-" is "".
	// CostCol: one column or a sum, "ContextTokens+GeneratedTokens"; if
	// empty, every Cost is 1. Each term is a number >= 0; the sum, at most
	// 2^32, is rounded up to a whole number and to at least 1.
	TimeCol, KeyCol, UpstreamCol, CostCol string

	Seed uint64 // of the offsets within a second; see Log.Spread
}

// ReadFile reads the named log. See Read.
func ReadFile(name string, o Options) (*Log, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("accesslog: %w", err)
	}
	defer f.Close()
	l, err := read(f, o)
	if err != nil {
		return nil, fmt.Errorf("accesslog: %s: %w", name, err)
	}
	return l, nil
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
	l, err := read(r, o)
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
	p, err := newParser(in, o)
	if errors.Is(err, io.EOF) {
		return nil, l.nothing()
	}
	if err != nil {
		return nil, err
	}
	names := make(interned)
	for broken := false; !broken; {
		line, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		var q Request
		switch {
		case err == nil:
			q, err = p.parse(line)
		case errors.Is(err, errLong):
		case damaged(err):
			broken, err = true, fmt.Errorf("stream breaks off, the rest is lost: %w", err)
		default:
			return nil, fmt.Errorf("line %d: %w", in.number, err)
		}
		l.Lines++
		if err != nil {
			l.Bad++
			if len(l.BadSamples) < maxSamples {
				l.BadSamples = append(l.BadSamples, fmt.Errorf("accesslog: line %d: %w", in.number, err))
			}
			continue
		}
		q.Key, q.Upstream = names.copy(q.Key), names.copy(q.Upstream)
		if n := len(l.Requests); n > 0 && q.At.Before(l.Requests[n-1].At) {
			l.Inversions++
		}
		l.Requests = append(l.Requests, q)
	}
	if len(l.Requests) == 0 {
		return nil, l.nothing()
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(l.Requests, func(a, b Request) int { return a.At.Compare(b.At) })
	l.Spread = !slices.ContainsFunc(l.Requests, func(q Request) bool { return q.At.Nanosecond() != 0 })
	if l.Spread {
		spread(l.Requests, rand.New(rand.NewPCG(o.Seed, 0)))
	}
	return l, nil
}

// interned holds one copy of each key and upstream, so that no request pins
// its line.
type interned map[string]string

func (m interned) copy(s string) string {
	if s == "" {
		return ""
	}
	c, ok := m[s]
	if !ok {
		c = strings.Clone(s)
		m[c] = c
	}
	return c
}

// nothing is the error of a log without a single request.
func (l *Log) nothing() error {
	text := fmt.Sprintf("no request in %d lines", l.Lines)
	for _, err := range l.BadSamples {
		text += "; " + strings.TrimPrefix(err.Error(), "accesslog: ")
	}
	return errors.New(text)
}

// spread moves requests, sorted and stamped in whole seconds, to random places
// within their second. Offsets are drawn and sorted per second: order is kept,
// and given their number the arrivals of a second are a Poisson process's.
func spread(requests []Request, rng *rand.Rand) {
	var offsets []time.Duration
	for len(requests) > 0 {
		second := requests[0].At
		offsets = offsets[:0]
		for i := 0; i < len(requests) && requests[i].At.Equal(second); i++ {
			offsets = append(offsets, time.Duration(rng.Int64N(int64(time.Second))))
		}
		slices.Sort(offsets)
		for i, d := range offsets {
			requests[i].At = second.Add(d)
		}
		requests = requests[len(offsets):]
	}
}

var errLong = fmt.Errorf("longer than %d bytes", maxLine)

// lines hands out the lines of a log. bufio.Scanner would stop for good at
// the first line that is too long.
type lines struct {
	r      *bufio.Reader
	number int // of the line last handed out, from 1
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
	if mark, _ := in.r.Peek(3); string(mark) == "\ufeff" {
		in.r.Discard(len(mark))
	}
	return in, nil
}

// next returns the next line that is not blank, without its end, valid until
// the call after; errLong for one that is too long, which is passed over; any
// other error is the reader's, and the last.
func (in *lines) next() ([]byte, error) {
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
		case len(bytes.TrimSpace(line)) > 0:
			return bytes.TrimRight(line, "\r\n"), nil
		case err == io.EOF:
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
