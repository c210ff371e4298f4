package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
	"github.com/seed13b07268/ration/hybrid/service/internal/live"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
	"github.com/seed13b07268/ration/hybrid/service/internal/page"
	"github.com/seed13b07268/ration/hybrid/service/internal/register"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

// parts are what is served over HTTP beside health, and what runs beside. One that is
// nil is left out.
type parts struct {
	page, api http.Handler
	keeper    *reservations.Keeper
	watch     func(context.Context)       // until that ends
	close     func(context.Context) error // after the last request
}

// first makes the first user. The password is printed once: whoever starts the first service sees
// it.
func first(ctx context.Context, accounts *account.Accounts, out io.Writer) error {
	password, made, err := accounts.First(ctx)
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	if made {
		fmt.Fprintf(out, "The first user is admin, with the password %s\n", password)
	}
	return nil
}

// parts opens them.
func (s *service) parts(ctx context.Context, out io.Writer) (parts, error) {
	accounts, err := account.Open(ctx, s.db, s.dialect, account.Config{
		Proxied: s.config.authHeader != "", Issuer: s.config.openID.issuer(),
	})
	if err != nil {
		return parts{}, fmt.Errorf("accounts: %w", err)
	}
	people, err := s.config.openID.client(s.log)
	if err != nil {
		return parts{}, err
	}
	if err := first(ctx, accounts, out); err != nil {
		return parts{}, err
	}
	asked, err := register.Open(ctx, s.db, s.dialect)
	if err != nil {
		return parts{}, err
	}
	keeper, err := reservations.New(reservations.Real{Limiter: s.limiter}, s.holds, s.log)
	if err != nil {
		return parts{}, err
	}
	figures := live.New(s.limiter, s.ledgers, live.Config{
		Log: s.log, Counters: s.counts, Name: processName(), Register: asked,
	})
	view, err := s.page(accounts, figures, people)
	if err != nil {
		return parts{}, err
	}
	return parts{
		page: view.Handler(),
		api: api.New(s.limiter, s.book, callers(accounts), api.Config{
			Log: s.log, Changed: s.audited(accounts), Banned: s.bansAudited(accounts), Holds: keeper,
		}),
		keeper: keeper,
		watch: func(ctx context.Context) {
			var others sync.WaitGroup
			others.Go(func() { figures.Run(ctx) })
			if s.record != nil {
				others.Go(func() { s.record.Run(ctx) })
			}
			if people != nil {
				others.Go(func() { people.Discover(ctx) })
			}
			keeper.Run(ctx)
			others.Wait()
		},
		close: view.Close,
	}, nil
}

// page makes the page.
func (s *service) page(
	accounts *account.Accounts, figures *live.Live, people *openid.Client,
) (*page.Page, error) {
	c := page.Config{
		Limiter: s.limiter, Book: s.book, Accounts: accounts, Log: s.log,
		Live: figures.Handler(), LiveCSS: live.CSS,
		Looks: figures.Looks, Measured: figures.Measured,
		Glance: func(domain string) page.Glance { return page.Glance(figures.Glance(domain)) },
		Store:  s.store, Proxies: s.config.proxies,
		AuthHeader: s.config.authHeader, AuthProxies: s.config.authProxies,
		OpenID: people,
	}
	if s.record != nil {
		c.WhatIf = s.record.Ask
	}
	return page.New(c)
}

// resetAdmin gives the user admin a new password, and prints it.
func resetAdmin(ctx context.Context, c config, out io.Writer) (err error) {
	s := &service{config: c, log: logger(c, out)}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	accounts, err := account.Open(ctx, s.db, s.dialect, account.Config{})
	if err != nil {
		return fmt.Errorf("accounts: %w", err)
	}
	password, err := accounts.ResetAdmin(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "The password of admin is now %s\n", password)
	return err
}

// roles are what a right of the API takes, as on the page.
var roles = [...]account.Role{
	api.Use: account.Viewer, api.Edit: account.Editor, api.Own: account.Admin,
}

// callers finds who sends a request of the API, by its token. A viewer of a domain may use it.
func callers(accounts *account.Accounts) func(*http.Request) (api.Caller, error) {
	return func(r *http.Request) (api.Caller, error) {
		token, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !found {
			return api.Caller{}, api.ErrCaller
		}
		user, takesOnly, err := accounts.Token(r.Context(), token)
		if errors.Is(err, account.ErrNoToken) {
			return api.Caller{}, api.ErrCaller
		}
		return api.Caller{
			Name: user.Name, TakesOnly: takesOnly,
			May: func(domain string, right api.Right) bool { return user.May(domain, roles[right]) },
		}, err
	}
}

// audited writes changes that were made by the API into the audit log.
func (s *service) audited(accounts *account.Accounts) func(*http.Request, rules.Revision) {
	return func(r *http.Request, made rules.Revision) {
		e := account.Event{
			Who: made.Author, What: "rules changed by the API", Domain: made.Domain,
			Detail: fmt.Sprintf("version %d: %s", made.Version, made.Reason),
		}
		if made.Text == nil {
			e.What = "domain deleted by the API"
		}
		s.note(accounts, r, e)
	}
}

// bansAudited writes bans that were set or lifted by the API into the audit log.
func (s *service) bansAudited(accounts *account.Accounts) func(*http.Request, api.BanChange) {
	return func(r *http.Request, c api.BanChange) {
		e := page.BanEvent(c.Domain, c.Ban, c.Lifted)
		e.Who, e.What = c.Author, e.What+" by the API"
		s.note(accounts, r, e)
	}
}

// note writes a line of the audit log about what a request of the API has done.
func (s *service) note(accounts *account.Accounts, r *http.Request, e account.Event) {
	client := httplimit.Client{Trusted: s.config.proxies}
	if address := client.Addr(r); address.IsValid() {
		e.Address = address.String()
	}
	// The client may have gone meanwhile.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 5*time.Second)
	defer cancel()
	if err := accounts.Note(ctx, e); err != nil {
		s.log.Error("the audit log lacks a line", "error", err, "who", e.Who, "what", e.What,
			"domain", e.Domain, "detail", e.Detail)
	}
}
