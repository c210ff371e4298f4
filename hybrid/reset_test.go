package hybrid_test

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A wayward store delays each message in both directions, some beyond the timeout: those are
// carried out all the same.
type wayward struct {
	*hybrid.Memory

	mu     sync.Mutex
	random *rand.Rand
	most   time.Duration // of nearly all delays
	after  int           // messages that were under way at a Reset, and arrived after it
	resets int

	admitted *envelope
}

func (w *wayward) delay() {
	w.mu.Lock()
	d := time.Duration(w.random.Int64N(int64(w.most)))
	if w.random.IntN(10) == 0 {
		d *= 10
	}
	w.mu.Unlock()
	time.Sleep(d)
}

func (w *wayward) Exchange(ctx context.Context, calls []*lease.Call) {
	resets := w.resetsSoFar()
	w.delay()
	if w.resetsSoFar() != resets {
		w.mu.Lock()
		w.after++
		w.mu.Unlock()
	}
	w.Memory.Exchange(ctx, calls)
	w.delay()
}

// Reset tells the envelope when it takes effect at the latest, and at the earliest.
func (w *wayward) Reset(ctx context.Context, key string) error {
	w.delay()
	w.mu.Lock()
	w.resets++
	w.mu.Unlock()
	w.admitted.begin()
	return w.Memory.Reset(ctx, key)
}

func (w *wayward) resetsSoFar() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resets
}

// An envelope watches how many tokens are admitted in windows that overlap so many Resets,
// of which one is going on at a time.
type envelope struct {
	mu     sync.Mutex
	rate   float64
	at     time.Time
	during int       // 1 while a Reset goes on
	levels []float64 // above rate*T, of the worst window that ends now, by its Resets
	worst  []float64 // of them, ever
}

func newEnvelope(rate float64) *envelope {
	return &envelope{rate: rate, at: time.Now(), levels: []float64{0}, worst: []float64{0}}
}

// lookLocked lets time pass. A window begins at any time.
func (e *envelope) lookLocked() {
	now := time.Now()
	for i := range e.levels {
		e.levels[i] -= e.rate * now.Sub(e.at).Seconds()
	}
	e.levels[e.during] = max(e.levels[e.during], 0)
	e.at = now
}

func (e *envelope) admit(n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookLocked()
	for i := range e.levels {
		e.levels[i] += float64(n)
		e.worst[i] = max(e.worst[i], e.levels[i])
	}
}

func (e *envelope) begin() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lookLocked()
	e.levels = append([]float64{math.Inf(-1)}, e.levels...)
	e.worst = append(e.worst, 0)
	e.during = 1
}

func (e *envelope) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.during = 0
	e.lookLocked()
}

// TestResetUnderWay: exchanges, renewals and hand-backs are under way at each Reset and arrive
// after it, at least fifty. A window admits one Burst more for each Reset that it overlaps,
// and what the leases of other processes refill until they end. A Reset lasts until then.
func TestResetUnderWay(t *testing.T) {
	limit := hybrid.PerSecond(1000).WithBurst(200)
	const timeout = 50 * time.Millisecond
	for _, processes := range []int{1, 3} {
		others := time.Duration(0)
		if processes > 1 {
			others = maxRefresh * 9 / 4 // docs/guarantees.md, lost state
		}
		most := float64(limit.Burst) + limit.Rate*others.Seconds()
		after, dearest := 0, 0.0
		seed := uint64(0)
		for ; seed < 300 && (after < longform.Of(25, 50) || dearest < float64(limit.Burst)/2); seed++ {
			synctest.Test(t, func(t *testing.T) {
				w := playResets(t, seed, processes, others, hybrid.Config{
					Limit: limit, Timeout: timeout, Outage: hybrid.Deny,
				})
				for resets, worst := range w.admitted.worst {
					extra := worst - float64(limit.Burst) - limit.Rate*timeout.Seconds()
					if extra > float64(resets)*most {
						t.Errorf("%d processes, seed %d: %v above the envelope in a window "+
							"with %d resets, more than %v for each",
							processes, seed, extra, resets, most)
					}
				}
				w.mu.Lock() // the last ones hand back
				after += w.after
				w.mu.Unlock()
				dearest = max(dearest, w.admitted.worst[1]-w.admitted.worst[0])
			})
		}
		t.Logf("%d processes, %d seeds: %d messages arrived after a reset; one cost up to %.0f",
			processes, seed, after, dearest)
		if seed == 300 {
			t.Errorf("%d processes: this shows nothing", processes)
		}
	}
}

// playResets lets processes use one key for six seconds, in which it is reset and processes
// restart.
func playResets(
	t *testing.T, seed uint64, processes int, others time.Duration, config hybrid.Config,
) *wayward {
	random := rand.New(rand.NewPCG(seed, 0))
	w := &wayward{
		Memory: hybrid.NewMemory(), random: rand.New(rand.NewPCG(seed, 1)),
		most:     time.Duration(1+random.IntN(10)) * time.Millisecond,
		admitted: newEnvelope(config.Limit.Rate),
	}
	pause := time.Duration(1+random.IntN(5)) * time.Millisecond // more than the limit is asked for
	end := time.Now().Add(6 * time.Second)
	resetting := make(chan struct{}, 1) // one at a time
	var all sync.WaitGroup
	for i := range processes {
		own := rand.New(rand.NewPCG(seed, uint64(2+i)))
		all.Go(func() {
			for time.Now().Before(end) {
				l := newLimiter(t, w, config)
				life := time.Now().Add(time.Duration(1+own.IntN(4)) * time.Second)
				var users sync.WaitGroup
				for range 3 {
					steps := rand.New(rand.NewPCG(own.Uint64(), 0))
					users.Go(func() { askUntil(l, w.admitted, steps, pause, life) })
				}
				for time.Now().Before(life) {
					time.Sleep(time.Duration(own.IntN(1500*processes)) * time.Millisecond)
					resetting <- struct{}{}
					if err := l.Reset(ctx, "k"); err != nil {
						t.Error(err)
					}
					time.Sleep(others)
					w.admitted.end()
					<-resetting
				}
				users.Wait()
				go l.Close(ctx) // the next one does not wait for its hand-back
			}
		})
	}
	all.Wait()
	return w
}

// askUntil takes one to five tokens after each pause.
func askUntil(
	l *hybrid.Limiter, e *envelope, random *rand.Rand, pause time.Duration, end time.Time,
) {
	for time.Now().Before(end) {
		if n := 1 + random.IntN(5); l.AllowN("k", n) {
			e.admit(n)
		}
		time.Sleep(time.Duration(random.Int64N(int64(2 * pause))))
	}
}
