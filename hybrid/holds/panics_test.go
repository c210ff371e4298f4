package holds_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// A wild is a Store that panics while told to.
type wild struct {
	holds.Store
	panics bool
}

func (w *wild) Do(ctx context.Context, b holds.Batch) (holds.Reply, error) {
	if w.panics {
		panic("a bug of the Store")
	}
	return w.Store.Do(ctx, b)
}

// TestPanics: a panic of the Store is an error of the calls of its batch, one of Failed is
// nobody's, and the Keeper goes on.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &wild{Store: holds.NewMemory(), panics: true}
		told := 0
		k := keeper(holds.Config{Store: store, Failed: func(error) {
			told++
			panic("a bug of Failed")
		}})
		var x tokens
		if _, err := k.Reserve(t.Context(), order("a", having(&x))); err == nil ||
			!strings.Contains(err.Error(), "a bug of the Store") {
			t.Errorf("Reserve: %v", err)
		}
		store.panics = false
		for _, id := range []string{"b", "c"} {
			broken := func(context.Context) (holds.Tokens, string, error) { return unsettled{}, "", nil }
			_, err := k.Reserve(t.Context(), order(id, broken))
			must(t, err)
			must(t, k.Settle(t.Context(), "o", id, []int{3}))
		}
		synctest.Wait()
		if told != 2 {
			t.Errorf("Failed was told %d times of 2", told)
		}
	})
}

// unsettled are Tokens whose Settle fails.
type unsettled struct{}

func (unsettled) Settle(...int) error { return errors.New("not settled") }
