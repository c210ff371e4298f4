package page

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// BanEvent is a ban that was set, or lifted for a reason, as the audit log has it, but for who did
// it and from where.
func BanEvent(domain string, b rules.Ban, lifted string) account.Event {
	e := account.Event{What: "banned", Domain: domain, Detail: fmt.Sprintf("%s until %s: %s",
		b, b.Until.Format(time.RFC3339), b.Reason)}
	if lifted != "" {
		e.What, e.Detail = "ban lifted", fmt.Sprintf("%s: %s", b, lifted)
	}
	return e
}

// banTimes are how long a ban may last, in minutes, as its form has it.
var banTimes = []banTime{
	{10, "10 minutes"}, {60, "an hour"}, {24 * 60, "a day"}, {7 * 24 * 60, "a week"},
	{30 * 24 * 60, "30 days"}, {366 * 24 * 60, "a year"},
}

// A banTime is one of them.
type banTime struct {
	Minutes int
	Text    string
}

// bansData is what the page of bans shows.
type bansData struct {
	Bans          []rules.Ban
	Times         []banTime
	Most          int
	Asked, Reason string // what the form has
	Minutes       int
	Lift          string // the ban that is to be lifted, and the form for it is shown
	Problem, Done string
}

// A banLook is which bans need a look: those that end first, and how many more there are.
type banLook struct {
	Bans []rules.Ban
	More int
}

const (
	// soon is how long before its end a ban needs a look.
	soon = 24 * time.Hour

	// mostEnding is how many such bans of a domain are named.
	mostEnding = 3
)

// endingBans are the bans in force of a domain that end soon.
func (v *visit) endingBans(domain string) banLook {
	now := time.Now()
	list := slices.DeleteFunc(v.page.config.Limiter.Rules().Bans(domain, now), func(b rules.Ban) bool {
		return b.Until.Sub(now) > soon
	})
	slices.SortStableFunc(list, func(a, b rules.Ban) int { return a.Until.Compare(b.Until) })
	named := min(len(list), mostEnding)
	return banLook{list[:named], len(list) - named}
}

// bans lists the bans of the domain, with forms to set and to lift one.
func (v *visit) bans() {
	query := v.r.URL.Query()
	data := bansData{Asked: query.Get("descriptor"), Lift: query.Get("lift"), Minutes: 60}
	switch query.Get("done") {
	case "ban":
		data.Done = "The ban is set. It is in force everywhere within a second."
	case "lift":
		data.Done = "The ban is lifted. That is in force everywhere within a second."
	}
	v.showBans(http.StatusOK, data)
}

// showBans shows the page. It answers if it cannot.
func (v *visit) showBans(status int, data bansData) {
	set := v.page.config.Limiter.Rules()
	if _, inForce := set.Domain(v.Domain); !inForce {
		v.noPage()
		return
	}
	data.Times, data.Most = banTimes, rules.MaxBans
	if data.Bans = set.Bans(v.Domain, time.Now()); v.Writable() {
		list, err := rules.BansOf(v.r.Context(), v.page.config.Book, v.Domain)
		if err != nil {
			v.broken(err)
			return
		}
		data.Bans = list
	}
	isLift := func(b rules.Ban) bool { return b.String() == data.Lift }
	if data.Lift != "" && !slices.ContainsFunc(data.Bans, isLift) {
		data.Lift, data.Problem = "", "There is no such ban: it has ended, or somebody has lifted it."
		status = max(status, http.StatusNotFound)
	}
	v.show(status, "bans", v.Domain+": bans", data)
}

// changeBan sets or lifts a ban.
func (v *visit) changeBan() {
	if !v.form() || !v.writable() {
		return
	}
	if _, inForce := v.page.config.Limiter.Rules().Domain(v.Domain); !inForce {
		v.noPage()
		return
	}
	switch v.value("do") {
	case "ban":
		v.setBan()
	case "lift":
		v.liftBan()
	default:
		v.nonsense()
	}
}

func (v *visit) setBan() {
	data := bansData{Asked: v.value("descriptor"), Reason: v.value("reason")}
	data.Minutes, _ = strconv.Atoi(v.value("minutes"))
	if !slices.ContainsFunc(banTimes, func(t banTime) bool { return t.Minutes == data.Minutes }) {
		v.nonsense()
		return
	}
	b := rules.Ban{
		Until:  time.Now().Add(time.Duration(data.Minutes) * time.Minute).UTC().Truncate(time.Second),
		Reason: data.Reason, Author: v.User.Name,
	}
	err := validate.Reason(data.Reason)
	if err == nil {
		b.Entries, err = rules.ParsePath(data.Asked)
	}
	if err != nil {
		data.Problem = sentence(errors.New(problemOf(err)))
		v.showBans(http.StatusUnprocessableEntity, data)
		return
	}
	b, err = rules.SetBan(v.r.Context(), v.page.config.Book, v.Domain, b)
	switch {
	case errors.Is(err, rules.ErrBan):
		_, text, _ := strings.Cut(err.Error(), rules.ErrBan.Error()+": ")
		data.Problem = sentence(errors.New(text))
		v.showBans(http.StatusUnprocessableEntity, data)
	case err != nil:
		v.broken(err)
	default:
		e := BanEvent(v.Domain, b, "")
		e.Who = v.User.Name
		v.note(e)
		v.seeOther(v.at("/bans?done=ban"))
	}
}

func (v *visit) liftBan() {
	data := bansData{Lift: v.value("descriptor"), Reason: v.value("reason"), Minutes: 60}
	entries, err := rules.ParsePath(data.Lift)
	if err != nil {
		v.nonsense()
		return
	}
	if err := validate.Reason(data.Reason); err != nil {
		data.Problem = sentence(err)
		v.showBans(http.StatusUnprocessableEntity, data)
		return
	}
	b, err := rules.LiftBan(v.r.Context(), v.page.config.Book, v.Domain, entries, v.User.Name,
		data.Reason)
	switch {
	case errors.Is(err, rules.ErrNoBan):
		v.showBans(http.StatusNotFound, data)
	case errors.Is(err, rules.ErrBan):
		data.Problem = "The reason is longer than 256 bytes."
		v.showBans(http.StatusUnprocessableEntity, data)
	case err != nil:
		v.broken(err)
	default:
		e := BanEvent(v.Domain, b, data.Reason)
		e.Who = v.User.Name
		v.note(e)
		v.seeOther(v.at("/bans?done=lift"))
	}
}
