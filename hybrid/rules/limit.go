package rules

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/hybrid"
)

// limit reads the rule of a descriptor, if it has a limit.
func (t *treeReader) limit(p place, fields map[string]place, trail []*level) {
	if null(fields["rate_limit"]) {
		t.unlimited(fields)
		return
	}
	r := &Rule{
		Path: pathOf(trail), Percent: 100, File: t.file, Line: p.Line,
		index: len(t.domain.rules), trail: trail,
	}
	if len(r.Path) > 2*MaxBytes {
		t.fail(p, "its path has %d bytes, more than %d", len(r.Path), 2*MaxBytes)
		return
	}
	limit := fields["rate_limit"]
	own := t.fields(limit, "unit", "requests_per_unit", "unlimited", "name", "replaces",
		"burst", "kind", "offset")
	r.Limit, r.Text = t.amount(limit, own)
	r.Amount = amountOf(own, r.Limit)
	r.Name = t.text(own["name"])
	r.Replaces = t.replaces(own["replaces"], r.Name)
	r.QuotaMode = t.flag(fields["quota_mode"])
	r.Metadata = t.metadata(fields["metadata"])
	t.force(r, fields)
	if f := fields["trial"]; !null(f) {
		t.trial(f, r)
	}
	if f := fields["overdraft"]; !null(f) {
		r.Overdraft = new(t.flag(f))
	}
	if f := fields["bucket"]; !null(f) {
		t.pins = append(t.pins, pin{r, f})
	}
	t.classes(fields, r)
	for _, l := range trail {
		for _, how := range l.counted() {
			r.Counted = append(r.Counted, l.shown()+" "+how)
		}
	}
	t.domain.rules = append(t.domain.rules, r)
	trail[len(trail)-1].rule = r
}

// unlimited reads a descriptor without a limit: what is there would be part of one.
func (t *treeReader) unlimited(fields map[string]place) {
	for _, name := range []string{"percent", "trial", "bucket", "overdraft", "classes"} {
		if f := fields[name]; !null(f) {
			t.fail(f, "it needs a rate_limit beside it")
		}
	}
	for _, name := range []string{"shadow_mode", "quota_mode"} {
		if f := fields[name]; t.flag(f) {
			t.note(f, "it has no effect without a rate_limit beside it")
		}
	}
	if f := fields["metadata"]; t.metadata(f) != nil {
		t.note(f, "it has no effect without a rate_limit beside it")
	}
}

// pathOf is the path of the last level.
func pathOf(trail []*level) string {
	entries := make([]Entry, len(trail))
	for i, l := range trail {
		entries[i] = l.Entry
	}
	return PathOf(entries...)
}

// force reads for how many keys a rule is in force.
func (t *treeReader) force(r *Rule, fields map[string]place) {
	f := fields["percent"]
	if !null(f) {
		r.Percent = t.percent(f)
	}
	if shadow := fields["shadow_mode"]; t.flag(shadow) {
		if r.Percent = 0; !null(f) {
			t.fail(shadow, "percent is beside it: shadow_mode is percent 0")
		}
	}
	switch {
	case r.Limit != hybrid.Unlimited || r.Percent == 100:
	case null(f):
		r.Percent = 100
		t.note(fields["shadow_mode"], "it has no effect: the rule is unlimited")
	default:
		t.fail(f, "the rule is unlimited, and has nothing to be a shadow of")
	}
}

// trial reads the limit beside that of a rule.
func (t *treeReader) trial(p place, r *Rule) {
	fields := t.fields(p, "unit", "requests_per_unit", "burst", "kind", "offset", "percent")
	if len(fields) == 0 {
		return
	}
	r.Trial = &Trial{}
	r.Trial.Limit, r.Trial.Text = t.amount(p, fields)
	if f := fields["percent"]; !null(f) {
		r.Trial.Percent = t.percent(f)
	} else {
		t.fail(p, "percent is missing: 0 is a trial that is only counted")
	}
	if r.Percent < 100 {
		t.fail(p, "the rule beside it is in shadow_mode, or for a percentage")
	}
}

// percent reads a number from 0 to 100.
func (t *treeReader) percent(p place) float64 {
	if !t.is(p, yaml.ScalarNode, "a number from 0 to 100") {
		return 0
	}
	v, err := strconv.ParseFloat(p.Value, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		t.fail(p, "%.80q is not a number from 0 to 100", p.Value)
		return 0
	}
	return v
}

// replaces reads the names of rules.
func (t *treeReader) replaces(p place, own string) (names []string) {
	if null(p) || !t.is(p, yaml.SequenceNode, "a list of names") {
		return nil
	}
	for i, n := range p.Content {
		at := place{n, fmt.Sprintf("%s[%d]", p.path, i)}
		switch name := t.text(t.fields(at, "name")["name"]); {
		case name == "":
			t.fail(at, "the name is missing")
		case name == own:
			t.fail(at, "%.80q is the name of the rule itself", name)
		default:
			names = append(names, name)
		}
	}
	return names
}

// A unit is what a number of requests is for. Those of a day and more are quotas by default.
type unit struct {
	name   string
	window time.Duration
	quota  bool
}

// year is what envoyproxy/ratelimit counts as one.
const year = 365 * hybrid.Day

var units = []unit{
	{"second", time.Second, false}, {"minute", hybrid.Minute, false}, {"hour", hybrid.Hour, false},
	{"day", hybrid.Day, true}, {"week", hybrid.Week, true}, {"month", hybrid.Month, true},
	{"year", year, true},
}

// most is the largest number of a limit.
const most = 1 << 32

// amount reads a limit, and how people write it.
func (t *treeReader) amount(p place, fields map[string]place) (hybrid.Limit, string) {
	if t.flag(fields["unlimited"]) {
		for _, name := range []string{"unit", "burst", "kind", "offset"} {
			if f := fields[name]; !null(f) {
				t.fail(f, "unlimited is beside it")
			}
		}
		if f := fields["requests_per_unit"]; !null(f) {
			t.note(f, "it has no effect: the rule is unlimited")
		}
		return hybrid.Unlimited, "unlimited"
	}
	if len(fields) == 0 {
		return hybrid.Unlimited, "" // there is a mistake
	}
	before := len(t.errs) + t.more
	u, kind := t.unit(p, fields)
	n, ok := int64(0), false
	if f := fields["requests_per_unit"]; null(f) {
		t.fail(p, "requests_per_unit is missing")
	} else {
		n, ok = t.count(f, 0, most)
	}
	if !ok || u.window == 0 || len(t.errs)+t.more > before {
		return hybrid.Unlimited, ""
	}
	limit, text := t.limitOf(fields, u, kind, n)
	if n == 0 {
		return hybrid.Blocked, text
	}
	if err := limit.Validate(); err != nil {
		t.fail(p, "%v", err)
	}
	return limit, text
}

// amountOf is a valid limit as the document writes it.
func amountOf(fields map[string]place, limit hybrid.Limit) (a Amount) {
	if limit == hybrid.Unlimited {
		return Amount{Unlimited: true}
	}
	value := func(name string) string {
		if f := fields[name]; !null(f) {
			return f.Value
		}
		return ""
	}
	a.Unit, a.Kind = strings.ToLower(value("unit")), value("kind")
	a.Requests, _ = strconv.ParseInt(value("requests_per_unit"), 10, 64)
	a.Burst, _ = strconv.ParseInt(value("burst"), 10, 64)
	a.Offset, _ = time.ParseDuration(value("offset"))
	return a
}

// unit reads the unit, and which kind of limit is meant.
func (t *treeReader) unit(p place, fields map[string]place) (u unit, kind hybrid.Kind) {
	name := t.text(fields["unit"])
	if name == "" {
		t.fail(p, "the unit is missing")
		return u, 0
	}
	names := make([]string, len(units))
	for i, x := range units {
		names[i] = x.name
		if strings.EqualFold(x.name, name) {
			u = x
		}
	}
	if u.name == "" {
		t.fail(fields["unit"], "unknown unit %.80q%s", name, nearest(name, names))
	}
	if u.quota {
		kind = hybrid.KindQuota
	}
	if f := fields["kind"]; !null(f) {
		switch text := t.text(f); text {
		case "bucket":
			kind = hybrid.KindBucket
		case "quota":
			kind = hybrid.KindQuota
		case "sliding":
			kind = hybrid.KindSliding
		case "slots":
			t.fail(f, "slots are not supported in rules: a request does not put them back")
		default:
			t.fail(f, "%.80q is not bucket, quota or sliding", text)
		}
	}
	return u, kind
}

// limitOf is the limit of n requests per unit.
func (t *treeReader) limitOf(
	fields map[string]place, u unit, kind hybrid.Kind, n int64,
) (limit hybrid.Limit, text string) {
	text = textOf(kind, n, u)
	switch kind {
	case hybrid.KindBucket:
		limit = hybrid.Per(float64(n), u.window)
	case hybrid.KindQuota:
		limit = hybrid.Quota(n, u.window)
	default:
		limit = hybrid.Sliding(n, u.window)
	}
	if f := fields["burst"]; !null(f) {
		burst, ok := t.count(f, 1, most)
		if kind != hybrid.KindBucket || n == 0 {
			t.fail(f, "only a bucket has a burst: this is %s", text)
		} else if ok {
			limit, text = limit.WithBurst(burst), withBurst(text, burst)
		}
	}
	if f := fields["offset"]; !null(f) {
		offset, err := time.ParseDuration(t.text(f))
		switch {
		case kind != hybrid.KindQuota:
			t.fail(f, "only a quota has an offset: this is %s", text)
		case err != nil || offset.Abs() > 14*time.Hour || offset%time.Second != 0:
			t.fail(f, "%.80q is not a time from -14h to 14h in whole seconds", f.Value)
		default:
			limit, text = limit.In(offset), withOffset(text, offset)
		}
	}
	if math.IsInf(limit.Rate, 0) {
		return hybrid.Blocked, text
	}
	return limit, text
}
