// Package redisholds keeps holds in Redis, for the replicas of a service.
//
// # Promise
//
// A batch is one call of a script, which is done whole or not at all, by the server's clock. All
// keys begin with the same name, which has a hash tag: a Cluster has all holds on one node.
//
// # Not promised
//
// A batch is not sent again, but for a script that the server did not know. After an error it may
// be done, or be done later. Redis keeps what its persistence keeps.
//
// # Rights
//
// The user needs EVAL, EVALSHA, GET, SET, HSET, HGETALL, HDEL, PEXPIRE, TIME, ZADD, ZREM and
// ZRANGEBYSCORE on the keys, which begin with `ration:` by default.
package redisholds

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/holds"
)

//go:embed holds.lua
var text string

var digest = redis.NewScript(text).Hash()

// A Client is what a Store needs of go-redis: *redis.Client, also one for Sentinels, or
// *redis.ClusterClient.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A Store keeps holds in Redis. It is safe for concurrent use, and needs no Close.
type Store struct {
	rdb  Client
	name string
}

var _ holds.Store = (*Store)(nil)

// New returns a Store whose keys begin with a prefix, such as "ration:". It does not connect.
func New(rdb Client, prefix string) *Store { return &Store{rdb, prefix + "{holds}"} }

// command is one that go-redis never sends twice.
type command struct{ *redis.Cmd }

// NoRetry is part of redis.Cmder.
func (command) NoRetry() bool { return true }

// Do implements holds.Store. It blocks for as long as the timeouts of the client, twice at most.
func (s *Store) Do(ctx context.Context, b holds.Batch) (holds.Reply, error) {
	args := []any{"evalsha", digest, "1", s.name, b.Home, holds.Kept.Milliseconds(),
		(holds.MaxLife + holds.Kept).Milliseconds(), len(b.Acks)}
	for _, id := range b.Acks {
		args = append(args, id)
	}
	for _, c := range b.Calls {
		args = append(args, arguments(c)...)
	}
	cmd := command{redis.NewCmd(ctx, args...)}
	err := s.rdb.Process(ctx, cmd)
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		args[0], args[1] = "eval", text
		cmd = command{redis.NewCmd(ctx, args...)}
		err = s.rdb.Process(ctx, cmd)
	}
	if err != nil {
		return holds.Reply{}, fmt.Errorf("redisholds: %d calls: %w", len(b.Calls), err)
	}
	words, err := cmd.StringSlice()
	if err != nil {
		return holds.Reply{}, fmt.Errorf("redisholds: %d calls: %w", len(b.Calls), err)
	}
	r, err := parse(words, len(b.Calls))
	if err != nil {
		return r, fmt.Errorf("redisholds: reply of %d words to %d calls: %w",
			len(words), len(b.Calls), err)
	}
	return r, nil
}

func arguments(c holds.Call) []any {
	numbers, spent, until := c.Estimate, "0", int64(0)
	if c.Verb == holds.Settle {
		numbers = c.Used
	}
	if c.Spent {
		spent = "1"
	}
	if c.Verb == holds.Reserve {
		until = c.Until.UnixMilli()
	}
	return []any{string(c.Verb), c.Name, c.Life.Milliseconds(), until, spent, join(numbers), c.Content,
		c.Token + "\n" + c.Answer}
}

func join(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, " ")
}

func split(text string) (numbers []int, err error) {
	for word := range strings.FieldsSeq(text) {
		n, failed := strconv.Atoi(word)
		numbers, err = append(numbers, n), errors.Join(err, failed)
	}
	return numbers, err
}

var errShort = errors.New("it has another number of words")

func parse(words []string, calls int) (r holds.Reply, err error) {
	if len(words) < 2+3*calls || words[1] != strconv.Itoa(calls) || len(words)%2 != calls%2 {
		return r, errShort
	}
	if r.Now, err = moment(words[0]); err != nil {
		return r, err
	}
	words = words[2:]
	for ; len(r.Answers) < calls; words = words[3:] {
		a := holds.Answer{Verdict: holds.Verdict(words[0])}
		if words[1] != "0" {
			if a.Ends, err = moment(words[1]); err != nil {
				return r, err
			}
		}
		a.Token, a.Answer, _ = strings.Cut(words[2], "\n")
		r.Answers = append(r.Answers, a)
	}
	for ; len(words) > 0; words = words[2:] {
		if words[0] == "" {
			return r, errShort
		}
		used, content, _ := strings.Cut(words[1], "\n")
		n := holds.Notice{Kind: holds.Kind(words[0][:1]), Name: words[0][1:], Content: content}
		if n.Used, err = split(used); err != nil {
			return r, err
		}
		r.Notices = append(r.Notices, n)
	}
	return r, nil
}

func moment(text string) (time.Time, error) {
	ms, err := strconv.ParseInt(text, 10, 64)
	return time.UnixMilli(ms).UTC(), err
}
