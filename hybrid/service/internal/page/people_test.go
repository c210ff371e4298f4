package page

import (
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/lease"
)

// TestLogin: right and wrong names and passwords, and the way out.
func TestLogin(t *testing.T) {
	s := newService(t)
	b := s.anybody()
	b.get("/").leads(t, "/login")
	b.get("/domains/shop?rule=a").leads(t, "/login?next=%2Fdomains%2Fshop%3Frule%3Da")
	wrong := b.post("/login", "name", "ed", "password", "wrong horse!")
	unknown := b.post("/login", "name", "eda", "password", password)
	wrong.want(t, http.StatusUnauthorized, "The name or the password is wrong")
	if strings.Replace(unknown.text, `"eda"`, `"ed"`, 1) != wrong.text {
		t.Error("a wrong password is told apart from a wrong name")
	}
	b.post("/login", "name", "ed", "password", password).leads(t, "/")
	first := b.client.Jar.Cookies(wrong.Request.URL)[0].Value
	b.get("/").want(t, http.StatusOK, "shop")
	b.post("/login", "name", "ed", "password", password).leads(t, "/")
	if _, err := s.accounts.Session(t.Context(), first, true); !errors.Is(err, account.ErrNoSession) {
		t.Errorf("the session before a login goes on: %v", err)
	}
	b.post("/logout").leads(t, "/login")
	b.get("/").leads(t, "/login")
	s.as("ann").get("/audit").want(t, http.StatusOK, "ed 127.0.0.1 logged out",
		"ed 127.0.0.1 logged in",
		"127.0.0.1 login failed no such user", "ed 127.0.0.1 login failed wrong password")
}

// TestLoginLimits: tries are limited by address and by name, and who has none left learns nothing
// by a right password.
func TestLoginLimits(t *testing.T) {
	s := newService(t)
	b := s.anybody()
	for i := range 10 {
		b.post("/login", "name", "x"+strconv.Itoa(i), "password", "x").want(t, http.StatusUnauthorized)
	}
	a := b.post("/login", "name", "ed", "password", password)
	a.want(t, http.StatusTooManyRequests, "Try again in")
	if n, err := strconv.Atoi(a.Header.Get("Retry-After")); err != nil || n < 1 || n > 60 {
		t.Errorf("Retry-After %q", a.Header.Get("Retry-After"))
	}
	// Another address may, but for a name whose tries are used up.
	tries := 1
	for s.from(tries).post("/login", "name", "vic", "password", "x").StatusCode == 401 && tries < 40 {
		tries++
	}
	if tries < 25 || tries > 32 {
		t.Errorf("%d tries were admitted for a name", tries-1)
	}
	s.from(100).post("/login", "name", "vic", "password", password).want(t, http.StatusTooManyRequests)
	s.from(100).post("/login", "name", "ed", "password", password).leads(t, "/")
}

// A fickleStore is away while it is told to be.
type fickleStore struct {
	hybrid.Store
	away atomic.Bool
}

func (f *fickleStore) Exchange(ctx context.Context, calls []*lease.Call) {
	if !f.away.Load() {
		f.Store.Exchange(ctx, calls)
		return
	}
	for _, c := range calls {
		c.Err = errAway
	}
}

// TestLoginsStoreAway: users log in while the store of tries is away, and tries are limited still,
// by this process.
func TestLoginsStoreAway(t *testing.T) {
	store := &fickleStore{Store: hybrid.NewMemory()}
	s := newService(t, func(c *Config) { c.Store = store })
	s.anybody().post("/login", "name", "ed", "password", password).leads(t, "/")
	store.away.Store(true)
	for i := range 10 {
		s.from(i%2).post("/login", "name", "vic", "password", password).leads(t, "/")
	}
	for range 5 {
		s.from(1).post("/login", "name", "vic", "password", "x").want(t, http.StatusUnauthorized)
	}
	s.from(1).post("/login", "name", "vic", "password", password).
		want(t, http.StatusTooManyRequests, "Too many tries")
}

// from is a browser at another address.
func (s *service) from(i int) *browser {
	s.page.client.Trusted = loopback
	b := s.anybody()
	b.header = http.Header{"X-Forwarded-For": {"198.51.100." + strconv.Itoa(i)}}
	return b
}

// TestOwnPassword: the one before is needed; all sessions end but for a new one here.
func TestOwnPassword(t *testing.T) {
	s := newService(t)
	b, other := s.as("ed"), s.as("ed")
	b.get("/account").want(t, http.StatusOK, "shop : editor")
	b.post("/account/password", "password", password, "new", "another horse", "again",
		"an other horse").
		want(t, http.StatusUnprocessableEntity, "The new passwords differ")
	b.post("/account/password", "password", password, "new", "short", "again", "short").
		want(t, http.StatusUnprocessableEntity, "12 to 1024 bytes")
	b.post("/account/password", "password", "wrong horse!", "new", "another horse", "again",
		"another horse").
		want(t, http.StatusUnprocessableEntity, "The password is wrong")
	other.get("/").want(t, http.StatusOK)
	b.post("/account/password", "password", password, "new", "another horse", "again",
		"another horse").
		want(t, http.StatusOK, "Your password was changed")
	other.get("/").leads(t, "/login")
	b.get("/").want(t, http.StatusOK)
	b.post("/login", "name", "ed", "password", password).want(t, http.StatusUnauthorized)
	b.post("/login", "name", "ed", "password", "another horse").leads(t, "/")
}

// TestOwnPasswordLimit: tries of others for the name do not keep its user from another password,
// and those of the user are limited.
func TestOwnPasswordLimit(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	others := 0
	for s.from(others).post("/login", "name", "ed", "password", "x").StatusCode == 401 && others < 40 {
		others++
	}
	s.from(100).post("/login", "name", "ed", "password", password).
		want(t, http.StatusTooManyRequests)
	form := []string{"password", password, "new", "another horse", "again", "another horse"}
	ed.post("/account/password", form...).want(t, http.StatusOK, "Your password was changed")
	tries := 1
	for ed.post("/account/password", form...).StatusCode == 422 && tries < 20 {
		tries++
	}
	if tries < 9 || tries > 12 {
		t.Errorf("%d tries were admitted", tries)
	}
}

// TestTokens: a token is shown once, has its user's rights, and can be revoked.
func TestTokens(t *testing.T) {
	s := newService(t)
	b := s.as("ed")
	a := b.post("/account/tokens", "title", "ci <b>")
	a.want(t, http.StatusOK, "The token ci <b>. Copy it now")
	token := regexp.MustCompile(`ration_[\w-]{43}`).FindString(a.text)
	if u, _, err := s.accounts.Token(t.Context(), token); err != nil || !u.May("shop", account.Editor) {
		t.Errorf("%q: %+v, %v", token, u, err)
	}
	if a = b.get("/account"); strings.Contains(a.text, token) {
		t.Error("the token is shown again")
	}
	b.post("/account/tokens", "title", "ci <b>").want(t, http.StatusConflict, "of this name already")
	id := tokenID(t, b.get("/account"))
	s.as("vic").post("/account/tokens/revoke", "token", id).want(t, http.StatusNotFound)
	for _, wrong := range []string{"", "ci <b>", id[2:]} {
		b.post("/account/tokens/revoke", "token", wrong).want(t, http.StatusNotFound)
	}
	b.post("/account/tokens/revoke", "token", id).want(t, http.StatusOK,
		"The token ci <b> was revoked")
	if u, _, err := s.accounts.Token(t.Context(), token); !errors.Is(err, account.ErrNoToken) {
		t.Errorf("%+v, %v", u, err)
	}
}

var ofToken = regexp.MustCompile(`name="token" value="(\w+)"`)

// tokenID is that of the first token that a page has.
func tokenID(t *testing.T, a answer) string {
	t.Helper()
	found := ofToken.FindStringSubmatch(a.text)
	if found == nil {
		t.Fatalf("no token on the page: %s", a.says())
	}
	return found[1]
}

// TestTokenLife: a token ends as its form says, and the page tells when it was used.
func TestTokenLife(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	ed.get("/account").want(t, http.StatusOK, "never in 30 days in 90 days in a year")
	for _, odd := range []string{"-1", "0", "31", "1e9", "x"} {
		ed.post("/account/tokens", "title", "ci", "life", odd).want(t, http.StatusBadRequest)
	}
	a := ed.post("/account/tokens", "title", "ci", "life", "30")
	ends := time.Now().UTC().AddDate(0, 0, 30).Format(time.DateOnly)
	a.want(t, http.StatusOK, "never "+ends)
	token := regexp.MustCompile(`ration_[\w-]{43}`).FindString(a.text)
	_, _, err := s.accounts.Token(t.Context(), token)
	s.must(err)
	today := time.Now().UTC().Format(time.DateOnly)
	used := regexp.MustCompile(today + ` [\d:]+ ` + ends)
	for _, text := range []string{
		ed.get("/account").says(), s.as("ann").get("/users/ed").says(),
	} {
		if !used.MatchString(text) {
			t.Error(text)
		}
	}
	_, err = s.db.Exec("UPDATE ration_accounts_tokens SET ends_at = 1")
	s.must(err)
	ed.get("/account").want(t, http.StatusOK, "ended Revoke")
}

// TestNoPassword: an empty form removes no password. That has a form of its own, and the last admin
// keeps theirs.
func TestNoPassword(t *testing.T) {
	s := newService(t)
	ann, ed := s.as("ann"), s.as("ed")
	for _, at := range []string{"/users/ann", "/users/ed"} {
		for _, empty := range []string{"", "short"} {
			ann.post(at, "do", "password", "password", empty).
				want(t, http.StatusUnprocessableEntity, "12 to 1024 bytes")
		}
		ann.post(at, "do", "nopassword").want(t, http.StatusUnprocessableEntity, "Tick the box")
	}
	ann.post("/users/ann", "do", "nopassword", "sure", "yes").
		want(t, http.StatusConflict, "This is the last user who can log in")
	ed.get("/").want(t, http.StatusOK)
	ann.post("/users/ed", "do", "nopassword", "sure", "yes").
		want(t, http.StatusOK, "The password was removed", "There is none: only a proxy")
	ed.get("/").leads(t, "/login")
	ed.post("/login", "name", "ed", "password", "").want(t, http.StatusUnauthorized)
	ann.post("/users/ed", "do", "right", "domain", "*", "role", "admin").want(t, http.StatusOK)
	ann.post("/users/ann", "do", "delete", "sure", "yes").want(t, http.StatusConflict)
	ann.get("/users").want(t, http.StatusOK, "without a password: only a proxy")
}

// TestAuditFilter: the log is filtered by words of any field. Who sees a part of it filters that.
func TestAuditFilter(t *testing.T) {
	s := newService(t)
	s.must(s.accounts.SetRight(t.Context(), account.By{Who: "ann"}, "ed", "shop", account.Admin))
	for i := range 101 {
		s.must(s.accounts.Note(t.Context(), account.Event{
			Who: "ann", What: "rules changed", Domain: []string{"shop", "bank"}[i%2],
			Detail: "version " + strconv.Itoa(i) + `: <i>%_\u202e`,
		}))
	}
	ann, ed := s.as("ann"), s.as("ed")
	ann.get("/audit?q=RULES+Bank").want(t, http.StatusOK, "in bank version 99:")
	if text := ann.get("/audit?q=version+99").says(); strings.Count(text, "rules changed") != 1 {
		t.Error(text)
	}
	if text := ann.get("/audit?q=" + url.QueryEscape("<i>%_")).text; strings.Contains(text, "<i>") ||
		!strings.Contains(text, `href="?before=`) || !strings.Contains(text, "&amp;q=%3Ci%3E%25_") {
		t.Error("older lines are not filtered, or a detail is markup")
	}
	ann.get("/audit?q=nobody").want(t, http.StatusOK, "No line has all of these words")
	ed.get("/domains/shop/audit?q=bank").want(t, http.StatusOK, "No line has all of these words")
	ed.get("/domains/shop/audit?q=version+98").want(t, http.StatusOK, "rules changed version 98")
	ed.get("/audit?q=ann").want(t, http.StatusForbidden)
}

// TestOddTitle: a title that a form cannot send again is refused. A token that has one since it was
// not can be revoked.
func TestOddTitle(t *testing.T) {
	s := newService(t)
	ed, ann := s.as("ed"), s.as("ann")
	for _, odd := range []string{"bad\xff\x00title", "two\nlines", "."} {
		ed.post("/account/tokens", "title", odd).want(t, http.StatusUnprocessableEntity)
	}
	for i, page := range []string{"/account", "/users/ed"} {
		ed.post("/account/tokens", "title", "ci").want(t, http.StatusOK)
		_, err := s.db.Exec("UPDATE ration_accounts_tokens SET title = ?", []byte("bad\xff\x00title"))
		s.must(err)
		b := []*browser{ed, ann}[i]
		b.post([]string{"/account/tokens/revoke", page}[i], "do", "revoke",
			"token", tokenID(t, b.get(page))).want(t, http.StatusOK, "was revoked")
		if list, err := s.accounts.Tokens(t.Context(), "ed"); len(list) != 0 || err != nil {
			t.Errorf("%s: %v, %v", page, list, err)
		}
	}
}

// TestUsers: an admin makes users, gives and takes rights, and nobody can take away the last admin.
func TestUsers(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	ann.post("/users", "name", "eve", "password", "short").want(t, http.StatusUnprocessableEntity,
		"12 to")
	ann.post("/users", "name", "ed").want(t, http.StatusConflict)
	ann.post("/users", "name", "eve/x", "password", password).leads(t, "/users/eve%2Fx")
	const at = "/users/eve%2Fx"
	ann.get(at).want(t, http.StatusOK, "its tokens of the API take from limits, too")
	eve := s.as("eve/x")
	eve.get("/").want(t, http.StatusOK, "no domain that you may see")
	ann.post(at, "do", "right", "domain", "bank", "role", "editor").want(t, http.StatusOK,
		"bank editor")
	eve.get("/domains/bank/edit").want(t, http.StatusOK)
	ann.post(at, "do", "right", "domain", "bank", "role", "none").want(t, http.StatusOK, "None.")
	eve.get("/domains/bank/edit").want(t, http.StatusNotFound)
	for _, spaces := range []string{"a ", " a"} { // are of the name, and the API makes such domains
		ann.post("/new", "name", spaces, "reason", "odd").want(t, http.StatusSeeOther)
		ann.post(at, "do", "right", "domain", spaces, "role", "editor").want(t, http.StatusOK)
		eve.get("/domains/"+url.PathEscape(spaces)+"/edit").want(t, http.StatusOK)
		ann.post(at, "do", "right", "domain", spaces, "role", "none").want(t, http.StatusOK, "None.")
	}
	for _, name := range []string{".", ".."} { // no path leads to them
		ann.post("/users", "name", name).want(t, http.StatusUnprocessableEntity)
	}
	for _, name := range []string{".", "..", "*"} {
		ann.post("/new", "name", name, "reason", "r").want(t, http.StatusUnprocessableEntity)
	}
	ann.post(at, "do", "right", "domain", "bank", "role", "god").want(t,
		http.StatusUnprocessableEntity)
	ann.post(at, "do", "what").want(t, http.StatusBadRequest)
	ann.post(at, "do", "password", "password", "another horse").want(t, http.StatusOK, "sessions")
	eve.get("/").leads(t, "/login")

	ann.post("/users/ann", "do", "right", "domain", "*", "role", "editor").
		want(t, http.StatusConflict, "This is the last user who can log in and may change users")
	ann.post("/users/ann", "do", "delete", "sure", "yes").want(t, http.StatusConflict)
	ann.post(at, "do", "right", "domain", "*", "role", "admin").want(t, http.StatusOK,
		"all domains admin")
	ann.post(at, "do", "delete").want(t, http.StatusUnprocessableEntity, "Tick the box")
	ann.post(at, "do", "delete", "sure", "yes").leads(t, "/users")
	ann.get(at).want(t, http.StatusNotFound)
	ann.get("/users").want(t, http.StatusOK, "ann all domains: admin", "nob elsewhere: viewer")
}

// TestRollBack: what would change is shown, and a change that came meanwhile is not undone.
func TestRollBack(t *testing.T) {
	s := newService(t)
	s.saved("shop", 1, strings.Replace(shop, "60}", "61}", 1))
	ed := s.as("ed")
	ed.get("/domains/shop/history").want(t, http.StatusOK, "Version 2 (the newest)",
		"user: 60/minute → 61/minute",
		"Version 1", "address is new: 5/second")
	ed.get("/domains/shop/versions/1").want(t, http.StatusOK, "user: 61/minute → 60/minute",
		"Roll back")
	s.as("vic").get("/domains/shop/versions/1").want(t, http.StatusOK, "From the newest version")
	ed.post("/domains/shop/versions/1", "base", "2", "reason", " ").
		want(t, http.StatusUnprocessableEntity, "The reason is missing")
	s.saved("shop", 2, strings.Replace(shop, "60}", "62}", 1))
	ed.post("/domains/shop/versions/1", "base", "2", "reason", "back").
		want(t, http.StatusConflict, "Nothing was rolled back", "user: 62/minute → 60/minute")
	ed.post("/domains/shop/versions/1", "base", "3", "reason", "back").leads(t,
		"/domains/shop?saved=4")
	if r := s.newest("shop"); string(r.Text) != shop || r.Reason != "back" || r.Author != "ed" {
		t.Errorf("%+v", r)
	}
	for _, v := range []string{"0", "-1", "9", "x", "9223372036854775807", "99999999999999999999"} {
		ed.get("/domains/shop/versions/"+v).want(t, http.StatusNotFound)
	}
	ed.get("/domains/shop/history?before=2").want(t, http.StatusOK, "Version 1")
}

// TestDelete: a domain is deleted with a reason, and not over a change that came meanwhile.
func TestDelete(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	s.saved("shop", 1, strings.Replace(shop, "60}", "61}", 1))
	ann.post("/domains/shop/delete", "base", "2").want(t, http.StatusUnprocessableEntity)
	a := ann.post("/domains/shop/delete", "base", "1", "reason", "closed")
	a.want(t, http.StatusConflict, "olga has changed the domain meanwhile")
	ann.post("/domains/shop/delete", "base", "2", "reason", "closed").leads(t, "/domains/shop")
	ann.get("/domains/shop").want(t, http.StatusOK, "ann has deleted this domain")
	ann.get("/domains/shop/edit").leads(t, "/domains/shop")
	ann.get("/domains/shop/delete").want(t, http.StatusNotFound)
	ann.post("/new", "name", "shop", "reason", "again").leads(t, "/domains/shop/edit")
	ann.post("/new", "name", "shop", "reason", "once more").want(t, http.StatusConflict, "already")
	ann.post("/new", "name", "*", "reason", "r").want(t, http.StatusUnprocessableEntity)
	ann.get("/domains/shop/audit").want(t, http.StatusOK,
		"ann 127.0.0.1 domain deleted version 3: closed",
		"domain made version 4: again")
}

// TestFirstDomain: a service without rules leads to the first ones.
func TestFirstDomain(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	for _, domain := range []string{"shop", "bank"} {
		ann.post("/domains/"+domain+"/delete", "base", "1", "reason", "r").leads(t, "/domains/"+domain)
	}
	s.inForce("shop", 0)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	ann.get("/").want(t, http.StatusOK, "There is no domain that you may see", "Make the first one")
	ann.post("/new", "name", "games", "reason", "first").leads(t, "/domains/games/edit")
	ann.get("/domains/games").want(t, http.StatusOK, "Version 1 by ann")
	s.inForce("games", 1)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	ann.get("/domains/games").want(t, http.StatusOK, "nothing limits its requests")
}

// TestExplain: what would limit a request.
func TestExplain(t *testing.T) {
	s := newService(t)
	vic := s.as("vic")
	vic.get("/domains/shop/explain?descriptors=user%3Dann%0Apath%3D%2Fsearch%0Ax%3Dy").
		want(t, http.StatusOK, "user=ann limited user 60/minute 60",
			"path=/search shadow path=/search 50/second",
			"x=y not configured")
	vic.get("/domains/shop/explain?descriptors=%22").want(t, http.StatusUnprocessableEntity)
	vic.get("/domains/bank/explain?descriptors=a%3Db").want(t, http.StatusNotFound)
}

// TestReadOnly: rules of files are seen, and cannot be edited.
func TestReadOnly(t *testing.T) {
	s := newService(t, func(c *Config) { c.Book = nil })
	ann := s.as("ann")
	a := ann.get("/domains/shop")
	a.want(t, http.StatusOK, "user 60/minute")
	ann.get("/domains/shop/rule?path=user").want(t, http.StatusOK, "Limit 60/minute")
	for _, link := range []string{"/edit", "/history", "/delete"} {
		if strings.Contains(a.text, link+`"`) {
			t.Errorf("there is a link to %s", link)
		}
	}
	for _, path := range []string{"/domains/shop/edit", "/domains/shop/delete", "/domains/shop/check",
		"/domains/shop/versions/1", "/new"} {
		ann.post(path, "name", "x", "reason", "r", "text", shop, "base", "1").want(t,
			http.StatusForbidden, "The rules are read only")
	}
	ann.get("/new").want(t, http.StatusForbidden, "The rules are read only")
	ann.get("/domains/shop/history").want(t, http.StatusForbidden, "read only")
}

// TestHome: the list has who has changed each domain last and why, what it does, and what needs a
// look, of those domains alone that the user may view. It asks the book once for each change.
func TestHome(t *testing.T) {
	s := newService(t, func(c *Config) {
		c.Glance = func(domain string) Glance {
			return Glance{
				Admitted: 12.34, Denied: math.NaN(), Lines: [2]string{"M0 0L1 1", "M1 1"},
				Looks: []string{"The store <b> is away."},
				Rules: []RuleLook{{
					Text: "Denies much", Paths: []string{"user", "a=<b>&c"}, Notes: []string{"39 %", ""},
					More: 2,
				}},
			}
		}
	})
	ann, vic := s.as("ann"), s.as("vic")
	a := ann.get("/")
	a.want(t, http.StatusOK, "bank , shop : The store <b> is away.",
		"bank : Denies much: user (39 %), a=<b>&c and 2 more",
		"shop 4 rules, admin 12.3/s – as olga likes it olga, 20")
	if !strings.Contains(a.text, `d="M0 0L1 1"`) || strings.Contains(a.text, "<b>") ||
		!strings.Contains(a.text, `href="/domains/shop/rule?path=a%3d%3cb%3e%26c"`) {
		t.Error(a.text)
	}
	before := s.book.calls.Load()
	a = vic.get("/domains")
	a.want(t, http.StatusOK, "shop : The store <b> is away.", "as olga likes it olga, 20")
	if strings.Contains(a.text, "bank") || strings.Contains(a.text, "<html") ||
		s.book.calls.Load() != before {
		t.Errorf("%d calls, %s", s.book.calls.Load()-before, a.text)
	}
	ann.get("/?q=ban").want(t, http.StatusOK, "bank 0 rules")
	if text := ann.get("/?q=ban").says(); strings.Contains(text, "shop") {
		t.Error(text)
	}
	ann.get("/?q=%3Cb%3E").want(t, http.StatusOK, "None of the 2 domains has this in its name")
	s.saved("shop", 1, strings.Replace(shop, "60}", "61}", 1))
	s.inForce("shop", 2)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	s.book.away.Store(true)
	ann.get("/").want(t, http.StatusOK, "– version 2")
	s.book.away.Store(false)
	ann.get("/").want(t, http.StatusOK, "as olga likes it olga, 20")
}

// TestRule: a rule's own page has its limit, its figures, and what has changed it and nothing else,
// which the chart marks.
func TestRule(t *testing.T) {
	s := newService(t)
	s.saved("shop", 1, strings.Replace(shop, "60}", "90}", 1))
	s.saved("shop", 2, strings.Replace(shop, "60}", "90} # often", 1))
	s.inForce("shop", 3)
	vic := s.as("vic")
	a := vic.get("/domains/shop/rule?path=user")
	a.want(t, http.StatusOK, "Limit 90/minute In force for all keys", "Nothing was measured",
		"Most limited keys of this rule", "60/minute → 90/minute as olga likes it olga",
		"new: 60/minute as olga likes it olga")
	if n := strings.Count(a.text, "/domains/shop/versions/"); n != 2 {
		t.Errorf("%d changes", n)
	}
	marks := regexp.MustCompile(`mark=\d{13}\.(\d)`).FindAllStringSubmatch(a.text, -1)
	if len(marks) < 2 || marks[0][1] != "2" || marks[1][1] != "1" {
		t.Errorf("marks %q", marks)
	}
	vic.get("/domains/shop/rule?path=user%3Dcrawler&span=24h").want(t, http.StatusOK,
		"Limit 1000/day by the calendar", "Trial 500/day by the calendar for 10 % of keys")
	vic.get("/domains/shop/rule?path=path%3D%2Fsearch").want(t, http.StatusOK,
		"no key: it is a shadow", "Name search")
	for _, none := range []string{"", "?path=", "?path=none", "?path=%00", "?path=user%27--"} {
		vic.get("/domains/shop/rule"+none).want(t, http.StatusNotFound)
	}
	vic.get("/domains/bank/rule?path=user").want(t, http.StatusNotFound)
	s.page.config.Measured = func(domain, path string) bool {
		return domain == "shop" && (path == "old" || path == "limits of requests' own")
	}
	a = vic.get("/domains/shop/rule?path=limits+of+requests%27+own")
	a.want(t, http.StatusOK, "These are of no rule")
	if strings.Contains(a.text, "/explain?") || strings.Contains(a.text, "Changes of this rule") {
		t.Errorf("what is no rule looks like one: %s", a.says())
	}
	vic.get("/domains/shop/rule?path=old").want(t, http.StatusOK, "No such rule is in force",
		"Changes of this rule None.")
	vic.get("/domains/bank/rule?path=old").want(t, http.StatusNotFound)
	vic.get("/domains/shop/rule?path=older").want(t, http.StatusNotFound)
	s.saved("shop", 3, "domain: shop\ndescriptors: []\n")
	s.inForce("shop", 4)
	vic.get("/domains/shop/rule?path=user").want(t, http.StatusOK, "No such rule is in force",
		"gone: 90/minute")
}

// TestTry: a request is tried on a text that nobody has saved. Nothing is saved or taken by it.
func TestTry(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	text := strings.Replace(shop, "60}", "77}", 1)
	try := func(text, asked string) answer {
		return ed.post("/domains/shop/edit", "base", "1", "text", text, "descriptors", asked,
			"do", "try")
	}
	try(text, "user=ann\nuser=crawler\nx=y").want(t, http.StatusOK, "user=ann limited user 77/minute",
		"user=crawler limited", "x=y not configured", "requests_per_unit: 77")
	try("domain: [", "user=ann").want(t, http.StatusOK, "The text has mistakes", "1 mistake")
	for _, odd := range []string{"\"", "=", "a=b,", strings.Repeat("a=b\n", 1000)} {
		if says := try(text, odd).says(); strings.Contains(says, "Answer") ||
			!strings.Contains(says, "descriptor") {
			t.Errorf("%.20q: %s", odd, says)
		}
	}
	if a := try(text, `<script>=x`); strings.Contains(a.text, "<script>=") {
		t.Error("it is markup")
	}
	s.as("vic").post("/domains/shop/edit", "base", "1", "text", text, "do", "try").
		want(t, http.StatusForbidden)
	if s.newest("shop").Version != 1 {
		t.Error("it was saved")
	}
}

// TestLive: the figures are a part of the page for htmx, and a page for a browser without scripts.
func TestLive(t *testing.T) {
	const stub = `<p class="stub">figures</p>`
	s := newService(t, func(c *Config) {
		c.LiveCSS = []byte(".live{}")
		c.Live = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(stub))
		})
	})
	vic := s.as("vic")
	path := regexp.MustCompile(`/static/live.css\?v=\w+`).FindString(vic.get("/domains/shop").text)
	if css := vic.get(path); css.text != ".live{}" ||
		css.Header.Get("Content-Type") != "text/css; charset=utf-8" {
		t.Errorf("%q is %q", path, css.text)
	}
	vic.get("/live/shop").want(t, http.StatusOK, "figures", "Log out")
	vic.header = http.Header{"Hx-Request": {"true"}}
	if a := vic.get("/live/shop"); a.text != stub {
		t.Errorf("htmx gets %q", a.text)
	}
	vic.get("/live/bank").want(t, http.StatusNotFound)
	s.as("ann").get("/live/nowhere/key?rule=a").want(t, http.StatusOK)
}
