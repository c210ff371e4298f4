package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/live"
	"github.com/seed13b07268/ration/remote"
)

//go:embed example.yaml
var example []byte

const (
	exampleDomain = "example"
	author        = "ration" // of the example
)

// A service is what has been opened for a config.
type service struct {
	config config
	log    *slog.Logger
	opened time.Time

	db      *sql.DB
	dialect sqlrules.Dialect
	store   hybrid.Store
	ledgers live.Store // the same, to look into
	book    rules.Book // nil: the rules are files, and read only
	limiter *rules.Limiter

	closers []func() error // of all but the limiter, the last one first
}

// open opens all that a config names, and returns when the rules are in force. It takes 2 min at
// most for the database, and 20 s for the rules.
func open(ctx context.Context, c config, log *slog.Logger) (*service, error) {
	s := &service{config: c, log: log, opened: time.Now()}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *service) open(ctx context.Context) error {
	if err := s.openDatabase(ctx); err != nil {
		return err
	}
	c := s.config
	memory := hybrid.NewMemory()
	s.store, s.ledgers = memory, memory
	redis.SetLogger(quiet{s.log})
	if c.redis != nil {
		client := redis.NewUniversalClient(c.redis)
		s.closers = append(s.closers, client.Close)
		shared := remote.New(client)
		s.store, s.ledgers = shared, live.Remote(shared)
	}
	source, err := s.source(ctx)
	if err != nil {
		return err
	}
	s.limiter, err = rules.New(s.store, source, rules.Config{
		Empty: s.book != nil, // the last domain may be deleted on the page
		Limiter: hybrid.Config{
			Outage: c.outage, Processes: c.processes, Timeout: c.timeout, MaxKeys: c.maxKeys,
			SlogLogger: s.log, Publish: publish, PublishName: processName(),
		},
	})
	if err != nil {
		return fmt.Errorf("-rules %s: %w", c.rules, err)
	}
	return nil
}

// publish is how often each domain's part of the fleet tells its figures.
const publish = 5 * time.Second

// processName is what other services call this one: several may be on a host.
func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.200s/%d", host, os.Getpid())
}

// close closes all that open has opened, but for the limiter: serve does.
func (s *service) close() error {
	var errs []error
	for len(s.closers) > 0 {
		last := len(s.closers) - 1
		errs = append(errs, s.closers[last]())
		s.closers = s.closers[:last]
	}
	return errors.Join(errs...)
}

// maxDatabase is how many connections to the database there are at a time: each request of the API
// asks for its token.
const maxDatabase = 16

// openDatabase opens the database, and brings its tables up to date.
func (s *service) openDatabase(ctx context.Context) (err error) {
	name := "mysql"
	if s.dialect = sqlrules.MySQL; s.config.database == nil {
		s.dialect = sqlrules.SQLite
		name, err = s.openSQLite()
	} else {
		s.config.database.Logger = quiet{s.log}
		c, failed := mysql.NewConnector(s.config.database)
		if err = failed; err == nil {
			s.db = sql.OpenDB(c)
		}
	}
	if err != nil {
		return err
	}
	s.db.SetMaxOpenConns(maxDatabase)
	s.closers = append(s.closers, s.db.Close)
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute) // another service may be at it
	defer cancel()
	if err := sqlrules.Migrate(ctx, s.db, s.dialect); err != nil {
		return fmt.Errorf("-database %s: %w", name, err)
	}
	return nil
}

// openSQLite opens the file, which is for the service's user alone: hashes of passwords are in it.
func (s *service) openSQLite() (name string, err error) {
	folder, err := filepath.Abs(s.config.data)
	if err == nil {
		err = os.MkdirAll(folder, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("-data %q: %w", s.config.data, err)
	}
	name = filepath.Join(folder, "ration.db")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err == nil {
		err = errors.Join(os.Chmod(name, 0o600), file.Close())
	}
	if err != nil {
		return "", fmt.Errorf("-data %q: %w", s.config.data, err)
	}
	path := filepath.ToSlash(name)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // of Windows
	}
	dsn := url.URL{Scheme: "file", Path: path,
		RawQuery: "_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)"}
	s.db, err = sql.Open("sqlite", dsn.String())
	return name, err
}

// source returns where the rules come from. A book that was never written gets an example.
func (s *service) source(ctx context.Context) (rules.Source, error) {
	var err error
	switch s.config.rules {
	case "files":
		return rules.Files(s.config.rulesName), nil
	case "redis":
		// Rules are larger than leases, and no request waits for them.
		o := *s.config.redis
		o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = 5*time.Second, 5*time.Second, 5*time.Second
		client := redis.NewUniversalClient(&o)
		s.closers = append(s.closers, client.Close)
		s.book, err = redisrules.New(client, s.config.rulesName)
	default:
		s.book, err = sqlrules.New(s.db, s.dialect)
	}
	if err != nil {
		return nil, fmt.Errorf("-rules %s:%s: %w", s.config.rules, s.config.rulesName, err)
	}
	if err := seed(ctx, s.book); err != nil {
		return nil, fmt.Errorf("-rules %s: %w", s.config.rules, err)
	}
	return s.book, nil
}

// seed saves the example in a book that was never written.
func seed(ctx context.Context, book rules.Book) error {
	documents, _, err := book.Load(ctx)
	if err != nil || len(documents) > 0 {
		return err
	}
	history, err := book.History(ctx, exampleDomain, 0, 1)
	if err != nil || len(history) > 0 { // somebody has deleted it
		return err
	}
	_, _, err = rules.Save(ctx, book, rules.Change{
		Domain: exampleDomain, Text: example,
		Author: author, Reason: "an example to begin with",
	})
	if errors.Is(err, rules.ErrConflict) { // another service begins at the same time
		return nil
	}
	return err
}

// quiet has go-redis write to the service's log what it does not return: each attempt to dial.
type quiet struct{ log *slog.Logger }

func (q quiet) Printf(ctx context.Context, format string, args ...any) {
	q.log.DebugContext(ctx, fmt.Sprintf(format, args...))
}

// Print is the same for the driver of MySQL.
func (q quiet) Print(args ...any) { q.log.Debug("mysql: " + fmt.Sprint(args...)) }
