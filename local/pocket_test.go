package local_test

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

var million = lease.Limit{Rate: 1e6, Burst: 1e6}

// hot returns an entry that has a lease from 0 on and so many requests that it
// has pockets.
func hot(t *testing.T, r lease.Reply) *local.Entry { return hotKey(t, "k", r) }

func hotKey(t *testing.T, key string, r lease.Reply) *local.Entry {
	t.Helper()
	e := newTable(64).Open(0, key, million)
	begin(t, e, r)
	for i := 0; e.Pocket() == nil; i++ {
		if allow(e, 0, &r); i > 1000 {
			t.Fatal("no pocket after 1000 requests at once")
		}
	}
	return e
}

// begin gives the entry its first lease.
func begin(t *testing.T, e *local.Entry, r lease.Reply) {
	e.Take(0, 1, 0, false)
	q, _, _ := e.Request(0)
	r.Seq, r.Taken, r.Limit = q.Seq, 1, million
	if !e.Answer(0, q, r, nil) {
		t.Fatal("the answer was not taken")
	}
	e.Request(0)
}

// tenThousand is a lease of a batch.
var tenThousand = lease.Reply{
	Add: 10_000, Shape: lease.Batch, Burst: 10_000, Keep: 10_000, Refresh: time.Second,
	RateUntil: time.Second, Expires: 2 * time.Second,
}

// allow asks as hybrid does. Requests to the ledger are answered with the same
// lease again, if there is one.
func allow(e *local.Entry, now time.Duration, again *lease.Reply) bool {
	p := e.Pocket()
	if p != nil {
		if admitted, ok := p.Take(now); ok {
			return admitted
		}
	}
	r := e.Allow(now, false, p)
	if r.Waiter != nil {
		e.Withdraw(now, r.Waiter)
	}
	if r.Due == local.ReadyDue && again != nil {
		if q, ok, _ := e.Request(now); ok {
			renewed := *again
			renewed.Seq, renewed.Add, renewed.Limit = q.Seq, q.Give, million
			e.Answer(now, q, renewed, nil)
			e.Request(now)
		}
	}
	return r.Verdict == lease.Admitted && !r.Gone
}

// TestPockets: many goroutines spend a lease to the last token and no further,
// while others look at it; and nothing after its end.
func TestPockets(t *testing.T) {
	const goroutines, each = 8, 10_000
	e := hot(t, tenThousand)
	before := e.Lease(0).Tokens
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for i := range time.Duration(each) {
				if allow(e, i*time.Microsecond, &tenThousand) {
					admitted.Add(1)
				}
				if i%1000 == 0 {
					e.State(i*time.Microsecond, 1, "")
				}
			}
		})
	}
	wg.Wait()
	if got := float64(admitted.Load()); got != before {
		t.Errorf("%v admitted of a lease of %v, asked for %d times", got, before, goroutines*each)
	}

	e = hot(t, tenThousand)
	end := tenThousand.Expires
	for now := end - 5*ms; now < end+5*ms; now += 10 * time.Microsecond {
		if ok := allow(e, now, nil); ok != (now < end-end/512) {
			t.Fatalf("%v before the end of the lease: admitted %v", end-now, ok)
		}
	}
}

// TestPocketsKeepRate: a share that refills admits its rate, and not a token
// more, whoever asks in which pocket.
func TestPocketsKeepRate(t *testing.T) {
	share := lease.Reply{
		Shape: lease.Slice, Rate: 1e6, Burst: 1000, Keep: 1000, Holders: 1, Contended: true,
		Refresh: time.Second, RateUntil: time.Second, Expires: 2 * time.Second,
		RetryAfter: time.Second,
	}
	e := hot(t, share)
	var clock, admitted atomic.Int64
	const d = 100 * ms
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				now := time.Duration(clock.Add(100)) // ten requests for each token
				if now > d {
					return
				}
				if allow(e, now, &share) {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got, want := float64(admitted.Load()), share.Rate*d.Seconds(); got > want ||
		got < 0.98*want {
		t.Errorf("%v admitted, %v refilled", got, want)
	}
}

// TestPocketsAreReserved: what is in a pocket is not spent elsewhere as well.
func TestPocketsAreReserved(t *testing.T) {
	e := hot(t, tenThousand)
	p := e.Pocket()
	left := e.Lease(0).Tokens
	e.Allow(0, false, p)
	if admitted, _ := p.Take(0); !admitted {
		t.Fatal("an open pocket does not admit")
	}
	left -= 2
	if r := e.Take(0, left, 0, false); r.Verdict != lease.Admitted {
		t.Fatalf("%v for the %v tokens that are left", r.Verdict, left)
	}
	if admitted, _ := p.Take(0); admitted || e.Lease(0).Tokens != 0 {
		t.Errorf("admits %v after the last token, %v held", admitted, e.Lease(0).Tokens)
	}
}

// TestPocketsDenyTogether: denials in one pocket leave the others open.
func TestPocketsDenyTogether(t *testing.T) {
	e := hot(t, lease.Reply{RetryAfter: time.Hour})
	different := make(map[*local.Pocket]bool)
	var held []chan bool // a stack in use is no other goroutine's
	for i := 0; len(different) < 4; i++ {
		found, end := make(chan *local.Pocket), make(chan bool)
		go func() { found <- e.Pocket(); <-end }()
		different[<-found] = true
		if held = append(held, end); i > 10_000 {
			t.Fatalf("%d pockets for %d goroutines", len(different), i)
		}
	}
	for _, end := range held {
		close(end)
	}
	locked := 0
	for now := time.Duration(1); now < ms/2; now += 100 {
		for p := range different {
			if _, ok := p.Take(now); !ok {
				e.Allow(now, false, p)
				locked++
			}
		}
	}
	if locked > 2*len(different) {
		t.Errorf("%d denials of %d pockets took the lock", locked, len(different))
	}
}

// TestPocketsAreFew: a flood of keys, each of them hot for a moment, does not
// get pockets for all, and none is kept by a key that is no longer used.
func TestPocketsAreFew(t *testing.T) {
	const keys, most = 3000, 1024
	table := newTable(keys)
	var entries []*local.Entry
	for i := range keys {
		e := table.Open(0, fmt.Sprint(i), million)
		begin(t, e, tenThousand)
		for range 200 {
			allow(e, 0, &tenThousand)
		}
		entries = append(entries, e)
	}
	hot := func() (n int) {
		for _, e := range entries {
			if e.Pocket() != nil {
				n++
			}
		}
		return n
	}
	if n := hot(); n != most {
		t.Errorf("%d of %d keys have pockets", n, keys)
	}

	e := entries[0]
	late := e.Pocket() // of a request that is stopped here for long
	const now = 1100 * ms
	table.Sweep(now, 1)
	if n := hot(); n != 0 {
		t.Errorf("%d idle keys have pockets", n)
	}
	_, before := table.Count(now)
	admitted := uint64(0)
	for range 100 {
		if _, ok := late.Take(now); ok {
			t.Fatal("a pocket decides that its entry has let go of")
		}
		if e.Allow(now, false, late).Verdict == lease.Admitted {
			admitted++
		}
	}
	if _, count := table.Count(now); admitted == 0 ||
		count.Lease.Admitted-before.Lease.Admitted != admitted {
		t.Errorf("%d counted, %d admitted", count.Lease.Admitted-before.Lease.Admitted, admitted)
	}
	for range 200 {
		allow(e, now, &tenThousand)
	}
	if e.Pocket() == nil {
		t.Error("a key that is hot again has no pockets")
	}
}

// TestPocketsAreCounted: what they decide is in the counts and in the demand.
func TestPocketsAreCounted(t *testing.T) {
	table := newTable(64)
	e := table.Open(0, "k", million)
	begin(t, e, tenThousand)
	now, admitted := time.Duration(0), uint64(0)
	for ; now < 100*ms; now += 5 * time.Microsecond {
		if allow(e, now, nil) {
			admitted++
		}
	}
	if _, count := table.Count(now); count.Lease.Admitted != admitted || admitted < 9000 ||
		count.Lease.Denied+count.Ledger.Denied > 20_000 {
		t.Errorf("%+v counted, %d admitted", count, admitted)
	}
	if q, ok, _ := e.Request(now); !ok || q.Demand < 180_000 || q.Demand > 220_000 {
		t.Errorf("demand %v reported of 200,000/s", q.Demand)
	}
}

// TestUntake: a token that was taken for a request that another key denies comes back while its
// pocket is open. Afterwards it is spent.
func TestUntake(t *testing.T) {
	d := local.Sharing(local.NewShares(), 100, 2)
	for name, meanwhile := range map[string]func(e *local.Entry) (spent float64){
		"open":   func(*local.Entry) float64 { return 0 },
		"closed": func(e *local.Entry) float64 { e.State(0, 1, ""); return 1 }, // it has gone with the pocket
		"again":  func(e *local.Entry) float64 { e.State(0, 1, ""); allow(e, 0, nil); return 2 },
		"used up": func(e *local.Entry) (spent float64) {
			for ; ; spent++ {
				if admitted, _ := local.TakeAll(0, []local.Draw{local.DrawOf(e)}); !admitted {
					return spent
				}
			}
		},
	} {
		e := hot(t, tenThousand)
		before, count := e.Lease(0).Tokens, e.Counted(0)
		spent, draws := 0.0, []local.Draw{local.DrawOf(e)}
		for ok := false; !ok; _, ok = local.TakeAll(0, draws) {
			if spent++; spent > 100 {
				t.Fatal("no pocket opens")
			}
			p := &local.Part{Entry: e, N: 1}
			s := local.NewSeveral([]*local.Part{p})
			p.Bare(&draws[0])
			s.Take(0, d, false)
		}
		spent += meanwhile(e)
		draws[0].Untake()
		if after := e.Lease(0).Tokens; before-after != spent {
			t.Errorf("%s: %v tokens are missing, %v were spent", name, before-after, spent)
		}
		if n := e.Counted(0).Lease.AdmittedTokens - count.Lease.AdmittedTokens; float64(n) != spent {
			t.Errorf("%s: %d tokens are counted, %v were spent", name, n, spent)
		}
	}
}

// TestTakeAllInPockets: each admitted request for two keys has taken a token of both, however many
// ask for either. A denied one may have cost a token of a pocket that was closed meanwhile.
func TestTakeAllInPockets(t *testing.T) {
	d := local.Sharing(local.NewShares(), 100, 2)
	scarce, plenty := hot(t, tenThousand), hotKey(t, "plenty", tenThousand)
	before := plenty.Lease(0).Tokens
	left := scarce.Lease(0).Tokens
	var pairs, singles atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 5000 {
				draws := [2]local.Draw{local.DrawOf(plenty), local.DrawOf(scarce)}
				admitted, ok := local.TakeAll(0, draws[:])
				if !ok {
					parts := []*local.Part{{Entry: plenty, N: 1}, {Entry: scarce, N: 1}}
					s := local.NewSeveral(slices.Clone(parts))
					parts[0].Bare(&draws[0])
					parts[1].Bare(&draws[1])
					admitted = s.Take(0, d, false) == local.Decided && s.Allowed()
					s.End(0)
				}
				if admitted {
					pairs.Add(1)
				}
			}
		})
		wg.Go(func() {
			for range 5000 {
				if allow(scarce, 0, nil) {
					singles.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if got := before - plenty.Lease(0).Tokens; got < float64(pairs.Load()) {
		t.Errorf("%v tokens of one key were taken for %d pairs", got, pairs.Load())
	}
	if got := left - scarce.Lease(0).Tokens; got != float64(pairs.Load()+singles.Load()) {
		t.Errorf("%v tokens of the other for %d pairs and %d", got, pairs.Load(), singles.Load())
	}
}

// TestTakeAllGivesBack: a key that is named twice has one token where two are wanted. What was
// taken of it, and of another one, comes back.
func TestTakeAllGivesBack(t *testing.T) {
	d := local.Sharing(local.NewShares(), 100, 2)
	plenty := hotKey(t, "plenty", tenThousand)
	draws := []local.Draw{local.DrawOf(plenty), local.DrawOf(hot(t, tenThousand))}
	before, pairs := plenty.Lease(0).Tokens, 0.0
	for ok := false; !ok; _, ok = local.TakeAll(0, draws) {
		if pairs++; pairs > 100 {
			t.Fatal("no pocket opens")
		}
		parts := []*local.Part{{Entry: draws[0].Entry, N: 1}, {Entry: draws[1].Entry, N: 1}}
		s := local.NewSeveral(slices.Clone(parts))
		parts[0].Bare(&draws[0])
		parts[1].Bare(&draws[1])
		s.Take(0, d, false)
	}
	pairs++ // the one that was decided in pockets
	for draws[1].Left() > 1 {
		local.TakeAll(0, []local.Draw{local.DrawOf(draws[1].Entry)})
	}
	if admitted, ok := local.TakeAll(0, append(draws, draws[1])); admitted || ok {
		t.Fatalf("admitted %v, decided %v with one token", admitted, ok)
	}
	if got := before - plenty.Lease(0).Tokens; got != pairs {
		t.Errorf("%v tokens of the first key were taken for %v requests", got, pairs)
	}
}
