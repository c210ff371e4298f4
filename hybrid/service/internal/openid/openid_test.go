package openid

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/seed13b07268/ration/hybrid/service/internal/openidtest"
)

const public = "https://ration.example.com"

// good is the config of a client of an issuer.
func good(i *openidtest.Issuer) Config {
	return Config{
		Issuer: i.URL, Public: public, ClientID: openidtest.ClientID, Secret: openidtest.Secret,
		Scopes: []string{"openid", "profile"}, Claim: "groups", Log: slog.New(slog.DiscardHandler),
	}
}

func newClient(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// goTo is what a browser does at the issuer: it returns the query with which it is sent back.
func goTo(t *testing.T, to string) url.Values {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(back.String(), public+Path+"?") {
		t.Fatalf("the issuer sends browsers to %s", back)
	}
	return back.Query()
}

// login logs a person in.
func login(t *testing.T, c *Client) (Person, error) {
	t.Helper()
	secret, to, err := c.Begin(t.Context())
	if err != nil {
		return Person{}, err
	}
	return c.Finish(t.Context(), secret, goTo(t, to))
}

// TestLogin: whom a good issuer logs in, by each way to prove the client, and with claims as
// issuers write them.
func TestLogin(t *testing.T) {
	i := openidtest.New(t)
	for _, try := range []struct {
		methods []string
		claims  map[string]any
		want    Person
	}{
		{nil, nil, Person{"s-1", "olga", []string{"shop-team", "cooks"}}},
		{[]string{"client_secret_post"}, map[string]any{"preferred_username": nil, "groups": "ops"},
			Person{"s-1", "olga@example.com", []string{"ops"}}},
		{[]string{"private_key_jwt", "client_secret_basic"}, map[string]any{
			"preferred_username": "", "email": nil, "groups": nil, "aud": []string{"ration", "other"},
			"azp": "ration",
		}, Person{"s-1", "s-1", nil}},
	} {
		i.Lie(openidtest.Lies{Claims: try.claims, Metadata: map[string]any{
			"token_endpoint_auth_methods_supported": try.methods,
		}})
		p, err := login(t, newClient(t, good(i)))
		if err != nil || !reflect.DeepEqual(p, try.want) {
			t.Errorf("%q: %+v, %v, not %+v", try.methods, p, err, try.want)
		}
	}
}

// TestForged: what is not of the issuer, for this client, for this login and of now logs nobody in.
func TestForged(t *testing.T) {
	i := openidtest.New(t)
	c := newClient(t, good(i))
	if _, err := login(t, c); err != nil {
		t.Fatal(err)
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(i.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	unsigned := func(header string) func([]byte) string {
		return func(payload []byte) string {
			return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." +
				base64.RawURLEncoding.EncodeToString(payload) + "."
		}
	}
	signed := func(alg jose.SignatureAlgorithm, key any, id string) func([]byte) string {
		return func(payload []byte) string { return openidtest.Sign(t, alg, key, id, payload) }
	}
	before := func(d time.Duration) int64 { return time.Now().Add(-d).Unix() }
	for name, lies := range map[string]openidtest.Lies{
		"alg none":           {Sign: unsigned(`{"alg":"none"}`)},
		"alg none, with typ": {Sign: unsigned(`{"alg":"none","typ":"JWT","kid":"1"}`)},
		"no signature":       {Sign: unsigned(`{"alg":"ES256","kid":"1"}`)},
		"the public key as a secret": {Sign: signed(jose.HS256,
			public, "1")},
		"the client's secret as a key": {Sign: signed(jose.HS256, []byte(openidtest.Secret+
			"to have 32 bytes"), "1")},
		"another key":               {Sign: signed(jose.ES256, other, "1")},
		"a key that nobody has":     {Sign: signed(jose.ES256, other, "2")},
		"no token":                  {Sign: func([]byte) string { return "" }},
		"not a token":               {Sign: func([]byte) string { return "a.b.c" }},
		"another nonce":             {Claims: map[string]any{"nonce": "other"}},
		"no nonce":                  {Claims: map[string]any{"nonce": nil}},
		"another issuer":            {Claims: map[string]any{"iss": "https://evil.example"}},
		"a longer issuer":           {Claims: map[string]any{"iss": i.URL + "/"}},
		"no issuer":                 {Claims: map[string]any{"iss": nil}},
		"another audience":          {Claims: map[string]any{"aud": "other"}},
		"a longer audience":         {Claims: map[string]any{"aud": "ration2"}},
		"no audience":               {Claims: map[string]any{"aud": nil}},
		"many audiences":            {Claims: map[string]any{"aud": []string{"ration", "other"}}},
		"another party":             {Claims: map[string]any{"azp": "other"}},
		"expired":                   {Claims: map[string]any{"exp": before(skew + time.Minute)}},
		"no end":                    {Claims: map[string]any{"exp": nil}},
		"not yet":                   {Claims: map[string]any{"nbf": time.Now().Add(time.Hour).Unix()}},
		"old":                       {Claims: map[string]any{"iat": before(Life + time.Minute)}},
		"of the future":             {Claims: map[string]any{"iat": time.Now().Add(time.Hour).Unix()}},
		"of no time":                {Claims: map[string]any{"iat": nil}},
		"nobody":                    {Claims: map[string]any{"sub": nil}},
		"a name that is none":       {Claims: map[string]any{"preferred_username": []int{1}}},
		"groups that are none":      {Claims: map[string]any{"groups": map[string]any{"platform": true}}},
		"a list of what is no name": {Claims: map[string]any{"groups": []any{"platform", 1}}},
		"long":                      {Claims: map[string]any{"groups": strings.Repeat("x", 1<<20)}},
		"mix-up":                    {Callback: url.Values{"iss": {"https://evil.example"}}},
		"no code":                   {Callback: url.Values{"code": nil}},
		"a long code":               {Callback: url.Values{"code": {strings.Repeat("x", mostCode+1)}}},
		"another's code":            {Callback: url.Values{"code": {"stolen"}}},
	} {
		i.Lie(lies)
		p, err := login(t, c)
		if !errors.Is(err, ErrInvalid) && (name != "long" || !errors.Is(err, ErrAway)) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
	for name, at := range map[string]time.Time{
		"a slow clock": time.Now().Add(-skew + time.Minute),
		"a fast clock": time.Now().Add(skew - time.Minute),
	} {
		i.Lie(openidtest.Lies{Claims: map[string]any{
			"iat": at.Unix(), "nbf": at.Unix(), "exp": at.Add(time.Second).Unix(),
		}})
		if _, err := login(t, c); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLife: a login is too old after its Life, whatever its cookie says, and no other time goes
// with its state.
func TestLife(t *testing.T) {
	answers := func(secret, state string) bool {
		return Answers(secret, url.Values{"state": {derive(state, "state")}})
	}
	for age, want := range map[time.Duration]bool{
		0: true, Life - time.Minute: true, Life + time.Minute: false, -skew - time.Minute: false,
	} {
		if secret := newSecret(time.Now().Add(-age)); answers(secret, secret) != want {
			t.Errorf("a login %v old: not %v", age, want)
		}
	}
	old := newSecret(time.Now().Add(-Life - time.Minute))
	_, random, _ := strings.Cut(old, "-")
	if answers(strconv.FormatInt(time.Now().Unix(), 10)+"-"+random, old) {
		t.Error("another time goes with its state")
	}
	for _, secret := range []string{"", "-", "x", random} {
		if answers(secret, secret) {
			t.Errorf("a login %q without a time", secret)
		}
	}
}

// TestCancelled: an issuer that hangs is asked no longer than the caller of Discover lives, and
// what comes of that is not taken for its answer.
func TestCancelled(t *testing.T) {
	reached, end := make(chan struct{}, 1), make(chan struct{})
	i := openidtest.New(t)
	var hangs atomic.Bool
	hangs.Store(true)
	i.Lie(openidtest.Lies{Before: func() {
		if hangs.Load() {
			reached <- struct{}{}
			<-end
		}
	}})
	defer close(end)
	c := newClient(t, good(i))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		c.Discover(ctx)
		close(ended)
	}()
	<-reached
	cancel()
	select {
	case <-ended:
	case <-time.After(patience / 2):
		t.Fatal("the question goes on")
	}
	hangs.Store(false)
	if _, _, err := c.Begin(t.Context()); err != nil {
		t.Errorf("the next question: %v", err)
	}
}

// TestBrief: no error has all of what an issuer says, which is up to 1 MiB.
func TestBrief(t *testing.T) {
	var log strings.Builder
	long := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
		_, _ = io.WriteString(w, strings.Repeat("x", mostBytes))
	}))
	defer long.Close()
	config := good(openidtest.New(t))
	config.Issuer, config.Log = long.URL, slog.New(slog.NewTextHandler(&log, nil))
	_, _, err := newClient(t, config).Begin(t.Context())
	if !errors.Is(err, ErrAway) || len(err.Error()) > 500 || log.Len() > 1000 {
		t.Errorf("an error of %d bytes, a log of %d", len(err.Error()), log.Len())
	}
}

// TestOperators: what the operator or the issuer has to mend is no fault of an answer.
func TestOperators(t *testing.T) {
	i := openidtest.New(t)
	config := good(i)
	config.Secret = "wrong"
	if _, err := login(t, newClient(t, config)); !errors.Is(err, ErrAway) ||
		!strings.Contains(err.Error(), "invalid_client") {
		t.Errorf("a wrong secret: %v", err)
	}
	for _, try := range []struct {
		status int
		code   string
		want   error
	}{
		{http.StatusBadRequest, "invalid_client", ErrAway},
		{http.StatusBadRequest, "unauthorized_client", ErrAway},
		{http.StatusTooManyRequests, "slow_down", ErrAway},
		{http.StatusForbidden, "invalid_grant", ErrInvalid},
		{http.StatusBadRequest, "invalid_request", ErrInvalid},
	} {
		i.Lie(openidtest.Lies{Token: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(try.status)
			_, _ = io.WriteString(w, `{"error": "`+try.code+`"}`)
		}})
		if _, err := login(t, newClient(t, good(i))); !errors.Is(err, try.want) {
			t.Errorf("%d, %s: %v", try.status, try.code, err)
		}
	}
	i.Lie(openidtest.Lies{Keys: func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusBadGateway)
	}})
	if _, err := login(t, newClient(t, good(i))); !errors.Is(err, ErrAway) {
		t.Errorf("no keys: %v", err)
	}
}

// TestForeign: an answer that is not to the login of the browser costs the issuer nothing. A code
// of another login does not help: its challenge is another one.
func TestForeign(t *testing.T) {
	i := openidtest.New(t)
	c := newClient(t, good(i))
	mine, to, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := goTo(t, to)
	theirs, to, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	stolen := goTo(t, to)
	twice := url.Values{"state": {answer.Get("state"), "x"}, "code": answer["code"]}
	codes := url.Values{"state": answer["state"], "code": {"x", answer.Get("code")}}
	for name, try := range map[string]struct {
		secret string
		query  url.Values
	}{
		"another browser": {theirs, answer}, "no browser": {"", answer}, "no state": {mine, url.Values{}},
		"two states": {mine, twice}, "two codes": {mine, codes},
		"the state of nothing": {"", url.Values{"state": {derive("", "state")}}},
		"the nonce":            {mine, url.Values{"state": {derive(mine, "nonce")}}},
		"the secret":           {mine, url.Values{"state": {mine}}},
	} {
		if _, err := c.Finish(t.Context(), try.secret, try.query); !errors.Is(err, ErrForeign) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := i.Tokens(); n != 0 {
		t.Errorf("the issuer was asked for %d tokens", n)
	}
	injected := url.Values{"state": answer["state"], "code": stolen["code"]}
	if _, err := c.Finish(t.Context(), mine, injected); !errors.Is(err, ErrInvalid) {
		t.Errorf("a code of another login: %v", err)
	}
	answer.Set("error", "access_denied")
	if _, err := c.Finish(t.Context(), mine, answer); !errors.Is(err, ErrRefused) {
		t.Errorf("refused: %v", err)
	}
}

// TestNamed: an issuer that says that it names itself in its answers does so in each.
func TestNamed(t *testing.T) {
	i := openidtest.New(t)
	named := map[string]any{"authorization_response_iss_parameter_supported": true}
	i.Lie(openidtest.Lies{Metadata: named})
	c := newClient(t, good(i))
	if _, err := login(t, c); !errors.Is(err, ErrInvalid) {
		t.Errorf("without a name: %v", err)
	}
	i.Lie(openidtest.Lies{Metadata: named, Callback: url.Values{"iss": {i.URL}}})
	if _, err := login(t, c); err != nil {
		t.Error(err)
	}
}

// TestAway: while the issuer is away a login says so, and one that comes later asks again.
func TestAway(t *testing.T) {
	i := openidtest.New(t)
	i.Lie(openidtest.Lies{Down: true})
	c := newClient(t, good(i))
	c.Discover(t.Context())
	for range 3 {
		if _, _, err := c.Begin(t.Context()); !errors.Is(err, ErrAway) {
			t.Fatalf("an issuer that is away: %v", err)
		}
	}
	i.Lie(openidtest.Lies{})
	if _, _, err := c.Begin(t.Context()); !errors.Is(err, ErrAway) {
		t.Errorf("it is asked again at once: %v", err)
	}
	c.tried = c.tried.Add(-again)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, _, err := c.Begin(t.Context()); err != nil {
				t.Errorf("it is back: %v", err)
			}
		})
	}
	all.Wait()
	secret, to, err := c.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer := goTo(t, to)
	i.Lie(openidtest.Lies{Down: true})
	if _, err := c.Finish(t.Context(), secret, answer); !errors.Is(err, ErrAway) {
		t.Errorf("it goes away: %v", err)
	}
	for range mostAsked {
		c.ending <- struct{}{}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Finish(gone, secret, answer); !errors.Is(err, ErrBusy) {
		t.Errorf("too many at once: %v", err)
	}
}

// TestDiscovery: an issuer that calls itself something else, sends elsewhere, or would have secrets
// go without TLS to another machine, logs nobody in.
func TestDiscovery(t *testing.T) {
	i := openidtest.New(t)
	for name, metadata := range map[string]map[string]any{
		"another issuer":   {"issuer": "https://evil.example"},
		"a token in clear": {"token_endpoint": "http://evil.example/token"},
		"keys in clear":    {"jwks_uri": "http://evil.example/keys"},
		"a script":         {"authorization_endpoint": "javascript:alert(1)"},
		"no token":         {"token_endpoint": nil},
		"a foreign proof":  {"token_endpoint_auth_methods_supported": []string{"private_key_jwt"}},
		"a long answer":    {"x": strings.Repeat("x", mostBytes)},
	} {
		i.Lie(openidtest.Lies{Metadata: metadata})
		if _, _, err := newClient(t, good(i)).Begin(t.Context()); !errors.Is(err, ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, token := range map[string]http.HandlerFunc{
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, i.URL+"/elsewhere", http.StatusTemporaryRedirect)
		},
		"an error": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusBadGateway)
		},
	} {
		i.Lie(openidtest.Lies{Token: token})
		if _, err := login(t, newClient(t, good(i))); !errors.Is(err, ErrAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	i.Lie(openidtest.Lies{Token: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token": "x", "token_type": "Bearer"}`)
	}})
	if _, err := login(t, newClient(t, good(i))); !errors.Is(err, ErrInvalid) {
		t.Errorf("no ID token: %v", err)
	}
}

// TestConfig: what cannot be is refused with its field and value.
func TestConfig(t *testing.T) {
	i := openidtest.New(t)
	long := "https://" + strings.Repeat("x", 61)
	for want, change := range map[string]func(*Config){
		`Issuer: "http://issuer.example"`:     func(c *Config) { c.Issuer = "http://issuer.example" },
		"Issuer: it has a user":               func(c *Config) { c.Issuer = "https://u:p@host" },
		`Issuer: "https://host?x"`:            func(c *Config) { c.Issuer = "https://host?x" },
		`Issuer: "https://host#"`:             func(c *Config) { c.Issuer = "https://host#" },
		`Issuer: "https://host:99999"`:        func(c *Config) { c.Issuer = "https://host:99999" },
		`Issuer: "https://host:0"`:            func(c *Config) { c.Issuer = "https://host:0" },
		`Issuer: "https://h\u00f6st"`:         func(c *Config) { c.Issuer = "https://höst" },
		"longer than 60":                      func(c *Config) { c.Issuer = long },
		`Public: "ration.example.com"`:        func(c *Config) { c.Public = "ration.example.com" },
		`Public: "http://10.0.0.1"`:           func(c *Config) { c.Public = "http://10.0.0.1" },
		`Public: "https://host/p" has a path`: func(c *Config) { c.Public = "https://host/p" },
		"ClientID":                            func(c *Config) { c.ClientID = "" },
		"Claim":                               func(c *Config) { c.Claim = "" },
		`Scopes ["profile"]`:                  func(c *Config) { c.Scopes = []string{"profile"} },
	} {
		c := good(i)
		change(&c)
		_, err := New(c)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "ö", `\u00f6`), want) {
			t.Errorf("%v, not %s", err, want)
		}
	}
	for _, at := range []string{"http://localhost:8080", "http://127.0.0.1:1/", "http://[::1]",
		"https://ration.example.com/"} {
		c := good(i)
		c.Public = at
		client := newClient(t, c)
		if want := strings.TrimSuffix(at, "/") + Path; client.callback() != want {
			t.Errorf("%s leads back to %s", at, client.callback())
		}
		if client.Secure() != strings.HasPrefix(at, "https:") {
			t.Errorf("%s: over TLS: %v", at, client.Secure())
		}
	}
}

// FuzzGroups: no claim of groups fails but by an error, and what is read is in it.
func FuzzGroups(f *testing.F) {
	for _, seed := range []string{`["a","b"]`, `"a"`, `null`, `{}`, `[1]`, `["\u202e"]`, `[["a"]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) {
			return
		}
		list, err := groups(json.RawMessage(text), "groups")
		if err != nil && (list != nil || !errors.Is(err, ErrInvalid)) {
			t.Errorf("%s: %q, %v", text, list, err)
		}
	})
}
