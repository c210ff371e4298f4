// Package metrics shows what a rules.Limiter has done as metrics of Prometheus.
//
// # Promise
//
// Metrics have the labels domain and rule, which is its path in the document. No label has a key:
// there are as many series as rules. A scrape costs what rules.Limiter.Stats does, and asks nobody.
//
// hybrid/prometheus shows one hybrid.Limiter. A rules.Limiter has one for each domain, which come
// and go, and does not show them, so this package has a Collector of its own.
package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// Handler serves the metrics of a limiter's Stats, and those of the process. With envoy they are
// under the names of envoyproxy/ratelimit as well, as far as it has the same ones.
func Handler(stats func() rules.Stats, envoy bool) http.Handler {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector(stats), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if envoy {
		registry.MustRegister(envoyCollector(stats))
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
}

// collector is a prometheus.Collector.
type collector func() rules.Stats

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("ration_"+name, help, labels, nil)
}

var (
	ruleRequests = desc("rule_requests_total",
		"Requests by what a rule's own limit, or its trial, said of them.",
		"domain", "rule", "limit", "verdict")
	requests = desc("domain_requests_total",
		"Requests for tokens that were decided, by who decided.", "domain", "source", "verdict")
	banned    = desc("domain_banned_total", "Requests that bans have denied.", "domain")
	exchanges = desc("domain_exchanges_total",
		"Exchanges with the store that have ended.", "domain", "outcome")
	keys    = desc("domain_keys", "Keys in memory.", "domain")
	waiters = desc("domain_waiters", "Callers that wait.", "domain")
	version = desc("domain_version", "Version of the document in force.", "domain")
	away    = desc("domain_store_away", "1 while the store does not answer, else 0.", "domain")
	trips   = desc("domain_round_trip_seconds",
		"Round trips that brought answers of the store.", "domain")
	changes = desc("rules_changes_total", "How often rules have come into force.")
	stale   = desc("rules_stale",
		"1 while the rules in force may not be what their source has, else 0.")
)

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		ruleRequests, requests, banned, exchanges, keys, waiters, version, away, trips, changes, stale,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c()
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	count(changes, s.Source.Changes)
	gauge(stale, flag(s.Source.Err != nil))
	for _, d := range s.Domains {
		verdicts := func(source hybrid.Source, v hybrid.Verdicts) {
			count(requests, v.Admitted, d.Domain, source.String(), "admitted")
			count(requests, v.Denied, d.Domain, source.String(), "denied")
		}
		verdicts(hybrid.Lease, d.Limiter.Lease)
		verdicts(hybrid.Ledger, d.Limiter.Ledger)
		verdicts(hybrid.OutagePolicy, d.Limiter.Outage)
		count(banned, d.Banned, d.Domain)
		count(exchanges, d.Limiter.Answered, d.Domain, "answered")
		count(exchanges, d.Limiter.Refused, d.Domain, "refused")
		count(exchanges, d.Limiter.Failed, d.Domain, "failed")
		count(exchanges, d.Limiter.Late, d.Domain, "late")
		gauge(keys, float64(d.Limiter.Keys), d.Domain)
		gauge(waiters, float64(d.Limiter.Waiters), d.Domain)
		gauge(version, float64(d.Version), d.Domain)
		gauge(away, flag(d.Limiter.Away), d.Domain)
		to <- histogram(d.Limiter.RoundTrips, d.Domain)
		for _, r := range d.Rules {
			rule := func(limit string, n rules.Counts) {
				count(ruleRequests, n.Admitted, d.Domain, r.Path, limit, "admitted")
				count(ruleRequests, n.Denied, d.Domain, r.Path, limit, "denied")
				count(ruleRequests, n.ShadowAdmitted, d.Domain, r.Path, limit, "shadow_admitted")
				count(ruleRequests, n.ShadowDenied, d.Domain, r.Path, limit, "shadow_denied")
				count(ruleRequests, n.ShadowUnknown, d.Domain, r.Path, limit, "shadow_unknown")
			}
			rule("own", r.Counts)
			if r.Trial != (rules.Counts{}) {
				rule("trial", r.Trial)
			}
		}
	}
}

func histogram(t hybrid.RoundTrips, domain string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(t.AtMost))
	for bound, n := range t.AtMost {
		buckets[bound.Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(trips, t.Count, t.Sum.Seconds(), buckets, domain)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
