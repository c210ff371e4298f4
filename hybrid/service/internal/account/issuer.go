package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// An Issuer logs people in who are no users of the database: OpenID Connect has such.
type Issuer struct {
	URL  string // 1 to 512 bytes
	Host string // of the URL: it is part of names

	// Rights are what the members of a group may do, by domain or All.
	Rights map[string]map[string]Role
}

// A Person is whom an issuer has logged in, as the issuer says.
type Person struct {
	Name, Subject string
	Groups        []string
}

// ErrNoRights says that no group of a person has rights.
var ErrNoRights = errors.New("no group has rights")

// maxSubject is that of OpenID Connect.
const maxSubject = 255

// loginKept is for how long a login is known to have made a session. It is longer than a login may
// take.
const loginKept = time.Hour

// named is what a person is called here. No user of the issuer can choose a name of another issuer, or
// of a user of the database, unless an admin has made one of such a name.
func (i Issuer) named(p Person) (string, error) {
	name := p.Name + " (" + i.Host + ")"
	err := ValidName(p.Name)
	if err == nil {
		err = ValidName(name)
	}
	if err == nil && (len(p.Subject) > maxSubject || !validate.Readable(p.Subject)) {
		err = fmt.Errorf("%w: a subject of %d bytes", ErrInvalid, len(p.Subject))
	}
	return name, err
}

// known are the groups that have rights, in order.
func (i Issuer) known(groups []string) []string {
	var list []string
	for _, g := range groups {
		if len(i.Rights[g]) > 0 {
			list = append(list, g)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// rights are those of the members of groups.
func (i Issuer) rights(groups []string) map[string]Role {
	all := map[string]Role{}
	for _, g := range groups {
		for domain, role := range i.Rights[g] {
			all[domain] = max(all[domain], role)
		}
	}
	return all
}

// Enter makes a session of a person whom Config.Issuer has logged in, and notes it. A login, which is
// named by its secret, makes one session at most. It returns the person as a user, and the secret by
// which the session is known. Errors may be ErrNoRights, with the user, ErrInvalid, and ErrLogin of a
// login that was used.
func (a *Accounts) Enter(
	ctx context.Context, address string, p Person, login string,
) (u User, session string, err error) {
	i := a.config.Issuer
	u = User{Issuer: i.URL}
	if u.Name, err = i.named(p); err != nil {
		return User{}, "", fmt.Errorf("account: enter: %w", err)
	}
	groups := i.known(p.Groups)
	if u.Rights = i.rights(groups); len(u.Rights) == 0 {
		return u, "", fmt.Errorf("account: enter: %w: of %q", ErrNoRights, u.Name)
	}
	e := By{Who: u.Name, Address: address}.event("logged in", "", fmt.Sprintf(
		"by %s, subject %q, groups %q", i.URL, p.Subject, groups))
	err = a.change(ctx, e, func(q querier) error {
		if err := q.useUp(login); err != nil {
			return err
		}
		list, err := json.Marshal(groups)
		if err == nil {
			session, err = a.open(q, u.Name, i.URL, list)
		}
		return err
	})
	if err != nil {
		return User{}, "", fmt.Errorf("account: enter: %w", err)
	}
	return u, session, nil
}

// useUp returns ErrLogin if a login has made a session already. No other change comes between.
func (q querier) useUp(login string) error {
	id, t := digest(login), now()
	err := q.exec("DELETE FROM ration_accounts_logins WHERE made_at <= ?", t-loginKept.Microseconds())
	if err != nil {
		return err
	}
	n, err := q.count("SELECT COUNT(*) FROM ration_accounts_logins WHERE id = ?", id)
	switch {
	case err != nil:
		return err
	case n > 0:
		return ErrLogin
	}
	return q.exec("INSERT INTO ration_accounts_logins (id, made_at) VALUES (?, ?)", id, t)
}

// entered is the user of a session by an issuer, with the rights that its groups have now. It is
// ErrNoSession once they have none, or people come by another issuer.
func (a *Accounts) entered(name, issuer, groups []byte) (User, error) {
	i := a.config.Issuer
	var list []string
	if err := json.Unmarshal(groups, &list); err != nil {
		return User{}, fmt.Errorf("account: groups of a session: %w", err)
	}
	rights := i.rights(list)
	if string(issuer) != i.URL || len(rights) == 0 {
		return User{}, ErrNoSession
	}
	return User{Name: string(name), Rights: rights, Issuer: i.URL}, nil
}

// An Entered is a person with sessions by Config.Issuer.
type Entered struct {
	User
	Sessions int
	Last     time.Time // of the logins of these
}

// mostEntered bounds how many sessions are listed.
const mostEntered = 1000

// Entered returns who has sessions by Config.Issuer, by name. Of many sessions it returns those of the
// first names.
func (a *Accounts) Entered(ctx context.Context) ([]Entered, error) {
	if a.config.Issuer.URL == "" {
		return nil, nil
	}
	q, done := a.query(ctx)
	defer done()
	var list []Entered
	t := now()
	err := q.rows(func(scan func(...any) error) error {
		var name, groups []byte
		var made int64
		if err := scan(&name, &groups, &made); err != nil {
			return err
		}
		u, err := a.entered(name, []byte(a.config.Issuer.URL), groups)
		switch last := len(list) - 1; {
		case errors.Is(err, ErrNoSession):
			return nil
		case err != nil:
			return err
		case last >= 0 && list[last].Name == u.Name: // its newest login comes last
			list[last] = Entered{u, list[last].Sessions + 1, time.UnixMicro(made).UTC()}
		default:
			list = append(list, Entered{u, 1, time.UnixMicro(made).UTC()})
		}
		return nil
	}, "SELECT name, member_of, made_at FROM ration_accounts_sessions"+
		" WHERE issuer = ? AND made_at > ? AND seen_at > ? ORDER BY name, made_at LIMIT ?",
		[]byte(a.config.Issuer.URL), t-a.config.Life.Microseconds(), t-a.config.Idle.Microseconds(),
		mostEntered)
	if err != nil {
		return nil, fmt.Errorf("account: entered: %w", err)
	}
	return list, nil
}

// Expel ends the sessions that a person has by an issuer. It keeps nobody from another login.
// ErrNoSession says that there is none.
func (a *Accounts) Expel(ctx context.Context, by By, name string) error {
	err := a.change(ctx, by.event("sessions ended", "", name), func(q querier) error {
		n, err := q.affects("DELETE FROM ration_accounts_sessions WHERE name = ? AND issuer <> ?",
			[]byte(name), []byte{})
		if err == nil && n == 0 {
			err = ErrNoSession
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("account: end the sessions of %.128q: %w", name, err)
	}
	return nil
}

func (i Issuer) check() error {
	if i.URL == "" {
		return nil
	}
	if i.Host == "" || len(i.URL) > 512 || len(i.Rights) == 0 {
		return fmt.Errorf("Config.Issuer %.100q needs a host, 512 bytes at most, and groups with rights",
			i.URL)
	}
	for _, group := range slices.Sorted(maps.Keys(i.Rights)) {
		for domain, role := range i.Rights[group] {
			if domain == "" || len(domain) > MaxDomain || role <= None || role > Admin {
				return fmt.Errorf("Config.Issuer: role %v for a domain of %d bytes (1 to %d)", role,
					len(domain), MaxDomain)
			}
		}
	}
	return nil
}
