// Package page is the page of the service: rules are seen, edited and watched there, and users get
// their rights. It is HTML from the server, with htmx where a browser runs scripts; all of it works
// without.
//
// # Promise
//
// Each request is held to the rights of its user as they are then. A domain for which a user has
// no rights looks as if it did not exist. A request that another site has made changes nothing. No
// page is kept by a cache, and none runs a script but those of its own. A text that could not be
// saved is in the answer, so that it is not lost.
package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
	"github.com/seed13b07268/ration/hybrid/service/internal/whatif"
)

// Config configures a Page.
type Config struct {
	Limiter  *rules.Limiter    // required: the rules in force, and what they have counted
	Book     rules.Book        // nil: rules can only be read
	Accounts *account.Accounts // required

	// Live answers GET /live/DOMAIN, and what is below, for users who may view the domain. The
	// views of a domain and of a rule have what it returns, which may ask for itself again. LiveCSS
	// is the style sheet of that. Default: none.
	Live    http.Handler
	LiveCSS []byte

	// Measured reports whether Live has figures of a path of a domain that is no rule's in force.
	// Default: it has none.
	Measured func(domain, path string) bool

	// Glance is what the list of domains shows of one, beside its rules. Default: nothing.
	Glance func(domain string) Glance

	// Looks are what somebody should look at in all domains: sentences. Default: nothing.
	Looks func() []string

	// WhatIf tells what another limit would have denied of what was recorded of a rule, as
	// whatif.Record.Ask does. Default: nothing is recorded.
	WhatIf func(
		ctx context.Context, domain, path string, limit hybrid.Limit,
	) (whatif.Answer, error)

	// Store counts logins, as hybrid.Limiter does. While it does not answer, and by default, this
	// process counts its own.
	Store hybrid.Store

	// Proxies are believed what they say of a client: its address by X-Forwarded-For, and by
	// X-Forwarded-Proto whether it came over TLS.
	Proxies []netip.Prefix

	// AuthHeader is a header field with the name of a user who is logged in already, as one of
	// AuthProxies says. From elsewhere it is ignored. Default: none, users log in here.
	AuthHeader  string
	AuthProxies []netip.Prefix

	// OpenID has people logged in by an issuer, which is Accounts' Issuer. Default: nobody is.
	OpenID *openid.Client

	Log *slog.Logger // default: slog.Default()
}

// A Glance is what a domain does now.
type Glance struct {
	// Admitted and Denied are by second: NaN if it is not known.
	Admitted, Denied float64

	// Lines are both over the last minutes, as paths of SVG in a box of 1000 by 1000.
	Lines [2]string

	// Looks are what somebody should look at: sentences. Rules are those that need a look.
	Looks []string
	Rules []RuleLook
}

// A RuleLook is why some rules of a domain need a look: their paths, each with a note or "", and
// how many more there are.
type RuleLook = struct {
	Text         string
	Paths, Notes []string
	More         int
}

func (c Config) check() error {
	switch {
	case c.Limiter == nil:
		return errors.New("Config.Limiter is missing")
	case c.Accounts == nil:
		return errors.New("Config.Accounts is missing")
	case c.AuthHeader != "" && len(c.AuthProxies) == 0:
		return fmt.Errorf("Config.AuthHeader %q needs AuthProxies", c.AuthHeader)
	case c.AuthHeader == "" && len(c.AuthProxies) > 0:
		return errors.New("Config.AuthProxies need an AuthHeader")
	}
	if err := httplimit.Header(c.AuthHeader).Validate(); c.AuthHeader != "" && err != nil {
		return fmt.Errorf("Config.AuthHeader: %w", err)
	}
	for _, p := range c.AuthProxies {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("Config.AuthProxies: %v is no prefix, or of IPv4 written as IPv6", p)
		}
	}
	if err := (httplimit.Client{Trusted: c.Proxies}).Validate(); err != nil {
		return fmt.Errorf("Config.Proxies: %w", err)
	}
	return nil
}

// A Page is the page of a service. Close it after the server's Shutdown.
type Page struct {
	config Config
	client httplimit.Client
	logins *hybrid.Limiter
	spare  *hybrid.Limiter // counts logins while Config.Store is away
	log    *slog.Logger
	lies   quiet                // of headers that name users
	odd    [len(refusals)]quiet // logins by an issuer that have failed
	crowd  *crowd
	static map[string]file

	// places are for requests that have texts of rules in memory, each of which waits for one as
	// long as patience.
	places   chan struct{}
	patience time.Duration

	mu    sync.Mutex
	stats rules.Stats // as of
	asOf  time.Time
	heads map[string]head // by domain

	// changes are the newest revisions of domains, without their texts.
	changes map[string]rules.Revision
}

// mostTexts is how many requests have texts of rules in memory at a time: the history of a domain
// with texts of 3.6 MB takes 190 MB.
const mostTexts = 2

// New returns a Page.
func New(c Config) (*Page, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	spare, err := newLogins(hybrid.NewMemory(), c.Log)
	logins := spare
	if err == nil && c.Store != nil {
		logins, err = newLogins(c.Store, c.Log)
	}
	if err != nil {
		return nil, fmt.Errorf("page: logins: %w", err)
	}
	p := &Page{
		config: c, client: httplimit.Client{Trusted: c.Proxies},
		logins: logins, spare: spare, log: cmp.Or(c.Log, slog.Default()), static: maps.Clone(static),
		places: make(chan struct{}, mostTexts), patience: 2 * time.Second, heads: map[string]head{},
		changes: map[string]rules.Revision{},
	}
	p.crowd = newCrowd(func(e account.Event) error { return p.note(context.Background(), e) })
	if len(c.LiveCSS) > 0 {
		p.static[liveCSS] = newFile(c.LiveCSS, "text/css; charset=utf-8")
	}
	return p, nil
}

// Close writes what the audit log lacks, and hands leases of logins back, until ctx ends.
func (p *Page) Close(ctx context.Context) error {
	p.crowd.close()
	return errors.Join(p.logins.Close(ctx), p.spare.Close(ctx))
}

// Handler serves the page at /, and Config.Live below /live/.
func (p *Page) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes {
		mux.Handle(r.pattern, p.handle(r))
	}
	if p.config.OpenID != nil {
		for _, r := range openIDRoutes {
			mux.Handle(r.pattern, p.handle(r))
		}
	}
	mux.HandleFunc("GET /static/{file}", p.serveStatic)
	csrf := http.NewCrossOriginProtection()
	csrf.SetDenyHandler(p.handle(route{serve: (*visit).foreign}))
	protected := csrf.Handler(mux)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		protected.ServeHTTP(w, r)
	})
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// A scope says for what a route needs a right.
type scope int

const (
	anybody    scope = iota // not even a login
	person                  // any user
	domain                  // the domain of the path
	everything              // all domains
)

// A route is what answers the requests of a pattern, and which right it needs.
type route struct {
	pattern string
	scope   scope
	role    account.Role
	serve   func(*visit)

	// body is how many bytes a request may have, if not smallBody.
	body int64

	// own is for what changes what the database has of the user.
	own bool

	// texts is for what has texts of rules in memory.
	texts bool

	// refresh is for what pages ask for by themselves: it does not keep a session alive.
	refresh bool
}

const (
	smallBody = 64 << 10

	// textBody has room for a document, each byte of which may take three in a form.
	textBody = 3*rules.MaxText + smallBody
)

// routes are all, so that a test can hold each to its right.
var routes = []route{
	{pattern: "/", serve: (*visit).noPage},
	{pattern: "GET /login", serve: (*visit).loginForm},
	{pattern: "POST /login", serve: (*visit).login},
	{pattern: "POST /logout", scope: person, serve: (*visit).logout},

	{pattern: "GET /{$}", scope: person, serve: (*visit).domains},
	{pattern: "GET /domains", scope: person, serve: (*visit).domainList, refresh: true},
	{pattern: "GET /new", scope: person, serve: (*visit).newForm},
	{pattern: "POST /new", scope: person, texts: true, serve: (*visit).create},

	{pattern: "GET /domains/{domain}", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).view},
	{pattern: "GET /domains/{domain}/state", scope: domain, role: account.Viewer,
		serve: (*visit).state, refresh: true},
	{pattern: "GET /domains/{domain}/rule", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).rule},
	{pattern: "GET /domains/{domain}/explain", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).explain},
	{pattern: "GET /domains/{domain}/history", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).history},
	{pattern: "GET /domains/{domain}/versions/{version}", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).version},
	{pattern: "POST /domains/{domain}/versions/{version}", scope: domain, role: account.Editor,
		texts: true, serve: (*visit).rollBack},
	{pattern: "GET /domains/{domain}/bans", scope: domain, role: account.Viewer,
		texts: true, serve: (*visit).bans},
	{pattern: "POST /domains/{domain}/bans", scope: domain, role: account.Editor,
		texts: true, serve: (*visit).changeBan},
	{pattern: "GET /domains/{domain}/edit", scope: domain, role: account.Editor,
		texts: true, serve: (*visit).editForm},
	{pattern: "POST /domains/{domain}/edit", scope: domain, role: account.Editor,
		texts: true, serve: (*visit).save, body: textBody},
	{pattern: "POST /domains/{domain}/check", scope: domain, role: account.Editor,
		texts: true, serve: (*visit).checkText, body: textBody},
	{pattern: "GET /domains/{domain}/delete", scope: domain, role: account.Admin,
		texts: true, serve: (*visit).deleteForm},
	{pattern: "POST /domains/{domain}/delete", scope: domain, role: account.Admin,
		texts: true, serve: (*visit).deleteDomain},
	{pattern: "GET /domains/{domain}/audit", scope: domain, role: account.Admin,
		serve: (*visit).audit},
	{pattern: "GET /live/{domain}", scope: domain, role: account.Viewer, serve: (*visit).live,
		refresh: true},
	{pattern: "GET /live/{domain}/{rest...}", scope: domain, role: account.Viewer,
		serve: (*visit).live, refresh: true},

	{pattern: "GET /account", scope: person, serve: (*visit).account},
	{pattern: "POST /account/password", scope: person, own: true, serve: (*visit).ownPassword},
	{pattern: "POST /account/tokens", scope: person, own: true, serve: (*visit).makeToken},
	{pattern: "POST /account/tokens/revoke", scope: person, own: true, serve: (*visit).revokeToken},

	{pattern: "GET /users", scope: everything, role: account.Admin, serve: (*visit).users},
	{pattern: "POST /users", scope: everything, role: account.Admin, serve: (*visit).makeUser},
	{pattern: "GET /users/{user}", scope: everything, role: account.Admin, serve: (*visit).userPage},
	{pattern: "POST /users/{user}", scope: everything, role: account.Admin,
		serve: (*visit).changeUser},
	{pattern: "POST /people", scope: everything, role: account.Admin, serve: (*visit).expel},
	{pattern: "GET /audit", scope: everything, role: account.Admin, serve: (*visit).audit},
}

// handle holds requests to their rights before it serves them.
func (p *Page) handle(rt route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := &visit{page: p, w: w, r: r, Domain: r.PathValue("domain"), refresh: rt.refresh}
		r.Body = http.MaxBytesReader(w, r.Body, max(rt.body, smallBody))
		if rt.scope == anybody {
			rt.serve(v)
			return
		}
		if !v.identify(!rt.refresh) {
			return
		}
		if v.Proxied && r.Method == http.MethodPost && !tellsSite(r) {
			v.foreign()
			return
		}
		if rt.own && v.User.Issuer != "" {
			v.fail(http.StatusForbidden, "You have no account here",
				"An issuer has logged you in. Nothing was changed.")
			return
		}
		on := v.Domain
		if rt.scope == everything {
			on = account.All
		}
		switch {
		case rt.scope == domain && strings.HasPrefix(on, rules.BansPrefix): // where a book has bans
			v.noPage()
		case rt.scope == person, v.User.May(on, rt.role):
			v.serve(rt)
		case rt.scope == domain && !v.User.May(on, account.Viewer):
			v.noPage()
		default:
			v.forbid(rt.role)
		}
	})
}

// foreign refuses a form that another site has sent.
func (v *visit) foreign() {
	v.fail(http.StatusForbidden, "This form was sent by another site",
		"Nothing was changed. Open the page itself, and send the form from there.")
}

// tellsSite reports whether a request says from which site it comes: that was compared then. One
// that does not is from a program, or from a browser before 2020. It needs a cookie, which SameSite
// keeps from other sites; a proxy may know its user by something else.
func tellsSite(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// serve serves a request that has the right for it. A form is read before the place is taken, and
// the place is given back before the answer is sent: no slow client keeps one.
func (v *visit) serve(rt route) {
	if rt.texts && (v.r.Method == http.MethodPost && !v.form() || !v.hold()) {
		return
	}
	defer v.leave()
	rt.serve(v)
}

// hold takes a place, unless the visit has one. If none is free for a while it answers, and returns
// false.
func (v *visit) hold() bool {
	if v.holds {
		return true
	}
	wait := time.NewTimer(v.page.patience)
	defer wait.Stop()
	select {
	case v.page.places <- struct{}{}:
		v.holds = true
	case <-v.r.Context().Done():
	case <-wait.C:
		v.w.Header().Set("Retry-After", "2")
		v.fail(http.StatusServiceUnavailable, "Too many users read or edit rules at the moment",
			"Nothing was changed. Try again in a few seconds: reload this page.")
	}
	return v.holds
}

// leave gives the place back, if the visit has one.
func (v *visit) leave() {
	if v.holds {
		v.holds = false
		<-v.page.places
	}
}

// statsLife is for how long figures are kept: each look costs some for each domain.
const statsLife = 500 * time.Millisecond

// figures are those of the limiter, not older than statsLife.
func (p *Page) figures() rules.Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.asOf) >= statsLife {
		p.stats, p.asOf = p.config.Limiter.Stats(), time.Now()
	}
	return p.stats
}

// domainFigures are those of one domain.
func (p *Page) domainFigures(name string) (rules.DomainStats, bool) {
	for _, d := range p.figures().Domains {
		if d.Domain == name {
			return d, true
		}
	}
	return rules.DomainStats{}, false
}

// A quiet says that it is time for another line of a log, at most once in 10 s.
type quiet struct {
	mu   sync.Mutex
	last time.Time
}

func (q *quiet) due() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if time.Since(q.last) < 10*time.Second {
		return false
	}
	q.last = time.Now()
	return true
}

// local returns a path of this page, or / for what leads elsewhere.
func local(target string) string {
	if !strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") ||
		strings.ContainsAny(target, "\\\r\n\t") || strings.HasPrefix(target, "/login") {
		return "/"
	}
	return target
}
