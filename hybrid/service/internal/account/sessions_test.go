package account

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

// sessions are known by what the database does not have.
func sessions(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin),
		a.Make(ctx, test, "ed", password))
	session, err := a.Login(ctx, By{Who: "ed"}, password)
	must(t, err)
	if u, err := a.Session(ctx, session, true); err != nil || u.Name != "ed" {
		t.Errorf("%+v, %v", u, err)
	}
	var id []byte
	must(t, a.db.QueryRowContext(ctx, "SELECT id FROM ration_accounts_sessions").Scan(&id))
	if len(session) != 43 || len(id) != 32 {
		t.Errorf("a session of %d characters is stored as %d bytes", len(session), len(id))
	}
	for _, forged := range []string{
		"", string(id), session[:42], session + "A", strings.Repeat("A", 43),
	} {
		_, err := a.Session(ctx, forged, true)
		fails(t, err, ErrNoSession)
	}
	other, err := a.Login(ctx, By{Who: "ed"}, password)
	must(t, err, a.End(ctx, session), a.End(ctx, session))
	_, err = a.Session(ctx, session, true)
	fails(t, err, ErrNoSession)
	_, err = a.Session(ctx, other, true)
	must(t, err, a.Delete(ctx, test, "ed"), a.Make(ctx, test, "ed", password))
	_, err = a.Session(ctx, other, true)
	fails(t, err, ErrNoSession)
}

// TestSessionEnds when it was idle for Config.Idle, and after Config.Life in any case. A page that
// refreshes itself is no use of it.
func TestSessionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := databasetest.SQLite(t)
		defer db.Close()
		a, err := Open(ctx, db, sqlrules.SQLite, Config{
			Cost: cheap, Idle: time.Hour, Life: 5 * time.Hour, Issuer: issuer,
		})
		must(t, err, a.Make(ctx, test, "ann", password))
		start := func() string {
			session, err := a.Login(ctx, By{Who: "ann"}, password)
			must(t, err)
			return session
		}
		used, _ := start(), start()
		_, entered, err := a.Enter(ctx, "192.0.2.1", Person{
			Name: "olga", Subject: "s-1", Groups: []string{"ops"},
		}, "x")
		must(t, err)
		for range 5 {
			time.Sleep(59 * time.Minute)
			for _, session := range []string{used, entered} {
				_, err := a.Session(ctx, session, true)
				must(t, err)
			}
		}
		time.Sleep(5 * time.Minute)
		for _, session := range []string{used, entered} {
			_, err = a.Session(ctx, session, true)
			fails(t, err, ErrNoSession)
		}

		refreshed := start()
		var n int
		must(t, db.QueryRow("SELECT COUNT(*) FROM ration_accounts_sessions").Scan(&n))
		if n != 1 {
			t.Errorf("%d sessions, though all but one have ended", n)
		}
		for range 59 {
			time.Sleep(time.Minute)
			_, err := a.Session(ctx, refreshed, false)
			must(t, err)
		}
		time.Sleep(time.Minute)
		_, err = a.Session(ctx, refreshed, false)
		fails(t, err, ErrNoSession)
	})
}
