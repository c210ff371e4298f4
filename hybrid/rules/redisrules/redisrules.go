// Package redisrules keeps rules in Redis: a rules.Book for fleets that have a Redis already.
//
// # Promise
//
// A change is made by one script, whole or not at all. Of two changes with the same Base one is
// made, and the other gets rules.ErrConflict. Processes see a change at once by a notice, or
// without it after 400 ms.
//
// A process that has read rules does not take their loss for a deletion. Where the server has
// come back without changes that a Book has read, its Load returns an error, so that a
// rules.Limiter keeps the rules that it has. Save or delete the domains that the error names,
// and it is over; or start the processes anew, to take the state as it is.
//
// # Not promised
//
// Redis keeps what its persistence keeps. With `appendonly yes` and `appendfsync always` no
// change that was answered is lost with the process or the machine. With `everysec` a crash of
// the machine may lose the last second or two, and a failover may lose what the replica
// did not have. Without persistence a restart loses all. A process that starts then cannot know
// that there were rules.
//
// The history is bounded: Keep revisions of each domain.
//
// # Keys
//
// Both keys of a domain have the book's name as their hash tag, so that a Cluster has a book on
// one node:
//
//	{ration:rules:NAME}               hash: the newest record of each domain; the id of the
//	                                  last change under the empty field
//	{ration:rules:NAME}:of:DOMAIN     hash: version to record
//
// The channel of the notices is the name of the first one. The keys do not expire; an eviction
// policy must not be one of allkeys-*. A reader may use HGETALL, HGET, HMGET and SUBSCRIBE, an
// editor EVAL, EVALSHA, HGET, HLEN, HSET, HDEL, TIME and PUBLISH, too.
package redisrules

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/internal/book"
)

// Keep is how many revisions of a domain the history has. A Save drops the one before them.
const Keep = 100

// patience bounds an exchange with the server, whatever the client's options are.
const patience = 5 * time.Second

// A Client is what a Book needs of go-redis: a *redis.Client, also one for Sentinels, or a
// *redis.ClusterClient.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
	Subscribe(ctx context.Context, channels ...string) *redis.PubSub
}

// A Book is rules in Redis. It is safe for concurrent use, and needs no Close.
type Book struct {
	rdb  Client
	key  string
	poll time.Duration
	seen book.Seen
}

var _ rules.Book = (*Book)(nil)

var validName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}$`)

// New returns the book of a name: 1 to 100 letters, digits, dots, hyphens and underscores. It
// does not connect.
func New(rdb Client, name string) (*Book, error) {
	if rdb == nil {
		return nil, errors.New("redisrules: no client")
	}
	if !validName.MatchString(name) {
		return nil, fmt.Errorf("redisrules: name %.200q is not 1 to 100 of A-Z a-z 0-9 . _ -", name)
	}
	return &Book{rdb: rdb, key: "{ration:rules:" + name + "}", poll: book.Poll}, nil
}

// history is the key of a domain's revisions.
func (b *Book) history(domain string) string { return b.key + ":of:" + domain }

// lastChange is the field of the book's hash with the id of the last change. No domain is empty.
const lastChange = ""

// Load returns the rules of all domains, by one command. An error says so if changes that it has
// returned before are missing now. It returns after 5 s at the latest.
func (b *Book) Load(ctx context.Context) ([]rules.Document, string, error) {
	fields, err := run(ctx, func(ctx context.Context) (map[string]string, error) {
		cmd := redis.NewMapStringStringCmd(ctx, "hgetall", b.key)
		err := b.rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
	if err != nil {
		return nil, "", fmt.Errorf("redisrules: load %s: %w", b.key, err)
	}
	tag := fields[lastChange]
	delete(fields, lastChange)
	newest := make([]rules.Revision, 0, len(fields))
	for domain, record := range fields {
		r, err := parseRecord(domain, record)
		if err != nil {
			return nil, "", fmt.Errorf("redisrules: load %s: %w", b.key, err)
		}
		newest = append(newest, r)
	}
	if err := b.seen.Accept(newest); err != nil {
		return nil, "", fmt.Errorf("redisrules: load %s: state was lost: %w", b.key, err)
	}
	return book.Documents("redis", newest), tag, nil
}

// Wait returns when the state is another one than that of the tag: soon after the server's
// notice, or after 400 ms without. It holds one connection of the client for notices meanwhile.
func (b *Book) Wait(ctx context.Context, tag string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := b.listen(ctx)
	tick := time.NewTicker(b.poll)
	defer tick.Stop()
	for {
		now, err := b.last(ctx)
		if err != nil {
			return fmt.Errorf("redisrules: wait for a change of %s: %w", b.key, err)
		}
		if now != tag {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-heard:
		case <-tick.C:
		}
	}
}

// last returns the id of the last change, or nothing.
func (b *Book) last(ctx context.Context) (string, error) {
	id, err := run(ctx, func(ctx context.Context) (string, error) {
		cmd := redis.NewStringCmd(ctx, "hget", b.key, lastChange)
		err := b.rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	return id, err
}

// listen tells of notices until ctx ends, and when it has begun to hear them. A subscription
// that fails is not begun again: Wait polls besides, and the next Wait has its own.
func (b *Book) listen(ctx context.Context) <-chan struct{} {
	heard := make(chan struct{}, 1)
	go func() {
		notices := b.rdb.Subscribe(ctx, b.key)
		defer notices.Close()
		// Receive does not return when ctx ends.
		defer context.AfterFunc(ctx, func() { notices.Close() })()
		for {
			if _, err := notices.Receive(ctx); err != nil {
				return
			}
			select {
			case heard <- struct{}{}:
			default: // Wait has not looked since the last one
			}
		}
	}()
	return heard
}

// Save makes a change by one script, whole or not at all. It returns after 5 s at the latest.
// After an error that does not wrap rules.ErrConflict nobody knows whether it was made: the same
// Save again then returns the revision that it has made, unless another one has followed.
func (b *Book) Save(ctx context.Context, c rules.Change) (rules.Revision, error) {
	fail := func(err error) (rules.Revision, error) {
		return rules.Revision{}, fmt.Errorf("redisrules: save %.300q in %s: %w", c.Domain, b.key, err)
	}
	if err := book.Check(c); err != nil {
		return fail(err)
	}
	payload, err := newPayload(c)
	if err != nil {
		return fail(err)
	}
	reply, err := run(ctx, func(ctx context.Context) ([]any, error) {
		return save.run(ctx, b.rdb, []string{b.key, b.history(c.Domain)},
			c.Domain, strconv.FormatInt(c.Base, 10), payload, rand.Text(), Keep, rules.MaxDomains)
	})
	if err != nil {
		return fail(err)
	}
	if len(reply) == 2 {
		word, _ := reply[0].(string)
		text, _ := reply[1].(string)
		switch word {
		case "made":
			return parseRecord(c.Domain, text)
		case "conflict":
			return fail(fmt.Errorf("%w: it is at version %s, not %d", rules.ErrConflict, text, c.Base))
		case "full":
			return fail(fmt.Errorf("the book has %s domains, with those that were deleted", text))
		}
	}
	return fail(fmt.Errorf("odd reply %.200q", fmt.Sprint(reply)))
}

// History returns the newest n revisions of a domain before a version, newest first, of the last
// Keep ones; n is 1 to 1000. It returns after 10 s at the latest.
func (b *Book) History(
	ctx context.Context, domain string, before int64, n int,
) ([]rules.Revision, error) {
	list, err := b.revisions(ctx, domain, before, n)
	if err != nil {
		return nil, fmt.Errorf("redisrules: history of %.300q in %s: %w", domain, b.key, err)
	}
	return list, nil
}

func (b *Book) revisions(
	ctx context.Context, domain string, before int64, n int,
) ([]rules.Revision, error) {
	if err := book.CheckHistory(domain, before, n); err != nil {
		return nil, err
	}
	newest, err := b.newest(ctx, domain)
	if err != nil || newest == 0 {
		return nil, err
	}
	if before == 0 || before > newest {
		before = newest + 1
	}
	args := []any{"hmget", b.history(domain)}
	for v := before - 1; v > max(0, newest-Keep) && len(args) < n+2; v-- {
		args = append(args, v)
	}
	if len(args) == 2 {
		return nil, nil
	}
	records, err := run(ctx, func(ctx context.Context) ([]any, error) {
		cmd := redis.NewSliceCmd(ctx, args...)
		err := b.rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
	if err != nil {
		return nil, err
	}
	var list []rules.Revision
	for _, record := range records {
		text, ok := record.(string)
		if !ok {
			continue // dropped since
		}
		r, err := parseRecord(domain, text)
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	return list, nil
}

// newest is the newest version of a domain, or 0.
func (b *Book) newest(ctx context.Context, domain string) (int64, error) {
	record, err := run(ctx, func(ctx context.Context) (string, error) {
		cmd := redis.NewStringCmd(ctx, "hget", b.key, domain)
		err := b.rdb.Process(ctx, cmd)
		return cmd.Val(), err
	})
	if errors.Is(err, redis.Nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	r, err := parseRecord(domain, record)
	return r.Version, err
}

// run does an exchange beside its caller: an end of the caller's context is no reason to drop a
// connection in the middle of a reply, and go-redis would not return at it. What was sent may
// be done all the same.
func run[T any](ctx context.Context, do func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	beside, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	done := make(chan result, 1)
	go func() {
		defer cancel()
		v, err := do(beside)
		done <- result{v, err}
	}()
	var none T
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-beside.Done():
	}
	select {
	case r := <-done: // cancel comes after it
		return r.value, r.err
	default:
		return none, fmt.Errorf("no answer after %v: %w", patience, beside.Err())
	}
}
