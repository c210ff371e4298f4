package remote_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
)

// A fleet is a few processes that share one key of a real Redis, in virtual
// time: that of the holders is now, and the server's clock is skew ahead of it.
type fleet struct {
	t       *testing.T
	store   *remote.Store
	limit   lease.Limit
	policy  lease.Policy
	offered float64 // tokens/s, by all together
	rng     *rand.Rand

	now, skew time.Duration
	holders   []*lease.Holder
	started   int

	admitted     float64
	level        float64 // of a leaky bucket: the most above Rate*T in any window that ends now
	worst        float64 // level above Burst
	failed, asks int     // exchanges
	err          error   // the last one's
}

const (
	fleetName = "ration:k" // of its key
	tick      = time.Millisecond
)

func newFleet(t *testing.T, c hookedClient, limit lease.Limit, policy lease.Policy) *fleet {
	f := &fleet{t: t, limit: limit, policy: policy, rng: rand.New(rand.NewPCG(1, 2))}
	c.AddHook(virtualTime{f})
	f.store = remote.New(c)
	f.start(4)
	return f
}

// start adds n processes, which ask before the others.
func (f *fleet) start(n int) {
	for range n {
		f.started++
		h := lease.NewHolder(fmt.Sprint("p", f.started), f.limit, &f.policy, uint64(f.started))
		f.holders = append([]*lease.Holder{h}, f.holders...)
	}
}

type hookedClient interface {
	remote.Client
	AddHook(redis.Hook)
}

// run lets d pass, and returns what was admitted meanwhile.
func (f *fleet) run(d time.Duration) (admitted float64) {
	before := f.admitted
	for end := f.now + d; f.now < end; f.now += tick {
		f.level = max(f.level-f.limit.Rate*tick.Seconds(), 0)
		for _, h := range f.holders {
			for range int(f.offered/float64(len(f.holders))*tick.Seconds() + f.rng.Float64()) {
				switch h.Take(f.now, 1) {
				case lease.Admitted:
					f.admit()
				case lease.Pending:
					h.Enter(&lease.Waiter{N: 1})
				}
				f.drive(h)
			}
			f.drive(h)
		}
	}
	return f.admitted - before
}

func (f *fleet) admit() {
	f.admitted++
	f.level++
	f.worst = max(f.worst, f.level-float64(f.limit.Burst))
}

// drive does a holder's exchange, if there is one to do. It takes no time.
func (f *fleet) drive(h *lease.Holder) {
	if q, ok := h.Request(f.now); ok {
		call := &lease.Call{Key: "k", Request: q}
		f.store.Exchange(f.t.Context(), []*lease.Call{call})
		f.asks++
		if call.Err != nil {
			f.failed++
			f.err = call.Err
			h.Fail(f.now)
		} else {
			h.Handle(f.now, call.Reply)
		}
		h.Dismiss(f.now)
	}
	for _, w := range h.Ready(f.now).Resolved {
		if w.Verdict == lease.Admitted {
			f.admit()
		}
	}
}

// virtualTime gives exchange.lua a time instead of the server's, as two more arguments. The script
// takes them off its own.
type virtualTime struct{ *fleet }

var virtualScript = "local micros, seconds = table.remove(ARGV), table.remove(ARGV)\n" +
	strings.Replace(lua.Exchange, "redis.call('TIME')", "{seconds, micros}", 1)

func (v virtualTime) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	text, known := virtualScript, redis.NewScript(lua.Exchange).Hash()
	digest := redis.NewScript(text).Hash()
	return func(ctx context.Context, cmds []redis.Cmder) error {
		us := (time.Duration(1e18) + v.now + v.skew).Microseconds()
		sent := make([]redis.Cmder, len(cmds))
		for i, cmd := range cmds {
			sent[i] = cmd
			args := cmd.Args()
			switch args[1] {
			case lua.Exchange:
				sent[i] = once{redis.NewCmd(ctx,
					append([]any{"eval", text}, append(args[2:], us/1e6, us%1e6)...)...)}
			case known:
				sent[i] = once{redis.NewCmd(ctx,
					append([]any{"evalsha", digest}, append(args[2:], us/1e6, us%1e6)...)...)}
			}
		}
		err := next(ctx, sent)
		for i, cmd := range cmds {
			if s, ok := sent[i].(once); ok {
				cmd.SetErr(s.Err())
				cmd.(interface{ SetVal(any) }).SetVal(s.Val())
			}
		}
		return err
	}
}

// once is a command that is sent at most once, as those of a Store are.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

func (virtualTime) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (virtualTime) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
