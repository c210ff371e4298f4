//go:build linux || darwin

package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
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

// A node is a server and a client of it, which does not use TLS.
type node struct {
	*redistest.Server
	*redis.Client

	addr   string      // where others talk to it
	frozen atomic.Bool // it answers nobody
}

// Freeze stops the server as it is. A loop through all nodes need not wait for it.
func (n *node) Freeze() { n.frozen.Store(true); n.Server.Freeze() }

// Thaw ends a Freeze.
func (n *node) Thaw() { n.Server.Thaw(); n.frozen.Store(false) }

// port is the port of addr.
func (n *node) port() string {
	_, port, _ := net.SplitHostPort(n.addr)
	return port
}

// startNode starts a server of the world's program.
func (w *world) startNode(t testing.TB, config ...string) *node {
	addr := ""
	if w.trust != nil {
		addr = redistest.FreeAddr(t)
		_, port, _ := net.SplitHostPort(addr)
		config = append(config, w.trust.Config(port)...)
	}
	program := w.program
	if program == "" {
		program = redistest.Program(t)
	}
	s := redistest.StartProgram(t, program, config...)
	if addr == "" {
		addr = s.Addr
	}
	opt := remote.Options(s.Addr) // soon done with one that is dead
	opt.DialTimeout, opt.ReadTimeout = 5*time.Second, 5*time.Second
	opt.MinIdleConns = 0
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return &node{Server: s, Client: c, addr: addr}
}

// secure makes all of the world talk TLS, unless its server is built without TLS.
func (w *world) secure(t testing.TB) {
	n := w.startNode(t)
	defer n.Kill()
	if has := n.ConfigGet(t.Context(), "tls-port").Val(); len(has) == 0 {
		t.Logf("%s is played without TLS: its server is built without", w.name)
		return
	}
	w.trust = redistest.NewAuthority(t)
}

// A world is servers, the ways to them, and what can happen to them.
type world struct {
	name  string
	start func(*world, testing.TB)

	program    string        // of the server; none is the server that is tested
	tls        bool          // all talk TLS
	harmful    bool          // loggers of the processes panic, or hang
	distance   time.Duration // there and back, from the processes to the servers
	plain      bool          // clients have go-redis' own options
	namespaces []string      // of the Limiters of each process; none is one without
	sparse     int           // how many keys more, which are seldom asked for
	maxKeys    int           // of each Limiter
	turn       int           // its first round has this group of keys

	config   []string // of masters and replicas
	topology topology
	trust    *redistest.Authority // or nil: nobody talks TLS
	shares   bool                 // the outage policy, else deny
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
	late       []span        // when links did not run
	promotions []span        // when a replica became a master, not looked at yet
	agreed     time.Duration // when the Sentinels did last
	awaited    int           // how many promotions were asked for
}

// A deed is a fault that can be done. It returns when that is over.
type deed struct {
	kind     string
	lost     bool // see fault
	promotes int  // so many replicas
	do       func(*round) error
	spares   func(*round) []bool // the keys that it spares, asked after do; nil spares none
	splits   bool                // there are two masters until the Sentinels agree
	rest     time.Duration       // until the next one

	// If the store answers nobody after do, that lasts for so long, until mend.
	lasts func(*round) time.Duration
	mend  func(*round) error
}

// connect lays the ways for so many processes.
func (w *world) connect(t testing.TB, seed uint64, processes int) {
	for i := range processes {
		l := &link{count: &w.messages, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		l.delay.Store(int64(w.distance / 2))
		l.late = func(s span) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.late = append(w.late, s)
		}
		if w.trust != nil {
			l.inside = &tls.Config{
				RootCAs: w.trust.Pool, Certificates: []tls.Certificate{w.trust.Client()},
			}
			l.outside = &tls.Config{Certificates: []tls.Certificate{w.trust.Server()}}
		}
		l.choose = func() fate {
			if w.lossy.Load() {
				return l.lossy()
			}
			return deliver
		}
		routes := map[string]string{}
		for _, n := range w.nodes {
			routes[n.addr] = l.listen(t, n.addr)
		}
		for _, addr := range w.told { // of Sentinels
			if _, ok := routes[addr]; !ok {
				routes[addr] = l.listen(t, addr)
			}
		}
		w.links = append(w.links, l)
		w.routes = append(w.routes, routes)
	}
}

// valkey is the program of the world of that name, whatever the others are tested on.
const valkey = "valkey-server"

// installed reports whether the world's server is there, or says that it is not.
func (w *world) installed(t *testing.T) bool {
	if w.program == "" {
		return true
	}
	_, err := exec.LookPath(w.program)
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("%s: %v", w.name, err)
	}
	if err != nil {
		t.Logf("%s is not played: %v", w.name, err)
	}
	return err == nil
}

// alone makes a world of one server.
func (w *world) alone(t testing.TB) *node {
	n := w.startNode(t)
	w.nodes, w.told, w.gap = []*node{n}, []string{n.addr}, 4*time.Second
	w.deeds = []deed{{kind: "script flush", do: w.flushScripts}}
	return n
}

// lossless is a server that loses nothing: nothing beyond the envelope is allowed.
func (w *world) lossless(t testing.TB) {
	n := w.alone(t)
	w.deeds = append(w.deeds, w.hang(n, 300*time.Millisecond, 1300*time.Millisecond, 0))
}

// forgetful is one that does.
func (w *world) forgetful(t testing.TB) {
	n := w.alone(t)
	w.deeds = append(w.deeds,
		w.restart(n, 0, 1500*time.Millisecond, 0),
		deed{kind: "flushall", lost: true, do: func(r *round) error { return n.FlushAll(r.ctx).Err() }},
	)
}

// sharing is one whose processes share the rate by themselves when it is away, which
// keeps within the rate while they are the same and all have heard of it.
func (w *world) sharing(t testing.TB) {
	n := w.alone(t)
	w.shares, w.steady = true, true
	const least, most, heard = 2 * time.Second, 3 * time.Second, 2 * time.Second
	cut := w.cut()
	cut.rest = heard
	w.deeds = append(w.deeds, w.restart(n, least, most, heard), cut, w.hang(n, least, most, heard))
}

// far is a server far away: the distance is all that happens to its processes.
func (w *world) far(t testing.TB) {
	w.alone(t)
	w.steady = true
	w.deeds = []deed{{
		kind: w.name, spares: all,
		do: func(r *round) error { r.sleep(2 * time.Second); return nil },
	}}
}

// restart is the deed of a server that is gone for a time, and empty afterwards.
func (w *world) restart(n *node, least, most, rest time.Duration) deed {
	return deed{
		kind: "restart", lost: true, rest: rest,
		do:    func(*round) error { n.Kill(); return nil },
		lasts: func(r *round) time.Duration { return least + r.upTo(most-least) },
		mend:  func(r *round) error { return n.restart(r.ctx) },
	}
}

// clientGivesUp is longer than go-redis waits for an answer by default.
const clientGivesUp = 6 * time.Second

// hang is the deed of a server that is there and answers nobody for a time; now and then
// that is longer than a client waits for it. It does afterwards what it was asked for
// meanwhile.
func (w *world) hang(n *node, least, most, rest time.Duration) deed {
	return deed{
		kind: "redis frozen", rest: rest,
		do: func(*round) error { n.Freeze(); return nil },
		lasts: func(r *round) time.Duration {
			d := least + r.upTo(most-least)
			if *duration > 0 && r.pick(3) == 0 {
				d += clientGivesUp
			}
			return d
		},
		mend: func(*round) error { n.Thaw(); return nil },
	}
}

// restart starts the server anew, empty. A client that has found it dead does not
// believe at once that it is back.
func (n *node) restart(ctx context.Context) error {
	n.Restart()
	return eventually(ctx, "it answers", func() bool { return n.Ping(ctx).Err() == nil })
}

// info is a section of INFO.
func (n *node) info(ctx context.Context, section string) (map[string]string, error) {
	if n.frozen.Load() {
		return nil, fmt.Errorf("%s is frozen", n.addr)
	}
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
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
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
			delay := int64(w.distance/2 + time.Millisecond + r.upTo(200*time.Millisecond))
			for _, l := range w.links {
				l.delay.Store(delay)
			}
			r.sleep(500*time.Millisecond + r.upTo(time.Second))
			for _, l := range w.links {
				l.delay.Store(int64(w.distance / 2))
			}
			return nil
		}},
		w.cut(),
		{kind: "cut one", do: func(r *round) error {
			cut(w.links[r.pick(len(w.links))])
			r.sleep(cutOff(r))
			return w.join(r)
		}},
	}
}

// cut is the deed of links that are all cut for a time.
func (w *world) cut() deed {
	return deed{
		kind: "cut", lasts: cutOff, mend: w.join,
		do: func(*round) error { cut(w.links...); return nil },
	}
}

func cut(links ...*link) {
	for _, l := range links {
		l.cut.Store(true)
	}
}

// cutOff is how long.
func cutOff(r *round) time.Duration { return 300*time.Millisecond + r.upTo(2*time.Second) }

// join makes all links whole again.
func (w *world) join(*round) error {
	for _, l := range w.links {
		l.cut.Store(false)
	}
	return nil
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
