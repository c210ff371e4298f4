//go:build linux || darwin

package chaos

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// workerVariable makes the test binary a worker.
const workerVariable = "RATION_CHAOS_WORKER"

// A key is something limited, and how it is asked for.
type key struct {
	Name    string
	Limit   lease.Limit
	Offered float64 // tokens/s of each process
	Most    int     // tokens of a request: 1 to Most
	Clump   int     // requests that come at once
	How     how
	With    []int // of together and reserve: the indices of other keys

	Namespace string // of the Limiters that are asked
}

// mean is how much time is between two clumps of a lane, on average.
func (k *key) mean() time.Duration {
	return time.Duration(float64(k.Clump) * float64(1+k.Most) / 2 * lanes / k.Offered * 1e9)
}

// sparse reports whether a process may not ask for the key for a second.
func (k *key) sparse() bool { return k.Offered > 0 && k.mean() > time.Second }

// how a request is made.
type how int

const (
	take how = iota
	allow
	wait
	together // with other keys
	reserve  // with other keys, and settle later; or charge
	refund   // some of it
	acquire  // slots, for a job
)

// harm is what the logger of a process does with each line.
type harm int

const (
	harmless harm = iota
	panics
	hangs
)

// A harmful is a logger that panics or hangs.
type harmful struct {
	slog.Handler
	harm harm
}

func (h harmful) Enabled(context.Context, slog.Level) bool { return h.harm != harmless }

func (h harmful) Handle(context.Context, slog.Record) error {
	if h.harm == hangs {
		select {}
	}
	panic("a logger that panics")
}

// orders are what a worker is told on its standard input, as JSON.
type orders struct {
	Seed     uint64
	Topology topology
	Servers  []string          // those that the client is told
	Routes   map[string]string // the way to each server
	Keys     []key
	Policy   lease.Policy
	Outage   hybrid.Outage
	Timeout  time.Duration

	Namespaces []string // of the Limiters; none is one Limiter without
	MaxKeys    int
	Plain      bool // the client has go-redis' own options

	Passing *passing // keys that come and go, in the place of Keys; or nil

	Authority []byte // that the client trusts, as PEM; without it the client does not talk TLS
	Harm      harm   // of the logger
}

// work asks until standard input, or the process, ends.
func work() error {
	signal.Ignore(os.Interrupt) // a terminal tells all processes: it is for the parent to act on
	input := json.NewDecoder(os.Stdin)
	var o orders
	if err := input.Decode(&o); err != nil {
		return fmt.Errorf("orders: %w", err)
	}
	w := &worker{orders: &o}
	if err := w.open(); err != nil {
		return err
	}
	go w.watch()
	if o.Passing != nil {
		go w.pass()
	}
	for i := range o.Keys {
		for lane := range lanes {
			go w.ask(i, rand.New(rand.NewPCG(o.Seed, uint64(i*lanes+lane))))
		}
	}
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// open makes the Limiters, which share a store.
func (w *worker) open() error {
	store := remote.New(w.connect())
	if len(w.Namespaces) == 0 {
		w.Namespaces = []string{""}
	}
	for _, namespace := range w.Namespaces {
		limits := map[string]lease.Limit{}
		for _, k := range w.Keys {
			if k.Namespace == namespace {
				limits[k.Name] = k.Limit
			}
		}
		l, err := hybrid.New(store, hybrid.Config{
			LimitFor: func(name string) hybrid.Limit {
				if w.Passing != nil {
					return hybrid.Limit(passingLimit)
				}
				return hybrid.Limit(limits[name])
			},
			Namespace: namespace, MaxKeys: w.MaxKeys,
			Policy: w.Policy, Outage: w.Outage, Timeout: w.Timeout,
			SlogLogger: slog.New(harmful{slog.DiscardHandler, w.Harm}),
		})
		if err != nil {
			return err
		}
		w.limiters = append(w.limiters, l)
	}
	return nil
}

// connect returns a client that goes the ways that were ordered.
func (o *orders) connect() remote.Client {
	var secure *tls.Config
	if o.Authority != nil {
		secure = &tls.Config{RootCAs: x509.NewCertPool()}
		secure.RootCAs.AppendCertsFromPEM(o.Authority)
	}
	if o.Plain {
		return redis.NewClient(&redis.Options{Addr: o.Routes[o.Servers[0]], TLSConfig: secure})
	}
	opt := remote.Options("")
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if way, ok := o.Routes[addr]; ok {
			addr = way
		}
		dialer := &net.Dialer{Timeout: opt.DialTimeout}
		if secure != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: secure}).DialContext(ctx, network, addr)
		}
		return dialer.DialContext(ctx, network, addr)
	}
	switch o.Topology {
	case sentinel:
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: masterName, SentinelAddrs: o.Servers, Dialer: opt.Dialer,
			DialTimeout: opt.DialTimeout, DialerRetries: opt.DialerRetries,
			ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
			DisableIdentity: opt.DisableIdentity,
			MaxRetries:      opt.MaxRetries, PipelinePoolSize: opt.PipelinePoolSize,
			PoolSize: opt.PoolSize, PoolTimeout: opt.PoolTimeout, MinIdleConns: opt.MinIdleConns,
		})
	case cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: o.Servers, Dialer: opt.Dialer,
			DialTimeout: opt.DialTimeout, DialerRetries: opt.DialerRetries,
			ReadTimeout: opt.ReadTimeout, WriteTimeout: opt.WriteTimeout,
			DisableIdentity:          opt.DisableIdentity,
			MaintNotificationsConfig: opt.MaintNotificationsConfig,
			PipelinePoolSize:         opt.PipelinePoolSize,
			PoolSize:                 opt.PoolSize, PoolTimeout: opt.PoolTimeout,
			MinIdleConns: opt.MinIdleConns,
		})
	}
	opt.Addr = o.Servers[0]
	return redis.NewClient(opt)
}

// A worker is a process that asks.
type worker struct {
	*orders
	limiters []*hybrid.Limiter // one for each of the Namespaces
	jobs     atomic.Uint32     // that were begun
}

// notable is how long a process, or a link, has to stand still for the stall to be noted.
const notable = 4 * time.Millisecond

const (
	lanes = 2 // goroutines that ask for each key

	// All processes pause for one in so many: buckets fill meanwhile, and what a
	// window may admit after it, it does. Else tokens that were lost to crashes
	// would hide as many too many.
	pause, every = 500 * time.Millisecond, 4 * time.Second

	late = 100 * time.Millisecond // what could not be asked in time within this is not asked at all
)

// ask asks for a key at its pace.
func (w *worker) ask(i int, random *rand.Rand) {
	k := w.Keys[i]
	var through []*hybrid.Limiter
	for j, l := range w.limiters {
		if w.Namespaces[j] == k.Namespace {
			through = append(through, l)
		}
	}
	for next := clock(); ; {
		next = max(next+time.Duration(random.ExpFloat64()*float64(k.mean())), clock()-late)
		if next%every < pause {
			next += pause - next%every
		}
		time.Sleep(next - clock())
		for range k.Clump {
			d := decision{key: uint16(i), n: uint16(1 + random.IntN(k.Most)), before: clock()}
			l := through[random.IntN(len(through))]
			switch k.How {
			case together:
				w.together(l, i, random)
			case reserve:
				w.reserve(through[0], d, random) // whose debts are paid before it admits more
			case refund:
				w.refund(l, d, random)
			case acquire:
				d.job = w.jobs.Add(1)
				go w.job(l, d, time.Duration(random.ExpFloat64()*float64(meanJob)))
			default:
				d.verdict = w.once(l, &k, int(d.n))
				d.after = clock()
				record(d)
			}
		}
	}
}

// record is what makes decisions count: the process might act on them only now.
func record(list ...decision) {
	var b []byte
	for _, d := range list {
		b = d.append(b)
	}
	if _, err := os.Stdout.Write(b); err != nil {
		os.Exit(1) // the parent has gone
	}
}

// once makes a request.
func (w *worker) once(l *hybrid.Limiter, k *key, n int) verdict {
	ctx := context.Background()
	switch k.How {
	case allow:
		if l.AllowN(k.Name, n) {
			return admitted
		}
		return denied
	case wait:
		soon, cancel := context.WithTimeout(ctx, w.Timeout)
		defer cancel()
		return waited(l.Wait(soon, k.Name, n))
	}
	d, err := l.Take(ctx, k.Name, n)
	return verdictOn(d, err)
}

// waited is the verdict on a request that waits.
func waited(err error) verdict {
	switch {
	case err == nil:
		return admitted
	case errors.Is(err, context.DeadlineExceeded):
		return abandoned
	}
	return failed
}

func verdictOn(d hybrid.Decision, err error) verdict {
	switch {
	case err != nil:
		return failed
	case d.Source == hybrid.OutagePolicy && d.Allowed:
		return shared
	case d.Source == hybrid.OutagePolicy:
		return closed
	case d.Allowed:
		return admitted
	}
	return denied
}

// watch notes when the process does not run, because it is stopped or the machine is busy,
// when it takes the store for away, when that has not answered, and of how many processes
// it has heard.
func (w *worker) watch() {
	const (
		tick = notable / 2
		look = 10 * time.Millisecond
	)
	sums := make([]time.Duration, len(w.limiters)) // that they have been away
	fails := make([]uint64, len(w.limiters))       // exchanges
	heard := 0                                     // of so many processes
	panics := uint64(0)                            // of the logger
	looked := clock()
	for last := looked; ; {
		time.Sleep(tick)
		now := clock()
		if now-last > notable {
			record(decision{before: last, after: now, verdict: stalled})
		}
		last = now
		if now-looked < look {
			continue
		}
		least, sum := math.MaxInt16, uint64(0)
		for i, l := range w.limiters {
			s := l.Stats()
			sum += s.Panics
			least = min(least, s.Processes)
			if more := s.AwayFor - sums[i]; more > 0 || s.Away {
				record(decision{before: min(looked, now-more), after: clock(), verdict: away})
			}
			if n := s.Failed + s.Late; n > fails[i] {
				record(decision{before: looked, after: clock(), verdict: unanswered})
				fails[i] = n
			}
			sums[i] = s.AwayFor
		}
		if least > heard {
			heard = least
			record(decision{before: now, after: now, n: uint16(heard), verdict: counted})
		}
		if sum > panics {
			panics = sum
			record(decision{before: now, after: now, n: uint16(panics), verdict: panicked})
		}
		looked = now
	}
}
