package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// A FleetRow is one key of a fleet, in virtual time.
type FleetRow struct {
	Processes int
	Rate      float64 // requests/s of each process, below the limit and at twice it
	Policy    string

	Calls, Overload       float64 // exchanges/s of the key, at 0.95 of the limit and at twice it
	Utilisation, Fairness float64 // at twice the limit
	Below                 float64 // utilisation at 0.95 of it
	Worst                 float64 // process at twice the limit: admitted / fair share
	Excess                float64
	Tokens                int // that a simulated request stands for
}

// policies are what the default does, and what one sets for large fleets.
var policies = []struct{ name, yaml string }{
	{"default", "{}"},
	{"refresh 250ms", "{min_refresh: 250ms, max_refresh: 250ms}"},
	{"refresh 1s", "{min_refresh: 1s, max_refresh: 1s}"},
}

// mostRequests is how many requests a second are played one by one. Of more, one
// stands for ten or a hundred.
const mostRequests = 3e6

func simulateFleets(o options) ([]FleetRow, error) {
	type size struct {
		processes int
		rate      float64
	}
	sizes := []size{
		{10, 1e3}, {10, 1e4}, {10, 1e5}, {10, 1e6}, {100, 1e3}, {100, 1e6}, {1000, 1e3},
		{1000, 1e4}, {1000, 1e5}, {1000, 1e6},
	}
	if o.short {
		sizes = []size{{10, 1e3}, {100, 1e3}}
	}
	rows := make([]FleetRow, 0, len(sizes)*len(policies))
	for p := range policies {
		for _, s := range sizes {
			if p > 0 && s.processes < 1000 && !o.short {
				continue // that is what the default is for
			}
			rows = append(rows,
				FleetRow{Processes: s.processes, Rate: s.rate, Policy: policies[p].name})
		}
	}
	return rows, simulateAll(rows)
}

// simulateRenewals is how often the holders of a key come back to Redis, if each has many
// requests.
func simulateRenewals(o options) ([]FleetRow, error) {
	var rows []FleetRow
	for _, n := range []int{1, 10, 100, 1000, 5000, 10_000} {
		if o.short && n > 10 {
			break
		}
		rows = append(rows, FleetRow{Processes: n, Rate: 10_000, Policy: policies[0].name})
	}
	return rows, simulateAll(rows)
}

// simulateAll plays the rows side by side.
func simulateAll(rows []FleetRow) error {
	dir, err := os.MkdirTemp("", "fleet")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// The simulator is a command of the library's module.
	library, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/seed13b07268/ration").Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	build := exec.Command("go", "build", "-o", filepath.Join(dir, "sim"), "./sim")
	build.Dir = strings.TrimSpace(string(library))
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./sim: %w: %s", err, out)
	}
	var wg sync.WaitGroup
	next := make(chan *FleetRow)
	failed := make([]error, len(rows))
	for worker := range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for row := range next {
				if err := row.simulate(dir, worker); err != nil {
					failed[worker] = err
				}
			}
		})
	}
	for i := range rows {
		next <- &rows[len(rows)-1-i] // the longest first
	}
	close(next)
	wg.Wait()
	return errors.Join(failed...)
}

// simulate plays the row with the simulator in dir, for three seconds after six in which leases
// settle: a thousand processes that refresh theirs once a second need some of these.
func (r *FleetRow) simulate(dir string, worker int) error {
	policy := ""
	for _, p := range policies {
		if p.name == r.Policy {
			policy = p.yaml
		}
	}
	r.Tokens = 1
	total := r.Rate * float64(r.Processes)
	for total/float64(r.Tokens) > mostRequests {
		r.Tokens *= 10
	}
	for _, offered := range []float64{0.95, 2} {
		mean, err := r.play(dir, worker, policy, total, offered)
		if err != nil {
			return err
		}
		calls := mean("calls_per_request") * total / float64(r.Tokens)
		r.Excess = max(r.Excess, mean("excess"))
		if offered < 1 {
			r.Calls, r.Below = calls, mean("utilisation")
			continue
		}
		r.Overload, r.Utilisation = calls, mean("utilisation")
		r.Fairness, r.Worst = mean("fairness"), mean("worst_share")
	}
	return nil
}

// play has the simulator play a load of total tokens/s, which is offered times the limit. It
// returns the means of its figures.
func (r *FleetRow) play(
	dir string, worker int, policy string, total, offered float64,
) (mean func(name string) float64, err error) {
	limit := int64(total / offered)
	text := fmt.Sprintf(`
name: fleet
processes: %d
limit: %d/s
burst: %d
duration: 9s
warmup: 6s
load: {offered: %g, cost: %d}
balance: {by: random}
redis: {latency: 1ms, jitter: 0.5, timeout: 50ms}
policy: %s
`, r.Processes, limit, limit/4, offered, r.Tokens, policy)
	file := filepath.Join(dir, fmt.Sprintf("%d.yaml", worker))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, err
	}
	out, err := exec.Command(filepath.Join(dir, "sim"), "run", "-json", "-replications", "1",
		file).Output()
	if err != nil {
		return nil, fmt.Errorf("%d processes, %v/s: %w", r.Processes, r.Rate, err)
	}
	var result struct {
		Variants []struct {
			Summary map[string]struct{ Mean float64 }
		}
	}
	if err := json.Unmarshal(out, &result); err != nil || len(result.Variants) != 1 {
		return nil, fmt.Errorf("what the simulator prints: %d variants, %w", len(result.Variants), err)
	}
	return func(name string) float64 { return result.Variants[0].Summary[name].Mean }, nil
}
