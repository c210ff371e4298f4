package otel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed13b07268/ration/hybrid"
)

// Register shows the Stats of limiter by instruments of provider, until the Registration is
// undone. All have the attribute ration.limiter, which is hybrid.Config's Namespace, and these,
// such as the rule that the Limiter enforces. Errors: limiter or provider is nil; an attribute is
// one of those that docs/metrics.md lists; those of the provider.
func Register(
	provider metric.MeterProvider, limiter *hybrid.Limiter, attributes ...attribute.KeyValue,
) (metric.Registration, error) {
	if provider == nil || limiter == nil {
		return nil, errors.New("otel: register: provider or limiter is nil")
	}
	for _, a := range attributes {
		switch a.Key {
		case limiterKey, sourceKey, verdictKey, outcomeKey:
			return nil, fmt.Errorf(
				"otel: register: attribute %s %q: it is set by Register", a.Key, a.Value.String())
		}
	}
	meter := provider.Meter(scope)
	all := make([]metric.Observable, len(instruments))
	shown := make([]metric.Float64Observable, len(instruments))
	for n, i := range instruments {
		o, err := i.kind(meter, i.name, i.unit, i.description)
		if err != nil {
			return nil, fmt.Errorf("otel: register %s: %w", i.name, err)
		}
		all[n], shown[n] = o, o
	}
	common := append(
		[]attribute.KeyValue{limiterKey.String(limiter.Stats().Namespace)}, attributes...)
	r, err := meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		s := limiter.Stats()
		for n, i := range instruments {
			i.read(s, func(value float64, own ...attribute.KeyValue) {
				to.ObserveFloat64(shown[n], value,
					metric.WithAttributes(common...), metric.WithAttributes(own...))
			})
		}
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("otel: register: %w", err)
	}
	return r, nil
}

// instruments are those of each Limiter. TestAllOfStats fails for a field of Stats that none
// shows. All are of float64, which holds counts up to 2^53.
var instruments = []struct {
	name, unit, description string
	kind                    kind
	read                    read
}{
	{"ration.requests", "{request}", "Requests that were decided.", counter, requests},
	{
		"ration.tokens", "{token}", "Tokens of these requests, without those reserved.", counter,
		tokens,
	},
	{
		"ration.settled_tokens", "{token}", "Tokens of reservations that have ended.", counter,
		one(func(s hybrid.Stats) float64 { return float64(s.Settled) }),
	},
	{
		"ration.charged_tokens", "{token}", "Tokens that were charged after their use.", counter,
		one(func(s hybrid.Stats) float64 { return float64(s.Charged) }),
	},
	{
		"ration.exchanges", "{exchange}", "Exchanges with the store that have ended.", counter,
		exchanges,
	},
	{
		"ration.round_trip.p50", "s", "Median of the last minute's round trips, if any.", gauge,
		trip(func(s hybrid.Stats) time.Duration { return s.RoundTripP50 }),
	},
	{
		"ration.round_trip.p99", "s", "99th percentile of the last minute's round trips, if any.",
		gauge, trip(func(s hybrid.Stats) time.Duration { return s.RoundTripP99 }),
	},
	{
		"ration.keys", "{key}", "Keys in memory.", sum,
		one(func(s hybrid.Stats) float64 { return float64(s.Keys) }),
	},
	{
		"ration.waiters", "{caller}", "Callers that wait.", sum,
		one(func(s hybrid.Stats) float64 { return float64(s.Waiters) }),
	},
	{
		"ration.processes", "{process}", "Processes that share the limits, 0 if not known.", gauge,
		one(func(s hybrid.Stats) float64 { return float64(s.Processes) }),
	},
	{
		"ration.store.away", "", "1 while the store does not answer, else 0.", gauge,
		one(func(s hybrid.Stats) float64 { return flag(s.Away) }),
	},
	{
		"ration.store.slow", "",
		"1 while the store answers, but a quarter of exchanges too late, else 0.", gauge,
		one(func(s hybrid.Stats) float64 { return flag(s.Slow) }),
	},
	{
		"ration.store.away_time", "s", "For how long the store has not answered.", counter,
		one(func(s hybrid.Stats) float64 { return s.AwayFor.Seconds() }),
	},
	{
		"ration.panics", "{panic}", "Panics of the store, LimitFor, the logger or the record.", counter,
		one(func(s hybrid.Stats) float64 { return float64(s.Panics) }),
	},
	{
		"ration.lost_lines", "{line}", "Log lines that the logger was not given, as it hung.", counter,
		one(func(s hybrid.Stats) float64 { return float64(s.LostLines) }),
	},
	{
		"ration.lost_records", "{record}", "Decisions that were not written to the record.", counter,
		one(func(s hybrid.Stats) float64 { return float64(s.LostRecords) }),
	},
}

// kind makes an instrument.
type kind func(m metric.Meter, name, unit, description string) (metric.Float64Observable, error)

func counter(m metric.Meter, name, unit, description string) (metric.Float64Observable, error) {
	return m.Float64ObservableCounter(
		name, metric.WithUnit(unit), metric.WithDescription(description))
}

// sum is for what may be added up over processes.
func sum(m metric.Meter, name, unit, description string) (metric.Float64Observable, error) {
	return m.Float64ObservableUpDownCounter(
		name, metric.WithUnit(unit), metric.WithDescription(description))
}

func gauge(m metric.Meter, name, unit, description string) (metric.Float64Observable, error) {
	return m.Float64ObservableGauge(
		name, metric.WithUnit(unit), metric.WithDescription(description))
}

// read tells the values of an instrument, and their own attributes.
type read func(s hybrid.Stats, tell func(value float64, own ...attribute.KeyValue))

// one is the read of an instrument that has one value.
func one(of func(s hybrid.Stats) float64) read {
	return func(s hybrid.Stats, tell func(float64, ...attribute.KeyValue)) { tell(of(s)) }
}

func requests(s hybrid.Stats, tell func(value float64, own ...attribute.KeyValue)) {
	verdicts(s, func(source attribute.KeyValue, v hybrid.Verdicts) {
		tell(float64(v.Admitted), source, verdictKey.String("admitted"))
		tell(float64(v.Denied), source, verdictKey.String("denied"))
	})
}

func tokens(s hybrid.Stats, tell func(value float64, own ...attribute.KeyValue)) {
	verdicts(s, func(source attribute.KeyValue, v hybrid.Verdicts) {
		tell(float64(v.AdmittedTokens), source, verdictKey.String("admitted"))
		tell(float64(v.DeniedTokens), source, verdictKey.String("denied"))
	})
}

// verdicts tells those of each source.
func verdicts(s hybrid.Stats, tell func(source attribute.KeyValue, v hybrid.Verdicts)) {
	tell(sourceKey.String(hybrid.Lease.String()), s.Lease)
	tell(sourceKey.String(hybrid.Ledger.String()), s.Ledger)
	tell(sourceKey.String(hybrid.OutagePolicy.String()), s.Outage)
}

// exchanges leaves out Stats.Exchanges, which is the sum.
func exchanges(s hybrid.Stats, tell func(value float64, own ...attribute.KeyValue)) {
	tell(float64(s.Answered), outcomeKey.String("answered"))
	tell(float64(s.Refused), outcomeKey.String("refused"))
	tell(float64(s.Failed), outcomeKey.String("failed"))
	tell(float64(s.Late), outcomeKey.String("late"))
}

// trip tells a quantile, and nothing if there was no round trip: 0 s would be taken for one.
func trip(of func(s hybrid.Stats) time.Duration) read {
	return func(s hybrid.Stats, tell func(float64, ...attribute.KeyValue)) {
		if d := of(s); d > 0 {
			tell(d.Seconds())
		}
	}
}

func flag(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
