package lease_test

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func TestLimitValidate(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		limit lease.Limit
		want  string // part of the error; empty is none
	}{
		{lease.Limit{Rate: 1, Burst: 1}, ""},
		{lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst}, ""},
		{lease.Per(1, 30*24*time.Hour), ""},
		{lease.Limit{}, "Rate 0"},
		{lease.Limit{Rate: -1, Burst: 1}, "Rate -1"},
		{lease.Limit{Rate: nan, Burst: 1}, "Rate NaN"},
		{lease.Limit{Rate: inf, Burst: 1}, "Rate +Inf"},
		{lease.Limit{Rate: lease.MaxRate * 1.01, Burst: 1}, "Rate 4.3"},
		{lease.Limit{Rate: 1}, "Burst 0"},
		{lease.Limit{Rate: 1, Burst: -5}, "Burst -5"},
		{lease.Limit{Rate: 1, Burst: lease.MaxBurst + 1}, "Burst 4294967297"},
		{lease.Limit{Rate: 1e-9, Burst: 1}, "Rate 1e-09"},
		{lease.Per(nan, time.Second), "Rate NaN"},
		{lease.Per(inf, time.Second), "Rate +Inf"},
		{lease.Per(5, 0), "Rate +Inf"},
		{lease.Per(5, -time.Second), "Rate -5"},
	} {
		err := c.limit.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, lease.ErrInvalidLimit)) {
			t.Errorf("%+v: %v, want %q", c.limit, err, c.want)
		}
	}
}

func TestPolicyValidate(t *testing.T) {
	for _, c := range []struct {
		policy lease.Policy
		want   string
	}{
		{lease.Policy{}, ""},
		{lease.Policy{MinRefresh: time.Second}, ""},
		{lease.Policy{MaxRefresh: 5 * time.Millisecond}, ""},
		{lease.Policy{Mode: 9}, "Policy.Mode Mode(9)"},
		{lease.Policy{Fairness: -1}, "Policy.Fairness Fairness(-1)"},
		{lease.Policy{Batch: -1}, "Policy.Batch -1"},
		{lease.Policy{MinRefresh: time.Microsecond}, "Policy.MinRefresh 1µs"},
		{lease.Policy{MinRefresh: time.Second, MaxRefresh: time.Millisecond}, "Policy.MaxRefresh 1ms"},
		{lease.Policy{Headroom: math.NaN()}, "Policy.Headroom NaN"},
		{lease.Policy{BurstShare: 1.5}, "Policy.BurstShare 1.5"},
		{lease.Policy{Smallest: -1}, "Policy.Smallest -1"},
		{lease.Policy{Reserve: 1}, "Policy.Reserve 1"},
	} {
		err := c.policy.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", c.policy, err, c.want)
		}
	}
}

func TestRequestValidate(t *testing.T) {
	for _, c := range []struct {
		change func(*lease.Request)
		want   string
	}{
		{func(q *lease.Request) {}, ""},
		{func(q *lease.Request) { q.Holder = "" }, "Request.Holder"},
		{func(q *lease.Request) { q.Holder = strings.Repeat("x", 65) }, "Request.Holder"},
		{func(q *lease.Request) { q.Holder = "a b" }, "Request.Holder"},
		{func(q *lease.Request) { q.Seq = 0 }, "Request.Seq 0"},
		{func(q *lease.Request) { q.Seen = q.Seq }, "Request.Seen"},
		{func(q *lease.Request) { q.Take = 1.5 }, "Request.Take 1.5"},
		{func(q *lease.Request) { q.Min = 1 }, "Request.Min 1"},
		{func(q *lease.Request) { q.Held = math.NaN() }, "Request.Held NaN"},
		{func(q *lease.Request) { q.Give = -1 }, "Request.Give -1"},
		{func(q *lease.Request) { q.Demand = math.Inf(1) }, "Request.Demand +Inf"},
		{func(q *lease.Request) { q.Claim.Left = -1 }, "Request.Claim.Left"},
		{func(q *lease.Request) { q.Limit.Rate = 0 }, "Rate 0"},
		{func(q *lease.Request) { q.Policy.Reserve = 2 }, "Policy.Reserve 2"},
	} {
		q := ask("a", 5, c.change)
		err := q.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// TestPure: the package knows no clock, goroutine, lock or I/O.
func TestPure(t *testing.T) {
	allowed := map[string]bool{"cmp": true, "errors": true, "fmt": true, "math": true, "slices": true, "strings": true, "time": true}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			if path := strings.Trim(i.Path.Value, `"`); !allowed[path] {
				t.Errorf("%s imports %s", file, path)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SendStmt, *ast.SelectStmt, *ast.ChanType:
				t.Errorf("%s: %T", file, n)
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && strings.Contains("Now Since Until Sleep After AfterFunc Tick NewTimer NewTicker", n.Sel.Name) {
					t.Errorf("%s: time.%s", file, n.Sel.Name)
				}
			}
			return true
		})
	}
}
