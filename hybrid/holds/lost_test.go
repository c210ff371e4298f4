package holds_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// TestLostStore: holds that a store has lost end as if nobody had settled them, when their lives
// have ended.
func TestLostStore(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	store := holds.NewMemoryAt(func() time.Time { return now })
	k := keeper(holds.Config{Store: store})
	made := map[bool]*tokens{true: {}, false: {}}
	for spent, x := range made {
		_, err := k.Reserve(t.Context(), holds.Order{
			Owner: "o", Content: "c", Life: time.Minute, Spent: spent, Estimate: []int{7},
			Take: func(context.Context) (holds.Tokens, string, error) { return x, "", nil },
		})
		must(t, err)
	}
	store.Forget()
	for range 4 {
		now = now.Add(29 * time.Second)
		if len(made[true].settled) > 0 && now.Sub(time.UnixMilli(1_800_000_000_000)) <= time.Minute {
			t.Error("they end before their lives do")
		}
		k.Sync()
		k.Sync()
	}
	if s, r := made[true].settled, made[false].settled; len(s) != 1 || s[0] != 7 || len(r) != 1 ||
		r[0] != 0 || k.Open() != 0 {
		t.Errorf("settled %v and %v, %d are open", s, r, k.Open())
	}
}

// TestRepeatGivesBack: what a repeat at another replica has reserved comes back before its answer.
func TestRepeatGivesBack(t *testing.T) {
	store := holds.NewMemory()
	var made [2]tokens
	for i := range made {
		k := keeper(holds.Config{Store: store})
		h, err := k.Reserve(t.Context(), holds.Order{
			Owner: "o", ID: "a", Content: "c", Life: time.Minute, Estimate: []int{7},
			Take: func(context.Context) (holds.Tokens, string, error) { return &made[i], "first", nil },
		})
		if err != nil || h.ID != "a" || k.Open() != 1-i {
			t.Errorf("%+v, %v, %d are open", h, err, k.Open())
		}
	}
	if len(made[0].settled) != 0 || len(made[1].settled) != 1 || made[1].settled[0] != 0 {
		t.Errorf("settled %v, and the repeat %v", made[0].settled, made[1].settled)
	}
}

// TestRunEnds: when Run returns, what was settled elsewhere by then has come back, and what waits
// for the Store has been done.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &far{Store: holds.NewMemory()}
		home, other := keeper(holds.Config{Store: store}), keeper(holds.Config{Store: store})
		var x, y tokens
		for id, made := range map[string]*tokens{"x": &x, "y": &y} {
			_, err := home.Reserve(t.Context(), order(id, having(made)))
			must(t, err)
		}
		must(t, other.Settle(t.Context(), "o", "x", []int{3}))
		time.Sleep(time.Second) // so that the next batch leaves at once
		gone, leave := context.WithCancel(t.Context())
		go func() { _ = other.Settle(gone, "o", "y", []int{4}) }()
		synctest.Wait()
		leave() // its batch is under way
		synctest.Wait()
		ended, end := context.WithCancel(t.Context())
		end()
		other.Run(ended)
		home.Run(ended)
		if fmt.Sprint(x.settled, y.settled) != "[3] [4]" {
			t.Errorf("settled %v and %v", x.settled, y.settled)
		}
		home.Run(ended) // which acknowledges
		synctest.Wait()
		sent := store.batches.Load()
		home.Run(ended)
		if n := store.batches.Load() - sent; n != 0 {
			t.Errorf("%d batches were sent, with nothing to learn", n)
		}
	})
}
