package account

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

const password = "correct horse"

var (
	cheap = Cost{KiB: 8, Passes: 1, Lanes: 1}
	test  = By{Who: "test", Address: "192.0.2.1"}
)

func open(t *testing.T, db *sql.DB, d sqlrules.Dialect) *Accounts {
	t.Helper()
	a, err := Open(t.Context(), db, d, Config{Cost: cheap, Issuer: issuer})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// issuer logs people in for tests.
var issuer = Issuer{
	URL: "https://issuer.example/realm", Host: "issuer.example",
	Rights: map[string]map[string]Role{
		"shop-team": {"shop": Editor, "bank": Viewer}, "leads": {"shop": Admin}, "ops": {All: Viewer},
	},
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// fails checks that an error wraps another one.
func fails(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%v, not %v", err, want)
	}
}

// TestAccounts holds each kind of database to the promises.
func TestAccounts(t *testing.T) {
	for name, connect := range map[string]func(*testing.T) (*sql.DB, sqlrules.Dialect){
		"sqlite": func(t *testing.T) (*sql.DB, sqlrules.Dialect) {
			return databasetest.SQLite(t), sqlrules.SQLite
		},
		"mysql": databasetest.MariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			db, d := connect(t)
			for _, promise := range []func(*testing.T, *Accounts){
				first, rights, passwords, oldPassword, sessions, tokens, takers, hostile, lastAdmin, lockedOut,
				audit, searches, people,
			} {
				empty(t, db)
				promise(t, open(t, db, d))
			}
		})
	}
}

// empty drops all tables.
func empty(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, table := range []string{"users", "rights", "sessions", "tokens", "state", "audit", "logins",
		"migrations"} {
		_, err := db.ExecContext(t.Context(), "DROP TABLE IF EXISTS ration_accounts_"+table)
		must(t, err)
	}
}

// first: of services that start at once one makes the first user.
func first(t *testing.T, a *Accounts) {
	var wg sync.WaitGroup
	made := make(chan string, 8)
	for range cap(made) {
		wg.Go(func() {
			password, ok, err := a.First(t.Context())
			if err != nil {
				t.Error(err)
			}
			if ok {
				made <- password
			}
		})
	}
	wg.Wait()
	if len(made) != 1 {
		t.Fatalf("%d first users", len(made))
	}
	if u := loggedIn(t, a, "admin", <-made); !u.May("any", Admin) || !u.May(All, Admin) {
		t.Errorf("%+v", u)
	}
	must(t, a.Make(t.Context(), test, "ann", password),
		a.SetRight(t.Context(), test, "ann", All, Admin),
		a.Delete(t.Context(), test, "admin"))
	if _, made, err := a.First(t.Context()); made || err != nil {
		t.Errorf("another first user: %v", err)
	}
}

// rights are by domain, or of all.
func rights(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.Make(ctx, test, "Ann", ""),
		a.SetRight(ctx, test, "ann", All, Admin),
		a.SetRight(ctx, test, "Ann", "shop", Viewer), a.SetRight(ctx, test, "Ann", "shop", Editor),
		a.SetRight(ctx, test, "Ann", "bank", Viewer), a.SetRight(ctx, test, "Ann", "bank", None))
	u, err := a.User(ctx, "Ann")
	must(t, err)
	for _, c := range []struct {
		domain string
		role   Role
		may    bool
	}{
		{"shop", Viewer, true}, {"shop", Editor, true}, {"shop", Admin, false}, {"Shop", Viewer, false},
		{"bank", Viewer, false}, {All, Viewer, false}, {"shop", None, false}, {"", Viewer, false},
	} {
		if u.May(c.domain, c.role) != c.may {
			t.Errorf("%v as %v of %q: not %v", u, c.role, c.domain, c.may)
		}
	}
	users, err := a.Users(ctx)
	want := "[{Ann map[shop:editor] false  } {ann map[*:admin] true  }]"
	if fmt.Sprint(users) != want || err != nil {
		t.Errorf("%v, %v", users, err)
	}
	fails(t, a.SetRight(ctx, test, "eve", "shop", Viewer), ErrNoUser)
	fails(t, a.SetRight(ctx, test, "ann", "", Viewer), ErrInvalid)
	fails(t, a.SetRight(ctx, test, "ann", "shop", Admin+1), ErrInvalid)
	fails(t, a.SetRight(ctx, test, "ann", strings.Repeat("a", 257), Viewer), ErrInvalid)
	fails(t, a.Make(ctx, test, "ann", password), ErrExists)
	fails(t, a.Delete(ctx, test, "eve"), ErrNoUser)
}

// passwords: only the right one logs in, and the database has none.
func passwords(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.Make(ctx, test, "proxied", ""))
	if u := loggedIn(t, a, "ann", password); u.Name != "ann" {
		t.Errorf("%+v", u)
	}
	for name, wrong := range map[string]string{
		"ann": password + "!", "eve": password, "": "", "proxied": "", "Ann": password, "ann ": password,
		strings.Repeat("a", 10_000): password,
	} {
		_, err := a.Login(ctx, By{Who: name}, wrong)
		fails(t, err, ErrLogin)
	}
	hash, err := a.password(ctx, "ann")
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=8,t=1,p=1$") ||
		strings.Contains(hash, password) {
		t.Errorf("%q, %v", hash, err)
	}
	ann := By{Who: "ann"}
	session, err := a.Login(ctx, ann, password)
	must(t, err, a.SetPassword(ctx, test, "ann", "another horse"))
	_, err = a.Session(ctx, session, true)
	fails(t, err, ErrNoSession)
	_, err = a.Login(ctx, ann, password)
	fails(t, err, ErrLogin)
	session, err = a.Login(ctx, ann, "another horse")
	must(t, err)
	_, err = a.ChangePassword(ctx, ann, password, "third horse!")
	fails(t, err, ErrLogin)
	_, err = a.ChangePassword(ctx, ann, "another horse", "short")
	fails(t, err, ErrInvalid)
	own, err := a.ChangePassword(ctx, ann, "another horse", "third horse!")
	must(t, err)
	_, err = a.Session(ctx, session, true)
	fails(t, err, ErrNoSession)
	_, err = a.Session(ctx, own, true)
	must(t, err)
	fails(t, a.SetPassword(ctx, test, "ann", ""), ErrInvalid)
	_, err = a.Session(ctx, own, true)
	must(t, err, a.Make(ctx, test, "ben", password), a.SetRight(ctx, test, "ben", All, Admin),
		a.RemovePassword(ctx, test, "ann"))
	_, err = a.Session(ctx, own, true)
	fails(t, err, ErrNoSession)
	_, err = a.Login(ctx, ann, "")
	fails(t, err, ErrLogin)
	fails(t, a.RemovePassword(ctx, test, "eve"), ErrNoUser)
	fails(t, a.SetPassword(ctx, test, "eve", password), ErrNoUser)
	fails(t, a.SetPassword(ctx, test, "ann", "short"), ErrInvalid)
	fails(t, a.SetPassword(ctx, test, "ann", strings.Repeat("a", 1025)), ErrInvalid)
}

// oldPassword: while its hash is made the password is changed by somebody else. Neither a session
// nor another password comes of the old one.
func oldPassword(t *testing.T, a *Accounts) {
	ctx, ann := t.Context(), By{Who: "ann"}
	key := a.hasher.key
	defer func() { a.hasher.key = key }()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin))
	for try, use := range map[string]func() (string, error){
		"login": func() (string, error) { return a.Login(ctx, ann, password) },
		"change": func() (string, error) {
			return a.ChangePassword(ctx, ann, password, "mine instead")
		},
	} {
		must(t, a.SetPassword(ctx, test, "ann", password))
		a.hasher.key = func(password, salt []byte, passes, kib uint32, lanes uint8, n uint32) []byte {
			a.hasher.key = key
			must(t, a.SetPassword(ctx, test, "ann", "another horse"))
			return key(password, salt, passes, kib, lanes, n)
		}
		session, err := use()
		if !errors.Is(err, ErrLogin) || session != "" {
			t.Errorf("%s: %q, %v", try, session, err)
		}
		loggedIn(t, a, "ann", "another horse")
	}
}

// loggedIn is the user of a session that begins with a password.
func loggedIn(t *testing.T, a *Accounts, name, password string) User {
	t.Helper()
	session, err := a.Login(t.Context(), By{Who: name}, password)
	must(t, err)
	u, err := a.Session(t.Context(), session, true)
	must(t, err)
	return u
}

// hostile names are refused, or kept as they are.
func hostile(t *testing.T, a *Accounts) {
	ctx := t.Context()
	for _, bad := range []string{"", ".", "..", " ann", "ann\n", "a\x00b", "\xff",
		"ann\u200d", "a\u202enn", strings.Repeat("a", 129)} {
		fails(t, a.Make(ctx, test, bad, password), ErrInvalid)
	}
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin))
	for _, odd := range []string{"'; DROP TABLE ration_accounts_users; --", "é", "e\u0301", "*",
		"a/b"} {
		must(t, a.Make(ctx, test, odd, password), a.SetRight(ctx, test, odd, odd+odd, Viewer))
		if u := loggedIn(t, a, odd, password); u.Name != odd || !u.May(odd+odd, Viewer) {
			t.Errorf("%q: %+v", odd, u)
		}
	}
}

// lastAdmin: two admins who take each other's right at once do not both succeed.
func lastAdmin(t *testing.T, a *Accounts) {
	ctx := t.Context()
	for round := range 5 {
		names := []string{fmt.Sprint("a", round), fmt.Sprint("b", round)}
		for _, name := range names {
			must(t, a.Make(ctx, test, name, password), a.SetRight(ctx, test, name, All, Admin))
		}
		if round > 0 {
			for _, name := range []string{fmt.Sprint("a", round-1), fmt.Sprint("b", round-1)} {
				if err := a.Delete(ctx, test, name); err != nil && !errors.Is(err, ErrNoUser) {
					t.Fatal(err)
				}
			}
		}
		var wg sync.WaitGroup
		errs := make([]error, 2)
		wg.Go(func() { errs[0] = a.SetRight(ctx, test, names[0], All, Editor) })
		wg.Go(func() { errs[1] = a.Delete(ctx, test, names[1]) })
		wg.Wait()
		if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), ErrLastAdmin) {
			t.Errorf("%v", errs)
		}
	}
}

// lockedOut: the last admin who has a password keeps it and the right, whoever else has the right,
// unless a proxy logs users in.
func lockedOut(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin),
		a.Make(ctx, test, "proxied", ""), a.SetRight(ctx, test, "proxied", All, Admin))
	fails(t, a.RemovePassword(ctx, test, "ann"), ErrLastAdmin)
	fails(t, a.SetRight(ctx, test, "ann", All, Editor), ErrLastAdmin)
	fails(t, a.Delete(ctx, test, "ann"), ErrLastAdmin)
	if u := loggedIn(t, a, "ann", password); !u.Password || !u.May(All, Admin) {
		t.Errorf("%+v", u)
	}
	users, err := a.Users(ctx)
	must(t, err)
	if len(users) != 2 || !users[0].Password || users[1].Password {
		t.Errorf("%+v", users)
	}
	a.config.Proxied = true
	must(t, a.RemovePassword(ctx, test, "ann"), a.Delete(ctx, test, "ann"))
	fails(t, a.Delete(ctx, test, "proxied"), ErrLastAdmin)
}

// audit: changes and their lines are there together, and reading is bounded.
func audit(t *testing.T, a *Accounts) {
	ctx := t.Context()
	must(t, a.Make(ctx, test, "ann", password), a.SetRight(ctx, test, "ann", All, Admin))
	fails(t, a.Delete(ctx, test, "ann"), ErrLastAdmin) // and leaves no line
	for i := range MaxEvents {
		must(t, a.Note(ctx, Event{Who: "ann", What: "x", Domain: "shop", Detail: fmt.Sprint(i)}))
	}
	must(t, a.Note(ctx, Event{
		Who: strings.Repeat("é", 100), Address: strings.Repeat("a", 100), What: strings.Repeat("w", 100),
		Domain: strings.Repeat("d", 300), Detail: "\xff" + strings.Repeat("é", 3000),
	}))
	newest, more, err := a.Events(ctx, Search{Most: 1 << 30})
	if err != nil || len(newest) != MaxEvents || len(newest[0].Who) != 128 ||
		len(newest[0].Detail) > 4096 {
		t.Fatalf("%d events, %v", len(newest), err)
	}
	older, end, err := a.Events(ctx, Search{Before: more, Most: 10})
	if err != nil || end != 0 || len(older) != 3 || older[2].What != "user made" || older[2].Detail != "ann" ||
		older[2].Who != "test" || older[2].Address != "192.0.2.1" || older[1].Detail != "ann is admin" {
		t.Errorf("%+v, %v", older, err)
	}
	of, _, err := a.Events(ctx, Search{Domain: "shop", Most: 5})
	if err != nil || len(of) != 5 || of[0].Detail != "199" || time.Since(of[0].Time) > time.Hour {
		t.Errorf("%+v, %v", of, err)
	}
	if a.dialect == sqlrules.SQLite {
		for _, forge := range []string{"DELETE FROM", "UPDATE"} {
			_, err := a.db.ExecContext(ctx, strings.TrimSpace(forge+" ration_accounts_audit"+
				map[bool]string{true: " SET who = ''"}[forge == "UPDATE"]))
			if err == nil || !strings.Contains(err.Error(), "only grows") {
				t.Errorf("%s: %v", forge, err)
			}
		}
	}
}

// searches of the audit log find words of any field, and end.
func searches(t *testing.T, a *Accounts) {
	ctx := t.Context()
	_, err := a.db.ExecContext(ctx, "INSERT INTO ration_accounts_audit"+
		" (at, who, address, what, domain, detail) VALUES (0, 'Åke', 'a', 'OLD thing', 'b', '')")
	must(t, err)
	for range 3 {
		must(t, a.Note(ctx, Event{Who: "ann", What: "rules changed", Domain: "shop", Detail: "Ünder 5"}))
	}
	for words, want := range map[string]int{
		"": 4, "ann": 3, "shop ANN": 3, "ünder": 3, "1970-01-01 old": 1, "ann thing": 0, "åke": 1, "%": 0,
	} {
		list, more, err := a.Events(ctx, Search{Words: words, Most: 9})
		if err != nil || len(list) != want || more != 0 {
			t.Errorf("%q: %+v %d %v", words, list, more, err)
		}
	}
	list, more, err := a.Events(ctx, Search{Words: "ann", Most: 2})
	must(t, err)
	rest, end, err := a.Events(ctx, Search{Words: "ann", Most: 2, Before: more})
	if err != nil || len(list) != 2 || more != list[1].ID || len(rest) != 1 || end != 0 {
		t.Errorf("%+v %d, then %+v %d %v", list, more, rest, end, err)
	}
	if a.dialect == sqlrules.SQLite { // to be quick
		_, err := a.db.ExecContext(ctx, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"+
			" WHERE i < ?) INSERT INTO ration_accounts_audit (at, who, address, what, domain, detail)"+
			" SELECT 1, 'x', '', '', '', '' FROM n", mostSearched)
		must(t, err)
		list, more, err := a.Events(ctx, Search{Words: "ann", Most: 2})
		if err != nil || len(list) != 0 || more != 5 {
			t.Errorf("of more than are searched: %+v %d %v", list, more, err)
		}
		if list, _, err = a.Events(ctx, Search{Words: "ann", Most: 2, Before: more}); len(list) != 2 {
			t.Errorf("then %+v %v", list, err)
		}
	}
}

// TestOpen: what makes no sense is refused, and services that start at once migrate once.
func TestOpen(t *testing.T) {
	db := databasetest.SQLite(t)
	for want, c := range map[string]Config{
		"Config.Idle 1s": {Idle: time.Second}, "Config.Life": {Life: -1}, "Cost": {Cost: Cost{KiB: 1}},
		"needs a host": {Issuer: Issuer{URL: issuer.URL, Rights: issuer.Rights}},
		"no group":     {Issuer: Issuer{URL: issuer.URL, Host: issuer.Host}},
		"role none": {Issuer: Issuer{URL: issuer.URL, Host: issuer.Host,
			Rights: map[string]map[string]Role{"ops": {All: None}}}},
		`role viewer for the domain "" of 0 bytes`: {Issuer: Issuer{URL: issuer.URL, Host: issuer.Host,
			Rights: map[string]map[string]Role{"ops": {"": Viewer}}}},
	} {
		if _, err := Open(t.Context(), db, sqlrules.SQLite, c); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := Open(t.Context(), nil, sqlrules.SQLite, Config{}); err == nil {
		t.Error("no database")
	}
	_, err := Open(t.Context(), db, 7, Config{})
	if err == nil || !strings.Contains(err.Error(), "Dialect(7)") {
		t.Error(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := Open(t.Context(), db, sqlrules.SQLite, Config{Cost: cheap}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestRole(t *testing.T) {
	for r := Viewer; r <= Admin; r++ {
		if got, err := ParseRole(r.String()); got != r || err != nil {
			t.Errorf("%v is read as %v, %v", r, got, err)
		}
	}
	for _, text := range []string{"", "none", "Admin", "Role(4)"} {
		_, err := ParseRole(text)
		fails(t, err, ErrInvalid)
	}
}
