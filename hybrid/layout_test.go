package hybrid_test

import (
	"go/ast"
	"go/doc"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// layout is what each folder may import beside the standard library. Nothing
// imports sim or bench, and hybrid does not import remote: it works with any
// store.
var layout = map[string][]string{
	".ci/release": {
		"golang.org/x/mod/modfile", "golang.org/x/mod/module", "golang.org/x/mod/semver",
		"golang.org/x/mod/sumdb/dirhash", "golang.org/x/mod/zip",
	},
	".ci/vet": {
		"golang.org/x/tools/go/analysis/multichecker", "golang.org/x/tools/go/analysis/suite/vet",
	},
	"lease":       nil,
	"lua":         nil,
	"local/gauge": nil,
	"local/ideal": {"ration/lease"},
	"local":       {"ration/lease", "ration/local/gauge", "github.com/puzpuzpuz/xsync/v4"},
	"remote": {
		"ration/lease", "ration/local/gauge", "ration/lua", "github.com/redis/go-redis/v9",
		"github.com/redis/go-redis/v9/maintnotifications",
	},
	"remote/redistest": {"ration/remote/redistest/redisserver", "github.com/redis/go-redis/v9"},
	"remote/redistest/redisserver": {
		"ration/remote/redistest/tether", "github.com/redis/go-redis/v9",
	},
	"remote/redistest/tether": nil,
	"remote/redistest/pagetest": {
		"ration/remote/redistest/mutated", "ration/remote/redistest/tether",
	},
	"remote/redistest/mutated":  nil,
	"remote/redistest/longform": nil,
	"remote/redistest/control":  nil,
	"hybrid/internal/foreign":   nil,
	"hybrid": {
		"ration/hybrid/internal/foreign", "ration/lease", "ration/local", "ration/local/gauge", "go.uber.org/zap",
		"go.uber.org/zap/zapcore",
	},
	"hybrid/internal/proofs/chaos": nil,
	"hybrid/grpclimit": {
		"ration/hybrid", "google.golang.org/genproto/googleapis/rpc/errdetails",
		"google.golang.org/grpc", "google.golang.org/grpc/codes", "google.golang.org/grpc/metadata",
		"google.golang.org/grpc/peer", "google.golang.org/grpc/status",
		"google.golang.org/protobuf/protoadapt", "google.golang.org/protobuf/types/known/durationpb",
	},
	"hybrid/otel": {
		"ration/hybrid", "ration/lease", "go.opentelemetry.io/otel/attribute",
		"go.opentelemetry.io/otel/codes", "go.opentelemetry.io/otel/metric",
		"go.opentelemetry.io/otel/trace",
	},
	"hybrid/prometheus":                         {"ration/hybrid", "github.com/prometheus/client_golang/prometheus"},
	"hybrid/prometheus/internal/proofs/queries": nil,
	"hybrid/lists":                              {"ration/hybrid"},
	"hybrid/budget":                             nil,
	"hybrid/holds":                              {"ration/hybrid/internal/foreign"},
	"hybrid/holds/redisholds":                   {"ration/hybrid/holds", "github.com/redis/go-redis/v9"},
	"hybrid/httplimit/openai":                   {"ration/hybrid", "ration/hybrid/httplimit"},
	"hybrid/httplimit": {
		"ration/hybrid", "ration/hybrid/internal/foreign", "ration/hybrid/lists",
	},
	"hybrid/rules": {
		"ration/hybrid", "ration/hybrid/internal/foreign", "ration/lease", "github.com/fsnotify/fsnotify", "go.uber.org/zap",
		"go.yaml.in/yaml/v4",
	},
	"hybrid/rules/check":                   {"ration/hybrid", "ration/hybrid/rules"},
	"hybrid/rules/internal/proofs/changes": nil,
	"hybrid/rules/internal/book":           {"ration/hybrid/rules"},
	"hybrid/rules/internal/bookstest": {
		"ration/hybrid", "ration/hybrid/rules", "ration/hybrid/rules/internal/book",
	},
	"hybrid/rules/redisrules": {
		"ration/hybrid/rules", "ration/hybrid/rules/internal/book", "github.com/redis/go-redis/v9",
	},
	"hybrid/rules/sqlrules": {
		"ration/hybrid/rules", "ration/hybrid/rules/internal/book", "github.com/pressly/goose/v3",
	},
	"hybrid/rules/xdsrules": {
		"ration/hybrid/rules",
		"github.com/envoyproxy/go-control-plane/envoy/config/core/v3",
		"github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3",
		"github.com/envoyproxy/go-control-plane/pkg/client/sotw/v3",
		"github.com/envoyproxy/go-control-plane/pkg/resource/v3",
		"github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3",
		"go.yaml.in/yaml/v4", "google.golang.org/grpc", "google.golang.org/protobuf/proto",
		"google.golang.org/protobuf/types/known/anypb",
		"google.golang.org/protobuf/types/known/structpb",
	},
	"hybrid/service": {
		"ration/hybrid", "ration/hybrid/holds", "ration/hybrid/holds/redisholds",
		"ration/hybrid/httplimit", "ration/hybrid/rules", "ration/hybrid/rules/redisrules", "ration/hybrid/rules/sqlrules",
		"ration/hybrid/rules/xdsrules", "ration/remote", "ration/hybrid/service/internal/account",
		"ration/hybrid/service/internal/api", "ration/hybrid/service/internal/envoy",
		"ration/hybrid/service/internal/live", "ration/hybrid/service/internal/metrics",
		"ration/hybrid/service/internal/openid",
		"ration/hybrid/service/internal/page", "ration/hybrid/service/internal/register",
		"ration/hybrid/service/internal/reservations", "ration/hybrid/service/internal/rlqs",
		"ration/hybrid/service/internal/whatif",
	},
	"hybrid/service/deploy": nil,
	"hybrid/service/internal/account": {
		"ration/hybrid/rules/sqlrules", "ration/hybrid/service/internal/validate",
	},
	"hybrid/service/internal/api": {
		"ration/hybrid", "ration/hybrid/holds", "ration/hybrid/rules",
		"ration/hybrid/service/internal/reservations", "ration/hybrid/service/internal/validate",
	},
	"hybrid/service/internal/envoy": {
		"ration/hybrid", "ration/hybrid/holds", "ration/hybrid/rules",
		"ration/hybrid/service/internal/envoy/kuadrantv1",
		"ration/hybrid/service/internal/reservations", "ration/hybrid/service/internal/validate",
	},
	"hybrid/service/internal/envoy/kuadrantv1": nil,
	"hybrid/service/internal/reservations": {
		"ration/hybrid", "ration/hybrid/budget", "ration/hybrid/holds", "ration/hybrid/rules",
	},
	"hybrid/service/internal/databasetest": {
		"ration/hybrid/rules/sqlrules", "ration/remote/redistest/tether",
	},
	"hybrid/service/internal/humanize": nil,
	"hybrid/service/internal/live": {
		"ration/hybrid", "ration/hybrid/rules", "ration/hybrid/service/internal/humanize",
		"ration/hybrid/service/internal/register", "ration/lease", "ration/local/gauge", "ration/remote",
	},
	"hybrid/service/internal/metrics":  {"ration/hybrid", "ration/hybrid/rules"},
	"hybrid/service/internal/validate": {"ration/hybrid/rules"},
	"hybrid/service/internal/page": {
		"ration/hybrid", "ration/hybrid/httplimit", "ration/hybrid/rules",
		"ration/hybrid/service/internal/account", "ration/hybrid/service/internal/humanize",
		"ration/hybrid/service/internal/openid", "ration/hybrid/service/internal/validate",
		"ration/hybrid/service/internal/whatif",
	},
	"hybrid/service/internal/openid":     nil,
	"hybrid/service/internal/openidtest": nil,
	"hybrid/service/internal/register":   {"ration/hybrid/rules/sqlrules"},
	"hybrid/service/internal/whatif": {
		"ration/hybrid", "ration/hybrid/rules", "ration/lease", "ration/local/ideal",
	},
	"hybrid/service/internal/rlqs": {"ration/hybrid", "ration/hybrid/rules"},
	"hybrid/service/internal/servicetest": {
		"ration/remote/redistest", "ration/remote/redistest/tether",
	},
	"hybrid/service/internal/proofs/load": nil,
	"hybrid/service/internal/proofs/peer": nil,
}

// TestLayout holds all folders but those of commands to the layout.
func TestLayout(t *testing.T) {
	const module = "github.com/seed13b07268/"
	files := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel("..", filepath.Dir(path))
		if err != nil {
			return err
		}
		folder = filepath.ToSlash(folder)
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		command := strings.HasPrefix(folder, "sim") || strings.HasPrefix(folder, "bench")
		program := strings.HasPrefix(folder, "hybrid/service") // what it needs is in its go.mod
		allowed, known := layout[folder]
		if !known && !command {
			t.Errorf("%s has no rule", folder)
		}
		for _, i := range f.Imports {
			name := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module)
			standard := !strings.Contains(strings.Split(name, "/")[0], ".") && !strings.HasPrefix(name, "ration/")
			foreign := strings.HasPrefix(name, "ration/sim") || strings.HasPrefix(name,
				"ration/bench")
			if command &&
				(!foreign || strings.HasPrefix(name, "ration/"+strings.Split(folder, "/")[0])) {
				continue
			}
			if program && !strings.HasPrefix(name, "ration/") {
				continue
			}
			if !standard && !slices.Contains(allowed, name) {
				t.Errorf("%s imports %s", path, name)
			}
		}
		return nil
	})
	if err != nil || files < 20 {
		t.Fatalf("%d files: %v", files, err)
	}
}

// documented are the folders whose functions are short, and of which everything that is exported
// has an example.
var documented = []string{
	".", "lists", "httplimit", "budget", "httplimit/openai", "holds", "holds/redisholds",
}

// TestFunctions: no function of the tree has more than 50 lines. None of lease, local, remote, the
// documented folders and rules has more than ten branches.
func TestFunctions(t *testing.T) {
	long(t)
	const mostLines, mostBranches = 50, 10
	few := append([]string{
		"../lease", "../local", "../remote", "rules", "rules/check", "service/internal/account",
		"service/internal/page",
	}, documented...)
	seen := 0
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(".", filepath.Dir(path))
		if err != nil {
			return err
		}
		most := math.MaxInt
		if slices.Contains(few, filepath.ToSlash(folder)) {
			most = mostBranches
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range f.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			seen++
			lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
			if n := branches(f); lines > mostLines || n > most {
				t.Errorf("%s: %s has %d lines and %d branches", path, f.Name.Name, lines, n)
			}
		}
		return nil
	})
	if err != nil || seen < 3000 {
		t.Errorf("%d functions were found: %v", seen, err)
	}
}

// branches counts the conditions, loops and cases of a function.
func branches(f *ast.FuncDecl) (n int) {
	ast.Inspect(f, func(x ast.Node) bool {
		switch x := x.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			n += min(len(x.List), 1)
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		}
		return true
	})
	return n
}

// TestExamples: everything that is exported has a runnable example.
func TestExamples(t *testing.T) {
	for _, folder := range documented {
		t.Run(folder, func(t *testing.T) { examples(t, folder) })
	}
}

// TestContents: the introduction of the package links to every verb, and to every kind of limit.
func TestContents(t *testing.T) {
	long(t)
	p := documentation(t, ".")
	linked := map[string]bool{}
	for _, block := range p.Parser().Parse(p.Doc).Content {
		list, ok := block.(*comment.List)
		if !ok {
			continue
		}
		for _, item := range list.Items {
			for _, text := range item.Content[0].(*comment.Paragraph).Text {
				if link, ok := text.(*comment.DocLink); ok {
					linked[link.Recv+"."+link.Name] = true
				}
			}
		}
	}
	for _, typ := range p.Types {
		for _, f := range typ.Methods {
			if typ.Name == "Limiter" && !linked["Limiter."+f.Name] {
				t.Errorf("no link to Limiter.%s", f.Name)
			}
		}
		for _, f := range typ.Funcs {
			if typ.Name == "Limit" && !linked["."+f.Name] {
				t.Errorf("no link to %s", f.Name)
			}
		}
	}
}

func examples(t *testing.T, folder string) {
	p := documentation(t, folder)
	has := func(name string, examples []*doc.Example) {
		if len(examples) == 0 {
			t.Errorf("%s has no example", name)
		}
		for _, e := range examples {
			if e.Output == "" {
				t.Errorf("the example %s of %s does not run", e.Name, name)
			}
		}
	}
	has("the package", p.Examples)
	for _, f := range p.Funcs {
		has(f.Name, f.Examples)
	}
	for _, typ := range p.Types {
		has(typ.Name, typ.Examples)
		for _, m := range typ.Methods {
			has(typ.Name+"."+m.Name, m.Examples)
		}
		for _, f := range typ.Funcs {
			if f.Name != "NewMemory" { // in all of them
				has(f.Name, f.Examples)
			}
		}
	}
}

func documentation(t *testing.T, folder string) *doc.Package {
	files, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var parsed []*ast.File
	for _, name := range files {
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
	}
	p, err := doc.NewFromFiles(fset, parsed, "github.com/seed13b07268/ration/hybrid/"+folder)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
