package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed13b07268/ration/hybrid/service/internal/account"
	"github.com/seed13b07268/ration/hybrid/service/internal/openid"
)

// openIDConfig is who logs people in by OpenID Connect, if anybody does.
type openIDConfig struct {
	openid.Config
	rights map[string]map[string]account.Role // by group and domain
	scopes string
}

// openIDOptions are how people log in by OpenID Connect.
func (c *config) openIDOptions() []option {
	o := &c.openID
	return []option{
		{"public-url", "", "`URL` of the page, as browsers have it, such as https://ration.example.com",
			secureURL(&o.Public)},
		{"oidc-issuer", "", "`URL` of an issuer of OpenID Connect that logs people in",
			secureURL(&o.Issuer)},
		{"oidc-client-id", "", "`id` of the service at the issuer", text(&o.ClientID)},
		{"oidc-client-secret", "", "`secret` of that, if the issuer has given one", text(&o.Secret)},
		{"oidc-scopes", "openid profile email", "`scopes` to ask for, with spaces between",
			text(&o.scopes)},
		{"oidc-groups-claim", "groups", "`claim` of the ID token that has the groups of a person",
			text(&o.Claim)},
		{"oidc-rights", "", "`rights` of the members of groups, by domain, as YAML: " +
			"{platform: {'*': admin}, shop-team: {shop: editor, bank: viewer}}", o.setRights},
	}
}

func secureURL(to *string) func(string) error {
	return func(value string) error {
		*to = value
		return openid.CheckURL(value)
	}
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
		o.rights, err = roleNames(names)
	}
	if err != nil {
		return fmt.Errorf("%q is not rights by group and domain, such as "+
			"{platform: {'*': admin}, shop-team: {shop: editor}}: %w", value, err)
	}
	return nil
}

// roleNames reads the roles. None of them is empty: a group without rights is a mistake.
func roleNames(names map[string]map[string]string) (map[string]map[string]account.Role, error) {
	all := map[string]map[string]account.Role{}
	for group, domains := range names {
		all[group] = map[string]account.Role{}
		for domain, name := range domains {
			role, err := account.ParseRole(name)
			if err != nil {
				return nil, err
			}
			if domain == "" || len(domain) > account.MaxDomain {
				return nil, fmt.Errorf("a domain has %d bytes", len(domain))
			}
			all[group][domain] = role
		}
		if group == "" || len(domains) == 0 {
			return nil, fmt.Errorf("group %.100q has no name, or no rights", group)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no group")
	}
	return all, nil
}

// together checks what depends on each other. Nobody is logged in by halves.
func (o *openIDConfig) together() error {
	o.Scopes = strings.Fields(o.scopes)
	if o.Issuer == "" {
		if o.Public != "" || o.ClientID != "" || o.Secret != "" || len(o.rights) > 0 {
			return errors.New("-public-url, -oidc-client-id, -oidc-client-secret and -oidc-rights need " +
				"-oidc-issuer")
		}
		return nil
	}
	if o.Public == "" || o.ClientID == "" || len(o.rights) == 0 {
		return errors.New("-oidc-issuer needs -public-url, -oidc-client-id and -oidc-rights")
	}
	if err := o.Check(); err != nil {
		return fmt.Errorf("OpenID Connect: %w", err)
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
