package lease_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/mutated"
)

// mutantName is the variable of the environment that says which rule is missing.
const mutantName = "LEASE_MUTANT"

// A mutant is a function of package lease as a mutation leaves it, beside the function as it
// is. So one program holds all mutations of functions, and is built once instead of once for
// each, which takes seconds.
type mutant struct {
	at   int    // where the function's body begins in its file
	call string // goes there, and calls the mutated function
	code string // the mutated function, which goes to the end of the file
}

// mutant is none where the mutation is not inside of one function.
func (m *mutation) mutant(t *testing.T, number int) (found mutant, ok bool) {
	t.Helper()
	text, from := mutated.Once(t, m.file, m.old)
	to := from + len(m.old)
	parsed, err := parser.ParseFile(token.NewFileSet(), m.file, text, 0)
	if err != nil {
		t.Fatal(err)
	}
	// Positions in a set's first file are offsets from FileStart.
	offset := func(p token.Pos) int { return int(p - parsed.FileStart) }
	for _, d := range parsed.Decls {
		f, function := d.(*ast.FuncDecl)
		if !function || from <= offset(f.Body.Lbrace) || to > offset(f.Body.Rbrace) {
			continue
		}
		arguments, named := names(f.Type.Params)
		if !named || f.Type.TypeParams != nil || f.Recv != nil && len(f.Recv.List[0].Names) == 0 {
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
			at:   offset(f.Body.Lbrace) + 1,
			call: fmt.Sprintf("if mutant == %d { %s };", number, call),
			code: "\n" + text[offset(d.Pos()):offset(f.Name.Pos())] + name +
				text[offset(f.Name.End()):from] + m.new + text[to:offset(d.End())] + "\n",
		}, true
	}
	return mutant{}, false
}

// names are those of parameters, as a call passes them on.
func names(parameters *ast.FieldList) (list []string, all bool) {
	for _, p := range parameters.List {
		if _, variadic := p.Type.(*ast.Ellipsis); variadic || len(p.Names) == 0 {
			return nil, false
		}
		for _, n := range p.Names {
			if n.Name == "_" {
				return nil, false
			}
			list = append(list, n.Name)
		}
	}
	return list, true
}

// mutants builds the tests with all mutations of functions, and says which are in it.
func mutants(t *testing.T, all []mutation) (binary string, in map[int]bool) {
	t.Helper()
	in = map[int]bool{}
	byFile := map[string][]mutant{}
	for i := range all {
		if m, ok := all[i].mutant(t, i); ok {
			in[i] = true
			byFile[all[i].file] = append(byFile[all[i].file], m)
		}
	}
	files := map[string]string{"mutant.go": "package lease\n\nimport (\n\"os\"\n\"strconv\"\n)\n\n" +
		"var mutant = func() int { n, err := strconv.Atoi(os.Getenv(\"" + mutantName + "\"));" +
		" if err != nil { return -1 }; return n }()\n"}
	for file, list := range byFile {
		text, _ := mutated.Once(t, file, "package lease")
		slices.SortFunc(list, func(a, b mutant) int { return b.at - a.at })
		for _, m := range list { // the last one first: what is before it stays where it is
			text = text[:m.at] + m.call + text[m.at:] + m.code
		}
		files[file] = text
	}
	binary = filepath.Join(t.TempDir(), "lease.test")
	buildTests(t, binary, files)
	return binary, in
}

// buildTests builds the tests of package lease with other text in some files.
func buildTests(t *testing.T, binary string, files map[string]string) {
	t.Helper()
	mutated.Build(t, files, "test", "-c", "-vet=off", "-o", binary, ".")
}
