// Package sqlrules keeps rules in a database: a rules.Book for SQLite, MySQL and MariaDB.
//
// # Promise
//
// A change is one transaction, whole or not at all; the key (domain, version) is unique. Of two
// changes with the same Base one is made, and the other gets rules.ErrConflict. A change that was
// answered is there as long as the database keeps what it has committed. Processes see a change
// within 400 ms and the time of two queries.
//
// A process that has read rules does not take their loss for a deletion. Where the database was
// emptied, or restored from a backup, Load returns an error, so that a rules.Limiter keeps the
// rules that it has. Save or delete the domains that the error names, and it is over; or start
// the processes anew, to take the state as it is.
//
// # Not promised
//
// The history is not trimmed: each change is a row that stays.
//
// # Duties
//
// Call Migrate once before the first use of a database, and after an update of this package. This
// package imports no driver: import modernc.org/sqlite or github.com/go-sql-driver/mysql, or
// another one for the same databases. A SQLite that several connections use needs a busy timeout:
// "file:rules.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)". A Book needs SELECT and
// INSERT on ration_rules_revisions, SELECT and UPDATE on ration_rules_state; a reader, SELECT.
package sqlrules

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/book"
)

// patience bounds each method but Wait, and each look of Wait.
const patience = 5 * time.Second

// A Dialect is what kind of database it is.
type Dialect int

const (
	SQLite Dialect = iota + 1
	MySQL          // or MariaDB
)

// String is the name in lower case.
func (d Dialect) String() string {
	switch d {
	case SQLite:
		return "sqlite"
	case MySQL:
		return "mysql"
	}
	return fmt.Sprintf("Dialect(%d)", int(d))
}

// A Book is rules in a database. It is safe for concurrent use, and needs no Close; the database
// stays its caller's to close.
type Book struct {
	db      *sql.DB
	dialect Dialect
	seen    book.Seen
}

var _ rules.Book = (*Book)(nil)

// New returns the book of a database. It does not connect.
func New(db *sql.DB, d Dialect) (*Book, error) {
	if err := check(db, d); err != nil {
		return nil, fmt.Errorf("sqlrules: %w", err)
	}
	return &Book{db: db, dialect: d}, nil
}

func check(db *sql.DB, d Dialect) error {
	switch {
	case db == nil:
		return errors.New("no database")
	case d != SQLite && d != MySQL:
		return fmt.Errorf("dialect %v is neither SQLite nor MySQL", d)
	}
	return nil
}

const columns = "domain, version, base, content, author, reason, saved_at"

// queries, the same in all dialects but for the time.
const (
	lastChange = "SELECT last_change FROM ration_rules_state WHERE id = 1"
	noteChange = "UPDATE ration_rules_state SET last_change = ? WHERE id = 1"
	newestOf   = "SELECT " + columns + " FROM ration_rules_revisions WHERE domain = ?" +
		" ORDER BY version DESC LIMIT 1"
	before = "SELECT " + columns + " FROM ration_rules_revisions" +
		" WHERE domain = ? AND version < ? ORDER BY version DESC LIMIT ?"
	newestOfAll = "SELECT " + columns + " FROM ration_rules_revisions JOIN" +
		" (SELECT domain AS d, MAX(version) AS v FROM ration_rules_revisions GROUP BY domain) newest" +
		" ON domain = d AND version = v"
	domains = "SELECT COUNT(DISTINCT domain) FROM ration_rules_revisions"
	insert  = "INSERT INTO ration_rules_revisions (" + columns + ") VALUES (?, ?, ?, ?, ?, ?, "
)

// now is the time of the database in microseconds since 1970.
func (d Dialect) now() string {
	if d == MySQL {
		return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))"
	}
	return "CAST(strftime('%s', 'now') AS INTEGER) * 1000000" +
		" + CAST(substr(strftime('%f', 'now'), 4) AS INTEGER) * 1000"
}

// Load returns the rules of all domains, of one snapshot of the database. An error says so if
// changes that it has returned before are missing now. It returns after 5 s at the latest, if
// the driver does as its context ends.
func (b *Book) Load(ctx context.Context) ([]rules.Document, string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	newest, tag, err := b.load(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("sqlrules: load: %w", err)
	}
	if err := b.seen.Accept(newest); err != nil {
		return nil, "", fmt.Errorf("sqlrules: load: state was lost: %w", err)
	}
	return book.Documents("sql", newest), tag, nil
}

func (b *Book) load(ctx context.Context) (newest []rules.Revision, tag string, err error) {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: b.snapshot()})
	if err != nil {
		return nil, "", err
	}
	defer tx.Rollback()
	if err := tx.QueryRowContext(ctx, lastChange).Scan(&tag); err != nil {
		return nil, "", err
	}
	newest, err = revisions(ctx, tx, newestOfAll)
	return newest, tag, err
}

// snapshot is the level at which all queries of a transaction see the same state.
func (b *Book) snapshot() sql.IsolationLevel {
	if b.dialect == MySQL {
		return sql.LevelRepeatableRead
	}
	return sql.LevelDefault // serializable
}

// Wait returns when the state is another one than that of the tag. It looks each 400 ms, by one
// row.
func (b *Book) Wait(ctx context.Context, tag string) error {
	tick := time.NewTicker(book.Poll)
	defer tick.Stop()
	for {
		now, err := b.last(ctx)
		if err != nil {
			return fmt.Errorf("sqlrules: wait for a change: %w", err)
		}
		if now != tag {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (b *Book) last(ctx context.Context) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = b.db.QueryRowContext(ctx, lastChange).Scan(&id)
	return id, err
}

// History returns the newest n revisions of a domain before a version, newest first; n is 1 to
// 1000. It returns after 5 s at the latest, if the driver does as its context ends.
func (b *Book) History(
	ctx context.Context, domain string, version int64, n int,
) ([]rules.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := book.CheckHistory(domain, version, n)
	if version == 0 {
		version = 1<<63 - 1
	}
	var list []rules.Revision
	if err == nil {
		list, err = revisions(ctx, b.db, before, []byte(domain), version, n)
	}
	if err != nil {
		return nil, fmt.Errorf("sqlrules: history of %.300q: %w", domain, err)
	}
	return list, nil
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

func revisions(
	ctx context.Context, q querier, query string, args ...any,
) ([]rules.Revision, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var list []rules.Revision
	for rows.Next() {
		r, err := scan(rows)
		if err != nil {
			return nil, err
		}
		list = append(list, r.Revision)
	}
	return list, rows.Err()
}

// A row is a revision and the Base of its change.
type row struct {
	rules.Revision
	base int64
}

func scan(from interface{ Scan(...any) error }) (r row, err error) {
	var domain, author, reason []byte
	var micros int64
	err = from.Scan(&domain, &r.Version, &r.base, &r.Text, &author, &reason, &micros)
	r.Domain, r.Author, r.Reason = string(domain), string(author), string(reason)
	r.Time = time.UnixMicro(micros).UTC()
	return r, err
}

// made reports whether the revision is that of the change.
func (r *row) made(c rules.Change) bool {
	return r.base == c.Base && r.Author == c.Author && r.Reason == c.Reason &&
		(r.Text == nil) == (c.Text == nil) && bytes.Equal(r.Text, c.Text)
}

// Save makes a change by one transaction, whole or not at all. Others that save wait for it
// meanwhile. It returns after 5 s at the latest, if the driver does as its context ends. After
// an error that does not wrap rules.ErrConflict nobody knows whether it was made: the same Save
// again then returns the revision that it has made, unless another one has followed.
func (b *Book) Save(ctx context.Context, c rules.Change) (rules.Revision, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := book.Check(c)
	var r rules.Revision
	if err == nil {
		r, err = b.save(ctx, c)
	}
	if err != nil {
		return rules.Revision{}, fmt.Errorf("sqlrules: save %.300q: %w", c.Domain, err)
	}
	return r, nil
}

func (b *Book) save(ctx context.Context, c rules.Change) (none rules.Revision, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return none, err
	}
	defer tx.Rollback()
	// This locks the row: the version that is read next is that of the last commit, and nobody
	// adds another one until this transaction ends.
	changed, err := tx.ExecContext(ctx, noteChange, rand.Text())
	if err != nil {
		return none, err
	}
	if n, err := changed.RowsAffected(); err != nil || n != 1 {
		return none, errors.Join(fmt.Errorf("ration_rules_state has %d rows, not 1", n), err)
	}
	newest, err := scan(tx.QueryRowContext(ctx, newestOf, []byte(c.Domain)))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		err = roomFor(ctx, tx)
	case err == nil && newest.made(c):
		return newest.Revision, nil // its answer was lost
	}
	if err != nil {
		return none, err
	}
	deleted := newest.Version > 0 && newest.Text == nil
	makes := deleted && c.Text != nil && c.Base == 0
	if newest.Version != c.Base && !makes || deleted && c.Text == nil {
		return none, fmt.Errorf("%w: it is at version %d, not %d",
			rules.ErrConflict, newest.Version, c.Base)
	}
	var text any // a nil []byte is an empty one for some drivers
	if c.Text != nil {
		text = c.Text
	}
	_, err = tx.ExecContext(ctx, insert+b.dialect.now()+")", []byte(c.Domain), newest.Version+1,
		c.Base, text, []byte(c.Author), []byte(c.Reason))
	if err != nil {
		return none, err
	}
	made, err := scan(tx.QueryRowContext(ctx, newestOf, []byte(c.Domain)))
	if err == nil {
		err = tx.Commit()
	}
	return made.Revision, err
}

// roomFor returns an error if there is no room for another domain.
func roomFor(ctx context.Context, tx *sql.Tx) error {
	var n int
	err := tx.QueryRowContext(ctx, domains).Scan(&n)
	if err == nil && n >= rules.MaxDomains {
		err = fmt.Errorf("the book has %d domains, with those that were deleted", n)
	}
	return err
}
