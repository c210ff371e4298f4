package holds_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// TestLateRepeat: while one caller's call is on its way for so long that it is void, another caller
// repeats it. The first has an error, the second the hold, and the tokens are not given back.
func TestLateRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, late := holds.NewMemory(), time.Duration(0)
		k := keeper(holds.Config{Store: do(func(b holds.Batch) (holds.Reply, error) {
			time.Sleep(late)
			return memory.Do(t.Context(), b)
		})})
		k.Sync() // it knows the time
		var x tokens
		first := make(chan error, 1)
		late = 6 * time.Second
		go func() {
			_, err := k.Reserve(t.Context(), order("a", having(&x)))
			first <- err
		}()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		late = 0
		h, err := k.Reserve(t.Context(), order("a", having(&x)))
		if h.ID != "a" || err != nil {
			t.Errorf("the repeat: %+v, %v", h, err)
		}
		if err := <-first; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the first: %v", err)
		}
		if len(x.settled) != 0 || k.Open() != 1 {
			t.Errorf("settled %v, %d are open", x.settled, k.Open())
		}
	})
}

// TestStrayNotice: a Store whose clock is set back lets a hold come into being that its home has
// given up. What becomes of it is not that of the next one of the same ID, whose tokens the home is
// about to take.
func TestStrayNotice(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	memory := holds.NewMemoryAt(func() time.Time { return now })
	late := []holds.Batch{}
	lose := false
	var failed []error
	k := keeper(holds.Config{
		Store: do(func(b holds.Batch) (holds.Reply, error) {
			if lose {
				late = append(late, b)
				return holds.Reply{}, errLost
			}
			return memory.Do(t.Context(), b)
		}),
		Failed: func(err error) { failed = append(failed, err) },
	})
	k.Sync()
	var given, next tokens
	lose = true
	if _, err := k.Reserve(t.Context(), order("a", having(&given))); !errors.Is(err, errLost) {
		t.Fatal(err)
	}
	k.Rest()
	lose = false
	now = now.Add(6 * time.Second)
	k.Sync()
	k.Sync()
	now = now.Add(-6 * time.Second)
	_, err := memory.Do(t.Context(), late[0])
	must(t, err)
	must(t, keeper(holds.Config{Store: memory}).Settle(t.Context(), "o", "a", []int{5}))
	_, err = k.Reserve(t.Context(), order("a", func(context.Context) (holds.Tokens, string, error) {
		k.Sync() // the notice of the first one comes
		return &next, "", nil
	}))
	if !errors.Is(err, holds.ErrOver) || fmt.Sprint(given.settled, next.settled, failed) != "[0] [0] []" {
		t.Errorf("%v; settled %v and %v; %v", err, given.settled, next.settled, failed)
	}
}

// TestManyLooks: holds that the Store has lost are each asked for once, also where the answers take
// longer than a Poll, as they are many.
func TestManyLooks(t *testing.T) {
	const all = 1000
	now := time.UnixMilli(1_800_000_000_000)
	memory := holds.NewMemoryAt(func() time.Time { return now })
	looks, slow := 0, false
	k := keeper(holds.Config{Store: do(func(b holds.Batch) (holds.Reply, error) {
		if slow {
			now = now.Add(2 * holds.Poll)
		}
		for _, c := range b.Calls {
			if c.Verb == holds.Look && c.Name != "none" {
				looks++
			}
		}
		return memory.Do(t.Context(), b)
	})})
	k.Hurry(5*time.Second, holds.Poll)
	for range all {
		_, err := k.Reserve(t.Context(), order("", having(new(tokens))))
		must(t, err)
	}
	memory.Forget()
	now, looks, slow = now.Add(2*time.Minute), 0, true
	for range 3 {
		k.Sync()
	}
	if looks != all || k.Open() != 0 {
		t.Errorf("%d lost holds were asked for %d times, and %d are open", all, looks, k.Open())
	}
}

// TestLearn: the home is told what a hold has used, also above the estimate and by another replica,
// and nothing of one that nobody has settled.
func TestLearn(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	memory := holds.NewMemoryAt(func() time.Time { return now })
	home, other := keeper(holds.Config{Store: memory}), keeper(holds.Config{Store: memory})
	var told [][]int
	var made [4]tokens
	for i := range made {
		o := order(fmt.Sprint(i), having(&made[i]))
		o.Learn, o.Spent = func(used []int) { told = append(told, used) }, true
		_, err := home.Reserve(t.Context(), o)
		must(t, err)
	}
	must(t, home.Settle(t.Context(), "o", "0", []int{8}))
	must(t, other.Settle(t.Context(), "o", "1", []int{9}))
	must(t, other.Settle(t.Context(), "o", "2", []int{3}))
	home.Sync()
	now = now.Add(time.Hour)
	home.Sync()
	if got := fmt.Sprint(told); got != "[[8] [9] [3]]" && got != "[[8] [3] [9]]" {
		t.Errorf("told %s", got)
	}
	if made[0].settled[0] != 8 || made[1].settled[0] != 7 || made[2].settled[0] != 3 ||
		made[3].settled[0] != 7 {
		t.Errorf("settled %v", made)
	}
}
