package main

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// A ClusterRow is what renewals of 10,000 keys cost so many masters.
type ClusterRow struct {
	Masters int
	Rate    float64   // exchanges/s, all on this machine
	Script  float64   // µs of the script per exchange
	CPU     float64   // µs of the servers' CPU per exchange, all nodes together
	Busiest float64   // µs of it on the node with the most
	Client  float64   // µs of this process's CPU per exchange
	Trips   float64   // pipelines per batch of 256
	Batch   float64   // ms until all of a batch is answered
	Keys    []int64   // on each node
	Calls   []float64 // of each node, a part of all
	Alone   float64   // µs of the servers' CPU per exchange that travels alone, without a pipeline
}

const (
	clusterKeys  = 10_000
	clusterBatch = 256 // what package hybrid sends in a round trip at most
)

func measureCluster(o options) (rows []ClusterRow, err error) {
	keys, rounds := clusterKeys, o.rounds
	if o.short {
		keys = 1000
	}
	var subjects []*clusterSubject
	defer func() {
		for _, s := range subjects {
			s.close()
		}
	}()
	for _, masters := range []int{1, 3} {
		s, err := newClusterSubject(masters, keys)
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, s)
	}
	for i := range rounds + 1 {
		for _, s := range subjects {
			if err := s.round(i > 0); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range subjects {
		row, err := s.row()
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// A clusterSubject is a server, or a cluster, with calls that renew leases of
// all keys in turn.
type clusterSubject struct {
	nodes  []*server
	client interface {
		remote.Client
		Close() error
	}
	store *remote.Store
	calls renewals
	trips atomic.Int64

	rate, script, cpu, busiest, mine, batch, alone []float64
	sum                                            []float64 // calls of each node
	trip, batches                                  float64
}

func newClusterSubject(masters, keys int) (*clusterSubject, error) {
	s := &clusterSubject{}
	options := remote.Options("")
	if masters == 1 {
		node, err := startServer()
		if err != nil {
			return nil, err
		}
		s.nodes = []*server{node}
		options.Addr = node.Addr
		c := redis.NewClient(options)
		c.AddHook(countPipelines{&s.trips})
		s.client = c
	} else {
		nodes, err := startCluster(masters)
		if err != nil {
			return nil, err
		}
		s.nodes = nodes
		cluster := &redis.ClusterOptions{
			DialTimeout: options.DialTimeout, DialerRetries: options.DialerRetries,
			ReadTimeout: options.ReadTimeout, WriteTimeout: options.WriteTimeout,
			MaxRetries: options.MaxRetries, PipelinePoolSize: options.PipelinePoolSize,
			PoolSize: options.PoolSize, PoolTimeout: options.PoolTimeout,
			MinIdleConns: options.MinIdleConns, ContextTimeoutEnabled: true,
		}
		for _, node := range nodes {
			cluster.Addrs = append(cluster.Addrs, node.Addr)
		}
		c := redis.NewClusterClient(cluster)
		c.OnNewNode(func(node *redis.Client) { node.AddHook(countPipelines{&s.trips}) })
		s.client = c
	}
	s.sum = make([]float64, masters)
	s.store = remote.New(s.client)
	s.calls = newRenewals(keys, func(i int) string { return fmt.Sprintf("tenant:%07d", i) },
		lease.Limit{Rate: 1000, Burst: 1000})
	if err := s.renew(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *clusterSubject) close() {
	s.client.Close()
	stopAll(s.nodes)
}

// renew makes an exchange for each key, in batches, one after the other.
func (s *clusterSubject) renew() error {
	s.calls.next()
	for i := 0; i < len(s.calls); i += clusterBatch {
		s.store.Exchange(context.Background(), s.calls[i:min(i+clusterBatch, len(s.calls))])
	}
	return s.calls.err()
}

func (s *clusterSubject) read() (all []counters, err error) {
	for _, node := range s.nodes {
		c, err := node.counters()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// since adds up what all nodes did, and says what the busiest did.
func since(after, before []counters) (sum counters, busiest time.Duration, calls []float64) {
	for i := range after {
		d := after[i].since(before[i])
		sum.calls += d.calls
		sum.script += d.script
		sum.cpu += d.cpu
		busiest = max(busiest, d.cpu)
		calls = append(calls, d.calls)
	}
	return sum, busiest, calls
}

func (s *clusterSubject) round(counts bool) error {
	before, err := s.read()
	if err != nil {
		return err
	}
	s.trips.Store(0)
	mine, start := ownCPU(), time.Now()
	if err := s.renew(); err != nil {
		return err
	}
	took, cpu := time.Since(start), ownCPU()-mine
	trips := float64(s.trips.Load())
	after, err := s.read()
	if err != nil {
		return err
	}

	if err := s.renewAlone(); err != nil {
		return err
	}
	last, err := s.read()
	if err != nil {
		return err
	}
	if !counts {
		return nil
	}
	n := float64(len(s.calls))
	all, busiest, calls := since(after, before)
	if all.calls != n {
		return fmt.Errorf("%d masters: %v calls, not %v", len(s.nodes), all.calls, n)
	}
	batches := math.Ceil(n / clusterBatch)
	s.rate = append(s.rate, n/took.Seconds())
	s.batch = append(s.batch, 1e3*took.Seconds()/batches)
	s.script = append(s.script, micros(all.script)/n)
	s.cpu = append(s.cpu, micros(all.cpu)/n)
	s.busiest = append(s.busiest, micros(busiest)/n)
	s.mine = append(s.mine, micros(cpu)/n)
	for i, c := range calls {
		s.sum[i] += c
	}
	s.trip += trips
	s.batches += batches
	alone, _, _ := since(last, after)
	s.alone = append(s.alone, micros(alone.cpu)/alone.calls)
	return nil
}

// renewAlone renews some that travel alone: what a busy service sends in a pipeline, a quiet one
// sends so.
func (s *clusterSubject) renewAlone() error {
	lonely := s.calls[:min(500, len(s.calls))]
	lonely.next()
	for i := range lonely {
		s.store.Exchange(context.Background(), lonely[i:i+1])
	}
	return lonely.err()
}

func (s *clusterSubject) row() (ClusterRow, error) {
	row := ClusterRow{
		Masters: len(s.nodes), Rate: median(s.rate), Script: median(s.script),
		CPU: median(s.cpu), Busiest: median(s.busiest), Client: median(s.mine),
		Trips: s.trip / s.batches, Batch: median(s.batch), Alone: median(s.alone),
	}
	all := 0.0
	for _, c := range s.sum {
		all += c
	}
	for i, node := range s.nodes {
		n, err := node.client.DBSize(context.Background()).Result()
		if err != nil {
			return row, err
		}
		row.Keys = append(row.Keys, n)
		row.Calls = append(row.Calls, s.sum[i]/all)
	}
	return row, nil
}

// countPipelines counts those that a node's client sends.
type countPipelines struct{ n *atomic.Int64 }

func (countPipelines) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (countPipelines) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (c countPipelines) ProcessPipelineHook(
	next redis.ProcessPipelineHook,
) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmds)
	}
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func micros(d time.Duration) float64 { return float64(d) / 1e3 }
