package hybrid_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// lockOrder is that of local/doc.go and of driver: under a lock only one of a higher rank may
// be taken.
var lockOrder = map[string]int{
	"Table": 0, "Entry": 1,
	"Dispatch": 2, "schedule": 2, "health": 2, "Shares": 2, "denied": 2, // in package local
	"driver": 2, "limits": 2, "conflicts": 2, "record": 2, "clock": 2, "recorder": 2, // of hybrid
	"Memory": 2, "Process": 2,
	"Common": 3, // of local, for a count
}

// known imports the packages that it holds, by path. Calls of others are not followed.
type known map[string]*types.Package

func (k known) Import(path string) (*types.Package, error) {
	if p := k[path]; p != nil {
		return p, nil
	}
	p := types.NewPackage(path, filepath.Base(path))
	p.MarkComplete()
	return p, nil
}

// A locker is what a function does with locks.
type locker struct {
	takes map[string]bool                 // by itself, and by what it calls
	calls map[*types.Func]bool            // all
	under map[string]map[*types.Func]bool // calls while it holds a lock
	nests map[string]map[string]bool      // locks that it takes itself meanwhile
}

// TestLockOrder: the sources of local and hybrid take their locks in the order. A lock is
// held from its Lock to the Unlock that follows in the text, or to the end where that is
// deferred; a method whose name ends in Locked is called under the lock of its receiver.
func TestLockOrder(t *testing.T) {
	all := lockers(t)
	for again := true; again; {
		again = false
		for _, l := range all {
			for callee := range l.calls {
				if c := all[callee]; c != nil {
					for lock := range c.takes {
						again = again || !l.takes[lock]
						l.takes[lock] = true
					}
				}
			}
		}
	}
	taken := map[string]bool{}
	for f, l := range all {
		for lock := range l.takes {
			taken[lock] = true
			if _, ranked := lockOrder[lock]; !ranked {
				t.Errorf("%s takes the lock of %q, which has no rank", f.Name(), lock)
			}
		}
		for held, calls := range l.under {
			for callee := range calls {
				for lock := range lockersOf(all, callee) {
					if lockOrder[lock] <= lockOrder[held] {
						t.Errorf("%s holds the lock of %s and calls %s, which takes that of %s",
							f.Name(), held, callee.Name(), lock)
					}
				}
			}
		}
		for held, nests := range l.nests {
			for lock := range nests {
				if lockOrder[lock] <= lockOrder[held] {
					t.Errorf("%s holds the lock of %s and takes that of %s", f.Name(), held, lock)
				}
			}
		}
	}
	for lock := range lockOrder {
		if !taken[lock] {
			t.Errorf("nobody takes the lock of %s: this test does not see it", lock)
		}
	}
}

func lockersOf(all map[*types.Func]*locker, f *types.Func) map[string]bool {
	if l := all[f]; l != nil {
		return l.takes
	}
	return nil
}

// lockers are all functions of the packages.
func lockers(t *testing.T) map[*types.Func]*locker {
	all, packages := map[*types.Func]*locker{}, known{}
	for _, folder := range []string{"../local", "../hybrid"} {
		fset := token.NewFileSet()
		files := sources(t, fset, folder)
		info := &types.Info{
			Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
			Types: map[ast.Expr]types.TypeAndValue{},
		}
		config := types.Config{Importer: packages, Error: func(error) {}}
		path := "github.com/seed13b07268/ration/" + filepath.Base(folder)
		packages[path], _ = config.Check(path, fset, files, info)
		for _, file := range files {
			for _, d := range file.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					if f, ok := info.Defs[d.Name].(*types.Func); ok {
						all[f] = lockerOf(info, d)
					}
				}
			}
		}
	}
	return all
}

// sources are the files of a package, without its tests.
func sources(t *testing.T, fset *token.FileSet, folder string) (files []*ast.File) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func lockerOf(info *types.Info, d *ast.FuncDecl) *locker {
	l := &locker{
		map[string]bool{}, map[*types.Func]bool{},
		map[string]map[*types.Func]bool{}, map[string]map[string]bool{},
	}
	held := map[string]bool{}
	if strings.HasSuffix(d.Name.Name, "Locked") && d.Recv != nil {
		lock := typeName(info.Types[d.Recv.List[0].Type].Type)
		if lock == "Several" || lock == "Part" {
			lock = "Entry" // those of its entries
		}
		held[lock] = true
	}
	ast.Inspect(d.Body, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			return false // another goroutine holds nothing
		}
		if deferred, ok := n.(*ast.DeferStmt); ok {
			if lock, verb := lockCall(info, deferred.Call); lock != "" && verb == "Unlock" {
				return false // held to the end
			}
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		switch lock, verb := lockCall(info, call); verb {
		case "Lock":
			for other := range held {
				if l.nests[other] == nil {
					l.nests[other] = map[string]bool{}
				}
				l.nests[other][lock] = true
			}
			l.takes[lock], held[lock] = true, true
			return false
		case "Unlock":
			delete(held, lock)
			return false
		}
		if f := callee(info, call); f != nil {
			l.calls[f] = true
			for lock := range held {
				if l.under[lock] == nil {
					l.under[lock] = map[*types.Func]bool{}
				}
				l.under[lock][f] = true
			}
		}
		return true
	})
	return l
}

// lockCall returns whose lock x.mu.Lock() and x.mu.Unlock() are for. Several's lock and unlock
// are those of all its entries.
func lockCall(info *types.Info, call *ast.CallExpr) (lock, verb string) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if ok && typeName(info.Types[f.X].Type) == "Several" && (f.Sel.Name == "lock" || f.Sel.Name == "unlock") {
		return "Entry", strings.ToUpper(f.Sel.Name[:1]) + f.Sel.Name[1:]
	}
	if !ok || f.Sel.Name != "Lock" && f.Sel.Name != "Unlock" {
		return "", ""
	}
	mu, ok := f.X.(*ast.SelectorExpr)
	if !ok || mu.Sel.Name != "mu" {
		return "", ""
	}
	return typeName(info.Types[mu.X].Type), f.Sel.Name
}

// callee is the function of these packages that is called, or nil.
func callee(info *types.Info, call *ast.CallExpr) *types.Func {
	var name *ast.Ident
	switch f := call.Fun.(type) {
	case *ast.Ident:
		name = f
	case *ast.SelectorExpr:
		name = f.Sel
	default:
		return nil
	}
	f, _ := info.Uses[name].(*types.Func)
	return f
}

// typeName is the name of a type, or of what it points to.
func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}
