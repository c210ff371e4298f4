package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed13b07268/ration/sim/measure"
	"github.com/seed13b07268/ration/sim/scenario"
	"github.com/seed13b07268/ration/sim/size"
)

const sizeHelp = `Usage: go run ./sim size [flags]

Says what a deployment of many keys needs: calls, CPU, network and memory of
Redis, and memory of each process. Keys are divided into classes by demand. A
sample of each is played, several times with different random numbers, and
stands for the others: the rest is extrapolated.

  go run ./sim size -procs 64 -keys 100000 -rate 50000/s -limit 10/s
  go run ./sim size -procs 1000 -keys 10000000 -key-skew 1 -rate 1000000/s
  go run ./sim size -procs 64 -keys 100000 -rate-per-key 2/s -max-hold 60s
`

// sizable are the fields of a scenario that a deployment has, or what they begin with.
var sizable = []string{
	"processes", "limit", "burst", "eager", "balance.", "redis.", "policy.",
	"load.arrivals", "load.cv", "load.cost", "load.costs",
}

func isSizable(path string) bool {
	return slices.ContainsFunc(sizable, func(field string) bool {
		return path == field || strings.HasSuffix(field, ".") && strings.HasPrefix(path, field)
	})
}

// notSized are the flags of fields that a deployment does not have.
func notSized() (names []string) {
	for _, f := range shortcuts {
		if !isSizable(f.path) {
			names = append(names, f.name)
		}
	}
	return names
}

// sizeFlags are those of `sim size`.
type sizeFlags struct {
	*settings
	question   size.Question
	rate, each scenario.Rate // requests/s of the fleet, and of each key
	json       bool
}

func (f *sizeFlags) parse(args []string, stdout io.Writer) error {
	f.settings = newSettings("size", sizeHelp, notSized()...)
	q := &f.question
	f.set.IntVar(&q.Keys, "keys", 10_000, "number of keys, `N`, up to 100 million")
	f.set.Float64Var(&q.Skew, "key-skew", 0,
		"Zipf exponent `S` of the requests over keys; 0 is even")
	rate := func(into *scenario.Rate) func(string) error {
		return func(text string) error { return into.UnmarshalText([]byte(text)) }
	}
	f.set.Func("rate", "requests of the fleet, `NUMBER/TIME`: 50000/s", rate(&f.rate))
	f.set.Func("rate-per-key", "requests of each key in the mean, `NUMBER/TIME`; 1/s if neither is "+
		"given", rate(&f.each))
	exchange := f.set.Duration("exchange", size.Exchange,
		"CPU `D` of Redis for a call, by go run ./scale -only holders in bench/")
	f.set.BoolVar(&f.json, "json", false, "print everything as one JSON object")
	f.replicationsFlag(5, 1)
	err := parseFlags(f.set, sizeHelp, args, stdout, "a deployment is told by flags, not by a scenario")
	if err != nil {
		return err
	}
	if q.Scenario, err = f.deployment(); err != nil {
		return usageError{err}
	}
	q.Exchange, q.Seed, q.Replications = *exchange, f.seed, f.replications
	switch {
	case !f.each.IsZero():
		q.Rate = f.each.PerSecond * float64(q.Keys)
	case f.rate.IsZero():
		q.Rate = float64(q.Keys)
	default:
		q.Rate = f.rate.PerSecond
	}
	return nil
}

// deployment is the scenario of the flags.
func (f *sizeFlags) deployment() (*scenario.Scenario, error) {
	if !f.rate.IsZero() && !f.each.IsZero() {
		return nil, errors.New("-rate and -rate-per-key: one of them")
	}
	s, err := scenario.Parse([]byte("name: size"), scenario.Folder("."))
	if err != nil {
		return nil, err
	}
	if err := f.quarrel(); err != nil {
		return nil, err
	}
	for _, a := range f.assignments {
		if !isSizable(a.path) {
			return nil, fmt.Errorf("%s: a deployment has no %s: want %s", a.flag, a.path,
				listed(sizable))
		}
		if err := a.apply(s); err != nil {
			return nil, a.mistake(err)
		}
	}
	if s.Burst == 0 && scenario.HasRate(s.Limit.Limit) { // few of the processes ask for a key
		s.Burst = s.Limit.Burst
	}
	return s, nil
}

// sizeDocument is all that `sim size` has found.
type sizeDocument struct {
	head
	Keys     int                `json:"keys"`
	KeySkew  float64            `json:"key_skew"`
	Rate     float64            `json:"requests_per_second"`
	Exchange float64            `json:"exchange_seconds"`
	Scenario *scenario.Scenario `json:"scenario"` // its keys and load are left out
	*size.Answer
}

// sizeCommand is `sim size`.
func sizeCommand(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	var f sizeFlags
	if err := f.parse(args, stdout); err != nil {
		return err
	}
	q := &f.question
	plan, err := size.New(*q)
	if err != nil {
		return usageError{err}
	}
	var jobs []*job
	plays := map[*job]*size.Play{}
	all := 0.0
	for _, p := range plan.Plays {
		j := &job{scenario: p.Scenario, replication: p.Replication, stores: true}
		jobs, plays[j] = append(jobs, j), p
		all += float64(p.Scenario.Duration)
	}
	var played atomic.Int64 // simulated time
	stop := showBar(stderr, "simulating", all, &played)
	err = work(ctx, jobs, q.Seed, &played, func(j *job) {
		plan.Add(plays[j], j.result, j.holders)
		j.result, j.holders = nil, nil
	})
	stop()
	answer := plan.Answer()
	if err != nil || answer == nil {
		return errors.Join(err, interruptOf(ctx))
	}
	d := &sizeDocument{head: head{schema, "size", q.Seed, ctx.Err() != nil},
		Keys: q.Keys, KeySkew: q.Skew, Rate: q.Rate, Exchange: q.Exchange.Seconds(),
		Scenario: plan.Scenario(), Answer: answer}
	if !f.json {
		d.print(stdout)
		return interruptOf(ctx)
	}
	return errors.Join(writeJSON(stdout, d), interruptOf(ctx))
}

// interruptOf is errInterrupted if ctx has ended.
func interruptOf(ctx context.Context) error {
	if ctx.Err() != nil {
		return errInterrupted
	}
	return nil
}

// print prints what `sim size` has found.
func (d *sizeDocument) print(w io.Writer) {
	s := d.Scenario
	fmt.Fprintf(w, "%s/s for %s from %s take %s calls/s, %s cores and %s of Redis, and %s of "+
		"each process.\n\n", counted(int(math.Round(d.Rate)), "request", "requests"),
		counted(d.Keys, "key", "keys"), counted(s.Processes, "process", "processes"), brief(d.Calls.Mean),
		brief(d.CPU.Mean), volume(d.Memory.Mean), volume(d.ProcessMemory))
	row := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-10s%s\n", name, fmt.Sprintf(format, args...))
	}
	row("fleet", "%s, requests %s", processesText(s), balanceText(s))
	row("keys", "%s", limitText(scenario.Limited{
		Name: scenario.AloneName, Limit: s.LimitOf(), Number: d.Keys}))
	spread := "the same of each key"
	if d.KeySkew > 0 {
		spread = fmt.Sprintf("over keys Zipf %.4g", d.KeySkew)
	}
	row("load", "%s/s, %s, %s", brief(d.Rate), spread, s.Load.Arrivals)
	row("Redis", "%s", redisText(s))
	row("policy", "%s\n", policyText(s.Policy))
	if d.Interrupted {
		fmt.Fprintf(w, "INTERRUPTED: the figures are of what was simulated until then.\n\n")
	}
	head := []string{"", "mean of " + fmt.Sprint(d.Replications), "95 % interval"}
	fmt.Fprintf(w, "%s\n%s", table(head, d.needs()), table(classHead, d.parts()))
	d.notes(w)
}

// needs are what the deployment needs.
func (d *sizeDocument) needs() (rows [][]string) {
	add := func(title string, i measure.Interval, text func(float64) string, note string) {
		span := ""
		if i.N > 1 {
			span = text(i.Low) + " to " + text(i.High)
		}
		rows = append(rows, []string{title, text(i.Mean), span, note})
	}
	per := func(x float64) measure.Interval { return measure.Interval{Mean: x, N: 1} }
	add("Redis calls / s", d.Calls, brief, fmt.Sprintf(
		"exchanges; %s of them are the census of processes", brief(d.Census)))
	calls := d.Calls
	calls.Mean, calls.Low, calls.High = calls.Mean/d.Rate, calls.Low/d.Rate, calls.High/d.Rate
	add("Redis calls / request", calls, four, "")
	add("Redis CPU", d.CPU, brief, fmt.Sprintf("cores, at %s a call that travels alone",
		span(d.Exchange)))
	add("Redis masters", d.Masters, count, fmt.Sprintf("of one core each, %.0f %% of it in use",
		100*size.Full))
	add("Redis receives / s", d.Received, volume, "without the headers of TCP and IP")
	add("Redis sends / s", d.Sent, volume, "")
	add("Redis memory", d.Memory, volume, "of all masters together")
	add("requests that wait", d.Waited, percent, "for a round trip")
	add("requests denied", d.Denied, percent, "")
	add("keys in a process", per(d.Entries), brief, fmt.Sprintf(
		"in use, and %s that are parked; by a formula", brief(d.Parked)))
	add("memory of a process", per(d.ProcessMemory), volume, "for those")
	return rows
}

var classHead = []string{"keys by demand", "requests/s each", "requests/s", "calls/s", "of all",
	"calls/request", "wait", "processes on a key", "keys played", "for"}

// parts are the classes of keys.
func (d *sizeDocument) parts() (rows [][]string) {
	for _, c := range d.Classes {
		name := thousands(c.First)
		if c.Keys > 1 {
			name += " to " + thousands(c.First+c.Keys-1)
		}
		rows = append(rows, []string{
			name, brief(c.Rate / float64(c.Keys)), brief(c.Rate), brief(c.Calls.Mean),
			percent(c.Calls.Mean / d.Calls.Mean), four(c.Calls.Mean / c.Rate), percent(c.Waited),
			brief(c.Holders), thousands(c.Sample), span(c.Seconds),
		})
	}
	return rows
}

// notes say what has to be known beside the figures.
func (d *sizeDocument) notes(w io.Writer) {
	played := 0
	for _, c := range d.Classes {
		played += c.Sample
	}
	fmt.Fprintf(w, "\nSimulated: %s of %s in each replication. The others are extrapolated.\n",
		counted(played, "key", "keys"), thousands(d.Keys))
	if d.HottestCore > size.Full {
		fmt.Fprintf(w, "\nWARNING: One key takes %s of a core of one master, whatever the number of "+
			"masters: raise -min-refresh, or divide the key.\n", percent(d.HottestCore))
	}
	const mostKeys = 1_000_000 // hybrid.Config.MaxKeys, if it is not set
	if d.Entries > mostKeys {
		fmt.Fprintf(w, "\nWARNING: A process has %s keys in use: Config.MaxKeys must be more than "+
			"its default of %s.\n", brief(d.Entries), thousands(mostKeys))
	}
}

// volume writes a number of bytes in a unit that suits it.
func volume(x float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for ; x >= 999.5 && i < len(units)-1; i++ {
		x /= 1000
	}
	return fmt.Sprintf("%.3g %s", math.Max(x, 0), units[i])
}
