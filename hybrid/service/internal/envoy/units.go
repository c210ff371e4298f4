package envoy

import (
	"math"
	"strings"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A unit is one of the protocol.
type unit = pb.RateLimitResponse_RateLimit_Unit

const (
	unknown = pb.RateLimitResponse_RateLimit_UNKNOWN
	second  = pb.RateLimitResponse_RateLimit_SECOND
	minute  = pb.RateLimitResponse_RateLimit_MINUTE
	hour    = pb.RateLimitResponse_RateLimit_HOUR
	day     = pb.RateLimitResponse_RateLimit_DAY
	week    = pb.RateLimitResponse_RateLimit_WEEK
	month   = pb.RateLimitResponse_RateLimit_MONTH
	year    = pb.RateLimitResponse_RateLimit_YEAR
)

// windows are how long units are.
var windows = [...]time.Duration{
	unknown: time.Second, second: time.Second, minute: hybrid.Minute, hour: hybrid.Hour,
	day: hybrid.Day, week: hybrid.Week, month: hybrid.Month, year: 365 * hybrid.Day,
}

// units knows in which unit a document has each limit: a hybrid.Limit of 60 a minute is one of 1 a
// second. It reads the rules in force again when they have changed.
type units struct{ last atomic.Pointer[table] }

type table struct {
	rules  *rules.Rules
	limits map[place]configured
}

// A place is that of a limit: of a rule, or of its trial.
type place struct {
	domain, path string
	trial        bool
}

// A configured limit is one of a document, and how answers say it.
type configured struct {
	limit    hybrid.Limit
	said     *pb.RateLimitResponse_RateLimit
	metadata *structpb.Struct // of the rule
}

// table returns that of the rules.
func (u *units) table(now *rules.Rules) *table {
	if t := u.last.Load(); t != nil && t.rules == now {
		return t
	}
	t := &table{rules: now, limits: map[place]configured{}}
	add := func(domain string, r rules.Rule, trial bool, limit hybrid.Limit, text string) {
		said := describe(limit, unitOf(text, limit), r.Name)
		// A document has what JSON has, in UTF-8, and so there is no error.
		metadata, _ := structpb.NewStruct(r.Metadata)
		t.limits[place{domain, r.Path, trial}] = configured{limit, said, metadata}
	}
	for _, d := range now.Domains() {
		for _, r := range d.Rules {
			add(d.Name, r, false, r.Limit, r.Text)
			if r.Trial != nil {
				add(d.Name, r, true, r.Trial.Limit, r.Trial.Text)
			}
		}
	}
	u.last.Store(t)
	return t
}

// unitOf reads the unit of a Rule's Text: "60/minute burst 9", or "60 in any minute".
func unitOf(text string, limit hybrid.Limit) unit {
	text = strings.TrimLeft(text, "0123456789")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "/"), " in any ")
	word, _, _ := strings.Cut(text, " ")
	if u, ok := pb.RateLimitResponse_RateLimit_Unit_value[strings.ToUpper(word)]; ok {
		return unit(u)
	}
	return guess(limit)
}

// guess returns a unit for a limit that no rule has: that of its window, or the shortest in which
// a bucket's rate is a whole number.
func guess(limit hybrid.Limit) unit {
	for _, u := range []unit{second, minute, hour, day, week, month, year} {
		if limit.Kind != hybrid.KindBucket {
			if limit.Window == windows[u] {
				return u
			}
			continue
		}
		n := limit.Rate * windows[u].Seconds()
		if n > 0.5 && math.Abs(n-math.Round(n)) < 1e-6 {
			return u
		}
	}
	return unknown
}
