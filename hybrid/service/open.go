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
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/holds/redisholds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/hybrid/rules/sqlrules"
	"github.com/seed13b07268/ration/hybrid/service/internal/live"
	"github.com/seed13b07268/ration/hybrid/service/internal/whatif"
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
	ledgers live.Store    // the same, to look into
	holds   holds.Store   // reservations of all services
	counts  live.Counters // where services tell each other what they count; nil: there is only one
	book    rules.Book    // nil: the rules are files, and read only
	limiter *rules.Limiter
	record  *whatif.Record // nil: none

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
	if c.whatIf > 0 {
		s.record = whatif.New(c.whatIf<<20, func() *rules.Rules { return s.limiter.Rules() })
	}
	memory := hybrid.NewMemory()
	s.store, s.ledgers, s.holds = memory, memory, holds.NewMemory()
	redis.SetLogger(quiet{s.log})
	if c.redis != nil {
		client := redis.NewUniversalClient(c.redis)
		s.closers = append(s.closers, client.Close)
		shared := remote.New(client)
		s.store, s.ledgers = shared, live.Remote(shared)
		s.holds = redisholds.New(client, "ration:")
		s.counts = remote.New(client, remote.WithPrefix("ration:page:"))
		if s.record != nil {
			s.record.Share(remote.New(client, remote.WithPrefix("ration:what-if:")),
				remote.New(client, remote.WithPrefix("ration:what-if:answers:")), s.log)
		}
	}
	source, err := s.source(ctx)
	if err != nil {
		return err
	}
	s.limiter, err = rules.New(s.store, source, rules.Config{
		Record: s.recorded(),
		// The last domain may be deleted on the page, and a control plane may have none.
		Empty: s.book != nil || c.rules == "xds",
		Limiter: hybrid.Config{
			Outage: c.outage, Processes: c.processes, Timeout: c.timeout, MaxKeys: c.maxKeys,
			Eager: int64(c.eager), SlogLogger: s.log, Publish: publish, PublishName: processName(),
		},
	})
	if err != nil {
		return fmt.Errorf("-rules %s: %w", c.rules, err)
	}
	return nil
}

// recorded has the decisions of each domain recorded, unless none are kept.
func (s *service) recorded() func(domain string) hybrid.Recording {
	if s.record == nil {
		return nil
	}
	return s.record.Of
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

// source returns where the rules come from. A book that was never written gets an example: one in
// Redis only if the option says so, since a Redis that has lost its rules looks the same.
func (s *service) source(ctx context.Context) (rules.Source, error) {
	var err error
	switch s.config.rules {
	case "files":
		return rules.Files(s.config.rulesName), nil
	case "xds":
		return s.openXDS()
	case "redis":
		// Rules are larger than leases, and no request waits for them.
		o := *s.config.redis
		o.ReadTimeout, o.WriteTimeout = max(o.ReadTimeout, 5*time.Second), max(o.WriteTimeout, 5*time.Second)
		o.PoolTimeout = o.ReadTimeout
		client := redis.NewUniversalClient(&o)
		s.closers = append(s.closers, client.Close)
		s.book, err = redisrules.New(client, s.config.rulesName)
	default:
		s.book, err = sqlrules.New(s.db, s.dialect)
	}
	if err != nil {
		return nil, fmt.Errorf("-rules %s:%s: %w", s.config.rules, s.config.rulesName, err)
	}
	if s.config.rules == "redis" && !s.config.seed {
		err = written(ctx, s.book)
	} else {
		err = seed(ctx, s.book)
	}
	if err != nil {
		return nil, fmt.Errorf("-rules %s: %w", s.config.rules, err)
	}
	return s.book, nil
}

// written returns an error if a book in Redis was never written.
func written(ctx context.Context, book rules.Book) error {
	_, tag, err := book.Load(ctx) // the tag is that of the last change
	if err == nil && tag == "" {
		err = errors.New("the book is empty. If its rules were lost, restore them; " +
			"a new one begins with -seed true")
	}
	return err
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
