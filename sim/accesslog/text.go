package accesslog

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// Columns of a line of text that have no name there. The time that it begins with is before all
// others, and the address after those that have a name.
const (
	textTime    = "time"
	textAddress = "ip"
)

// pair is name=value or "name: value" in a line of text. The name does not stand within a word: a
// client writes those of a URL.
var pair = regexp.MustCompile(`(?:^|[\s,;(\[{])([A-Za-z][\w.@-]*)(?:=|: )("(?:[^"\\]|\\.)*"|[^\s,;"]+)`)

// wordOfText is what a time consists of, or stands behind.
var wordOfText = regexp.MustCompile(`[^\s\[\]<>|]+`)

var errTimeless = errors.New("no time at its beginning, or by name")

// columns calls do for each column of a line of text. JSON at its end has columns, too. Of two of
// a name the last one counts.
func (o *Options) columns(line []byte, do func(name, value string)) {
	if address := addressIn(line); address != "" {
		do(textAddress, address)
	}
	text, object := line, []byte(nil)
	if i := bytes.IndexByte(line, '{'); i > 0 && json.Valid(line[i:]) {
		text, object = line[:i], line[i:]
	}
	for _, m := range pair.FindAllSubmatch(text, -1) {
		do(string(m[1]), strings.Trim(string(m[2]), `"`))
	}
	walk(gjson.ParseBytes(object), nil, always, func(path []byte, value gjson.Result) {
		do(string(path), textOf(value))
	})
	if time := o.begins(text); time != "" {
		do(textTime, time)
	}
}

// begins returns the time that a line of text begins with, or has behind up to four words, as of
// what collected it, and before anything quoted or by name; "" if there is none.
func (o *Options) begins(line []byte) string {
	if i := bytes.IndexAny(line, `="`); i >= 0 {
		line = line[:i]
	}
	const most, before = 6, 4 // words: a day, a date and a time with a zone
	words := wordOfText.FindAllIndex(line, most+before)
	read := func(from, n int) string {
		if n == 0 || from+n > len(words) {
			return ""
		}
		text := string(bytes.TrimRight(line[words[from][0]:words[from+n-1][1]], ",:"))
		if s, err := o.stamp(text); err != nil || s.kind != date && (from > 0 || s.number() < sinceEpoch) {
			return ""
		}
		o.from, o.words = from, n
		return text
	}
	text := read(o.from, o.words)
	for from := 0; from <= before && text == ""; from++ {
		for n := most; n > 0 && text == ""; n-- {
			text = read(from, n)
		}
	}
	return text
}

// isText reports whether a line has a time by name or at its beginning, and none that is a cell of
// CSV.
func (o *Options) isText(line []byte) bool {
	t := &table{}
	t.csv = newReader(&t.line, separator(line))
	cells, err := t.cells(line)
	if err != nil {
		cells = nil
	}
	found, cell := false, false
	o.columns(line, func(name, value string) {
		if isTime(name) || name == o.TimeCol {
			_, err := o.stamp(value)
			found = found || err == nil
			cell = cell || slices.ContainsFunc(cells, func(s string) bool { return strings.TrimSpace(s) == value })
		}
	})
	return found && !cell
}

// isTime reports whether a column may have times by its name.
func isTime(name string) bool {
	return slices.ContainsFunc(timeNames, func(known string) bool {
		return strings.EqualFold(known, name)
	})
}

// addressIn returns the first IP address in a text, without its port; "" if there is none.
func addressIn(text []byte) string {
	for word := range bytes.FieldsFuncSeq(text, func(r rune) bool {
		return strings.ContainsRune(" \t,;()<>\"'=", r)
	}) {
		if !bytes.ContainsAny(word, ".:") {
			continue
		}
		for _, w := range []string{string(word), string(bytes.Trim(word, "[]:"))} {
			_, err := netip.ParseAddrPort(w)
			if err != nil {
				_, err = netip.ParseAddr(w)
			}
			if err == nil {
				return client(w)
			}
		}
	}
	return ""
}
