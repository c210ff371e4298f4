package sqlrules

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"time"

	"github.com/pressly/goose/v3"
)

//go:embed migrations
var migrations embed.FS

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)

// Migrate makes the tables, or brings those of an older version of this package to this one. It
// needs rights that a Book does not: to create and alter tables. Several processes may call it at
// once, and one that was killed in the middle is no harm to the next. It returns within 5 s of
// ctx's end.
func Migrate(ctx context.Context, db *sql.DB, d Dialect) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("sqlrules: migrate: %w", err)
	}
	return MigrateFiles(ctx, db, d, files, "ration_rules_migrations")
}

// MigrateFiles does as Migrate does with tables of the caller's. For each dialect, files has a
// folder, sqlite or mysql, of migrations of goose. Those of MySQL must be safe to run twice, as
// MySQL keeps the statements of a migration that was not finished: CREATE TABLE IF NOT EXISTS,
// INSERT IGNORE. The table versions notes which ones were made; its name has 1 to 64 letters,
// digits and _.
func MigrateFiles(
	ctx context.Context, db *sql.DB, d Dialect, files fs.FS, versions string,
) error {
	if err := migrate(ctx, db, d, files, versions); err != nil {
		return fmt.Errorf("sqlrules: migrate: %w", err)
	}
	return nil
}

func migrate(ctx context.Context, db *sql.DB, d Dialect, files fs.FS, versions string) error {
	if err := check(db, d); err != nil {
		return err
	}
	if !identifier.MatchString(versions) {
		return fmt.Errorf("versions %q is not made of 1 to 64 letters, digits and _", versions)
	}
	files, err := fs.Sub(files, d.String())
	if err != nil {
		return err
	}
	options := []goose.ProviderOption{
		goose.WithTableName(versions), goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	}
	kind := goose.DialectSQLite3
	if d == MySQL {
		kind = goose.DialectMySQL
		options = append(options, goose.WithSessionLocker(namedLock(versions)))
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

// A namedLock lets one process at a time migrate a MySQL: there each statement that changes a
// table is a transaction of its own. Its name is that of the table of versions.
type namedLock string

// SessionLock waits for the lock for a minute. It ends with the connection.
//
// goose makes the table of versions before it asks for the lock, and notes version 0 there in a
// statement of its own. Without it goose refuses to go on: while another process is between the
// two, and for ever if that was killed there. So it is noted here, where it is missing. A
// second such row does no harm.
func (n namedLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	var got sql.NullInt64
	err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, 60)", string(n)).Scan(&got)
	if err == nil && got.Int64 != 1 {
		err = errors.New("another process migrates for a minute")
	}
	if err != nil {
		return err
	}
	_, err = conn.ExecContext(ctx, fmt.Sprintf("INSERT INTO %s (version_id, is_applied) "+
		"SELECT 0, TRUE FROM DUAL WHERE NOT EXISTS (SELECT 1 FROM %[1]s)", string(n)))
	if err != nil {
		return errors.Join(err, n.SessionUnlock(context.WithoutCancel(ctx), conn))
	}
	return nil
}

// SessionUnlock gives the lock back.
func (n namedLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // goose gives a context without an end
	defer cancel()
	var gave sql.NullInt64
	return conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", string(n)).Scan(&gave)
}
