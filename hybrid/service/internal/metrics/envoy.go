package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// envoyCollector is a prometheus.Collector with the names that envoyproxy/ratelimit has with
// USE_PROMETHEUS. It counts requests where the original counts hits. It has no near_limit, which
// nobody counts here.
type envoyCollector func() rules.Stats

func envoyDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_"+name, help, nil, nil)
}

// The original's key1 and key2 are the first two of a rule's path. Of a rule of one level it has no
// key2, which for Prometheus is the same as an empty one.
func ruleDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("ratelimit_service_rate_limit_"+name, help,
		[]string{"domain", "key1", "key2"}, nil)
}

var (
	envoyTotal  = ruleDesc("total_hits", "Requests that a rule was asked about.")
	envoyOver   = ruleDesc("over_limit", "Requests that a rule has denied, or would have.")
	envoyWithin = ruleDesc("within_limit", "Requests that a rule has admitted, or would have.")
	envoyShadow = ruleDesc("shadow_mode", "Requests that a rule in shadow would have denied.")
	envoyLoaded = envoyDesc("config_load_success", "How often rules have come into force.")
)

// Describe implements prometheus.Collector.
func (c envoyCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		envoyTotal, envoyOver, envoyWithin, envoyShadow, envoyLoaded,
	} {
		to <- d
	}
}

// Collect implements prometheus.Collector. Rules of the same first two levels are one series.
func (c envoyCollector) Collect(to chan<- prometheus.Metric) {
	type series struct{ domain, key1, key2 string }
	type figures struct{ over, within, shadow, unknown uint64 }
	all := map[series]figures{}
	s := c()
	for _, d := range s.Domains {
		for _, r := range d.Rules {
			at := series{domain: statName(d.Domain)}
			entries, err := rules.ParsePath(r.Path)
			if err != nil {
				continue // Parse has written it
			}
			at.key1 = entryName(entries[0])
			if len(entries) > 1 {
				at.key2 = entryName(entries[1])
			}
			f := all[at]
			f.over += r.Denied + r.ShadowDenied
			f.within += r.Admitted + r.ShadowAdmitted
			f.shadow += r.ShadowDenied
			f.unknown += r.ShadowUnknown
			all[at] = f
		}
	}
	for at, f := range all {
		for d, n := range map[*prometheus.Desc]uint64{
			envoyTotal: f.over + f.within + f.unknown, envoyOver: f.over,
			envoyWithin: f.within, envoyShadow: f.shadow,
		} {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n),
				at.domain, at.key1, at.key2)
		}
	}
	to <- prometheus.MustNewConstMetric(envoyLoaded, prometheus.CounterValue, float64(s.Source.Changes))
}

// entryName is what the original calls a level.
func entryName(e rules.Entry) string {
	if e.Value == "" {
		return statName(e.Key)
	}
	return statName(e.Key + "_" + e.Value)
}

// statName replaces what statsd cannot have, as the original does, and what Prometheus cannot.
func statName(name string) string {
	return strings.ToValidUTF8(strings.NewReplacer(":", "_", "|", "_").Replace(name), "?")
}
