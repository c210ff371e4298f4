package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/seed13b07268/ration/sim/scenario"
)

// A question is what something costs a fleet: a command that needs no scenario of one's own.
type question struct {
	name, summary, help string

	subject string        // of the answer, with how long it lasts, or how far the store is
	lasts   time.Duration // default of the flag -for, which says what of
	of      string
	each    time.Duration // more for each process

	// cases are settings by their name; the first is how it is without.
	cases func(s *settings, c *scenario.Scenario, at, lasts time.Duration) ([]setting, error)
}

// A setting is a case of a question.
type setting struct{ label, settings string }

var questions = []question{
	{
		name: "crash", subject: "A crash of a process, back after %v,",
		summary: "say what a crash of a process costs",
		help:    "Lets a process crash with all that it holds.\n\n  go run ./sim crash -procs 20 -limit 5000/s\n",
		lasts:   time.Second, of: "how long `D` the process is away",
		cases: func(_ *settings, _ *scenario.Scenario, at, lasts time.Duration) ([]setting, error) {
			return []setting{{"no crash", "faults=[]"},
				{"a crash", fmt.Sprintf("faults=[{kind: crash, at: %v, for: %v}]", at, lasts)}}, nil
		},
	},
	{
		name: "deploy", subject: "A deployment with each process away for %v",
		summary: "say what a rolling deployment costs",
		help: "Starts all processes again, one each second.\n\n" +
			"  go run ./sim deploy -procs 20 -limit 5000/s -for 5s\n",
		lasts: 2 * time.Second, of: "how long `D` each process is away", each: time.Second,
		cases: func(_ *settings, _ *scenario.Scenario, at, lasts time.Duration) ([]setting, error) {
			return []setting{{"no deployment", "faults=[]"}, {"a deployment",
				fmt.Sprintf("faults=[{kind: deploy, at: %v, every: 1s, for: %v}]", at, lasts)}}, nil
		},
	},
	{
		name: "outage", subject: "An outage of %v",
		summary: "say what an outage of Redis costs, by each outage policy",
		help:    "Lets Redis not answer, with each outage policy or that of -outage.\n\n  go run ./sim outage -procs 20 -for 10s\n",
		lasts:   5 * time.Second, of: "how long `D` Redis is away",
		cases: func(s *settings, c *scenario.Scenario, at, lasts time.Duration) ([]setting, error) {
			policies := []string{"share", "deny", "allow"}
			if s.sets("outage") {
				policies = []string{c.Outage}
			}
			list := []setting{{"no outage", "faults=[]"}}
			for _, p := range policies {
				list = append(list, setting{p, fmt.Sprintf("faults=[{kind: outage, at: %v, for: %v}],outage=%s",
					at, lasts, p)})
			}
			return list, nil
		},
	},
	{
		name: "far", subject: "A store that is %v away",
		summary: "say what a store that is far away costs",
		help: "Plays a Redis that is 1 ms away beside one that is as far as -latency says, with a timeout that " +
			"is\nlong enough, unless one is given.\n\n  go run ./sim far -latency 80ms\n",
		cases: func(s *settings, c *scenario.Scenario, _, _ time.Duration) ([]setting, error) {
			if !s.sets("redis.latency") {
				return nil, errors.New("how far? -latency is not given")
			}
			rest := ""
			if !s.sets("redis.timeout") {
				rest = fmt.Sprintf(",redis.timeout=%v", max(250*time.Millisecond, 3*c.Redis.Latency))
			}
			return []setting{{"1ms", "redis.latency=1ms" + rest},
				{c.Redis.Latency.String(), "redis.latency=" + c.Redis.Latency.String() + rest}}, nil
		},
	},
}

// recovery is how long is played after what is asked for, unless -duration or a log says how long.
const recovery = 5 * time.Second

// command is that of a question.
func (q question) command() command { return command{q.name, q.summary, q.ask} }

// ask plays the cases of a question.
func (q question) ask(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := newPlayed(q.name, fmt.Sprintf("Usage: go run ./sim %s [flags] [scenario]\n\n%s", q.name, q.help), 2)
	lasts := q.lasts
	if q.of != "" {
		s.set.DurationVar(&lasts, "for", q.lasts, q.of)
	}
	c, err := s.parse(ctx, args, stdout, stderr)
	if err != nil {
		return err
	}
	at := (c.Warmup + (c.Duration-c.Warmup)/3).Truncate(time.Millisecond)
	length, note := "", ""
	if q.of == "" {
		lasts = c.Redis.Latency
	} else {
		over := at + lasts + time.Duration(c.Processes)*q.each
		switch given := s.sets("duration") || s.sets("load.trace.file"); {
		case given && over > c.Duration:
			return usageError{fmt.Errorf("-for %v: it is over after %v, and the run after %v",
				lasts, over, c.Duration)}
		case !given && over+recovery > c.Duration:
			length = fmt.Sprintf(",duration=%v", over+recovery)
			note = fmt.Sprintf("played for %v in place of %v: it is over after %v, and %v more show "+
				"what follows", over+recovery, c.Duration, over, recovery)
		}
	}
	cases, err := q.cases(s, c, at, lasts)
	if err != nil {
		return usageError{err}
	}
	d := s.document(args, askText)
	d.over, d.Note = q.name, note
	for _, x := range cases {
		if err := d.vary(ctx, s, x.label, x.settings+length, stderr); err != nil {
			return mistake(err)
		}
	}
	return d.play(ctx, s, stdout, stderr, func() {
		d.Answer = answer(fmt.Sprintf(q.subject, lasts), d.Variants)
	})
}

// answer says in a sentence what all cases cost beside the first, which is without.
func answer(subject string, cases []*variant) string {
	without := cases[0]
	var costs []string
	for _, v := range cases[1:] {
		cost := "costs no tokens"
		switch tokens := figureOf("tokens_admitted").difference(without, v); {
		case tokens.Differs() && tokens.Mean < 0:
			cost = "costs " + amount(-tokens.Mean, without)
		case tokens.Differs():
			cost = "admits " + amount(tokens.Mean, without) + " more"
		}
		if len(cases) > 2 {
			cost += " with " + v.Label
		}
		costs = append(costs, cost)
	}
	if len(costs) > 1 {
		return fmt.Sprintf("%s %s.", subject, listed(costs))
	}
	for _, x := range [][2]string{{"calls_per_second", "takes %s calls of Redis/s"},
		{"latency_p99_seconds", "99 of 100 requests wait %s at most"}} {
		f, beside := figureOf(x[0]), " as without"
		if f.difference(without, cases[1]).Differs() {
			beside = " in place of " + f.text(without.Summary[f.name].Mean)
		}
		costs = append(costs, fmt.Sprintf(x[1], f.text(cases[1].Summary[f.name].Mean))+beside)
	}
	if f := figureOf("unanswered"); f.difference(without, cases[1]).Differs() {
		costs = append(costs, f.text(cases[1].Summary[f.name].Mean)+" of the requests get no verdict")
	}
	return fmt.Sprintf("%s %s.", subject, listed(costs))
}

// amount writes tokens, and how many per cent of those admitted they are.
func amount(tokens float64, of *variant) string {
	return fmt.Sprintf("%s tokens (%s %%)", count(tokens),
		brief(100*tokens/of.Summary["tokens_admitted"].Mean))
}

// askText prints the answer, and the figures that it is made of.
func askText(w io.Writer, d *document) {
	without := d.Variants[0]
	fmt.Fprintf(w, "%s\n\n", d.Answer)
	if d.Note != "" {
		fmt.Fprintf(w, "Note: %s.\n\n", d.Note)
	}
	printScenario(w, d.Variants[len(d.Variants)-1].Scenario)
	printInterrupted(w, d)
	fmt.Fprintln(w, "Beside how it is without, on the same requests, with 95 % intervals:")
	for _, v := range d.Variants[1:] {
		fmt.Fprintf(w, "%s: %s.\n", v.Label, strings.Join([]string{
			changeText("tokens_admitted", without, v), changeText("calls_per_second", without, v),
			changeText("latency_p99_seconds", without, v)}, ", "))
		if worst, allowed := worstExcess(v); worst > allowed {
			fmt.Fprintf(w, "  excess: %s\n", promiseText(v))
		}
	}
	t := sweepTable(d)
	fmt.Fprintf(w, "\n%s", table(t.Head, t.Rows))
}

// changeText says by how much a figure is another one than without.
func changeText(name string, without, v *variant) string {
	f := figureOf(name)
	diff := f.difference(without, v)
	if !diff.Differs() {
		return f.title + " no other than without"
	}
	text := fmt.Sprintf("%s %s (%s to %s)", f.title, f.signed(diff.Mean), f.signed(diff.Low), f.signed(diff.High))
	if mean := without.Summary[name].Mean; mean > 0 {
		text += fmt.Sprintf(", %+.1f %%", 100*diff.Mean/mean)
	}
	return text
}
