package scenario

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Fault is something that happens to the fleet, once at At, or from then on
// Every so often.
type Fault struct {
	At    time.Duration `yaml:"at"`
	Every time.Duration `yaml:"every,omitempty"`

	// Kind is one of these:
	//
	//	crash      processes die and take their leases along; they are back after For
	//	leave      processes hand their leases back and end; they are back after For, 0 is never
	//	join       Count new processes start
	//	deploy     each process in turn leaves and is back after For, one each Every
	//	outage     Redis answers nobody for For
	//	partition  Redis does not answer these processes for For
	//	flush      Redis loses its data
	//	limit      the limit is Limit and Burst from now on
	Kind string `yaml:"kind"`

	// Process says which: a number from 0, random, or all. Default: random.
	Process string `yaml:"process,omitempty"`

	For   time.Duration `yaml:"for,omitempty"`
	Count int           `yaml:"count,omitempty"` // of join, 1 to 10,000; default 1
	Limit Limit         `yaml:"limit,omitempty"`
	Burst int64         `yaml:"burst,omitempty"` // default: as for Scenario.Limit
}

// LimitOf is the limit that a fault of kind limit sets.
func (f *Fault) LimitOf() lease.Limit {
	return f.Limit.whole(f.Burst)
}

// Who returns the number of the process that is meant; it is below zero for
// random and all.
func (f *Fault) Who() (number int, all bool) {
	if n, err := strconv.Atoi(f.Process); err == nil {
		return n, false
	}
	return -1, f.Process == "all"
}

const (
	maxProcesses = 10_000

	// maxStrikes is how often faults may happen, all together: each is an event
	// that is planned from the start and listed at the end. A deploy counts for
	// each process.
	maxStrikes = 100_000
)

// faultUses are the fields that a kind has a use for, beside At and Kind; one with a ! it needs.
var faultUses = map[string]string{
	"crash":     " every process for",
	"leave":     " every process for",
	"join":      " every count",
	"deploy":    " every for",
	"outage":    " every for!",
	"partition": " every process for!",
	"flush":     " every",
	"limit":     " limit! burst",
}

func (f *Fault) resolve() error {
	uses, known := faultUses[f.Kind]
	if !known {
		return fmt.Errorf("kind %s is not crash, leave, join, deploy, outage, partition, flush or limit",
			f.Kind)
	}
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"every", f.Every != 0}, {"process", f.Process != ""}, {"for", f.For != 0},
		{"count", f.Count != 0}, {"limit", !f.Limit.IsZero()}, {"burst", f.Burst != 0},
	} {
		allowed, needed := strings.Contains(uses, " "+field.name), strings.Contains(uses, " "+field.name+"!")
		err := cmp.Or(wrong(field.set && !allowed, "%s has no use for %s", f.Kind, field.name),
			wrong(!field.set && needed, "%s needs %s", f.Kind, field.name))
		if err != nil {
			return err
		}
	}
	if f.Kind == "join" {
		setDefault(&f.Count, 1)
	}
	if f.Kind == "deploy" {
		setDefault(&f.Every, time.Second)
	}
	n, none := strconv.Atoi(f.Process)
	named := f.Process == "" || f.Process == "random" || f.Process == "all"
	err := cmp.Or(
		wrong(!named && (none != nil || n < 0 || n >= maxProcesses),
			"process %s is not a number from 0, random or all", f.Process),
		within("at", f.At, 0, longest),
		wrong(f.Every != 0 && (f.Every < time.Millisecond || f.Every > longest),
			"every %v is not from 1ms to 1000h", f.Every),
		wrong(f.Kind == "deploy" && f.Every > longest/10, // the last of 10,000 processes has a time
			"every %v is not from 1ms to 100h, between two processes of a deploy", f.Every),
		within("for", f.For, 0, longest),
		wrong(f.Count < 0 || f.Count > maxProcesses, "count %d is not 1 to 10000", f.Count))
	if err != nil {
		return err
	}
	if f.Kind == "limit" {
		return f.Limit.check(f.Burst)
	}
	return nil
}

// resolveFaults looks at each fault, and at all of them together.
func (s *Scenario) resolveFaults() error {
	strikes := 0
	for i := range s.Faults {
		f := &s.Faults[i]
		if f.Kind == "limit" {
			s.chooseBurst(f.Limit, &f.Burst)
		}
		if err := f.resolve(); err != nil {
			return fmt.Errorf("faults[%d]: %w", i, err)
		}
		if f.Kind == "limit" && s.Keys.Each != nil {
			return fmt.Errorf("faults[%d]: kind limit does not go with a list of keys", i)
		}
		if now, was := f.Limit.Limit, s.Limit.Limit; f.Kind == "limit" &&
			(now.Kind != was.Kind || now.Window != was.Window || now.Offset != was.Offset) {
			return fmt.Errorf("faults[%d]: limit %s does not follow %s: all limits of a key are "+
				"of one kind, with the same windows", i, FormatLimit(now), FormatLimit(was))
		}
		times := f.occurrences(s.Duration)
		if f.Kind == "deploy" {
			times *= s.Processes
		}
		if strikes += times; strikes > maxStrikes {
			return fmt.Errorf("faults[%d]: %s happens %d times in %v; at most %d, with those before it", i, f.Kind, times, s.Duration, maxStrikes)
		}
	}
	fleet := s.Processes + s.Joins()
	if fleet > maxProcesses {
		return fmt.Errorf("faults: %d processes and %d that join are more than %d", s.Processes, s.Joins(), maxProcesses)
	}
	for i := range s.Faults {
		if n, _ := s.Faults[i].Who(); n >= fleet {
			return fmt.Errorf("faults[%d]: process %d is none of 0 to %d", i, n, fleet-1)
		}
	}
	return nil
}

// Joins is how many processes join until the end.
func (s *Scenario) Joins() (n int) {
	for i := range s.Faults {
		if f := &s.Faults[i]; f.Kind == "join" {
			n += f.Count * f.occurrences(s.Duration)
		}
	}
	return n
}

// occurrences is how many Times there are before end.
func (f *Fault) occurrences(end time.Duration) int {
	switch {
	case f.At >= end:
		return 0
	case f.Every == 0 || f.Kind == "deploy":
		return 1
	}
	return int((end-1-f.At)/f.Every) + 1
}

// A Struck is one occurrence of a fault, or one step of a deploy: then Step is the process.
type Struck struct {
	At    time.Duration
	Fault *Fault
	Step  int
}

// Strikes are all occurrences of faults, one fault after the other.
func (s *Scenario) Strikes() (all []Struck) {
	for i := range s.Faults {
		f, steps := &s.Faults[i], 1
		if f.Kind == "deploy" {
			steps = s.Processes
		}
		for _, at := range f.Times(s.Duration) {
			for step := range steps {
				all = append(all, Struck{at + time.Duration(step)*f.Every, f, step})
			}
		}
	}
	return all
}

// Times are the moments before end at which the fault happens.
func (f *Fault) Times(end time.Duration) (times []time.Duration) {
	for at := f.At; at < end; at += f.Every {
		times = append(times, at)
		if f.Every == 0 || f.Kind == "deploy" {
			break
		}
	}
	return times
}
