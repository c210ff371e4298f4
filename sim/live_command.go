package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/live"
	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
)

const liveHelp = `Usage: go run ./sim live [flags] [scenario]

Plays a scenario in real time, each process with a limiter and connections of
its own, and prints what was measured beside what the simulation predicts for
the same requests, faults and round trips. It takes as long as the scenario
says; steady, the default, is shortened to 12s with 2s of warm-up. A log takes as
long as it took: -duration cuts it, -speedup makes it denser.

Without -redis the processes share a Redis inside this program. It needs no
server, but its Lua is slow and takes its time from the fleet.

  go run ./sim live -redis localhost:6379
  go run ./sim live -redis localhost:6379 -separate crashes
  go run ./sim live -redis localhost:6379 -check
`

// processFlag makes this program a process of a live run; see live.Play. It is
// not for people.
const processFlag = "-process"

// liveFlags are those of `sim live`.
type liveFlags struct {
	redis                 string
	separate, json, check bool
	replications          int
	seed                  uint64
}

// liveCommand is `sim live`.
func liveCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	logging.Disable() // of go-redis: what matters comes back as an error
	if slices.Equal(args, []string{processFlag}) {
		return live.Play(ctx, os.Stdin, os.Stdout)
	}
	var f liveFlags
	s := newSettings("live", liveHelp)
	s.set.StringVar(&f.redis, "redis", "",
		"real Redis at `ADDR`, host:port or redis://user:password@host:port/db. Its keys get a random "+
			"prefix and are deleted at the end; nothing else is touched")
	s.set.BoolVar(&f.separate, "separate", false,
		"let each process be one of the operating system; a crash kills it")
	s.set.BoolVar(&f.json, "json", false, "print everything as one JSON object")
	s.set.BoolVar(&f.check, "check", false,
		"play three scenarios, a minute and a half together, and fail if a prediction is off by more "+
			"than its tolerance")
	s.set.IntVar(&s.replications, "replications", measure.Predictions, "predict `N` times")
	s.least = 1
	c, err := s.parse(ctx, args, stdout, stderr)
	if err != nil {
		return err
	}
	f.seed, f.replications = s.seed, s.replications
	if f.check {
		if len(s.assignments) > 0 || f.json || c.Name != "steady" {
			return usageError{errors.New("-check has scenarios of its own: it goes with -redis, " +
				"-separate, -replications and -seed")}
		}
		return checkCommand(ctx, &f, stdout, stderr)
	}
	if err := s.shorten(c); err != nil {
		return usageError{err}
	}
	r, err := f.play(ctx, c, stderr)
	if r == nil {
		return err
	}
	if f.json {
		return errors.Join(writeJSON(stdout, r), err)
	}
	r.printText(stdout)
	return err
}

// shorten makes the scenario steady one that people wait for, unless they say
// how long, or a log does.
func (s *settings) shorten(c *scenario.Scenario) error {
	if c.Name != "steady" || s.sets("duration") || s.sets("warmup") || c.Replay() != nil {
		return nil
	}
	return errors.Join(c.Set("duration", "12s"), c.Set("warmup", "2s"), c.Resolve())
}

// liveRun is all that `sim live` has found.
type liveRun struct {
	head
	Scenario *scenario.Scenario `json:"scenario"`
	live.Extra
	Measured   *engine.Result   `json:"measured"`
	Predicted  []*engine.Result `json:"predicted"`
	Comparison []live.Row       `json:"comparison"`
}

// play plays a scenario and predicts it. After an interrupt it returns what was
// measured until then and errInterrupted.
func (f *liveFlags) play(
	ctx context.Context, c *scenario.Scenario, stderr io.Writer,
) (*liveRun, error) {
	o := live.Options{Redis: f.redis, Seed: f.seed, Progress: new(live.Progress)}
	if f.separate {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		o.Separate = []string{self, "live", processFlag}
	}
	stop := showLine(stderr, func(elapsed time.Duration) string {
		return fmt.Sprintf("%s: %5.1f of %.1f s  %s requests  %s admitted", c.Name, elapsed.Seconds(),
			c.Duration.Seconds(),
			thousands(o.Progress.Fired.Load()), thousands(o.Progress.Admitted.Load()))
	})
	measured, extra, err := live.Run(ctx, c, o)
	stop()
	interrupted := ctx.Err() != nil
	switch {
	case interrupted && measured == nil:
		return nil, errInterrupted
	case interrupted:
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		if err = errors.Join(errInterrupted, err); measured.Seconds == 0 {
			return nil, err
		}
	case errors.Is(err, live.ErrAddress), errors.Is(err, live.ErrUnsupported):
		return nil, usageError{err}
	case err != nil:
		return nil, err
	}
	r := &liveRun{
		head: head{schema, "live", f.seed, interrupted}, Scenario: c, Extra: extra, Measured: measured,
	}
	var unpredicted error
	// An interrupt is not for the prediction, which takes a moment.
	r.Predicted, unpredicted = live.Predict(context.WithoutCancel(ctx), c, measured, extra,
		f.seed, f.replications)
	undisturbed, unknown := live.Predict(context.WithoutCancel(ctx), c, measured, extra.Undisturbed(),
		f.seed, f.replications)
	r.Comparison = live.Compare(measured, r.Predicted, undisturbed)
	return r, errors.Join(err, unpredicted, unknown)
}

const (
	lateHint   = 10 * time.Millisecond // p99
	silentHint = 0.01                  // of the requests, while the embedded Redis does not answer
)

func (r *liveRun) printText(w io.Writer) {
	m := r.Measured
	printScenario(w, r.Scenario)
	if r.Interrupted {
		fmt.Fprintf(w, "INTERRUPTED: the figures are of what was played until then, %.4g s of it "+
			"measured.\n\n", m.Seconds)
	}
	fmt.Fprintf(w, "%s requests in %.4g s, %s admitted and %s denied, on %s Redis%s\n",
		thousands(m.Requests), m.Seconds, thousands(m.Admitted), thousands(m.Denied), r.Redis,
		r.processesText())
	fmt.Fprintf(w, "%s tokens admitted and %s denied\n", count(m.TokensAdmitted),
		count(m.TokensDenied))
	fmt.Fprintf(w, "%s Redis calls, %s/s, in %s round trips of %s, p99 %s\n", thousands(m.Calls),
		brief(m.CallsPerSecond), thousands(r.RoundTrips), span(r.trip(0.5)), span(r.trip(0.99)))
	cpu := figureOf("redis_cpu")
	fmt.Fprintf(w, "Redis CPU: %s %s\n", cpu.text(cpu.of(m)), cpu.note)
	fmt.Fprintf(w, "decisions: p50 %s, p90 %s, p99 %s, p999 %s\n",
		span(m.LatencyP50), span(m.LatencyP90), span(m.LatencyP99), span(m.LatencyP999))
	fmt.Fprintf(w, "fired %s late (p99), at most %s\n", span(r.LateP99), span(r.LateMax))
	if silent := m.Unanswered + m.ByOutage; silent > 0 {
		fmt.Fprintf(w, "%s requests without an answer of Redis, %s of them decided by the outage "+
			"policy\n", thousands(silent), thousands(m.ByOutage))
	}
	fmt.Fprintln(w)
	fmt.Fprint(w, table(comparisonHead(len(r.Predicted)), r.rows("")))
	printBreakdowns(w, "", []*engine.Result{m})
	printKeys(w, "The", []*engine.Result{m})
	fmt.Fprintf(w, "\nPredicted: the mean of %d simulations of these requests as they were fired, "+
		"with the faults, and with\nthe round trips and delays that were measured.\n", len(r.Predicted))
	fmt.Fprintf(w,
		"Tokens over what the limit promises in the worst window: %s; promised: at most %s%s.\n",
		tokens(m.Excess), tokens(m.ExcessAllowed), r.outageText())
	r.printHints(w)
}

func (r *liveRun) processesText() string {
	if r.Separate {
		return ", by separate processes"
	}
	return ""
}

// outageText says what the promise does not hold for.
func (r *liveRun) outageText() string {
	if !r.Measured.Excused {
		return ""
	}
	return fmt.Sprintf(", but for %s decisions of the outage policy", thousands(r.Measured.ByOutage))
}

// trip is a quantile of the round trips, seconds.
func (r *liveRun) trip(q float64) float64 {
	if len(r.Trips) == 0 {
		return 0
	}
	sorted := slices.SortedFunc(slices.Values(r.Trips), func(a, b live.Lapse) int {
		return cmp.Compare(a.Took, b.Took)
	})
	return sorted[int(q*float64(len(sorted)-1))].Took.Seconds()
}

// comparisonHead is that of a comparison with so many simulations.
func comparisonHead(n int) []string {
	return []string{"", "predicted", fmt.Sprintf("%.0f %% of runs in", 100*measure.Covered(n)), "measured", "",
		"difference", "tolerance", ""}
}

// rows are the lines of the comparison, or, with a name before them, those that
// are judged.
func (r *liveRun) rows(name string) (rows [][]string) {
	for _, row := range r.Comparison {
		f := figureOf(row.Name)
		if f.tells != nil && !f.tells(r.Measured) {
			continue
		}
		title := f.title
		if name != "" {
			if row.Tolerance == 0 {
				continue
			}
			title = name + ": " + title
		}
		difference, tolerance, verdict := f.signed(row.Difference), "", ""
		points := f.name == "utilisation" || f.name == "floors"
		switch {
		case row.Relative:
			difference = fmt.Sprintf("%+.1f %%", 100*row.Difference)
		case points:
			difference = fmt.Sprintf("%+.2f points", 100*row.Difference)
		}
		if row.Tolerance > 0 {
			verdict = "ok"
			if !row.OK {
				verdict = "OFF"
			}
			switch {
			case row.Relative:
				tolerance = fmt.Sprintf("%.0f %%", 100*row.Tolerance)
			case points:
				tolerance = fmt.Sprintf("%.0f point", 100*row.Tolerance)
			default:
				tolerance = fmt.Sprint(row.Tolerance)
			}
		}
		rows = append(rows, []string{title, f.text(row.Predicted.Mean), f.interval(row.Predicted),
			f.text(row.Measured), inside(row), difference, tolerance, verdict})
	}
	return rows
}

// inside says where a measure lies, if there is an interval.
func inside(row live.Row) string {
	switch {
	case row.Predicted.N < 2:
		return ""
	case row.Inside:
		return "inside"
	}
	return "outside"
}

// late reports whether requests were fired so late that it tells on the figures. Requests that
// come within a round trip share an exchange: where something is not as predicted, lateness of
// more than that is enough.
func (r *liveRun) late() bool {
	off := slices.ContainsFunc(r.Comparison, func(row live.Row) bool {
		return row.Tolerance > 0 && !row.Inside
	})
	return r.LateP99 > lateHint.Seconds() || off && r.LateP99 > r.trip(0.5)
}

// printHints says what to do where the machine was too slow for the load.
func (r *liveRun) printHints(w io.Writer) {
	m := r.Measured
	late := r.late()
	if r.Lost > 0 {
		fmt.Fprintf(w, "\n%s requests had no answer yet when their process was killed, or had not yet "+
			"told it: they count nowhere.\n", thousands(r.Lost))
	}
	if late {
		fmt.Fprint(w, "\nHint: this machine could not fire all requests in time. "+
			"What came late came in bursts\n"+
			"that were not planned, and shared exchanges. Lower load.offered, limit or processes,\n"+
			"or play on a machine that has nothing else to do.\n")
	}
	silent := measure.Ratio(m.Unanswered+m.ByOutage, m.Requests)
	if r.Redis == live.Embedded && len(r.Scenario.Faults) == 0 && (silent >= silentHint || late) {
		fmt.Fprint(w, "\nHint: the embedded Redis is too slow for this load, and what it does not "+
			"answer in time\n"+
			"looks like an outage. Use a real one, -redis ADDR, or fewer processes and keys.\n")
	}
}

// checks are the scenarios of -check. Their loads are modest, so that an
// ordinary machine fires them in time, and they are long enough for some 2,000
// exchanges: their number is a matter of chance, too. The timeout is the default
// one, so that a machine which stops for a moment is no outage.
var checks = []string{
	"name: steady\nprocesses: 30\nduration: 32s\nbalance: {skew: 1}\n" + checked,
	"name: hot-moves\nprocesses: 30\nduration: 32s\nbalance: {skew: 1, moves: 1s}\n" + checked,
	"name: on-off\nprocesses: 10\nduration: 22s\nbalance: {by: own, on_off: {on: 300ms, " +
		"period: 1s}}\n" + checked,
}

const checked = "limit: 1000/s\nwarmup: 2s\nload: {offered: 2}\nredis: " +
	"{latency: 1ms, jitter: 0.5}\n"

// checkTries is how often a scenario of -check is played at most. It is played
// again when the machine fired requests late (lateHint): a prediction is for
// those that come in time.
const checkTries = 3

// checkCommand is `sim live -check`.
func checkCommand(ctx context.Context, f *liveFlags, stdout, stderr io.Writer) error {
	var rows [][]string
	var notes []string
	off := 0
	var err error
	for _, text := range checks {
		c, bad := scenario.Of(text)
		if bad != nil {
			return bad
		}
		var r *liveRun
		tries := 0
		for tries < checkTries && err == nil && (r == nil || r.LateP99 > lateHint.Seconds()) {
			r, err = f.play(ctx, c, stderr)
			tries++
		}
		if err != nil {
			break
		}
		rows = append(rows, r.rows(c.Name)...)
		off += r.off()
		note := r.checkNote()
		if tries > 1 {
			note += fmt.Sprintf("; played %d times, because requests were fired late", tries)
		}
		notes = append(notes, note)
	}
	if len(rows) > 0 {
		fmt.Fprintf(stdout, "%s\n%s\n", table(comparisonHead(f.replications), rows), strings.Join(notes, "\n"))
	}
	if err == nil && off > 0 {
		err = fmt.Errorf("measures that are off by more than their tolerance: %d", off)
	}
	return err
}

// off is how many measures are, the promise among them.
func (r *liveRun) off() (n int) {
	if r.Measured.Excess > r.Measured.ExcessAllowed && !r.Measured.Excused {
		n++
	}
	for _, row := range r.Comparison {
		if !row.OK {
			n++
		}
	}
	return n
}

// checkNote is what one has to know to believe the figures.
func (r *liveRun) checkNote() string {
	return fmt.Sprintf("%s: %s Redis%s; round trips of %s, p99 %s; fired %s late (p99); excess %s "+
		"of at most %s tokens%s",
		r.Scenario.Name, r.Redis, r.processesText(), span(r.trip(0.5)), span(r.trip(0.99)),
		span(r.LateP99),
		tokens(r.Measured.Excess), tokens(r.Measured.ExcessAllowed), r.outageText())
}
