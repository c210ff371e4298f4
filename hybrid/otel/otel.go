// Package otel shows the Stats of Limiters as metrics of OpenTelemetry, and makes spans of
// exchanges with the store and of requests.
//
// # Promise
//
// Register shows all of hybrid.Stats but keys. docs/metrics.md lists the metrics. A collection
// looks at each key in memory for about 0.1 µs, and asks nobody. No metric and no span has the
// name of a key.
//
// Spans cost what their exporter costs, where they are asked for: a Store that is not wrapped has
// none, and Take and Wait make none in a trace that is not recorded.
//
// It does not relate exchanges to requests: one exchange serves many requests, most of which do not
// wait for it. So an exchange is a trace of its own.
//
// # The caller's duties
//
// Register each Limiter once, and Unregister it when the Limiter is closed. Limiters need different
// Namespaces or attributes: nobody notices that two have the same, and their figures are mixed up.
package otel

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"

	"github.com/seed13b07268/ration/hybrid"
)

// scope names this package to the SDK.
const scope = "github.com/seed13b07268/ration/hybrid/otel"

// The attributes of metrics and spans.
const (
	limiterKey    = attribute.Key("ration.limiter")     // hybrid.Config's Namespace
	sourceKey     = attribute.Key("ration.source")      // lease, ledger or outage
	verdictKey    = attribute.Key("ration.verdict")     // admitted or denied
	outcomeKey    = attribute.Key("ration.outcome")     // answered, refused, failed or late
	limitKey      = attribute.Key("ration.limit")       // such as 1000/s burst 200
	tokensKey     = attribute.Key("ration.tokens")      // that are asked for
	retryAfterKey = attribute.Key("ration.retry_after") // in seconds
	exchangesKey  = attribute.Key("ration.exchanges")   // in one round trip
)

// Attributes are those of a Decision for a span of the caller's own: source, verdict and limit,
// and, if it was denied, in how many seconds it is worth repeating.
func Attributes(d hybrid.Decision) []attribute.KeyValue {
	all := []attribute.KeyValue{
		sourceKey.String(d.Source.String()), verdictKey.String("admitted"),
		limitKey.String(d.Limit.String()),
	}
	if !d.Allowed {
		all[1] = verdictKey.String("denied")
		all = append(all, retryAfterKey.Float64(d.RetryAfter.Seconds()))
	}
	return all
}

// cause is the innermost error: those around it name keys.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
