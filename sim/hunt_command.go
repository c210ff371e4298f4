package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed13b07268/ration/sim/hunt"
	"github.com/seed13b07268/ration/sim/scenario"
)

const huntHelp = `Usage: go run ./sim hunt [flags]

Draws scenes at random and plays each with the default policy, with a call for
each request, and with a few fixed policies, on the same requests. Prints what
falls short (docs/hunt.md says what that means), and the worst scenes, made as
simple as they can be. Ends with 1 at any token above the envelope.

  go run ./sim hunt -scenes 50
  go run ./sim hunt -seed 7 -minutes 10 -html hunt.html -out worst/
  go run ./sim hunt -class near -scenes 50              only scenes near the limit
  go run ./sim hunt -seed 7 -first 31 -scenes 1         only scene 31
  go run ./sim hunt -limits quotas -scenes 50           the same scenes, with quotas
  go run ./sim hunt -limits sliding -scenes 50          the same, with sliding windows
  go run ./sim hunt -limits slots -scenes 50            with slots, and jobs
  go run ./sim hunt -limits pairs -scenes 50            and with a second limit for all
  go run ./sim hunt -limits classes -scenes 50          and with classes of requests
  go run ./sim hunt -limits quota-classes -scenes 50    with quotas, and classes
  go run ./sim hunt -limits waits -scenes 50            with callers who all wait
  go run ./sim hunt -json > before.json                 then change the protocol, and:
  go run ./sim hunt -against before.json
`

// huntFlags are what the command line says.
type huntFlags struct {
	hunt.Options
	minutes            float64
	html, out, against string
	json, failing      bool
	known              map[int]float64 // scenes that may fall short, with the score that they may have
}

func (f *huntFlags) parse(args []string, stdout io.Writer) error {
	set := newFlags("hunt")
	set.Uint64Var(&f.Seed, "seed", 1, "`N` that decides all that is random, below 10^12")
	set.IntVar(&f.First, "first", 0, "number `N` of the first scene")
	set.IntVar(&f.Scenes, "scenes", 200, "play `N` scenes")
	f.Class = hunt.Both
	set.Func("class", "play scenes of `CLASS`: wide, near or both (default both)",
		chosen(&f.Class, hunt.ClassNames))
	set.Func("limits", "play scenes with `KIND` of limits: buckets, quotas, pairs, sliding, "+
		"slots, classes, quota-classes or waits (default buckets)", chosen(&f.Limits, hunt.LimitNames))
	set.Float64Var(&f.minutes, "minutes", 0, "begin no scene after `M` minutes; 0 is no end")
	set.BoolVar(&f.Rivals, "rivals", true, "play the fixed policies, too")
	set.IntVar(&f.Worst, "worst", 10, "make the `N` worst scenes simpler")
	set.Float64Var(&f.Effort, "effort", 0.1, "which may simulate as much as `X` times the hunt before")
	set.StringVar(&f.out, "out", "", "write the worst scenes to `FOLDER`, as YAML for sim run")
	set.StringVar(&f.html, "html", "", "also write a page with charts to `FILE`; it needs no network")
	set.BoolVar(&f.json, "json", false, "print a JSON object for each scene")
	set.StringVar(&f.against, "against", "", "compare with what -json has printed, in `FILE`")
	set.BoolVar(&f.failing, "fail", false, "end with 1 if anything falls short")
	set.Func("except", "with -fail: `SCENES` that fall short, by which score at most, as 7:1.50,31:2",
		f.except)
	if err := parseFlags(set, huntHelp, args, stdout, "scenes are drawn, not named"); err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return usageError{err}
	}
	if f.minutes > 0 {
		f.Until = time.Now().Add(time.Duration(f.minutes * float64(time.Minute)))
	}
	return nil
}

// check returns an error that names the flag and its value if one is out of its range.
func (f *huntFlags) check() error {
	if f.json && f.against != "" {
		return errors.New("-json and -against: one of them")
	}
	o := outputs{html: f.html}
	return errors.Join(inRange("seed", f.Seed, 0, 1e12-1), inRange("first", f.First, 0, 1e6-1e5-1),
		inRange("scenes", f.Scenes, 1, 1e5), inRange("worst", f.Worst, 0, 1e5),
		inRange("effort", f.Effort, 0, 1e5), inRange("minutes", f.minutes, 0, 1e5), o.check())
}

// chosen sets a number to the place of a name.
func chosen[T ~int](of *T, names []string) func(string) error {
	return func(name string) error {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("want %s", strings.Join(names, ", "))
		}
		*of = T(i)
		return nil
	}
}

// except reads -except.
func (f *huntFlags) except(list string) error {
	f.known = map[int]float64{}
	for _, x := range strings.Split(list, ",") {
		number, score, _ := strings.Cut(x, ":")
		n, err := strconv.Atoi(number)
		most, err2 := strconv.ParseFloat(score, 64)
		if err != nil || err2 != nil || n < 0 || !(most > 0) {
			return fmt.Errorf("%q is no scene with its score, as 7:1.50", x)
		}
		f.known[n] = most
	}
	return nil
}

// huntCommand is `sim hunt`.
func huntCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f huntFlags
	if err := f.parse(args, stdout); err != nil {
		return err
	}
	before, err := f.prepare()
	if err != nil {
		return err
	}
	f.Progress = new(atomic.Int64)
	stop := showBar(stderr, "hunting", float64(f.Scenes+f.Worst), f.Progress)
	r, err := hunt.Run(ctx, f.Options)
	stop()
	if excess, ok := hunt.IsExcess(err); ok {
		fmt.Fprintf(stdout, "EXCESS: %v\n\nFor sim run FILE -seed %d -replications %d:\n\n%s",
			excess, excess.Scene.Seed, excess.Replication+1, excess.Scene.Text())
		return excess
	}
	if err == nil && len(r.Judgements) == 0 {
		return fmt.Errorf("no scene was begun within -minutes %v", f.minutes)
	}
	canceled := errors.Is(err, context.Canceled)
	if canceled {
		err = errInterrupted
	}
	if err != nil && !canceled || len(r.Judgements) == 0 {
		return err
	}
	written := f.write(stdout, r, before, args, canceled)
	if err == nil && written == nil && f.failing {
		return f.unknown(r)
	}
	return errors.Join(err, written)
}

// unknown is an error if a scene falls short that is not known to, or by more than is
// known, or if a known one does not any more.
func (f *huntFlags) unknown(r *hunt.Report) error {
	var list []string
	for _, j := range r.Judgements {
		n, score := j.Scene.Number, math.Ceil(100*j.Score)/100
		most, known := f.known[n]
		switch {
		case known && !j.Short():
			list = append(list, fmt.Sprintf("%d does not any more", n))
		case j.Short() && score > most:
			list = append(list, fmt.Sprintf("%d:%.2f", n, score))
		}
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("scenes fall short otherwise than -except says: %s", strings.Join(list, ", "))
}

// prepare does what is better known to fail before an hour of work. It returns the
// report to compare with, or nil.
func (f *huntFlags) prepare() (before *hunt.Report, err error) {
	if f.out != "" {
		if err := os.MkdirAll(f.out, 0o777); err != nil {
			return nil, err
		}
	}
	if f.against == "" {
		return nil, nil
	}
	file, err := os.Open(f.against)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return hunt.Read(file)
}

// write prints the report as the flags say.
func (f *huntFlags) write(
	w io.Writer, r, before *hunt.Report, args []string, interrupted bool,
) error {
	var err error
	if f.out != "" {
		for _, j := range r.Shrunk {
			name := filepath.Join(f.out, j.Scene.Name+".yaml")
			err = errors.Join(err, os.WriteFile(name, []byte(huntYAML(j)), 0o666))
		}
	}
	if f.html != "" {
		err = errors.Join(err, writeFile(f.html, func(w io.Writer) error { return huntPage(w, r, commandLine("hunt", args)) }))
	}
	if f.json {
		return errors.Join(err, r.Write(w))
	}
	if interrupted {
		fmt.Fprintf(w, "INTERRUPTED after %d scenes.\n\n", len(r.Judgements))
	}
	printHunt(w, r)
	if before == nil {
		return err
	}
	changes, compareErr := r.Against(before)
	printChanges(w, changes)
	return errors.Join(err, compareErr)
}

// aspectRows say what each aspect counts, in the order of hunt.Aspects.
var aspectRows = []struct {
	text string
	unit func(float64) string
}{
	{"utilisation, more than 1 point below a call for each request", points},
	{"calls per request, more than a call for each request", four},
	{"calls per request, more than 1.2 x the cheapest fixed policy", four},
	{"worst process's share, more than a tenth below", four},
	{"longest starvation, more than a tenth above", span},
	{"decision p99, more than a tenth above", span},
	{"tokens that better division would not lose, more than 1 %", percent},
	{"a class alone, more than 1 % below an ideal limit", percent},
	{"floors, more than a point of the limit below in a window of 2 s", points},
	{"worst class, more than a tenth below its fair share", four},
}

func points(x float64) string { return fmt.Sprintf("%.1f points", 100*x) }

// huntRows count what falls short.
func huntRows(r *hunt.Report) (rows [][]string) {
	for a, row := range aspectRows {
		if hunt.Aspect(a) > hunt.Avoidable && !r.Limits.Classed() {
			break // the others are of classes
		}
		n, worst := r.Short(hunt.Aspect(a))
		text := "-"
		if n > 0 {
			text = row.unit(worst)
		}
		rows = append(rows, []string{row.text, fmt.Sprint(n), text})
	}
	return rows
}

// printHunt prints what `sim hunt` has found.
func printHunt(w io.Writer, r *hunt.Report) {
	limits := ""
	if r.Limits != hunt.Buckets {
		limits = " with " + hunt.LimitNames[r.Limits]
	}
	class, near := hunt.ClassNames[r.Class]+" ", ""
	if r.Class == hunt.Both {
		class, near = "", fmt.Sprintf(", of which %d are near", nearOf(r.Ranked()))
	}
	fmt.Fprintf(w,
		"%d %sscenes of seed %d%s, each played %d times; %d fall short%s. Envelope: never exceeded.\n\n",
		len(r.Judgements), class, r.Seed, limits, hunt.Replications, len(r.Ranked()), near)
	fmt.Fprint(w, table([]string{"surely short in", "scenes", "worst"}, huntRows(r)))
	fmt.Fprintf(w, "\nMedian calls per request: %s\n", four(r.MedianCalls()))
	if len(r.Shrunk) == 0 {
		return
	}
	fmt.Fprintf(w, "\nThe worst scenes, made simpler as far as -effort allows:\n")
	for i, j := range r.Shrunk {
		original := r.Ranked()[i]
		fmt.Fprintf(w, "\n%s: %s\n  %s", original.Scene.Name, describe(original), shortOf(original))
		if j != original {
			fmt.Fprintf(w, "\n  simpler: %s\n  %s", describe(j), shortOf(j))
		}
		if name, part := j.Cause(); name != "" {
			fmt.Fprintf(w, "; most tokens lost: %s, %s", name, percent(part))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nThe first of them, for sim run FILE -seed %d:\n\n%s", r.Shrunk[0].Scene.Seed, huntYAML(r.Shrunk[0]))
}

// nearOf counts the scenes near the limit.
func nearOf(list []*hunt.Judgement) (n int) {
	for _, j := range list {
		if j.Scene.Class == hunt.Near {
			n++
		}
	}
	return n
}

// shortOf lists the aspects in which a scene falls short.
func shortOf(j *hunt.Judgement) string {
	var parts []string
	for a := range j.Losses {
		if l := j.Losses[a]; l.Short {
			parts = append(parts, fmt.Sprintf("%s %s", hunt.Aspects[a], aspectRows[a].unit(l.Sure())))
		}
	}
	if j.Cheapest != nil && j.Losses[hunt.Cheaper].Short {
		parts = append(parts, "cheapest: "+j.Cheapest.Name)
	}
	return strings.Join(parts, ", ")
}

// describe says in a line what a scene is.
func describe(j *hunt.Judgement) string {
	s := j.Scene.Scenario
	text := counted(s.Processes, "process", "processes")
	for _, l := range s.Limits() {
		text += ", " + limitText(l)
	}
	if s.Classes != nil {
		text += ", " + classesText(s)
	}
	text += ", " + redisText(s) + "; " + loadText(s) + "; " + balanceText(s)
	if o := s.Balance.OnOff; o != nil && o.Together {
		text += " in step"
	}
	if p := s.Load.Patience; p > 0 {
		text += fmt.Sprintf(", callers wait %v", p)
	}
	return text
}

// huntYAML is a scene as a file, with what it shows.
func huntYAML(j *hunt.Judgement) string {
	s := j.Scene.Clone()
	s.Policy = scenario.Policy{} // the default, whatever that is when it is played
	s.About = "Falls short: " + shortOf(j) + fmt.Sprintf(" (-seed %d -replications %d).", j.Scene.Seed, hunt.Replications)
	return s.Text()
}

// printChanges prints what has changed since another report.
func printChanges(w io.Writer, changes []hunt.Change) {
	var rows [][]string
	for _, c := range changes {
		var worst []string
		for _, m := range c.By[:min(len(c.By), 8)] {
			worst = append(worst, fmt.Sprintf("%d: %+.3f", m.Number, m.By))
		}
		rows = append(rows, []string{c.Name, fmt.Sprintf("%.4f", c.Before), fmt.Sprintf("%.4f", c.After),
			fmt.Sprintf("%+.4f to %+.4f", c.Interval.Low, c.Interval.High), fmt.Sprint(c.More), fmt.Sprint(c.Less), strings.Join(worst, "  ")})
	}
	if rows != nil {
		fmt.Fprintf(w, "\n%s", table([]string{"mean over scenes", "before", "now", "95 % interval", "more in", "less in", "by most in scenes"}, rows))
	}
}
