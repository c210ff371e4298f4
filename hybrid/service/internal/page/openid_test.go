package page

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
	"github.com/seed13b07268/ration/hybrid/service/internal/openidtest"
)

// toIssuer is a click on the button of the login, and where it leads from this page.
func (b *browser) toIssuer(next string) string {
	b.t.Helper()
	a := b.get("/login/oidc?next=" + url.QueryEscape(next))
	a.want(b.t, http.StatusSeeOther)
	return a.Header.Get("Location")
}

// atIssuer is what the browser does there: it returns the path that the issuer sends it back to.
func (b *browser) atIssuer(to string) string {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, to, nil)
	b.must(err)
	resp, err := b.client.Do(r)
	b.must(err)
	defer resp.Body.Close()
	path, found := strings.CutPrefix(resp.Header.Get("Location"), b.server.URL)
	if !found {
		b.t.Fatalf("the issuer sends the browser to %q", resp.Header.Get("Location"))
	}
	return path
}

// enter logs in by the issuer.
func (b *browser) enter(next string) answer { return b.get(b.atIssuer(b.toIssuer(next))) }

// olga is who she is here.
func olga(i *openidtest.Issuer) string {
	return "olga (" + strings.TrimPrefix(i.URL, "http://") + ")"
}

// TestOpenID: a person whom the issuer logs in has the rights of the groups, in a session as all are,
// and is seen with the issuer.
func TestOpenID(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	b := s.anybody()
	b.get("/login").want(t, http.StatusOK, "Log in with 127.0.0.1")
	b.get("/domains/shop/edit").leads(t, "/login?next=%2Fdomains%2Fshop%2Fedit")
	b.enter("/domains/shop/edit").leads(t, "/domains/shop/edit")
	b.get("/domains/shop/edit").want(t, http.StatusOK, olga(i))
	b.get("/domains/bank").want(t, http.StatusOK)
	b.get("/domains/bank/edit").want(t, http.StatusForbidden)
	b.get("/domains/shop/audit").want(t, http.StatusForbidden)
	b.get("/users").want(t, http.StatusForbidden)
	b.post("/domains/shop/edit", "base", "1", "do", "save", "reason", "sale", "text",
		strings.Replace(shop, "60}", "90}", 1)).leads(t, "/domains/shop?saved=2")
	if who := s.newest("shop").Author; who != olga(i) {
		t.Errorf("the author is %q", who)
	}
	b.get("/account").want(t, http.StatusOK, i.URL+" has logged you in", "shop : editor")
	b.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	b.post("/logout").want(t, http.StatusForbidden, "sent by another site")
	b.header = nil
	b.post("/logout").leads(t, "/login")
	b.get("/").leads(t, "/login")
	s.as("ann").get("/audit").want(t, http.StatusOK, olga(i)+" 127.0.0.1 logged out",
		olga(i)+" 127.0.0.1 rules changed in shop", olga(i)+" 127.0.0.1 logged in by "+i.URL+
			`, subject "s-1", groups ["shop-team"]`)

	i.Lie(openidtest.Lies{Claims: map[string]any{"groups": []string{"shop-team", "leads"}}})
	b.enter("/").leads(t, "/")
	b.get("/domains/shop/delete").want(t, http.StatusOK)
	b.get("/users").want(t, http.StatusForbidden)
	i.Lie(openidtest.Lies{Claims: map[string]any{"groups": "platform"}})
	b.enter("/users").leads(t, "/users")
	b.get("/users").want(t, http.StatusOK)
}

// TestOpenIDDenied: who has no group with rights, or a name that cannot be shown, gets no session, and
// is told why.
func TestOpenIDDenied(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	s.page.client.Trusted = loopback
	for n, try := range []struct {
		claims map[string]any
		says   string
	}{
		{map[string]any{"groups": nil}, "none of your groups has rights here"},
		{map[string]any{"groups": []string{}}, "You are " + olga(i) + ", and none of your groups"},
		{map[string]any{"groups": []string{"Shop-Team", "shop-team ", "*", ""}}, "none of your groups"},
		{map[string]any{"groups": strings.Repeat("platform", 10_000)}, "none of your groups"},
		{map[string]any{"preferred_username": "<b>ol</b>", "groups": nil}, "You are <b>ol</b> (127.0.0.1"},
		{map[string]any{"preferred_username": "ol\u202ega"}, "not valid"},
		{map[string]any{"preferred_username": "ol\u200dga"}, "not valid"},
		{map[string]any{"preferred_username": "olga\x00"}, "not valid"},
		{map[string]any{"preferred_username": "olga\r\nadmin"}, "not valid"},
		{map[string]any{"preferred_username": " olga"}, "not valid"},
		{map[string]any{"preferred_username": strings.Repeat("x", account.MaxName)}, "not valid"},
		{map[string]any{"preferred_username": nil, "email": nil, "sub": "a\u202eb"}, "not valid"},
		{map[string]any{"sub": "a\u202eb"}, "not valid"},
		{map[string]any{"sub": strings.Repeat("x", 256)}, "not valid"},
		{map[string]any{"nonce": "x"}, "not valid"},
	} {
		i.Lie(openidtest.Lies{Claims: try.claims})
		b := s.anybody()
		b.header = http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", n)}} // each has ten tries
		a := b.enter("/")
		a.want(t, http.StatusForbidden, try.says)
		if strings.Contains(a.text, "\u202e") {
			t.Errorf("%v turns the text around it", try.claims)
		}
		b.get("/").leads(t, "/login")
	}
	s.sessions(0)
	events := s.as("ann").get("/audit?q=login+failed")
	events.want(t, http.StatusOK, olga(i)+" 192.0.2.0 login failed no group has rights")
	if strings.Contains(events.text, "\u202e") || strings.Contains(events.text, "<b>ol") {
		t.Error("the audit log has a name as it was told")
	}
}

// sessions checks how many there are.
func (s *service) sessions(want int) {
	s.t.Helper()
	n := 0
	s.must(s.db.QueryRow("SELECT COUNT(*) FROM ration_accounts_sessions").Scan(&n))
	if n != want {
		s.t.Errorf("%d sessions, not %d", n, want)
	}
}

// TestOpenIDForeign: no browser ends a login that another has begun, and none is used twice, though
// the issuer gives another token for its code.
func TestOpenIDForeign(t *testing.T) {
	i := openidtest.New(t)
	i.Lie(openidtest.Lies{Reuse: true})
	s := newServiceBy(t, i)
	const foreign = "This login did not begin here"
	victim, attacker := s.anybody(), s.anybody()
	attackers := attacker.atIssuer(attacker.toIssuer("/"))
	victim.get(attackers).want(t, http.StatusForbidden, foreign) // has begun none
	path := victim.atIssuer(victim.toIssuer("/account"))
	victim.get(attackers).want(t, http.StatusForbidden, foreign)
	attacker.get(path).want(t, http.StatusForbidden, foreign)
	at, err := url.Parse(path)
	s.must(err)
	injected := at.Query()
	stolen, err := url.Parse(attackers)
	s.must(err)
	injected.Set("code", stolen.Query().Get("code"))
	copied := victim.client.Jar.Cookies(victim.get("/login").Request.URL)

	victim.get(path).leads(t, "/account")
	s.sessions(1)
	victim.get(path).want(t, http.StatusForbidden, foreign)
	for range 2 { // by whoever has got the cookie as well
		thief := s.anybody()
		thief.client.Jar.SetCookies(victim.get("/login").Request.URL, copied)
		thief.get(path).want(t, http.StatusForbidden, foreign)
		thief.client.Jar.SetCookies(victim.get("/login").Request.URL, copied)
		thief.get(openid.Path+"?"+injected.Encode()).want(t, http.StatusForbidden, "not valid")
		thief.get("/").leads(t, "/login")
	}
	s.sessions(1)
	victim.get("/account").want(t, http.StatusOK)
}

// TestOpenIDReplicas: another replica ends a login, and knows which were used.
func TestOpenIDReplicas(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	c := s.page.config
	var err error
	c.OpenID, err = openid.New(openid.Config{
		Issuer: i.URL, Public: s.server.URL, ClientID: openidtest.ClientID, Secret: openidtest.Secret,
		Scopes: []string{"openid"}, Claim: "groups", Log: c.Log,
	})
	s.must(err)
	p, err := New(c)
	s.must(err)
	defer func() { s.must(p.Close(t.Context())) }()
	other := httptest.NewServer(p.Handler())
	defer other.Close()
	b := s.anybody()
	path := b.atIssuer(b.toIssuer("/domains/shop"))
	one := *s
	one.server = other
	b.service = &one // a browser sends its cookies to each port of a host
	b.get(path).leads(t, "/domains/shop")
	b.get("/domains/shop").want(t, http.StatusOK)
	b.service = s
	b.get("/domains/shop").want(t, http.StatusOK)
	b.get(path).want(t, http.StatusForbidden, "This login did not begin here")
}

// TestOpenIDNext: a login leads to this page and nowhere else, whoever has set its cookie, and begins
// on this page.
func TestOpenIDNext(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	s.page.client.Trusted = loopback
	for next, to := range map[string]string{
		"/domains/shop?rule=a": "/domains/shop?rule=a", "": "/", "https://evil.example/": "/",
		"//evil.example": "/", `/\evil.example`: "/", "/login/oidc": "/", "x": "/", "/\tx": "/",
		"/" + strings.Repeat("x", maxNext): "/",
	} {
		b := s.anybody()
		b.header = http.Header{"X-Forwarded-For": {fmt.Sprintf("192.0.2.%d", len(next)%250)}}
		b.enter(next).leads(t, to)
		path := b.atIssuer(b.toIssuer("/"))
		jar := b.client.Jar
		for _, c := range jar.Cookies(b.get("/login").Request.URL) {
			if secret, _, found := strings.Cut(c.Value, "."); found && c.Name == "ration-login" {
				c.Value = secret + "." + base64.RawURLEncoding.EncodeToString([]byte(next))
				jar.SetCookies(b.get("/login").Request.URL, []*http.Cookie{c})
			}
		}
		if len(next) < maxNext {
			b.get(path).leads(t, to)
		}
	}
	for _, site := range []string{"cross-site", "same-site", "nonsense"} {
		b := s.anybody()
		b.header = http.Header{"Sec-Fetch-Site": {site}}
		b.get("/login/oidc?next=/account").leads(t, "/login?next=%2Faccount")
	}
	b := s.anybody()
	b.header = http.Header{"Sec-Fetch-Site": {"same-origin"}}
	b.toIssuer("/")
	s = newServiceBy(t, i, func(c *Config) { c.AuthHeader, c.AuthProxies = "X-User", loopback })
	b = s.anybody()
	b.header = http.Header{"X-User": {"ed"}}
	b.get("/login/oidc?next=https://evil.example").leads(t, "/")
}

// TestOpenIDLimits: a stranger has the issuer asked as often as passwords are tried, and fills no log.
func TestOpenIDLimits(t *testing.T) {
	i := openidtest.New(t)
	i.Lie(openidtest.Lies{Callback: url.Values{"code": {"x"}}})
	s := newServiceBy(t, i)
	b := s.anybody()
	for range 10 {
		b.enter("/").want(t, http.StatusForbidden, "not valid")
	}
	for range 10 {
		b.enter("/").want(t, http.StatusTooManyRequests, "Too many tries")
		b.get(openid.Path+"?state=x").want(t, http.StatusForbidden)
	}
	if n := i.Tokens(); n != 10 {
		t.Errorf("the issuer was asked %d times", n)
	}
	events, _, err := s.accounts.Events(t.Context(), account.Search{Most: 100, Words: "login"})
	if s.must(err); len(events) != 2*crowdLines {
		t.Errorf("%d lines: %v", len(events), events)
	}
	if n := strings.Count(s.log.String(), "a login by OpenID Connect has failed"); n != 1 {
		t.Errorf("%d lines tell of it: %s", n, s.log.String())
	}
}

// TestOpenIDAway: while the issuer is away people are told so, and passwords go on.
func TestOpenIDAway(t *testing.T) {
	i := openidtest.New(t)
	i.Lie(openidtest.Lies{Down: true})
	s := newServiceBy(t, i)
	b := s.anybody()
	b.get("/login/oidc").want(t, http.StatusServiceUnavailable, "The issuer does not answer")
	b.post("/login", "name", "ed", "password", password).leads(t, "/")
	i.Lie(openidtest.Lies{Callback: url.Values{"code": nil, "error": {"access_denied"}}})
	s = newServiceBy(t, i)
	s.anybody().enter("/").want(t, http.StatusForbidden, "The issuer did not log you in")
	if !strings.Contains(s.log.String(), "access_denied") {
		t.Errorf("the log does not say why: %s", s.log.String())
	}
}

// TestOpenIDOnly: a person whom an issuer has logged in has nothing that the database has of a user,
// not even of one with the same name. Nobody is logged in by an issuer that is not configured.
func TestOpenIDOnly(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	by := account.By{Who: "test"}
	s.must(s.accounts.Make(t.Context(), by, olga(i), password))
	_, err := s.accounts.MakeToken(t.Context(), by, olga(i), account.Token{Title: "namesake's"})
	s.must(err)
	tokens, err := s.accounts.Tokens(t.Context(), olga(i))
	s.must(err)
	b := s.anybody()
	b.enter("/").leads(t, "/")
	a := b.get("/account")
	a.want(t, http.StatusOK, "Only users with an account here")
	if strings.Contains(a.text, "namesake") || strings.Contains(a.text, "<form method=\"post\" action=\"/account") {
		t.Errorf("it shows what it has not: %s", a.says())
	}
	for path, form := range map[string][]string{
		"/account/tokens": {"title", "mine"}, "/account/tokens/revoke": {"token", tokens[0].ID},
		"/account/password": {"password", password, "new", "another horse", "again", "another horse"},
	} {
		b.post(path, form...).want(t, http.StatusForbidden, "You have no account here")
	}
	if now, err := s.accounts.Tokens(t.Context(), olga(i)); err != nil || len(now) != 1 {
		t.Errorf("tokens: %v, %v", now, err)
	}

	s = newService(t)
	b = s.anybody()
	if a := b.get("/login"); strings.Contains(a.text, "oidc") {
		t.Error("there is a button for nothing")
	}
	b.get("/login/oidc").want(t, http.StatusNotFound)
	b.get(openid.Path+"?code=x&state=x").want(t, http.StatusNotFound)
}

// TestOpenIDExpel: an admin sees who is logged in by the issuer, and ends their sessions; nobody else
// does.
func TestOpenIDExpel(t *testing.T) {
	i := openidtest.New(t)
	s := newServiceBy(t, i)
	ann := s.as("ann")
	ann.get("/users").want(t, http.StatusOK, "Logged in with 127.0.0.1", "Nobody now.")
	b := s.anybody()
	b.enter("/").leads(t, "/")
	b.post("/people", "name", olga(i)).want(t, http.StatusForbidden)
	s.as("ed").post("/people", "name", olga(i)).want(t, http.StatusForbidden)
	ann.get("/users").want(t, http.StatusOK, olga(i)+" bank: viewer shop: editor", "End the session")
	ann.post("/people", "name", "ed").want(t, http.StatusNotFound, "There is no session of this person")
	ann.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
	ann.post("/people", "name", olga(i)).want(t, http.StatusForbidden, "sent by another site")
	ann.header = nil
	b.get("/").want(t, http.StatusOK)
	ann.post("/people", "name", olga(i)).want(t, http.StatusOK, "have ended", "Nobody now.")
	b.get("/").leads(t, "/login")
	ann.get("/audit").want(t, http.StatusOK, "ann 127.0.0.1 sessions ended "+olga(i))
	i.Lie(openidtest.Lies{Claims: map[string]any{"groups": "platform"}})
	b.enter("/users").leads(t, "/users")
	b.post("/people", "name", olga(i)).leads(t, "/login")
	b.get("/").leads(t, "/login")
}

// TestOpenIDCookie: over TLS it is one that no other host can set.
func TestOpenIDCookie(t *testing.T) {
	i := openidtest.New(t)
	for public, name := range map[string]string{
		"https://ration.example.com": "__Host-ration-login", "http://localhost": "ration-login",
	} {
		s := newServiceBy(t, i, func(c *Config) {
			var err error
			c.OpenID, err = openid.New(openid.Config{
				Issuer: i.URL, Public: public, ClientID: openidtest.ClientID, Claim: "groups",
				Scopes: []string{"openid"}, Log: c.Log,
			})
			if err != nil {
				t.Fatal(err)
			}
		})
		cookies := s.anybody().get("/login/oidc").Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%v", cookies)
		}
		c := cookies[0]
		if c.Name != name || c.Secure != strings.HasPrefix(public, "https") || !c.HttpOnly ||
			c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 600 {
			t.Errorf("%s: %v", public, c)
		}
	}
}
