//go:build linux || darwin

package chaos

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A report adds up what worlds found, and says how it goes on.
type report struct {
	t      *testing.T
	worlds []*world
	start  time.Time

	mu    sync.Mutex
	sum   *finding
	of    map[*world]*finding
	round int
	tty   *os.File // nil if there is no terminal
}

func newReport(t *testing.T, worlds []*world) *report {
	r := &report{
		t: t, worlds: worlds, start: time.Now(), sum: newFinding(), of: map[*world]*finding{},
	}
	for _, w := range worlds {
		r.of[w] = newFinding()
	}
	// go test gives tests a pipe, but a terminal may be there.
	if tty, err := os.OpenFile("/dev/tty", os.O_WRONLY, 0); err == nil && *duration > 0 {
		r.tty = tty
		t.Cleanup(func() { tty.Close() })
	}
	return r
}

// add adds what a round found.
func (r *report) add(w *world, n int, f *finding) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sum.add(f)
	r.of[w].add(f)
	r.round++
	line := fmt.Sprintf("%v of %v: %d rounds, %d decisions, %d kills, %d messages lost and %d "+
		"repeated, %d violations",
		time.Since(r.start).Round(time.Second), *duration, r.round, r.decisions(r.sum),
		r.sum.faults["kill"], r.lost(), r.repeated(), len(r.sum.violations))
	if r.tty != nil {
		fmt.Fprintf(r.tty, "\r\033[K%s", line)
	} else if *duration > 0 {
		r.t.Log(line)
	}
}

func (r *report) decisions(f *finding) (n int) {
	for _, x := range f.count {
		n += x
	}
	return n
}

func (r *report) lost() (n int64) {
	for _, w := range r.worlds {
		n += w.messages.lostRequests.Load() + w.messages.lostReplies.Load()
	}
	return n
}

func (r *report) repeated() (n int64) {
	for _, w := range r.worlds {
		n += w.messages.repeated.Load() + w.messages.late.Load()
	}
	return n
}

// print tells what was found.
func (r *report) print() {
	if r.tty != nil {
		fmt.Fprint(r.tty, "\r\033[K")
	}
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d, %v, %d rounds of %d processes\n", *seed,
		time.Since(r.start).Round(time.Second), r.round, *processes)
	fmt.Fprintf(&b, "messages lost %d, repeated %d\n", r.lost(), r.repeated())
	for _, w := range r.worlds {
		r.describe(&b, w.name, r.of[w])
		if w.harmful && r.of[w].panics == 0 {
			r.t.Errorf("%s: no logger has panicked", w.name)
		}
		for _, v := range r.of[w].violations {
			fmt.Fprintf(&b, "  VIOLATION %s\n", v)
		}
	}
	r.describe(&b, "all", r.sum)
	r.t.Log(b.String())
	if n := len(r.sum.unjudged); float64(n) > mostUnjudged*float64(r.sum.ends) {
		r.t.Errorf("of %d ends %d were not judged: the machine is too busy for this test",
			r.sum.ends, n)
	}
}

func (r *report) describe(b *strings.Builder, name string, f *finding) {
	fmt.Fprintf(b, "%s:\n  faults", name)
	for _, kind := range slices.Sorted(maps.Keys(f.faults)) {
		fmt.Fprintf(b, " %s %d,", kind, f.faults[kind])
	}
	c := f.count
	fmt.Fprintf(b, "\n  decisions %d: admitted %d, denied %d, by the outage policy %d and %d, "+
		"timed out %d, without a verdict %d\n",
		r.decisions(f), c[admitted], c[denied], c[shared], c[closed], c[abandoned], c[failed])
	fmt.Fprintf(b, "  several limits: overruled %d; reserved %d, settled %d, charged %d; refunded %d; "+
		"jobs with slots %d, %d of them did not release these\n",
		c[overruled], c[reserved], c[settled], c[charged], c[refunded], f.jobs, f.unfinished)
	fmt.Fprintf(b, "  worst excess over Burst + Rate*T, in Bursts: %.4f without loss of state, "+
		"%.4f beyond what is allowed\n   ", f.excess, f.beyond)
	for _, kind := range slices.Sorted(maps.Keys(f.excessOf)) {
		fmt.Fprintf(b, " %s %.4f,", kind, f.excessOf[kind])
	}
	fmt.Fprintf(b, "\n  slowest request %v; longest without a verdict %v, after the faults had "+
		"ended %v; shared after Redis was back %v\n",
		f.slowest.Round(time.Millisecond), f.unavailable.Round(time.Millisecond),
		f.recovery.Round(time.Millisecond), f.late.Round(time.Millisecond))
	fmt.Fprintf(b, "  tokens: %.0f of the %.0f of an ideal bucket, %.0f lost (%.1f %%)\n",
		f.spent, f.ideal, f.ideal-f.spent, 100*(1-f.spent/max(f.ideal, 1)))
	for _, kind := range slices.Sorted(maps.Keys(f.asked)) {
		if n := f.asked[kind]; n > 0 {
			fmt.Fprintf(b, "  %s: of %d requests that it does not concern %d have no verdict\n",
				kind, n, f.without[kind])
		}
	}
	if f.panics > 0 {
		fmt.Fprintf(b, "  loggers panicked %d times\n", f.panics)
	}
	fmt.Fprintf(b, "  violations %d, ends not judged %d of %d\n", len(f.violations),
		len(f.unjudged), f.ends)
}
