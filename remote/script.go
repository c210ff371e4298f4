package remote

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// script is a Lua text and the digest by which a server that has seen it knows it.
type script struct {
	text, digest string
}

func newScript(text string) script {
	return script{text, redis.NewScript(text).Hash()}
}

// command is a script call that go-redis sends at most once.
//
// Its retries cannot be had otherwise for all clients: Options.MaxRetries of -1
// holds for a single server, but a ClusterClient sends a pipeline again, by
// MaxRedirects, after a lost connection. It does not if one of its commands
// says NoRetry; redirections are followed all the same (TestLostReply,
// TestCluster).
type command struct {
	*redis.Cmd
	text string // of its script, if it has one
}

// NoRetry is part of redis.Cmder.
func (*command) NoRetry() bool { return true }

func (s script) command(ctx context.Context, key string, args ...any) *command {
	cmd := redis.NewCmd(ctx, append([]any{"evalsha", s.digest, "1", key}, args...)...)
	return &command{cmd, s.text}
}

// run sends cmds in one pipeline. Those whose server does not know the script,
// because it is new, was restarted or has just become the master, did not run:
// they go again with its text.
func (s *Store) run(ctx context.Context, cmds []*command) {
	s.send(ctx, cmds)
	var unknown []*command
	for _, cmd := range cmds {
		if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
			args := cmd.Args()
			args[0], args[1] = "eval", cmd.text
			unknown = append(unknown, cmd)
		}
	}
	s.send(ctx, unknown)
}

func (s *Store) send(ctx context.Context, cmds []*command) {
	if len(cmds) == 0 {
		return
	}
	pipe := s.rdb.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd) // only queues
	}
	_, err := pipe.Exec(ctx)
	astray := false
	for _, cmd := range cmds {
		// Each has its own error, unless a server's answer ended the connection before
		// they were sent, as to a wrong password (TestRefusedConnection). No script
		// replies nil.
		if cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
		if err := cmd.Err(); err != nil {
			var reply redis.Error
			astray = astray || !errors.As(err, &reply) || redis.HasErrorPrefix(err, "READONLY")
		}
	}
	// A ClusterClient asks once a minute where the slots are, unless a node sends it
	// elsewhere. One that is dead does not (TestClusterReplicas).
	if cluster, ok := s.rdb.(interface{ ReloadState(context.Context) }); ok && astray {
		cluster.ReloadState(ctx) // begins it, at most every 200 ms
	}
}
