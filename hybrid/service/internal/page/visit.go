package page

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// A visit is a request, and who makes it.
type visit struct {
	page *Page
	w    http.ResponseWriter
	r    *http.Request

	User    account.User // the zero User before a login
	Domain  string       // of the path, if it has one
	Proxied bool         // a proxy has said who it is
	session string
	refresh bool // the page asks by itself, see route
	holds   bool // a place for texts
}

// Section is the entry of the main menu that the page is below, or nothing.
func (v *visit) Section() string {
	first, _, _ := strings.Cut(strings.TrimPrefix(v.r.URL.Path, "/"), "/")
	switch first {
	case "", "new", "live":
		return "domains"
	}
	return first
}

// identify finds the user by the header of a proxy or by a session. If there is none it answers,
// and returns false. counts says that the session is in use.
func (v *visit) identify(counts bool) bool {
	if name, said := v.proxyUser(); said {
		return v.identifyProxied(name)
	}
	v.session = v.cookie()
	u, err := v.page.config.Accounts.Session(v.r.Context(), v.session, counts)
	switch {
	case errors.Is(err, account.ErrNoSession), errors.Is(err, account.ErrNoUser):
		v.askToLogIn()
		return false
	case err != nil:
		v.broken(err)
		return false
	}
	v.User = u
	return true
}

// identifyProxied is identify for a name that a proxy tells.
func (v *visit) identifyProxied(name string) bool {
	v.Proxied = true
	u, err := v.page.config.Accounts.User(v.r.Context(), name)
	detail := ""
	if errors.Is(err, account.ErrNoUser) {
		u, err, detail = account.User{Name: name}, nil, "no such user: without rights"
	}
	if err != nil {
		v.broken(err)
		return false
	}
	v.User = u
	v.page.crowd.first(account.Event{
		Who: name, What: "named by a proxy", Detail: detail, Address: v.address(),
	})
	return true
}

// askToLogIn leads to the login, and from there to what was asked for. What was typed into a form
// is not lost.
func (v *visit) askToLogIn() {
	if v.r.Method == http.MethodGet && !v.fragment() {
		to := "/login"
		if v.r.URL.Path != "/" {
			to += "?next=" + url.QueryEscape(v.r.URL.RequestURI())
		}
		http.Redirect(v.w, v.r, to, http.StatusSeeOther)
		return
	}
	text := "Your session has ended, and nothing was changed. Log in again in another tab. "
	switch {
	case v.refresh:
		text += "Then reload this page."
	case v.fragment():
		text += "Then go on here."
	default:
		text += "Then reload this page: your browser sends again what you have entered."
	}
	v.fail(http.StatusUnauthorized, "You are not logged in", text)
}

// proxyUser returns the user that a proxy names.
func (v *visit) proxyUser() (name string, said bool) {
	header := v.page.config.AuthHeader
	values := v.r.Header.Values(header)
	if header == "" || len(values) == 0 {
		return "", false
	}
	if !v.from(v.page.config.AuthProxies) {
		if v.page.lies.due() {
			v.page.log.Warn("a header that names a user was ignored: it is not from a proxy "+
				"of -auth-proxies", "header", header, "from", v.r.RemoteAddr)
		}
		return "", false
	}
	if len(values) != 1 || account.ValidName(values[0]) != nil {
		if v.page.lies.due() {
			v.page.log.Warn("a header that names a user was ignored: it is not one name",
				"header", header, "from", v.r.RemoteAddr)
		}
		return "", false
	}
	return values[0], true
}

// from reports whether the connection is from one of the prefixes.
func (v *visit) from(prefixes []netip.Prefix) bool {
	at, err := netip.ParseAddrPort(v.r.RemoteAddr)
	return err == nil && slices.ContainsFunc(prefixes, func(p netip.Prefix) bool {
		return p.Contains(at.Addr().Unmap().WithZone(""))
	})
}

// secure reports whether the client came over TLS. A host whose public URL is https has no other
// way in, whether or not the proxy before it is one of Config.Proxies.
func (v *visit) secure() bool {
	if c := v.page.config.OpenID; v.r.TLS != nil || c != nil && c.Secure() && c.Here(v.r.Host) {
		return true
	}
	said := v.r.Header.Values("X-Forwarded-Proto")
	if len(said) == 0 || !v.from(v.page.config.Proxies) {
		return false
	}
	list := strings.Split(said[len(said)-1], ",")
	return strings.EqualFold(strings.TrimSpace(list[len(list)-1]), "https")
}

// cookieName keeps a cookie that came over TLS from being one that another host has set.
func (v *visit) cookieName() string {
	if v.secure() {
		return "__Host-ration"
	}
	return "ration"
}

func (v *visit) cookie() string {
	c, err := v.r.Cookie(v.cookieName())
	if err != nil {
		return ""
	}
	return c.Value
}

// setCookie tells the browser its session; an empty one ends it. It ends with the browser.
func (v *visit) setCookie(session string) {
	c := &http.Cookie{
		Name: v.cookieName(), Value: session, Path: "/", HttpOnly: true, Secure: v.secure(),
		SameSite: http.SameSiteLaxMode,
	}
	if session == "" {
		c.MaxAge = -1
	}
	http.SetCookie(v.w, c)
}

// address is the client's.
func (v *visit) address() string {
	if a := v.page.client.Addr(v.r); a.IsValid() {
		return a.String()
	}
	return "unknown"
}

func (v *visit) by() account.By {
	return account.By{Who: v.User.Name, Address: v.address(), Subject: v.User.Subject}
}

// note writes into the audit log what has been done already.
func (v *visit) note(e account.Event) {
	e.Address, e.Subject = v.address(), cmp.Or(e.Subject, v.User.Subject)
	_ = v.page.note(v.r.Context(), e) // it is in the log
}

// note writes a line of the audit log, or logs that it lacks one. The client may have gone
// meanwhile.
func (p *Page) note(ctx context.Context, e account.Event) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err := p.config.Accounts.Note(ctx, e)
	if err != nil {
		p.log.Error("the audit log lacks a line", "error", err, "who", e.Who, "subject", e.Subject,
			"what", e.What, "domain", e.Domain, "detail", e.Detail)
	}
	return err
}

// fragment reports whether htmx asks for a part of a page.
func (v *visit) fragment() bool { return v.r.Header.Get("HX-Request") == "true" }

// form reads the form. If it cannot it answers, and returns false.
func (v *visit) form() bool {
	err := v.r.ParseForm()
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		v.fail(http.StatusRequestEntityTooLarge, "This is too large", "Nothing was changed.")
	case err != nil:
		v.nonsense()
	}
	return err == nil
}

// value is a field of the form, without spaces around it.
func (v *visit) value(field string) string { return strings.TrimSpace(v.r.PostForm.Get(field)) }

// May reports whether the user has a role for a domain; templates ask it.
func (v *visit) May(domain, role string) bool {
	r, err := account.ParseRole(role)
	return err == nil && v.User.May(domain, r)
}

// MayMake reports whether the user may make a domain of some name.
func (v *visit) MayMake() bool {
	for _, r := range v.User.Rights {
		if r == account.Admin && v.page.config.Book != nil {
			return true
		}
	}
	return false
}

// Writable reports whether there is a book.
func (v *visit) Writable() bool { return v.page.config.Book != nil }

// noPage says that there is nothing, whether or not others can see it.
func (v *visit) noPage() {
	v.fail(http.StatusNotFound, "There is no such page",
		"It does not exist, or you have no right to see it.")
}

func (v *visit) forbid(role account.Role) {
	v.fail(http.StatusForbidden, "You may not do this",
		"It takes the role "+role.String()+". Nothing was changed.")
}

// broken says that a database does not answer.
func (v *visit) broken(err error) {
	if errors.Is(err, account.ErrBusy) {
		v.w.Header().Set("Retry-After", "5")
		v.fail(http.StatusServiceUnavailable, "Too many users log in at the moment",
			"Try again in a few seconds.")
		return
	}
	v.page.log.Error("the page cannot answer", "path", v.r.URL.Path, "error", err)
	v.fail(http.StatusServiceUnavailable, "The database does not answer",
		"Nothing was changed as far as is known. Try again in a minute: reload this page. "+
			"The log of the service has the reason.")
}

// fail answers with an error. What was typed into a form is shown again.
func (v *visit) fail(status int, title, text string) {
	data := problem{Title: title, Text: text, Login: status == http.StatusUnauthorized}
	if v.r.Method == http.MethodPost && (data.Login || status == http.StatusServiceUnavailable) {
		// Nobody may be logged in here: little is read.
		v.r.Body = http.MaxBytesReader(v.w, v.r.Body, 4*smallBody)
		if v.r.ParseForm() == nil {
			data.Typed = v.r.PostForm.Get("text")
		}
	}
	if v.fragment() {
		v.stopRefresh(status)
		v.show(status, "problem", "", data)
		return
	}
	v.show(status, "error", title, data)
}

// stopRefresh lets a part of a page that asks again and again do so no more, as the problem takes
// its place: a screen reader would hear of it each time. While a database is away it goes on, and
// shows what it has.
func (v *visit) stopRefresh(status int) {
	switch {
	case !v.refresh:
	case status == http.StatusServiceUnavailable:
		v.w.Header().Set("HX-Reswap", "none")
	default:
		v.w.Header().Set("HX-Reswap", "outerHTML")
	}
}

// A problem is what the templates "error" and "problem" show.
type problem struct {
	Title, Text, Typed string
	Login              bool
}

// at is the path of the domain's page, and what is below it.
func (v *visit) at(below string) string { return "/domains/" + url.PathEscape(v.Domain) + below }

// seeOther ends a form that was accepted.
func (v *visit) seeOther(path string) { http.Redirect(v.w, v.r, path, http.StatusSeeOther) }
