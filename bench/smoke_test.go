package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/zeromicro/go-zero/core/logx"

	"github.com/seed13b07268/ration/remote/redistest"
)

// TestMain lets the test binary be the proxy's process, too.
func TestMain(m *testing.M) {
	if target := os.Getenv(proxyVariable); target != "" {
		if err := runProxy(target); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	logx.Disable()
	os.Exit(m.Run())
}

func openBench(t *testing.T) *bench {
	t.Helper()
	redistest.Program(t) // or skip
	b, err := newBench(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	return b
}

var anything = regexp.MustCompile("")

var tiny = Load{
	Name: "tiny", Keys: 1, Goroutines: 4, Limit: generous, Generous: true,
	Warm: 50 * time.Millisecond, Long: 50 * time.Millisecond, Time: 20 * time.Millisecond,
}

// TestSmoke measures every subject for a moment, near and far, generous and
// exhausted: what cannot be opened, or is refused, shows here.
func TestSmoke(t *testing.T) {
	b := openBench(t)
	far, empty, fresh := tiny, tiny, tiny
	fresh.Name, fresh.Keys, fresh.New, fresh.Warm, fresh.Time = "fresh", 1000, true, 0, 0
	far.Name, far.Delayed = "far", true
	empty.Name, empty.Limit, empty.Generous = "empty", exhausted, false
	later := fresh
	later.Name, later.Long = "fresh, later", 500*time.Millisecond // slidingwindow waits for 100 ms
	all := append([]Subject{ration}, peers...)
	first := slices.DeleteFunc(slices.Clone(all), func(s Subject) bool {
		return s.Name == "slidingwindow"
	})
	report, err := b.run(t.Context(), Plan{
		Rounds: 1,
		Rows: []Row{
			{tiny, all, controlName}, {empty, all, controlName}, {fresh, first, controlName},
			{later, pick(all, controlName, "slidingwindow"), controlName},
			{far, append(policies[:3:3], peers[0]), controlName},
		},
		Locals: locals, LocalLong: 5 * time.Millisecond, Allocations: false, Costs: []int{8},
	}, newProgress(os.Stderr, 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range report.Rows {
		for _, x := range row.Results {
			if x.Refused != "" {
				t.Errorf("%s: %s is refused: %s", row.Load.Name, x.Name, x.Refused)
				continue
			}
			s := x.Samples[0]
			if s.Rate <= 0 || s.P50 <= 0 || s.ClientCPU <= 0 || s.ServerCPU <= 0 {
				t.Errorf("%s: %s: %+v", row.Load.Name, x.Name, s)
			}
			if row.Load.Delayed && x.Name == controlName && s.P50 < 1000 {
				t.Errorf("1 ms away the control takes %v µs", s.P50)
			}
			if row.Load.New && (x.Ours || x.plain()) && s.PerKey < 0.9 {
				t.Errorf("%s asks %v times for a new key", x.Name, s.PerKey)
			}
			if x.plain() && x.Name != "throttled" && (s.Calls < 0.95 || s.Calls > 1.05) {
				t.Errorf("%s: %s: %v calls per decision", row.Load.Name, x.Name, s.Calls)
			}
		}
	}
	for _, l := range report.Local {
		if l.Samples[0].One <= 0 {
			t.Errorf("%s: %+v", l.Name, l.Samples[0])
		}
	}
	if c := report.Costs[8]; len(c) != 1 || c[0].Exchange <= 0 || c[0].Control <= 0 {
		t.Errorf("costs %+v", c)
	}
	var page strings.Builder
	if err := report.Write(&page); err != nil {
		t.Error(err)
	}
}

// TestFakesAreRefused: two subjects that would win every table.
func TestFakesAreRefused(t *testing.T) {
	b := openBench(t)
	client := redis.NewClient(&redis.Options{Addr: b.server.Addr})
	defer client.Close()
	silent := Subject{Name: "never asks", Open: func(Env) (Limiter, error) {
		return Limiter{Allow: func(string) (bool, error) { return true, nil }, Close: func() {}}, nil
	}}
	lavish := Subject{Name: "asks and admits everything", Open: func(Env) (Limiter, error) {
		return Limiter{
			Allow: func(string) (bool, error) { return true, client.Eval(context.Background(), "return 1", nil).Err() },
			Close: func() {},
		}, nil
	}}
	empty := tiny
	empty.Limit, empty.Generous = exhausted, false
	for _, c := range []struct {
		subject Subject
		load    Load
		want    string
	}{
		{silent, tiny, "never asked Redis"},
		{lavish, tiny, ""}, // nothing is wrong with it there
		{lavish, empty, "admitted"},
	} {
		_, refused, err := b.measure(c.subject, c.load)
		if err != nil {
			t.Fatal(err)
		}
		if refused != "" != (c.want != "") || !strings.Contains(refused, c.want) {
			t.Errorf("%s is refused with %q, not %q", c.subject.Name, refused, c.want)
		}
	}
}

// TestInterrupted keeps what was measured before.
func TestInterrupted(t *testing.T) {
	b := openBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.done = ctx.Done()
	stopping := Subject{Name: "somebody presses Ctrl-C", Local: true, Open: func(Env) (Limiter, error) {
		cancel()
		return Limiter{Allow: func(string) (bool, error) { return true, nil }, Close: func() {}}, nil
	}}
	second, third := tiny, tiny
	second.Name, third.Name = "second", "third"
	report, err := b.run(ctx, Plan{Rounds: 1, Rows: []Row{
		{tiny, peers[:1], controlName}, {second, []Subject{stopping}, controlName}, {third, peers[:1], controlName},
	}}, newProgress(os.Stderr, 0))
	if err != nil || !report.Interrupted || len(report.Rows) != 1 || len(report.Rows[0].Results) != 1 {
		t.Errorf("interrupted %v, rows %+v, error %v", report.Interrupted, report.Rows, err)
	}
}

// TestAttachNeedsAnEmptyServer: somebody's data would be flushed.
func TestAttachNeedsAnEmptyServer(t *testing.T) {
	b := openBench(t)
	s, err := attach(b.server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := b.server.client.Set(t.Context(), "precious", 1, 0).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := attach(b.server.Addr); err == nil {
		t.Error("attached to a Redis with a key")
	}
}

// TestPlans: what the package's comment promises, as far as arithmetic can tell,
// and a row for each goal in both.
func TestPlans(t *testing.T) {
	for _, c := range []struct {
		quick bool
		most  time.Duration
	}{{true, 55 * time.Second}, {false, 20 * time.Minute}} {
		rounds := 5
		if c.quick {
			rounds = 2
		}
		all := newPlan(c.quick, rounds, anything, anything)
		if got := all.expected(); got > c.most {
			t.Errorf("quick %v: about %v", c.quick, got)
		}
		for _, id := range []string{
			hot64, zipf64, sparse64, exhausted64, delayedHot64, delayedCold, manyLocal,
			newEven64, newLater64,
		} {
			if !slices.ContainsFunc(all.Rows, func(r Row) bool { return r.Load.ID == id }) {
				t.Errorf("quick %v: no row %s", c.quick, id)
			}
		}
	}
}
