package account

import (
	"context"
	"fmt"
	"time"
)

// seenEvery is how exactly the last use of a session is known: each write is one of the database.
const seenEvery = time.Minute

// begin makes a session in the transaction of a change, if the user's password has this hash, and
// returns the secret by which it is known. No other change comes between the two.
func (a *Accounts) begin(q querier, name, hash string) (token string, err error) {
	still, err := q.count("SELECT COUNT(*) FROM ration_accounts_users"+
		" WHERE name = ? AND password = ?", []byte(name), []byte(hash))
	switch {
	case err != nil:
		return "", err
	case still == 0:
		return "", ErrLogin
	}
	return a.open(q, User{Name: name}, nil)
}

// open makes a session in the transaction of a change, of a user, or of a person whom an issuer has
// logged in as a member of groups. Sessions that have ended are removed meanwhile.
func (a *Accounts) open(q querier, u User, groups []byte) (token string, err error) {
	token, id := secret("")
	t := now()
	err = q.exec("DELETE FROM ration_accounts_sessions WHERE made_at <= ? OR seen_at <= ?",
		t-a.config.Life.Microseconds(), t-a.config.Idle.Microseconds())
	if err != nil {
		return "", err
	}
	return token, q.exec("INSERT INTO ration_accounts_sessions"+
		" (id, name, made_at, seen_at, issuer, subject, member_of) VALUES (?, ?, ?, ?, ?, ?, ?)",
		id, []byte(u.Name), t, t, []byte(u.Issuer), []byte(u.Subject), groups)
}

// Session returns the user of a session, or ErrNoSession. The use counts unless it is only that of
// a page that refreshes itself, which would keep a session alive for as long as a tab is open.
func (a *Accounts) Session(ctx context.Context, token string, counts bool) (User, error) {
	if token == "" || len(token) > maxSecret {
		return User{}, ErrNoSession
	}
	q, done := a.query(ctx)
	defer done()
	id, t := digest(token), now()
	var name, issuer, subject, groups []byte
	var made, seen int64
	err := q.rows(func(scan func(...any) error) error {
		return scan(&name, &made, &seen, &issuer, &subject, &groups)
	}, "SELECT name, made_at, seen_at, issuer, subject, member_of FROM ration_accounts_sessions"+
		" WHERE id = ?", id)
	switch {
	case err != nil:
		return User{}, fmt.Errorf("account: session: %w", err)
	case name == nil, t-made >= a.config.Life.Microseconds(), t-seen >= a.config.Idle.Microseconds():
		return User{}, ErrNoSession
	}
	var u User
	if len(issuer) > 0 {
		u, err = a.entered(name, issuer, subject, groups)
	} else {
		u, err = q.user("= ?", name)
	}
	if err == nil && counts && t-seen >= seenEvery.Microseconds() {
		// Not an INSERT: a session that was ended meanwhile stays so.
		err = q.exec("UPDATE ration_accounts_sessions SET seen_at = ? WHERE id = ?", t, id)
	}
	return u, err
}

// End ends a session, if there is such a one.
func (a *Accounts) End(ctx context.Context, token string) error {
	q, done := a.query(ctx)
	defer done()
	if err := q.exec("DELETE FROM ration_accounts_sessions WHERE id = ?", digest(token)); err != nil {
		return fmt.Errorf("account: end a session: %w", err)
	}
	return nil
}
