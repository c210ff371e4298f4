package page

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// perPage is how many revisions a page of the history has: each may have a text of 4 MiB.
const perPage = 10

// A step is a revision, and what it has changed.
type step struct {
	rules.Revision
	Deleted bool
	Newest  bool
	Diff    diff
}

// history lists revisions, newest first, with what each has changed.
func (v *visit) history() {
	if !v.writable() {
		return
	}
	before, err := strconv.ParseInt(v.r.URL.Query().Get("before"), 10, 64)
	if err != nil || before < 1 {
		before = 0
	}
	list, err := v.page.config.Book.History(v.r.Context(), v.Domain, before, perPage+1)
	switch {
	case err != nil:
		v.broken(err)
		return
	case len(list) == 0:
		v.noPage()
		return
	}
	data := struct {
		Steps []step
		More  int64 // the version before which there are others, or 0
	}{}
	is := read(v.Domain, list[0].Text)
	for i, r := range list[:min(len(list), perPage)] {
		if v.r.Context().Err() != nil {
			return
		}
		s := step{Revision: r, Deleted: r.Text == nil, Newest: before == 0 && i == 0}
		var was source
		if i+1 < len(list) {
			was = read(v.Domain, list[i+1].Text)
		}
		s.Diff = compare(was, is)
		if i+1 == len(list) && r.Version > 1 {
			s.Diff = diff{Unknown: true} // the one before was dropped
		}
		is = was
		data.Steps = append(data.Steps, s)
	}
	if len(list) > perPage {
		data.More = list[perPage-1].Version
	}
	v.show(http.StatusOK, "history", v.Domain+": history", data)
}

type versionData struct {
	Revision        rules.Revision
	Text            string
	Deleted         bool
	Newest          *rules.Revision
	IsNewest        bool
	Diff            diff // from the newest to this one
	Reason, Problem string
	MayRollBack     bool
}

// pathVersion returns the version of the path and the newest one. If there is none it answers.
func (v *visit) pathVersion() (r, newest *rules.Revision, ok bool) {
	if !v.writable() {
		return nil, nil, false
	}
	number, err := strconv.ParseInt(v.r.PathValue("version"), 10, 64)
	if err != nil {
		v.noPage()
		return nil, nil, false
	}
	r, away := v.revision(number)
	if !away {
		newest, away = v.newest()
	}
	switch {
	case away:
		v.broken(errors.New("the book does not answer"))
	case r == nil || newest == nil:
		v.noPage()
	default:
		return r, newest, true
	}
	return nil, nil, false
}

func (v *visit) version() {
	if r, newest, ok := v.pathVersion(); ok {
		v.showVersion(http.StatusOK, r, newest, "", "")
	}
}

func (v *visit) showVersion(status int, r, newest *rules.Revision, reason, problem string) {
	v.show(status, "version", v.Domain+": version "+strconv.FormatInt(r.Version, 10), versionData{
		Revision: *r, Text: string(r.Text), Deleted: r.Text == nil,
		Newest: newest, IsNewest: newest.Version == r.Version,
		Diff:   compare(read(v.Domain, newest.Text), read(v.Domain, r.Text)),
		Reason: reason, Problem: problem, MayRollBack: v.mayRollBack(r, newest),
	})
}

// mayRollBack reports whether the user may. To delete a domain by it, or to make one that was
// deleted, is for an admin.
func (v *visit) mayRollBack(r, newest *rules.Revision) bool {
	role := account.Editor
	if r.Text == nil || newest.Text == nil {
		role = account.Admin
	}
	return v.User.May(v.Domain, role)
}

// rollBack saves an earlier text as a new version, if nobody has saved another one since its
// author has seen what it would change.
func (v *visit) rollBack() {
	if !v.form() {
		return
	}
	r, newest, ok := v.pathVersion()
	if !ok {
		return
	}
	if !v.mayRollBack(r, newest) {
		v.forbid(account.Admin)
		return
	}
	reason := v.value("reason")
	if problem := sentence(validate.Reason(reason)); problem != "" {
		v.showVersion(http.StatusUnprocessableEntity, r, newest, reason, problem)
		return
	}
	made, err := v.change("rolled back", rules.Change{Base: v.base(), Text: r.Text, Reason: reason})
	var wrong *rules.Error
	switch {
	case err == nil:
		v.seeOther(v.at(fmt.Sprint("?saved=", made.Version)))
	case errors.Is(err, rules.ErrConflict):
		if now, away := v.newest(); !away && now != nil {
			newest = now
		}
		v.showVersion(http.StatusConflict, r, newest, reason, "Somebody has changed the domain "+
			"meanwhile. Nothing was rolled back. See what it would change now.")
	case errors.As(err, &wrong):
		v.showVersion(http.StatusUnprocessableEntity, r, newest, reason,
			"The text of this version is not valid any more: "+wrong.Text)
	default:
		v.showVersion(http.StatusServiceUnavailable, r, newest, reason, v.bookAway(err))
	}
}
