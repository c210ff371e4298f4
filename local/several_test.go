package local

import (
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSeveralLocksInOrder: requests for many keys, named in any order, of which each takes
// all locks, do not wait for each other for ever, whether a Several takes them or a TakeAll.
func TestSeveralLocksInOrder(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	var all []*Entry
	for i := range 8 {
		key := string(rune('a' + i))
		limit := lease.Limit{Rate: 1000, Burst: 1000}
		all = append(all, NewEntry(0, key, lease.NewHolder("h"+key, limit, &lease.Policy{}, 1), limit, NewCommon(time.Second, 0)))
	}
	var done sync.WaitGroup
	for g := range 8 {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				var parts []*Part
				var draws []Draw
				for _, i := range random.Perm(len(all))[:3] {
					parts = append(parts, &Part{Entry: all[i], N: 1})
					draws = append(draws, DrawOf(all[i]))
				}
				TakeAll(0, draws)
				s := NewSeveral(parts)
				s.Take(0, d, false)
				s.End(0)
			}
		})
	}
	done.Wait()
}

// TestSeveralInAnOutage: the store goes away before the ledger of a key with a lease has answered.
// Then the policy decides a request for several keys as it decides a request for this key.
func TestSeveralInAnOutage(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	d := sharing(NewShares(), 100, 2)
	e := d.table.Open(0, "k", limit)
	e.probe(0)
	q, ok, _ := e.Request(0)
	reply := lease.Reply{
		Seq: q.Seq, Holders: 2, Limit: limit, Shape: lease.Slice, Rate: 10, Burst: 5,
		Refresh: 10 * time.Second, RateUntil: 10 * time.Second, Expires: 10 * time.Second,
	}
	if !ok || !e.Answer(0, q, reply, nil) {
		t.Fatal("no lease")
	}
	now := time.Second
	s := NewSeveral([]*Part{{Entry: e, N: 40}})
	if step := s.Take(now, d, false); step != Asking {
		t.Fatalf("step %v, want Asking", step)
	}
	d.cut(now, true)
	now += 2 * time.Second
	s.Parts[0].Withdraw(now)
	step := s.Take(now, d, false)
	if p := s.Parts[0]; step != Decided || !p.Outage || p.Verdict != lease.Admitted {
		t.Errorf("step %v, verdict %v, by the policy %v", step, p.Verdict, p.Outage)
	}
	if v := d.Decide(now, e, 40); v != lease.Denied {
		t.Errorf("verdict %v on as many again, want Denied", v)
	}
}

// withLease returns an entry that has ten tokens on lease from 0 on, and no pockets.
func withLease(t *testing.T, d *Dispatch, key string) *Entry {
	limit := lease.Limit{Rate: 100, Burst: 100}
	e := d.table.Open(0, key, limit)
	e.probe(0)
	q, ok, _ := e.Request(0)
	reply := lease.Reply{
		Seq: q.Seq, Limit: limit, Shape: lease.Batch, Add: 10, Burst: 10, Keep: 10,
		Refresh: 10 * time.Second, RateUntil: 10 * time.Second, Expires: 10 * time.Second,
	}
	if !ok || !e.Answer(0, q, reply, nil) {
		t.Fatal("no lease")
	}
	e.Request(0)
	return e
}

// TestTakeAllTakesNothing: of a request that a Several is to decide nothing is taken.
func TestTakeAllTakesNothing(t *testing.T) {
	const now = time.Second
	for name, spoil := range map[string]func(e, plenty *Entry) *Entry{
		"named twice":               func(_, plenty *Entry) *Entry { return plenty },
		"without a token":           func(e, _ *Entry) *Entry { e.Take(now, 10, 0, false); return e },
		"whose limit may change":    func(e, _ *Entry) *Entry { e.recheck = now; return e },
		"out of use":                func(e, _ *Entry) *Entry { e.life = closing; return e },
		"blocked":                   func(e, _ *Entry) *Entry { e.fixed = blocked; return e },
		"of slots":                  func(e, _ *Entry) *Entry { e.holder = *slots(); return e },
		"all of it in others' hand": func(e, _ *Entry) *Entry { giveAll(e, now); return e },
		"with tokens":               func(e, _ *Entry) *Entry { return e },
		"with no limit":             func(e, _ *Entry) *Entry { e.fixed = unlimited; return e },
	} {
		d := sharing(NewShares(), 100, 2)
		plenty := withLease(t, d, "plenty")
		draws := []Draw{{Entry: spoil(withLease(t, d, "k"), plenty)}, {Entry: plenty}}
		admitted, ok := TakeAll(now, draws)
		if has := strings.HasPrefix(name, "with "); admitted != has || ok != has {
			t.Errorf("a key %s: admitted %v, decided %v", name, admitted, ok)
		} else if left := plenty.holder.Held(); has != (left == 9) {
			t.Errorf("a key %s: %v tokens of the other one are left", name, left)
		}
	}
}

// slots returns a Holder that has slots.
func slots() *lease.Holder {
	limit := lease.Limit{Kind: lease.KindSlots, Burst: 10}
	h := lease.NewHolder("h", limit, &lease.Policy{}, 1)
	h.Probe(0, false)
	q, _ := h.Request(0)
	h.Handle(0, lease.Reply{
		Seq: q.Seq, Limit: limit, Shape: lease.Batch, Add: 10, Burst: 10, Keep: 10,
		Refresh: 10 * time.Second, RateUntil: 10 * time.Second, Expires: 10 * time.Second,
	})
	return h
}

// giveAll has pockets take all tokens of the lease, which have been used up there.
func giveAll(e *Entry, now time.Duration) {
	hot := &pockets{all: make([]Pocket, lanes), given: 10, ends: 2 * now}
	p := &hot.all[0]
	p.given = 10
	p.until.Store(int64(2 * now))
	e.open = 1
	e.pockets.Store(hot)
}
