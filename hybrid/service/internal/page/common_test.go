package page

import (
	"context"
	"database/sql"
	"errors"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/live"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
	"github.com/seed13b07268/ration/hybrid/service/internal/openidtest"
	"github.com/seed13b07268/ration/hybrid/service/internal/whatif"
)

// shop is a document of version 1.
const shop = `domain: shop
descriptors:
  - key: user # each user
    rate_limit: {unit: minute, requests_per_unit: 60}
  - key: address
    transform: ip/64
    rate_limit: {unit: second, requests_per_unit: 5, burst: 20}
  - key: user
    value: crawler
    rate_limit: {unit: day, requests_per_unit: 1000}
    trial: {unit: day, requests_per_unit: 500, percent: 10}
  - key: path
    value: /search
    shadow_mode: true
    rate_limit: {unit: second, requests_per_unit: 50, name: search}
`

// cheap hashes passwords in less than a millisecond.
var cheap = account.Cost{KiB: 8, Passes: 1, Lanes: 1}

// A service is a page before a database, with the domains shop and bank. Its users are ann, admin
// of all; ed, editor of shop; vic, viewer of shop; and nob without rights.
type service struct {
	t        *testing.T
	db       *sql.DB
	accounts *account.Accounts
	book     *brittle
	limiter  *rules.Limiter
	record   *whatif.Record
	page     *Page
	server   *httptest.Server
	log      lines
}

const password = "correct horse"

// A brittle book is away while it is told to be.
type brittle struct {
	rules.Book
	away  atomic.Bool
	calls atomic.Int64 // of Save and History
}

var errAway = errors.New("secret: away")

func (b *brittle) Save(ctx context.Context, c rules.Change) (rules.Revision, error) {
	b.calls.Add(1)
	if b.away.Load() {
		return rules.Revision{}, errAway
	}
	return b.Book.Save(ctx, c)
}

func (b *brittle) History(
	ctx context.Context, domain string, before int64, n int,
) ([]rules.Revision, error) {
	b.calls.Add(1)
	if b.away.Load() {
		return nil, errAway
	}
	return b.Book.History(ctx, domain, before, n)
}

// lines are those of a log.
type lines struct{ text atomic.Value }

func (l *lines) Write(b []byte) (int, error) {
	old, _ := l.text.Load().(string)
	l.text.Store(old + string(b))
	return len(b), nil
}

func (l *lines) String() string { s, _ := l.text.Load().(string); return s }

func newService(t *testing.T, adapt ...func(*Config)) *service {
	t.Helper()
	return newServiceBy(t, nil, adapt...)
}

// newServiceBy is newService, where an issuer logs people in, if there is one.
func newServiceBy(t *testing.T, by *openidtest.Issuer, adapt ...func(*Config)) *service {
	t.Helper()
	s := &service{t: t, server: httptest.NewUnstartedServer(nil)}
	ctx := t.Context()
	folder, err := os.MkdirTemp("", "page")
	s.must(err)
	// Not t.TempDir: a query of the limiter that was under way as it closed may end after that, and
	// only then its connection does.
	t.Cleanup(func() { os.RemoveAll(folder) })
	s.db, err = sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(folder, "ration.db"))+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)")
	s.must(err)
	t.Cleanup(func() { s.db.Close() })
	s.must(sqlrules.Migrate(ctx, s.db, sqlrules.SQLite))
	book, err := sqlrules.New(s.db, sqlrules.SQLite)
	s.must(err)
	s.book = &brittle{Book: book}
	s.saved("shop", 0, shop)
	s.saved("bank", 0, "domain: bank\ndescriptors: []\n")
	s.record = whatif.New(1<<20, func() *rules.Rules { return s.limiter.Rules() })
	s.limiter, err = rules.New(hybrid.NewMemory(), s.book, rules.Config{
		Record: s.record.Of,
		Empty:  true, Limiter: hybrid.Config{Timeout: 20 * time.Second}, // a busy machine stands still
	})
	s.must(err)
	t.Cleanup(func() { s.must(s.limiter.Close(context.Background())) })
	s.users(by)
	c := Config{
		Limiter: s.limiter, Book: s.book, Accounts: s.accounts,
		Log:    slog.New(slog.NewTextHandler(&s.log, nil)),
		Live:   live.New(s.limiter, hybrid.NewMemory(), live.Config{}).Handler(),
		WhatIf: s.record.Ask,
	}
	if by != nil {
		c.OpenID, err = openid.New(openid.Config{
			Issuer: by.URL, Public: "http://" + s.server.Listener.Addr().String(), Claim: "groups",
			ClientID: openidtest.ClientID, Secret: openidtest.Secret, Scopes: []string{"openid"}, Log: c.Log,
		})
		s.must(err)
	}
	for _, a := range adapt {
		a(&c)
	}
	s.page, err = New(c)
	s.must(err)
	t.Cleanup(func() { s.must(s.page.Close(context.Background())) })
	s.server.Config.Handler = s.page.Handler()
	s.server.Start()
	t.Cleanup(s.server.Close)
	return s
}

// groupRights are what the groups of issuers may do.
var groupRights = map[string]map[string]account.Role{
	"platform":  {account.All: account.Admin},
	"shop-team": {"shop": account.Editor, "bank": account.Viewer},
	"leads":     {"shop": account.Admin},
}

func (s *service) users(issuer *openidtest.Issuer) {
	s.t.Helper()
	ctx, by := s.t.Context(), account.By{Who: "test"}
	c := account.Config{Cost: cheap}
	if issuer != nil {
		at, err := url.Parse(issuer.URL)
		s.must(err)
		c.Issuer = account.Issuer{URL: issuer.URL, Host: at.Host, Rights: groupRights}
	}
	var err error
	s.accounts, err = account.Open(ctx, s.db, sqlrules.SQLite, c)
	s.must(err)
	for _, u := range []struct {
		name, domain string
		role         account.Role
	}{
		{"ann", account.All, account.Admin}, {"ed", "shop", account.Editor},
		{"vic", "shop", account.Viewer}, {"nob", "elsewhere", account.Viewer},
	} {
		s.must(s.accounts.Make(ctx, by, u.name, password))
		s.must(s.accounts.SetRight(ctx, by, u.name, u.domain, u.role))
	}
}

func (s *service) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// saved saves a version as somebody else.
func (s *service) saved(domain string, base int64, text string) {
	s.t.Helper()
	_, _, err := rules.Save(s.t.Context(), s.book.Book, rules.Change{
		Domain: domain, Base: base, Text: []byte(text), Author: "olga", Reason: "as olga likes it",
	})
	s.must(err)
}

// newest is the newest version of a domain.
func (s *service) newest(domain string) rules.Revision {
	s.t.Helper()
	list, err := s.book.Book.History(s.t.Context(), domain, 0, 1)
	s.must(err)
	if len(list) == 0 {
		return rules.Revision{}
	}
	return list[0]
}

// inForce waits for a version of a domain; that of none is 0.
func (s *service) inForce(domain string, version int64) {
	s.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); <-tick.C {
		inForce := int64(0)
		for _, d := range s.limiter.Stats().Domains {
			if d.Domain == domain {
				inForce = d.Version
			}
		}
		if inForce == version {
			return
		}
	}
	s.t.Fatalf("version %d of %s is not in force after 10 s", version, domain)
}

// A browser has cookies, and does not follow redirects.
type browser struct {
	*service
	client *http.Client
	header http.Header // of each request
}

// An answer is one whose body was read.
type answer struct {
	*http.Response
	text string
}

func (s *service) anybody() *browser {
	jar, err := cookiejar.New(nil)
	s.must(err)
	return &browser{s, &http.Client{
		Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}, http.Header{}}
}

// as is a browser in which a user has logged in.
func (s *service) as(name string) *browser {
	s.t.Helper()
	b := s.anybody()
	token, err := s.accounts.Login(s.t.Context(), account.By{Who: name}, password)
	s.must(err)
	at, err := url.Parse(s.server.URL)
	s.must(err)
	b.client.Jar.SetCookies(at, []*http.Cookie{{Name: "ration", Value: token}})
	return b
}

func (b *browser) get(path string) answer { return b.do(http.MethodGet, path, nil) }

// post sends a form of names and values.
func (b *browser) post(path string, pairs ...string) answer {
	b.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return b.do(http.MethodPost, path, strings.NewReader(form.Encode()))
}

func (b *browser) do(method, path string, body io.Reader) answer {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.t.Context(), method, b.server.URL+path, body)
	b.must(err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, values := range b.header {
		r.Header[name] = values
	}
	resp, err := b.client.Do(r)
	b.must(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	b.must(err)
	return answer{resp, string(text)}
}

var tags = regexp.MustCompile(`<[^>]*>|\s+`)

// says is the text of a page without tags.
func (a answer) says() string {
	inline := strings.NewReplacer("<bdi>", "", "</bdi>", "", "</code>", "")
	text := html.UnescapeString(tags.ReplaceAllString(inline.Replace(a.text), " "))
	return strings.Join(strings.Fields(text), " ")
}

// want checks the status of an answer, and what it says.
func (a answer) want(t *testing.T, status int, texts ...string) {
	t.Helper()
	if a.StatusCode != status {
		t.Errorf("%s %s: %d, not %d: %.600s", a.Request.Method, a.Request.URL, a.StatusCode, status,
			a.says())
	}
	for _, text := range texts {
		if !strings.Contains(a.says(), text) {
			t.Errorf("%s %s does not say %q: %.3000s", a.Request.Method, a.Request.URL, text, a.says())
		}
	}
}

// leads checks that an answer is a redirect.
func (a answer) leads(t *testing.T, to string) {
	t.Helper()
	a.want(t, http.StatusSeeOther)
	if got := a.Header.Get("Location"); got != to {
		t.Errorf("%s %s leads to %q, not %q", a.Request.Method, a.Request.URL, got, to)
	}
}

// loopback is where tests come from.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
