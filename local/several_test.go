package local

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestSeveralLocksInOrder: requests for many keys, named in any order, of which each takes
// all locks, do not wait for each other for ever.
func TestSeveralLocksInOrder(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	var all []*Entry
	for i := range 8 {
		key := string(rune('a' + i))
		limit := lease.Limit{Rate: 1000, Burst: 1000}
		all = append(all, NewEntry(0, key, lease.NewHolder("h"+key, limit, &lease.Policy{}, 1), limit, time.Second))
	}
	var done sync.WaitGroup
	for g := range 8 {
		done.Go(func() {
			random := rand.New(rand.NewPCG(uint64(g), 1))
			for range 2000 {
				var parts []*Part
				for _, i := range random.Perm(len(all))[:3] {
					parts = append(parts, &Part{Entry: all[i], N: 1})
				}
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
