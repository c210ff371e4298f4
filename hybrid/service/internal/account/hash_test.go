package account

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

// TestHash: the default cost is what RFC 9106 recommends, and a hash is what it says.
func TestHash(t *testing.T) {
	h := newHasher(DefaultCost)
	hash, err := h.hash(t.Context(), password)
	if err != nil || !strings.HasPrefix(hash, "$argon2id$v=19$m=65536,t=3,p=4$") {
		t.Fatalf("%q, %v", hash, err)
	}
	for candidate, want := range map[string]bool{password: true, password + " ": false, "": false} {
		if ok, err := h.matches(t.Context(), hash, candidate); ok != want || err != nil {
			t.Errorf("%q: %v, %v", candidate, ok, err)
		}
	}
	// Made by the reference implementation: echo -n password | argon2 somesalt -id -t 2 -m 16 -p 1
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$" +
		"CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	reader := newHasher(cheap)
	if ok, err := reader.matches(t.Context(), reference, "password"); !ok || err != nil {
		t.Errorf("the reference's hash: %v, %v", ok, err)
	}
	for _, bad := range []string{"x", "$argon2id$v=19$m=4294967295,t=2,p=1$c29tZXNhbHQ$CTFh",
		"$argon2id$v=18$m=8,t=1,p=1$c29tZXNhbHQ$CTFh", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ",
		"$argon2id$v=19$m=8,t=1,p=0$c29tZXNhbHQ$CTFh", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$CTFh",
		"$argon2id$v=19$m=8,t=1,p=1$!$CTFh", "$argon2id$v=19$m=8,t=1,p=1$c29tZXNhbHQ$!"} {
		if ok, err := reader.matches(t.Context(), bad, "password"); ok || err == nil {
			t.Errorf("%q: %v, %v", bad, ok, err)
		}
	}
}

// TestHashesAtOnce: further ones wait, and get ErrBusy in the end.
func TestHashesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHasher(cheap)
		for range hashesAtOnce {
			h.turns <- struct{}{}
		}
		start := time.Now()
		_, err := h.matches(t.Context(), "", password)
		fails(t, err, ErrBusy)
		if waited := time.Since(start); waited != hashPatience {
			t.Errorf("it waited for %v", waited)
		}
		go func() { time.Sleep(time.Second); <-h.turns }()
		if ok, err := h.matches(t.Context(), "", password); ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	})
}

// TestUnknownUser waits for the hash of a password, as a known one does.
func TestUnknownUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := databasetest.SQLite(t)
		defer db.Close()
		a := open(t, db, sqlrules.SQLite)
		must(t, a.Make(t.Context(), test, "ann", password))
		for range hashesAtOnce {
			a.hasher.turns <- struct{}{}
		}
		for _, name := range []string{"ann", "eve", ""} {
			start := time.Now()
			_, err := a.Login(t.Context(), By{Who: name}, "wrong")
			fails(t, err, ErrBusy)
			if waited := time.Since(start); waited != hashPatience {
				t.Errorf("%q waited for %v", name, waited)
			}
		}
	})
}

// TestUnknownUserCosts the same hash as a known one, and nothing after it: no database is there.
func TestUnknownUserCosts(t *testing.T) {
	type made struct {
		passes, kib, n uint32
		lanes          uint8
		password, salt int
	}
	costs := map[string][]made{}
	for _, name := range []string{"ann", "eve", "proxied", "", strings.Repeat("a", 200)} {
		db := databasetest.SQLite(t)
		a := open(t, db, sqlrules.SQLite)
		must(t, a.Make(t.Context(), test, "ann", password), a.Make(t.Context(), test, "proxied", ""))
		key := a.hasher.key
		a.hasher.key = func(pass, salt []byte, passes, kib uint32, lanes uint8, n uint32) []byte {
			costs[name] = append(costs[name], made{passes, kib, n, lanes, len(pass), len(salt)})
			must(t, db.Close())
			return key(pass, salt, passes, kib, lanes, n)
		}
		_, err := a.Login(t.Context(), By{Who: name}, "wrong")
		fails(t, err, ErrLogin)
		if len(name) > MaxName {
			continue // no user may have it, and its password is not looked at
		}
		if !slices.Equal(costs[name], costs["ann"]) || len(costs[name]) != 1 {
			t.Errorf("%q costs %+v, and a known user %+v", name, costs[name], costs["ann"])
		}
	}
}
