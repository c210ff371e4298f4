package prometheus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed13b07268/ration/hybrid"
)

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// decided are the labels of what is counted by decision.
var decided = []string{"source", "verdict"}

// metrics are those of each Limiter. TestAllOfStats fails for a field of Stats that none shows.
var metrics = []struct {
	name   string // after "ration_"
	kind   prometheus.ValueType
	help   string
	labels []string
	read   read
}{
	{"requests_total", counter, "Requests that were decided.", decided, requests},
	{"tokens_total", counter, "Tokens of these requests, without those reserved.", decided, tokens},
	{
		"settled_tokens_total", counter, "Tokens of reservations that have ended.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Settled) }),
	},
	{
		"charged_tokens_total", counter, "Tokens that were charged after their use.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Charged) }),
	},
	{
		"exchanges_total", counter, "Exchanges with the store that have ended.",
		[]string{"outcome"}, exchanges,
	},
	{
		"keys", gauge, "Keys in memory.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Keys) }),
	},
	{
		"waiters", gauge, "Callers that wait.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Waiters) }),
	},
	{
		"processes", gauge, "Processes that share the limits, 0 if not known.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Processes) }),
	},
	{
		"store_away", gauge, "1 while the store does not answer, else 0.", nil,
		one(func(s hybrid.Stats) float64 { return flag(s.Away) }),
	},
	{
		"store_slow", gauge,
		"1 while the store answers, but a quarter of exchanges too late, else 0.", nil,
		one(func(s hybrid.Stats) float64 { return flag(s.Slow) }),
	},
	{
		"store_away_seconds_total", counter, "For how long the store has not answered.", nil,
		one(func(s hybrid.Stats) float64 { return s.AwayFor.Seconds() }),
	},
	{
		"panics_total", counter, "Panics of the store, LimitFor, the logger or the record.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.Panics) }),
	},
	{
		"lost_lines_total", counter, "Log lines that the logger was not given, as it hung.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.LostLines) }),
	},
	{
		"lost_records_total", counter, "Decisions that were not written to the record.", nil,
		one(func(s hybrid.Stats) float64 { return float64(s.LostRecords) }),
	},
}

const tripsHelp = "Round trips that brought answers of the store."

// trips is the histogram of desc. Processes can be added up, which their quantiles cannot.
func trips(desc *prometheus.Desc, t hybrid.RoundTrips, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(t.AtMost))
	for bound, n := range t.AtMost {
		buckets[bound.Seconds()] = n
	}
	return prometheus.MustNewConstHistogram(desc, t.Count, t.Sum.Seconds(), buckets, labels...)
}

// read tells the values of a metric, and those of its variable labels.
type read func(s hybrid.Stats, tell func(value float64, labels ...string))

// one is the read of a metric without variable labels.
func one(of func(s hybrid.Stats) float64) read {
	return func(s hybrid.Stats, tell func(float64, ...string)) { tell(of(s)) }
}

func requests(s hybrid.Stats, tell func(value float64, labels ...string)) {
	verdicts(s, func(source string, v hybrid.Verdicts) {
		tell(float64(v.Admitted), source, "admitted")
		tell(float64(v.Denied), source, "denied")
	})
}

func tokens(s hybrid.Stats, tell func(value float64, labels ...string)) {
	verdicts(s, func(source string, v hybrid.Verdicts) {
		tell(float64(v.AdmittedTokens), source, "admitted")
		tell(float64(v.DeniedTokens), source, "denied")
	})
}

// verdicts tells those of each source.
func verdicts(s hybrid.Stats, tell func(source string, v hybrid.Verdicts)) {
	tell(hybrid.Lease.String(), s.Lease)
	tell(hybrid.Ledger.String(), s.Ledger)
	tell(hybrid.OutagePolicy.String(), s.Outage)
}

// exchanges leaves out Stats.Exchanges, which is the sum.
func exchanges(s hybrid.Stats, tell func(value float64, labels ...string)) {
	tell(float64(s.Answered), "answered")
	tell(float64(s.Refused), "refused")
	tell(float64(s.Failed), "failed")
	tell(float64(s.Late), "late")
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
