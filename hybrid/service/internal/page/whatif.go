package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
	"github.com/seed13b07268/ration/hybrid/service/internal/whatif"
)

// A trial is another limit for a rule, and what it would have denied.
type trial struct {
	Path   string
	amount        // as it was typed
	Limit  string // as the rules have it; "": nothing was asked yet
	Answer *whatif.Answer
	Keys   []keyFate

	Problem string
	of      string // whatif.Path of the rule
	Classes bool   // of the rule: the limit tried has none
	Shadow  bool   // for some keys or all the rule denies nothing
}

// A keyFate is a row of the keys that a limit would have denied most.
type keyFate struct {
	whatif.KeyFate
	Descriptor string
}

// WhatIf reports whether other limits can be tried on what was recorded.
func (v *visit) WhatIf() bool { return v.page.config.WhatIf != nil }

// newTrial is that of the limit in the query, or the form for one that begins with that of a rule.
func (v *visit) newTrial(r *rules.Rule) *trial {
	if r == nil || !v.WhatIf() {
		return nil
	}
	query, t := v.r.URL.Query(), trialOf(*r)
	if !query.Has("number") {
		t.amount = amountOf(r.Amount)
		t.Unit = cmp.Or(t.Unit, "minute")
		return t
	}
	t.amount = typedAmount(func(field string) string { return strings.TrimSpace(query.Get(field)) })
	limit, text, err := t.parse()
	if err != nil {
		t.Problem = sentence(err)
		return t
	}
	t.Limit = text
	v.leave() // nothing is left of the texts of the history
	v.play(t, limit)
	return t
}

// trialOf is one for a rule in force.
func trialOf(r rules.Rule) *trial {
	return &trial{
		Path: r.Path, of: whatif.Path(r), Classes: len(r.Classes) > 0,
		Shadow: r.Percent < 100 || r.Trial != nil && r.Trial.Percent > 0,
	}
}

// parse reads an amount as a rule has it.
func (f amount) parse() (limit hybrid.Limit, text string, err error) {
	fields, err := f.limit()
	if err != nil {
		return limit, "", err
	}
	parsed, err := rules.ParseDomain("form",
		fmt.Appendf(nil, "domain: form\ndescriptors: [{key: form, rate_limit: %s}]\n", fields))
	if err != nil {
		return limit, "", errors.New(mistakes(err)[0].Text)
	}
	d, _ := parsed.Domain("form")
	return d.Rules[0].Limit, d.Rules[0].Text, nil
}

// play plays what was recorded again.
func (v *visit) play(t *trial, limit hybrid.Limit) {
	a, err := v.page.config.WhatIf(v.r.Context(), v.Domain, t.of, limit)
	switch {
	case errors.Is(err, whatif.ErrBusy):
		t.Problem = "Too many users try a limit at the moment. Try again in a few seconds."
		return
	case errors.Is(err, context.DeadlineExceeded):
		t.Problem = "There is too much to play in ten seconds. Try a rule with less traffic."
		return
	case err != nil: // the browser has gone
		t.Problem = "Nothing was played again."
		return
	}
	t.Answer = &a
	t.Keys = v.keysOf(a)
}

// keysOf are the keys that a limit denies most. A viewer sees names of those alone that were denied,
// as elsewhere.
func (v *visit) keysOf(a whatif.Answer) (rows []keyFate) {
	inForce := v.page.config.Limiter.Rules()
	for _, k := range a.Worst {
		if k.Denied == 0 && !v.User.May(v.Domain, account.Editor) {
			continue
		}
		row := keyFate{KeyFate: k, Descriptor: k.Key}
		if b, err := inForce.Bucket(v.Domain, k.Key); err == nil {
			row.Descriptor = rules.PathOf(b.Entries...)
		}
		if text := []rune(row.Descriptor); len(text) > mostQuoted {
			row.Descriptor = string(text[:mostQuoted]) + "…"
		}
		rows = append(rows, row)
	}
	return rows
}

// mostTrials is how many of the limits that a text changes are played: the text is in memory
// meanwhile.
const mostTrials = 2

// tryChanges plays the limits that a text changes.
func (v *visit) tryChanges(data *editData) {
	d, _ := v.page.config.Limiter.Rules().Domain(v.Domain)
	for _, r := range d.Rules {
		next := data.Check.rule(v.Domain, r.Path)
		if next == nil || next.Limit == r.Limit {
			continue
		}
		if len(data.Trials) == mostTrials {
			data.MoreTrials++
			continue
		}
		t := trialOf(r)
		t.amount, t.Limit = amountOf(next.Amount), next.Text
		data.Trials = append(data.Trials, t)
	}
	data.NoTrials = len(data.Trials) == 0
	for _, t := range data.Trials {
		v.play(t, data.Check.rule(v.Domain, t.Path).Limit)
	}
}

// rule is the one of a path, or nil. There is none in a text with mistakes.
func (c verdict) rule(domain, path string) *rules.Rule {
	if c.rules == nil {
		return nil
	}
	d, _ := c.rules.Domain(domain)
	return ruleOf(d, path)
}

// ruleOf is the rule of a domain with a path, or nil.
func ruleOf(d rules.Domain, path string) *rules.Rule {
	for i := range d.Rules {
		if d.Rules[i].Path == path {
			return &d.Rules[i]
		}
	}
	return nil
}

// Was and Would are which part of the requests was denied, and would have been.
func (t *trial) Was() string   { return partOf(t.Answer.Denied, t.Answer.Requests) }
func (t *trial) Would() string { return partOf(t.Answer.Would, t.Answer.Requests) }

// For is how long what was played again has taken then.
func (t *trial) For() string {
	d := t.Answer.To.Sub(t.Answer.From)
	if d < time.Minute {
		return fmt.Sprintf("%d s", max(0, int(d.Seconds())))
	}
	return fmt.Sprintf("%d min", int(d.Round(time.Minute).Minutes()))
}

// partOf writes a part of requests: 2.5 %.
func partOf(n, of int64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(n)/float64(of))
}

// number writes a count.
func number(n int64) string { return humanize.Count(uint64(n)) }
