package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// MaxTokens is how many tokens a user may have.
const MaxTokens = 50

// A Token is what is known of a token.
type Token struct {
	ID    string // names it; it is not the secret
	Title string
	Made  time.Time

	// Used is when it was last used, to within usedEvery; zero: never. What a database refused to
	// write is missing.
	Used time.Time

	// Ends is when it is no token any more; zero: never.
	Ends time.Time

	// TakesOnly says that it takes from limits, and neither sees nor changes rules.
	TakesOnly bool
}

// Ended reports whether it is no token any more.
func (t Token) Ended() bool { return !t.Ends.IsZero() && !time.Now().Before(t.Ends) }

// usedEvery is how exactly the last use of a token is known: each write is one of the database.
const usedEvery = time.Minute

// uses are when this process last wrote that a token was used, by its ID. An attempt that has
// failed is one as well: requests do not wait for a database that refuses each of them.
type uses struct {
	mu   sync.Mutex
	last map[string]int64
}

// mostUses bounds them. The attempts of more tokens are forgotten, and made again.
const mostUses = 10_000

// due reports whether the use of a token at a time is to be written, and takes it for written.
func (u *uses) due(id []byte, at, written int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at-max(written, u.last[string(id)]) < usedEvery.Microseconds() {
		return false
	}
	if u.last == nil || len(u.last) >= mostUses {
		u.last = map[string]int64{}
	}
	u.last[string(id)] = at
	return true
}

// Tokens returns a user's tokens by title.
func (a *Accounts) Tokens(ctx context.Context, name string) ([]Token, error) {
	q, done := a.query(ctx)
	defer done()
	var list []Token
	err := q.rows(func(scan func(...any) error) error {
		var id, title []byte
		var made, used, ends int64
		var takesOnly bool
		err := scan(&id, &title, &made, &used, &ends, &takesOnly)
		list = append(list, Token{
			ID: hex.EncodeToString(id), Title: string(title), Made: time.UnixMicro(made).UTC(),
			Used: moment(used), Ends: moment(ends), TakesOnly: takesOnly,
		})
		return err
	}, "SELECT id, title, made_at, used_at, ends_at, takes_only FROM ration_accounts_tokens WHERE name = ? "+
		"ORDER BY title", []byte(name))
	if err != nil {
		return nil, fmt.Errorf("account: tokens: %w", err)
	}
	return list, nil
}

// moment is a time of the database, or zero if it has 0.
func moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at).UTC()
}

// MakeToken makes a token of a user with t's Title, Ends and TakesOnly. It has the user's rights,
// as they are when it is used, or with TakesOnly no more of them than to take. It is not kept:
// nobody can read it again. Errors may be ErrNoUser, ErrExists and ErrInvalid.
func (a *Accounts) MakeToken(ctx context.Context, by By, name string, t Token) (string, error) {
	title, ends, detail := t.Title, int64(0), name+": "+t.Title
	err := ValidName(title)
	if err == nil && t.Ended() {
		err = fmt.Errorf("%w: a token cannot end before it is made", ErrInvalid)
	}
	if err != nil {
		return "", fmt.Errorf("account: make token: %w", err)
	}
	if !t.Ends.IsZero() {
		ends = t.Ends.UnixMicro()
		detail += ", until " + t.Ends.UTC().Format(time.DateOnly)
	}
	token, id := secret("ration_")
	what := "token made"
	if t.TakesOnly {
		what = "token made for taking only"
	}
	err = a.change(ctx, by.event(what, "", detail), func(q querier) error {
		if _, err := q.user("= ?", []byte(name)); err != nil {
			return err
		}
		same, err := q.count("SELECT COUNT(*) FROM ration_accounts_tokens"+
			" WHERE name = ? AND title = ?", []byte(name), []byte(title))
		if err != nil {
			return err
		}
		all, err := q.count("SELECT COUNT(*) FROM ration_accounts_tokens WHERE name = ?", []byte(name))
		switch {
		case err != nil:
			return err
		case same > 0:
			return ErrExists
		case all >= MaxTokens:
			return fmt.Errorf("%w: a user has at most %d tokens", ErrInvalid, MaxTokens)
		}
		return q.exec("INSERT INTO ration_accounts_tokens"+
			" (id, name, title, made_at, ends_at, takes_only) VALUES (?, ?, ?, ?, ?, ?)",
			id, []byte(name), []byte(title), now(), ends, t.TakesOnly)
	})
	if err != nil {
		return "", fmt.Errorf("account: make token %.128q: %w", title, err)
	}
	return token, nil
}

// Revoke deletes a token of a user by its ID, and returns its title. ErrNoToken says that there is
// none.
func (a *Accounts) Revoke(ctx context.Context, by By, name, id string) (title string, err error) {
	list, err := a.Tokens(ctx, name)
	if err != nil {
		return "", err
	}
	i := slices.IndexFunc(list, func(t Token) bool { return t.ID == id })
	if i < 0 {
		return "", fmt.Errorf("account: revoke a token: %w", ErrNoToken)
	}
	title = list[i].Title
	err = a.change(ctx, by.event("token revoked", "", name+": "+title), func(q querier) error {
		key, err := hex.DecodeString(id)
		if err != nil {
			return err
		}
		n, err := q.affects("DELETE FROM ration_accounts_tokens WHERE id = ?", key)
		if err == nil && n == 0 {
			err = ErrNoToken
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("account: revoke token %.128q: %w", title, err)
	}
	return title, nil
}

// Token returns the user of a token, with the rights of this moment, or ErrNoToken; and whether the
// token is for taking only. Its use is noted; a database that cannot write keeps no token from
// being used.
func (a *Accounts) Token(ctx context.Context, token string) (u User, takesOnly bool, err error) {
	if token == "" || len(token) > maxSecret {
		return User{}, false, ErrNoToken
	}
	q, done := a.query(ctx)
	defer done()
	id, at := digest(token), now()
	var used, ends int64
	u, err = q.holder(", t.used_at, t.ends_at, t.takes_only FROM ration_accounts_tokens t"+
		" JOIN ration_accounts_users u ON u.name = t.name", "t.id = ?", id, &used, &ends, &takesOnly)
	switch {
	case errors.Is(err, ErrNoUser), err == nil && ends != 0 && ends <= at:
		return User{}, false, ErrNoToken
	case err != nil:
		return User{}, false, err
	}
	if a.used.due(id, at, used) {
		// Not an INSERT: a token that was revoked meanwhile stays so.
		_ = q.exec("UPDATE ration_accounts_tokens SET used_at = ? WHERE id = ?", at, id)
	}
	return u, takesOnly, nil
}
