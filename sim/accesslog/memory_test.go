package accesslog_test

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/accesslog"
	"github.com/seed13b07268/ration/sim/simtest"
)

// A generated log streams its lines: nothing of it is in memory.
type generated struct {
	lines, written int
	keys           int
	random         *rand.Rand
	at             float64
	buffer         []byte
	look           func() // at each Read; or nil
}

func (g *generated) Read(p []byte) (int, error) {
	if g.look != nil {
		g.look()
	}
	for len(g.buffer) < len(p) && g.written < g.lines {
		if g.written == 0 {
			g.buffer = append(g.buffer, "time,key,n\n"...)
		}
		g.at += g.random.ExpFloat64() * 0.001
		late := g.random.ExpFloat64() * 2 // servers log a request when it ends
		g.buffer = fmt.Appendf(g.buffer, "%.6f,client-%d,%d\n", 1.7e9+g.at-late, g.random.IntN(g.keys), g.written)
		g.written++
	}
	if len(g.buffer) == 0 {
		return 0, io.EOF
	}
	n := copy(p, g.buffer)
	g.buffer = append(g.buffer[:0], g.buffer[n:]...)
	return n, nil
}

func generate(lines, keys int) *generated {
	return &generated{lines: lines, keys: keys, random: rand.New(rand.NewPCG(1, 2))}
}

// Memory is bounded, whatever the length of a log: a list of these requests would
// not fit. All of `sim run -trace` with 10 million lines, 2.2 GB, takes 102 MB of
// resident memory.
func TestMemory(t *testing.T) {
	longform.None(t)
	if testing.Short() {
		t.Skip("reads a million lines")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is live, not what is garbage
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	peak := uint64(0)
	look := func() {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	const lines = 1_000_000
	source := generate(lines, 20_000)
	source.look = look
	log, err := accesslog.Read(bufio.NewReaderSize(source, 1<<16), accesslog.Options{KeyCol: "key"})
	simtest.OK(t, err)
	n, last := 0, time.Duration(-1)
	all := log.Requests()
	for q := (accesslog.Request{}); all.Next(&q); n++ {
		if q.At < last {
			t.Fatalf("%v after %v", q.At, last)
		}
		last = q.At
		if n%1000 == 0 {
			look()
		}
	}
	simtest.OK(t, all.Err())
	most := float64(peak-before.HeapAlloc) / 1e6
	t.Logf("%d lines, %d keys: at most %.0f MB of heap", lines, len(log.Keys), most)
	if n != lines || log.Len() != lines || most > 60 {
		t.Errorf("%d requests, %.0f MB of heap; want %d, 60 at most", n, most, lines)
	}
}

// A log that is sorted in pieces is sorted as one that fits in memory: by time,
// and equal times in the order of the file.
func TestSortedInPieces(t *testing.T) {
	lines := longform.Of(300_000, 600_000) // two chunks, or three
	random := rand.New(rand.NewPCG(3, 4))
	type request struct {
		at  int
		key string
	}
	want := make([]request, lines)
	r, w := io.Pipe()
	for i := range want {
		want[i] = request{random.IntN(lines / 4), fmt.Sprint(random.IntN(50))}
	}
	go func() {
		b := bufio.NewWriter(w)
		fmt.Fprintln(b, "time,key,cost")
		for i, q := range want {
			fmt.Fprintf(b, "%d.5,%s,%d\n", q.at, q.key, i+1)
		}
		b.Flush()
		w.Close()
	}()
	log, err := accesslog.Read(r, accesslog.Options{KeyCol: "key", CostCol: "cost"})
	simtest.OK(t, err)
	order := make([]int, lines)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(want[a].at, want[b].at) })
	c := log.Requests()
	for i, number := range order {
		var q accesslog.Request
		more, w := c.Next(&q), want[number]
		if at := log.Start.Add(q.At); !more || at.Unix() != int64(w.at) || log.Keys[q.Key] != w.key || q.Cost != int64(number+1) {
			t.Fatalf("request %d: %v, %v %s %d, want %d %s %d", i, c.Err(), at, log.Keys[q.Key], q.Cost, w.at, w.key, number+1)
		}
	}
	if c.Next(new(accesslog.Request)) || c.Err() != nil {
		t.Errorf("after the last: %v", c.Err())
	}
}

// Keys beyond a million share numbers, so that names do not fill memory.
func TestCrowd(t *testing.T) {
	longform.Only(t, "reads more than a million keys")
	log, err := accesslog.Read(bufio.NewReader(generate(1_100_000, math.MaxInt)), accesslog.Options{KeyCol: "key"})
	if err != nil || !log.Crowded || len(log.Keys) != 1_000_000 || log.Len() != 1_100_000 {
		t.Errorf("%v, crowded %v, %d keys", err, log.Crowded, len(log.Keys))
	}
}
