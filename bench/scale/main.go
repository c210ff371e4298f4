// Scale measures how the cost of ration grows: with keys, with the holders of
// one key, with goroutines, with the distance of Redis, and by the kind of limit;
// over a cluster; and, by the simulator, with processes and their rates.
//
//	go run ./scale -svg FILE                      # six panels and their tables
//	go run ./scale -cluster                       # one Redis and a cluster of three masters
//	go run ./scale -fleet                         # up to 1000 processes, 1,000,000 decisions/s each
//	go run ./scale -lines                         # what a contended cache line costs here
//
// Whatever is compared is measured in turn, in short rounds of one run: the
// figures are medians over the rounds, and what else the machine does meets all.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

// A Report is all that a run has measured. It can be kept (-raw) and drawn
// again (-from).
type Report struct {
	Machine    string
	Command    string
	Caches     []Cache
	Keys       []KeysRow
	Holders    []HoldersRow
	Renewals   []FleetRow
	Kinds      []KindsRow
	Goroutines []GoroutinesRow
	Distance   []DistanceRow
	Cluster    []ClusterRow
	Fleet      []FleetRow
	Lines      []LinesRow
}

type options struct {
	short                   bool
	only, svg, png          string
	raw, from               string
	cluster, fleet, lines   bool
	round                   time.Duration // of one subject
	rounds, mostKeys, turns int
}

func main() {
	var o options
	flag.BoolVar(&o.short, "short", false, "little of everything, to see that it works")
	flag.StringVar(&o.only, "only", "",
		"measure one `part`: keys, holders, goroutines, distance, kinds")
	flag.StringVar(&o.svg, "svg", "", "draw the six panels into `FILE`")
	flag.StringVar(&o.png, "png", "", "draw them into `FILE`, to look at")
	flag.StringVar(&o.raw, "raw", "", "keep what was measured in `FILE`, as JSON")
	flag.StringVar(&o.from, "from", "",
		"take what is measured from `FILE`, but for the panel of -only")
	flag.BoolVar(&o.cluster, "cluster", false,
		"measure one Redis beside a cluster of three masters instead")
	flag.BoolVar(&o.fleet, "fleet", false, "simulate large fleets instead")
	flag.BoolVar(&o.lines, "lines", false, "measure what a contended cache line costs instead")
	flag.Parse()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(o options, w io.Writer) error {
	o.round, o.rounds, o.mostKeys, o.turns = 60*time.Millisecond, 9, 1_000_000, 20
	if o.short {
		o.round, o.rounds, o.mostKeys, o.turns = 5*time.Millisecond, 2, 10_000, 2
	}
	r := &Report{}
	if o.from != "" {
		text, err := os.ReadFile(o.from)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, r); err != nil {
			return fmt.Errorf("%s: %w", o.from, err)
		}
	}
	if o.from == "" || o.only != "" {
		if err := r.measure(o); err != nil {
			return err
		}
	}
	if o.raw != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.raw, append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	for _, file := range []string{o.svg, o.png} {
		if file != "" {
			if err := r.draw(file); err != nil {
				return err
			}
		}
	}
	return r.print(w)
}

func (r *Report) measure(o options) error {
	r.Machine, r.Caches = machine(), caches()
	r.Command = "go run ./scale"
	start := time.Now()
	step := func(name string, measure func() error) error {
		if o.only != "" && o.only != name {
			return nil
		}
		began := time.Now()
		err := measure()
		fmt.Fprintf(os.Stderr, "%-10s %5.1f s\n", name, time.Since(began).Seconds())
		return err
	}
	defer func() { fmt.Fprintf(os.Stderr, "all        %5.1f s\n", time.Since(start).Seconds()) }()
	switch {
	case o.lines:
		r.Command += " -lines"
		return step("lines", func() error { r.Lines = measureLines(o); return nil })
	case o.cluster:
		r.Command += " -cluster"
		return step("cluster", func() (err error) { r.Cluster, err = measureCluster(o); return })
	case o.fleet:
		r.Command += " -fleet"
		return step("fleet", func() (err error) { r.Fleet, err = simulateFleets(o); return })
	}
	// Keys leave the largest heap behind: they come last.
	for _, s := range []struct {
		name    string
		measure func() error
	}{
		{"goroutines", func() (err error) { r.Goroutines, err = measureGoroutines(o); return }},
		{"kinds", func() (err error) { r.Kinds, err = measureKinds(o); return }},
		{"holders", func() (err error) {
			if r.Holders, err = measureHolders(o); err == nil {
				r.Renewals, err = simulateRenewals(o)
			}
			return
		}},
		{"distance", func() (err error) { r.Distance, err = measureDistance(o); return }},
		{"keys", func() (err error) { r.Keys, err = measureKeys(o); return }},
	} {
		if err := step(s.name, s.measure); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return nil
}

// machine describes this one in a line.
func machine() string {
	cpu := runtime.GOARCH
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			if strings.TrimSpace(name) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	s := fmt.Sprintf("%s, %d cores, %s %s/%s", cpu, runtime.NumCPU(), runtime.Version(),
		runtime.GOOS, runtime.GOARCH)
	if version := serverVersion(); version != "" {
		s += ", " + version
	}
	return s
}
