package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/control"
)

// A Cost is one round of what a script costs the server, by INFO commandstats,
// in µs of its time: an exchange of holders that renew in turn, and the control
// in turn with it. Redis has one thread for scripts, so this is what counts
// where many processes share it.
type Cost struct {
	Holders           int
	Exchange, Control float64
}

const costTurn = 2000 // calls of either

func (b *bench) measureCost(holders int) (Cost, error) {
	cost := Cost{Holders: holders}
	ctx := context.Background()
	if err := b.server.Flush(); err != nil {
		return cost, err
	}
	client := redis.NewClient(&redis.Options{Addr: b.server.Addr, MaxRetries: -1})
	defer client.Close()
	exchange := renewals(remote.New(client), holders)
	digest, err := client.ScriptLoad(ctx, control.PlainBucket).Result()
	if err != nil {
		return cost, err
	}
	control := func() error {
		pipe := client.Pipeline()
		for range holders {
			pipe.EvalSha(ctx, digest, []string{"plain"}, 1000, 1000, 1)
		}
		_, err := pipe.Exec(ctx)
		return err
	}
	for range 2 { // then everybody has a lease
		if err := exchange(); err != nil {
			return cost, err
		}
	}
	if cost.Exchange, err = b.usec(exchange, costTurn/holders); err == nil {
		cost.Control, err = b.usec(control, costTurn/holders)
	}
	return cost, err
}

// renewals returns what renews the leases of so many holders of a key.
func renewals(store *remote.Store, holders int) func() error {
	calls := make([]*lease.Call, holders)
	for i := range calls {
		calls[i] = &lease.Call{Key: "tenant:42", Request: lease.Request{
			Holder: fmt.Sprintf("k3u7vq2xw9f0%04d", i), Held: 12.345678901234567,
			Got: 3.456789012345678, Peak: 23.45678901234567,
			Give:  1.2345678901234567,
			Lag:   731 * time.Microsecond,
			Limit: lease.Limit{Rate: 1000, Burst: 1000}, Policy: lease.Policy{}.Resolved(),
		}}
	}
	return func() error {
		for _, c := range calls {
			c.Request.Seen = c.Request.Seq
			c.Request.Seq++
			c.Request.Demand = 1200/float64(holders) + 1/float64(c.Request.Seq)
			c.Request.Claim = lease.Claim{
				Rate: c.Reply.Rate, Burst: c.Reply.Burst, Left: c.Reply.Expires,
			}
		}
		store.Exchange(context.Background(), calls)
		return calls[0].Err
	}
}

// usec is the server's time per script call.
func (b *bench) usec(do func() error, times int) (float64, error) {
	before, err := b.server.Counters()
	if err != nil {
		return 0, err
	}
	for range times {
		if err := do(); err != nil {
			return 0, err
		}
	}
	after, err := b.server.Counters()
	if err != nil {
		return 0, err
	}
	var calls int64
	var usec float64
	for _, name := range []string{"evalsha", "eval", "fcall"} {
		calls += after.Calls[name] - before.Calls[name]
		usec += after.Usec[name] - before.Usec[name]
	}
	if calls == 0 {
		return 0, fmt.Errorf("no script ran")
	}
	return usec / float64(calls), nil
}
