package page

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// A domainRow is a line of the list of domains.
type domainRow struct {
	Name    string
	Role    account.Role
	Rules   int
	Version int64
	Glance  *Glance
	Change  *rules.Revision // the last one, without its text; nil: it is not known yet
}

// A look is what somebody should look at.
type look struct {
	Text    string
	Domains []string
	Rules   RuleLook // of the one domain; without paths it is about no rules
	Bans    banLook  // of the one domain; without bans it is about none
}

// A domainsData is the list of domains.
type domainsData struct {
	Domains       []domainRow
	Looks         []look
	Filter        string
	Total, Beyond int
	Source        rules.SourceStats
	Refresh       string // the path of the list alone
}

// domains lists those in force that the user may view.
func (v *visit) domains() { v.show(http.StatusOK, "domains", "Domains", v.domainsData()) }

// domainList is the list alone, which a page asks for again and again.
func (v *visit) domainList() { v.show(http.StatusOK, "domainlist", "", v.domainsData()) }

func (v *visit) domainsData() domainsData {
	data := domainsData{Source: v.page.figures().Source, Filter: v.r.URL.Query().Get("q")}
	data.Refresh = "/domains?" + url.Values{"q": {data.Filter}}.Encode()
	if v.page.config.Looks != nil {
		for _, text := range v.page.config.Looks() {
			data.Looks = append(data.Looks, look{Text: text})
		}
	}
	ask := mostAsked
	for _, d := range v.page.figures().Domains {
		if !v.User.May(d.Domain, account.Viewer) {
			continue
		}
		data.Total++
		if !strings.Contains(d.Domain, data.Filter) {
			continue
		}
		if len(data.Domains) == mostRows {
			data.Beyond++
			continue
		}
		row := domainRow{
			Name: d.Domain, Rules: len(d.Rules), Version: d.Version,
			Role: max(v.User.Rights[account.All], v.User.Rights[d.Domain]),
		}
		if glance := v.page.config.Glance; glance != nil {
			g := glance(d.Domain)
			row.Glance = &g
			data.look(d.Domain, g.Looks)
			for _, r := range g.Rules {
				data.Looks = append(data.Looks, look{
					Text: r.Text, Domains: []string{d.Domain}, Rules: r,
				})
			}
		}
		if ending := v.endingBans(d.Domain); len(ending.Bans) > 0 {
			data.Looks = append(data.Looks, look{
				Text: "Bans end within a day", Domains: []string{d.Domain}, Bans: ending,
			})
		}
		row.Change = v.lastChange(d, &ask)
		data.Domains = append(data.Domains, row)
	}
	return data
}

// look adds what is to be looked at in a domain.
func (data *domainsData) look(domain string, texts []string) {
	for _, text := range texts {
		i := slices.IndexFunc(data.Looks, func(l look) bool { return l.Text == text })
		if i < 0 {
			i = len(data.Looks)
			data.Looks = append(data.Looks, look{Text: text})
		}
		data.Looks[i].Domains = append(data.Looks[i].Domains, domain)
	}
}

// mostAsked is of how many domains a list asks the book for their last changes, each of which comes
// with a text. Others are asked for with the next list.
const mostAsked = 10

// lastChange is the newest revision of a domain whose rules are in force, if it is known, or if the
// list may ask for one more.
func (v *visit) lastChange(d rules.DomainStats, ask *int) *rules.Revision {
	if r := v.page.lastChange(d); r != nil || !v.Writable() || *ask == 0 {
		return r
	}
	select {
	case v.page.places <- struct{}{}:
		defer func() { <-v.page.places }()
	default: // others have texts in memory
		return nil
	}
	*ask--
	list, err := v.page.config.Book.History(v.r.Context(), d.Domain, 0, 1)
	if err != nil || len(list) == 0 {
		*ask = 0
		return nil
	}
	r := list[0]
	r.Text = nil
	v.page.mu.Lock()
	defer v.page.mu.Unlock()
	if len(v.page.changes) >= mostHeads {
		clear(v.page.changes)
	}
	v.page.changes[d.Domain] = r
	return &r
}

// lastChange is what was kept, unless another version is in force.
func (p *Page) lastChange(d rules.DomainStats) *rules.Revision {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r, known := p.changes[d.Domain]; known && r.Version == d.Version {
		return &r
	}
	return nil
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
	if data.Problem = sentence(validate.Domain(data.Name)); data.Problem == "" {
		data.Problem = sentence(validate.Reason(data.Reason))
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
	if data.Problem = sentence(validate.Reason(data.Reason)); data.Problem == "" {
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
