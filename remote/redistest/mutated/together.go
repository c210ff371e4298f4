package mutated

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A Change puts New in the place of Old, which stands in File once.
type Change struct{ File, Old, New string }

// Apply gives the text of the file with the change.
func (c Change) Apply(t testing.TB) (text string) {
	t.Helper()
	text, at := Once(t, c.File, c.Old)
	return text[:at] + c.New + text[at+len(c.Old):]
}

// Together gives one package's files, with the changed functions beside the sound functions. It
// says which of the changes are in the files. So one program has all these changes, and is built
// once: a build takes seconds. The environment's variable holds the number of the change in force.
func Together(t testing.TB, variable string, all []Change) (files map[string]string, in map[int]bool) {
	t.Helper()
	files, in = map[string]string{}, map[int]bool{}
	byFile := map[string][]mutant{}
	for i, c := range all {
		if m, ok := c.mutant(t, i); ok {
			in[i] = true
			byFile[c.File] = append(byFile[c.File], m)
		}
	}
	for file, list := range byFile {
		text, _ := Once(t, file, "package "+list[0].of)
		slices.SortFunc(list, func(a, b mutant) int { return b.at - a.at })
		for _, m := range list { // from the last one back: the text before it stays where it is
			text = text[:m.at] + m.call + text[m.at:] + m.code
		}
		files[file] = text
		files[filepath.Join(filepath.Dir(file), "mutant.go")] = "package " + list[0].of +
			"\n\nimport (\n\"os\"\n\"strconv\"\n)\n\n" +
			"var mutant = func() int { n, err := strconv.Atoi(os.Getenv(\"" + variable + "\"));" +
			" if err != nil { return -1 }; return n }()\n"
	}
	return files, in
}

// A mutant is a function as a change leaves it, beside the function as it is.
type mutant struct {
	of   string // the package
	at   int    // where the function's body begins in its file
	call string // goes there, and calls the mutated function
	code string // the mutated function, which goes to the end of the file
}

// mutant is the mutant of the change. There is none where the change is not inside one function, or
// where no call can pass the function's parameters on.
func (c Change) mutant(t testing.TB, number int) (found mutant, ok bool) {
	t.Helper()
	text, from := Once(t, c.File, c.Old)
	to := from + len(c.Old)
	parsed, err := parser.ParseFile(token.NewFileSet(), c.File, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Positions in a set's first file are offsets from FileStart.
	offset := func(p token.Pos) int { return int(p - parsed.FileStart) }
	for _, d := range parsed.Decls {
		f, function := d.(*ast.FuncDecl)
		if !function || from < offset(f.Name.End()) || to > offset(f.End()) {
			continue
		}
		arguments, passed := passed(f.Type.Params, func(x ast.Expr) string {
			return text[offset(x.Pos()):offset(x.End())]
		})
		if !passed || f.Type.TypeParams != nil || f.Recv != nil && len(f.Recv.List[0].Names) == 0 {
			return mutant{}, false
		}
		name := fmt.Sprintf("%sMutant%d", f.Name.Name, number)
		call := name + "(" + strings.Join(arguments, ", ") + ")"
		if f.Recv != nil {
			call = f.Recv.List[0].Names[0].Name + "." + call
		}
		if f.Type.Results != nil {
			call = "return " + call
		} else {
			call += "; return"
		}
		return mutant{
			of:   parsed.Name.Name,
			at:   offset(f.Body.Lbrace) + 1,
			call: fmt.Sprintf("if mutant == %d { %s };", number, call),
			code: "\n" + text[offset(d.Pos()):offset(f.Name.Pos())] + name +
				text[offset(f.Name.End()):from] + c.New + text[to:offset(d.End())] + "\n",
		}, true
	}
	return mutant{}, false
}

// passed are parameters as a call passes them on: by their names, and nothing for those that have
// none and are not used. all is false where no call can.
func passed(parameters *ast.FieldList, text func(ast.Expr) string) (list []string, all bool) {
	for _, p := range parameters.List {
		if _, variadic := p.Type.(*ast.Ellipsis); variadic {
			return nil, false
		}
		if len(p.Names) == 0 {
			list = append(list, "*new("+text(p.Type)+")")
		}
		for _, n := range p.Names {
			name := n.Name
			if name == "_" {
				name = "*new(" + text(p.Type) + ")"
			}
			list = append(list, name)
		}
	}
	return list, true
}
