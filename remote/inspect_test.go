package remote_test

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
)

// TestInspectJain: a View shows who refills and what of, and how evenly. The first holder
// had the whole rate when it was alone, and the second little of it.
func TestInspectJain(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		exchange := func(holder int, seq uint64) {
			q := request("h"+strconv.Itoa(holder), 1)
			q.Seq, q.Seen, q.Demand = seq, seq-1, 900
			q.Limit = lease.Limit{Rate: 1000, Burst: 1000}
			q.Policy = lease.Policy{
				MaxRefresh: 10 * time.Second, MaxHold: 20 * time.Second,
			}.Resolved()
			call := &lease.Call{Key: "k", Request: q}
			if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
				t.Fatal(call.Err)
			}
		}
		for seq := range uint64(6) {
			exchange(1, seq+1)
		}
		alone, err := store.Inspect(t.Context(), "k")
		if err != nil || alone.Jain != 1 || len(alone.Holders) != 1 || alone.Holders[0].Rate == 0 {
			t.Fatalf("alone: %+v, %v", alone, err)
		}
		exchange(2, 1)
		exchange(2, 2)
		v, err := store.Inspect(t.Context(), "k")
		if err != nil || len(v.Holders) != 2 {
			t.Fatalf("%+v, %v", v, err)
		}
		a, b := min(v.Holders[0].Rate/v.Holders[0].Demand, 1), min(v.Holders[1].Rate/v.Holders[1].Demand, 1)
		if b == 0 || b > a/2 {
			t.Fatalf("parts %v and %v", a, b)
		}
		if want := (a + b) * (a + b) / 2 / (a*a + b*b); math.Abs(v.Jain-want) > 1e-12 ||
			v.Jain > 0.95 {
			t.Errorf("Jain %v of %v and %v, not %v", v.Jain, a, b, want)
		}
	})
}

// TestInspectWithoutClient: it is an error, as for all other calls.
func TestInspectWithoutClient(t *testing.T) {
	if v, err := remote.New(nil).Inspect(t.Context(), "a"); err == nil {
		t.Errorf("%+v without a client", v)
	}
}
