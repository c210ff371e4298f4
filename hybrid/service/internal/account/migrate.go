package account

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
)

//go:embed migrations
var migrations embed.FS

// versionTable is where goose notes which migrations were made. It is the name of the lock, too.
const versionTable = "ration_accounts_migrations"

// migrate makes the tables, or brings those of an older version to this one. Several services may
// do it at once.
func migrate(ctx context.Context, db *sql.DB, d sqlrules.Dialect) error {
	files, err := fs.Sub(migrations, "migrations/"+d.String())
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{
		goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	}
	kind := goose.DialectSQLite3
	if d == sqlrules.MySQL {
		kind = goose.DialectMySQL
		options = append(options, goose.WithSessionLocker(namedLock{}))
	}
	p, err := goose.NewProvider(kind, db, files, options...)
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	// SQLite makes each migration in one transaction. Of two services one may fail since the
	// other has made it meanwhile, and finds nothing to do then.
	for range 9 {
		if err == nil || d == sqlrules.MySQL || ctx.Err() != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
		_, err = p.Up(ctx)
	}
	return err
}

// namedLock lets one service at a time migrate a MySQL: there each statement that changes a table
// is a transaction of its own.
type namedLock struct{}

// SessionLock waits for the lock for a minute. It ends with the connection.
func (namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", versionTable).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errors.New("another service migrates for a minute")
	}
	return err
}

// SessionUnlock gives the lock back.
func (namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var gave sql.NullInt64
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", versionTable).Scan(&gave)
}
