package lua

import (
	_ "embed"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is that of the format in which a key is kept. Both scripts refuse a key of
// another one. CONTRIBUTING.md says when it changes.
const Version = 1

// A Layout is the numbers of a value in Redis, in their order. Each kind of number has
// its length, so that all values of a layout have the same, and Redis overwrites
// them in their places. None is longer than 64 bytes with what follows it: up to there
// (hash-max-listpack-value) Redis keeps a small hash in one piece, in half the
// memory (TestSmall).
type Layout []Field

// A Field is one number.
type Field struct {
	Name string // as both the scripts and lease.View's rows call it
	Kind Kind
}

// A Kind is how a number is spelled, most significant byte first.
type Kind int

const (
	Whole    Kind = iota // 7 bytes, from 0 to 2^53
	Scaled               // the same, in 2^-20: rates, demands and bursts are multiples of it
	Fraction             // 9 bytes: any number, a mantissa of 7 and an exponent of 2
	Count                // 2 bytes
	Small                // 1 byte
)

var sizes = [...]int{Whole: 7, Scaled: 7, Fraction: 9, Count: 2, Small: 1}

var (
	// Sums are the field #: what changes with each exchange.
	Sums = Layout{
		{"at", Whole}, {"rates", Scaled}, {"bursts", Scaled}, {"demand", Scaled}, {"low", Scaled},
		{"pool", Fraction}, {"unrest", Fraction}, {"high", Count}, {"holders", Count},
		{"declared", Whole},
	}

	// About is the field =: what seldom changes. The limit in force follows it as text.
	About = Layout{
		{"version", Small}, {"born", Whole}, {"slot", Whole}, {"expiry", Whole}, {"ahead", Whole},
	}

	// Record is a holder's lease, in the field of its id.
	Record = Layout{
		{"seq", Whole}, {"at", Whole}, {"rate", Scaled}, {"burst", Scaled}, {"refills", Whole},
		{"life", Whole}, {"demand", Scaled}, {"add", Fraction}, {"shape", Small}, {"flags", Small},
	}
)

// Flags of a record.
const (
	High  = 1 << iota // wants more than the water level
	Ended             // the rate has ended
)

// Flags of a reply.
const (
	Contended = 1 << iota
	Dry
)

// request are the elements of ARGV[2], in their order. A script calls them q.seq, q.seen, ...
var request = []string{
	"seq", "seen", "take", "min", "unit", "give", "held", "got", "peak", "demand", "lag",
	"claim", "left", "mode", "fairness", "batch", "minRefresh", "maxRefresh", "maxHold",
	"headroom", "burstShare", "smallest", "reserve", "rate", "burst",
}

// Size is how long a value is, in bytes.
func (l Layout) Size() (n int) {
	for _, f := range l {
		n += sizes[f.Kind]
	}
	return n
}

// Read calls each with the numbers of a value that is Size bytes long.
func (l Layout) Read(value string, each func(name string, x float64)) {
	for _, f := range l {
		n := sizes[f.Kind]
		each(f.Name, f.Kind.read(value[:n]))
		value = value[n:]
	}
}

func (k Kind) read(s string) float64 {
	exponent := 0
	if k == Fraction {
		exponent = int(s[7])<<8 | int(s[8])
		s = s[:7]
	}
	x := 0.0
	for _, b := range []byte(s) {
		x = float64(x*256) + float64(b)
	}
	switch k {
	case Scaled:
		x /= Resolution
	case Fraction:
		x = math.Ldexp(x, exponent&(1<<15-1)-1<<14)
		if exponent >= 1<<15 {
			x = -x
		}
	}
	return x
}

// Resolution is the number of steps in one token, and in one token per second, in which
// bursts, rates and demands are kept.
var Resolution, _ = strconv.ParseFloat(constants["RESOLUTION"], 64)

//go:embed prelude.lua
var prelude string

// assemble puts the prelude in its place in a script, with the functions that read and
// write the layouts, and numbers in the places of constants. Of the request, q.seq,
// q.seen, ... become q[1], q[2], ...: a table with names would have to be made first.
func assemble(script string) string {
	functions := reader("readState", []string{"sums", "about"}, Sums, About) +
		reader("readRecord", []string{"record"}, Record) +
		Sums.writer("writeSums") + About.writer("writeAbout") + Record.writer("writeRecord")
	text := strings.Replace(prelude, "-- (layouts)\n", functions, 1)
	text = strings.Replace(script, "-- (prelude)\n", text, 1)
	return name.ReplaceAllStringFunc(text, replace)
}

// name is what may be replaced. Comments and strings are matched first, to be left as
// they are.
var name = regexp.MustCompile(`--[^\n]*|'[^'\n]*'|\bq\.\w+|\b[A-Z][A-Z_]+\b`)

var ours = map[string]int{
	"VERSION": Version, "SUMS": Sums.Size(), "ABOUT": About.Size(), "RECORD": Record.Size(),
	"HIGH": High, "ENDED": Ended, "CONTENDED": Contended, "DRY": Dry,
}

func replace(s string) string {
	if element, ok := strings.CutPrefix(s, "q."); ok {
		if i := slices.Index(request, element); i >= 0 {
			return fmt.Sprintf("q[%d]", i+1)
		}
	} else if n, ok := ours[s]; ok {
		return strconv.Itoa(n)
	} else if x, ok := constants[s]; ok {
		return x
	} else if s[0] == '-' || s[0] == '\'' || s == "KEYS" || s == "ARGV" {
		return s
	}
	panic("lua: a script says " + s + ", which nothing defines")
}

// variables are the Lua names of n bytes.
func variables(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(prefix, i+1)
	}
	return list
}

// reader is a Lua function that makes a table of the numbers in some values. It
// takes all bytes of a value at once: a call for each number costs more than the number.
func reader(name string, values []string, layouts ...Layout) string {
	text := fmt.Sprintf("local function %s(%s)\n", name, strings.Join(values, ", "))
	var fields string
	for i, layout := range layouts {
		list := variables(values[i][:1], layout.Size())
		text += fmt.Sprintf("  local %s =\n    byte(%s, 1, %d)\n",
			strings.Join(list, ", "), values[i], layout.Size())
		for _, f := range layout {
			fields += fmt.Sprintf("    %s = %s,\n", f.Name, f.Kind.expression(list))
			list = list[sizes[f.Kind]:]
		}
	}
	return text + "  return {\n" + fields + "  }\nend\n\n"
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

// writer is a Lua function that spells the numbers of a table, all at once.
func (l Layout) writer(name string) string {
	text := fmt.Sprintf("local function %s(x)\n", name)
	list := variables("b", l.Size())
	all := strings.Join(list, ", ")
	for _, f := range l {
		n := sizes[f.Kind]
		text += fmt.Sprintf("  local %s = ", strings.Join(list[:n], ", "))
		switch f.Kind {
		case Whole:
			text += fmt.Sprintf("split(x.%s)", f.Name)
		case Scaled:
			text += fmt.Sprintf("split(x.%s * RESOLUTION)", f.Name)
		case Fraction:
			text += fmt.Sprintf("splitFraction(x.%s)", f.Name)
		case Count:
			text += fmt.Sprintf("floor(x.%s / 256), x.%s %% 256", f.Name, f.Name)
		case Small:
			text += "x." + f.Name
		}
		text += "\n"
		list = list[n:]
	}
	return text + "  return char(" + all + ")\nend\n\n"
}
