package sqlrules_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/bookstest"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// A mariaDB is a process of a server with its data in a folder of its own, at a socket there. It
// ends with the test binary, whatever ends that.
type mariaDB struct {
	folder  string
	socket  string
	cmd     *exec.Cmd
	ended   <-chan struct{}
	out     bytes.Buffer
	schemas atomic.Int64
}

// server is one for all tests but those that kill theirs.
var server = sync.OnceValues(newServer)

func TestMain(m *testing.M) {
	code := m.Run()
	if s, err := server(); started.Load() && err == nil {
		s.end()
	}
	os.Exit(code)
}

// started tells TestMain that there is a server to end.
var started atomic.Bool

// startMariaDB returns the server of all tests. Where its programs are missing, it skips the
// test, or fails it where the environment says CI.
func startMariaDB(t *testing.T) *mariaDB {
	t.Helper()
	started.Store(true)
	s, err := server()
	return need(t, s, err)
}

func need(t *testing.T, s *mariaDB, err error) *mariaDB {
	t.Helper()
	if errors.Is(err, exec.ErrNotFound) && os.Getenv("CI") == "" {
		t.Skipf("no MariaDB: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newServer makes a folder and starts a server there.
func newServer() (*mariaDB, error) {
	install, err := program("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	// The path of a socket has at most 107 bytes: that of t.TempDir may have more.
	folder, err := os.MkdirTemp("", "ration-mariadb-")
	if err != nil {
		return nil, err
	}
	s := &mariaDB{folder: folder, socket: filepath.Join(folder, "socket")}
	args := append(s.args(), "--auth-root-authentication-method=normal", "--skip-test-db")
	out, err := exec.Command(install, args...).CombinedOutput()
	if err == nil {
		err = s.start()
	}
	if err != nil {
		os.RemoveAll(folder)
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return s, nil
}

// program finds a program, also where only root has it on the PATH.
func program(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		path, err = exec.LookPath("/usr/sbin/" + name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
	}
	return path, nil
}

func (s *mariaDB) args() []string {
	// What a commit has written outlives the process without a flush to the disk.
	args := []string{"--no-defaults", "--datadir=" + filepath.Join(s.folder, "data"),
		"--innodb-flush-log-at-trx-commit=2", "--innodb-flush-method=nosync", "--sync-frm=0",
		"--skip-innodb-doublewrite"}
	if os.Geteuid() == 0 {
		args = append(args, "--user=root")
	}
	return args
}

// start starts the process, and returns when it answers.
func (s *mariaDB) start() error {
	path, err := program("mariadbd")
	if err != nil {
		return err
	}
	s.out.Reset()
	s.cmd = exec.Command(path, append(s.args(), "--skip-networking", "--socket="+s.socket,
		"--pid-file="+filepath.Join(s.folder, "pid"), "--innodb-buffer-pool-size=16M")...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.out
	if s.ended, err = tether.Start(s.cmd); err != nil {
		return err
	}
	db, err := s.open(s.config(""))
	if err != nil {
		return err
	}
	defer db.Close()
	for deadline := time.Now().Add(time.Minute); db.Ping() != nil; {
		select {
		case <-s.ended:
			return fmt.Errorf("mariadbd has ended: %s", s.out.String())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return errors.New("mariadbd does not answer for a minute")
		}
	}
	return nil
}

// kill ends the process at once.
func (s *mariaDB) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// end ends the process and removes its folder.
func (s *mariaDB) end() {
	s.kill()
	os.RemoveAll(s.folder)
}

// quiet drops what the driver prints of connections that are lost.
type quiet struct{}

func (quiet) Print(...any) {}

func (s *mariaDB) config(schema string) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "unix", s.socket, schema
	c.Logger = quiet{}
	return c
}

func (s *mariaDB) open(c *mysql.Config) (*sql.DB, error) {
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// connect returns a database of a configuration, which is closed with the test.
func (s *mariaDB) connect(t *testing.T, c *mysql.Config) *sql.DB {
	t.Helper()
	db, err := s.open(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// database makes a schema for a test.
func (s *mariaDB) database(t *testing.T) database {
	t.Helper()
	schema := fmt.Sprint("rules", s.schemas.Add(1))
	// The most unfortunate of collations: it makes a, A and á one.
	_, err := s.connect(t, s.config("")).ExecContext(t.Context(),
		"CREATE DATABASE "+schema+" CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci")
	if err != nil {
		t.Fatal(err)
	}
	d := database{t, sqlrules.MySQL, schema, func() *sql.DB {
		return s.connect(t, s.config(schema))
	}}
	d.migrate()
	return d
}

func newMariaDB(t *testing.T) database { return startMariaDB(t).database(t) }

// TestKilled: a server is killed in the middle of changes.
func TestKilled(t *testing.T) {
	s, err := newServer()
	need(t, s, err)
	t.Cleanup(s.end)
	d := s.database(t)
	bookstest.Killed(t, d.Open, 3, func() {
		s.kill()
		if err := s.start(); err != nil {
			t.Error(err)
		}
	})
}

// TestLostAnswer of a commit: the change is made once, and saved again it is told.
func TestLostAnswer(t *testing.T) {
	s := startMariaDB(t)
	d := s.database(t)
	proxy := bookstest.NewProxy(t, "unix", s.socket)
	c := s.config(d.schema)
	c.Net, c.Addr = "tcp", proxy.Addr
	b := book(t, s.connect(t, c), sqlrules.MySQL)
	if _, err := b.Save(t.Context(), change(0, "1")); err != nil {
		t.Fatal(err)
	}
	proxy.Lose("COMMIT")
	if r, err := b.Save(t.Context(), change(1, "2")); err == nil || errors.Is(err, rules.ErrConflict) {
		t.Fatalf("a lost answer is %+v, %v", r, err)
	}
	if proxy.Lost() != 1 {
		t.Fatalf("%d answers were lost", proxy.Lost())
	}
	docs, _, err := d.Open().Load(t.Context())
	if err != nil || docs[0].Version != 2 {
		t.Fatalf("the commit was not made: %v, %v", docs, err)
	}
	if r, err := b.Save(t.Context(), change(1, "2")); err != nil || r.Version != 2 {
		t.Errorf("saved again: %+v, %v", r, err)
	}
}

// TestServersClock: the time is the server's, in UTC, whatever the writer's clock and the zone of
// its session say.
func TestServersClock(t *testing.T) {
	s := startMariaDB(t)
	c := s.config(s.database(t).schema)
	c.Params = map[string]string{"timestamp": "981173106", "time_zone": "'+09:00'"}
	b := book(t, s.connect(t, c), sqlrules.MySQL)
	r, err := b.Save(t.Context(), change(0, "1"))
	if want := time.Unix(981173106, 0); err != nil || !r.Time.Equal(want) {
		t.Errorf("%v, not %v; %v", r.Time, want, err)
	}
}

// TestRights: an editor needs no more rights than the package says, and a reader fewer.
func TestRights(t *testing.T) {
	s := startMariaDB(t)
	d := s.database(t)
	// OR REPLACE: with -count the server has them from the run before.
	d.exec("CREATE OR REPLACE USER editor", "CREATE OR REPLACE USER reader",
		"GRANT SELECT, INSERT ON ration_rules_revisions TO editor",
		"GRANT SELECT, UPDATE ON ration_rules_state TO editor",
		"GRANT SELECT ON * TO reader")
	as := func(user string) rules.Book {
		c := s.config(d.schema)
		c.User = user
		return book(t, s.connect(t, c), sqlrules.MySQL)
	}
	if _, err := as("editor").Save(t.Context(), change(0, "1")); err != nil {
		t.Error(err)
	}
	if docs, _, err := as("reader").Load(t.Context()); err != nil || len(docs) != 1 {
		t.Errorf("%v, %v", docs, err)
	}
	_, err := as("reader").Save(t.Context(), change(1, "2"))
	if err == nil || !strings.Contains(err.Error(), "denied") {
		t.Errorf("%v", err)
	}
}
