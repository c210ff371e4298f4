package account

import (
	"context"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
)

// First makes the user "admin" with a random password and all rights, if there is no user yet.
func (a *Accounts) First(ctx context.Context) (password string, made bool, err error) {
	users, err := a.Users(ctx)
	if err != nil || len(users) > 0 {
		return "", false, err
	}
	password, err = a.makeAdmin(ctx, "admin, as there was no user", func(q querier) error {
		n, err := q.count("SELECT COUNT(*) FROM ration_accounts_users")
		if err == nil && n > 0 {
			err = ErrExists // another service was faster
		}
		return err
	})
	switch {
	case errors.Is(err, ErrExists):
		return "", false, nil
	case err != nil:
		return "", false, fmt.Errorf("account: first user: %w", err)
	}
	return password, true, nil
}

// ResetAdmin makes the user "admin" anew, with a random password and all rights. The sessions and
// tokens of the one before end.
func (a *Accounts) ResetAdmin(ctx context.Context) (password string, err error) {
	password, err = a.makeAdmin(ctx, "admin, anew", func(q querier) error {
		_, err := q.remove("admin")
		return err
	})
	if err != nil {
		return "", fmt.Errorf("account: reset admin: %w", err)
	}
	return password, nil
}

// makeAdmin makes the user "admin", after what is to be done before.
func (a *Accounts) makeAdmin(
	ctx context.Context, detail string, before func(querier) error,
) (password string, err error) {
	password = strings.ToLower(base32.StdEncoding.EncodeToString(random(15))) // 24 characters
	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return "", err
	}
	e := Event{Who: "service", What: "user made", Detail: detail}
	return password, a.change(ctx, e, func(q querier) error {
		err := before(q)
		if err == nil {
			err = q.insertUser("admin", hash)
		}
		if err == nil {
			err = q.setRight("admin", All, Admin)
		}
		return err
	})
}

// remove removes a user and all that is theirs, and reports whether there was one.
func (q querier) remove(name string) (found bool, err error) {
	n, err := q.affects("DELETE FROM ration_accounts_users WHERE name = ?", []byte(name))
	for _, table := range []string{"rights", "sessions", "tokens"} {
		if err == nil {
			err = q.exec("DELETE FROM ration_accounts_"+table+" WHERE name = ?", []byte(name))
		}
	}
	return n > 0, err
}

func (q querier) insertUser(name, hash string) error {
	return q.exec("INSERT INTO ration_accounts_users (name, password, made_at) VALUES (?, ?, ?)",
		[]byte(name), []byte(hash), now())
}

// Users returns all users by name, with their rights.
func (a *Accounts) Users(ctx context.Context) ([]User, error) {
	q, done := a.query(ctx)
	defer done()
	var users []User
	err := q.rows(func(scan func(...any) error) error {
		var name, domain []byte
		var role *Role
		var password bool
		if err := scan(&name, &domain, &role, &password); err != nil {
			return err
		}
		if n := len(users); n == 0 || users[n-1].Name != string(name) {
			users = append(users, User{
				Name: string(name), Rights: map[string]Role{}, Password: password,
			})
		}
		if role != nil {
			users[len(users)-1].Rights[string(domain)] = *role
		}
		return nil
	}, "SELECT u.name, r.domain, r.role, LENGTH(u.password) > 0 FROM ration_accounts_users u"+
		" LEFT JOIN ration_accounts_rights r ON r.name = u.name ORDER BY u.name, r.domain")
	if err != nil {
		return nil, fmt.Errorf("account: users: %w", err)
	}
	return users, nil
}

// User returns one user, or ErrNoUser.
func (a *Accounts) User(ctx context.Context, name string) (User, error) {
	q, done := a.query(ctx)
	defer done()
	return q.user("= ?", []byte(name))
}

// user returns the user whose name is what the condition says.
func (q querier) user(condition string, arg any) (User, error) {
	return q.holder("FROM ration_accounts_users u", "u.name "+condition, arg)
}

// holder returns the user u of what is selected, whose first columns go to more.
func (q querier) holder(selected, condition string, arg any, more ...any) (u User, err error) {
	u.Rights = map[string]Role{}
	err = q.rows(func(scan func(...any) error) error {
		var name, domain []byte
		var role *Role
		if err := scan(append([]any{&name, &domain, &role, &u.Password}, more...)...); err != nil {
			return err
		}
		u.Name = string(name)
		if role != nil {
			u.Rights[string(domain)] = *role
		}
		return nil
	}, "SELECT u.name, r.domain, r.role, LENGTH(u.password) > 0 "+selected+
		" LEFT JOIN ration_accounts_rights r ON r.name = u.name WHERE "+condition, arg)
	switch {
	case err != nil:
		return User{}, fmt.Errorf("account: user: %w", err)
	case u.Name == "":
		return User{}, ErrNoUser
	}
	return u, nil
}

// Make makes a user without rights. One with an empty password has none, and comes in by a proxy
// only. Errors may be ErrExists and ErrInvalid.
func (a *Accounts) Make(ctx context.Context, by By, name, password string) error {
	err := ValidName(name)
	var hash string
	if err == nil && password != "" {
		hash, err = a.hashNew(ctx, password)
	}
	if err != nil {
		return fmt.Errorf("account: make user: %w", err)
	}
	err = a.change(ctx, by.event("user made", "", name), func(q querier) error {
		n, err := q.count("SELECT COUNT(*) FROM ration_accounts_users WHERE name = ?", []byte(name))
		switch {
		case err != nil:
			return err
		case n > 0:
			return ErrExists
		}
		return q.insertUser(name, hash)
	})
	if err != nil {
		return fmt.Errorf("account: make user %q: %w", name, err)
	}
	return nil
}

func (a *Accounts) hashNew(ctx context.Context, password string) (string, error) {
	if err := ValidPassword(password); err != nil {
		return "", err
	}
	return a.hasher.hash(ctx, password)
}

// Delete deletes a user, and all that was theirs but for the audit log. Errors may be ErrNoUser
// and ErrLastAdmin.
func (a *Accounts) Delete(ctx context.Context, by By, name string) error {
	err := a.change(ctx, by.event("user deleted", "", name), func(q querier) error {
		found, err := q.remove(name)
		if err == nil && !found {
			err = ErrNoUser
		}
		if err == nil {
			err = a.stillAdmin(q)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("account: delete user %.128q: %w", name, err)
	}
	return nil
}

// SetRight gives a user a role for a domain, or All, in place of the one before; None takes it
// away. Errors may be ErrNoUser, ErrInvalid and ErrLastAdmin.
func (a *Accounts) SetRight(ctx context.Context, by By, name, domain string, role Role) error {
	if domain == "" || len(domain) > MaxDomain || role < None || role > Admin {
		return fmt.Errorf("account: %w: role %v for a domain of %d bytes (1 to %d)",
			ErrInvalid, role, len(domain), MaxDomain)
	}
	e := by.event("rights changed", domain, name+" is "+role.String())
	err := a.change(ctx, e, func(q querier) error {
		if _, err := q.user("= ?", []byte(name)); err != nil {
			return err
		}
		if err := q.setRight(name, domain, role); err != nil {
			return err
		}
		return a.stillAdmin(q)
	})
	if err != nil {
		return fmt.Errorf("account: rights of %.128q: %w", name, err)
	}
	return nil
}

func (q querier) setRight(name, domain string, role Role) error {
	err := q.exec("DELETE FROM ration_accounts_rights WHERE name = ? AND domain = ?",
		[]byte(name), []byte(domain))
	if err == nil && role > None {
		err = q.exec("INSERT INTO ration_accounts_rights (name, domain, role) VALUES (?, ?, ?)",
			[]byte(name), []byte(domain), int(role))
	}
	return err
}

// stillAdmin returns ErrLastAdmin if nobody could come in and change users any more.
func (a *Accounts) stillAdmin(q querier) error {
	n, err := q.count("SELECT COUNT(*) FROM ration_accounts_rights r"+
		" JOIN ration_accounts_users u ON u.name = r.name"+
		" WHERE r.domain = ? AND r.role = ? AND (LENGTH(u.password) > 0 OR ? = 1)",
		[]byte(All), int(Admin), map[bool]int{true: 1}[a.config.Proxied])
	if err == nil && n == 0 {
		err = ErrLastAdmin
	}
	return err
}

// Login makes a session of the user by.Who, if this is the password, and notes it. It returns the
// secret by which the session is known. ErrLogin comes after the same time whether it is the name
// or the password that is wrong, also if the password was changed meanwhile. ErrBusy says that many
// others log in at the moment. The caller limits how often it is called.
func (a *Accounts) Login(ctx context.Context, by By, password string) (session string, err error) {
	hash, err := a.prove(ctx, by.Who, password)
	if err == nil {
		err = a.change(ctx, by.event("logged in", "", ""), func(q querier) error {
			session, err = a.begin(q, by.Who, hash)
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("account: login: %w", err)
	}
	return session, nil
}

// prove returns the hash of a user's password if it is that of this one, else ErrLogin.
func (a *Accounts) prove(ctx context.Context, name, password string) (hash string, err error) {
	if len(name) > MaxName || len(password) > MaxPassword {
		name, password = "", ""
	}
	if hash, err = a.password(ctx, name); err != nil {
		return "", err
	}
	ok, err := a.hasher.matches(ctx, hash, password)
	if err == nil && !ok {
		err = ErrLogin
	}
	return hash, err
}

// password returns the hash of a user's password, or none.
func (a *Accounts) password(ctx context.Context, name string) (hash string, err error) {
	q, done := a.query(ctx)
	defer done()
	err = q.rows(func(scan func(...any) error) error { return scan(&hash) },
		"SELECT password FROM ration_accounts_users WHERE name = ?", []byte(name))
	return hash, err
}

// SetPassword gives a user another password, and ends the user's sessions. Errors may be ErrNoUser,
// ErrInvalid and ErrBusy.
func (a *Accounts) SetPassword(ctx context.Context, by By, name, password string) error {
	hash, err := a.hashNew(ctx, password)
	if err == nil {
		err = a.setHash(ctx, by.event("password changed", "", name), name, hash)
	}
	if err != nil {
		return fmt.Errorf("account: password of %.128q: %w", name, err)
	}
	return nil
}

// RemovePassword leaves a user without a password, who comes in by a proxy only then, and ends the
// user's sessions. Errors may be ErrNoUser and ErrLastAdmin.
func (a *Accounts) RemovePassword(ctx context.Context, by By, name string) error {
	if err := a.setHash(ctx, by.event("password removed", "", name), name, ""); err != nil {
		return fmt.Errorf("account: remove the password of %.128q: %w", name, err)
	}
	return nil
}

// setHash replaces the hash of a user's password, and notes it.
func (a *Accounts) setHash(ctx context.Context, e Event, name, hash string) error {
	return a.change(ctx, e, func(q querier) error {
		if _, err := q.user("= ?", []byte(name)); err != nil {
			return err
		}
		err := q.exec("UPDATE ration_accounts_users SET password = ? WHERE name = ?",
			[]byte(hash), []byte(name))
		if err == nil {
			err = q.exec("DELETE FROM ration_accounts_sessions WHERE name = ?", []byte(name))
		}
		if err == nil && hash == "" {
			err = a.stillAdmin(q)
		}
		return err
	})
}

// ChangePassword gives the user by.Who another password, if the one before is right and still the
// user's. It ends the user's sessions, and returns the secret of a new one. Errors may be ErrLogin,
// ErrInvalid and ErrBusy. The caller limits how often it is called.
func (a *Accounts) ChangePassword(
	ctx context.Context, by By, before, password string,
) (session string, err error) {
	var was, hash string
	if err = ValidPassword(password); err == nil {
		was, err = a.prove(ctx, by.Who, before)
	}
	if err == nil {
		hash, err = a.hasher.hash(ctx, password)
	}
	if err == nil {
		err = a.change(ctx, by.event("password changed", "", by.Who), func(q querier) error {
			n, err := q.affects("UPDATE ration_accounts_users SET password = ?"+
				" WHERE name = ? AND password = ?", []byte(hash), []byte(by.Who), []byte(was))
			if err == nil && n == 0 {
				err = ErrLogin
			}
			if err == nil {
				err = q.exec("DELETE FROM ration_accounts_sessions WHERE name = ?", []byte(by.Who))
			}
			if err == nil {
				session, err = a.begin(q, by.Who, hash)
			}
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("account: password of %.128q: %w", by.Who, err)
	}
	return session, nil
}
