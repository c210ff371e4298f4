// Package openid has people logged in by an issuer of OpenID Connect: by its authorization code
// flow with PKCE.
//
// # Promise
//
// A login ends in the browser that has begun it, and in no other: state, nonce and the verifier of
// PKCE are derived from a secret that only the browser has, and that has the time of Begin. Nothing
// is kept of a login under way, so that any replica ends it, and strangers who begin many cost
// nothing. A person is one whom the issuer has signed for this client, for this login, in the last
// minutes.
//
// # Duties of the caller
//
// It keeps the secret of Begin in a cookie of the browser, bounds how often Finish is called, and
// takes each secret once.
package openid

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Errors that callers tell apart.
var (
	ErrAway    = errors.New("the issuer does not answer")
	ErrBusy    = errors.New("too many logins are under way")
	ErrForeign = errors.New("it is no answer to this login")
	ErrRefused = errors.New("the issuer has refused the login")
	ErrInvalid = errors.New("the issuer's answer is not valid")
)

// Life is how long a login may take, from Begin to Finish. Finish refuses one that took longer.
const Life = 10 * time.Minute

// Bounds of what the issuer may cost.
const (
	patience  = 10 * time.Second // of one request
	again     = 5 * time.Second  // after an issuer that did not answer, until it is asked again
	mostBytes = 1 << 20          // of an answer
	mostAsked = 8                // logins that end at a time
	skew      = 5 * time.Minute  // between the issuer's clock and ours
	mostCode  = 4096             // bytes
)

// maxHost bounds the issuer's host in bytes: it is part of people's names.
const maxHost = 60

// Config configures a Client.
type Config struct {
	// Issuer is its URL, as its tokens have it: https, or http on loopback.
	Issuer string

	// Public is the URL of the page, as browsers have it: https, or http on loopback, without a
	// path.
	Public string

	ClientID string
	Secret   string   // of the client; empty: it has none, and PKCE alone proves it
	Scopes   []string // openid is among them
	Claim    string   // of the ID token that has the groups

	Log *slog.Logger // required
}

// Path is where below Config.Public the issuer sends browsers back to.
const Path = "/login/oidc/callback"

// Check returns an error that names the field and the value that cannot be.
func (c Config) Check() error {
	if err := CheckIssuer(c.Issuer); err != nil {
		return fmt.Errorf("Config.Issuer: %w", err)
	}
	if err := CheckPublic(c.Public); err != nil {
		return fmt.Errorf("Config.Public: %w", err)
	}
	switch {
	case c.ClientID == "":
		return errors.New("Config.ClientID is missing")
	case c.Claim == "":
		return errors.New("Config.Claim is missing")
	case !slices.Contains(c.Scopes, oidc.ScopeOpenID):
		return fmt.Errorf("Config.Scopes %q lack %s", c.Scopes, oidc.ScopeOpenID)
	}
	return nil
}

// CheckIssuer returns an error that names the text if it is no URL of an issuer.
func CheckIssuer(text string) error {
	u, err := parse(text)
	if err == nil && len(u.Host) > maxHost {
		err = fmt.Errorf("%.100q has a host that is longer than %d bytes", text, maxHost)
	}
	return err
}

// CheckPublic returns an error that names the text if it is no URL of a page.
func CheckPublic(text string) error {
	u, err := parse(text)
	if err == nil && strings.Trim(u.Path, "/") != "" {
		err = fmt.Errorf("%.100q has a path", text)
	}
	return err
}

// parse reads a URL to which secrets may go: https, or http on this machine.
func parse(text string) (*url.URL, error) {
	if strings.Contains(text, "@") { // a password may be before it
		return nil, errors.New("it has a user, and is not https://HOST")
	}
	u, err := url.Parse(text)
	if err != nil || !visible(text) || u.Hostname() == "" || !isPort(u.Port()) {
		return nil, fmt.Errorf("%.100q is not https://HOST, or https://HOST:PORT, in ASCII", text)
	}
	if strings.ContainsAny(text, "?#") {
		return nil, fmt.Errorf("%.100q is not https://HOST: it has a query or a fragment", text)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())) {
		return nil, fmt.Errorf("%.100q is not https://HOST, or http:// on loopback", text)
	}
	return u, nil
}

// visible reports whether a text has only characters of ASCII that are seen.
func visible(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// isPort reports whether a URL may have the port. None is one, too.
func isPort(text string) bool {
	port, err := strconv.ParseUint(text, 10, 16)
	return text == "" || err == nil && port > 0
}

func loopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// A Client is what the issuer knows the service as. It is safe for concurrent use.
type Client struct {
	config Config
	host   string // of the issuer
	public *url.URL
	web    *http.Client

	asking chan struct{} // guards what follows; not a mutex, as it is held while the issuer is asked
	found  *issuer       // nil: it has not answered yet
	failed error         // why
	tried  time.Time

	ending chan struct{} // places for logins that end
}

// An issuer is what it has told of itself.
type issuer struct {
	oauth    oauth2.Config
	verifier *oidc.IDTokenVerifier
	named    bool // its answers name it
}

// New returns a Client, and asks nobody.
func New(c Config) (*Client, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("openid: %w", err)
	}
	at, err := url.Parse(c.Issuer)
	if err != nil {
		return nil, fmt.Errorf("openid: %w", err)
	}
	public, err := url.Parse(c.Public)
	if err != nil {
		return nil, fmt.Errorf("openid: %w", err)
	}
	return &Client{
		config: c, host: at.Host, public: public, web: newWeb(),
		asking: make(chan struct{}, 1), ending: make(chan struct{}, mostAsked),
	}, nil
}

// Host is the issuer's, with its port if it has one.
func (c *Client) Host() string { return c.host }

// Secure reports whether browsers have the page over TLS.
func (c *Client) Secure() bool { return c.public.Scheme == "https" }

// Public is Config.Public without a slash at its end.
func (c *Client) Public() string { return c.public.Scheme + "://" + c.public.Host }

// Here reports whether a host, as requests have it, is that of Config.Public.
func (c *Client) Here(host string) bool {
	port := ":443"
	if !c.Secure() {
		port = ":80"
	}
	return strings.EqualFold(strings.TrimSuffix(host, port), strings.TrimSuffix(c.public.Host, port))
}

// callback is where the issuer sends browsers back to.
func (c *Client) callback() string { return c.Public() + Path }

// Discover asks the issuer what it is, unless it has told already, and logs what comes of it. It
// blocks for 10 s at most, and not beyond ctx. Without an answer Begin asks again. An answer is
// good for as long as the Client: only the issuer's keys are asked for anew.
func (c *Client) Discover(ctx context.Context) { _, _ = c.issuer(ctx, ctx) }

// issuer is what the issuer has told of itself. It is asked until it has answered once. ctx bounds
// how long the caller waits for others that ask, and asking a question of its own.
func (c *Client) issuer(ctx, asking context.Context) (*issuer, error) {
	select {
	case c.asking <- struct{}{}:
		defer func() { <-c.asking }()
	case <-ctx.Done():
		return nil, ErrAway
	}
	if c.found != nil || c.failed != nil && time.Since(c.tried) < again {
		return c.found, c.failed
	}
	bounded, cancel := context.WithTimeout(asking, patience)
	defer cancel()
	found, err := c.discover(bounded)
	if asking.Err() != nil { // it says nothing of the issuer
		return nil, ErrAway
	}
	c.found, c.failed, c.tried = found, nil, time.Now()
	if err != nil {
		c.failed = fmt.Errorf("%w: %s", ErrAway, brief(err))
		c.config.Log.Warn("OpenID Connect: the issuer does not answer as it should, and nobody can "+
			"log in by it. It is asked again with the next login", "issuer", c.config.Issuer,
			"error", brief(err))
		return nil, c.failed
	}
	c.config.Log.Info("OpenID Connect: people can log in", "issuer", c.config.Issuer,
		"redirect_uri", c.callback())
	return found, nil
}

func (c *Client) discover(ctx context.Context) (*issuer, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, c.web), c.config.Issuer)
	if err != nil {
		return nil, err
	}
	var more struct {
		Keys    string   `json:"jwks_uri"`
		Methods []string `json:"token_endpoint_auth_methods_supported"`
		Named   bool     `json:"authorization_response_iss_parameter_supported"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, err
	}
	endpoint := provider.Endpoint()
	for _, at := range []string{endpoint.AuthURL, endpoint.TokenURL, more.Keys} {
		base, _, _ := strings.Cut(at, "?") // some issuers tell their tenants apart by it
		if _, err := parse(base); err != nil {
			return nil, fmt.Errorf("an endpoint: %w", err)
		}
	}
	if endpoint.AuthStyle, err = c.style(more.Methods); err != nil {
		return nil, err
	}
	return &issuer{
		oauth: oauth2.Config{
			ClientID: c.config.ClientID, ClientSecret: c.config.Secret, Endpoint: endpoint,
			RedirectURL: c.callback(), Scopes: c.config.Scopes,
		},
		verifier: provider.Verifier(&oidc.Config{
			ClientID: c.config.ClientID, SkipExpiryCheck: true, // Client.person has times with leeway
		}),
		named: more.Named,
	}, nil
}

// style is how the client proves itself. It is not tried: a failed try may use up the code.
func (c *Client) style(methods []string) (oauth2.AuthStyle, error) {
	switch {
	case c.config.Secret == "":
		return oauth2.AuthStyleInParams, nil
	case len(methods) == 0, slices.Contains(methods, "client_secret_basic"):
		return oauth2.AuthStyleInHeader, nil
	case slices.Contains(methods, "client_secret_post"):
		return oauth2.AuthStyleInParams, nil
	}
	return 0, fmt.Errorf("it takes clients by %q, not by client_secret_basic or client_secret_post",
		methods)
}

// Begin begins a login: the browser keeps the secret, and goes to the URL. It blocks for 10 s at
// most while the issuer has not answered yet. The error is ErrAway.
func (c *Client) Begin(ctx context.Context) (secret, to string, err error) {
	// Others wait for the answer: a client that goes away does not end the question.
	is, err := c.issuer(ctx, context.WithoutCancel(ctx))
	if err != nil {
		return "", "", fmt.Errorf("openid: begin: %w", err)
	}
	secret = newSecret(time.Now())
	return secret, is.oauth.AuthCodeURL(derive(secret, "state"), oidc.Nonce(derive(secret, "nonce")),
		oauth2.S256ChallengeOption(derive(secret, "verifier"))), nil
}

// newSecret returns the secret of a login that begins at t. Who changes the time has another
// secret.
func newSecret(t time.Time) string { return strconv.FormatInt(t.Unix(), 10) + "-" + rand.Text() }

// lives reports whether the login of a secret is not older than Life, by the clock of this replica.
func lives(secret string) bool {
	text, _, _ := strings.Cut(secret, "-")
	began, err := strconv.ParseInt(text, 10, 64)
	age := time.Since(time.Unix(began, 0))
	return err == nil && age <= Life && age >= -skew
}

// derive returns 256 bits that tell neither the secret, nor what else is derived of it.
func derive(secret, what string) string {
	h := hmac.New(sha256.New, []byte(secret))
	h.Write([]byte(what))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// Answers reports whether the query of a callback answers the login of the secret, within its Life.
// It costs nothing.
func Answers(secret string, query url.Values) bool {
	for _, values := range query {
		if len(values) != 1 { // of which others may read another one
			return false
		}
	}
	return lives(secret) && same(query.Get("state"), derive(secret, "state"))
}

// Finish returns whom the issuer has logged in, by the query with which it has sent the browser
// back. It blocks for 20 s at most. Errors are ErrAway, ErrBusy, ErrForeign, ErrRefused and
// ErrInvalid.
func (c *Client) Finish(ctx context.Context, secret string, query url.Values) (Person, error) {
	p, err := c.finish(ctx, secret, query)
	if err != nil {
		return Person{}, fmt.Errorf("openid: finish: %w", err)
	}
	return p, nil
}

func (c *Client) finish(
	ctx context.Context, secret string, query url.Values,
) (p Person, err error) {
	if !Answers(secret, query) {
		return p, ErrForeign
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case c.ending <- struct{}{}:
		defer func() { <-c.ending }()
	case <-ctx.Done():
		return p, ErrBusy
	}
	is, err := c.issuer(ctx, context.WithoutCancel(ctx))
	if err != nil {
		return p, err
	}
	if from := query.Get("iss"); from != c.config.Issuer && (from != "" || is.named) { // RFC 9207
		return p, fmt.Errorf("%w: it is of the issuer %.100q", ErrInvalid, from)
	}
	code := query.Get("code")
	switch {
	case query.Get("error") != "":
		return p, fmt.Errorf("%w: %.100q", ErrRefused, query.Get("error"))
	case code == "", len(code) > mostCode:
		return p, fmt.Errorf("%w: a code of %d bytes", ErrInvalid, len(code))
	}
	return c.exchange(ctx, is, code, secret)
}

// exchange returns whom the issuer's ID token for a code names.
func (c *Client) exchange(ctx context.Context, is *issuer, code, secret string) (Person, error) {
	ctx = oidc.ClientContext(ctx, c.web)
	token, err := is.oauth.Exchange(ctx, code, oauth2.VerifierOption(derive(secret, "verifier")))
	if err != nil {
		kind := ErrAway
		if refused(err) {
			kind = ErrInvalid
		}
		return Person{}, fmt.Errorf("%w: of the code: %s", kind, brief(err))
	}
	text, ok := token.Extra("id_token").(string)
	if !ok {
		return Person{}, fmt.Errorf("%w: it has no ID token", ErrInvalid)
	}
	verified, err := is.verifier.Verify(ctx, text)
	switch {
	case err != nil && strings.Contains(err.Error(), "verify signature: fetching keys"):
		return Person{}, fmt.Errorf("%w: of its keys: %s", ErrAway, brief(err))
	case err != nil:
		return Person{}, fmt.Errorf("%w: %s", ErrInvalid, brief(err))
	}
	return c.person(verified, derive(secret, "nonce"))
}

// refused reports whether an error of the token endpoint is about the code. An unknown
// client, a wrong secret and an issuer that fails are the operator's to mend.
func refused(err error) bool {
	var said *oauth2.RetrieveError
	if !errors.As(err, &said) {
		return false
	}
	switch said.ErrorCode {
	case "invalid_grant": // some answer 403 then
		return true
	case "invalid_client", "unauthorized_client":
		return false
	}
	return said.Response.StatusCode == http.StatusBadRequest
}

// brief bounds a text that may be the issuer's.
func brief(err error) string { return fmt.Sprintf("%.300s", err.Error()) }
