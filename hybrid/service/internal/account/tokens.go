package account

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"
)

// MaxTokens is how many tokens a user may have.
const MaxTokens = 50

// A Token is what is known of a token.
type Token struct {
	ID    string // names it; it is not the secret
	Title string
	Made  time.Time

	// TakesOnly says that it takes from limits, and neither sees nor changes rules.
	TakesOnly bool
}

// Tokens returns a user's tokens by title.
func (a *Accounts) Tokens(ctx context.Context, name string) ([]Token, error) {
	q, done := a.query(ctx)
	defer done()
	var list []Token
	err := q.rows(func(scan func(...any) error) error {
		var id, title []byte
		var made int64
		var takesOnly bool
		err := scan(&id, &title, &made, &takesOnly)
		list = append(list, Token{
			hex.EncodeToString(id), string(title), time.UnixMicro(made).UTC(), takesOnly,
		})
		return err
	}, "SELECT id, title, made_at, takes_only FROM ration_accounts_tokens WHERE name = ? "+
		"ORDER BY title", []byte(name))
	if err != nil {
		return nil, fmt.Errorf("account: tokens: %w", err)
	}
	return list, nil
}

// MakeToken makes a token of a user. It has the user's rights, as they are when it is used, or with
// takesOnly no more of them than to take. It is not kept: nobody can read it again. Errors may be
// ErrNoUser, ErrExists and ErrInvalid.
func (a *Accounts) MakeToken(
	ctx context.Context, by By, name, title string, takesOnly bool,
) (string, error) {
	if err := ValidName(title); err != nil {
		return "", fmt.Errorf("account: make token: %w", err)
	}
	token, id := secret("ration_")
	what := "token made"
	if takesOnly {
		what = "token made for taking only"
	}
	err := a.change(ctx, by.event(what, "", name+": "+title), func(q querier) error {
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
		return q.exec("INSERT INTO ration_accounts_tokens (id, name, title, made_at, takes_only)"+
			" VALUES (?, ?, ?, ?, ?)", id, []byte(name), []byte(title), now(), takesOnly)
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
// token is for taking only.
func (a *Accounts) Token(ctx context.Context, token string) (u User, takesOnly bool, err error) {
	if token == "" || len(token) > maxSecret {
		return User{}, false, ErrNoToken
	}
	q, done := a.query(ctx)
	defer done()
	u, takesOnly, err = q.holder("t.takes_only FROM ration_accounts_tokens t"+
		" JOIN ration_accounts_users u ON u.name = t.name", "t.id = ?", digest(token))
	if errors.Is(err, ErrNoUser) {
		err = ErrNoToken
	}
	return u, takesOnly, err
}
