package accesslog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Format is how a log is written.
type Format int

const (
	// Auto tries each line of the first MiB as JSON, Envoy, ALB and CLF, in
	// this order. The first line that reads as one of them settles it; if
	// there is none, it is CSV.
	Auto Format = iota
	// CLF is the Common Log Format and all that extend it at the end of the
	// line, such as the Combined one. Where a virtual host stands before the
	// client's IP address (Apache's vhost_combined), it is passed over.
	CLF
	// CSV has a header, and the separator (, or ; or tab) that the header
	// has most of.
	CSV
	// JSON is JSON Lines: an object per line, as nginx writes with
	// escape=json, Envoy with json_format, and Caddy.
	JSON
	// Envoy is the format that Envoy has for access logs if it is not given
	// another.
	Envoy
	// ALB is the format of AWS's Application Load Balancer.
	ALB
)

var formats = [...]struct {
	name  string
	about string // what a line looks like
	parse eachLine
	plain string // what a log is called whose columns have no names
}{
	Auto: {name: "auto"},
	CLF: {"clf", `host ident user [02/Jan/2006:15:04:05 -0700] "request" status bytes`, parseCLF,
		"in Common Log Format"},
	CSV:  {name: "csv", about: "a header with a time column, then its columns in each line"},
	JSON: {name: "json", about: "an object with a time in each line"},
	Envoy: {"envoy", `[time] "METHOD path PROTOCOL" and what follows in Envoy's default format`,
		parseEnvoy, "in Envoy's default format"},
	ALB: {"alb", "the fields of AWS's Application Load Balancer, from the type on", parseALB,
		"in the format of AWS ALB"},
}

// String returns the format's name in lower case.
func (f Format) String() string {
	if f < 0 || int(f) >= len(formats) {
		return fmt.Sprintf("Format(%d)", int(f))
	}
	return formats[f].name
}

// About says what a line of the format looks like.
func (f Format) About() string { return formats[f].about }

// ParseFormat is the inverse of String.
func ParseFormat(name string) (Format, error) {
	for f := range formats {
		if formats[f].name == name {
			return Format(f), nil
		}
	}
	return Auto, fmt.Errorf("accesslog: %w", badFormat(fmt.Sprintf("%.40q", name)))
}

func badFormat(f string) error {
	return fmt.Errorf("format %s: want auto, clf, csv, json, envoy or alb", f)
}

// The names guessed for Options' columns of CSV and JSON, the best first: times finer
// than a second, then times of day and date, then what might be something
// else; addresses that a proxy vouches for, and last what may be the server's own name
// and what is no address. A count is not guessed, but asked for.
var (
	timeNames     = []string{"msec", "time_iso8601", "@timestamp", "timestamp", "datetime", "start_time", "ts", "time", "time_local", "created_at", "created", "date"}
	addressNames  = []string{"remote_addr", "client_ip", "remote_ip", "client", "request.client_ip", "request.remote_ip", "httpRequest.remoteIp", "downstream_remote_address", "ClientHost", "ip", "host"}
	plainNames    = []string{"key", "user", "user_id", "tenant", "tenant_id", "account", "api_key"}
	keyNames      = append(addressNames[:len(addressNames):len(addressNames)], plainNames...)
	verdictNames  = []string{"verdict"}
	statusNames   = []string{"status", "status_code", "response_code", "DownstreamStatus", "httpRequest.status"}
	upstreamNames = []string{"upstream_addr", "upstream_host", "upstream", "backend"}
	countNames    = []string{"requests", "count"}
)

// nameTime is what to do about a time that no guess finds.
const nameTime = "name the column that has it (load.trace.time, -time-col)"

// parser reads one line. Its entry may share memory with the parser's buffers.
type parser interface {
	parse(line []byte) (entry, error)
	// end is called after the last line. Its error is about the whole log.
	end() error
}

// The fields of a line of CSV and JSON. The cost by its whole name, which may hold a plus, is before
// the terms of a sum.
const (
	timeField = iota
	keyField
	upstreamField
	countField
	verdictField
	statusField
	costField
	termFields
)

// values are those of a line whose fields have names.
type values interface {
	text(field int) (text string, ok bool)
	address() bool // whether the key may be an address with a port
	cost() (int64, error)
}

// entryOf makes an entry of the values of a line, which has a time.
func entryOf(v values, costFound bool) (q entry, err error) {
	text := func(field int) string {
		text, _ := v.text(field)
		return strings.TrimSpace(text)
	}
	upstream, _ := v.text(upstreamField) // of which spaces are a part
	q = entry{cost: 1, count: 1, key: text(keyField), upstream: served(upstream)}
	if q.stamp, err = parseStamp(text(timeField)); err != nil {
		return entry{}, err
	}
	if v.address() {
		q.key = client(q.key)
	}
	if q.verdict = verdictOf(text(verdictField)); q.verdict == Unknown {
		q.verdict = answered(text(statusField))
	}
	if count, ok := v.text(countField); ok {
		if q.count, err = requests(count); err != nil {
			return entry{}, err
		}
	}
	q.cost, err = v.cost()
	if err != nil && costFound {
		q.cost, q.costless, err = 1, err, nil
	}
	return q, err
}

// eachLine is a parser that has nothing to say at the end.
type eachLine func(line []byte) (entry, error)

func (p eachLine) parse(line []byte) (entry, error) { return p(line) }
func (p eachLine) end() error                       { return nil }

// newParser settles the format, which it sets, and, for CSV, reads the header;
// io.EOF if there is not even that.
func newParser(in *lines, o Options, l *Log) (parser, error) {
	format := o.Format
	if format == Auto {
		format = detect(in)
	}
	l.Format = format
	switch format {
	case JSON:
		lookAhead(in, JSON, nil, nil).settle(&o, l)
		return newObjects(o)
	case CLF, Envoy, ALB:
		return nameless(formats[format].parse, formats[format].plain, o)
	case CSV:
	default:
		return nil, badFormat(format.String())
	}
	return newTable(in, o, l)
}

// newTable reads the header of a CSV.
func newTable(in *lines, o Options, l *Log) (parser, error) {
	ahead, _ := in.r.Peek(maxLine) // a header may be longer
	start, _, _ := bytes.Cut(bytes.TrimSpace(ahead), []byte{'\n'})
	other := otherJSON(start)
	header, err := in.next()
	if errors.Is(err, io.EOF) {
		return nil, err
	}
	if err != nil && !errors.Is(err, errLong) { // nothing was read
		return nil, fmt.Errorf("line %d: %w", in.number, err)
	}
	t := &table{}
	if err == nil {
		var names []string
		if names, l.Headless, err = t.header(header, &o); err == nil {
			if l.Headless {
				in.held = slices.Clone(header)
			}
			t.columns = len(names)
			lookAhead(in, CSV, t, names).settle(&o, l)
			err = t.open(names, o)
		}
	}
	switch {
	case err == nil:
		return t, nil
	case o.Format == Auto && other != nil:
		return nil, fmt.Errorf("line %d: %w", in.number, other)
	case o.Format == Auto:
		err = fmt.Errorf("%w (read as CSV: no line is in another format)", err)
	}
	return nil, fmt.Errorf("line %d: header: %w", in.number, err)
}

// nameless is the parser of a format whose columns have no names.
func nameless(parse eachLine, format string, o Options) (parser, error) {
	if o.CostCol == NoCost {
		o.CostCol = ""
	}
	if name := cmp.Or(o.TimeCol, o.KeyCol, o.UpstreamCol, o.CostCol, o.CountCol); name != "" {
		return nil, fmt.Errorf("column %.200q: the log is %s, which has no names for columns", name, format)
	}
	return parse, nil
}

// detect looks ahead. One good line settles it, rather than the first line,
// which a rotated or damaged log may begin with half of.
func detect(in *lines) Format {
	ahead, _ := in.r.Peek(maxLine)
	for line := range bytes.Lines(ahead) {
		line = unquote(bytes.TrimSpace(line))
		if bytes.HasPrefix(line, []byte{'{'}) && json.Valid(line) {
			return JSON // whatever its names: a misspelt option is not another format
		}
		for _, f := range []Format{Envoy, ALB, CLF} {
			if _, err := formats[f].parse(line); err == nil {
				return f
			}
		}
	}
	return CSV
}
