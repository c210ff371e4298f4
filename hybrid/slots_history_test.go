package hybrid_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A chance is a source of random numbers for all goroutines of a test.
type chance struct {
	mu  sync.Mutex
	rng *rand.Rand
}

// below is a number from 0 to n-1.
func (c *chance) below(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rng.Int64N(n)
}

func (c *chance) within(d time.Duration) time.Duration { return time.Duration(c.below(int64(d))) }

// A badLine repeats messages as late as a minute, delays answers, and loses both.
type badLine struct {
	hybrid.Store
	*chance
	calm *atomic.Bool
	cut  atomic.Bool
}

func (l *badLine) Exchange(ctx context.Context, calls []*lease.Call) {
	fail := func() {
		for _, c := range calls {
			c.Reply, c.Err = lease.Reply{}, errors.New("cut")
		}
	}
	time.Sleep(time.Millisecond / 2)
	bad := !l.calm.Load()
	if bad && l.below(100) < 15 {
		var again []*lease.Call
		for _, c := range calls {
			again = append(again, &lease.Call{Key: c.Key, Request: c.Request})
		}
		late := l.within([]time.Duration{time.Second, 10 * time.Second, time.Minute}[l.below(3)])
		time.AfterFunc(late, func() { l.Store.Exchange(context.Background(), again) })
	}
	if l.cut.Load() || bad && l.below(100) < 10 {
		fail()
		return
	}
	l.Store.Exchange(ctx, calls)
	switch {
	case bad && l.below(100) < 10:
		fail()
	case bad && l.below(100) < 10:
		time.Sleep(l.within(300 * time.Millisecond))
	default:
		time.Sleep(time.Millisecond / 2)
	}
}

// A workshop is processes with jobs that want slots, while much goes wrong.
type workshop struct {
	*chance
	t      *testing.T
	store  hybrid.Store
	config hybrid.Config
	n      int64
	all    [5]struct {
		*hybrid.Limiter
		line *badLine
	}
	work  func(*hybrid.Limiter) bool   // is a job, and reports whether another one follows
	limit atomic.Pointer[hybrid.Limit] // of the slots
	calm  atomic.Bool
	stop  chan struct{}
	group sync.WaitGroup

	inUse use
	jobs  atomic.Int64
	newer atomic.Uint64 // the largest fence that a resource has seen
}

// begin starts a process in this place, with a few jobs at a time.
func (f *workshop) begin(i int) {
	line := &badLine{Store: f.store, chance: f.chance, calm: &f.calm}
	config := f.config
	config.Process = hybrid.NewProcess()
	l, err := hybrid.New(line, config)
	if err != nil {
		f.t.Fatal(err)
	}
	f.all[i].Limiter, f.all[i].line = l, line
	for range 1 + f.below(4) {
		f.group.Go(func() {
			for f.work(l) {
			}
		})
	}
}

// acquire is one job, if it has its slots in time.
func (f *workshop) acquire(l *hybrid.Limiter) bool {
	n := 1 + f.below(min(f.n, 3))
	soon, cancel := context.WithTimeout(ctx, f.within(20*time.Second)+1)
	s, err := l.Acquire(soon, "k", int(n))
	cancel()
	if err == nil {
		f.job(s.Context(), n, s.Fence())
		if err := s.Release(); err == nil != errors.Is(context.Cause(s.Context()), hybrid.ErrReleased) {
			f.t.Errorf("released with %v, cause %v", err, context.Cause(s.Context()))
		}
	}
	return f.pause(err)
}

// pause is that before the next job, if another one follows.
func (f *workshop) pause(err error) bool {
	time.Sleep(f.within(50 * time.Millisecond))
	select {
	case <-f.stop:
		return false
	default:
		return !errors.Is(err, hybrid.ErrClosed)
	}
}

// job uses the slots until it is done or its context ends, whichever is first.
func (f *workshop) job(slots context.Context, n int64, fence uint64) {
	if slots.Err() != nil {
		return
	}
	f.jobs.Add(1)
	f.inUse.begin(n)
	var once sync.Once
	end := func() { once.Do(func() { f.inUse.end(n) }) }
	defer end()
	context.AfterFunc(slots, end)
	if last := f.newer.Swap(fence); f.n == 1 && last > fence {
		f.t.Errorf("fence %d after %d", fence, last)
	}
	lengths := []time.Duration{50 * time.Millisecond, time.Second, 40 * time.Second}
	length := f.within(lengths[f.below(3)])
	select {
	case <-time.After(length):
	case <-slots.Done():
	case <-f.stop:
	}
}

// trouble cuts processes off, joins them again, and lets some crash and others start. It sets
// another limit.
func (f *workshop) trouble() {
	time.Sleep(f.within(2 * time.Second))
	i := f.below(int64(len(f.all)))
	p := &f.all[i]
	switch f.below(8) {
	case 0:
		p.line.cut.Store(true)
	case 1, 2:
		p.line.cut.Store(false)
	case 3:
		p.line.cut.Store(true)
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_ = p.Close(soon) // its jobs end, and the store hears nothing
		f.begin(int(i))
	case 4:
		f.set([]hybrid.Limit{
			hybrid.Slots(f.n), hybrid.Slots((f.n + 1) / 2), hybrid.PerSecond(5), hybrid.Blocked,
		}[f.below(4)])
	case 5:
		f.set(hybrid.Slots(f.n))
	}
}

func (f *workshop) set(limit hybrid.Limit) { f.limit.Store(&limit) }

// newWorkshop is one with this seed, of which work is to be set.
func newWorkshop(t *testing.T, seed uint64) *workshop {
	f := &workshop{
		chance: &chance{rng: rand.New(rand.NewPCG(seed, 77))}, t: t, store: hybrid.NewMemory(),
		n: []int64{1, 2, 5, 30}[seed%4], stop: make(chan struct{}),
	}
	f.set(hybrid.Slots(f.n))
	f.config.LimitFor = func(string) hybrid.Limit { return *f.limit.Load() }
	f.config.Policy.MaxHold = []time.Duration{0, 2 * time.Second, 8 * time.Second}[seed%3]
	return f
}

// play has much go wrong, and in the end all slots back.
func (f *workshop) play(seed uint64) {
	for i := range f.all {
		f.begin(i)
	}
	for range longform.Of(100, 200) {
		f.trouble()
	}
	f.set(hybrid.Slots(f.n))
	f.calm.Store(true)
	for i := range f.all {
		f.all[i].line.cut.Store(false)
	}
	time.Sleep(100 * time.Second) // the last messages come, and the last claims end
	before := f.jobs.Load()
	time.Sleep(time.Minute)
	went := f.jobs.Load() - before
	close(f.stop)
	f.group.Wait()
	soon, cancel := context.WithTimeout(ctx, 40*time.Second)
	defer cancel()
	if _, err := f.all[0].Acquire(soon, "k", int(f.n)); err != nil {
		f.t.Errorf("seed %d: slots are lost: %v", seed, err)
	}
	for _, p := range f.all {
		if err := p.Close(ctx); err != nil {
			f.t.Error(err)
		}
	}
	if f.inUse.most.Load() > f.n || f.inUse.now.Load() != 0 || went == 0 {
		f.t.Errorf("seed %d: %d of %d slots in use at once, %d in the end, and %d jobs within a minute",
			seed, f.inUse.most.Load(), f.n, f.inUse.now.Load(), went)
	}
}

// TestSlotsHistories: whatever is lost, late or repeated, cut off, restarted or set anew, jobs
// whose contexts have not ended have at most n slots, a resource that only one may use sees
// growing fences, and in the end no slot is lost.
func TestSlotsHistories(t *testing.T) {
	long(t)
	for seed := range longform.Of[uint64](4, 24) {
		synctest.Test(t, func(t *testing.T) {
			f := newWorkshop(t, seed)
			f.work = f.acquire
			f.play(seed)
		})
	}
}
