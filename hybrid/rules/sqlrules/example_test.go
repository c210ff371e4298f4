package sqlrules_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing/fstest"

	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
)

func Example() {
	folder, err := os.MkdirTemp("", "example") // in production, a folder that stays
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(folder, "rules.db"))+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	if err := sqlrules.Migrate(ctx, db, sqlrules.SQLite); err != nil {
		log.Fatal(err)
	}
	book, err := sqlrules.New(db, sqlrules.SQLite)
	if err != nil {
		log.Fatal(err)
	}
	_, differences, err := rules.Save(ctx, book, rules.Change{
		Domain: "shop", Author: "ann@example.org", Reason: "launch",
		Text: []byte("domain: shop\ndescriptors:\n" +
			"  - {key: user, rate_limit: {unit: minute, requests_per_unit: 2}}\n"),
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(differences)

	limiter, err := rules.New(hybrid.NewMemory(), book, rules.Config{}) // or remote.New(...)
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	for range 3 {
		result, err := limiter.Take(ctx, "shop", rules.Of("user", "42"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed)
	}
	// Output:
	// [shop: none -> domain shop user: none -> 2/minute]
	// true
	// true
	// false
}

func ExampleMigrateFiles() {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)  // each connection has a memory of its own
	files := fstest.MapFS{ // in production, an embed.FS
		"sqlite/1_notes.sql": {Data: []byte("-- +goose Up\nCREATE TABLE notes (note TEXT);")},
	}
	err = sqlrules.MigrateFiles(context.Background(), db, sqlrules.SQLite, files, "note_versions")
	if err != nil {
		log.Fatal(err)
	}
	_, err = db.Exec("INSERT INTO notes VALUES ('beside the rules')")
	fmt.Println(err)
	// Output: <nil>
}

func ExampleDialect_String() {
	fmt.Println(sqlrules.SQLite, sqlrules.MySQL)
	// Output: sqlite mysql
}
