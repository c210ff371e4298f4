//go:build linux || darwin

package changes

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

var (
	duration = flag.Duration("changes", 8*time.Second, "how long rules change in TestChanges")
	seed     = flag.Uint64("changes.seed", 1, "of the limits and the load of TestChanges")
)

// TestMain runs a worker instead of the tests when it is told to.
func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	if os.Getenv(workerVariable) == "" {
		os.Exit(m.Run())
	}
	if err := work(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// quiet is a logger: that a server does not answer is no news here.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

const (
	processes = 8
	every     = time.Second // the rules change
	settling  = 3 * time.Second
)

// A limit of a key: how it changes, and how much is asked for.
type limit struct {
	burst   []int
	rate    func(version int, random *rand.Rand) int
	offered float64 // requests/s of all processes
}

// limits: one that changes at random, one that is high or low for some seconds, and one with a
// large burst that refills slowly, so that a refill would show. No two versions in a row have the
// same rates.
var limits = []limit{
	{[]int{100}, func(v int, r *rand.Rand) int { return 300 + 100*r.IntN(4) + v%50 }, 1000},
	{[]int{100}, func(v int, _ *rand.Rand) int { return []int{800, 200}[v/7%2] + v%7 }, 1200},
	{[]int{150, 200}, func(v int, _ *rand.Rand) int { return 10 + v%5 }, 80},
}

// An author changes the rules.
type author struct {
	*testing.T
	book   rules.Book
	random *rand.Rand
	*history
}

// change makes the next version. An answer that does not come is asked for again.
func (a *author) change() {
	v := version{called: clock()}
	number := len(a.versions) + 1
	var text strings.Builder
	fmt.Fprintf(&text, "domain: %s\ndescriptors:\n", domain)
	for key, l := range limits {
		v.rates = append(v.rates, l.rate(number, a.random))
		fmt.Fprintf(&text, "- {key: key, value: %q, rate_limit: {name: v%d-%d, unit: second, "+
			"requests_per_unit: %d, burst: %d}}\n", fmt.Sprint(key), number, key, v.rates[key],
			l.burst[number%len(l.burst)])
	}
	c := rules.Change{
		Domain: domain, Base: int64(number - 1), Text: []byte(text.String()),
		Author: "test", Reason: "each second",
	}
	for {
		r, _, err := rules.Save(a.Context(), a.book, c)
		if err == nil {
			if r.Version != int64(number) {
				a.Fatalf("version %d was answered as %d", number, r.Version)
			}
			break
		}
		if errors.Is(err, rules.ErrConflict) || a.Context().Err() != nil {
			a.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	v.answered = clock()
	a.versions = append(a.versions, v)
}

// A process is a worker.
type process struct {
	stdin   io.Closer
	ended   <-chan struct{}
	asks    chan struct{} // closed when it has told something
	records chan []record // all of them, once it has ended
	stderr  strings.Builder
}

func start(t *testing.T, o orders) *process {
	t.Helper()
	p := &process{asks: make(chan struct{}), records: make(chan []record, 1)}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), workerVariable+"=1", "GOMAXPROCS=2")
	cmd.Stderr = &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, stdout, err := os.Pipe() // not a StdoutPipe: what is in it outlives the process
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = stdout
	p.ended, err = tether.Start(cmd)
	stdout.Close()
	if err != nil {
		t.Fatal(err)
	}
	p.stdin = stdin
	go func() {
		first := make([]byte, recordSize)
		_, err := io.ReadFull(out, first)
		close(p.asks)
		all, _ := io.ReadAll(out)
		var list []record
		if err == nil {
			list = append(list, parseRecord(first))
		}
		for ; len(all) >= recordSize; all = all[recordSize:] {
			list = append(list, parseRecord(all))
		}
		p.records <- list
	}()
	if err := json.NewEncoder(stdin).Encode(o); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestChanges is the proof.
func TestChanges(t *testing.T) {
	t.Logf("seed %d", *seed)
	server := redistest.Start(t, "appendonly yes", "dir "+t.TempDir())
	opt := remote.Options(server.Addr)
	opt.MinIdleConns = 0
	rdb := redis.NewClient(opt)
	t.Cleanup(func() { rdb.Close() })
	book, err := redisrules.New(rdb, name)
	if err != nil {
		t.Fatal(err)
	}
	a := &author{t, book, rand.New(rand.NewPCG(*seed, 0)), &history{}}
	o := orders{Addr: server.Addr}
	for _, l := range limits {
		a.bursts = append(a.bursts, float64(max(l.burst[0], l.burst[len(l.burst)-1])))
		o.Offered = append(o.Offered, l.offered/processes)
	}
	a.change()
	var fleet []*process
	for i := range processes {
		o.Seed = *seed<<8 + uint64(i)
		fleet = append(fleet, start(t, o))
	}
	for _, p := range fleet { // a busy machine takes its time to start them
		<-p.asks
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	n := int(*duration / every)
	for i := range n {
		<-tick.C
		if i == n/2 {
			from := clock()
			server.Restart()
			t.Logf("Redis was killed and is back after %v", (clock() - from).Round(time.Millisecond))
		}
		a.change()
	}
	<-time.After(settling)
	for i, p := range fleet {
		select {
		case <-p.ended:
			t.Fatalf("process %d ended by itself: %s", i, p.stderr.String())
		default:
		}
		p.stdin.Close()
		a.processes = append(a.processes, <-p.records)
		<-p.ended
	}
	a.judge()
}

// judge holds the history against the promises.
func (a *author) judge() {
	end, busy := clock(), a.busy()
	list, err := a.book.History(a.Context(), domain, 0, 1000)
	if err != nil || len(list) != min(len(a.versions), redisrules.Keep) {
		a.Errorf("%d changes were answered, and %d are there: %v", len(a.versions), len(list), err)
	}
	for i, l := range limits {
		worst, at, tokens := a.excess(i)
		a.Logf("key %d: %d admitted, the worst window is at %+.1f tokens of its envelope",
			i, tokens, worst)
		if worst > rounding {
			a.Errorf("key %d: %.3f tokens too many in a window that ends at %v", i, worst,
				at-a.versions[0].called)
		}
		lowest := l.rate(1, a.random)
		for _, v := range a.versions {
			lowest = min(lowest, v.rates[i])
		}
		least := float64(lowest) * (end - a.versions[0].called).Seconds() / 2
		if float64(tokens) < least && busy <= mostBusy {
			a.Errorf("key %d: %d admitted, and not %.0f", i, tokens, least)
		}
	}
	var slowest, latest time.Duration
	var counts [stalled + 1]int
	for i, p := range a.processes {
		var own [stalled + 1]int
		for _, r := range p {
			own[r.kind]++
			counts[r.kind]++
		}
		force, use, err := a.late(p)
		late := (force > seen || use > seen) && busy <= mostBusy
		if err != nil || late || own[admitted] == 0 {
			a.Errorf("process %d: the last rules were in force after %v, requests had others for "+
				"%v, %d admitted: %v", i, force, use, own[admitted], err)
		}
		slowest, latest = max(slowest, force), max(latest, use)
	}
	a.Logf("%d changes, %d processes: the last one was in force after %v at most, and limits of "+
		"before in use for %v; %d admitted, %d denied, %d without a verdict", len(a.versions),
		processes, slowest.Round(time.Millisecond), latest.Round(time.Millisecond),
		counts[admitted], counts[denied], counts[failed])
	if busy > mostBusy {
		a.Logf("times and the least number of admissions are not judged: the machine kept the "+
			"processes from running for %.0f %% of the time", 100*busy)
	}
}
