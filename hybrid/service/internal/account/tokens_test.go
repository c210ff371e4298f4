package account

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

// tokens have the rights of their users, until they are revoked.
func tokens(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin))
	token, err := a.MakeToken(ctx, test, "ann", Token{Title: "ci"})
	must(t, err)
	if u, _, err := a.Token(ctx, token); err != nil || !u.May("shop", Admin) {
		t.Errorf("%+v, %v", u, err)
	}
	must(t, a.SetRight(ctx, test, "ann", "shop", Viewer), a.Make(ctx, test, "bob", password),
		a.SetRight(ctx, test, "bob", All, Admin), a.SetRight(ctx, test, "ann", All, None))
	if u, _, err := a.Token(ctx, token); err != nil || u.May("shop", Editor) || !u.May("shop", Viewer) {
		t.Errorf("%+v, %v", u, err)
	}
	_, err = a.MakeToken(ctx, test, "ann", Token{Title: "ci"})
	fails(t, err, ErrExists)
	_, err = a.MakeToken(ctx, test, "eve", Token{Title: "ci"})
	fails(t, err, ErrNoUser)
	for _, bad := range []string{"", "a\nb", "a\x00", "\xff", " a", strings.Repeat("a", 129)} {
		_, err = a.MakeToken(ctx, test, "ann", Token{Title: bad})
		fails(t, err, ErrInvalid)
	}
	for i := range MaxTokens - 1 {
		_, err := a.MakeToken(ctx, test, "ann", Token{Title: fmt.Sprint(i)})
		must(t, err)
	}
	_, err = a.MakeToken(ctx, test, "ann", Token{Title: "one more"})
	fails(t, err, ErrInvalid)
	if list, err := a.Tokens(ctx, "ann"); err != nil || len(list) != MaxTokens {
		t.Errorf("%d tokens, %v", len(list), err)
	}
	list, err := a.Tokens(ctx, "ann")
	must(t, err)
	ci := list[slices.IndexFunc(list, func(t Token) bool { return t.Title == "ci" })].ID
	for name, id := range map[string]string{"bob": ci, "ann": "ci"} {
		_, err = a.Revoke(ctx, test, name, id)
		fails(t, err, ErrNoToken)
	}
	title, err := a.Revoke(ctx, test, "ann", ci)
	must(t, err)
	if title != "ci" {
		t.Errorf("%q was revoked", title)
	}
	for _, wrong := range []string{token, "", "ration_", strings.Repeat("x", 1000)} {
		_, _, err = a.Token(ctx, wrong)
		fails(t, err, ErrNoToken)
	}
}

// takers are tokens for taking only, which stay so.
func takers(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin))
	for _, only := range []bool{false, true} {
		token, err := a.MakeToken(ctx, test, "ann", Token{Title: fmt.Sprint(only), TakesOnly: only})
		must(t, err)
		if u, is, err := a.Token(ctx, token); err != nil || is != only || u.Name != "ann" {
			t.Errorf("for taking only %v: %v %+v %v", only, is, u, err)
		}
	}
	list, err := a.Tokens(ctx, "ann")
	must(t, err)
	if len(list) != 2 || list[0].TakesOnly || !list[1].TakesOnly {
		t.Errorf("%+v", list)
	}
	events, _, err := a.Events(ctx, Search{Most: 1})
	must(t, err)
	if events[0].What != "token made for taking only" {
		t.Errorf("%+v", events)
	}
	if a.dialect != sqlrules.MySQL { // SQLite forgets a migration that was not finished
		return
	}
	_, err = a.db.ExecContext(ctx, "DELETE FROM ration_accounts_migrations WHERE version_id >= 2")
	must(t, err, migrate(ctx, a.db, a.dialect))
	if again, err := a.Tokens(ctx, "ann"); err != nil || !slices.Equal(again, list) {
		t.Errorf("after a migration that was killed: %+v %v", again, err)
	}
}

// TestTokenTimes: a token ends when it was said to, and its last use is known to a minute. A
// database that cannot write keeps nobody from using it.
func TestTokenTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := databasetest.SQLite(t)
		defer db.Close()
		a := open(t, db, sqlrules.SQLite)
		must(t, a.Make(ctx, test, "ann", password))
		begin := time.Now().UTC()
		_, err := a.MakeToken(ctx, test, "ann", Token{Title: "late", Ends: begin})
		fails(t, err, ErrInvalid)
		token, err := a.MakeToken(ctx, test, "ann", Token{Title: "ci", Ends: begin.Add(time.Hour)})
		must(t, err)
		look := func(used time.Time, ended bool) {
			t.Helper()
			list, err := a.Tokens(ctx, "ann")
			must(t, err)
			if len(list) != 1 || !list[0].Used.Equal(used) || list[0].Ended() != ended ||
				!list[0].Ends.Equal(begin.Add(time.Hour)) {
				t.Errorf("%+v, not used %v", list, used)
			}
		}
		use := func() {
			t.Helper()
			_, _, err := a.Token(ctx, token)
			must(t, err)
		}
		look(time.Time{}, false)
		use()
		look(begin, false)
		time.Sleep(59 * time.Second)
		use()
		look(begin, false)
		time.Sleep(time.Second)
		use()
		look(begin.Add(time.Minute), false)
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(ctx, "PRAGMA query_only = 1")
		must(t, err)
		time.Sleep(time.Minute)
		use()
		look(begin.Add(time.Minute), false)
		time.Sleep(58 * time.Minute)
		_, _, err = a.Token(ctx, token)
		fails(t, err, ErrNoToken)
		look(begin.Add(time.Minute), true)
	})
}
