package api

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// A revision is a rules.Revision in JSON, without its text.
type revision struct {
	Version int64     `json:"version"`
	Author  string    `json:"author"`
	Reason  string    `json:"reason"`
	Time    time.Time `json:"time"`
	Deleted bool      `json:"deleted"`
}

func revisionOf(r rules.Revision) revision {
	return revision{r.Version, r.Author, r.Reason, r.Time.UTC(), r.Text == nil}
}

// named is the domain of the path, which the caller may see. Where the rules cannot be read as
// texts, it is a problem.
func (a *api) named(q *request) (string, error) {
	domain := q.PathValue("domain")
	if len(domain) > validate.MaxDomain || !utf8.ValidString(domain) || strings.ContainsRune(domain, 0) {
		return "", noDomain // no book could have one
	}
	if err := q.see(domain); err != nil {
		return "", err
	}
	if a.book == nil {
		return "", problem{Status: http.StatusConflict,
			Detail: "the rules are read only here: their source keeps no versions, and is edited elsewhere"}
	}
	return domain, nil
}

// reading is named, for a route that reads texts of the domain: it has a place for them. Call leave
// then. Numbers are parameters that it has.
func (a *api) reading(q *request, numbers ...number) (domain string, leave func(), err error) {
	if domain, err = a.named(q); err != nil {
		return "", nil, err
	}
	for _, n := range numbers {
		if err := q.number(n); err != nil {
			return "", nil, err
		}
	}
	leave, err = a.hold(q)
	return domain, leave, err
}

// before returns the newest revision of a domain before a version, or of all if it is 0. It may be
// a deletion.
func (a *api) before(
	ctx context.Context, domain string, version int64,
) (r rules.Revision, found bool, err error) {
	list, err := a.book.History(ctx, domain, version, 1)
	if err != nil || len(list) == 0 {
		return rules.Revision{}, false, err
	}
	return list[0], true, nil
}

// revision is one of a domain, or the newest one for 0.
func (a *api) revision(ctx context.Context, domain string, version int64) (rules.Revision, error) {
	before := version
	if version > 0 {
		before++
	}
	r, found, err := a.before(ctx, domain, before)
	switch {
	case err != nil:
	case version > 0 && r.Version != version:
		err = problem{Status: http.StatusNotFound, Field: "version", Value: fmt.Sprint(version),
			Detail: "the history has no such version"}
	case !found:
		err = noDomain
	}
	return r, err
}

// A domain is one of the list.
type domain struct {
	Domain  string `json:"domain"`
	Version int64  `json:"version,omitzero"`
}

// domains lists those that the caller may see. It reads the book, so that a caller sees what it
// has changed.
func (a *api) domains(w http.ResponseWriter, q *request) error {
	answer := struct {
		Domains  []domain `json:"domains"`
		ReadOnly bool     `json:"read_only"`
	}{Domains: []domain{}, ReadOnly: a.book == nil}
	add := func(name string, version int64) {
		if q.see(name) == nil {
			answer.Domains = append(answer.Domains, domain{name, version})
		}
	}
	if a.book == nil {
		for _, d := range a.limiter.Rules().Domains() {
			add(d.Name, 0)
		}
	} else {
		leave, err := a.hold(q)
		if err != nil {
			return err
		}
		defer leave()
		docs, _, err := a.book.Load(q.Context())
		if err != nil {
			return err
		}
		for _, d := range docs {
			add(d.Domain, d.Version)
		}
	}
	send(w, http.StatusOK, typeJSON, answer)
	return nil
}

// text is the newest text of a domain, or that of a version.
func (a *api) text(w http.ResponseWriter, q *request) error {
	var version int64
	domain, leave, err := a.reading(q, number{&version, "version", 0, mostVersion})
	if err != nil {
		return err
	}
	defer leave()
	r, err := a.revision(q.Context(), domain, version)
	if err != nil {
		return err
	}
	if r.Text == nil {
		return noDomain
	}
	h := w.Header()
	h.Set("ETag", tag(r.Version))
	h.Set("Vary", "Accept")
	if prefersYAML(q.Header.Values("Accept")) {
		h.Set("Content-Type", typeYAML)
		_, _ = w.Write(r.Text) // the caller has gone if it fails
		return nil
	}
	send(w, http.StatusOK, typeJSON, struct {
		Domain string `json:"domain"`
		revision
		Text string `json:"text"`
	}{domain, revisionOf(r), string(r.Text)})
	return nil
}

const mostVersion = 1 << 53 // so that JSON has it whole

// tag is the entity tag of a version.
func tag(version int64) string { return strconv.Quote(strconv.FormatInt(version, 10)) }

// prefersYAML reports whether fields Accept rank YAML above JSON.
func prefersYAML(accept []string) bool {
	yaml, json := 0.0, 0.0
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		kind, parameters, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		q := 1.0
		if text, given := parameters["q"]; given {
			if q, err = strconv.ParseFloat(text, 64); err != nil {
				continue
			}
		}
		switch kind {
		case typeYAML:
			yaml = q
		case typeJSON:
			json = q
		}
	}
	return yaml > json
}

const (
	mostHistory = 100
	atOnce      = 10 // revisions with their texts in memory
)

// history lists revisions, newest first.
func (a *api) history(w http.ResponseWriter, q *request) error {
	var before, n int64
	domain, leave, err := a.reading(q, number{&before, "before", 0, mostVersion},
		number{&n, "n", 20, mostHistory})
	if err != nil {
		return err
	}
	defer leave()
	list := []revision{}
	for more := true; more && int64(len(list)) < n; {
		part, err := a.book.History(q.Context(), domain, before, int(min(atOnce, n-int64(len(list)))))
		if err != nil {
			return err
		}
		for _, r := range part {
			list = append(list, revisionOf(r))
			before = r.Version
		}
		more = len(part) > 0 && before > 1
	}
	if len(list) == 0 && q.query["before"] == nil {
		return noDomain
	}
	send(w, http.StatusOK, typeJSON, map[string]any{"revisions": list})
	return nil
}
