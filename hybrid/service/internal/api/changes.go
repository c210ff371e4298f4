package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// A change is what a request wants to do to a domain.
type change struct {
	rules.Change
	dry     bool
	bound   bool // the Base was named by the request
	created bool // the domain must not be there
}

// begin reads what all changes have in common, but for the reason in a body.
func (a *api) begin(q *request) (c change, err error) {
	c.Author = q.caller.Name
	if c.Domain, err = a.named(q); err != nil {
		return c, err
	}
	if err := q.change(c.Domain); err != nil {
		return c, err
	}
	switch text := q.parameter("dry-run"); {
	case text == "true":
		c.dry = true
	case text != "false" && q.query["dry-run"] != nil:
		return c, bad("dry-run", cut(text), "it is not true or false")
	}
	c.Reason = q.parameter("reason")
	if err = c.condition(q); err == nil && c.created {
		err = q.owns(c.Domain) // before it learns which version is the newest
	}
	return c, err
}

// condition reads If-Match and If-None-Match: which version the caller has seen.
func (c *change) condition(q *request) error {
	match, none := q.Header.Values("If-Match"), q.Header.Values("If-None-Match")
	switch {
	case len(match)+len(none) > 1:
		return bad("If-Match", cut(strings.Join(append(match, none...), ", ")),
			"there is more than one condition")
	case len(none) == 1:
		if c.created = none[0] == "*"; !c.created {
			return bad("If-None-Match", cut(none[0]), "it is not *")
		}
	case len(match) == 1:
		text, err := strconv.Unquote(match[0])
		if err == nil {
			c.Base, err = strconv.ParseInt(text, 10, 64)
		}
		if err != nil || c.Base < 1 || c.Base > mostVersion || match[0] != tag(c.Base) {
			return bad("If-Match", cut(match[0]), `it is not the ETag of a version, like "7"`)
		}
		c.bound = true
	case !c.dry:
		return problem{Status: http.StatusPreconditionRequired, Field: "If-Match",
			Detail: `it is missing: the version that the caller has seen, like "7"; ` +
				`for a new domain it is If-None-Match: *`}
	}
	return nil
}

// base finds the Base of a change that does not name it.
func (a *api) base(ctx context.Context, c *change) error {
	newest, _, err := a.before(ctx, c.Domain, 0)
	if err == nil && c.created && newest.Text != nil {
		return slower(newest)
	}
	c.Base = newest.Version
	return err
}

// slower tells which version is the newest one.
func slower(newest rules.Revision) problem {
	r := revisionOf(newest)
	return problem{Status: http.StatusPreconditionFailed, Newest: &r,
		Detail: fmt.Sprintf("version %d is the newest one: load it, and make the change anew",
			r.Version)}
}

// was returns the text that a change begins with.
func (a *api) was(ctx context.Context, c *change) ([]byte, error) {
	r, found, err := a.before(ctx, c.Domain, c.Base+1)
	switch {
	case err != nil:
		return nil, err
	case found && r.Version == c.Base && r.Text != nil:
		return r.Text, nil
	case found && r.Version == c.Base || c.Base == 0:
		return nil, noDomain
	}
	// It has been dropped from the history, or never was there.
	return nil, a.conflict(ctx, c.Domain)
}

// conflict is the problem of a change whose Base is not the newest version.
func (a *api) conflict(ctx context.Context, domain string) error {
	newest, found, err := a.before(ctx, domain, 0)
	if err == nil && !found {
		err = noDomain
	}
	if err != nil {
		return err
	}
	return slower(newest)
}

// edit makes a change. The first function reads the request, which may take its time; the other
// one sets the text.
func (a *api) edit(w http.ResponseWriter, q *request, read, edit func(*change) error) error {
	c, err := a.begin(q)
	if err != nil {
		return err
	}
	done, err := place(q.Context(), a.bodies)
	if err != nil {
		return err
	}
	defer done()
	if err := read(&c); err != nil {
		return err
	}
	leave, err := a.hold(q)
	if err != nil {
		return err
	}
	defer leave()
	if !c.bound {
		if err := a.base(q.Context(), &c); err != nil {
			return err
		}
	}
	if err := edit(&c); err != nil {
		return err
	}
	return a.save(w, q, c)
}

// save makes a change whose text is known, or tells what it would do.
func (a *api) save(w http.ResponseWriter, q *request, c change) error {
	if err := validate.Domain(c.Domain); c.Text != nil && err != nil {
		return bad("domain", cut(c.Domain), "%v", err)
	}
	if err := a.owned(q, c); err != nil {
		return err
	}
	if c.dry {
		return a.preview(w, q, c)
	}
	if err := validate.Reason(c.Reason); err != nil {
		return bad("reason", cut(strings.ToValidUTF8(c.Reason, "?")), "%v", err)
	}
	r, differences, err := rules.Save(q.Context(), a.book, c.Change)
	if errors.Is(err, rules.ErrConflict) {
		return a.conflict(q.Context(), c.Domain)
	}
	if err != nil {
		return invalid(err)
	}
	a.changed(q.Request, r)
	is, _ := rules.ParseDomain(c.Domain, c.Text) // as Save has done
	w.Header().Set("ETag", tag(r.Version))
	saved := revisionOf(r)
	send(w, http.StatusOK, typeJSON,
		changed{c.Domain, false, &saved, differencesOf(differences), notesOf(is)})
	return nil
}

// owned returns the problem of a caller that may edit a domain, but would make or delete it.
func (a *api) owned(q *request, c change) error {
	refusal := q.owns(c.Domain)
	if refusal == nil {
		return nil
	}
	newest, _, err := a.before(q.Context(), c.Domain, 0)
	if err != nil || newest.Text != nil && c.Text != nil {
		return err
	}
	return refusal
}

// owns returns the problem of a caller that may neither make nor delete a domain.
func (q *request) owns(domain string) error {
	if q.caller.May(domain, Own) {
		return nil
	}
	return problem{Status: http.StatusForbidden,
		Detail: "the caller may change this domain, but neither make nor delete it"}
}

// A changed is the answer to a change, or to its dry run.
type changed struct {
	Domain      string       `json:"domain"`
	DryRun      bool         `json:"dry_run"`
	Revision    *revision    `json:"revision"` // null in a dry run
	Differences []difference `json:"differences"`
	Notes       []string     `json:"notes"` // of the text, see rules.Rules.Notes
}

// A difference is a rules.Difference in JSON.
type difference struct {
	Path string `json:"path"`
	Was  string `json:"was"`
	Is   string `json:"is"`
}

func differencesOf(list []rules.Difference) []difference {
	all := []difference{}
	for _, d := range list {
		all = append(all, difference{d.Path, d.Was, d.Is})
	}
	return all
}

// notesOf are those of rules, which are nil after a deletion.
func notesOf(set *rules.Rules) []string {
	if set == nil {
		return []string{}
	}
	return append([]string{}, set.Notes()...)
}

// preview tells what a change would do to the newest rules.
func (a *api) preview(w http.ResponseWriter, q *request, c change) error {
	newest, _, err := a.before(q.Context(), c.Domain, 0)
	if err != nil {
		return err
	}
	if c.bound && newest.Version != c.Base {
		return a.conflict(q.Context(), c.Domain)
	}
	is, err := rules.ParseDomain(c.Domain, c.Text)
	if err != nil {
		return invalid(err)
	}
	// A text that is not valid has no rules in force.
	was, _ := rules.ParseDomain(c.Domain, newest.Text)
	differences := differencesOf(rules.Diff(was, is))
	send(w, http.StatusOK, typeJSON, changed{c.Domain, true, nil, differences, notesOf(is)})
	return nil
}

// invalid is the problem of a text with mistakes. Another error stays what it is.
func invalid(err error) error {
	list := mistakes(err)
	if len(list) == 0 {
		return err
	}
	return problem{Status: http.StatusUnprocessableEntity, Mistakes: list,
		Detail: "the text is no valid rules"}
}

// body reads a text of rules as it is, with the reason as a parameter, or both in JSON.
func (c *change) body(q *request) ([]byte, error) {
	kind, err := q.kind(typeYAML, typeJSON)
	if err != nil {
		return nil, err
	}
	if kind == typeYAML {
		return q.bytes(rules.MaxText)
	}
	body, err := q.bytes(mostRulesBody)
	if err != nil {
		return nil, err
	}
	if c.Reason != "" {
		return nil, bad("reason", cut(c.Reason), "beside JSON it is a field of the body")
	}
	t := ""
	err = readJSON(body, fields{
		"text": text(&t, 1, rules.MaxText), "reason": text(&c.Reason, 0, validate.MaxReason),
	}, "text")
	return []byte(t), err
}

func (a *api) put(w http.ResponseWriter, q *request) error {
	return a.edit(w, q, func(c *change) (err error) {
		if c.Text, err = c.body(q); err == nil && len(c.Text) == 0 {
			err = bad("the body", "", "it is empty: to delete a domain use DELETE")
		}
		return err
	}, nothing)
}

func nothing(*change) error { return nil }

func (a *api) remove(w http.ResponseWriter, q *request) error {
	return a.edit(w, q, func(c *change) error { return q.owns(c.Domain) }, func(c *change) error {
		_, err := a.was(q.Context(), c)
		return err
	})
}

// rollback saves the text of another version, or deletes the domain if that is a deletion.
func (a *api) rollback(w http.ResponseWriter, q *request) error {
	version := 0
	return a.edit(w, q, func(c *change) error {
		return q.json(mostBody, fields{
			"version": whole(&version, 1, mostVersion), "reason": text(&c.Reason, 0, validate.MaxReason),
		}, "version")
	}, func(c *change) error {
		r, err := a.revision(q.Context(), c.Domain, int64(version))
		c.Text = r.Text
		return err
	})
}

func (a *api) setRule(w http.ResponseWriter, q *request) error {
	path, rule := "", []byte(nil)
	return a.edit(w, q, func(c *change) (err error) {
		if path, err = rulePath(q); err == nil {
			rule, err = c.body(q)
		}
		return err
	}, func(c *change) error {
		text, err := a.was(q.Context(), c)
		if err != nil {
			return err
		}
		c.Text, err = rules.SetRule(text, path, rule)
		return refused(err)
	})
}

func (a *api) deleteRule(w http.ResponseWriter, q *request) error {
	path := ""
	return a.edit(w, q, func(*change) (err error) {
		path, err = rulePath(q)
		return err
	}, func(c *change) error {
		text, err := a.was(q.Context(), c)
		if err != nil {
			return err
		}
		if set, err := rules.ParseDomain(c.Domain, text); err == nil && !has(set, c.Domain, path) {
			return problem{Status: http.StatusNotFound, Field: "path", Value: cut(path),
				Detail: "the domain has no such rule"}
		}
		c.Text, err = rules.DeleteRule(text, path)
		return refused(err)
	})
}

// rulePath is the path of a rule, as rules.PathOf writes it.
func rulePath(q *request) (string, error) {
	entries, err := rules.ParsePath(q.parameter("path"))
	if err != nil {
		return "", bad("path", cut(q.parameter("path")), "%v", err)
	}
	return rules.PathOf(entries...), nil
}

// has reports whether a domain has a rule at a path.
func has(set *rules.Rules, domain, path string) bool {
	d, _ := set.Domain(domain)
	return slices.ContainsFunc(d.Rules, func(r rules.Rule) bool { return r.Path == path })
}

// refused is the problem of an edit that package rules does not make.
func refused(err error) error {
	if err == nil {
		return nil
	}
	return problem{Status: http.StatusUnprocessableEntity, Mistakes: mistakes(err),
		Detail: strings.ToValidUTF8(fmt.Sprintf("%.1000s", err.Error()), "?")}
}
