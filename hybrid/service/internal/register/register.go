// Package register keeps in a database when each rule was last asked for, so that a rule which
// nobody needs is found though services begin anew meanwhile.
//
// # Promise
//
// It has a row of 32 bytes for each rule in force, and no more names than are in a hash. Several
// services may write at once: the later time stays.
//
// It does not promise the last hour: callers write seldom.
package register

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
)

// An ID is a rule.
type ID [16]byte

// IDOf is the ID of the rule of a domain with a path.
func IDOf(domain, path string) ID {
	sum := sha256.Sum256([]byte(domain + "\x00" + path))
	return ID(sum[:16])
}

// A Rule is what is known of one. The zero Asked is never.
type Rule struct{ Known, Asked time.Time }

// A Register is in a database, which stays its caller's to close. It is safe for concurrent use.
// Its methods block for as long as ctx lets them.
type Register struct {
	db      *sql.DB
	dialect sqlrules.Dialect
}

//go:embed migrations
var migrations embed.FS

// Open makes the table, which needs the right to do so.
func Open(ctx context.Context, db *sql.DB, d sqlrules.Dialect) (*Register, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err == nil {
		err = sqlrules.MigrateFiles(ctx, db, d, files, "ration_asked_migrations")
	}
	if err != nil {
		return nil, fmt.Errorf("register: open: %w", err)
	}
	return &Register{db, d}, nil
}

// mostRules bounds what is read: ten times the rules that a service may have.
const mostRules = 100_000

// Load returns all that is known.
func (r *Register) Load(ctx context.Context) (map[ID]Rule, error) {
	rows, err := r.db.QueryContext(ctx,
		"SELECT rule, known_at, asked_at FROM ration_asked_rules LIMIT ?", mostRules)
	if err != nil {
		return nil, fmt.Errorf("register: load: %w", err)
	}
	defer rows.Close()
	all := map[ID]Rule{}
	for rows.Next() {
		var id []byte
		var known, asked int64
		if err := rows.Scan(&id, &known, &asked); err != nil {
			return nil, fmt.Errorf("register: load: %w", err)
		}
		if len(id) == len(ID{}) {
			all[ID(id)] = Rule{moment(known), moment(asked)}
		}
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("register: load: %w", err)
	}
	return all, nil
}

// atOnce is how many rules a statement is about.
const atOnce = 250

// Save writes rules in place of earlier ones, but for a later Asked or an earlier Known, and
// forgets those that have gone, as one transaction.
func (r *Register) Save(ctx context.Context, changed map[ID]Rule, gone []ID) error {
	if len(changed)+len(gone) == 0 {
		return nil
	}
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("register: save: %w", err)
	}
	defer tx.Rollback()
	var values []any
	for id, rule := range changed {
		values = append(values, id[:], micros(rule.Known), micros(rule.Asked))
	}
	for part := range slices.Chunk(values, 3*atOnce) {
		if err == nil {
			_, err = tx.ExecContext(ctx, r.put(len(part)/3), part...)
		}
	}
	for part := range slices.Chunk(gone, atOnce) {
		var ids []any
		for _, id := range part {
			ids = append(ids, id[:])
		}
		if err == nil {
			_, err = tx.ExecContext(ctx, "DELETE FROM ration_asked_rules WHERE rule IN (?"+
				strings.Repeat(", ?", len(ids)-1)+")", ids...)
		}
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		return fmt.Errorf("register: save: %w", err)
	}
	return nil
}

// put is the statement that writes so many rows.
func (r *Register) put(rows int) string {
	text := "INSERT INTO ration_asked_rules (rule, known_at, asked_at) VALUES (?, ?, ?)" +
		strings.Repeat(", (?, ?, ?)", rows-1)
	if r.dialect == sqlrules.MySQL {
		return text + " ON DUPLICATE KEY UPDATE known_at = LEAST(known_at, VALUES(known_at))," +
			" asked_at = GREATEST(asked_at, VALUES(asked_at))"
	}
	return text + " ON CONFLICT (rule) DO UPDATE SET known_at = MIN(known_at, excluded.known_at)," +
		" asked_at = MAX(asked_at, excluded.asked_at)"
}

// moment is a time of the database, or zero if it has 0.
func moment(at int64) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at)
}

func micros(at time.Time) int64 {
	if at.IsZero() {
		return 0
	}
	return at.UnixMicro()
}
