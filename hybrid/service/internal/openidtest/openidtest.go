// Package openidtest runs an issuer of OpenID Connect on loopback, for tests. It holds clients to
// the protocol, and lies as a test has it.
package openidtest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// What clients of an Issuer are known by.
const (
	ClientID = "ration"
	Secret   = "a secret: of the client"
)

// An Issuer logs in everybody who asks, as the person of its Lies.
type Issuer struct {
	URL string
	Key *ecdsa.PrivateKey // signs its tokens, as the key "1"

	t      *testing.T
	mu     sync.Mutex
	lies   Lies
	codes  map[string]grant
	tokens int
}

// A grant is what a code was given for.
type grant struct{ challenge, nonce, redirect string }

// Lies are what is not as a good issuer has it. The zero Lies are none.
type Lies struct {
	Claims   map[string]any              // in place of those of the ID token; nil removes one
	Metadata map[string]any              // in place of those of the discovery
	Callback url.Values                  // in place of parameters; none removes one
	Sign     func(payload []byte) string // makes the ID token
	Token    http.HandlerFunc            // in place of the token endpoint
	Keys     http.HandlerFunc            // in place of the endpoint of its keys
	Before   func()                      // each request
	Down     bool                        // connections break
	Reuse    bool                        // a code is good for several tokens
}

// New runs an issuer until the test ends.
func New(t *testing.T) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{Key: key, t: t, codes: map[string]grant{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discovery)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lies := i.Lies()
		if lies.Before != nil {
			lies.Before()
		}
		if lies.Down {
			panic(http.ErrAbortHandler)
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Lie has the issuer lie from now on.
func (i *Issuer) Lie(l Lies) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lies = l
}

// Lies are those of now.
func (i *Issuer) Lies() Lies {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.lies
}

// Tokens is how many tokens it was asked for.
func (i *Issuer) Tokens() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.tokens
}

func (i *Issuer) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		i.t.Errorf("openidtest: %v", err)
	}
}

func (i *Issuer) discovery(w http.ResponseWriter, _ *http.Request) {
	i.answer(w, http.StatusOK, replaced(map[string]any{
		"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize",
		"token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
		"id_token_signing_alg_values_supported": []string{"ES256"},
	}, i.Lies().Metadata))
}

// replaced are values of which others take the place; nil removes one.
func replaced(values, by map[string]any) map[string]any {
	maps.Copy(values, by)
	maps.DeleteFunc(values, func(_ string, v any) bool { return v == nil })
	return values
}

func (i *Issuer) keys(w http.ResponseWriter, r *http.Request) {
	if lie := i.Lies().Keys; lie != nil {
		lie(w, r)
		return
	}
	i.answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: i.Key.Public(), KeyID: "1", Algorithm: "ES256", Use: "sig"},
	}})
}

// authorize logs everybody in who asks rightly, and sends them back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": ClientID, "code_challenge_method": "S256",
	} {
		if q.Get(name) != want {
			i.t.Errorf("%s is %q, not %q", name, q.Get(name), want)
		}
	}
	challenge, err := base64.RawURLEncoding.DecodeString(q.Get("code_challenge"))
	if len(challenge) != sha256.Size || err != nil || len(q.Get("state")) < 22 ||
		len(q.Get("nonce")) < 22 || !strings.Contains(" "+q.Get("scope")+" ", " openid ") {
		i.t.Errorf("a question that makes no sense: %v", q)
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = grant{q.Get("code_challenge"), q.Get("nonce"), q.Get("redirect_uri")}
	i.mu.Unlock()
	back := url.Values{"code": {code}, "state": {q.Get("state")}}
	for name, values := range i.Lies().Callback {
		if back[name] = values; len(values) == 0 {
			back.Del(name)
		}
	}
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+back.Encode(), http.StatusSeeOther)
}

// token gives a token for a code, once, to the client that has asked for it.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.tokens++
	given, known := i.codes[r.FormValue("code")]
	if !i.lies.Reuse {
		delete(i.codes, r.FormValue("code"))
	}
	lies := i.lies
	i.mu.Unlock()
	if lies.Token != nil {
		lies.Token(w, r)
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id = url.QueryEscape(r.FormValue("client_id"))
		secret = url.QueryEscape(r.FormValue("client_secret"))
	}
	sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
	switch {
	case id != url.QueryEscape(ClientID) || secret != url.QueryEscape(Secret):
		i.answer(w, http.StatusUnauthorized, map[string]string{"error": "invalid_client"})
	case !known, r.FormValue("grant_type") != "authorization_code",
		base64.RawURLEncoding.EncodeToString(sum[:]) != given.challenge,
		r.FormValue("redirect_uri") != given.redirect:
		i.answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
	default:
		i.answer(w, http.StatusOK, map[string]any{
			"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 60,
			"id_token": i.idToken(given.nonce, lies),
		})
	}
}

func (i *Issuer) idToken(nonce string, lies Lies) string {
	payload, err := json.Marshal(replaced(map[string]any{
		"iss": i.URL, "sub": "s-1", "aud": ClientID, "nonce": nonce, "iat": time.Now().Unix(),
		"exp": time.Now().Add(5 * time.Minute).Unix(), "preferred_username": "olga",
		"email": "olga@example.com", "groups": []string{"shop-team", "cooks"},
	}, lies.Claims))
	if err != nil {
		i.t.Errorf("openidtest: %v", err)
	}
	if lies.Sign != nil {
		return lies.Sign(payload)
	}
	return Sign(i.t, jose.ES256, i.Key, "1", payload)
}

// Sign makes a signed token.
func Sign(
	t *testing.T, alg jose.SignatureAlgorithm, key any, id string, payload []byte,
) string {
	s, err := jose.NewSigner(jose.SigningKey{
		Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id},
	}, nil)
	if err != nil {
		t.Error(err)
		return ""
	}
	signed, err := s.Sign(payload)
	if err != nil {
		t.Error(err)
		return ""
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Error(err)
	}
	return text
}
