//go:build linux || darwin

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// topology is how servers stand together.
type topology int

const (
	single topology = iota
	sentinel
	cluster
)

// A node is a server and a client of it.
type node struct {
	*redistest.Server
	*redis.Client
}

func startNode(t testing.TB, config ...string) *node {
	s := redistest.Start(t, config...)
	opt := remote.Options(s.Addr) // soon done with one that is dead
	opt.DialTimeout, opt.ReadTimeout = 5*time.Second, 5*time.Second
	opt.MinIdleConns = 0
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return &node{s, c}
}

// A world is servers, the ways to them, and what can happen to them.
type world struct {
	name     string
	topology topology
	shares   bool // the outage policy, else deny
	nodes    []*node
	watches  []*node  // Sentinels
	told     []string // addresses for clients

	steady   bool // processes and messages suffer nothing
	deeds    []deed
	gap      time.Duration       // between them, in the long form
	links    []*link             // of each process
	routes   []map[string]string // likewise: the way to each node
	lossy    atomic.Bool         // messages are lost and repeated
	messages messageCount

	mu         sync.Mutex
	promotions []span // when a replica became a master, not looked at yet
	awaited    int    // so many of them were asked for
}

// A deed is a fault that can be done. It returns when that is over.
type deed struct {
	kind     string
	lost     bool // see fault
	promotes int  // so many replicas
	do       func(*round) error
	mend     func(*round) error // if the store answers nobody until then
	rest     time.Duration      // until the next one
}

// connect lays the ways for so many processes.
func (w *world) connect(t testing.TB, seed uint64, processes int) *world {
	for i := range processes {
		l := &link{count: &w.messages, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		l.choose = func() fate {
			if w.lossy.Load() {
				return l.lossy()
			}
			return deliver
		}
		routes := map[string]string{}
		for _, n := range w.nodes {
			routes[n.Addr] = l.listen(t, n.Addr)
		}
		w.links = append(w.links, l)
		w.routes = append(w.routes, routes)
	}
	return w
}

// alone is a world of one server.
func alone(t testing.TB, name string) *world {
	n := startNode(t)
	w := &world{name: name, nodes: []*node{n}, told: []string{n.Addr}, gap: 4 * time.Second}
	w.deeds = []deed{{kind: "script flush", do: w.flushScripts}}
	return w
}

// lossless is a server that loses nothing: nothing beyond the envelope is allowed.
func lossless(t testing.TB) *world {
	w := alone(t, "single")
	w.deeds = append(w.deeds, deed{kind: "redis frozen", do: func(r *round) error {
		pid, err := w.nodes[0].pid(r.ctx)
		if err != nil {
			return err
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP)
		r.sleep(300*time.Millisecond + r.upTo(time.Second))
		return syscall.Kill(pid, syscall.SIGCONT)
	}})
	return w
}

// forgetful is one that does.
func forgetful(t testing.TB) *world {
	w := alone(t, "single that forgets")
	n := w.nodes[0]
	again := func(r *round) error { return n.restart(r.ctx) }
	w.deeds = append(w.deeds,
		deed{kind: "restart", lost: true, mend: again, do: func(r *round) error {
			n.Kill()
			r.sleep(r.upTo(1500 * time.Millisecond))
			return nil
		}},
		deed{kind: "flushall", lost: true, do: func(r *round) error { return n.FlushAll(r.ctx).Err() }},
	)
	return w
}

// sharing is one whose processes share the rate by themselves when it is away, which
// keeps within the rate while they are the same and all have heard of it.
func sharing(t testing.TB) *world {
	w := alone(t, "single, shared when away")
	n := w.nodes[0]
	again := func(r *round) error { return n.restart(r.ctx) }
	w.shares, w.steady = true, true
	const away, heard = 3 * time.Second, 3 * time.Second
	w.deeds = append(w.deeds,
		deed{kind: "restart", lost: true, rest: heard, mend: again, do: func(r *round) error {
			n.Kill()
			r.sleep(away)
			return nil
		}},
		deed{kind: "cut", rest: heard, mend: w.join, do: w.cut},
	)
	return w
}

// restart starts the server anew, empty. A client that has found it dead does not
// believe at once that it is back.
func (n *node) restart(ctx context.Context) error {
	n.Restart()
	return eventually(ctx, "it answers", func() bool { return n.Ping(ctx).Err() == nil })
}

// pid is the server's process.
func (n *node) pid(ctx context.Context) (pid int, err error) {
	info, err := n.info(ctx, "server")
	if err != nil {
		return 0, err
	}
	_, err = fmt.Sscan(info["process_id"], &pid)
	return pid, err
}

// info is a section of INFO.
func (n *node) info(ctx context.Context, section string) (map[string]string, error) {
	text, err := n.Info(ctx, section).Result()
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, err
}

// is reports whether a field of INFO replication has a value.
func (n *node) is(ctx context.Context, field, value string) bool {
	info, err := n.info(ctx, "replication")
	return err == nil && info[field] == value
}

func (w *world) flushScripts(r *round) error {
	for _, n := range w.nodes {
		if err := n.ScriptFlush(r.ctx).Err(); err != nil {
			return err
		}
	}
	return nil
}

// eventually waits until what holds.
func eventually(ctx context.Context, what string, holds func() bool) error {
	for deadline := time.Now().Add(30 * time.Second); !holds(); time.Sleep(20 * time.Millisecond) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("waited in vain until %s", what)
		}
	}
	return nil
}

// networkDeeds are done to links.
func (w *world) networkDeeds() []deed {
	if w.steady {
		return nil
	}
	return []deed{
		{kind: "slow link", do: func(r *round) error {
			delay := int64(time.Millisecond + r.upTo(200*time.Millisecond))
			for _, l := range w.links {
				l.delay.Store(delay)
			}
			r.sleep(500*time.Millisecond + r.upTo(time.Second))
			for _, l := range w.links {
				l.delay.Store(0)
			}
			return nil
		}},
		{kind: "cut", mend: w.join, do: w.cut},
		{kind: "cut one", do: func(r *round) error {
			r.cutOff(w.links[r.pick(len(w.links))])
			return w.join(r)
		}},
	}
}

// cut cuts all links for a while, and join makes them whole again.
func (w *world) cut(r *round) error {
	r.cutOff(w.links...)
	return nil
}

func (w *world) join(*round) error {
	for _, l := range w.links {
		l.cut.Store(false)
	}
	return nil
}

func (r *round) cutOff(links ...*link) {
	for _, l := range links {
		l.cut.Store(true)
	}
	r.sleep(300*time.Millisecond + r.upTo(2*time.Second))
}

// processDeeds are done to processes.
func (w *world) processDeeds() []deed {
	if w.steady {
		return nil
	}
	kill := deed{do: func(r *round) error {
		// On a busy machine a process may take a second to start: one that was killed
		// before would have suffered nothing.
		i := r.pick(len(w.links))
		err := eventually(r.ctx, "the process asks", func() bool { return r.fleet.asks(i) })
		r.fleet.crash(i)
		return err
	}}
	return []deed{kill, kill, kill, kill, {do: func(r *round) error {
		// Longer than 3.25 MaxRefresh, for which tokens are held.
		r.fleet.freeze(r.pick(len(w.links)), 850*time.Millisecond+r.upTo(1500*time.Millisecond))
		return nil
	}}}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
