package remote

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// script is a Lua text and the digest by which a server that has seen it knows it.
type script struct {
	text   string
	digest any // a string, as an argument of commands
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
	all := append(make([]any, 0, 4+len(args)), "evalsha", s.digest, "1", key)
	return &command{redis.NewCmd(ctx, append(all, args...)...), s.text}
}

// run sends cmds in one pipeline. Those whose server does not know the script, because it is
// new, was restarted or has just become the master, did not run. They go again, the first
// one of each script with its text. A server that has not seen that one, as others of a
// cluster, gets the text with each of the rest.
func (s *Store) run(ctx context.Context, cmds []*command) {
	s.send(ctx, cmds)
	// The time of the exchange may be over by now. A server that is far away must learn the
	// script all the same, or each exchange would begin like this (hybrid.TestFarServer).
	ctx = context.WithoutCancel(ctx)
	for _, each := range []bool{false, true} {
		cmds = unknown(cmds)
		told := ""
		for _, cmd := range cmds {
			if each || cmd.text != told {
				args := cmd.Args()
				args[0], args[1] = "eval", cmd.text
				told = cmd.text
			}
			// Else it would stay, and the command would be sent once more, if the
			// connection breaks before there is a reply.
			cmd.SetErr(nil)
		}
		s.send(ctx, cmds)
	}
}

// unknown returns those that did not run, as their server does not know the script.
func unknown(cmds []*command) (some []*command) {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			some = append(some, cmd)
		}
	}
	return some
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
	astray, answered := false, false
	for _, cmd := range cmds {
		// Each has its own error, unless a server's answer ended the connection before
		// they were sent, as to a wrong password (TestRefusedConnection). No script
		// replies nil.
		if cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
		answered = answered || cmd.Err() == nil
		if err := cmd.Err(); err != nil {
			var reply redis.Error
			astray = astray || !errors.As(err, &reply) || redis.HasErrorPrefix(err, "READONLY")
		}
	}
	if answered && !s.answered.Load() {
		s.answered.Store(true)
	}
	// A ClusterClient asks once a minute where the slots are, unless a node sends it
	// elsewhere. One that is dead does not (TestClusterReplicas).
	if cluster, ok := s.rdb.(interface{ ReloadState(context.Context) }); ok && astray {
		cluster.ReloadState(ctx) // begins it, at most every 200 ms
	}
}
