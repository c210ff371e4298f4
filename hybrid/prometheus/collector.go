// Package prometheus shows the Stats of Limiters as metrics of Prometheus.
//
// # Promise
//
// A Collector shows all of hybrid.Stats but keys: no label has the name of one. docs/metrics.md
// lists the metrics. A scrape looks at each key in memory for about 0.1 µs, and asks nobody:
// what Redis does has no influence on it.
//
// It does not show the figures of other processes, as hybrid.Fleet would: Prometheus scrapes
// each of them, and adds them up.
//
// # The caller's duties
//
// Register one Collector for each Limiter, and Unregister it when the Limiter is closed. The
// Limiters of one registry need different Namespaces or labels, and labels of the same names;
// Register says so if not.
package prometheus

import (
	"errors"
	"fmt"
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed13b07268/ration/hybrid"
)

// limiterLabel has the Limiter's Namespace. It is not called namespace: in Kubernetes the
// scraper has a label of that name, and would rename ours.
const limiterLabel = "limiter"

// A Collector shows the Stats of one Limiter. It is safe for concurrent use.
type Collector struct {
	stats func() hybrid.Stats
	descs []*prometheus.Desc // by metric
	trips *prometheus.Desc
	err   error // of New
}

// New returns a Collector of limiter. All its metrics have the label limiter, which is
// hybrid.Config's Namespace, and these labels, such as the rule that the Limiter enforces. What
// is wrong with the arguments is an error of Register.
func New(limiter *hybrid.Limiter, labels prometheus.Labels) *Collector {
	if limiter == nil {
		return &Collector{err: errors.New("prometheus: limiter is nil")}
	}
	if value, ok := labels[limiterLabel]; ok {
		return &Collector{err: fmt.Errorf(
			"prometheus: label %s %q: it is for the Limiter's Namespace", limiterLabel, value)}
	}
	all := prometheus.Labels{limiterLabel: limiter.Stats().Namespace}
	maps.Copy(all, labels)
	c := &Collector{stats: limiter.Stats}
	for _, m := range metrics {
		c.descs = append(c.descs, prometheus.NewDesc("ration_"+m.name, m.help, m.labels, all))
	}
	c.trips = prometheus.NewDesc("ration_round_trip_seconds", tripsHelp, nil, all)
	return c
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	if c.err != nil {
		to <- prometheus.NewInvalidDesc(c.err)
	}
	for _, desc := range c.descs {
		to <- desc
	}
	if c.trips != nil {
		to <- c.trips
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(to chan<- prometheus.Metric) {
	if c.err != nil {
		to <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(c.err), c.err)
		return
	}
	s := c.stats()
	for i, m := range metrics {
		m.read(s, func(value float64, labels ...string) {
			to <- prometheus.MustNewConstMetric(c.descs[i], m.kind, value, labels...)
		})
	}
	to <- trips(c.trips, s.RoundTrips)
}
