package account

import (
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/databasetest"
)

// BenchmarkHash is a login at the default cost.
func BenchmarkHash(b *testing.B) {
	h := newHasher(DefaultCost)
	for b.Loop() {
		if _, err := h.matches(b.Context(), "", password); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkToken is what each request of the API costs, on SQLite.
func BenchmarkToken(b *testing.B) {
	a, err := Open(b.Context(), databasetest.SQLite(b), sqlrules.SQLite, Config{Cost: cheap})
	if err != nil {
		b.Fatal(err)
	}
	if err := a.Make(b.Context(), test, "ann", ""); err != nil {
		b.Fatal(err)
	}
	token, err := a.MakeToken(b.Context(), test, "ann", Token{Title: "ci"})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, _, err := a.Token(b.Context(), token); err != nil {
			b.Fatal(err)
		}
	}
}
