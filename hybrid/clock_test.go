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

// TestWallClock: the wall clock of the process may step by any amount, and no
// decision changes, but that it may end leases early (suspend.go, TestSuspend). Elsewhere
// a time is only ever read as what has passed since a start that
// was read by time.Now, whose monotonic part Since and Until go by, and nothing
// takes that part away, writes a time down or compares it with one from elsewhere. A record has
// times for people: nothing is decided by them.
func TestWallClock(t *testing.T) {
	const start = "start" // the only thing that time.Now is for
	allowed := map[string][]string{
		"lease": {}, "remote": {},
		"local":  {},
		"hybrid": {"Now", "Since", "Until", "NewTimer", "AfterFunc"},
	}
	wall := strings.Fields("Unix UnixMilli UnixMicro UnixNano Round Truncate UTC Local In " +
		"AddDate Date Clock YearDay Format AppendFormat MarshalJSON MarshalText MarshalBinary")
	starts := 0
	for folder, functions := range allowed {
		files, err := filepath.Glob("../" + folder + "/*.go")
		if err != nil || len(files) < 5 {
			t.Fatal(folder, files, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") ||
				slices.Contains([]string{"suspend.go", "calendar.go", "recording.go"}, filepath.Base(file)) {
				continue
			}
			fset := token.NewFileSet()
			f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			var begun []ast.Node // uses of time.Now as the value of a start
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == start {
						if call, ok := n.Value.(*ast.CallExpr); ok {
							begun = append(begun, call.Fun)
						}
					}
				case *ast.SelectorExpr:
					x, ok := n.X.(*ast.Ident)
					ofTime := ok && x.Name == "time"
					switch {
					case ofTime && n.Sel.Name == "Now" && slices.Contains(begun, ast.Node(n)):
						starts++
					case ofTime && (n.Sel.Name == "Now" || isFunction(n.Sel.Name) && !slices.Contains(functions, n.Sel.Name)):
						t.Errorf("%s: time.%s", fset.Position(n.Pos()), n.Sel.Name)
					case !ofTime && slices.Contains(wall, n.Sel.Name):
						t.Errorf("%s: .%s", fset.Position(n.Pos()), n.Sel.Name)
					}
				}
				return true
			})
		}
	}
	if starts == 0 {
		t.Error("no start was found")
	}
}

// isFunction reports whether this is a function of package time that reads a
// clock, waits or makes a Time.
func isFunction(name string) bool {
	return slices.Contains(strings.Fields("Now Since Until Sleep After AfterFunc Tick NewTimer "+
		"NewTicker Unix UnixMilli UnixMicro Date Parse ParseInLocation"), name)
}
