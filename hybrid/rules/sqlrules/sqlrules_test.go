package sqlrules_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
)

// A database is one that a test has to itself, and how to reach it.
type database struct {
	t       *testing.T
	dialect sqlrules.Dialect
	schema  string         // MySQL's
	open    func() *sql.DB // as another process
}

func newSQLite(t *testing.T) database {
	path := "file:" + filepath.ToSlash(filepath.Join(t.TempDir(), "rules.db")) +
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(normal)"
	d := database{t, sqlrules.SQLite, "", func() *sql.DB { return connect(t, "sqlite", path) }}
	d.migrate()
	return d
}

func connect(t *testing.T, driver, dsn string) *sql.DB {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func (d database) migrate() {
	d.t.Helper()
	if err := sqlrules.Migrate(d.t.Context(), d.open(), d.dialect); err != nil {
		d.t.Fatal(err)
	}
}

func (d database) exec(statements ...string) {
	d.t.Helper()
	db := d.open()
	for _, s := range statements {
		if _, err := db.ExecContext(d.t.Context(), s); err != nil {
			d.t.Fatal(err)
		}
	}
}

// Open is part of bookstest.State.
func (d database) Open() rules.Book { return book(d.t, d.open(), d.dialect) }

// Wipe is part of bookstest.State: the database is lost and set up anew.
func (d database) Wipe() {
	d.exec("DROP TABLE ration_rules_revisions", "DROP TABLE ration_rules_state",
		"DROP TABLE ration_rules_migrations")
	d.migrate()
}

func book(t *testing.T, db *sql.DB, dialect sqlrules.Dialect) *sqlrules.Book {
	b, err := sqlrules.New(db, dialect)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func change(base int64, text string) rules.Change {
	return rules.Change{
		Domain: "shop", Base: base, Text: []byte(text), Author: "ann", Reason: "test",
	}
}

// each runs a test on all dialects.
func each(t *testing.T, test func(*testing.T, database)) {
	t.Run("SQLite", func(t *testing.T) { test(t, newSQLite(t)) })
	t.Run("MariaDB", func(t *testing.T) { test(t, newMariaDB(t)) })
}

func TestBook(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		bookstest.Test(t, func(t *testing.T) bookstest.State { return newSQLite(t) })
	})
	t.Run("MariaDB", func(t *testing.T) {
		server := startMariaDB(t)
		bookstest.Test(t, func(t *testing.T) bookstest.State { return server.database(t) })
	})
}

// TestMigrateAtOnce: processes that start together find or make the tables, and Migrate again
// changes nothing.
func TestMigrateAtOnce(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		d.exec("DROP TABLE ration_rules_revisions", "DROP TABLE ration_rules_state",
			"DROP TABLE ration_rules_migrations")
		var wg sync.WaitGroup
		for range 6 {
			db := d.open()
			wg.Go(func() {
				if err := sqlrules.Migrate(t.Context(), db, d.dialect); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		b := d.Open()
		if _, err := b.Save(t.Context(), change(0, "1")); err != nil {
			t.Fatal(err)
		}
		d.migrate()
		if docs, _, err := b.Load(t.Context()); err != nil || len(docs) != 1 {
			t.Errorf("%v, %v", docs, err)
		}
	})
}

// TestMigrationKilled: a process that was killed while it made the tables of a MySQL, which keeps
// each statement, leaves what the next one brings to an end.
func TestMigrationKilled(t *testing.T) {
	for _, test := range []struct {
		name string
		left []string
	}{
		{"before version 0", []string{
			"DELETE FROM ration_rules_migrations", "DROP TABLE ration_rules_revisions",
			"DROP TABLE ration_rules_state",
		}},
		{"after a table", []string{
			"DELETE FROM ration_rules_migrations WHERE version_id > 0",
			"DROP TABLE ration_rules_state",
		}},
		{"before the version", []string{"DELETE FROM ration_rules_migrations WHERE version_id > 0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newMariaDB(t)
			d.exec(test.left...)
			d.migrate()
			if _, err := d.Open().Save(t.Context(), change(0, "1")); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestMigrateFilesMistakes(t *testing.T) {
	d := newSQLite(t)
	for versions, want := range map[string]string{
		"":         `versions "" is not`,
		"a; DROP":  `versions "a; DROP" is not`,
		"versions": "no migrations found",
	} {
		err := sqlrules.MigrateFiles(t.Context(), d.open(), d.dialect, fstest.MapFS{}, versions)
		if err == nil || !strings.HasPrefix(err.Error(), "sqlrules: migrate: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", versions, err, want)
		}
	}
}

// TestHalfMade: what fails in the middle of a change leaves nothing of it, and no new tag.
func TestHalfMade(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		b := d.Open()
		if _, err := b.Save(t.Context(), change(0, "1")); err != nil {
			t.Fatal(err)
		}
		_, tag, err := b.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		fails := "SELECT RAISE(ABORT, 'no space')"
		if d.dialect == sqlrules.MySQL {
			fails = "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no space'"
		}
		d.exec("CREATE TRIGGER full BEFORE INSERT ON ration_rules_revisions FOR EACH ROW BEGIN " +
			fails + "; END")
		if r, err := b.Save(t.Context(), change(1, "2")); err == nil ||
			!strings.Contains(err.Error(), "no space") {
			t.Fatalf("%+v, %v", r, err)
		}
		if docs, now, err := b.Load(t.Context()); err != nil || now != tag || docs[0].Version != 1 {
			t.Errorf("%v, tag %q and not %q, %v", docs, now, tag, err)
		}
		d.exec("DROP TRIGGER full")
		if _, err := b.Save(t.Context(), change(1, "2")); err != nil {
			t.Error(err)
		}
	})
}

// TestWithoutTables: a database that was not migrated is an error, and not an empty book.
func TestWithoutTables(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		b := d.Open()
		d.exec("DROP TABLE ration_rules_revisions", "DELETE FROM ration_rules_state")
		if docs, _, err := b.Load(t.Context()); err == nil {
			t.Errorf("%v", docs)
		}
		if err := b.Wait(t.Context(), ""); err == nil {
			t.Error("no error")
		}
		if r, err := b.Save(t.Context(), change(0, "1")); err == nil {
			t.Errorf("%+v", r)
		}
		if list, err := b.History(t.Context(), "shop", 0, 1); err == nil {
			t.Errorf("%v", list)
		}
	})
}

// TestEditorIsSlow: one that has begun to save and does not go on holds others for no longer
// than their context.
func TestEditorIsSlow(t *testing.T) {
	each(t, func(t *testing.T, d database) {
		b := d.Open()
		tx, err := d.open().BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		_, err = tx.ExecContext(t.Context(), "UPDATE ration_rules_state SET last_change = 'x'")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		from := time.Now()
		if _, err := b.Save(ctx, change(0, "1")); err == nil || errors.Is(err, rules.ErrConflict) {
			t.Errorf("%v", err)
		}
		if d := time.Since(from); d >= 5*time.Second { // what it takes if it does not heed its context
			t.Errorf("it returned after %v", d)
		}
		if docs, _, err := b.Load(t.Context()); err != nil || len(docs) != 0 {
			t.Errorf("a reader has to wait, too: %v, %v", docs, err)
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Save(t.Context(), change(0, "1")); err != nil {
			t.Error(err)
		}
	})
}

func TestNew(t *testing.T) {
	db := connect(t, "sqlite", "file::memory:")
	for _, d := range []sqlrules.Dialect{-1, 0, 3} {
		if _, err := sqlrules.New(db, d); err == nil {
			t.Errorf("%v is a dialect", d)
		}
		if err := sqlrules.Migrate(t.Context(), db, d); err == nil {
			t.Errorf("%v is a dialect", d)
		}
	}
	if _, err := sqlrules.New(nil, sqlrules.SQLite); err == nil {
		t.Error("nil is a database")
	}
}
