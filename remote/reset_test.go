package remote_test

import (
	"context"
	"testing"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// TestReset: the bucket of a key is full after it, and no other one changes.
func TestReset(t *testing.T) {
	ctx := context.Background()
	store := remote.New(redistest.Start(t).Client(), remote.WithHashedKeys([]byte("secret")))
	limit := lease.Limit{Rate: 0.001, Burst: 10}
	seq := uint64(0)
	take := func(key string) float64 {
		t.Helper()
		seq++
		c := &lease.Call{Key: key, Request: lease.Request{
			Holder: "h", Seq: seq, Take: 10, Limit: limit, Policy: lease.Policy{Mode: lease.PerRequest},
		}}
		if store.Exchange(ctx, []*lease.Call{c}); c.Err != nil {
			t.Fatal(c.Err)
		}
		return c.Reply.Taken
	}
	if a, b, again := take("a"), take("b"), take("a"); a != 10 || b != 10 || again != 0 {
		t.Fatalf("took %v, %v, %v", a, b, again)
	}
	for _, key := range []string{"a", "never used"} {
		if err := store.Reset(ctx, key); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := take("a"), take("b"); a != 10 || b != 0 {
		t.Errorf("after a reset: %v of a, %v of b", a, b)
	}
	if err := remote.New(nil).Reset(ctx, "a"); err == nil {
		t.Error("reset without a client")
	}
}
