package remote_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestUnable: where a server answers that it can serve nobody, the error says so, what the
// server said, and what to do.
func TestUnable(t *testing.T) {
	weak := func(o *redis.Options) { o.Username, o.Password = "weak", "p" }
	for _, c := range []struct {
		word, remedy, setup string
		options             func(*redis.Options)
	}{
		{"OOM", "maxmemory", "config set maxmemory 1", nil},
		{"NOAUTH", "password", "config set requirepass secret", nil},
		{
			"WRONGPASS", "password", "config set requirepass secret",
			func(o *redis.Options) { o.Password = "wrong" },
		},
		{"NOPERM", "rights", "acl setuser weak on >p ~ration:*", weak},
		{"ERR", "rights", "acl setuser weak on >p ~ration:* +@all -hset", weak},
		{"READONLY", "master", "replicaof 127.0.0.1 1", nil},
		{"NOREPLICAS", "replicas", "config set min-replicas-to-write 1", nil},
	} {
		t.Run(c.word, func(t *testing.T) {
			server := redistest.Start(t)
			var words []any
			for _, w := range strings.Fields(c.setup) {
				words = append(words, w)
			}
			if err := server.Client().Do(t.Context(), words...).Err(); err != nil {
				t.Fatal(err)
			}
			options := patient(server.Addr)
			if c.options != nil {
				c.options(options)
			}
			calls := keys(2)
			remote.New(client(t, options)).Exchange(t.Context(), calls)
			for _, call := range calls {
				if !errors.Is(call.Err, lease.ErrUnable) ||
					!strings.Contains(call.Err.Error(), c.word) ||
					!strings.Contains(call.Err.Error(), c.remedy) {
					t.Errorf("%v", call.Err)
				}
			}
		})
	}
	calls := keys(1)
	options := remote.Options(redistest.FreeAddr(t))
	remote.New(client(t, options)).Exchange(t.Context(), calls)
	if calls[0].Err == nil || errors.Is(calls[0].Err, lease.ErrUnable) {
		t.Errorf("nobody answers: %v", calls[0].Err)
	}
}
