package page

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/service/internal/account"
)

// The limits of tries of a password. That of a name is higher, as anybody can use it up. That of a
// session's user is for a change of the own password. That of logins by an issuer is of an address,
// and bounds what these cost: nothing can be guessed there, and an office has one address.
var (
	byAddress = hybrid.Per(10, time.Minute).WithBurst(10)
	byName    = hybrid.Per(30, time.Minute).WithBurst(30)
	bySession = hybrid.Per(10, time.Minute).WithBurst(10)
	byIssuer  = hybrid.Per(60, time.Minute).WithBurst(60)
)

func newLogins(store hybrid.Store, log *slog.Logger) (*hybrid.Limiter, error) {
	return hybrid.New(store, hybrid.Config{
		Namespace: "ration-service-logins", MaxKeys: 100_000, SlogLogger: log,
		LimitFor: func(key string) hybrid.Limit {
			switch kind, _, _ := strings.Cut(key, ":"); kind {
			case "address":
				return byAddress
			case "name":
				return byName
			case "issuer":
				return byIssuer
			}
			return bySession
		},
	})
}

// mayLogIn is mayTry for a name, from the client's address.
func (v *visit) mayLogIn(name string) bool {
	address, _ := v.page.client.Key(v.r)
	return v.mayTry("login refused", name, hybrid.Ask{Key: "address:" + address, N: 1},
		hybrid.Ask{Key: "name:" + digest(name), N: 1})
}

// mayChange is mayTry for a user with a session, whatever others try for the name.
func (v *visit) mayChange() bool {
	return v.mayTry("password change refused", v.User.Name,
		hybrid.Ask{Key: "session:" + digest(v.User.Name), N: 1})
}

// digest has a bounded length, and hides what may be a password by mistake.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// mayTry takes a try of a password for a name. If there is none left it notes what is refused,
// answers, and returns false. The answer is the same whichever limit denies.
func (v *visit) mayTry(refused, name string, asks ...hybrid.Ask) bool {
	d, err := v.page.take(v.r.Context(), asks...)
	if errors.Is(err, hybrid.ErrUnavailable) {
		err = fmt.Errorf("%w: %w", account.ErrBusy, err) // this process counts as many as it can
	}
	if err != nil {
		v.broken(err)
		return false
	}
	if d.Allowed {
		return true
	}
	v.noteStranger(refused, name, "too many tries")
	wait := int(math.Ceil(d.Each[d.Denied].RetryAfter.Seconds()))
	v.w.Header().Set("Retry-After", fmt.Sprint(wait))
	v.fail(http.StatusTooManyRequests, "Too many tries",
		fmt.Sprintf("Nothing was checked. Try again in %d s.", wait))
	return false
}

// take takes tries from the store. Where it does not answer, this process counts its own.
func (p *Page) take(ctx context.Context, asks ...hybrid.Ask) (hybrid.Decisions, error) {
	d, err := p.logins.TakeAll(ctx, asks...)
	away := errors.Is(err, hybrid.ErrUnavailable) ||
		slices.ContainsFunc(d.Each, func(d hybrid.Decision) bool {
			return d.Source == hybrid.OutagePolicy
		})
	if away {
		return p.spare.TakeAll(ctx, asks...)
	}
	return d, err
}

type loginData struct{ Next, Name, Problem string }

func (v *visit) loginForm() {
	if _, said := v.proxyUser(); said {
		v.seeOther(local(v.r.URL.Query().Get("next")))
		return
	}
	v.show(http.StatusOK, "login", "Log in", loginData{Next: local(v.r.URL.Query().Get("next"))})
}

func (v *visit) login() {
	if !v.form() {
		return
	}
	name, next := v.value("name"), local(v.value("next"))
	if !v.mayLogIn(name) {
		return
	}
	accounts, ctx := v.page.config.Accounts, v.r.Context()
	by := account.By{Who: name, Address: v.address()}
	session, err := accounts.Login(ctx, by, v.r.PostForm.Get("password"))
	switch {
	case errors.Is(err, account.ErrLogin):
		v.noteStranger("login failed", name, "wrong password")
		v.show(http.StatusUnauthorized, "login", "Log in", loginData{
			next, name, "The name or the password is wrong.",
		})
		return
	case err == nil:
		err = accounts.End(ctx, v.cookie())
	}
	if err != nil {
		v.broken(err)
		return
	}
	v.setCookie(session)
	v.seeOther(next)
}

// noteStranger notes what was refused to somebody who gave a name, or none. A name that no user has
// may be a password by mistake.
func (v *visit) noteStranger(what, name, detail string) {
	if !v.page.crowd.line(what) {
		return
	}
	e := account.Event{What: what, Detail: detail}
	if name == "" {
		v.note(e)
		return
	}
	e.Detail = "no such user"
	if u, err := v.page.config.Accounts.User(v.r.Context(), name); err == nil {
		e.Who, e.Detail = u.Name, detail
	}
	v.note(e)
}

func (v *visit) logout() {
	if err := v.page.config.Accounts.End(v.r.Context(), v.session); err != nil {
		v.broken(err)
		return
	}
	v.setCookie("")
	v.note(account.Event{Who: v.User.Name, What: "logged out"})
	v.seeOther("/login")
}
