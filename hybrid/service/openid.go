package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
)

// openIDConfig is who logs people in by OpenID Connect, if anybody does.
type openIDConfig struct {
	openid.Config
	rights map[string]map[string]account.Role // by group and domain
}

// What the issuer is asked for by default.
const (
	defaultScopes = "openid profile email"
	defaultClaim  = "groups"
)

// openIDOptions are how people log in by OpenID Connect.
func (c *config) openIDOptions() []option {
	o := &c.openID
	return []option{
		{"public-url", "", "`URL` of the page, as browsers have it, such as https://ration.example.com",
			checked(&o.Public, openid.CheckPublic)},
		{"oidc-issuer", "", "`URL` of an issuer of OpenID Connect that logs people in",
			checked(&o.Issuer, openid.CheckIssuer)},
		{"oidc-client-id", "", "`id` of the service at the issuer", text(&o.ClientID)},
		{"oidc-client-secret", "", "`secret` of that, if the issuer has given one", o.setSecret},
		{"oidc-scopes", defaultScopes, "`scopes` to ask for, with spaces between", o.setScopes},
		{"oidc-groups-claim", defaultClaim, "`claim` of the ID token that has the groups of a person",
			checked(&o.Claim, filled)},
		{"oidc-rights", "", "`rights` of the members of groups, by domain, as YAML: " +
			"{platform: {'*': admin}, shop-team: {shop: editor, bank: viewer}}", o.setRights},
	}
}

// checked takes a text that passes a check.
func checked(to *string, check func(string) error) func(string) error {
	return func(value string) error {
		*to = value
		return check(value)
	}
}

func filled(value string) error {
	if strings.TrimSpace(value) == "" {
		return fmt.Errorf("%.100q is empty", value)
	}
	return nil
}

// setSecret takes a secret, without the end of line that files and tools add to it.
func (o *openIDConfig) setSecret(value string) error {
	o.Secret = strings.TrimRight(value, "\r\n")
	return nil
}

func (o *openIDConfig) setScopes(value string) error {
	o.Scopes = strings.Fields(value)
	if !slices.Contains(o.Scopes, "openid") {
		return fmt.Errorf("%.100q lacks openid", value)
	}
	return nil
}

// mostRights bounds the text of -oidc-rights, in bytes.
const mostRights = 64 << 10

// setRights reads rights by group and domain.
func (o *openIDConfig) setRights(value string) error {
	var names map[string]map[string]string
	if len(value) > mostRights {
		return fmt.Errorf("it has %d bytes, and not %d at most", len(value), mostRights)
	}
	err := yaml.Unmarshal([]byte(value), &names)
	if err == nil {
		o.rights, err = rolesOf(names)
	}
	if err != nil {
		return fmt.Errorf("%.300q is not rights by group and domain, such as "+
			"{platform: {'*': admin}, shop-team: {shop: editor}}: %w", value, err)
	}
	return nil
}

// rolesOf reads the names of roles.
func rolesOf(names map[string]map[string]string) (map[string]map[string]account.Role, error) {
	all := map[string]map[string]account.Role{}
	for group, domains := range names {
		all[group] = map[string]account.Role{}
		for domain, name := range domains {
			role, err := account.ParseRole(name)
			if err != nil {
				return nil, err
			}
			all[group][domain] = role
		}
	}
	return all, account.CheckRights(all)
}

// together checks what depends on each other. Nobody is logged in by halves.
func (o *openIDConfig) together() error {
	if o.Issuer == "" {
		for _, given := range []struct {
			name string
			is   bool
		}{
			{"-public-url", o.Public != ""}, {"-oidc-client-id", o.ClientID != ""},
			{"-oidc-client-secret", o.Secret != ""}, {"-oidc-rights", len(o.rights) > 0},
			{"-oidc-scopes", strings.Join(o.Scopes, " ") != defaultScopes},
			{"-oidc-groups-claim", o.Claim != defaultClaim},
		} {
			if given.is {
				return fmt.Errorf("%s needs -oidc-issuer", given.name)
			}
		}
		return nil
	}
	if o.Public == "" || o.ClientID == "" || len(o.rights) == 0 {
		return errors.New("-oidc-issuer needs -public-url, -oidc-client-id and -oidc-rights")
	}
	return nil
}

// issuer is who logs people in, for the accounts.
func (o *openIDConfig) issuer() account.Issuer {
	at, err := url.Parse(o.Issuer)
	if o.Issuer == "" || err != nil {
		return account.Issuer{}
	}
	return account.Issuer{URL: o.Issuer, Host: at.Host, Rights: o.rights}
}

// client is who the service is for the issuer: nil if there is none.
func (o *openIDConfig) client(log *slog.Logger) (*openid.Client, error) {
	if o.Issuer == "" {
		return nil, nil
	}
	c := o.Config
	c.Log = log
	return openid.New(c)
}
