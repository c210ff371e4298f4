package hybrid_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestPages checks the types of the Go that docs/ shows. All fragments of a page are one
// program: what declares functions or types stands in its package, the rest in one function.
// A whole program is built and run by a test of the package that it shows.
func TestPages(t *testing.T) {
	longform.None(t)
	long(t)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	fragment := regexp.MustCompile("(?s)```go\n(.*?)```")
	exports := exportsOf(t)
	checked := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var declared, done strings.Builder
		for _, found := range fragment.FindAllSubmatch(text, -1) {
			if bytes.HasPrefix(found[1], []byte("package main\n")) {
				continue
			}
			checked++
			into := &done
			if regexp.MustCompile(`(?m)^(func|type) `).Match(found[1]) {
				into = &declared
			}
			into.Write(found[1])
		}
		for _, err := range typesOf(declared.String(), done.String(), exports) {
			t.Errorf("%s: %v", page, err)
		}
	}
	if checked == 0 {
		t.Error("docs/ shows no Go")
	}
}

// imported is what pages may use without an import.
var imported = []string{
	"context", "crypto/tls", "crypto/x509", "fmt", "log", "log/slog", "net/http", "net/netip", "os",
	"strings", "sync", "time",
	"github.com/redis/go-redis/v9",
	"github.com/seed13b07268/ration/hybrid", "github.com/seed13b07268/ration/remote",
	"github.com/seed13b07268/ration/hybrid/httplimit",
}

// given is what they may use without a declaration.
const given = `ctx context.Context, store hybrid.Store, address, password string, n int,
	authority *x509.CertPool, mine tls.Certificate, answer func() int, mux *http.ServeMux,
	export http.Handler`

// typesOf returns what a compiler would refuse, but for what is imported or declared in vain.
func typesOf(declared, done string, exports importer.Lookup) (found []error) {
	var source strings.Builder
	source.WriteString("package page\n")
	for _, path := range imported {
		fmt.Fprintf(&source, "import %q\n", path)
	}
	fmt.Fprintf(&source, "%s\nfunc page(%s) {\n%s\n}\n", declared, given, done)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, "page.go", source.String(), 0)
	if err != nil {
		return []error{err}
	}
	config := types.Config{
		Importer: importer.ForCompiler(files, "gc", exports),
		Error: func(err error) {
			var fault types.Error
			if !errors.As(err, &fault) || !fault.Soft {
				found = append(found, err)
			}
		},
	}
	_, _ = config.Check("page", files, []*ast.File{file}, nil) // Error has been told
	return found
}

// exportsOf finds the compiled form of what is imported.
func exportsOf(t *testing.T) importer.Lookup {
	t.Helper()
	list := exec.Command("go", append([]string{
		"list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}",
	}, imported...)...)
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	compiled := map[string]string{}
	for line := range bytes.Lines(out) {
		path, file, _ := strings.Cut(strings.TrimSpace(string(line)), "\t")
		compiled[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(compiled[path]) }
}
