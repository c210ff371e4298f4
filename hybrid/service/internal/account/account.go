// Package account has the users of the service in a database: their rights by domain, passwords,
// sessions and tokens, and a log of what was done. Sessions may also be of people whom an issuer
// has logged in, with the rights of their groups.
//
// # Promise
//
// The database has no password, session or token, but only hashes of them: argon2id of passwords,
// and SHA-256 of the others, which have 256 random bits. Rights are read for each request, so
// that a change is in force with the next one; the groups of a person whom an issuer has logged in
// are those of the login. A change of users and its line in the audit log
// are one transaction. There is always a user who may change the others, and can come in.
//
// # Not promised
//
// The audit log is not trimmed. A program that can write to the database can write anything there.
package account

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/validate"
)

// Errors that callers tell apart. All but ErrBusy and ErrLogin have a text for the user.
var (
	ErrLogin     = errors.New("the name or the password is wrong")
	ErrBusy      = errors.New("too many passwords are being checked")
	ErrNoSession = errors.New("no such session")
	ErrNoToken   = errors.New("no such token")
	ErrNoUser    = errors.New("no such user")
	ErrExists    = errors.New("it exists already")
	ErrLastAdmin = errors.New("it is the last user with the role admin for all domains who can log in")
	ErrInvalid   = errors.New("invalid")
)

// Config configures Accounts. The zero Config is a good one.
type Config struct {
	Cost Cost // of a password's hash. Default: DefaultCost

	// Proxied says that a proxy may log users in: one without a password can come in, too.
	Proxied bool

	// Issuer logs people in by its groups. The zero Issuer logs in nobody.
	Issuer Issuer

	// Idle ends a session that was not used for as long, and Life ends each, 1 min to 1 year.
	// Defaults: 1 h, and 12 h.
	Idle, Life time.Duration
}

func (c Config) withDefaults() (Config, error) {
	if c.Cost == (Cost{}) {
		c.Cost = DefaultCost
	}
	if err := errors.Join(c.Cost.check(), c.Issuer.check()); err != nil {
		return c, err
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		other time.Duration
	}{{"Idle", &c.Idle, time.Hour}, {"Life", &c.Life, 12 * time.Hour}} {
		if *d.value == 0 {
			*d.value = d.other
		}
		if *d.value < time.Minute || *d.value > 365*24*time.Hour {
			return c, fmt.Errorf("Config.%s %v is not from 1 min to 1 year", d.name, *d.value)
		}
	}
	return c, nil
}

// Accounts are the users in a database. They are safe for concurrent use, and need no Close; the
// database stays its caller's to close. Methods block for a few queries, at most 5 s, and those
// that hash a password for 5 s more.
type Accounts struct {
	db      *sql.DB
	dialect sqlrules.Dialect
	config  Config
	hasher  *hasher
	used    uses
}

// Open makes the tables, or brings them to this version, which needs the right to do so.
func Open(
	ctx context.Context, db *sql.DB, d sqlrules.Dialect, c Config,
) (*Accounts, error) {
	c, err := c.withDefaults()
	if err == nil {
		err = migrate(ctx, db, d)
	}
	if err != nil {
		return nil, fmt.Errorf("account: open: %w", err)
	}
	return &Accounts{db: db, dialect: d, config: c, hasher: newHasher(c.Cost)}, nil
}

//go:embed migrations
var migrations embed.FS

// migrate makes the tables, or brings those of an older version to this one.
func migrate(ctx context.Context, db *sql.DB, d sqlrules.Dialect) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return sqlrules.MigrateFiles(ctx, db, d, files, "ration_accounts_migrations")
}

// A Role is what a user may do with a domain. Each may do what those before it may.
type Role int

const (
	None   Role = iota
	Viewer      // see its rules, figures and history; take from its limits by a token
	Editor      // change its rules, and roll back
	Admin       // make and delete it, and see its part of the audit log
)

var roles = [...]string{"none", "viewer", "editor", "admin"}

// String is the name in lower case.
func (r Role) String() string {
	if r < None || r > Admin {
		return fmt.Sprintf("Role(%d)", int(r))
	}
	return roles[r]
}

// ParseRole reads viewer, editor or admin.
func ParseRole(text string) (Role, error) {
	for r := Viewer; r <= Admin; r++ {
		if r.String() == text {
			return r, nil
		}
	}
	return None, fmt.Errorf("%w: role %.20q is not viewer, editor or admin", ErrInvalid, text)
}

// All stands for all domains in a User's Rights.
const All = "*"

// A User is a name with rights.
type User struct {
	Name     string
	Rights   map[string]Role // by domain, or All
	Password bool            // there is one

	// Issuer has logged the user in, who is none of the database. Empty: the user is one. Subject
	// is who that is there: a name may be that of several people, one after the other or at once.
	Issuer, Subject string
}

// May reports whether the user has at least the role for a domain.
func (u User) May(domain string, role Role) bool {
	return role > None && (u.Rights[All] >= role || u.Rights[domain] >= role)
}

// Bounds of what is kept, in bytes.
const (
	MaxName     = 128
	MaxDomain   = validate.MaxDomain
	MinPassword = 12
	MaxPassword = 1024
)

// ValidName returns an error if no user, and no token, may have the name.
func ValidName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: a name is missing", ErrInvalid)
	case len(name) > MaxName:
		return fmt.Errorf("%w: a name of %d bytes is longer than %d", ErrInvalid, len(name), MaxName)
	case name == ".", name == "..": // no path leads to them
		return fmt.Errorf("%w: name %q", ErrInvalid, name)
	case !validate.Distinct(name), strings.TrimSpace(name) != name:
		return fmt.Errorf("%w: name %q has a character that cannot be seen, or a space at an end",
			ErrInvalid, name)
	}
	return nil
}

// ValidPassword returns an error if a password is too short or too long.
func ValidPassword(password string) error {
	if n := len(password); n < MinPassword || n > MaxPassword {
		return fmt.Errorf("%w: a password has %d to %d bytes", ErrInvalid, MinPassword, MaxPassword)
	}
	return nil
}

// patience bounds the queries of a method.
const patience = 5 * time.Second

// change makes a change of users as one transaction, with its event. Others wait for it.
func (a *Accounts) change(ctx context.Context, e Event, do func(q querier) error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tx, err := a.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	q := querier{ctx, tx}
	err = q.exec("UPDATE ration_accounts_state SET changes = changes + 1 WHERE id = 1")
	if err == nil {
		err = do(q)
	}
	if err == nil {
		err = q.note(e)
	}
	if err == nil {
		err = tx.Commit()
	}
	return err
}

// query returns what asks the database, and its end.
func (a *Accounts) query(ctx context.Context) (querier, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	return querier{ctx, a.db}, cancel
}

// A querier is a database or a transaction.
type querier struct {
	ctx context.Context
	on  interface {
		ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
		QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	}
}

func (q querier) exec(query string, args ...any) error {
	_, err := q.on.ExecContext(q.ctx, query, args...)
	return err
}

// affects is exec, and returns how many rows it was about.
func (q querier) affects(query string, args ...any) (int64, error) {
	r, err := q.on.ExecContext(q.ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// count is the number that a query returns.
func (q querier) count(query string, args ...any) (n int, err error) {
	err = q.rows(func(scan func(...any) error) error { return scan(&n) }, query, args...)
	return n, err
}

// rows calls each for each row.
func (q querier) rows(each func(scan func(...any) error) error, query string, args ...any) error {
	rows, err := q.on.QueryContext(q.ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// now is as the database has times.
func now() int64 { return time.Now().UnixMicro() }

// secret makes 256 random bits, and what is stored of them.
func secret(prefix string) (text string, id []byte) {
	text = prefix + base64.RawURLEncoding.EncodeToString(random(32))
	return text, digest(text)
}

func digest(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// maxSecret is longer than any: nothing longer is hashed.
const maxSecret = 128
