package account

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// people whom an issuer has logged in have the rights of their groups, as these are configured when
// they are asked for, and nothing of a user of the database.
func people(t *testing.T, a *Accounts) {
	ctx := t.Context()
	olga := Person{Name: "olga", Subject: "s-1", Groups: []string{"ops", "shop-team", "leads", "cooks",
		"ops", "Ops"}}
	u, session, err := a.Enter(ctx, "192.0.2.7", olga, "login 1")
	must(t, err)
	want := User{Name: "olga (issuer.example)", Issuer: issuer.URL, Rights: map[string]Role{
		All: Viewer, "shop": Admin, "bank": Viewer,
	}}
	seen, err := a.Session(ctx, session, true)
	if must(t, err); !reflect.DeepEqual(u, want) || !reflect.DeepEqual(seen, want) {
		t.Errorf("%+v and %+v, not %+v", u, seen, want)
	}
	events, _, err := a.Events(ctx, Search{Most: 1})
	must(t, err)
	if e := events[0]; e.Who != u.Name || e.Address != "192.0.2.7" || e.What != "logged in" ||
		e.Detail != `by https://issuer.example/realm, subject "s-1", groups ["leads" "ops" "shop-team"]` {
		t.Errorf("%+v", e)
	}
	_, err = a.User(ctx, u.Name)
	fails(t, err, ErrNoUser)
	_, err = a.MakeToken(ctx, By{Who: u.Name}, u.Name, Token{Title: "mine"})
	fails(t, err, ErrNoUser)
	_, err = a.ChangePassword(ctx, By{Who: u.Name}, "", password)
	fails(t, err, ErrLogin)
	_, err = a.Login(ctx, By{Who: u.Name}, "")
	fails(t, err, ErrLogin)

	refused(t, a)
	once(t, a)
	expelled(t, a, session)
	_, session, err = a.Enter(ctx, "192.0.2.7", olga, "login 3")
	must(t, err)
	reconfigured(t, a, session)
	must(t, a.End(ctx, session))
	_, err = a.Session(ctx, session, true)
	fails(t, err, ErrNoSession)
}

// refused: whom no group gives rights, and names that cannot be shown.
func refused(t *testing.T, a *Accounts) {
	good := Person{Name: "olga", Subject: "s-1", Groups: []string{"ops"}}
	for i, change := range []func(*Person){
		func(p *Person) { p.Groups = nil }, func(p *Person) { p.Groups = []string{"OPS", "ops ", "", All} },
	} {
		p := good
		change(&p)
		u, _, err := a.Enter(t.Context(), "", p, fmt.Sprint("refused", i))
		if fails(t, err, ErrNoRights); u.Name != "olga (issuer.example)" {
			t.Errorf("%+v", u)
		}
	}
	for i, change := range []func(*Person){
		func(p *Person) { p.Name = "" }, func(p *Person) { p.Name = "ol\u202ega" },
		func(p *Person) { p.Name = "ol\x00ga" }, func(p *Person) { p.Name = "olga " },
		func(p *Person) { p.Name = strings.Repeat("x", MaxName-len(" (issuer.example)")+1) },
		func(p *Person) { p.Name = "\xff" }, func(p *Person) { p.Subject = "\u2066" },
		func(p *Person) { p.Subject = strings.Repeat("x", 256) },
	} {
		p := good
		change(&p)
		_, _, err := a.Enter(t.Context(), "", p, fmt.Sprint("invalid", i))
		fails(t, err, ErrInvalid)
	}
	good.Name = strings.Repeat("x", MaxName-len(" (issuer.example)"))
	u, _, err := a.Enter(t.Context(), "", good, "longest")
	if must(t, err); !strings.HasSuffix(u.Name, " (issuer.example)") {
		t.Errorf("%q", u.Name)
	}
}

// once: of a login that is used many times at once comes one session.
func once(t *testing.T, a *Accounts) {
	var all sync.WaitGroup
	var made atomic.Int64
	for range 8 {
		all.Go(func() {
			_, _, err := a.Enter(t.Context(), "", Person{Name: "olga", Groups: []string{"ops"}}, "login 2")
			if err == nil {
				made.Add(1)
				return
			}
			fails(t, err, ErrLogin)
		})
	}
	if all.Wait(); made.Load() != 1 {
		t.Errorf("%d sessions of one login", made.Load())
	}
}

// reconfigured: a session has the rights that its groups have now, and ends with the last of them, or
// with its issuer.
func reconfigured(t *testing.T, a *Accounts, session string) {
	ctx, was := t.Context(), a.config.Issuer
	defer func() { a.config.Issuer = was }()
	a.config.Issuer.Rights = map[string]map[string]Role{"leads": {"bank": Viewer}, "cooks": {All: Admin}}
	u, err := a.Session(ctx, session, true)
	if must(t, err); !reflect.DeepEqual(u.Rights, map[string]Role{"bank": Viewer}) {
		t.Errorf("%v", u.Rights)
	}
	for _, i := range []Issuer{
		{}, {URL: was.URL, Rights: map[string]map[string]Role{"cooks": {All: Admin}}},
		{URL: "https://other.example", Rights: was.Rights},
	} {
		a.config.Issuer = i
		_, err := a.Session(ctx, session, true)
		fails(t, err, ErrNoSession)
	}
}

// expelled: the sessions of a person end, and no others.
func expelled(t *testing.T, a *Accounts, session string) {
	ctx, name := t.Context(), "olga (issuer.example)"
	must(t, a.Make(ctx, test, name, password))
	namesake, err := a.Login(ctx, By{Who: name}, password)
	must(t, err)
	_, other, err := a.Enter(ctx, "", Person{Name: "oleg", Groups: []string{"ops"}}, "oleg's")
	must(t, err)
	list, err := a.Entered(ctx)
	must(t, err)
	var names []string
	for _, e := range list {
		names = append(names, fmt.Sprint(e.Name, " ", e.Sessions, " ", e.Rights[All]))
	}
	long := strings.Repeat("x", MaxName-len(" (issuer.example)"))
	if want := []string{"oleg (issuer.example) 1 viewer", name + " 2 viewer",
		long + " (issuer.example) 1 viewer"}; !reflect.DeepEqual(names, want) {
		t.Errorf("%q, not %q", names, want)
	}
	must(t, a.Expel(ctx, test, name))
	_, err = a.Session(ctx, session, true)
	fails(t, err, ErrNoSession)
	for _, s := range []string{namesake, other} {
		_, err = a.Session(ctx, s, true)
		must(t, err)
	}
	fails(t, a.Expel(ctx, test, name), ErrNoSession)
	fails(t, a.Expel(ctx, test, ""), ErrNoSession)
	events, _, err := a.Events(ctx, Search{Most: 1})
	if must(t, err); events[0].What != "sessions ended" || events[0].Detail != name {
		t.Errorf("%+v", events[0])
	}
}
