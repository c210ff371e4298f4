package page

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
)

// openIDRoutes are there if Config.OpenID is. They are no forms: the policy lets none lead to the
// issuer.
var openIDRoutes = []route{
	{pattern: "GET /login/oidc", serve: (*visit).beginOpenID},
	{pattern: "GET " + openid.Path, serve: (*visit).finishOpenID},
}

// Issuer is the host of the issuer that logs people in, if there is one.
func (v *visit) Issuer() string {
	if c := v.page.config.OpenID; c != nil {
		return c.Host()
	}
	return ""
}

// moved is in the query of a login that was led to the public host: it is not led there again if a
// proxy has it come by another name.
const moved = "moved"

// maxNext bounds where a login leads to, in bytes: it is in a cookie.
const maxNext = 2048

// beginOpenID leads to the issuer. From another site it leads to the page that asks whether to, and
// from another host of this page to its public one: the issuer sends browsers back there, where
// they have no cookie of the other.
func (v *visit) beginOpenID() {
	next := local(v.r.URL.Query().Get("next"))
	if len(next) > maxNext {
		next = "/"
	}
	if _, said := v.proxyUser(); said {
		v.seeOther(next)
		return
	}
	if c := v.page.config.OpenID; !c.Here(v.r.Host) && !v.r.URL.Query().Has(moved) {
		v.seeOther(c.Public() + "/login/oidc?" + url.Values{"next": {next}, moved: {""}}.Encode())
		return
	}
	switch v.r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		v.seeOther("/login?next=" + url.QueryEscape(next))
		return
	}
	secret, to, err := v.page.config.OpenID.Begin(v.r.Context())
	if err != nil {
		v.refuseOpenID(err)
		return
	}
	v.setLoginCookie(secret, next)
	v.seeOther(to)
}

// finishOpenID makes a session of a login that the issuer sends back to the browser that has begun
// it. What costs something is bounded, and what anybody can ask for is neither logged nor noted.
func (v *visit) finishOpenID() {
	secret, next := v.loginCookie()
	query := v.r.URL.Query()
	if !openid.Answers(secret, query) {
		v.foreignLogin()
		return
	}
	v.setLoginCookie("", "")
	address, _ := v.page.client.Key(v.r)
	if !v.mayTry("login refused", "", hybrid.Ask{Key: "issuer:" + address, N: 1}) {
		return
	}
	p, err := v.page.config.OpenID.Finish(v.r.Context(), secret, query)
	if err != nil {
		v.refuseOpenID(err)
		return
	}
	accounts, ctx := v.page.config.Accounts, v.r.Context()
	u, session, err := accounts.Enter(ctx, v.address(),
		account.Person{Name: p.Name, Subject: p.Subject, Groups: p.Groups}, secret)
	if err == nil {
		err = accounts.End(ctx, v.cookie())
	}
	if err != nil {
		v.refusePerson(u, err)
		return
	}
	v.setCookie(session)
	v.seeOther(next)
}

// refusals are what is told of logins that the issuer is part of.
var refusals = [...]struct {
	err         error
	status      int
	title, text string
}{
	{openid.ErrAway, http.StatusServiceUnavailable, "The issuer does not answer",
		"Nobody can log in by it now. Try again in a minute, or log in with a password."},
	{openid.ErrRefused, http.StatusForbidden, "The issuer did not log you in",
		"The log of the service has what it said."},
	{openid.ErrInvalid, http.StatusForbidden, "The issuer's answer is not valid",
		"Nobody was logged in. The log of the service has the reason."},
}

// refuseOpenID answers to a login that the issuer is part of, and that has failed.
func (v *visit) refuseOpenID(err error) {
	switch {
	case errors.Is(err, openid.ErrBusy):
		v.broken(account.ErrBusy)
		return
	case errors.Is(err, openid.ErrForeign): // it has grown too old meanwhile
		v.foreignLogin()
		return
	}
	for i, r := range refusals {
		if !errors.Is(err, r.err) {
			continue
		}
		if !errors.Is(err, openid.ErrAway) {
			v.noteStranger("login failed", "", "by "+v.Issuer()+": "+r.err.Error())
		}
		if v.page.odd[i].due() { // whoever logs in oddly does not silence the others
			v.page.log.Warn("a login by OpenID Connect has failed", "from", v.address(), "error", err)
		}
		v.fail(r.status, r.title, r.text)
		return
	}
	v.broken(err)
}

// foreignLogin answers to what is not the login of this browser, or was it.
func (v *visit) foreignLogin() {
	v.fail(http.StatusForbidden, "This login did not begin here",
		"It belongs to another browser, was used, or is older than ten minutes. Log in again.")
}

// refusePerson answers to somebody whom the issuer has logged in, and who gets no session.
func (v *visit) refusePerson(u account.User, err error) {
	switch {
	case errors.Is(err, account.ErrNoRights):
		if v.page.crowd.line("login failed") {
			v.note(account.Event{
				Who: u.Name, Subject: u.Subject, What: "login failed", Detail: "no group has rights",
			})
		}
		v.fail(http.StatusForbidden, "You have no rights here", "You are "+u.Name+
			", and none of your groups has rights here. Ask an admin of this service.")
	case errors.Is(err, account.ErrLogin):
		v.noteStranger("login failed", "", "by "+v.Issuer()+": it was used")
		v.foreignLogin()
	case errors.Is(err, account.ErrInvalid):
		v.refuseOpenID(errors.Join(openid.ErrInvalid, err))
	default:
		v.broken(err)
	}
}

// loginCookieName is that of a login under way.
func (v *visit) loginCookieName() string {
	if v.page.config.OpenID.Secure() {
		return "__Host-ration-login"
	}
	return "ration-login"
}

// setLoginCookie has the browser keep the secret of a login, and where that leads to. An empty one
// ends it.
func (v *visit) setLoginCookie(secret, next string) {
	c := &http.Cookie{
		Name: v.loginCookieName(), MaxAge: -1, Path: "/", HttpOnly: true,
		Secure: v.page.config.OpenID.Secure(), SameSite: http.SameSiteLaxMode,
	}
	if secret != "" {
		c.Value = secret + "." + base64.RawURLEncoding.EncodeToString([]byte(next))
		c.MaxAge = int(openid.Life.Seconds())
	}
	http.SetCookie(v.w, c)
}

// loginCookie is what setLoginCookie has set. Where it leads to is of this page, whoever has set
// it.
func (v *visit) loginCookie() (secret, next string) {
	c, err := v.r.Cookie(v.loginCookieName())
	if err != nil {
		return "", "/"
	}
	secret, encoded, _ := strings.Cut(c.Value, ".")
	text, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		return "", "/"
	}
	return secret, local(string(text))
}
