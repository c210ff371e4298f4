package openid

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
)

// A Person is whom the issuer has logged in. It says what the issuer says: no text is checked, but
// for its type.
type Person struct {
	Subject string   // who it is at the issuer, for ever
	Name    string   // preferred_username, else email, else Subject
	Groups  []string // of Config.Claim
}

// claims are those of an ID token that are read here.
type claims map[string]json.RawMessage

// person returns whom a token names. Its issuer, audience and signature were right; this checks
// that it is of the login of the nonce, for this client, and of now.
func (c *Client) person(t *oidc.IDToken, nonce string) (Person, error) {
	var all claims
	if err := t.Claims(&all); err != nil {
		return Person{}, fmt.Errorf("%w: %s", ErrInvalid, brief(err))
	}
	if err := errors.Join(c.ofLogin(t, all, nonce), timely(t, all)); err != nil {
		return Person{}, fmt.Errorf("%w: the ID token: %w", ErrInvalid, err)
	}
	p := Person{Subject: t.Subject, Name: t.Subject}
	for _, claim := range []string{"email", "preferred_username"} {
		name, err := all.text(claim)
		switch {
		case err != nil:
			return Person{}, fmt.Errorf("%w: the ID token: %w", ErrInvalid, err)
		case name != "":
			p.Name = name
		}
	}
	var err error
	p.Groups, err = groups(all[c.config.Claim], c.config.Claim)
	return p, err
}

// ofLogin returns an error if a token is of another login, for another client, or of nobody.
func (c *Client) ofLogin(t *oidc.IDToken, all claims, nonce string) error {
	party, err := all.text("azp")
	switch {
	case err != nil:
		return err
	case !same(t.Nonce, nonce):
		return errors.New("its nonce is that of another login")
	case party != c.config.ClientID && (party != "" || len(t.Audience) > 1):
		return fmt.Errorf("it is for the client %.100q of the audience %.300q", party, t.Audience)
	case t.Subject == "":
		return errors.New("it is of nobody")
	}
	return nil
}

// timely returns an error if a token is not of now, by clocks that differ by skew at most.
func timely(t *oidc.IDToken, all claims) error {
	var from float64 // seconds since 1970; 0: it does not say
	if text := all["nbf"]; text != nil {
		if err := json.Unmarshal(text, &from); err != nil {
			return errors.New("its claim nbf is no number")
		}
	}
	now := time.Now()
	age := now.Sub(t.IssuedAt)
	switch {
	case age > Life, age < -skew:
		return fmt.Errorf("it was issued %v ago", age.Round(time.Second))
	case now.Sub(t.Expiry) > skew:
		return fmt.Errorf("it has expired %v ago", now.Sub(t.Expiry).Round(time.Second))
	case from > float64(now.Add(skew).Unix()):
		return fmt.Errorf("it is good from %.0f s after 1970", from)
	}
	return nil
}

// text is a claim that is a text, or empty if it is not there.
func (all claims) text(claim string) (text string, err error) {
	if all[claim] == nil {
		return "", nil
	}
	if err := json.Unmarshal(all[claim], &text); err != nil {
		return "", fmt.Errorf("its claim %s is no text", claim)
	}
	return text, nil
}

// groups reads a list of names, or a single one: some issuers write a list of one so.
func groups(claim json.RawMessage, name string) ([]string, error) {
	if claim == nil {
		return nil, nil
	}
	var list []string
	if err := json.Unmarshal(claim, &list); err == nil {
		return list, nil
	}
	var one string
	if err := json.Unmarshal(claim, &one); err != nil {
		return nil, fmt.Errorf("%w: its claim %.100q is no list of names", ErrInvalid, name)
	}
	return []string{one}, nil
}
