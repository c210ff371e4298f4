package page

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// may are the users who may use a route, by the right that it needs.
func may(r route) string {
	switch {
	case r.scope == anybody:
		return "ann ed vic nob nobody"
	case r.scope == person:
		return "ann ed vic nob"
	case r.scope == everything, r.role == account.Admin:
		return "ann"
	case r.role == account.Editor:
		return "ann ed"
	}
	return "ann ed vic"
}

// TestRights: each route refuses each user without the right for it, and changes nothing. Without
// any right for the domain it looks as if there were none.
func TestRights(t *testing.T) {
	s := newService(t)
	browsers := map[string]*browser{"nobody": s.anybody()}
	for _, name := range []string{"ann", "ed", "vic", "nob"} {
		browsers[name] = s.as(name)
	}
	refused := 0
	for _, r := range routes {
		method, pattern, _ := strings.Cut(r.pattern, " ")
		path := strings.NewReplacer("{domain}", "shop", "{version}", "1", "{user}", "vic",
			"{rest...}", "key", "{$}", "", "/rule", "/rule?path=user").Replace(pattern)
		for name, b := range browsers {
			if strings.Contains(may(r), name+" ") || strings.HasSuffix(may(r), name) {
				continue
			}
			refused++
			a := b.do(method, path, strings.NewReader("text=domain:+shop&base=1&reason=mine&do=delete"))
			switch {
			case name == "nobody" && method == "POST":
				a.want(t, http.StatusUnauthorized, "You are not logged in")
			case name == "nobody":
				a.want(t, http.StatusSeeOther)
			case r.scope == domain && name == "nob":
				a.want(t, http.StatusNotFound, "There is no such page")
				there := b.do(method, strings.Replace(path, "shop", "nowhere", 1), nil)
				if there.text != a.text {
					t.Errorf("%s of a domain without rights differs from that of none", r.pattern)
				}
			default:
				a.want(t, http.StatusForbidden, "It takes the role "+r.role.String())
			}
		}
	}
	if refused < 50 || s.newest("shop").Version != 1 {
		t.Errorf("%d were refused, and shop is at version %d", refused, s.newest("shop").Version)
	}
	if users, err := s.accounts.Users(t.Context()); err != nil || len(users) != 4 {
		t.Errorf("users: %v, %v", users, err)
	}
}

// TestAllowed: what users have the right for answers.
func TestAllowed(t *testing.T) {
	s := newService(t)
	for _, r := range routes {
		method, pattern, _ := strings.Cut(r.pattern, " ")
		if method != "GET" {
			continue
		}
		path := strings.NewReplacer("{domain}", "shop", "{version}", "1", "{user}", "vic",
			"{rest...}", "key", "{$}", "", "/rule", "/rule?path=user").Replace(pattern)
		for _, name := range strings.Fields(may(r)) {
			if name == "nobody" || path == "/new" && name != "ann" {
				continue
			}
			s.as(name).get(path).want(t, http.StatusOK)
		}
	}
}

// TestAdminsOnly: neither an edit nor a roll back by an editor makes or deletes a domain.
func TestAdminsOnly(t *testing.T) {
	s := newService(t)
	_, _, err := rules.Save(t.Context(), s.book.Book, rules.Change{
		Domain: "shop", Base: 1, Author: "olga", Reason: "closed",
	})
	s.must(err)
	ed := s.as("ed")
	for _, base := range []string{"0", "2"} {
		ed.post("/domains/shop/edit", "base", base, "reason", "r", "text", shop).
			want(t, http.StatusForbidden, "admin")
		ed.post("/domains/shop/versions/1", "base", base, "reason", "r").
			want(t, http.StatusForbidden, "admin")
	}
	if v := s.newest("shop").Version; v != 2 {
		t.Errorf("version %d", v)
	}
	ann := s.as("ann")
	ann.get("/domains/shop").want(t, http.StatusOK, "olga has deleted this domain: “closed”")
	ann.post("/domains/shop/versions/1", "base", "2", "reason", "open again").
		leads(t, "/domains/shop?saved=3")
	ed.post("/domains/shop/versions/2", "base", "3", "reason", "r").
		want(t, http.StatusForbidden, "admin")
	ed.post("/new", "name", "shop2", "reason", "r").want(t, http.StatusForbidden)
}

// TestStolenForm: a form that another site sends with the user's cookie changes nothing, nor does
// one that logs the user in.
func TestStolenForm(t *testing.T) {
	s := newService(t)
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}},
		{"Origin": {"https://evil.example"}}, {"Origin": {"null"}},
	} {
		ann := s.as("ann")
		ann.header = header
		ann.post("/domains/shop/delete", "base", "1", "reason", "r").
			want(t, http.StatusForbidden, "sent by another site")
		ann.post("/users", "name", "eve", "password", password).want(t, http.StatusForbidden)
		ann.post("/login", "name", "ed", "password", password).want(t, http.StatusForbidden)
		a := ann.post("/domains/shop/edit", "base", "1", "reason", "r", "text", "do not echo")
		a.want(t, http.StatusForbidden)
		if strings.Contains(a.text, "do not echo") {
			t.Error("what the other site has sent is shown")
		}
	}
	if s.newest("shop").Version != 1 {
		t.Error("shop was changed")
	}
}

// TestForgedSession: no cookie but that of a session is one. What the database has is none.
func TestForgedSession(t *testing.T) {
	s := newService(t)
	s.as("ann")
	var id []byte
	s.must(s.db.QueryRow("SELECT id FROM ration_accounts_sessions").Scan(&id))
	for _, value := range []string{"", "x", fmt.Sprintf("%x", id),
		base64.RawURLEncoding.EncodeToString(id),
		strings.Repeat("A", 43), strings.Repeat("A", 5000)} {
		b := s.anybody()
		b.header = http.Header{"Cookie": {"ration=" + value}}
		b.get("/users").leads(t, "/login?next=%2Fusers")
	}
}

// TestLargeBody: of a body of a gigabyte no more is read than a form may have.
func TestLargeBody(t *testing.T) {
	s := newService(t)
	for path, most := range map[string]int64{
		"/domains/shop/edit": textBody, "/domains/shop/check": textBody,
		"/domains/shop/delete": smallBody, "/login": smallBody, "/new": smallBody,
	} {
		session, err := s.accounts.Login(t.Context(), account.By{Who: "ann"}, password)
		s.must(err)
		body := &endless{}
		r := httptest.NewRequest(http.MethodPost, path, body)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.AddCookie(&http.Cookie{Name: "ration", Value: session})
		w := httptest.NewRecorder()
		s.page.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge || !strings.Contains(w.Body.String(), "too large") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if body.read > most+1 {
			t.Errorf("%s: %d bytes were read", path, body.read)
		}
	}
	s.anybody().post("/login", "name", strings.Repeat("a", smallBody)).
		want(t, http.StatusRequestEntityTooLarge, "Nothing was changed")
}

// An endless body has a gigabyte.
type endless struct{ read int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'a'
	}
	if e.read += int64(len(b)); e.read > 1<<30 {
		return 0, io.EOF
	}
	return len(b), nil
}

// TestBookAway: a save while the book is away says so, and keeps what was typed. The reason is in
// the log, and not on the page.
func TestBookAway(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	s.book.away.Store(true)
	text := strings.Replace(shop, "60}", "77}", 1)
	for range 2 {
		a := ed.post("/domains/shop/edit", "base", "1", "reason", "why", "text", text)
		a.want(t, http.StatusServiceUnavailable, "does not answer", "requests_per_unit: 77", "Save again")
		if strings.Contains(a.text, "secret") || !strings.Contains(s.log.String(), "secret: away") {
			t.Error("the reason is on the page, or not in the log")
		}
	}
	ed.get("/domains/shop").want(t, http.StatusOK, "What is in force stays in force", "60/minute")
	ed.get("/domains/shop/history").want(t, http.StatusServiceUnavailable)
	s.book.away.Store(false)
	ed.post("/domains/shop/edit", "base", "1", "reason", "why", "text", text).
		leads(t, "/domains/shop?saved=2")
}

// TestPlaces: while others have all the places nothing reads the book, and what was typed is shown.
// Each request gives its place back.
func TestPlaces(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	s.page.patience = time.Millisecond
	for range mostTexts {
		s.page.places <- struct{}{}
	}
	for _, r := range routes {
		method, pattern, _ := strings.Cut(r.pattern, " ")
		if r.scope == anybody || pattern == "/logout" {
			continue
		}
		path := strings.NewReplacer("{domain}", "shop", "{version}", "1", "{user}", "vic",
			"{rest...}", "key", "{$}", "", "/rule", "/rule?path=user").Replace(pattern)
		form := strings.NewReader("text=domain:+shop&name=games&base=1&reason=mine&do=check")
		before := s.book.calls.Load()
		a := ann.do(method, path, form)
		if s.book.calls.Load() != before {
			t.Errorf("%s reads the book", r.pattern)
		}
		if r.texts && (a.StatusCode != 503 || a.Header.Get("Retry-After") != "2") {
			t.Errorf("%s: %d, Retry-After %q", r.pattern, a.StatusCode, a.Header.Get("Retry-After"))
		}
		if method == "POST" && r.texts && !strings.Contains(a.says(), "domain: shop") {
			t.Errorf("%s does not show what was typed: %s", r.pattern, a.says())
		}
	}
	for range mostTexts {
		<-s.page.places
	}
	for range mostTexts + 1 {
		ann.get("/domains/shop/history").want(t, http.StatusOK)
		ann.get("/domains/shop/versions/9").want(t, http.StatusNotFound)
		ann.post("/domains/shop/edit", "base", "1", "reason", "r", "text", shop).
			want(t, http.StatusSeeOther)
	}
}

// TestRefreshIsCheap: pages that are open do not each read the text of the newest version.
func TestRefreshIsCheap(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	ann.get("/domains/shop/state").want(t, http.StatusOK)
	before := s.book.calls.Load()
	s.page.heads["shop"] = head{s.page.heads["shop"].newest, time.Now().Add(time.Minute)}
	for range 10 {
		ann.get("/domains/shop/state").want(t, http.StatusOK)
	}
	if n := s.book.calls.Load() - before; n != 0 {
		t.Errorf("the book was asked %d times", n)
	}
	s.saved("shop", 1, strings.Replace(shop, "60}", "61}", 1))
	s.inForce("shop", 2)
	s.page.asOf = s.page.asOf.Add(-statsLife)
	ann.get("/domains/shop/state").want(t, http.StatusOK)
	if n := s.book.calls.Load() - before; n != 1 || s.page.heads["shop"].newest.Text != nil {
		t.Errorf("the book was asked %d times", n)
	}
}

// TestDatabaseGone: so does one while nobody can tell who it is.
func TestDatabaseGone(t *testing.T) {
	s := newService(t)
	ed := s.as("ed")
	s.must(s.db.Close())
	ed.post("/domains/shop/edit", "base", "1", "reason", "why", "text", "domain: typed").
		want(t, http.StatusServiceUnavailable, "What you have typed domain: typed")
	ed.get("/domains/shop").want(t, http.StatusServiceUnavailable, "The database does not answer")
	ed.post("/login", "name", "ed", "password", password).want(t, http.StatusServiceUnavailable)
}

// TestSessionEnded: what was typed into a form is not lost, either.
func TestSessionEnded(t *testing.T) {
	s := newService(t)
	nobody := s.anybody()
	nobody.post("/domains/shop/edit", "base", "1", "reason", "r", "text", "domain: typed").
		want(t, http.StatusUnauthorized, "What you have typed domain: typed", "Log in in another tab")
	nobody.header = http.Header{"Hx-Request": {"true"}}
	a := nobody.get("/live/shop")
	a.want(t, http.StatusUnauthorized, "Your session has ended")
	if strings.Contains(a.text, "<html") {
		t.Error("a whole page is put into another one")
	}
}

// TestHeaders: all answers have the policy, and nothing but static files is kept by caches.
func TestHeaders(t *testing.T) {
	s := newService(t)
	css := static["style.css"]
	for path, cache := range map[string]string{
		"/": "no-store", "/login": "no-store", "/nothing": "no-store", "/domains/shop": "no-store",
		"/live/shop": "no-store", "/static/nothing": "no-store", "/static/style.css": "no-store",
		"/static/style.css?v=" + css.hash: "public, max-age=31536000, immutable",
	} {
		h := s.as("ann").get(path).Header
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; " +
				"img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; " +
				"frame-ancestors 'none'",
			"X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin", "Cache-Control": cache,
		} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, not %q", path, name, got, want)
			}
		}
	}
}

// inline is what the policy forbids: the browser would refuse it.
var inline = regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|javascript:|hx-on|` +
	`<script(?:>|\s+(?:[^s>]|s[^r]))`)

// TestNothingInline: no template has a script or a style in it.
func TestNothingInline(t *testing.T) {
	names, err := files.ReadDir("templates")
	if err != nil || len(names) < 10 {
		t.Fatal(names, err)
	}
	for _, f := range names {
		text, err := files.ReadFile("templates/" + f.Name())
		if err != nil {
			t.Fatal(err)
		}
		if found := inline.FindString(string(text)); found != "" {
			t.Errorf("%s has %q", f.Name(), found)
		}
	}
}

// TestHostile: names and texts of others are text.
func TestHostile(t *testing.T) {
	s := newService(t)
	const name = `a/b?c#d%2F"<script>alert(1)</script>é`
	ann := s.as("ann")
	a := ann.post("/new", "name", name, "reason", `<b onclick="x">`)
	a.want(t, http.StatusSeeOther)
	edit := a.Header.Get("Location")
	a = ann.get(edit)
	a.want(t, http.StatusOK, "Edit the rules", name)
	if strings.Contains(a.text, "<script>alert") {
		t.Error(a.text)
	}
	at := strings.TrimSuffix(edit, "/edit")
	s.inForce(name, 1)
	for _, page := range []string{"", "/history", "/versions/1", "/explain", "/audit", "/delete",
		"/state"} {
		a := ann.get(at + page)
		a.want(t, http.StatusOK)
		if strings.Contains(a.text, "<script>alert") || strings.Contains(a.text, "<b onclick") {
			t.Errorf("%s: %s", page, a.text)
		}
	}
	links := regexp.MustCompile(`href="([^"]*/history)"`).FindStringSubmatch(ann.get(at).text)
	if links == nil || links[1] != at+"/history" {
		t.Errorf("links %q lead elsewhere than %s", links, at)
	}
	ann.post(at+"/delete", "base", "1", "reason", "was hostile").leads(t, at)
}

// TestUnreadable: a name or a reason that databases or lists cannot have is refused as the user's
// mistake.
func TestUnreadable(t *testing.T) {
	s := newService(t)
	ann := s.as("ann")
	for _, odd := range []string{"a\x00b", "a\nb", "a\x1bb", "a\u0085b", "a\xffb", "a\u202eb",
		"a\u2067b", "a\u200bb"} {
		ann.post("/new", "name", odd, "reason", "r").
			want(t, http.StatusUnprocessableEntity, "A domain cannot have this name")
		const says = "The reason has a character that cannot be read"
		ann.post("/new", "name", "games", "reason", odd).want(t, http.StatusUnprocessableEntity, says)
		ann.post("/domains/shop/delete", "base", "1", "reason", odd).
			want(t, http.StatusUnprocessableEntity, says)
		ann.post("/domains/shop/edit", "base", "1", "reason", odd, "text", shop).
			want(t, http.StatusUnprocessableEntity, says)
	}
	if s.newest("games").Version != 0 || s.newest("shop").Version != 1 {
		t.Error("it was saved")
	}
}

// TestNext: after a login one comes to this page, and nowhere else.
func TestNext(t *testing.T) {
	s := newService(t)
	for next, to := range map[string]string{
		"/domains/shop?rule=a": "/domains/shop?rule=a", "": "/", "https://evil.example/": "/",
		"//evil.example": "/", `/\evil.example`: "/", "/login": "/", "x": "/", "/\tx": "/",
	} {
		s.anybody().post("/login", "name", "ed", "password", password, "next", next).leads(t, to)
	}
}

// TestProxyHeader: a header that names a user counts from the proxies that are named, and from
// nowhere else. Such a user has the rights that are stored, or none.
func TestProxyHeader(t *testing.T) {
	honest := func(c *Config) {
		c.AuthHeader, c.AuthProxies = "X-User", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	liar := func(c *Config) {
		c.AuthHeader, c.AuthProxies = "X-User", []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}
	}
	s := newService(t, honest)
	b := s.anybody()
	b.header = http.Header{"X-User": {"ed"}}
	b.get("/domains/shop/edit").want(t, http.StatusOK)
	b.get("/users").want(t, http.StatusForbidden)
	b.get("/login?next=/account").leads(t, "/account")
	b.header = http.Header{"X-User": {"stranger"}}
	b.get("/").want(t, http.StatusOK, "There is no domain that you may see")
	b.get("/domains/shop").want(t, http.StatusNotFound)
	// A proxy may know its user by what browsers send for other sites, too.
	b.header = http.Header{"X-User": {"ed"}}
	b.post("/account/tokens", "title", "mine").want(t, http.StatusForbidden, "sent by another site")
	b.header.Set("Origin", s.server.URL)
	b.post("/account/tokens", "title", "mine").want(t, http.StatusOK, "The token mine")
	b.post("/account/password", "password", password, "new", "another horse", "again",
		"another horse").want(t, http.StatusForbidden, "A proxy logs you in")
	b.header = http.Header{"X-User": {"stranger"}, "Sec-Fetch-Site": {"same-origin"}}
	b.post("/account/tokens", "title", "mine").want(t, http.StatusNotFound)
	b.header = http.Header{"X-User": {"ed", "ann"}}
	b.get("/domains/shop/edit").want(t, http.StatusSeeOther)
	b.header = http.Header{"X-User": {"ed\u0085"}}
	b.get("/domains/shop/edit").want(t, http.StatusSeeOther)

	s = newService(t, liar)
	b = s.anybody()
	b.header = http.Header{"X-User": {"ann"}}
	for range 3 {
		b.get("/users").leads(t, "/login?next=%2Fusers")
	}
	if n := strings.Count(s.log.String(), "not from a proxy"); n != 1 {
		t.Errorf("%d lines tell of it: %s", n, s.log.String())
	}
}

// TestAddresses: a proxy that is not named cannot say where a client is, nor that it came by TLS.
func TestAddresses(t *testing.T) {
	for trusted, want := range map[string]struct {
		from   string
		secure bool
	}{"127.0.0.0/8": {"198.51.100.7", true}, "192.0.2.0/24": {"127.0.0.1", false}} {
		s := newService(t, func(c *Config) { c.Proxies = []netip.Prefix{netip.MustParsePrefix(trusted)} })
		b := s.anybody()
		b.header = http.Header{
			"X-Forwarded-For": {"203.0.113.9, 198.51.100.7"}, "X-Forwarded-Proto": {"https"},
		}
		a := b.post("/login", "name", "ed", "password", password)
		a.leads(t, "/")
		c := a.Cookies()[0]
		if c.Secure != want.secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode ||
			c.Path != "/" || c.Domain != "" || strings.HasPrefix(c.Name, "__Host-") != want.secure {
			t.Errorf("%s: the cookie is %v", trusted, c)
		}
		events, _, err := s.accounts.Events(t.Context(), account.Search{Most: 1})
		if err != nil || events[0].What != "logged in" || events[0].Address != want.from {
			t.Errorf("%s: %+v, %v", trusted, events, err)
		}
	}
}

// TestConfig: what makes no sense has an error that names the field.
func TestConfig(t *testing.T) {
	s := newService(t)
	good := s.page.config
	for want, adapt := range map[string]func(*Config){
		"Config.Limiter":     func(c *Config) { c.Limiter = nil },
		"Config.Accounts":    func(c *Config) { c.Accounts = nil },
		"Config.AuthHeader":  func(c *Config) { c.AuthHeader = "X-User" },
		"needs AuthProxies":  func(c *Config) { c.AuthHeader = "X User" },
		"Config.AuthProxies": func(c *Config) { c.AuthProxies = make([]netip.Prefix, 1) },
		"Config.Proxies":     func(c *Config) { c.Proxies = make([]netip.Prefix, 1) },
		"is no prefix": func(c *Config) {
			c.AuthHeader, c.AuthProxies = "X-User", make([]netip.Prefix, 1)
		},
	} {
		c := good
		adapt(&c)
		if p, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, p, err)
		}
	}
}

func TestVendored(t *testing.T) {
	readme, err := os.ReadFile("htmx/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]string{"htmx.min.js": "dist/htmx.min.js", "LICENSE": "LICENSE"} {
		text, err := files.ReadFile("htmx/" + name)
		if err != nil {
			t.Fatal(err)
		}
		row := fmt.Sprintf("| %s | %x |", of, sha256.Sum256(text))
		if !strings.Contains(string(readme), row) {
			t.Errorf("htmx/README.md lacks %s", row)
		}
	}
}
