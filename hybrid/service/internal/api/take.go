package api

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// A limiter is what the API needs of a rules.Limiter.
type limiter interface {
	Take(ctx context.Context, domain string, ds ...rules.Descriptor) (rules.Result, error)
	Peek(ctx context.Context, domain string, ds ...rules.Descriptor) (rules.Result, error)
	reservations.Limiter
	Rules() *rules.Rules
}

// An order is the body of take, peek and reserve.
type order struct {
	domain string
	asks   []rules.Descriptor

	// Of reserve.
	id    string // empty: the caller has chosen none
	ttl   int    // seconds
	spent bool   // if nobody settles it

	estimate *reservations.Estimate // of descriptors without hits
}

// order reads the body, and checks that the caller may see the domain and that it is in force.
func (a *api) order(q *request, reserve bool) (order, error) {
	o := order{ttl: int(usualTTL / time.Second), spent: true}
	f := fields{"domain": text(&o.domain, 1, validate.MaxDomain), "descriptors": o.descriptors}
	if reserve {
		f["ttl"] = readTTL(&o.ttl)
		f["reservation_id"], f["unsettled"] = reservationID(&o.id), readUnsettled(&o.spent)
		f["estimate"] = readEstimate(&o.estimate)
	}
	if err := q.json(mostBody, f, "domain", "descriptors"); err != nil {
		return o, err
	}
	if err := o.complete(); err != nil {
		return o, err
	}
	return o, a.inForce(q, o.domain)
}

// inForce returns the problem of a domain without rules in force, or that the caller may not see.
func (a *api) inForce(q *request, domain string) error {
	if err := q.see(domain); err != nil {
		return err
	}
	if _, ok := a.limiter.Rules().Domain(domain); !ok {
		return noDomain
	}
	return nil
}

func (o *order) descriptors(r reader, at string) error {
	return r.list(at, rules.MaxDescriptors, func(r reader, at string) error {
		x, limit := rules.Descriptor{}, ""
		err := r.object(at, fields{
			"entries": entries(&x.Entries),
			"hits":    whole(&x.Hits, 1, rules.MaxHits),
			"limit":   text(&limit, 1, shown),
		}, "entries")
		if err == nil && limit != "" {
			if x.Limit, err = parseLimit(limit); err != nil {
				err = bad(at+".limit", strconv.Quote(limit), "%v", err)
			}
		}
		o.asks = append(o.asks, x)
		return err
	})
}

// entries reads those of a descriptor.
func entries(into *[]rules.Entry) read {
	return func(r reader, at string) error {
		size := 0
		err := r.list(at, rules.MaxEntries, func(r reader, at string) error {
			var e rules.Entry
			err := r.object(at, fields{
				"key": text(&e.Key, 1, rules.MaxBytes), "value": text(&e.Value, 0, rules.MaxBytes),
			}, "key", "value")
			size += len(e.Key) + len(e.Value)
			*into = append(*into, e)
			return err
		})
		if err == nil && size > rules.MaxBytes {
			return bad(at, "", "keys and values have %d bytes, more than %d", size, rules.MaxBytes)
		}
		return err
	}
}

// A result is a rules.Result in JSON.
type result struct {
	Allowed bool     `json:"allowed"`
	Denied  *int     `json:"denied"`
	Each    []status `json:"each"`
}

// A status is a rules.Status in JSON. The decision is there if State is limited or
// banned.
type status struct {
	State string `json:"state"`
	Rule  string `json:"rule"`
	Name  string `json:"name"`
	Trial bool   `json:"trial"`
	Ban   *ban   `json:"ban,omitempty"` // that denies, if State is banned

	*decision
}

type decision struct {
	Allowed    bool     `json:"allowed"`
	Limit      limit    `json:"limit"`
	Remaining  int64    `json:"remaining"`
	RetryAfter *float64 `json:"retry_after"` // null: the request is not worth repeating
	ResetAfter float64  `json:"reset_after"`
	Source     string   `json:"source"`
}

// A limit is a hybrid.Limit in JSON.
type limit struct {
	Text   string  `json:"text"`
	Kind   string  `json:"kind"`
	Burst  int64   `json:"burst"`
	Rate   float64 `json:"rate,omitzero"`   // of a bucket, in tokens a second
	Window float64 `json:"window,omitzero"` // of a quota or a sliding window, in seconds
}

// kinds are as documents of rules have them.
var kinds = map[hybrid.Kind]string{
	hybrid.KindBucket: "bucket", hybrid.KindQuota: "quota", hybrid.KindSliding: "sliding",
}

func limitOf(l hybrid.Limit) limit {
	x := limit{
		Text: l.String(), Kind: kinds[l.Kind], Burst: l.Burst, Window: l.Window.Seconds(),
	}
	if l.Kind == hybrid.KindBucket && l != hybrid.Blocked {
		x.Rate = l.Rate
	}
	return x
}

func resultOf(r rules.Result) result {
	x := result{Allowed: r.Allowed, Each: make([]status, len(r.Each))}
	if r.Denied >= 0 {
		x.Denied = &r.Denied
	}
	for i, s := range r.Each {
		x.Each[i] = status{State: s.State.String(), Rule: s.Rule, Name: s.Name, Trial: s.Trial}
		if s.State == rules.Banned {
			b := banOf(*s.Ban)
			x.Each[i].Ban = &b
		}
		if s.State == rules.Limited || s.State == rules.Banned {
			x.Each[i].decision = decisionOf(s.Decision)
		}
	}
	return x
}

func decisionOf(d hybrid.Decision) *decision {
	x := &decision{
		Allowed: d.Allowed, Limit: limitOf(d.Limit), Remaining: d.Remaining,
		ResetAfter: seconds(d.ResetAfter), Source: d.Source.String(),
	}
	if after := seconds(d.RetryAfter); d.Allowed || after > 0 {
		x.RetryAfter = &after
	}
	return x
}

// seconds rounds up to whole milliseconds: a caller that came back earlier would be denied.
func seconds(d time.Duration) float64 {
	return math.Ceil(float64(d)/float64(time.Millisecond)) / 1000
}

func (a *api) take(w http.ResponseWriter, q *request) error {
	return a.ask(w, q, a.limiter.Take)
}

func (a *api) peek(w http.ResponseWriter, q *request) error {
	return a.ask(w, q, a.limiter.Peek)
}

func (a *api) ask(
	w http.ResponseWriter, q *request,
	verb func(context.Context, string, ...rules.Descriptor) (rules.Result, error),
) error {
	o, err := a.order(q, false)
	if err != nil {
		return err
	}
	r, err := verb(q.Context(), o.domain, o.asks...)
	if err != nil {
		return err
	}
	send(w, http.StatusOK, typeJSON, resultOf(r))
	return nil
}

// An explanation is a rules.Explanation in JSON.
type explanation struct {
	State   string  `json:"state"`
	Rule    string  `json:"rule"`
	Name    string  `json:"name"`
	Trial   bool    `json:"trial"`
	Class   string  `json:"class,omitempty"`
	Percent float64 `json:"percent,omitzero"`
	Limit   *limit  `json:"limit,omitempty"`
	Key     string  `json:"key,omitempty"`
}

// explain tells what a request would be limited by. It takes nothing.
func (a *api) explain(w http.ResponseWriter, q *request) error {
	domain := q.parameter("domain")
	if err := a.inForce(q, domain); err != nil {
		return err
	}
	var descriptors []rules.Descriptor
	for i, text := range q.query["descriptor"] {
		entries, err := rules.ParsePath(text)
		if err != nil {
			return bad(fmt.Sprintf("descriptor[%d]", i), cut(text), "%v", err)
		}
		descriptors = append(descriptors, rules.Descriptor{Entries: entries})
	}
	list, err := a.limiter.Rules().Explain(domain, descriptors...)
	if err != nil {
		return err
	}
	each := make([]explanation, len(list))
	for i, e := range list {
		each[i] = explanation{
			State: e.State.String(), Rule: e.Rule.Path, Name: e.Rule.Name, Trial: e.Trial,
			Class: e.Class, Percent: e.Rule.Percent, Key: e.Key,
		}
		if e.State == rules.Limited {
			l := limitOf(e.Limit)
			each[i].Limit = &l
		}
	}
	send(w, http.StatusOK, typeJSON, map[string]any{"each": each})
	return nil
}
