package lua_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestFull: both ledgers have room for 65,535 holders. The next one gets nothing and
// leaves nothing behind, and gets its answer when leases have ended, though in Redis they
// are noticed part by part.
func TestFull(t *testing.T) {
	longform.Only(t, "65,535 holders come, as TestCountedFull makes believe")
	const room = 65535
	c := clockedRedis(t)
	store := remote.New(c)
	ledger := new(lease.Ledger)
	now := time.Duration(1e18)
	exchange := func(from, to int) (last lease.Reply) {
		t.Helper()
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		var batch []*lease.Call
		for i := from; i < to; i++ {
			batch = append(batch, &lease.Call{Key: "k", Request: lease.Request{
				Holder: fmt.Sprint("h", i), Seq: 1, Limit: lease.Limit{Rate: 1000, Burst: 1000},
				Policy: lease.Policy{Mode: lease.PerRequest, MaxHold: time.Hour}.Resolved(), // the key lives for an hour
			}})
		}
		for len(batch) > 0 {
			n := min(len(batch), 1000)
			store.Exchange(t.Context(), batch[:n])
			for _, call := range batch[:n] {
				last = ledger.Exchange(now, call.Request)
				if call.Err != nil || call.Reply != last {
					t.Fatalf("%s: Redis %+v, %v\nGo %+v", call.Request.Holder, call.Reply, call.Err, last)
				}
			}
			batch = batch[n:]
		}
		return last
	}
	if r := exchange(0, room); r.Stale || r.Holders != room {
		t.Fatalf("there is room for less than %d: %+v", room, r)
	}
	if r := exchange(room, room+1); !r.Stale || r.Holders != 0 {
		t.Errorf("there is room for one more than %d: %+v", room, r)
	}
	now += 2 * time.Hour
	q := lease.Request{
		Holder: "late", Seq: 1, Limit: lease.Limit{Rate: 1000, Burst: 1000},
		Policy: lease.Policy{}.Resolved(),
	}
	if r := ledger.Exchange(now, q); r.Stale || r.Holders != 1 {
		t.Errorf("two hours later in Go: %+v", r)
	}
	if err := setClock(t.Context(), c, now); err != nil {
		t.Fatal(err)
	}
	call := &lease.Call{Key: "k", Request: q}
	store.Exchange(t.Context(), []*lease.Call{call})
	if r := call.Reply; call.Err != nil || r.Stale || r.Holders > room-300 {
		t.Errorf("two hours later in Redis: %+v, %v", r, call.Err)
	}
}

// TestCountedFull is TestFull for a key in Redis that is full by its count of holders, or has room
// for a single holder.
func TestCountedFull(t *testing.T) {
	c := clockedRedis(t)
	store := remote.New(c)
	if err := setClock(t.Context(), c, time.Duration(1e18)); err != nil {
		t.Fatal(err)
	}
	ask := func(key, holder string) lease.Reply {
		t.Helper()
		call := &lease.Call{Key: key, Request: request(holder, 1)}
		if store.Exchange(t.Context(), []*lease.Call{call}); call.Err != nil {
			t.Fatal(call.Err)
		}
		return call.Reply
	}
	at := lua.Sums[:slices.IndexFunc(lua.Sums, func(f lua.Field) bool { return f.Name == "holders" })].Size()
	for _, holders := range []string{"\xff\xfe", "\xff\xff"} {
		key := fmt.Sprintf("%x", holders)
		ask(key, "a")
		sums := c.HGet(t.Context(), "ration:"+key, "#").Val()
		sums = sums[:at] + holders + sums[at+len(holders):]
		if err := c.HSet(t.Context(), "ration:"+key, "#", sums).Err(); err != nil {
			t.Fatal(err)
		}
		full := holders == "\xff\xff"
		if r := ask(key, "b"); r.Stale != full || r.Holders == 0 != full {
			t.Errorf("the state counts %x holders: %+v", holders, r)
		}
	}
}
