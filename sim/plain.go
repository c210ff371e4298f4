package main

import (
	"context"
	"fmt"

	"github.com/seed13b07268/ration/lease"
)

const (
	// suspect is how many calls a request a policy needs for it to be held against a plain
	// limiter. Below, leases do their work, and the comparison would take longer than all else.
	suspect = 0.3

	dearer = 1.02 // times the calls of a plain limiter
)

// warnOfDear holds variants that need many calls against a plain limiter, which asks
// Redis for each request: once each, on the same requests.
func (d *document) warnOfDear(ctx context.Context) error {
	var dear []*variant
	var jobs []*job
	for _, v := range d.Variants {
		if v.Summary[calls.name].Mean < suspect || v.Scenario.Policy.Mode == lease.PerRequest.String() {
			continue
		}
		plain := v.Scenario.Clone()
		plain.Policy.Mode = lease.PerRequest.String()
		dear, jobs = append(dear, v), append(jobs, &job{scenario: plain, replication: v.Results[0].Replication})
	}
	if err := work(ctx, jobs, d.Seed, nil, func(*job) {}); err != nil {
		return err
	}
	for i, v := range dear {
		ours, plain := v.Results[0].CallsPerRequest, jobs[i].result
		if jobs[i].whole && ours > dearer*plain.CallsPerRequest {
			d.Warnings = append(d.Warnings, dearText(fmt.Sprintf("The policy of %q", v.Label), ours, plain.CallsPerRequest))
		}
	}
	return nil
}

func dearText(whose string, ours, plain float64) string {
	return fmt.Sprintf("%s needs more calls than a plain limiter, which asks Redis for each request: %s instead of %s calls per request.", whose, four(ours), four(plain))
}
