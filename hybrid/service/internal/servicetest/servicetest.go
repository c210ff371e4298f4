// Package servicetest talks to a service over HTTP as its users do, for tests: it logs in on the
// page and has a token of the API.
package servicetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// A Visitor has the cookies of a browser, and a token once Token has made one. It may be used by
// several goroutines after that.
type Visitor struct {
	base   string // ends with a slash
	client *http.Client
	token  string
}

// New returns a Visitor of the service at a URL that ends with a slash.
func New(base string) (*Visitor, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, fmt.Errorf("visitor: %w", err)
	}
	return &Visitor{base: base, client: &http.Client{
		Jar: jar, Timeout: 30 * time.Second,
		Transport: &http.Transport{MaxIdleConnsPerHost: 4},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}}, nil
}

// At returns the same visitor of a service at another URL of the same host.
func (v *Visitor) At(base string) *Visitor {
	at := *v
	at.base = base
	return &at
}

// An Answer is one whose body was read.
type Answer struct {
	Status int
	Header http.Header
	Text   string
}

// Do sends a request to a path without a leading slash, with header fields in pairs of name and
// value.
func (v *Visitor) Do(
	ctx context.Context, method, path, body string, header ...string,
) (Answer, error) {
	r, err := http.NewRequestWithContext(ctx, method, v.base+path, strings.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := v.client.Do(r)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, resp.Header, string(text)}, err
}

// Get asks for a page as a browser.
func (v *Visitor) Get(ctx context.Context, path string) (Answer, error) {
	return v.Do(ctx, http.MethodGet, path, "")
}

// Post sends a form of names and values.
func (v *Visitor) Post(ctx context.Context, path string, pairs ...string) (Answer, error) {
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return v.Do(ctx, http.MethodPost, path, form.Encode(),
		"Content-Type", "application/x-www-form-urlencoded")
}

// API sends a request with the token. The body is YAML if it begins as a document of rules does,
// else JSON.
func (v *Visitor) API(
	ctx context.Context, method, path, body string, header ...string,
) (Answer, error) {
	header = append(header, "Authorization", "Bearer "+v.token)
	switch {
	case strings.HasPrefix(body, "domain:"):
		header = append(header, "Content-Type", "application/yaml")
	case body != "":
		header = append(header, "Content-Type", "application/json")
	}
	return v.Do(ctx, method, path, body, header...)
}

// Login logs in.
func (v *Visitor) Login(ctx context.Context, name, password string) error {
	a, err := v.Post(ctx, "login", "name", name, "password", password)
	if err == nil && a.Status != http.StatusSeeOther {
		err = fmt.Errorf("visitor: login as %q: %d", name, a.Status)
	}
	return err
}

var secret = regexp.MustCompile(`<code class="secret">([^<]+)</code>`)

// Token makes a token of the user who has logged in, with more fields of the form if need be, in
// pairs of name and value.
func (v *Visitor) Token(ctx context.Context, title string, pairs ...string) error {
	a, err := v.Post(ctx, "account/tokens", append([]string{"title", title}, pairs...)...)
	if err != nil {
		return err
	}
	found := secret.FindStringSubmatch(a.Text)
	if found == nil {
		return errors.New("visitor: the page shows no token")
	}
	v.token = found[1]
	return nil
}
