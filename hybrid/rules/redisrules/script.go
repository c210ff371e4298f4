package redisrules

import (
	"context"
	_ "embed"

	"github.com/redis/go-redis/v9"
)

//go:embed save.lua
var saveText string

var save = script{saveText, redis.NewScript(saveText).Hash()}

// script is a Lua text and the digest by which a server that has seen it knows it.
type script struct{ text, digest string }

// command is one that no client of go-redis sends twice, as a ClusterClient does with others.
type command struct{ *redis.Cmd }

// NoRetry is part of redis.Cmder.
func (command) NoRetry() bool { return true }

// run calls the script. A server that does not know it, because it is new or was restarted, has
// done nothing: it gets the text.
func (s script) run(ctx context.Context, rdb Client, keys []string, args ...any) ([]any, error) {
	reply, err := s.call(ctx, rdb, "evalsha", s.digest, keys, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return s.call(ctx, rdb, "eval", s.text, keys, args)
	}
	return reply, err
}

func (s script) call(
	ctx context.Context, rdb Client, verb, what string, keys []string, args []any,
) ([]any, error) {
	words := []any{verb, what, len(keys)}
	for _, k := range keys {
		words = append(words, k)
	}
	cmd := command{redis.NewCmd(ctx, append(words, args...)...)}
	if err := rdb.Process(ctx, cmd); err != nil {
		return nil, err
	}
	return cmd.Slice()
}
