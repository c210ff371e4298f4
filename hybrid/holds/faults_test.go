package holds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// order is one of seven tokens, which Take has.
func order(id string, take func(context.Context) (holds.Tokens, string, error)) holds.Order {
	return holds.Order{
		Owner: "o", ID: id, Content: "c", Life: time.Minute, Estimate: []int{7}, Take: take,
	}
}

// having has tokens for Take.
func having(x *tokens) func(context.Context) (holds.Tokens, string, error) {
	return func(context.Context) (holds.Tokens, string, error) { return x, "", nil }
}

// keeper is a Keeper whose tokens are of no limit, unless the Config has a Charge.
func keeper(c holds.Config) *holds.Keeper {
	if c.Charge == nil {
		c.Charge = free{}.charge
	}
	return open(c)
}

// A weak is a Store that does batches, or will soon, and loses replies.
type weak struct {
	holds.Store
	lose int           // replies
	late time.Duration // of batches without a reply
	sent int
}

func (w *weak) Do(ctx context.Context, b holds.Batch) (holds.Reply, error) {
	w.sent++
	if w.lose == 0 {
		return w.Store.Do(ctx, b)
	}
	w.lose--
	time.AfterFunc(w.late, func() { _, _ = w.Store.Do(ctx, b) })
	return holds.Reply{}, errors.New("lost")
}

// TestLostSettle: a replica that has settled more than the estimate, and has not heard that it has,
// charges the difference though nobody asks it for anything more.
func TestLostSettle(t *testing.T) {
	for _, late := range []time.Duration{0, 3 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			store := &weak{Store: holds.NewMemory(), late: late}
			charged := 0
			var x tokens
			home := keeper(holds.Config{Store: store})
			other := keeper(holds.Config{Store: store, Charge: func(_ string, above []int) error {
				charged += above[0]
				return nil
			}})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go other.Run(ctx)
			h, err := home.Reserve(ctx, order("", having(&x)))
			must(t, err)
			store.lose = 1
			if err := other.Settle(ctx, "o", h.ID, []int{17}); err == nil {
				t.Error("the reply was not lost")
			}
			time.Sleep(6 * time.Second)
			synctest.Wait()
			if charged != 10 {
				t.Errorf("a batch that comes after %v: %d were charged, not 10", late, charged)
			}
			sent := store.sent
			time.Sleep(time.Hour)
			if n := store.sent - sent; n != 0 {
				t.Errorf("%d batches were sent later", n)
			}
			cancel()
			synctest.Wait()
		})
	}
}

// TestOthersContext: a repeat that waits for the first caller's Take takes for itself if that one
// gives up, and gives up alone.
func TestOthersContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, takes := keeper(holds.Config{Store: holds.NewMemory()}), 0
		slow := order("a", func(ctx context.Context) (holds.Tokens, string, error) {
			if takes++; takes > 1 {
				return new(tokens), "", nil
			}
			<-ctx.Done()
			return nil, "", ctx.Err()
		})
		first, end := context.WithTimeout(t.Context(), 2*time.Second)
		defer end()
		go func() {
			if _, err := k.Reserve(first, slow); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}()
		synctest.Wait()
		soon, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		if _, err := k.Reserve(soon, slow); !errors.Is(err, context.DeadlineExceeded) || first.Err() != nil {
			t.Error(err)
		}
		h, err := k.Reserve(t.Context(), slow)
		if err != nil || h.ID != "a" || takes != 2 || k.Open() != 1 {
			t.Errorf("%+v, %v, after %d", h, err, takes)
		}
	})
}

// TestCallsOfTheGone: behind a Store that hangs as many calls wait as callers do.
func TestCallsOfTheGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hung := make(chan struct{})
		calls := 0
		k := keeper(holds.Config{Store: do(func(b holds.Batch) (holds.Reply, error) {
			calls += len(b.Calls)
			<-hung
			return holds.Reply{Answers: make([]holds.Answer, len(b.Calls))}, nil
		})})
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			go func() { _ = k.Cancel(ctx, "o", "a") }()
		}
		synctest.Wait()
		under := calls // one, or as many as came before the first batch left
		cancel()
		synctest.Wait()
		close(hung)
		synctest.Wait()
		if calls != under {
			t.Errorf("%d calls were sent, want the %d that were under way", calls, under)
		}
	})
}

// A do is a Store that is a function.
type do func(holds.Batch) (holds.Reply, error)

func (d do) Do(_ context.Context, b holds.Batch) (holds.Reply, error) { return d(b) }

// A rude panics when it is settled.
type rude struct{}

func (rude) Settle(...int) error { panic("rude") }

// TestHarmfulCode: a panic of Settle or of Charge is told, and does not end the program. Tokens
// that come with an error are settled.
func TestHarmfulCode(t *testing.T) {
	store := holds.NewMemory()
	var failed []string
	c := holds.Config{
		Store: store, Charge: func(string, []int) error { panic("rude") },
		Failed: func(err error) { failed = append(failed, err.Error()) },
	}
	home, other := keeper(c), keeper(c)
	h, err := home.Reserve(t.Context(), order("", func(context.Context) (holds.Tokens, string, error) {
		return rude{}, "", nil
	}))
	must(t, err)
	must(t, other.Settle(t.Context(), "o", h.ID, []int{8}))
	home.Sync()
	if len(failed) != 2 || !strings.Contains(failed[0], "rude") || !strings.Contains(failed[1], "rude") {
		t.Errorf("told: %q", failed)
	}
	var x tokens
	wrong := errors.New("wrong")
	_, err = home.Reserve(t.Context(), order("", func(context.Context) (holds.Tokens, string, error) {
		return &x, "", wrong
	}))
	if !errors.Is(err, wrong) || len(x.settled) != 1 || home.Open() != 0 {
		t.Errorf("%v, settled %v, %d are open", err, x.settled, home.Open())
	}
}

// TestConfig: New names the field that is wrong.
func TestConfig(t *testing.T) {
	for want, spoil := range map[string]func(*holds.Config){
		"holds: Config.Store is nil":                      func(c *holds.Config) { c.Store = nil },
		"holds: Config.Charge is nil":                     func(c *holds.Config) { c.Charge = nil },
		"holds: Config.Most -1 is not at least 1":         func(c *holds.Config) { c.Most = -1 },
		"holds: Config.MostOfClient -1 is not at least 1": func(c *holds.Config) { c.MostOfClient = -1 },
	} {
		c := holds.Config{Store: holds.NewMemory(), Charge: free{}.charge}
		spoil(&c)
		if k, err := holds.New(c); k != nil || err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// TestInput: numbers that make no sense are refused, and take nothing.
func TestInput(t *testing.T) {
	k := keeper(holds.Config{Store: holds.NewMemory()})
	for name, spoil := range map[string]func(*holds.Order){
		"ID":       func(o *holds.Order) { o.ID = "a/b" },
		"Content":  func(o *holds.Order) { o.Content = "" },
		"life":     func(o *holds.Order) { o.Life = 0 },
		"life ":    func(o *holds.Order) { o.Life = holds.MaxLife + 1 },
		"Estimate": func(o *holds.Order) { o.Estimate = []int{1, -1} },
	} {
		o := order("", func(context.Context) (holds.Tokens, string, error) {
			t.Errorf("%s: it takes", name)
			return nil, "", nil
		})
		spoil(&o)
		if _, err := k.Reserve(t.Context(), o); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := k.Settle(t.Context(), "o", "a", []int{-1}); err == nil || errors.Is(err, holds.ErrAbsent) {
		t.Error(err)
	}
	if _, err := k.Extend(t.Context(), "o", "a", -1); err == nil || errors.Is(err, holds.ErrAbsent) {
		t.Error(err)
	}
}

// TestClockSetBack: a Store whose clock is set back is asked for what it has lost all the same.
func TestClockSetBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	store := holds.NewMemoryAt(func() time.Time { return now })
	k := keeper(holds.Config{Store: store})
	k.Sync()
	now = now.Add(-time.Hour)
	k.Sync()
	var x tokens
	_, err := k.Reserve(t.Context(), order("", having(&x)))
	must(t, err)
	store.Forget()
	now = now.Add(30 * time.Minute)
	k.Sync()
	k.Sync()
	if len(x.settled) != 1 {
		t.Errorf("settled %v", x.settled)
	}
}
