// Package databasetest has the databases of the service for tests: SQLite, and a server of MariaDB.
package databasetest

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// program finds a program, also where only root has it on the PATH. Without it the test is
// skipped, but not in CI.
func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	switch {
	case err == nil:
	case errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "":
		t.Skipf("no MariaDB: %v", err)
	default:
		t.Fatal(err)
	}
	return path
}

// SQLite returns a new database.
func SQLite(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "ration.db"))+
		"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(off)")
	must(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quiet drops what the driver prints of connections that are lost.
type quiet struct{}

func (quiet) Print(...any) {}

// MariaDB starts a server for a test, and returns a database of it.
func MariaDB(t *testing.T) (*sql.DB, sqlrules.Dialect) {
	t.Helper()
	install, server := program(t, "mariadb-install-db"), program(t, "mariadbd")
	// The path of a socket has at most 107 bytes: that of t.TempDir may have more.
	folder, err := os.MkdirTemp("", "ration-database-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(folder) })
	socket := filepath.Join(folder, "socket")
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(folder, "data"),
		"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--sync-frm=0",
		"--skip-innodb-doublewrite"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	out, err := exec.Command(install, append(args[:len(args):len(args)],
		"--auth-root-authentication-method=normal", "--skip-test-db")...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var told bytes.Buffer
	cmd := exec.Command(server, append(args, "--skip-networking", "--socket="+socket,
		"--pid-file="+filepath.Join(folder, "pid"), "--innodb-buffer-pool-size=16M")...)
	cmd.Stdout, cmd.Stderr = &told, &told
	ended, err := tether.Start(cmd)
	must(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	root := connect(t, socket, "")
	await(t, root, ended, &told)
	// The most unfortunate of collations: it makes a, A and á one.
	_, err = root.ExecContext(t.Context(),
		"CREATE DATABASE service CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
	must(t, err)
	return connect(t, socket, "service"), sqlrules.MySQL
}

// connect returns a database of the server behind a socket, or none of it.
func connect(t *testing.T, socket, name string) *sql.DB {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.Logger = "root", "unix", socket, name, quiet{}
	connector, err := mysql.NewConnector(c)
	must(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// await waits until a server answers.
func await(t *testing.T, db *sql.DB, ended <-chan struct{}, told fmt.Stringer) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); db.Ping() != nil; {
		select {
		case <-ended:
			t.Fatalf("mariadbd has ended: %s", told)
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			t.Fatal("mariadbd does not answer for a minute")
		}
	}
}
