//go:build linux || darwin

package chaos

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// A passing is a long row of keys. Each key is asked for in its time and never again.
type passing struct {
	Keys  int
	Every time.Duration // between beginnings of keys
	Begin time.Duration // of the first key
}

const (
	passingAsks = 3 // of each process for each key
	passingLife = time.Second

	// passingRest is how long the memory of keys may stay after the last request. A calm key's
	// lease is parked for up to two terms of 30 s.
	passingRest = 75 * time.Second

	// passingMost is how many requests of a process are under way at once, at most.
	passingMost = 1024

	// passingSwing is by how many bytes a heap, or a server, varies without keys. A pool's 16
	// connections have buffers of 64 KiB each, and Go keeps half a KiB of each goroutine.
	passingSwing = 16*64<<10 + passingMost*512 + 256<<10
)

// passingLimit is the limit of each key: in the key's life it admits half of what two processes
// ask for.
var passingLimit = limit(1, 2)

// pass asks for each key in its time, and records meanwhile and afterwards what memory is held.
func (w *worker) pass() {
	p, asks := w.Passing, make(chan struct{}, passingMost)
	l := w.limiters[0]
	ask := func(i int) {
		d := decision{job: uint32(i), n: 1, before: clock()}
		d.verdict = verdictOn(l.Take(context.Background(), fmt.Sprint("passing ", i), 1))
		d.after = clock()
		record(d)
		<-asks
	}
	go func() {
		for {
			recordMemory()
			time.Sleep(time.Second)
		}
	}()
	apart := int(passingLife / passingAsks / p.Every) // keys
	for n := range p.Keys + passingAsks*apart {
		time.Sleep(p.Begin + time.Duration(n)*p.Every - clock())
		for again := range passingAsks {
			if i := n - again*apart; i >= 0 && i < p.Keys {
				asks <- struct{}{}
				go ask(i)
			}
		}
	}
}

// recordMemory records the bytes of the heap, and the bytes that the process has of the machine.
func recordMemory() {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	now := clock()
	record(decision{
		before: now, after: now, verdict: sized, job: uint32(m.HeapAlloc >> 10), fence: m.Sys - m.HeapReleased,
	})
}

// A passage collects the records of keys that pass. A key is judged when its time is over.
type passage struct {
	mu      sync.Mutex
	passing passing
	lists   map[uint32][]admission
	judged  int // keys below this one
	newest  time.Duration

	asked, admitted, without, over int
	excess                         float64 // the worst, in tokens
	slowest                        time.Duration
	heap                           map[*life][]int64 // bytes, each second
	held                           map[*life]uint64  // bytes of the machine's memory, at most
}

// take notes a record of a process.
func (p *passage) take(l *life, d decision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.verdict == sized {
		p.heap[l] = append(p.heap[l], int64(d.job)<<10)
		p.held[l] = max(p.held[l], d.fence)
		return
	}
	p.asked++
	p.newest, p.slowest = max(p.newest, d.before), max(p.slowest, d.after-d.before)
	switch d.verdict {
	case admitted:
		p.admitted++
		p.lists[d.job] = append(p.lists[d.job], admission{span{d.before, d.after}, 1})
	case denied:
	default:
		p.without++
	}
	for p.passing.Begin+time.Duration(p.judged)*p.passing.Every+passingLife+patience < p.newest {
		p.judge()
	}
}

// judge compares the next key with its envelope, and forgets the key.
func (p *passage) judge() {
	i := uint32(p.judged)
	if list := p.lists[i]; len(list) > 0 {
		worst := slices.Max(excesses(passingLimit, list, nil))
		p.excess = max(p.excess, worst)
		if worst > rounding {
			p.over++
		}
	}
	delete(p.lists, i)
	p.judged++
}

// TestPassingKeys: many keys come and go. No key is admitted more than its envelope. When all keys
// have gone, processes and Redis have the memory that they had before. -chaos.keys is how many keys
// pass, within -chaos.duration.
func TestPassingKeys(t *testing.T) {
	needsTheMachine(t) // also without the tests that run beside each other
	long := *duration
	if long == 0 {
		long = shortRound
	}
	w := &world{}
	n := w.alone(t)
	const processes = 2
	w.connect(t, *seed, processes)
	p := &passage{
		lists: map[uint32][]admission{}, excess: math.Inf(-1), heap: map[*life][]int64{}, held: map[*life]uint64{},
		passing: passing{Keys: *keys, Every: long / time.Duration(*keys), Begin: clock() + 3*time.Second},
	}
	h := &history{timeout: timeout, processes: processes, take: p.take}
	f := launch(orders{
		Seed: *seed, Servers: w.told, Passing: &p.passing, Outage: hybrid.Deny, Timeout: timeout,
	}, h, slices.Repeat([]map[string]string{{n.addr: n.addr}}, processes))
	defer func() {
		for _, err := range f.stop() {
			t.Error(err)
		}
	}()
	time.Sleep(p.passing.Begin - time.Second - clock())
	before, most := n.used(t), int64(0)
	for end := p.passing.Begin + long + passingLife; clock() < end; time.Sleep(time.Second) {
		most = max(most, n.used(t))
	}
	p.mu.Lock()
	for p.judged < *keys {
		p.judge()
	}
	t.Logf("%d keys in %v, %d processes: %d requests, %d admitted, %d without a verdict, the slowest "+
		"%v; the worst window is %.3f tokens above Burst + Rate*T",
		*keys, long, processes, p.asked, p.admitted, p.without, p.slowest, p.excess)
	if p.over > 0 {
		t.Errorf("%d keys are above their envelope, the worst by %v tokens", p.over, p.excess)
	}
	if least := *keys; p.admitted < least { // half of the Bursts: the machine may be busy
		t.Errorf("%d admitted, at least %d are expected", p.admitted, least)
	}
	p.mu.Unlock()

	back := func(rest, before, most int64) bool { return rest-before <= (most-before)/20+passingSwing }
	for end := time.Now().Add(passingRest); ; time.Sleep(time.Second) {
		last, all := time.Now().After(end), true
		rest := n.used(t)
		tell := func(what string, before, most, rest int64) {
			all = all && back(rest, before, most)
			switch text := fmt.Sprintf("%s: %.2f MB before, %.2f MB at most, %.2f MB in the end",
				what, float64(before)/1e6, float64(most)/1e6, float64(rest)/1e6); {
			case !last:
			case back(rest, before, most):
				t.Log(text)
			default:
				t.Error(text)
			}
		}
		tell("Redis", before, most, rest)
		p.mu.Lock()
		for l, heap := range p.heap {
			tell("heap of a process", slices.Min(heap[:min(3, len(heap))]), slices.Max(heap), heap[len(heap)-1])
			if last {
				t.Logf("it held %.1f MB of the machine's memory at most", float64(p.held[l])/1e6)
			}
		}
		p.mu.Unlock()
		if last {
			return
		}
		if all && n.DBSize(t.Context()).Val() <= 1 { // the census stays
			end = time.Now()
		}
	}
}

// used is how many bytes a server has without the bytes of its clients.
func (n *node) used(t *testing.T) int64 {
	info, err := n.info(t.Context(), "memory")
	must(t, err)
	var used, clients int64
	fmt.Sscan(info["used_memory"], &used)
	fmt.Sscan(info["mem_clients_normal"], &clients)
	return used - clients
}
