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

// person is of whom a token is whose issuer, audience, signature and end were right, if it is of this
// login, and new.
func (c *Client) person(t *oidc.IDToken, nonce string) (p Person, err error) {
	var claims map[string]json.RawMessage
	if err := t.Claims(&claims); err != nil {
		return p, fmt.Errorf("%w: %s", ErrInvalid, brief(err))
	}
	var name, email, party string
	for claim, to := range map[string]*string{
		"preferred_username": &name, "email": &email, "azp": &party,
	} {
		if err := read(claims, claim, to); err != nil {
			return p, err
		}
	}
	age := time.Since(t.IssuedAt)
	switch {
	case !same(t.Nonce, nonce):
		err = errors.New("its nonce is that of another login")
	case len(t.Audience) > 1 && party == "", party != "" && party != c.config.ClientID:
		err = fmt.Errorf("it is for the client %.100q of the audience %.300q", party, t.Audience)
	case age > Life, age < -skew:
		err = fmt.Errorf("it was issued %v ago", age.Round(time.Second))
	case t.Subject == "":
		err = errors.New("it is of nobody")
	}
	if err != nil {
		return p, fmt.Errorf("%w: the ID token: %w", ErrInvalid, err)
	}
	p.Subject, p.Name = t.Subject, t.Subject
	if email != "" {
		p.Name = email
	}
	if name != "" {
		p.Name = name
	}
	p.Groups, err = groups(claims[c.config.Claim], c.config.Claim)
	return p, err
}

// read reads a claim that is a text, if it is there.
func read(claims map[string]json.RawMessage, claim string, to any) error {
	if claims[claim] == nil {
		return nil
	}
	if err := json.Unmarshal(claims[claim], to); err != nil {
		return fmt.Errorf("%w: its claim %s is no text", ErrInvalid, claim)
	}
	return nil
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
