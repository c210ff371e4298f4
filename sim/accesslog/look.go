package accesslog

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

const plainCost = "cost"

// costNames are columns of the tokens that a request takes, alone or as a sum, the best first:
// their last name, without case, _ and -.
var costNames = [][]string{
	{"totaltokens"}, {"contexttokens", "generatedtokens"}, {"prompttokens", "completiontokens"},
	{"inputtokens", "outputtokens"}, {"tokens"}, {plainCost},
}

// perhapsCost are parts of the names of columns that may be tokens.
var perhapsCost = []string{"token", "cost", "credit", "weight", "unit"}

// NoCost is a CostCol that lets each request take one token.
const NoCost = "none"

// mostly is the part of the lines that must have whole numbers in a column of tokens. The others
// take a token each.
const mostly = 0.9

// A look is at what the first MiB of a log has, at most lookAt lines of it.
type look struct {
	names  []string
	values map[string][]string // by name, of the lines that have one
	lines  int
}

const lookAt = 1000

func (k *look) add(name, value string) {
	if k.values[name] == nil {
		k.names = append(k.names, name)
	}
	k.values[name] = append(k.values[name], value)
}

// lookAhead looks at the lines that come next, in CSV and W3C with these names of columns.
func lookAhead(in *lines, o Options, format Format, t *table, names []string) *look {
	k := &look{values: map[string][]string{}}
	text, err := in.r.Peek(maxLine)
	if err == nil { // it may end within a line
		text = text[:bytes.LastIndexByte(text, '\n')+1]
	}
	if in.held != nil {
		text = append(append(slices.Clone(in.held), '\n'), text...)
	}
	for line := range bytes.Lines(text) {
		if line = in.plain(bytes.TrimSpace(line)); len(line) == 0 || format == W3C && line[0] == '#' {
			continue
		}
		if k.lines++; k.lines > lookAt {
			k.lines--
			break
		}
		switch format {
		case JSON:
			walk(gjson.ParseBytes(line), nil, always, func(path []byte, value gjson.Result) {
				k.add(string(path), textOf(value))
			})
			continue
		case Text:
			o.columns(line, k.add)
			continue
		}
		for i, value := range t.split(line) {
			if i < len(names) {
				k.add(names[i], strings.TrimSpace(value))
			}
		}
	}
	if t != nil {
		k.names = names
	}
	return k
}

// whole reports whether this part of the lines have whole numbers in this column, from 0 to most, of
// which some are not 1.
func (k *look) whole(name string, most, part float64) bool {
	others, good := 0, 0
	for _, text := range k.values[name] {
		if x, err := strconv.ParseFloat(text, 64); err == nil && x >= 0 && x <= most && x == float64(int64(x)) {
			good++
			if x != 1 {
				others++
			}
		}
	}
	return others > 0 && float64(good) >= part*float64(k.lines)
}

// spelt is the last name of a path without what people spell in several ways.
func spelt(name string) string {
	name = name[strings.LastIndexByte(name, '.')+1:]
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// cost finds the column of tokens, or the sum of two: sure by its name and its numbers. perhaps
// is one that may be it. That of a record of decisions may be 1 for long.
func (k *look) cost() (sure, perhaps string) {
	if slices.Contains(k.names, verdictNames[0]) && slices.Contains(k.names, plainCost) {
		return plainCost, ""
	}
	for _, group := range costNames {
		var terms []string
		for _, want := range group {
			i := slices.IndexFunc(k.names, func(name string) bool {
				return spelt(name) == want && k.whole(name, maxCost/2, mostly)
			})
			if i >= 0 {
				terms = append(terms, k.names[i])
			}
		}
		if len(terms) == len(group) {
			return strings.Join(terms, "+"), ""
		}
	}
	for _, name := range k.names {
		if slices.ContainsFunc(perhapsCost, func(part string) bool {
			return strings.Contains(spelt(name), part)
		}) && k.number(name) {
			return "", name
		}
	}
	return "", ""
}

// number reports whether a column has numbers of which some are not 1.
func (k *look) number(name string) bool {
	return slices.ContainsFunc(k.values[name], func(text string) bool {
		x, err := strconv.ParseFloat(text, 64)
		return err == nil && x >= 0 && x != 1
	})
}

// time finds the column of times where none has a name that is known: the first of dates, or of
// numbers that count from 1970 with a name that is known but for how it is spelt. "" if there is
// none.
func (k *look) time(o *Options) string {
	if slices.ContainsFunc(k.names, isTime) {
		return ""
	}
	i := slices.IndexFunc(k.names, func(name string) bool {
		known := slices.ContainsFunc(timeNames, func(time string) bool { return spelt(time) == spelt(name) })
		good := 0
		for _, text := range k.values[name] {
			s, err := o.stamp(text)
			if err == nil && (s.kind == date || known && s.number() >= sinceEpoch) {
				good++
			}
		}
		return good > 0 && float64(good) >= mostly*float64(k.lines)
	})
	if i < 0 {
		return ""
	}
	return k.names[i]
}

// settle notes what there is, and takes the columns of times and tokens that it is sure of.
func (k *look) settle(o *Options, l *Log) {
	l.Columns = k.names
	if o.TimeCol == "" {
		o.TimeCol = k.time(o)
		l.TimeCol = o.TimeCol
	}
	named := append(strings.Split(o.CostCol, "+"), o.CostCol, o.TimeCol, o.KeyCol, o.UpstreamCol)
	taken := func(name string) bool {
		return slices.ContainsFunc(named, func(s string) bool {
			return strings.EqualFold(strings.TrimSpace(s), name)
		})
	}
	for _, count := range countNames {
		i := slices.IndexFunc(k.names, func(name string) bool { return strings.EqualFold(name, count) })
		if l.Uncounted == "" && o.CountCol == "" && i >= 0 && !taken(k.names[i]) &&
			k.whole(k.names[i], maxCounted, 0) {
			l.Uncounted = k.names[i]
		}
	}
	switch o.CostCol {
	case NoCost:
		o.CostCol = ""
	case "":
		if o.CostCol, l.Uncosted = k.cost(); o.CostCol != "" {
			l.Cost, o.costFound = o.CostCol, true
		}
	}
}

// colour is what changes how a terminal shows text: SGR of ECMA-48.
var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// plain takes off a line what is around it: colours, quotes of a line that is all of it a CSV
// field, and the JSON of Docker's log driver, unless JSON is wanted.
func (in *lines) plain(line []byte) []byte {
	if !in.json && bytes.HasPrefix(line, []byte(`{"log":`)) {
		line = unwrap(line)
	}
	if bytes.IndexByte(line, '\x1b') >= 0 {
		line = colour.ReplaceAll(line, nil)
	}
	return unquote(line)
}

// unwrap makes of a line of Docker's log driver what Kubernetes' container runtimes write. What
// goes on with the line before it is left as the program wrote it.
func unwrap(line []byte) []byte {
	var text, stream, time string
	docker := true
	gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "log":
			text = strings.TrimRight(value.Str, "\r\n")
		case "stream":
			stream = value.Str
		case "time":
			time = value.Str
		default:
			docker = name.Str == "attrs"
		}
		return docker
	})
	switch {
	case !docker || stream == "" || time == "":
		return line
	case indented([]byte(text)) || strings.TrimSpace(text) == "":
		return []byte(text)
	}
	return fmt.Appendf(nil, "%s %s F %s", time, stream, text)
}

// indented reports whether a line begins with white space.
func indented(line []byte) bool {
	return bytes.HasPrefix(line, []byte(" ")) || bytes.HasPrefix(line, []byte("\t"))
}

// unquote takes the quotes off a line that is all of it a CSV field, and a stray one that begins
// it: it has no other half.
func unquote(line []byte) []byte {
	if len(line) == 0 || line[0] != '"' {
		return line
	}
	if bytes.Count(line, []byte{'"'})%2 == 1 {
		return line[1:]
	}
	if inner, ok := bytes.CutSuffix(line[1:], []byte{'"'}); ok {
		const twice = `""`
		if plain := bytes.ReplaceAll(inner, []byte(twice), nil); len(plain) < len(inner) &&
			bytes.IndexByte(plain, '"') < 0 {
			return bytes.ReplaceAll(inner, []byte(twice), []byte{'"'})
		}
	}
	return line
}
