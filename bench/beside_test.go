package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/RussellLuo/slidingwindow"
)

// TestBeside plays the scene in which slidingwindow publishes its figures, and holds what
// docs/beside-others.md says of the run: 2 limiters share 20 in any second. For two minutes 50
// requests a second go to either limiter, at random. Time is virtual; the store answers at once.
//
//	go test . -run TestBeside -v
func TestBeside(t *testing.T) {
	page, err := os.ReadFile("../docs/beside-others.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, every := range []time.Duration{100 * time.Millisecond, 200 * time.Millisecond} {
		const seeds = 10
		var sum beside
		for seed := range uint64(seeds) {
			sum = sum.add(playSlidingWindow(seed, every))
		}
		cell := fmt.Sprintf("| slidingwindow, run here, every %d ms | %.2f %% | %.2f | %.4f |",
			every.Milliseconds(), 100*sum.admitted/seeds, sum.excess/seeds, sum.calls/seeds)
		t.Logf("seeds 0 to %d: %s", seeds-1, cell)
		if !strings.Contains(string(page), cell) {
			t.Errorf("docs/beside-others.md lacks %q", cell)
		}
	}
}

// beside is what a scene came to.
type beside struct {
	admitted float64 // of the limit
	excess   float64 // requests above the limit in the worst window
	calls    float64 // of the store, for each request
}

func (b beside) add(c beside) beside {
	return beside{b.admitted + c.admitted, b.excess + c.excess, b.calls + c.calls}
}

func playSlidingWindow(seed uint64, every time.Duration) beside {
	const limit, offered, limiters, seconds = 20, 50, 2, 120
	store := windows{}
	var fleet [limiters]*slidingwindow.Limiter
	for i := range fleet {
		fleet[i], _ = slidingwindow.NewLimiter(time.Second, limit,
			func() (slidingwindow.Window, slidingwindow.StopFunc) {
				return slidingwindow.NewSyncWindow("key", slidingwindow.NewBlockingSynchronizer(&store, every))
			})
	}
	random := rand.New(rand.NewPCG(seed, 0))
	start := time.Unix(0, 0)
	var admitted []time.Time
	for i := range offered * seconds {
		now := start.Add(time.Duration(i) * time.Second / offered)
		if fleet[random.IntN(limiters)].AllowN(now, 1) {
			admitted = append(admitted, now)
		}
	}
	worst := 0
	for first, last := 0, 0; last < len(admitted); last++ {
		for admitted[last].Sub(admitted[first]) >= time.Second {
			first++
		}
		worst = max(worst, last-first+1)
	}
	return beside{
		admitted: float64(len(admitted)) / (limit * seconds),
		excess:   float64(max(worst-limit, 0)),
		calls:    float64(store.calls) / (offered * seconds),
	}
}

// windows are the counters that slidingwindow keeps in a store.
type windows struct {
	counts map[int64]int64 // by the window's start
	calls  int
}

func (w *windows) Add(_ string, start, delta int64) (int64, error) {
	if w.counts == nil {
		w.counts = map[int64]int64{}
	}
	w.calls++
	w.counts[start] += delta
	return w.counts[start], nil
}

func (w *windows) Get(_ string, start int64) (int64, error) {
	w.calls++
	return w.counts[start], nil
}
