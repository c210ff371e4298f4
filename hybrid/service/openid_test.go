package main

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/seed13b07268/ration/hybrid/service/internal/openidtest"
	"github.com/seed13b07268/ration/hybrid/service/internal/servicetest"
)

// openIDArgs have an issuer log people in.
func openIDArgs(t *testing.T, i *openidtest.Issuer) []string {
	return []string{"-data", t.TempDir(), "-public-url", "http://localhost:1", "-oidc-issuer", i.URL,
		"-oidc-client-id", openidtest.ClientID, "-oidc-client-secret", openidtest.Secret,
		"-oidc-rights", "{shop-team: {example: editor}, platform: {'*': admin}}"}
}

// TestOpenID: the program has an issuer log people in, whose groups have the rights that it was told.
func TestOpenID(t *testing.T) {
	i := openidtest.New(t)
	w := startWhole(t, openIDArgs(t, i)...)
	w.soon("the log says where the issuer sends people back to", func() bool {
		return strings.Contains(w.told(), `"redirect_uri":"http://localhost:1/login/oidc/callback"`)
	})
	w.login("admin", w.password())
	admin := w.visitor
	var err error
	if w.visitor, err = servicetest.New(w.http); err != nil {
		t.Fatal(err)
	}
	w.page(http.StatusOK, "login", `href="/login/oidc?next=%2f"`)
	to := w.page(http.StatusSeeOther, "login/oidc?next=/domains/example").Header.Get("Location")
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	if scope := at.Query().Get("scope"); scope != "openid profile email" {
		t.Errorf("it asks for %q", scope)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	path, _ := strings.CutPrefix(resp.Header.Get("Location"), "http://localhost:1/")
	back := w.page(http.StatusSeeOther, path)
	if next := back.Header.Get("Location"); next != "/domains/example" {
		t.Errorf("the login leads to %s", next)
	}
	w.page(http.StatusOK, "domains/example/edit", "olga (127.0.0.1:")
	w.page(http.StatusForbidden, "users")
	w.page(http.StatusForbidden, path)
	w.form(http.StatusForbidden, "account/tokens", "title", "mine")
	w.visitor = admin
	w.page(http.StatusOK, "audit?q=olga", "by "+i.URL+", subject &#34;s-1&#34;")
	w.end(t)
	if strings.Contains(w.told(), openidtest.Secret) {
		t.Errorf("the log has the secret:\n%s", w.told())
	}
}

// TestOpenIDDown: a service whose issuer is down starts and says so, and people log in by passwords.
func TestOpenIDDown(t *testing.T) {
	i := openidtest.New(t)
	i.Lie(openidtest.Lies{Down: true})
	w := startWhole(t, openIDArgs(t, i)...)
	w.soon("the log says that the issuer is down", func() bool {
		return strings.Contains(w.told(), "the issuer does not answer as it should")
	})
	w.login("admin", w.password())
	w.page(http.StatusOK, "domains/example")
	w.page(http.StatusServiceUnavailable, "login/oidc", "The issuer does not answer")
	w.end(t)
}

// TestOpenIDOptions: nobody is logged in by halves of a configuration, whose errors have no secret.
func TestOpenIDOptions(t *testing.T) {
	all := []string{"-oidc-client-secret", "secret", "-public-url", "https://ration.example.com",
		"-oidc-issuer", "https://issuer.example", "-oidc-client-id", "ration",
		"-oidc-rights", "{ops: {'*': admin}}"}
	if _, err := configure(all, os.Getenv); err != nil {
		t.Fatal(err)
	}
	for i := 2; i < len(all); i += 2 {
		some := append(append([]string{}, all[:i]...), all[i+2:]...)
		if _, err := configure(some, os.Getenv); err == nil || !strings.Contains(err.Error(), all[i]) ||
			strings.Contains(err.Error(), `"secret"`) {
			t.Errorf("without %s: %v", all[i], err)
		}
	}
	for want, more := range map[string][]string{
		"has a path": {"-public-url", "https://ration.example.com/limits"},
		"lack":       {"-oidc-scopes", "profile"},
		"Claim":      {"-oidc-groups-claim", ""},
		"60 bytes":   {"-oidc-issuer", "https://" + strings.Repeat("x", 61)},
		"65536":      {"-oidc-rights", "{ops: {'*': admin}} #" + strings.Repeat("x", 64<<10)},
	} {
		if _, err := configure(append(append([]string{}, all...), more...), os.Getenv); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", more, err)
		}
	}
}
