package holds_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/holds/redisholds"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A stage is a Store with a clock that a history moves on. Its times are in units.
type stage struct {
	part, parts uint64 // of the histories; 0 are all

	unit time.Duration
	new  func(seed uint64) holds.Store
	move func(d time.Duration)
}

// TestHistories plays callers of three replicas that reserve, settle, cancel, extend and repeat,
// anywhere, with replies and requests that are lost or late, contexts that end and replicas that
// are killed. What each hold has cost is what its end says, once: nothing is minted, and nothing is
// lost.
func TestHistories(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		if testing.Short() {
			t.Skip("plays one goroutine: left out with -short")
		}
		now := time.UnixMilli(1_800_000_000_000)
		play(t, longform.Histories(2000, 10_000), stage{
			unit: time.Second,
			new:  func(uint64) holds.Store { return holds.NewMemoryAt(func() time.Time { return now }) },
			move: func(d time.Duration) { now = now.Add(d) },
		})
	})
	t.Run("miniredis", func(t *testing.T) {
		server := miniredis.RunT(t)
		now := time.UnixMilli(1_800_000_000_000)
		server.SetTime(now)
		client := redis.NewClient(&redis.Options{Addr: server.Addr()})
		defer client.Close()
		play(t, longform.Histories(40, 200), stage{
			unit: time.Second,
			new: func(i uint64) holds.Store {
				server.FlushAll()
				return redisholds.New(client, fmt.Sprintf("h%d:", i))
			},
			move: func(d time.Duration) {
				now = now.Add(d)
				server.SetTime(now)
				server.FastForward(d)
			},
		})
	})
	// Its clock cannot be set: histories wait for it most of the time, and so do several at a time.
	t.Run("redis", func(t *testing.T) {
		client := redistest.Start(t).Client()
		const together = 8
		for part := range uint64(together) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				playOnRedis(t, client, part, together)
			})
		}
	})
}

// playOnRedis plays one of some parts of the histories.
func playOnRedis(t *testing.T, client *redis.Client, part, parts uint64) {
	var store holds.Store
	clock := func() time.Time {
		r, err := store.Do(t.Context(), holds.Batch{Home: "clock"})
		must(t, err)
		return r.Now
	}
	play(t, longform.Histories(200, 1000), stage{
		part: part, parts: parts, unit: time.Millisecond,
		new: func(i uint64) holds.Store {
			store = redisholds.New(client, fmt.Sprintf("h%d:", i))
			return store
		},
		move: func(d time.Duration) {
			for end := clock().Add(d); clock().Before(end); {
			}
		},
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func play(t *testing.T, n int, s stage) {
	for seed := range longform.Seeds(n) {
		if s.parts > 0 && seed%s.parts != s.part {
			continue
		}
		w := newWorld(t, s, seed)
		for range 14 {
			w.step()
		}
		w.finish()
		if w.wrong != nil {
			t.Fatalf("history %d: %v\n%s", seed, w.wrong, w.log)
		}
	}
}

// A world is one history.
type world struct {
	stage
	t        testing.TB
	random   *rand.Rand
	store    holds.Store
	replicas []*replica
	all      []*replica
	late     []func() // batches that are under way
	calm     bool     // nothing is lost any more
	tokens   []*tokens
	byName   map[string]*tokens // what has become a hold
	ids      []string
	acked    map[string]string // answers by ID
	log      string
	wrong    error
}

// A replica is one of the service.
type replica struct {
	*holds.Keeper
	w       *world
	dead    bool
	charged map[string]int // by content
}

// tokens are what a home has reserved.
type tokens struct {
	home     *replica
	content  string
	estimate int
	spent    bool

	settled []int // by the home
	made    bool  // the Store has had the hold
	ended   bool  // by Settle
	used    int
	by      *replica
}

func newWorld(t testing.TB, s stage, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 29))
	w := &world{
		stage: s, t: t, random: random, store: s.new(seed), byName: map[string]*tokens{},
		acked: map[string]string{}, ids: []string{"a", "b", "c"},
	}
	for range 3 {
		w.replicas = append(w.replicas, w.start())
	}
	return w
}

func (w *world) start() *replica {
	r := &replica{w: w, charged: map[string]int{}}
	r.Keeper = keeper(holds.Config{
		Store: r,
		Charge: func(content string, above []int) error {
			r.charged[content] += above[0]
			return nil
		},
		Failed: func(err error) { w.fail("%v", err) },
	})
	r.Hurry(5*w.unit, w.unit/4)
	w.all = append(w.all, r)
	return r
}

func (w *world) fail(format string, args ...any) {
	if w.wrong == nil {
		w.wrong = fmt.Errorf(format, args...)
	}
}

func (w *world) note(format string, args ...any) { w.log += fmt.Sprintf(format, args...) + "\n" }

var errLost = errors.New("lost")

// Do implements holds.Store, as seen by a replica: over a bad network.
func (r *replica) Do(_ context.Context, b holds.Batch) (holds.Reply, error) {
	fate := r.w.random.IntN(10)
	switch {
	case r.dead:
		return holds.Reply{}, errLost
	case r.w.calm || fate > 2:
		return r.arrive(b)
	case fate == 0:
		return holds.Reply{}, errLost
	case fate == 1:
		r.w.late = append(r.w.late, func() { _, _ = r.arrive(b) })
		return holds.Reply{}, errLost
	}
	_, err := r.arrive(b)
	return holds.Reply{}, errors.Join(err, errLost)
}

// arrive does a batch, and notes what has become of holds.
func (r *replica) arrive(b holds.Batch) (holds.Reply, error) {
	reply, err := r.w.store.Do(context.Background(), b)
	if err != nil {
		r.w.fail("%v", err)
		return reply, err
	}
	for i, c := range b.Calls {
		if reply.Answers[i].Verdict != holds.Done {
			continue
		}
		switch c.Verb {
		case holds.Reserve:
			var n int
			_, _ = fmt.Sscan(c.Answer, &n)
			x := r.w.tokens[n]
			x.made = true
			if r.w.byName[c.Name] != nil {
				r.w.fail("%s came into being twice", c.Name)
			}
			r.w.byName[c.Name] = x
		case holds.Settle:
			x := r.w.byName[c.Name]
			if x.ended {
				r.w.fail("%s has ended twice", c.Name)
			}
			x.ended, x.by = true, r
			if c.Used != nil {
				x.used = c.Used[0]
			}
		}
	}
	return reply, nil
}

// Settle implements holds.Tokens.
func (x *tokens) Settle(used ...int) error {
	x.settled = append(x.settled, used...)
	return nil
}

// step does one thing.
func (w *world) step() {
	i := w.random.IntN(len(w.replicas))
	r := w.replicas[i]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if w.random.IntN(8) == 0 {
		cancel()
	}
	id := w.ids[w.random.IntN(len(w.ids))]
	switch verb := w.random.IntN(20); {
	case verb < 7:
		w.reserve(ctx, cancel, r, id)
	case verb < 12:
		w.settle(ctx, r, id)
	case verb == 12:
		_, err := r.Extend(ctx, "o", id, w.unit*time.Duration(1+w.random.IntN(3)))
		r.Rest()
		w.note("%d extends %s: %v", i, id, err)
	case verb < 16:
		w.move(w.unit * time.Duration(1+w.random.IntN(2)))
		w.note("time")
	case verb == 16:
		r.dead = true
		w.replicas[i] = w.start()
		w.note("%d is killed", i)
	case verb == 17 && len(w.late) > 0:
		w.arrive()
	}
	r.Sync()
}

func (w *world) arrive() {
	n := w.random.IntN(len(w.late))
	w.note("what was late comes")
	w.late[n]()
	w.late = slices.Delete(w.late, n, n+1)
}

func (w *world) reserve(ctx context.Context, cancel func(), r *replica, id string) {
	if w.random.IntN(4) == 0 {
		id = ""
	}
	estimate, spent := 1+w.random.IntN(2), id != "a" // so that a repeat is often one
	content := fmt.Sprint(id, " ", estimate)
	if id == "" {
		content = fmt.Sprint("made up ", len(w.tokens))
	}
	var took *tokens
	h, err := r.Reserve(ctx, holds.Order{
		Owner: "o", ID: id, Content: content, Life: w.unit * time.Duration(1+estimate), Spent: spent,
		Estimate: []int{10 * estimate},
		Take: func(ctx context.Context) (holds.Tokens, string, error) {
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			if w.random.IntN(10) == 0 {
				return nil, "denied", nil
			}
			took = &tokens{home: r, content: content, estimate: 10 * estimate, spent: spent}
			w.tokens = append(w.tokens, took)
			if w.random.IntN(10) == 0 {
				cancel()
			}
			return took, fmt.Sprint(len(w.tokens) - 1), nil
		},
	})
	r.Rest()
	w.note("%v reserves %q, %d: %+v %v", slices.Index(w.replicas, r), id, estimate, h, err)
	switch {
	case err != nil || h.ID == "":
		return
	case id == "":
		w.ids = append(w.ids, h.ID)
	}
	if was, ok := w.acked[h.ID]; ok && was != h.Answer {
		w.fail("%s was answered %q, and then %q", h.ID, was, h.Answer)
	}
	w.acked[h.ID] = h.Answer
	var n int
	_, _ = fmt.Sscan(h.Answer, &n)
	if x := w.tokens[n]; !x.made || x.content != content {
		w.fail("%s was answered, and is not what was asked for: %+v", h.ID, x)
	}
}

func (w *world) settle(ctx context.Context, r *replica, id string) {
	used := []int{w.random.IntN(4) * 8}
	if used[0] == 0 && w.random.IntN(2) == 0 {
		used = nil
	}
	err := r.Settle(ctx, "o", id, used)
	r.Rest()
	w.note("%v settles %s, %v: %v", slices.Index(w.replicas, r), id, used, err)
	if err == nil {
		if x := w.byName["1:o:"+id]; x == nil || !x.ended || used != nil && x.used != used[0] {
			w.fail("%s was settled at %v, and is %+v", id, used, x)
		}
	}
}

// finish lets all that is under way arrive, all lives end, and compares costs.
func (w *world) finish() {
	w.calm = true
	for len(w.late) > 0 {
		w.move(w.unit * time.Duration(w.random.IntN(3)))
		w.arrive()
	}
	for range 3 {
		w.move(6 * w.unit)
		for _, r := range w.replicas {
			r.Sync()
			w.move(r.Ahead())
			r.Sync()
		}
	}
	for i, r := range w.replicas {
		if r.Open() != 0 {
			w.fail("replica %d has %d open holds at the end", i, r.Open())
		}
	}
	charged := map[string]map[*replica]int{}
	for i, x := range w.tokens {
		w.compare(i, x)
		if x.made && x.ended && x.by != x.home && x.used > x.estimate {
			if charged[x.content] == nil {
				charged[x.content] = map[*replica]int{}
			}
			charged[x.content][x.by] += x.used - x.estimate
		}
	}
	for _, r := range w.all {
		for content, n := range r.charged {
			if n > charged[content][r] {
				w.fail("a replica has charged %d for %s, not %d", n, content, charged[content][r])
			}
		}
		for content := range charged {
			if n := charged[content][r]; !r.dead && r.charged[content] != n {
				w.fail("a replica has charged %d for %s, not %d", r.charged[content], content, n)
			}
		}
	}
}

// compare compares what the home of tokens has settled with how their hold has ended.
func (w *world) compare(i int, x *tokens) {
	want := 0
	switch {
	case x.ended && x.by == x.home:
		want = x.used
	case x.ended:
		want = min(x.used, x.estimate)
	case x.made && x.spent:
		want = x.estimate
	}
	switch {
	case len(x.settled) > 1:
		w.fail("tokens %d were settled at %v", i, x.settled)
	case len(x.settled) == 0 && !x.home.dead:
		w.fail("tokens %d were not settled: %+v", i, x)
	case len(x.settled) == 1 && x.settled[0] != want:
		w.fail("tokens %d were settled at %d, not %d: %+v", i, x.settled[0], want, x)
	}
}
