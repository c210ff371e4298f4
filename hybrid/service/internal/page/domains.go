package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/names"
)

// A domainRow is a line of the list of domains.
type domainRow struct {
	Name             string
	Role             account.Role
	Rules            int
	Version          int64
	Admitted, Denied uint64
}

// domains lists those in force that the user may view.
func (v *visit) domains() {
	data := struct {
		Domains []domainRow
		Source  rules.SourceStats
	}{Source: v.page.figures().Source}
	for _, d := range v.page.figures().Domains {
		if !v.User.May(d.Domain, account.Viewer) {
			continue
		}
		row := domainRow{
			Name: d.Domain, Rules: len(d.Rules), Version: d.Version,
			Role: max(v.User.Rights[account.All], v.User.Rights[d.Domain]),
		}
		for _, r := range d.Rules {
			row.Admitted += r.Admitted + r.Trial.Admitted
			row.Denied += r.Denied + r.Trial.Denied
		}
		data.Domains = append(data.Domains, row)
	}
	v.show(http.StatusOK, "domains", "Domains", data)
}

type newData struct{ Name, Reason, Problem string }

func (v *visit) newForm() {
	if !v.writable() {
		return
	}
	if !v.MayMake() {
		v.forbid(account.Admin)
		return
	}
	v.show(http.StatusOK, "new", "New domain", newData{})
}

// create makes a domain without rules.
func (v *visit) create() {
	if !v.form() || !v.writable() {
		return
	}
	data := newData{Name: v.r.PostForm.Get("name"), Reason: v.value("reason")}
	if !v.MayMake() || data.Name != "" && !v.User.May(data.Name, account.Admin) {
		v.forbid(account.Admin)
		return
	}
	if data.Problem = sentence(names.Domain(data.Name)); data.Problem == "" {
		data.Problem = sentence(names.Reason(data.Reason))
	}
	status := http.StatusUnprocessableEntity
	if data.Problem == "" {
		quoted, _ := json.Marshal(data.Name) // it is a string
		v.Domain = data.Name
		_, err := v.change("domain made", rules.Change{
			Text:   fmt.Appendf(nil, "domain: %s\ndescriptors: []\n", quoted),
			Reason: data.Reason,
		})
		switch {
		case err == nil:
			v.seeOther(v.at("/edit"))
			return
		case errors.Is(err, rules.ErrConflict):
			status, data.Problem = http.StatusConflict, "There is such a domain already."
		default:
			status, data.Problem = http.StatusServiceUnavailable, v.bookAway(err)
		}
		v.Domain = ""
	}
	v.show(status, "new", "New domain", data)
}

// sentence is an error as the page tells it, or nothing.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// change saves a change of the domain of the visit, and notes it.
func (v *visit) change(what string, c rules.Change) (rules.Revision, error) {
	c.Domain, c.Author = v.Domain, v.User.Name
	made, _, err := rules.Save(v.r.Context(), v.page.config.Book, c)
	if err == nil {
		v.note(account.Event{
			Who: v.User.Name, What: what, Domain: v.Domain,
			Detail: fmt.Sprintf("version %d: %s", made.Version, c.Reason),
		})
	}
	return made, err
}

// bookAway says that a save failed, but for mistakes and conflicts.
func (v *visit) bookAway(err error) string {
	v.page.log.Error("a change cannot be saved", "domain", v.Domain, "error", err)
	return "The database of the rules does not answer, and the change was not made as far as is " +
		"known. Save again in a minute: a change that was made after all is not made twice."
}

type deleteData struct {
	Base            int64
	Reason, Problem string
}

func (v *visit) deleteForm() {
	newest, away := v.newest()
	switch {
	case away:
		v.broken(errors.New("the book does not answer"))
	case newest == nil || newest.Text == nil:
		v.noPage()
	default:
		v.show(http.StatusOK, "delete", v.Domain+": delete", deleteData{Base: newest.Version})
	}
}

func (v *visit) deleteDomain() {
	if !v.form() || !v.writable() {
		return
	}
	data := deleteData{Base: v.base(), Reason: v.value("reason")}
	status := http.StatusUnprocessableEntity
	if data.Problem = sentence(names.Reason(data.Reason)); data.Problem == "" {
		_, err := v.change("domain deleted", rules.Change{Base: data.Base, Reason: data.Reason})
		switch {
		case err == nil:
			v.seeOther(v.at(""))
			return
		case errors.Is(err, rules.ErrConflict):
			newest, _ := v.newest()
			if newest == nil || newest.Text == nil {
				v.noPage()
				return
			}
			status, data.Base = http.StatusConflict, newest.Version
			data.Problem = fmt.Sprintf("%s has changed the domain meanwhile: %q. Nothing was deleted. "+
				"Delete it all the same?", newest.Author, newest.Reason)
		default:
			status, data.Problem = http.StatusServiceUnavailable, v.bookAway(err)
		}
	}
	v.show(status, "delete", v.Domain+": delete", data)
}

// writable reports whether there is a book. If not it answers.
func (v *visit) writable() bool {
	if v.page.config.Book == nil {
		v.fail(http.StatusForbidden, "The rules are read only",
			"They come from files. Nothing was changed.")
	}
	return v.page.config.Book != nil
}
