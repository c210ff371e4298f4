package hybrid_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestOneEngine: a single function makes the Decisions of all verbs, and all verbs wait in a single
// function. Elsewhere only goroutines of the Limiter wait, and Close.
func TestOneEngine(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var explain, wait []string
	fset := token.NewFileSet()
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(x ast.Node) bool {
				switch x := x.(type) {
				case *ast.CompositeLit:
					name, ok := x.Type.(*ast.Ident)
					if ok && name.Name == "Decision" && len(x.Elts) > 0 {
						explain = append(explain, path+" "+f.Name.Name)
					}
				case *ast.SelectStmt:
					wait = append(wait, path+" "+f.Name.Name)
				}
				return true
			})
		}
	}
	if want := []string{"engine.go explain"}; !slices.Equal(explain, want) {
		t.Errorf("Decisions are made in %q, want %q", explain, want)
	}
	want := []string{
		"driver.go watch", "driver.go close", "driver.go handBack", "engine.go rest",
		"limiter.go Close", "limiter.go Close", "publish.go publish",
	}
	if !slices.Equal(wait, want) {
		t.Errorf("waits are in %q, want %q", wait, want)
	}
}
