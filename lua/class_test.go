package lua_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/lua"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestClassTwins is TestTwins with classes, of every other process. While all of a key with classes
// go by a lease, the ledger knows their demand by class.
func TestClassTwins(t *testing.T) {
	tw := newTwins(t)
	tw.classed = true
	divided, known := 0, 0
	tw.check = func(v lease.View) error {
		if v.Classes != nil {
			known++
		}
		for _, h := range v.Holders {
			if h.Classes != nil && h.Rate > 0 {
				divided++
			}
		}
		return nil
	}
	exchanges := tw.tellAll(t, longform.Of[uint64](80, 180))
	t.Logf("%d exchanges, %d with classes, %d slices with them", exchanges, known, divided)
	if known < exchanges/4 || divided < longform.Of(30, 100) {
		t.Error("too few to mean anything")
	}
}

// FuzzClassTwins is FuzzTwins with classes.
func FuzzClassTwins(f *testing.F) {
	tw := newTwins(f)
	tw.classed = true
	fuzzTwins(f, tw)
}

// TestCrowdOfClasses: the sums of demands by class are at all times those of the holders that are
// stored, also of a crowd whose piles fall and whose holders come back under their old names. When
// all have gone nothing is left.
func TestCrowdOfClasses(t *testing.T) {
	for _, limit := range []lease.Limit{
		{Rate: 20_000, Burst: 100_000}, {Kind: lease.KindQuota, Burst: 100_000, Window: lease.Month},
	} {
		t.Run(limit.Kind.String(), func(t *testing.T) { crowdOfClasses(t, limit) })
	}
}

func crowdOfClasses(t *testing.T, limit lease.Limit) {
	c := clockedRedis(t)
	store, rng := remote.New(c), rand.New(rand.NewPCG(7, 1))
	now, seqs, crowds, back := time.Duration(1e18), map[string]uint64{}, 0, 0
	exchange := func(ids ...string) {
		t.Helper()
		if err := setClock(t.Context(), c, now); err != nil {
			t.Fatal(err)
		}
		var calls []*lease.Call
		for _, id := range ids {
			seqs[id]++
			if seqs[id] > 1 {
				back++
			}
			q := request(id, seqs[id])
			q.Limit, q.Seen = limit, seqs[id]-1
			q.Demand = 100 * rng.Float64()
			if id != "last" && id[1] != '4' {
				q.ByClass = &lease.ByClass{Classes: []lease.Class{{Name: "a", Floor: 0.5}, {Name: "b", Weight: 1}}}
				q.ByClass.Demand[rng.IntN(2)] = q.Demand
			}
			calls = append(calls, &lease.Call{Key: "k", Request: q})
		}
		store.Exchange(t.Context(), calls)
		for _, call := range calls {
			if call.Err != nil {
				t.Fatal(call.Err)
			}
		}
	}
	for round := range longform.Of(30, 150) {
		now += time.Duration(rng.Int64N(int64(100 * time.Millisecond)))
		if rng.IntN(4) == 0 {
			now += 2 * time.Minute // all leases end
		}
		var ids []string
		for range 200 {
			ids = append(ids, fmt.Sprint("h", rng.IntN(900)))
		}
		exchange(ids...)
		if n := sumsByClass(t, c); n > 0 && c.HExists(t.Context(), "ration:k", "&s").Val() {
			crowds++
		}
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	if crowds < 5 || back < 1000 {
		t.Errorf("a crowd in %d rounds, %d holders came back: too few to mean anything", crowds, back)
	}
	for range 40 {
		now += 10 * time.Minute
		exchange("last")
	}
	if n := sumsByClass(t, c); n > 0 {
		t.Errorf("the demands by class of %d holders are left", n)
	}
	for field := range c.HGetAll(t.Context(), "ration:k").Val() {
		if strings.HasPrefix(field, "&l") && field != "&l" {
			t.Errorf("%s is left", field)
		}
	}
	if limit.Kind == lease.KindQuota {
		c.HSet(t.Context(), "ration:k", "&l", "short")
		q := request("x", 1)
		q.Limit, q.ByClass = limit, &lease.ByClass{Classes: []lease.Class{{Name: "a"}}}
		call := &lease.Call{Key: "k", Request: q}
		if store.Exchange(t.Context(), []*lease.Call{call}); !errors.Is(call.Err, lease.ErrRefused) {
			t.Errorf("a state that was spoilt: %v", call.Err)
		}
	}
}

// sumsByClass compares the sums of demands by class with those of the holders, and returns how many
// have any.
func sumsByClass(t *testing.T, c *redis.Client) (holders int) {
	t.Helper()
	var sums, counted [lease.MaxClasses]float64
	for field, text := range c.HGetAll(t.Context(), "ration:k").Val() {
		add := func(to *[lease.MaxClasses]float64) {
			i := 0
			lua.Classes.Read(text, func(_ string, x float64) {
				to[i] += x
				i++
			})
		}
		switch {
		case field == "&c":
			add(&sums)
		case strings.HasPrefix(field, "&&"):
			add(&counted)
			holders++
		}
	}
	if sums != counted {
		t.Errorf("%.6f by class of all, %.6f of %d holders", sums, counted, holders)
	}
	return holders
}

// TestQuotaClassTwins is TestClassTwins with quotas.
func TestQuotaClassTwins(t *testing.T) {
	tw := newTwins(t)
	tw.classed, tw.limits = true, (*history).quota
	known, kept := 0, 0
	tw.check = func(v lease.View) error {
		if v.Lent != nil {
			known++
		}
		for _, h := range v.Holders {
			if h.Adds != nil {
				kept++
			}
		}
		return nil
	}
	exchanges := tw.tellAll(t, longform.Of[uint64](80, 180))
	t.Logf("%d exchanges, %d knew what classes had, %d leases for classes", exchanges, known, kept)
	if known < exchanges/8 || kept < longform.Of(100, 300) {
		t.Error("too few to mean anything")
	}
}

// FuzzQuotaClassTwins is FuzzTwins with classes and quotas.
func FuzzQuotaClassTwins(f *testing.F) {
	tw := newTwins(f)
	tw.classed, tw.limits = true, (*history).quota
	fuzzTwins(f, tw)
}
