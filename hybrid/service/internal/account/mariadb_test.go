package account

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

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

// quiet drops what the driver prints of connections that are lost.
type quiet struct{}

func (quiet) Print(...any) {}

// mariaDB starts a server for a test, and returns a database of it.
func mariaDB(t *testing.T) (*sql.DB, sqlrules.Dialect) {
	t.Helper()
	install, server := program(t, "mariadb-install-db"), program(t, "mariadbd")
	// The path of a socket has at most 107 bytes: that of t.TempDir may have more.
	folder, err := os.MkdirTemp("", "ration-accounts-")
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
	connect := func(schema string) *sql.DB {
		c := mysql.NewConfig()
		c.User, c.Net, c.Addr, c.DBName, c.Logger = "root", "unix", socket, schema, quiet{}
		connector, err := mysql.NewConnector(c)
		must(t, err)
		db := sql.OpenDB(connector)
		t.Cleanup(func() { db.Close() })
		return db
	}
	root := connect("")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); root.Ping() != nil; {
		select {
		case <-ended:
			t.Fatalf("mariadbd has ended: %s", told.String())
		case <-tick.C:
		}
		if time.Now().After(deadline) {
			t.Fatal("mariadbd does not answer for a minute")
		}
	}
	// The most unfortunate of collations: it makes a, A and á one.
	_, err = root.ExecContext(t.Context(),
		"CREATE DATABASE accounts CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
	must(t, err)
	return connect("accounts"), sqlrules.MySQL
}
