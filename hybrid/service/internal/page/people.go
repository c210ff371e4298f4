package page

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// A userView is a user, and what may be done.
type userView struct {
	account.User
	Tokens  []account.Token
	Problem string
	Done    string
	Token   string // one that was just made
	Title   string // of it
}

// explainable are the errors of package account that are told to the user.
var explainable = []struct {
	err    error
	status int
	text   string
}{
	{account.ErrExists, http.StatusConflict, "There is one of this name already."},
	{account.ErrLastAdmin, http.StatusConflict,
		"This is the last user who can log in and may change users. Give somebody else the role " +
			"admin first."},
	{account.ErrNoToken, http.StatusNotFound, "There is no such token."},
	{account.ErrLogin, http.StatusUnprocessableEntity, "The password is wrong."},
}

// told returns what to tell about an error, with a status. If it is not the user's it answers.
func (v *visit) told(err error) (status int, text string) {
	for _, e := range explainable {
		if errors.Is(err, e.err) {
			return e.status, e.text
		}
	}
	if errors.Is(err, account.ErrInvalid) {
		_, text, _ := strings.Cut(err.Error(), account.ErrInvalid.Error()+": ")
		return http.StatusUnprocessableEntity, sentence(errors.New(text))
	}
	if errors.Is(err, account.ErrNoUser) {
		v.noPage()
		return 0, ""
	}
	v.broken(err)
	return 0, ""
}

// account is the page of one's own password and tokens.
func (v *visit) account() { v.showAccount(http.StatusOK, userView{}) }

func (v *visit) showAccount(status int, data userView) {
	tokens, err := v.page.config.Accounts.Tokens(v.r.Context(), v.User.Name)
	if err != nil {
		v.broken(err)
		return
	}
	data.User, data.Tokens = v.User, tokens
	v.show(status, "account", "Your account", data)
}

// refuseAccount shows what is wrong on the page of one's own account.
func (v *visit) refuseAccount(err error) {
	if status, text := v.told(err); status != 0 {
		v.showAccount(status, userView{Problem: text})
	}
}

// ownPassword changes the password of a user with a session who knows the one before, ends all
// sessions of the user, and begins a new one here.
func (v *visit) ownPassword() {
	switch {
	case !v.form():
		return
	case v.Proxied:
		v.fail(http.StatusForbidden, "A proxy logs you in", "Nothing was changed.")
		return
	}
	password := v.r.PostForm.Get("new")
	if password != v.r.PostForm.Get("again") {
		v.showAccount(http.StatusUnprocessableEntity, userView{Problem: "The new passwords differ."})
		return
	}
	if err := account.ValidPassword(password); err != nil {
		v.refuseAccount(err)
		return
	}
	if !v.mayChange() {
		return
	}
	session, err := v.page.config.Accounts.ChangePassword(v.r.Context(), v.by(),
		v.r.PostForm.Get("password"), password)
	if err != nil {
		v.refuseAccount(err)
		return
	}
	v.setCookie(session)
	v.showAccount(http.StatusOK, userView{
		Done: "Your password was changed. All other sessions have ended.",
	})
}

func (v *visit) makeToken() {
	if !v.form() {
		return
	}
	t := account.Token{Title: v.value("title"), TakesOnly: v.value("only") != ""}
	days, known := lives[v.value("life")]
	if !known {
		v.nonsense()
		return
	}
	if days > 0 {
		t.Ends = time.Now().AddDate(0, 0, days)
	}
	token, err := v.page.config.Accounts.MakeToken(v.r.Context(), v.by(), v.User.Name, t)
	if err != nil {
		v.refuseAccount(err)
		return
	}
	v.showAccount(http.StatusOK, userView{Token: token, Title: t.Title})
}

// lives are for how many days a token can be made, by what its form says. 0 is for ever.
var lives = map[string]int{"": 0, "30": 30, "90": 90, "365": 365}

func (v *visit) revokeToken() {
	if !v.form() {
		return
	}
	title, err := v.page.config.Accounts.Revoke(v.r.Context(), v.by(), v.User.Name, v.value("token"))
	if err != nil {
		v.refuseAccount(err)
		return
	}
	v.showAccount(http.StatusOK, userView{Done: "The token " + title + " was revoked."})
}

type usersData struct {
	Users               []account.User
	People              []account.Entered
	Name, Problem, Done string
}

func (v *visit) users() { v.showUsers(http.StatusOK, usersData{}) }

func (v *visit) showUsers(status int, data usersData) {
	users, err := v.page.config.Accounts.Users(v.r.Context())
	if err != nil {
		v.broken(err)
		return
	}
	data.Users = users
	if data.People, err = v.page.config.Accounts.Entered(v.r.Context()); err != nil {
		v.broken(err)
		return
	}
	v.show(status, "users", "Users", data)
}

// expel ends the sessions of a person whom an issuer has logged in.
func (v *visit) expel() {
	if !v.form() {
		return
	}
	name, subject := v.r.PostForm.Get("name"), v.r.PostForm.Get("subject") // as they are shown
	err := v.page.config.Accounts.Expel(v.r.Context(), v.by(), name, subject)
	switch {
	case errors.Is(err, account.ErrNoSession):
		v.showUsers(http.StatusNotFound, usersData{Problem: "There is no session of this person."})
	case err != nil:
		v.broken(err)
	case name == v.User.Name && subject == v.User.Subject && v.User.Issuer != "":
		v.setCookie("")
		v.seeOther("/login")
	default:
		v.showUsers(http.StatusOK, usersData{Done: "The sessions of " + name + " have ended."})
	}
}

func (v *visit) makeUser() {
	if !v.form() {
		return
	}
	name := v.value("name")
	err := v.page.config.Accounts.Make(v.r.Context(), v.by(), name, v.r.PostForm.Get("password"))
	if err != nil {
		if status, text := v.told(err); status != 0 {
			v.showUsers(status, usersData{Name: name, Problem: text})
		}
		return
	}
	v.seeOther("/users/" + url.PathEscape(name))
}

func (v *visit) userPage() { v.showUser(http.StatusOK, "", "") }

func (v *visit) showUser(status int, done, problem string) {
	u, err := v.page.config.Accounts.User(v.r.Context(), v.r.PathValue("user"))
	var tokens []account.Token
	if err == nil {
		tokens, err = v.page.config.Accounts.Tokens(v.r.Context(), u.Name)
	}
	if err != nil {
		v.told(err)
		return
	}
	v.show(status, "user", "User "+u.Name, userView{
		User: u, Tokens: tokens, Done: done, Problem: problem,
	})
}

// changeUser does what one of the forms of a user's page says.
func (v *visit) changeUser() {
	if !v.form() {
		return
	}
	a, ctx, by, name := v.page.config.Accounts, v.r.Context(), v.by(), v.r.PathValue("user")
	var err error
	done := ""
	switch do := v.value("do"); do {
	case "right":
		done, err = v.setRight(name)
	case "password":
		done = "The password was changed, and all sessions of the user have ended."
		err = a.SetPassword(ctx, by, name, v.r.PostForm.Get("password"))
	case "nopassword":
		if v.sure() {
			done = "The password was removed, and all sessions of the user have ended."
			err = a.RemovePassword(ctx, by, name)
		}
	case "revoke":
		done = "The token was revoked."
		_, err = a.Revoke(ctx, by, name, v.value("token"))
	case "delete":
		if v.sure() {
			if err = a.Delete(ctx, by, name); err == nil {
				v.seeOther("/users")
				return
			}
		}
	default:
		v.nonsense()
		return
	}
	switch {
	case err != nil:
		if status, text := v.told(err); status != 0 {
			v.showUser(status, "", text)
		}
	case done == "":
		v.showUser(http.StatusUnprocessableEntity, "",
			"Tick the box if you are sure. Nothing was changed.")
	default:
		v.showUser(http.StatusOK, done, "")
	}
}

// sure reports whether the box of a form was ticked whose change cannot be taken back.
func (v *visit) sure() bool { return v.r.PostForm.Get("sure") != "" }

// nonsense refuses a form that no page has.
func (v *visit) nonsense() {
	v.fail(http.StatusBadRequest, "This form makes no sense", "Nothing was changed.")
}

// setRight gives or takes a right as the form says.
func (v *visit) setRight(name string) (done string, err error) {
	domain, role := v.r.PostForm.Get("domain"), account.None // spaces are of its name
	if given := v.value("role"); given != account.None.String() {
		if role, err = account.ParseRole(given); err != nil {
			return "", err
		}
	}
	err = v.page.config.Accounts.SetRight(v.r.Context(), v.by(), name, domain, role)
	return "The rights were changed. They are in force.", err
}

// audit shows the audit log, or that of the domain of the path.
func (v *visit) audit() {
	query := v.r.URL.Query()
	before, _ := strconv.ParseInt(query.Get("before"), 10, 64) // 0 if it makes no sense
	data := auditData{Filter: query.Get("q"), Later: before > 0}
	var err error
	var more int64
	data.Events, more, err = v.page.config.Accounts.Events(v.r.Context(), account.Search{
		Domain: v.Domain, Words: data.Filter, Before: before, Most: eventsPerPage,
	})
	if err != nil {
		v.broken(err)
		return
	}
	if more > 0 {
		data.More = "?" + url.Values{"q": {data.Filter}, "before": {fmt.Sprint(more)}}.Encode()
	}
	title := "Audit log"
	if v.Domain != "" {
		title = v.Domain + ": audit log"
	}
	v.show(http.StatusOK, "audit", title, data)
}

const eventsPerPage = 100

type auditData struct {
	Events []account.Event
	Filter string
	Later  bool   // it is not the first page
	More   string // the address of older lines, if there may be some
}
