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
	Holders               int
	Exchange, Plain       float64   // µs of the script, medians of rounds
	ExchangeCPU, PlainCPU float64   // µs of the server's CPU, reading and writing included
	Alone                 []float64 // the same of those that travel alone, of all leased kinds
	PlainAlone            float64
	Ratio                 float64 // of the scripts, median of rounds
	Bytes                 float64 // MEMORY USAGE of the key
}

// leased are the kinds whose exchanges are measured, the token bucket first.
var leased = []struct {
	name  string
	limit func(holders int) lease.Limit
}{
	{"token bucket", func(n int) lease.Limit {
		return lease.Limit{Rate: 125 * float64(n), Burst: 125 * int64(n)}
	}},
	{"quota", func(n int) lease.Limit {
		return lease.Limit{Kind: lease.KindQuota, Burst: 800_000 * int64(n), Window: 365 * day}
	}},
	{"sliding window", func(n int) lease.Limit {
		return lease.Limit{Kind: lease.KindSliding, Burst: 800_000 * int64(n), Window: 365 * day}
	}},
	{"slots", func(n int) lease.Limit {
		return lease.Limit{Kind: lease.KindSlots, Burst: 1000 * int64(n)}
	}},
}

const day = 24 * time.Hour

// longLeases go on while all is measured, also those that are not renewed meanwhile.
var longLeases = lease.Policy{MinRefresh: 10 * time.Minute, MaxRefresh: 10 * time.Minute}

func measureHolders(o options) (rows []HoldersRow, err error) {
	for _, n := range []int{1, 8, 64, 500, 2000, 5000} {
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
			return nil, fmt.Errorf("%d holders: %w", n, err)
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
		if q.Limit.Kind != lease.KindBucket {
			q.Held = max(c.Reply.Burst-50, 0) // which it gets again
		}
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

// A fleetSubject is asked in turns.
type fleetSubject struct {
	batch func() error // a round trip for all of a sample
	alone func() error // lonelyCalls times a round trip
}

const lonelyCalls = 200

func measureFleet(o options, s *server, n int) (row HoldersRow, err error) {
	ctx := context.Background()
	opt := remote.Options(s.Addr)
	// A batch of first exchanges reads many records.
	opt.ReadTimeout, opt.WriteTimeout = 10*time.Second, 10*time.Second
	client := redis.NewClient(opt)
	defer client.Close()
	store := remote.New(client)
	subjects := make([]fleetSubject, 0, len(leased)+1)
	samples := make([]renewals, 0, len(leased))
	for _, k := range leased {
		fleet := newRenewals(n, func(int) string { return k.name }, k.limit(n))
		if err := fleet.settle(ctx, store); err != nil {
			return row, err
		}
		sample := make(renewals, min(n, clusterBatch)) // from all over the key
		for i := range sample {
			sample[i] = fleet[i*n/len(sample)]
		}
		samples = append(samples, sample)
		subjects = append(subjects, sample.subject(store))
	}
	plain, err := plainSubject(ctx, client, len(samples[0]))
	if err != nil {
		return row, err
	}
	row, err = serverCosts(o, s, append(subjects, plain), len(samples[0]))
	if err != nil {
		return row, err
	}
	for i, sample := range samples {
		for _, c := range sample {
			if r := c.Reply; r.Holders != n || r.Burst == 0 {
				return row, fmt.Errorf("%s: %s is told of %d holders, and has a lease of %v",
					leased[i].name, c.Request.Holder, r.Holders, r.Burst)
			}
		}
	}
	row.Holders = n
	bytes, err := s.client.MemoryUsage(ctx, "ration:"+leased[0].name, 0).Result()
	row.Bytes = float64(bytes)
	return row, err
}

// settle gives everybody a long lease.
func (r renewals) settle(ctx context.Context, store *remote.Store) error {
	for range 2 {
		r.next()
		for _, c := range r {
			c.Request.Policy = longLeases.Resolved()
		}
		for i := 0; i < len(r); i += clusterBatch {
			store.Exchange(ctx, r[i:min(i+clusterBatch, len(r))])
		}
		if err := r.err(); err != nil {
			return err
		}
	}
	return nil
}

// subject renews a sample of a key's holders.
func (r renewals) subject(store *remote.Store) fleetSubject {
	ctx := context.Background()
	return fleetSubject{
		batch: func() error {
			r.next()
			store.Exchange(ctx, r)
			return r.err()
		},
		alone: func() error {
			for i := range lonelyCalls {
				one := r[i%len(r) : i%len(r)+1]
				one.next()
				store.Exchange(ctx, one)
			}
			return r.err()
		},
	}
}

// plainSubject is as many calls of a plain token bucket.
func plainSubject(ctx context.Context, client *redis.Client, n int) (f fleetSubject, err error) {
	digest, err := client.ScriptLoad(ctx, control.PlainBucket).Result()
	if err != nil {
		return f, err
	}
	call := func(c redis.Scripter) error {
		return c.EvalSha(ctx, digest, []string{"plain"}, 1000, 1000, 1).Err()
	}
	return fleetSubject{
		batch: func() error {
			pipe := client.Pipeline()
			for range n {
				_ = call(pipe) // Exec has its error
			}
			_, err := pipe.Exec(ctx)
			return err
		},
		alone: func() error {
			for range lonelyCalls {
				if err := call(client); err != nil {
					return err
				}
			}
			return nil
		},
	}, nil
}

// serverCosts measures all subjects, each with a sample of n: the first, which is the token
// bucket's, and the last, the plain one, in batches, too.
func serverCosts(o options, s *server, subjects []fleetSubject, n int) (row HoldersRow, err error) {
	cost := func(do func() error, times, calls int) (d counters, err error) {
		before, err := s.counters()
		if err != nil {
			return d, err
		}
		for range times {
			if err := do(); err != nil {
				return d, err
			}
		}
		after, err := s.counters()
		d = after.since(before)
		if want := float64(times * calls); err == nil && d.calls != want {
			err = fmt.Errorf("%v calls of scripts, not %v", d.calls, want)
		}
		return d, err
	}
	each := func(d time.Duration, c counters) float64 { return micros(d) / c.calls }
	last := len(subjects) - 1
	script, cpu := make([][]float64, last+1), make([][]float64, last+1)
	alone := make([][]float64, last+1)
	var ratio []float64
	for turn := range o.turns {
		for i, f := range subjects {
			d, err := cost(f.alone, 1, lonelyCalls)
			if err != nil {
				return row, err
			}
			alone[i] = append(alone[i], each(d.cpu, d))
			if i > 0 && i < last {
				continue
			}
			if d, err = cost(f.batch, max(400/n, 1), n); err != nil {
				return row, err
			}
			script[i] = append(script[i], each(d.script, d))
			cpu[i] = append(cpu[i], each(d.cpu, d))
		}
		ratio = append(ratio, script[0][turn]/script[last][turn])
	}
	row = HoldersRow{
		Exchange: median(script[0]), Plain: median(script[last]), Ratio: median(ratio),
		ExchangeCPU: median(cpu[0]), PlainCPU: median(cpu[last]), PlainAlone: median(alone[last]),
	}
	for _, costs := range alone[:last] {
		row.Alone = append(row.Alone, median(costs))
	}
	return row, nil
}
