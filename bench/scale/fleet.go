package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/scenario"
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
	sizes := []size{{10, 1e3}, {10, 1e4}, {10, 1e5}, {10, 1e6}, {100, 1e3}, {100, 1e6}, {1000, 1e3}, {1000, 1e4}, {1000, 1e5}, {1000, 1e6}}
	if o.short {
		sizes = []size{{10, 1e3}, {100, 1e3}}
	}
	rows := make([]FleetRow, 0, len(sizes)*len(policies))
	for p := range policies {
		for _, s := range sizes {
			if p > 0 && s.processes < 1000 && !o.short {
				continue // that is what the default is for
			}
			rows = append(rows, FleetRow{Processes: s.processes, Rate: s.rate, Policy: policies[p].name})
		}
	}
	var wg sync.WaitGroup
	next := make(chan *FleetRow)
	failed := make(chan error, len(rows))
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for row := range next {
				if err := row.simulate(); err != nil {
					failed <- err
				}
			}
		})
	}
	for i := range rows {
		next <- &rows[len(rows)-1-i] // the longest first
	}
	close(next)
	wg.Wait()
	select {
	case err := <-failed:
		return nil, err
	default:
		return rows, nil
	}
}

func (r *FleetRow) simulate() error {
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
		limit := int64(total / offered)
		text := fmt.Sprintf(`
name: fleet
processes: %d
limit: %d/s
burst: %d
duration: 3s
warmup: 1500ms
load: {offered: %g, cost: %d}
balance: {by: random}
redis: {latency: 1ms, jitter: 0.5, timeout: 50ms}
policy: %s
`, r.Processes, limit, limit/4, offered, r.Tokens, policy)
		s, err := scenario.Parse([]byte(text), nil)
		if err != nil {
			return fmt.Errorf("%d processes, %v/s: %w", r.Processes, r.Rate, err)
		}
		if err := s.Resolve(); err != nil {
			return err
		}
		result, err := engine.Run(context.Background(), s, 1, 0)
		if err != nil {
			return err
		}
		calls := float64(result.Calls) / result.Seconds
		r.Excess = max(r.Excess, result.Excess-result.ExcessAllowed)
		if offered < 1 {
			r.Calls, r.Below = calls, result.Utilisation
			continue
		}
		r.Overload, r.Utilisation, r.Fairness, r.Worst = calls, result.Utilisation, result.Fairness, result.WorstShare
	}
	return nil
}
