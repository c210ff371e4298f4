package rules

import (
	"log/slog"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/hybrid"
)

// Stats is what a Limiter has done so far, by domain and rule. No key is named in it but those
// of hybrid.Stats.MostDenied.
type Stats struct {
	Source  SourceStats
	Domains []DomainStats // by name
}

// SourceStats is how the source of the rules is.
type SourceStats struct {
	Changes uint64    // how often documents, or their absence, have come into force
	Checked time.Time // when the rules in force were last what the source has

	// Err is why the rules in force may not be what the source has, and StaleSince since when.
	// They are nil and zero if all is well.
	Err        error
	StaleSince time.Time
}

// DomainStats is one domain.
type DomainStats struct {
	Domain  string
	Version int64        // of the Document in force
	Limiter hybrid.Stats // of its hybrid.Limiter since fairness or outage last changed
	Rules   []RuleStats  // in the order of the document

	// Banned counts requests that bans have denied. They are in no other count.
	Banned uint64

	// Overrides counts what was limited by a Descriptor.Limit, of all together. It has no shadows.
	Overrides Counts
}

// RuleStats is one rule. It counts from when its path came into the rules.
type RuleStats struct {
	Path, Name string
	Counts
	Trial Counts
}

// Counts are numbers of requests.
type Counts struct {
	Admitted uint64 // while the limit was in force
	Denied   uint64 // by this limit

	// While the limit was a shadow, of the requests that other limits have admitted: what it
	// would have admitted and denied, and what nobody knows, as the store did not answer or there
	// were too many at once.
	ShadowAdmitted, ShadowDenied, ShadowUnknown uint64
}

func (c *counts) public() Counts {
	return Counts{
		Admitted: c.admitted.Load(), Denied: c.denied.Load(),
		ShadowAdmitted: c.shadowAdmitted.Load(), ShadowDenied: c.shadowDenied.Load(),
		ShadowUnknown: c.shadowUnknown.Load(),
	}
}

// Stats returns what the Limiter has done since New. It costs what hybrid.Limiter.Stats of each
// domain does: call it every few seconds. It does not wait.
func (l *Limiter) Stats() Stats {
	l.follower.mu.Lock()
	s := Stats{Source: l.follower.status}
	l.follower.mu.Unlock()
	for name, d := range l.state.Load().domains {
		domain := DomainStats{
			Domain: name, Version: d.document.Version, Limiter: d.limiter.Stats(),
			Banned: d.banned.Load(), Overrides: d.overrides.public(),
		}
		for i, r := range d.rules {
			domain.Rules = append(domain.Rules, RuleStats{
				Path: r.Path, Name: r.Name,
				Counts: d.counts[i].own.public(), Trial: d.counts[i].trial.public(),
			})
		}
		s.Domains = append(s.Domains, domain)
	}
	slices.SortFunc(s.Domains, func(a, b DomainStats) int {
		return strings.Compare(a.Domain, b.Domain)
	})
	return s
}

// warn has a log line written.
func (l *Limiter) warn(message string, fields ...any) {
	l.book.Post(func() { l.config.warn(message, fields...) })
}

func (config *Config) warn(message string, fields ...any) {
	c := config.Limiter
	if c.Logger != nil {
		c.Logger.Sugar().With(zap.Namespace("rules")).Warnw("rules: "+message, fields...)
		return
	}
	log := c.SlogLogger
	if log == nil {
		log = slog.Default()
	}
	log.Warn("rules: "+message, fields...)
}
