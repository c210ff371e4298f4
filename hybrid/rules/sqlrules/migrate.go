package sqlrules

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

// versionTable is where goose notes which migrations were made.
const versionTable = "ration_rules_migrations"

// Migrate makes the tables, or brings those of an older version of this package to this one. It
// needs rights that a Book does not: to create and alter tables. Several processes may call it at
// once. It returns when ctx ends at the latest.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := migrate(ctx, db, d); err != nil {
		return fmt.Errorf("sqlrules: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	if err := check(db, d); err != nil {
		return err
	}
	files, err := fs.Sub(migrations, "migrations/"+d.String())
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	}
	kind := goose.DialectSQLite3
	if d == MySQL {
		kind = goose.DialectMySQL
		options = append(options, goose.WithSessionLocker(namedLock{}))
	}
	p, err := goose.NewProvider(kind, db, files, options...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	// SQLite makes each migration in one transaction. Of two processes one may fail since the
	// other has made it meanwhile, and finds nothing to do then.
	for range 9 {
		if err == nil || d == MySQL || ctx.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
		_, err = p.Up(ctx)
	}
	return err
}

// namedLock lets one process at a time migrate a MySQL: there each statement that changes a table
// is a transaction of its own.
type namedLock struct{}

const lockName = "ration_rules_migrations"

// SessionLock waits for the lock for a minute. It ends with the connection.
func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", lockName).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errors.New("another process migrates for a minute")
	}
	return err
}

// SessionUnlock gives the lock back.
func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var gave sql.NullInt64
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", lockName).Scan(&gave)
}
