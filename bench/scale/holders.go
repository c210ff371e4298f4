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

// A HoldersRow is what an exchange of one key costs the server, by how many
// processes hold a lease of it.
type HoldersRow struct {
	Holders                  int
	Exchange, Plain          float64 // µs of the script, medians of rounds
	ExchangeCPU, PlainCPU    float64 // µs of the server's CPU, reading and writing included
	Ratio                    float64 // of the scripts, median of rounds
	Bytes                    float64 // MEMORY USAGE of the key
	ExchangeCalls, Pipelined int     // exchanges measured, and how many shared a round trip
}

func measureHolders(o options) (rows []HoldersRow, err error) {
	for _, n := range []int{1, 8, 64, 500, 2000} {
		if o.short && n > 64 {
			break
		}
		s, err := startServer()
		if err != nil {
			return nil, err
		}
		row, err := measureFleet(o, s, n)
		s.stop()
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// renewals are calls of holders that renew their leases, each as long as a real
// one is.
type renewals []*lease.Call

func newRenewals(n int, key func(i int) string, limit lease.Limit) renewals {
	calls := make(renewals, n)
	for i := range calls {
		calls[i] = &lease.Call{Key: key(i), Request: lease.Request{
			Holder: fmt.Sprintf("K3U7V%05d-1", i), Held: 12.345678901234567,
			Got: 3.456789012345678, Peak: 23.45678901234567,
			Give: 1.2345678901234567,
			Lag:  731 * time.Microsecond, Limit: limit, Policy: lease.Policy{}.Resolved(),
		}}
	}
	return calls
}

// next makes the calls those of the next renewal.
func (r renewals) next() {
	for _, c := range r {
		q := &c.Request
		q.Seen = q.Seq
		q.Seq++
		q.Demand = 150 + 1/float64(q.Seq)
		q.Claim = lease.Claim{Rate: c.Reply.Rate, Burst: c.Reply.Burst, Left: c.Reply.Expires}
	}
}

func (r renewals) err() error {
	for _, c := range r {
		if c.Err != nil {
			return c.Err
		}
	}
	return nil
}

func measureFleet(o options, s *server, n int) (row HoldersRow, err error) {
	ctx := context.Background()
	opt := remote.Options(s.Addr)
	// A batch of first exchanges reads many records.
	opt.ReadTimeout, opt.WriteTimeout = 10*time.Second, 10*time.Second
	client := redis.NewClient(opt)
	defer client.Close()
	store := remote.New(client)
	const most = 256 // in a round trip
	calls := newRenewals(n, func(int) string { return "tenant:42" },
		lease.Limit{Rate: 125 * float64(n), Burst: 125 * int64(n)})
	exchange := func() error {
		calls.next()
		for i := 0; i < n; i += most {
			store.Exchange(ctx, calls[i:min(i+most, n)])
		}
		return calls.err()
	}
	digest, err := s.client.ScriptLoad(ctx, control.PlainBucket).Result()
	if err != nil {
		return row, err
	}
	plain := func() error {
		for i := 0; i < n; i += most {
			pipe := client.Pipeline()
			for range min(most, n-i) {
				pipe.EvalSha(ctx, digest, []string{"plain"}, 1000, 1000, 1)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	for range 2 { // everybody has a lease
		if err := exchange(); err != nil {
			return row, err
		}
	}
	row = HoldersRow{Holders: n, Pipelined: min(n, most)}
	times := max(400/n, 1)
	var scripts, cpu [2][]float64
	var ratio []float64
	for range o.turns {
		for i, f := range []func() error{exchange, plain} {
			before, err := s.counters()
			if err != nil {
				return row, err
			}
			for range times {
				if err := f(); err != nil {
					return row, err
				}
			}
			after, err := s.counters()
			if err != nil {
				return row, err
			}
			d := after.since(before)
			if want := float64(times * n); d.calls != want {
				return row, fmt.Errorf("%d holders: %v calls of scripts, not %v", n, d.calls, want)
			}
			scripts[i] = append(scripts[i], float64(d.script)/1e3/d.calls)
			cpu[i] = append(cpu[i], float64(d.cpu)/1e3/d.calls)
		}
		ratio = append(ratio, scripts[0][len(ratio)]/scripts[1][len(ratio)])
		row.ExchangeCalls += times * n
	}
	row.Exchange, row.Plain, row.Ratio = median(scripts[0]), median(scripts[1]), median(ratio)
	row.ExchangeCPU, row.PlainCPU = median(cpu[0]), median(cpu[1])
	bytes, err := s.client.MemoryUsage(ctx, "ration:tenant:42", 0).Result()
	row.Bytes = float64(bytes)
	return row, err
}
