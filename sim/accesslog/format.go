package accesslog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Format is how a log is written.
type Format int

const (
	// Auto tries each line of the first MiB as JSON, W3C, Envoy, ALB and CLF, in
	// this order. The first line that reads as one of them settles it. If there is none, it is
	// Text, if a line reads as that and the first line is no header of CSV, else CSV.
	Auto Format = iota
	// CLF is the Common Log Format and all that extend it at the end of the
	// line, such as the Combined one. The client is the first IP address before the request, if
	// there is any: what else stands there is a virtual host, or what collected the line.
	CLF
	// CSV has a header, and the separator (, or ; or | or tab) that the header
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
	// W3C is the Extended Log File Format, which AWS CloudFront and Microsoft IIS write: a line
	// "#Fields:" has the names of columns, and may come again with others. Columns are parted by
	// tabs where a line has any, else by spaces.
	W3C
	// Text is lines that begin with a time, as of Go's package log, nginx's errors and syslog, or
	// have one by name, as of logfmt. Up to four words of what collected the line may stand before
	// its time. Columns are name=value and "name: value" and those of JSON at the end, the time at
	// the beginning is "time", and the first IP address is "ip".
	Text
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
	W3C:  {name: "w3c", about: "a line #Fields: with the names of columns, which follow, as of AWS CloudFront and IIS"},
	Text: {name: "text", about: "a time, then any text, in which name=value is a column"},
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
	return fmt.Errorf("format %s: want auto, clf, csv, json, envoy, alb, w3c or text", f)
}

// The names guessed for Options' columns of CSV and JSON, the best first: times finer
// than a second, then times of day and date, then what might be something
// else; addresses that a proxy vouches for, and last what may be the server's own name
// and what is no address. A count is not guessed, but asked for.
var (
	timeNames     = []string{"msec", "time_iso8601", "@timestamp", "timestamp", "datetime", "start_time", "ts", "time", "time_local", "created_at", "created", "date"}
	addressNames  = []string{"remote_addr", "client_ip", "remote_ip", "client", "request.client_ip", "request.remote_ip", "httpRequest.remoteIp", "downstream_remote_address", "ClientHost", "c-ip", "ip", "host"}
	plainNames    = []string{"key", "user", "user_id", "tenant", "tenant_id", "account", "api_key"}
	keyNames      = append(addressNames[:len(addressNames):len(addressNames)], plainNames...)
	verdictNames  = []string{"verdict"}
	statusNames   = []string{"status", "status_code", "response_code", "DownstreamStatus", "sc-status", "httpRequest.status"}
	upstreamNames = []string{"upstream_addr", "upstream_host", "upstream", "backend"}
	dateNames     = []string{"date"}
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

// eachLine is a parser that has nothing to say at the end.
type eachLine func(line []byte) (entry, error)

func (p eachLine) parse(line []byte) (entry, error) { return p(line) }
func (p eachLine) end() error                       { return nil }

// newParser settles the format, which it sets, and, for CSV, reads the header;
// io.EOF if there is not even that.
func newParser(in *lines, o Options, l *Log) (parser, error) {
	format := o.Format
	if format == Auto {
		format = o.detect(in)
	}
	l.Format = format
	in.json = o.Format == JSON
	switch format {
	case JSON, Text:
		lookAhead(in, o, format, nil, nil).settle(&o, l)
		return newObjects(o, format == Text)
	case W3C:
		return newExtended(in, o, l)
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
	if bytes.HasPrefix(header, []byte("#TYPE ")) || bytes.HasPrefix(header, []byte("sep=")) {
		header, err = in.next() // PowerShell's Export-Csv and Excel's begin with it
	}
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
			lookAhead(in, o, CSV, t, names).settle(&o, l)
			err = t.open(names, o)
		}
	}
	switch {
	case err == nil:
		return t, nil
	case o.Format == Auto && other != nil:
		return nil, fmt.Errorf("line %d: %w", in.number, other)
	case o.Format == Auto:
		how := "; if lines do, say how it is written: time_layout, -time-layout"
		if o.TimeLayout != "" {
			how = fmt.Sprintf(" as %.40q (time_layout, -time-layout)", o.TimeLayout)
		}
		err = fmt.Errorf("%w (read as CSV: no line is JSON, W3C with its "+fieldsMark+", Envoy, ALB or CLF, "+
			"or begins with a time%s)", err, how)
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
	if o.TimeLayout != "" {
		return nil, fmt.Errorf("time layout %.40q: the log is %s, which has its own", o.TimeLayout, format)
	}
	return parse, nil
}

// detect looks ahead. One good line settles it, rather than the first line,
// which a rotated or damaged log may begin with half of.
func (o *Options) detect(in *lines) Format {
	ahead, _ := in.r.Peek(maxLine)
	first, _, _ := bytes.Cut(bytes.TrimSpace(ahead), []byte{'\n'})
	names, _, _ := new(table).header(first, &Options{TimeLayout: o.TimeLayout})
	header := slices.ContainsFunc(names, func(name string) bool { return isTime(name) || name == o.TimeCol })
	text := false
	for line := range bytes.Lines(ahead) {
		line = in.plain(bytes.TrimSpace(line))
		if bytes.HasPrefix(line, []byte{'{'}) && json.Valid(line) {
			return JSON // whatever its names: a misspelt option is not another format
		}
		if bytes.HasPrefix(line, []byte(fieldsMark)) {
			return W3C
		}
		for _, f := range []Format{Envoy, ALB, CLF} {
			if _, err := formats[f].parse(line); err == nil {
				return f
			}
		}
		text = text || !header && o.isText(line)
	}
	if text {
		return Text
	}
	return CSV
}
