package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestAll: little of everything, its tables and its figure, and the same
// figure again from what was kept.
func TestAll(t *testing.T) {
	redistest.Program(t) // or skip
	dir := t.TempDir()
	first, again := filepath.Join(dir, "first.svg"), filepath.Join(dir, "again.svg")
	raw := filepath.Join(dir, "raw.json")
	var out, repeated bytes.Buffer
	if err := run(options{short: true, svg: first, raw: raw}, &out); err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{
		"| keys |", "| holders | exchange, script |", "| holders | token bucket |",
		"| holders | exchanges/s,", "| kind |", "| GOMAXPROCS |", "| added |",
	} {
		if !strings.Contains(out.String(), head) {
			t.Errorf("no table %s", head)
		}
	}
	if strings.Contains(out.String(), "NaN") {
		t.Errorf("not a number:\n%s", &out)
	}
	if err := run(options{from: raw, svg: again}, &repeated); err != nil {
		t.Fatal(err)
	}
	a, _ := os.ReadFile(first)
	b, _ := os.ReadFile(again)
	for _, limit := range []string{
		"MaxKeys by default", "a key has 65,535 at most", "limit: a core of Redis", "cores",
		"all cores read the clock", "Timeout by default, 250ms", "MaxAsks",
	} {
		if !bytes.Contains(a, []byte(limit)) {
			t.Errorf("the figure lacks %q", limit)
		}
	}
	if out.String() != repeated.String() || len(a) < 1000 || !bytes.Equal(a, b) {
		t.Errorf("drawn again it is another figure, of %d and %d bytes:\n%s%s", len(a), len(b), &out, &repeated)
	}
	for _, o := range []options{
		{short: true, cluster: true}, {short: true, fleet: true}, {short: true, lines: true},
	} {
		out.Reset()
		if err := run(o, &out); err != nil || strings.Contains(out.String(), "NaN") {
			t.Errorf("%+v: %v\n%s", o, err, &out)
		}
	}
}

// TestLimits: what the panels draw is in force.
func TestLimits(t *testing.T) {
	var ledger lease.Ledger
	for i := range maxHolders + 1 {
		r := ledger.Exchange(time.Hour, lease.Request{
			Holder: strconv.Itoa(i), Seq: 1, Limit: lease.Limit{Rate: 1000, Burst: 1000},
			Policy: lease.Policy{}.Resolved(),
		})
		if r.Stale != (i == maxHolders) {
			t.Fatalf("holder %d: stale is %v", i, r.Stale)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		store := make(hanging, 1)
		l, err := hybrid.New(store, hybrid.Config{Limit: hybrid.PerSecond(1e6)})
		if err != nil {
			t.Fatal(err)
		}
		l.Allow("k")
		if took := <-store; took != storeTime {
			t.Errorf("an exchange may take %v, not %v", took, storeTime)
		}
		_ = l.Close(t.Context()) // it cannot hand back anything
	})
}

// A hanging store tells how long its first exchange may take.
type hanging chan time.Duration

func (h hanging) Exchange(ctx context.Context, calls []*lease.Call) {
	start := time.Now()
	<-ctx.Done()
	for _, c := range calls {
		c.Err = ctx.Err()
	}
	select {
	case h <- time.Since(start):
	default:
	}
}

func TestCollisions(t *testing.T) {
	for _, c := range []struct {
		running, lanes int
		want           float64
	}{{1, 16, 0}, {2, 16, 1. / 16}, {2, 2, 0.5}, {64, 128, 0.39}} {
		if got := collisions(c.running, c.lanes); math.Abs(got-c.want) > 0.002 {
			t.Errorf("%d goroutines in %d lanes: %v, want %v", c.running, c.lanes, got, c.want)
		}
	}
}
