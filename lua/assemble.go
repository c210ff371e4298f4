package lua

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A server makes a script's functions and tables anew at each call. Phases that are
// functions, with the ledger and the answer in tables, cost an exchange a third more
// than it took without (CONTRIBUTING.md has the figures). So a script is written with
// both, to be read beside Go, and assembled without:
//
//   - A function that is called as a statement is pasted in the place of each call. It
//     must be called by the names of its parameters, and may not return.
//   - l.pool, a.rate and own.seq become the locals l_pool, a_rate and own_seq.
//   - q.take, of the request, and r.rate, of a record in a table, become q[3] and r[3].
//   - l.SUMS, l.ABOUT and own.RECORD become all locals of a layout, in its order, and
//     names.RECORD their names. RECORD is the layout's length, and RECORD_FORMAT its format.
//   - Constants become numbers.
//
// What cannot be assembled is a panic at the program's start, and so of every test.

// What scripts share. A script says where each part goes: -- (prelude), and so on.
var (
	//go:embed prelude.lua
	prelude string
	//go:embed ledger.lua
	ledger string
	//go:embed open.lua
	open string
	//go:embed begin.lua
	begin string
	//go:embed close.lua
	closing string
)

// assemble makes the text for the server of a script whose requests have n numbers. It depends
// on nothing but what this package is built from: all processes must send the same.
func assemble(script string, n int) string {
	text := strings.NewReplacer(
		"-- (prelude)\n", prelude, "-- (ledger)\n", ledger, "-- (open)\n", open,
		"-- (begin)\n", begin, "-- (close)\n", closing,
	).Replace(script)
	text = strings.Replace(text, "-- (codecs)\n", codecs(text), 1)
	return name(paste(text), n)
}

var (
	function = regexp.MustCompile(`(?m)^local function (\w+)(\([\w, ]*\))\n((?:.*\n)*?)end\n`)
	returns  = regexp.MustCompile(`(?m)^ *return\b`)
)

// paste puts functions in the places of their calls. A function calls only those
// that stand before it.
func paste(text string) string {
	for _, f := range function.FindAllStringSubmatch(text, -1) {
		call := regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(f[1]+f[2]) + `\n`)
		if !call.MatchString(text) {
			continue
		}
		// Those that it calls have been pasted since it was found.
		i := strings.Index(text, "local function "+f[1]+f[2]+"\n")
		f = function.FindStringSubmatch(text[i:])
		if returns.MatchString(f[3]) {
			panic("lua: " + f[1] + " returns, and is called as a statement")
		}
		text = text[:i] + text[i+len(f[0]):]
		text = call.ReplaceAllStringFunc(text, func(line string) string {
			indent := line[:strings.Index(line, f[1])]
			return indent + "do -- " + f[1] + "\n" + f[3] + indent + "end\n"
		})
		if regexp.MustCompile(`(?m)^[^-\n]*\b` + f[1] + `\(`).MatchString(text) {
			panic("lua: " + f[1] + " is called as a statement, and otherwise")
		}
	}
	return text
}

// word is what may be another one on the server. Comments and strings are matched
// first, to be left as they are.
var word = regexp.MustCompile(
	`--[^\n]*|'[^'\n]*'|\b(?:names|own|l|a|q|r)\.\w+|\b[A-Z][A-Z_]+\b`)

var layouts = map[string]Layout{
	"SUMS": Sums, "ABOUT": About, "RECORD": Record, "DECLARED": Declared, "CHUNK": Chunk,
}

var numbers = map[string]int{
	"VERSION": Version, "CHUNKS": Chunks, "CHUNK_PANES": len(Chunk) - 1, "SLIDING": SlidingOffset,
	"HIGH": High, "MARKED": Marked, "ENDED": Ended, "CONTENDED": Contended, "DRY": Dry,
}

// name gives everything the name that it has on the server, and declares the locals.
func name(text string, n int) string {
	locals := map[string]bool{}
	text = word.ReplaceAllStringFunc(text, func(s string) string {
		of, field, _ := strings.Cut(s, ".")
		layout := layouts[field]
		value, _ := strings.CutSuffix(s, "_FORMAT")
		switch {
		case s[0] == '-' || s[0] == '\'' || s == "KEYS" || s == "ARGV":
			return s
		case field == "" && constants[s] != "":
			return constants[s]
		case field == "" && numbers[s] != 0:
			return strconv.Itoa(numbers[s])
		case s == "REQUEST":
			return strconv.Itoa(n)
		case s == "REQUEST_FORMAT":
			return "'>" + strings.Repeat("d", n) + "'"
		case field == "" && layouts[s] != nil:
			return strconv.Itoa(layouts[s].Size())
		case field == "" && layouts[value] != nil:
			return "'" + layouts[value].format() + "'"
		case of == "q" && slices.Contains(request, field):
			return fmt.Sprintf("q[%d]", 1+slices.Index(request, field))
		case of == "r" && slices.Contains(Record.names("", ""), field):
			return fmt.Sprintf("r[%d]", 1+slices.Index(Record.names("", ""), field))
		case of == "names" && layout != nil:
			return strings.Join(layout.names("'", "'"), ", ")
		case field == "" || of == "q" || of == "r" || of == "names":
			panic("lua: a script says " + s + ", which nothing defines")
		}
		list := []string{of + "_" + field}
		if layout != nil {
			list = layout.names(of+"_", "")
		}
		for _, s := range list {
			locals[s] = true
		}
		return strings.Join(list, ", ")
	})
	declared := strings.Join(slices.Sorted(maps.Keys(locals)), ", ")
	return strings.Replace(text, "local l, a, own = {}, {}, {}\n", "local "+declared+"\n", 1)
}

// names are those of the fields, between before and after.
func (l Layout) names(before, after string) []string {
	var list []string
	for _, f := range l {
		list = append(list, before+f.Name+after)
	}
	return list
}

// formats are how Redis' library struct calls the kinds of numbers.
var formats = [...]string{
	Whole: "I7", Scaled: "I7", Fraction: "d", Large: "I5", Count: "I2", Small: "B",
}

// format is that of a value, for read and write in prelude.lua.
func (l Layout) format() string {
	text := ">"
	for _, f := range l {
		text += formats[f.Kind]
	}
	return text
}

// codecs are those of these Lua functions that a script calls. All are pasted.
func codecs(script string) string {
	all := Sums.scaler("scaleSums(l)", Sums.names("l.", "")) +
		Record.scaler("scaleOwn(l, own)", Record.names("own.", "")) +
		Record.scaler("scaleRecord(l, r)", Record.names("r.", "")) +
		Sums.writer("writeSums(l, sums)", "sums", Sums.names("l.", "")) +
		About.writer("writeAbout(l, about)", "about", About.names("l.", "")) +
		Record.writer("writeOwn(a, record)", "record", Record.names("a.", "")) +
		Record.writer("writeRecord(r, text)", "text", Record.names("r.", "")) +
		Declared.writer("writeDeclared(d, text)", "text", Declared.elements("d")) +
		Chunk.writer("writeChunk(chunk, text)", "text", Chunk.elements("chunk"))
	return function.ReplaceAllStringFunc(all, func(f string) string {
		if name := function.FindStringSubmatch(f)[1]; !strings.Contains(script, name+"(") {
			return ""
		}
		return f
	})
}

// elements are those of a table with the numbers in their order.
func (l Layout) elements(table string) []string {
	var list []string
	for i := range l {
		list = append(list, fmt.Sprintf("%s[%d]", table, i+1))
	}
	return list
}

// scaler is a Lua function that makes tokens of numbers that have been read. It sets l.wrong
// if one is infinite, or none.
func (l Layout) scaler(signature string, variables []string) string {
	var scaled, tokens, odd []string
	for i, v := range variables {
		switch l[i].Kind {
		case Scaled:
			scaled, tokens = append(scaled, v), append(tokens, v+" / RESOLUTION")
		case Fraction:
			odd = append(odd, fmt.Sprintf("%[1]s - %[1]s ~= 0", v))
		}
	}
	return fmt.Sprintf("local function %s\n  %s = %s\n"+
		"  if %s then l.wrong = 'RATION bad state' end\nend\n",
		signature, strings.Join(scaled, ", "), strings.Join(tokens, ", "), strings.Join(odd, " or "))
}

// writer is a Lua function that spells numbers, all at once, into text. One that is out of
// range ends the script: struct would write some bytes of it, and mint tokens with them.
func (l Layout) writer(signature, text string, variables []string) string {
	var values, ranges []string
	for i, v := range variables {
		limit := strconv.FormatUint(1<<(8*sizes[l[i].Kind]%64), 10)
		switch l[i].Kind {
		case Fraction:
			ranges = append(ranges, fmt.Sprintf("%[1]s - %[1]s == 0", v))
		case Scaled:
			ranges = append(ranges, fmt.Sprintf("%[1]s >= 0 and %[1]s < %[2]s / RESOLUTION", v, limit))
			v += " * RESOLUTION"
		default:
			ranges = append(ranges, fmt.Sprintf("%[1]s >= 0 and %[1]s < %[2]s", v, limit))
		}
		values = append(values, v)
	}
	return fmt.Sprintf("local function %s\n  if not (%s) then\n"+
		"    error('a number is out of range')\n  end\n  %s = write('%s', %s)\nend\n",
		signature, strings.Join(ranges, " and\n    "), text, l.format(), strings.Join(values, ", "))
}
