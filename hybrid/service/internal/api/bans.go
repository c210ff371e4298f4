package api

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// A BanChange is a ban that was set, or lifted.
type BanChange struct {
	Domain string
	Ban    rules.Ban
	Author string
	Lifted string // why; empty: it was set
}

// A ban is a rules.Ban in JSON.
type ban struct {
	Descriptor string     `json:"descriptor"`
	Until      time.Time  `json:"until"`
	Reason     string     `json:"reason"`
	Author     string     `json:"author"`
	Since      *time.Time `json:"since,omitempty"` // nil: nobody knows, as in files
}

func banOf(b rules.Ban) ban {
	x := ban{Descriptor: b.String(), Until: b.Until, Reason: b.Reason, Author: b.Author}
	if !b.Since.IsZero() {
		x.Since = &b.Since
	}
	return x
}

// bans lists those of a domain. It reads the book, so that a caller sees what it has changed.
func (a *api) bans(w http.ResponseWriter, q *request) error {
	domain := q.PathValue("domain")
	if err := a.inForce(q, domain); err != nil {
		return err
	}
	list := a.limiter.Rules().Bans(domain, time.Now())
	if a.book != nil {
		leave, err := a.hold(q)
		if err != nil {
			return err
		}
		defer leave()
		if list, err = rules.BansOf(q.Context(), a.book, domain); err != nil {
			return err
		}
	}
	answer := struct {
		Bans     []ban `json:"bans"`
		ReadOnly bool  `json:"read_only"`
	}{[]ban{}, a.book == nil}
	for _, b := range list {
		answer.Bans = append(answer.Bans, banOf(b))
	}
	send(w, http.StatusOK, typeJSON, answer)
	return nil
}

// banned is the domain and the entries of a change of bans, which the caller may make.
func (a *api) banned(q *request) (domain string, entries []rules.Entry, err error) {
	if domain, err = a.named(q); err != nil {
		return "", nil, err
	}
	if err = q.change(domain); err == nil {
		err = a.inForce(q, domain)
	}
	if err != nil {
		return "", nil, err
	}
	if len(q.query["descriptor"]) != 1 {
		return "", nil, bad("descriptor", "", "it stands there %d times, not once",
			len(q.query["descriptor"]))
	}
	text := q.parameter("descriptor")
	if entries, err = rules.ParsePath(text); err != nil {
		return "", nil, bad("descriptor", cut(text), "%v", err)
	}
	return domain, entries, nil
}

func (a *api) setBan(w http.ResponseWriter, q *request) error {
	domain, entries, err := a.banned(q)
	if err != nil {
		return err
	}
	b := rules.Ban{Entries: entries, Author: q.caller.Name}
	err = q.json(mostBody, fields{
		"until": moment(&b.Until), "reason": text(&b.Reason, 1, rules.MaxBanReason),
	}, "until", "reason")
	if err == nil {
		err = reasonable(b.Reason)
	}
	if err != nil {
		return err
	}
	leave, err := a.hold(q)
	if err != nil {
		return err
	}
	defer leave()
	if b, err = rules.SetBan(q.Context(), a.book, domain, b); err != nil {
		return refusedBan(err)
	}
	a.changedBan(q.Request, BanChange{Domain: domain, Ban: b, Author: b.Author})
	send(w, http.StatusOK, typeJSON, banOf(b))
	return nil
}

func (a *api) liftBan(w http.ResponseWriter, q *request) error {
	domain, entries, err := a.banned(q)
	if err != nil {
		return err
	}
	reason := q.parameter("reason")
	if err := reasonable(reason); err != nil {
		return err
	}
	leave, err := a.hold(q)
	if err != nil {
		return err
	}
	defer leave()
	b, err := rules.LiftBan(q.Context(), a.book, domain, entries, q.caller.Name, reason)
	if err != nil {
		return refusedBan(err)
	}
	a.changedBan(q.Request, BanChange{Domain: domain, Ban: b, Author: q.caller.Name, Lifted: reason})
	send(w, http.StatusOK, typeJSON, banOf(b))
	return nil
}

// reasonable is the problem of a reason of a ban.
func reasonable(reason string) error {
	if err := validate.Reason(reason); err != nil {
		return bad("reason", cut(strings.ToValidUTF8(reason, "?")), "%v", err)
	}
	return nil
}

// refusedBan is the problem of a ban that package rules does not set or lift.
func refusedBan(err error) error {
	status := http.StatusUnprocessableEntity
	switch {
	case errors.Is(err, rules.ErrNoBan):
		status = http.StatusNotFound
	case !errors.Is(err, rules.ErrBan):
		return err
	}
	return problem{Status: status,
		Detail: strings.ToValidUTF8(strings.TrimPrefix(err.Error(), "rules: "), "?")}
}

// moment reads a time of RFC 3339.
func moment(into *time.Time) read {
	return func(r reader, at string) error {
		t, err := r.Token()
		if err != nil {
			return err
		}
		s, ok := t.(string)
		if *into, err = time.Parse(time.RFC3339, s); !ok || err != nil {
			return bad(at, value(t), "it is not a time like %s", strconv.Quote("2026-12-31T12:00:00Z"))
		}
		return nil
	}
}
