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
//   - l.SUMS, l.ABOUT, a.RECORD and own.RECORD become all locals of a layout, in its
//     order, and names.RECORD their names.
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

// assemble makes the text for the server. It depends on nothing but what this package
// is built from: all processes must send the same.
func assemble(script string) string {
	functions := reader("readState", []string{"sums", "about"}, Sums, About) +
		reader("readRecord", []string{"record"}, Record) +
		reader("readDeclared", []string{"declared"}, Declared) + Declared.writer("writeDeclared") +
		reader("readChunk", []string{"chunk"}, Chunk) + Chunk.writer("writeChunk") +
		Sums.writer("writeSums") + About.writer("writeAbout") + Record.writer("writeRecord")
	text := strings.NewReplacer(
		"-- (prelude)\n", strings.Replace(prelude, "-- (layouts)\n", functions, 1),
		"-- (ledger)\n", ledger, "-- (open)\n", open,
		"-- (begin)\n", begin, "-- (close)\n", closing,
	).Replace(script)
	return name(paste(text))
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

var layouts = map[string]Layout{"SUMS": Sums, "ABOUT": About, "RECORD": Record}

var numbers = map[string]int{
	"VERSION": Version, "DECLARED": Declared.Size(), "SUMS": Sums.Size(), "ABOUT": About.Size(), "RECORD": Record.Size(),
	"CHUNK": Chunk.Size(), "CHUNKS": Chunks, "CHUNK_PANES": len(Chunk) - 1, "SLIDING": SlidingOffset,
	"HIGH": High, "MARKED": Marked, "ENDED": Ended, "CONTENDED": Contended, "DRY": Dry,
}

// name gives everything the name that it has on the server, and declares the locals.
func name(text string) string {
	locals := map[string]bool{}
	text = word.ReplaceAllStringFunc(text, func(s string) string {
		of, field, _ := strings.Cut(s, ".")
		layout := layouts[field]
		switch {
		case s[0] == '-' || s[0] == '\'' || s == "KEYS" || s == "ARGV":
			return s
		case field == "" && constants[s] != "":
			return constants[s]
		case field == "" && numbers[s] != 0:
			return strconv.Itoa(numbers[s])
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

// variables are the Lua names of n bytes.
func variables(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i+1)
	}
	return list
}

// reader is a Lua function that returns the numbers in some values. It takes all bytes
// of a value at once: a call for each number costs more than the number.
func reader(name string, values []string, layouts ...Layout) string {
	text := fmt.Sprintf("local function %s(%s)\n", name, strings.Join(values, ", "))
	var numbers []string
	for i, layout := range layouts {
		list := variables(values[i][:1], layout.Size())
		text += fmt.Sprintf("  local %s =\n    byte(%s, 1, %d)\n",
			strings.Join(list, ", "), values[i], layout.Size())
		for _, f := range layout {
			numbers = append(numbers, f.Kind.expression(list))
			list = list[sizes[f.Kind]:]
		}
	}
	return text + "  return " + strings.Join(numbers, ",\n    ") + "\nend\n\n"
}

// expression is the number that the first of some variables spell.
func (k Kind) expression(list []string) string {
	list = list[:sizes[k]]
	if k == Fraction {
		return fmt.Sprintf("fraction(%s, %s, %s)", Whole.expression(list[:7]), list[7], list[8])
	}
	text := list[0]
	for i, v := range list[1:] {
		if i > 0 {
			text = "(" + text + ")"
		}
		text += " * 256 + " + v
	}
	if k == Scaled {
		text = "(" + text + ") / RESOLUTION"
	}
	return text
}

// writer is a Lua function that spells numbers, all at once.
func (l Layout) writer(name string) string {
	text := fmt.Sprintf("local function %s(%s)\n", name, strings.Join(l.names("", ""), ", "))
	list := variables("b", l.Size())
	all := strings.Join(list, ", ")
	for _, f := range l {
		n := sizes[f.Kind]
		spelled := strings.Join(list[:n], ", ")
		if f.Kind == Large { // the first two of seven bytes are 0
			spelled = "_, _, " + spelled
		}
		text += fmt.Sprintf("  local %s = ", spelled)
		switch f.Kind {
		case Whole, Large:
			text += fmt.Sprintf("split(%s)", f.Name)
		case Scaled:
			text += fmt.Sprintf("split(%s * RESOLUTION)", f.Name)
		case Fraction:
			text += fmt.Sprintf("splitFraction(%s)", f.Name)
		case Count:
			text += fmt.Sprintf("floor(%s / 256), %s %% 256", f.Name, f.Name)
		case Small:
			text += f.Name
		}
		text += "\n"
		list = list[n:]
	}
	return text + "  return char(" + all + ")\nend\n\n"
}
