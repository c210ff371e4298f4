package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestTwinsOfManyLimits: they agree on which limit is in force where holders declare more
// limits than there is room for, and when those go, and keep no list of a single one.
func TestTwinsOfManyLimits(t *testing.T) {
	longform.None(t)
	tw := newTwins(t)
	tw.onRedis()
	tw.ledger = new(lease.Ledger)
	now := time.Duration(1e18)
	ask := func(i int, seq uint64, limit lease.Limit) {
		t.Helper()
		q := request(fmt.Sprint("h", i), seq)
		q.Limit, q.Take, q.Min, q.Policy.MaxHold = limit, 0, 0, q.Policy.MaxRefresh
		if _, err := tw.exchange(t.Context(), now, q); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 262 {
		ask(i, 1, lease.Limit{Rate: 1000 - float64(i%260)/3, Burst: int64(100 + i)})
	}
	if n := len(tw.ledger.View().Limits); n != 255 {
		t.Errorf("%d limits are known", n)
	}
	now += time.Second // the records of all have ended, but for the next ones
	for i := range 20 {
		ask(i, 2, lease.Limit{Rate: 1000, Burst: int64(100 + i/5)})
		now += 200 * time.Millisecond
	}
	now += time.Second
	ask(300, 1, lease.Limit{Rate: 1000, Burst: 10})
	n := tw.real.HLen(t.Context(), "ration:"+tw.key()).Val()
	if limits := tw.ledger.View().Limits; len(limits) != 1 || n != 4 {
		t.Errorf("%d fields, declared are %v", n, limits)
	}
}
