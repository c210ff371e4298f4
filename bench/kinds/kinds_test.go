package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
)

// TestKinds: every subject under every load, for a moment. None admits more than its limit but
// two counters, which are known to: theirs is at most twice as much.
func TestKinds(t *testing.T) {
	redistest.Program(t) // or skip
	for _, k := range kinds(true) {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := openServer(t)
			rows, err := k.measure(t.Context(), s, &progress{w: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) < len(k.loads)*len(k.subjects) {
				t.Errorf("%d rows", len(rows))
			}
			for _, r := range rows {
				checkRow(t, k, r)
			}
		})
	}
}

// still is how long the machine has to stand still to leave hardly anything of a round for a
// moment.
const still = 100 * time.Millisecond

func checkRow(t *testing.T, k kind, r row) {
	t.Helper()
	at := func(figure int) float64 { return r.figures[figure] }
	if at(stood) > float64(still) {
		t.Logf("%s, %s, %s is not judged: the machine stood still for %v", r.load, r.place, r.subject,
			time.Duration(at(stood)))
		return
	}
	bad := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %s, %s: "+format, append([]any{r.load, r.place, r.subject}, args...)...)
	}
	if r.refused != "" {
		bad("refused: %s", r.refused)
		return
	}
	limit, least, atMost := 1.0, 0.99, 1.01
	if r.subject == "two counters" {
		limit = 2
	}
	if k.name == "slots" { // acquired and released; a wait costs more
		least, atMost = 1.9, math.Inf(1)
	}
	switch {
	case at(most) > limit:
		bad("admitted %v of its limit", at(most))
	case !(at(p50) > 0 && at(p99) >= at(p50)):
		bad("p50 %v, p99 %v", at(p50), at(p99))
	case r.subject != "ration" && !(at(calls) >= least && at(calls) <= atMost):
		bad("%v calls each", at(calls))
	case r.subject == "ration" && r.load == "out of reach" && at(calls) > 0.5:
		bad("%v calls each, with a lease", at(calls))
	case r.subject != "ration" && r.place == far && at(p50) < float64(added) && at(most) < 1:
		bad("a far decision takes %v ns", at(p50))
	case r.load == "out of reach" && !(at(rate) > 0 && at(used) > 0.99):
		bad("%v a second, %v admitted", at(rate), at(used))
	case r.load != "out of reach" && (!(at(size) > 0) || at(used) < 0.2):
		bad("%v bytes a key, %v of the ideal", at(size), at(used))
	}
}

func openServer(t *testing.T) *server {
	t.Helper()
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	return s
}

// TestLavishIsSeen: a subject that admits everything.
func TestLavishIsSeen(t *testing.T) {
	redistest.Program(t) // or skip
	t.Parallel()
	s := openServer(t)
	for _, k := range kinds(true) {
		l := k.loads[1]
		l.places, l.limit.n, l.long = []string{near}, 5, 100*time.Millisecond
		l.warm, l.phase = 0, 0
		if k.ideal == nil {
			l.phase = -1
		}
		k.loads = []load{l}
		k.subjects = []subject{{"lavish", func(string, int, limit) (*process, error) {
			release := func() error { return nil }
			if k.ideal != nil {
				release = nil
			}
			return &process{
				take:   func(context.Context, string) (bool, func() error, error) { return true, release, nil },
				close:  func() {},
				astray: func() uint64 { return 0 },
			}, nil
		}}}
		for try := 1; ; try++ {
			rows, err := k.measure(t.Context(), s, &progress{w: io.Discard})
			if err != nil {
				t.Fatal(err)
			}
			f := rows[0].figures
			if f[most] > 1 {
				break
			}
			if f[most] > 0 || try == 10 { // else a busy machine got to ask for nothing in 100 ms
				t.Errorf("%s: %v of the limit, %v of the ideal", k.name, f[most], f[used])
				break
			}
		}
	}
}

func TestJudges(t *testing.T) {
	spans := func(at ...int64) (all []span) {
		for i := 0; i < len(at); i += 2 {
			all = append(all, span{0, at[i], at[i+1]})
		}
		return all
	}
	for _, c := range []struct {
		name                string
		spans               []span
		calendar, any, once int // with windows of 10
	}{
		{"none", nil, 0, 0, 0},
		{"apart", spans(1, 2, 12, 13, 23, 24), 1, 1, 1},
		{"at a boundary", spans(8, 8, 9, 9, 10, 10, 11, 11), 2, 4, 0},
		{"over the boundary, in either window", spans(8, 9, 9, 10, 11, 12), 1, 3, 1},
		{"a window later", spans(0, 0, 10, 10), 1, 1, 0},
		{"at once", spans(0, 5, 2, 3, 3, 9, 4, 6), 4, 4, 3},
		{"one after another", spans(0, 2, 2, 4, 4, 6), 3, 3, 1},
	} {
		if got := mostInCalendar(c.spans, 10); got != c.calendar {
			t.Errorf("%s: %d in a window of the calendar, not %d", c.name, got, c.calendar)
		}
		if got := mostInAny(c.spans, 10); got != c.any {
			t.Errorf("%s: %d in a window, not %d", c.name, got, c.any)
		}
		if got := mostAtOnce(c.spans, 10); got != c.once {
			t.Errorf("%s: %d at once, not %d", c.name, got, c.once)
		}
	}
	at := []int64{0, 1, 2, 9, 10, 11, 12, 19, 20}
	if got := idealQuota(at, limit{2, 10}); got != 5 {
		t.Errorf("a quota admits %d", got)
	}
	if got := idealLog(at, limit{3, 10}); got != 7 { // 0 1 2, 10 11 12, 20
		t.Errorf("a log admits %d", got)
	}
	at = []int64{0, 1, 2, 10, 11, 30, 31, 32}
	if got := idealBucket(at, limit{4, 10}); got != 6 { // two at once, and one in 5
		t.Errorf("a bucket admits %d", got)
	}
}

// TestInterrupted prints what is complete.
func TestInterrupted(t *testing.T) {
	redistest.Program(t) // or skip
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var out bytes.Buffer
	second := writer(func(text string) {
		if strings.Contains(text, "out of reach, far") {
			cancel()
		}
	})
	err := run(ctx, options{short: true, only: "slots"}, &out, second)
	if !errors.Is(err, errInterrupted) ||
		!strings.Contains(out.String(), "| out of reach | near | ration |") ||
		strings.Contains(out.String(), "| out of reach | far |") {
		t.Errorf("%v\n%s", err, &out)
	}
	if err := run(t.Context(), options{only: "bucket"}, io.Discard, io.Discard); err == nil ||
		!strings.Contains(err.Error(), `"bucket"`) {
		t.Errorf("-only bucket: %v", err)
	}
}

type writer func(text string)

func (w writer) Write(p []byte) (int, error) { w(string(p)); return len(p), nil }

func TestLosses(t *testing.T) {
	f := func(used_, most_, p50_ float64) (f figures) {
		for i := range f {
			f[i] = math.NaN()
		}
		f[used], f[most], f[p50] = used_, most_, p50_
		return f
	}
	var b strings.Builder
	printLosses(&b, []row{
		{load: "a", place: near, subject: "ration", figures: f(0.9, 1, 1e6)},
		{load: "a", place: near, subject: "better", figures: f(0.95, 0.5, 1.1e6)},
		{load: "a", place: near, subject: "best", figures: f(1, 1, 5e5)},
		{load: "a", place: near, subject: "lavish", figures: f(2, 2, 6e5)},
		{load: "a", place: far, subject: "other place", figures: f(1, 1, 1e5)},
	})
	want := []string{
		"| a | near | p50 | 1 ms | 500 µs | best |",
		"| a | near | of the ideal | 90.0 % | 100.0 % | best |",
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	if len(lines) != 4 || lines[2] != want[0] || lines[3] != want[1] {
		t.Errorf("%s", b.String())
	}
}
