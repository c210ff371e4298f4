package page

import (
	"fmt"
	"html/template"
	"net/http"
	"net/url"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// A ruleData is a rule in force, or one that was, and what has changed it.
type ruleData struct {
	Path         string
	Other        bool        // the path is that of no rule
	Rule         *rules.Rule // nil: it is not in force
	Force, Trial string
	NoBook       bool
	Changes      []ruleChange
	Older        bool // changes of more versions were not looked at
	Live         template.HTML
	WhatIf       *trial // nil: nothing is recorded of the rule
}

// A ruleChange is a version that has changed the rule.
type ruleChange struct {
	rules.Revision
	differing
}

// mostVersions is how many versions are looked at for changes of a rule: each may have a text of
// 4 MiB.
const mostVersions = 20

// rule shows one rule: its figures, the most limited of its keys, and what has changed it, which
// its chart marks.
func (v *visit) rule() {
	query := v.r.URL.Query()
	data := ruleData{Path: query.Get("path"), NoBook: !v.Writable()}
	d, inForce := v.page.config.Limiter.Rules().Domain(v.Domain)
	if data.Rule = ruleOf(d, data.Path); data.Rule != nil {
		data.Force = force(data.Rule.Percent)
		if t := data.Rule.Trial; t != nil {
			data.Trial = fmt.Sprintf("%s for %g %% of keys", t.Text, t.Percent)
		}
	}
	if _, err := rules.ParsePath(data.Path); err != nil {
		data.Other = true
	}
	if !data.NoBook && !data.Other && !v.ruleChanges(&data) {
		return
	}
	if !inForce || data.Path == "" || data.Rule == nil && len(data.Changes) == 0 &&
		!v.measured(data.Path) {
		v.noPage()
		return
	}
	query = url.Values{"path": {data.Path}, "span": {query.Get("span")}}
	for _, c := range data.Changes {
		query.Add("mark", mark(c.Revision))
	}
	data.Live = v.fragmentOf("/rule", query)
	data.WhatIf = v.newTrial(data.Rule)
	v.show(http.StatusOK, "rule", v.Domain+": "+data.Path, data)
}

// measured reports whether there are figures of a path, which a domain's page has a link for.
func (v *visit) measured(path string) bool {
	is := v.page.config.Measured
	return is != nil && is(v.Domain, path)
}

// mark is how Config.Live is told of a version that its chart marks.
func mark(r rules.Revision) string { return fmt.Sprintf("%d.%d", r.Time.UnixMilli(), r.Version) }

// ruleChanges finds what has changed a rule in the newest versions, newest first. If the book does
// not answer it answers, and returns false.
func (v *visit) ruleChanges(data *ruleData) bool {
	list, err := v.page.config.Book.History(v.r.Context(), v.Domain, 0, mostVersions+1)
	if err != nil {
		v.broken(err)
		return false
	}
	if len(list) == 0 {
		return true
	}
	is := read(v.Domain, list[0].Text)
	for i, r := range list[:min(len(list), mostVersions)] {
		if v.r.Context().Err() != nil {
			return false
		}
		var was source
		if i+1 < len(list) {
			was = read(v.Domain, list[i+1].Text)
		} else if r.Version > 1 {
			break // the one before was dropped
		}
		if !was.wrong && !is.wrong {
			for _, d := range rules.Diff(was.rules, is.rules) {
				if d.Path == data.Path {
					r.Text = nil
					data.Changes = append(data.Changes, ruleChange{r, differ(d)})
				}
			}
		}
		is = was
	}
	data.Older = len(list) > mostVersions
	return true
}
