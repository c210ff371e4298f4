package lease_test

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestAdoption: a claim of a lease that the ledger does not know shows that its
// state was lost. The bucket starts empty, and is debited what the lease holds
// and what it has refilled beside the new state.
func TestAdoption(t *testing.T) {
	var l lease.Ledger
	claim := func(q *lease.Request) {
		q.Demand, q.Held, q.Seq, q.Seen, q.Got = 400, 30, 7, 6, 60
		q.Claim = lease.Claim{Rate: 400, Burst: 100, Left: time.Second}
	}
	l.Exchange(0, ask("a", 7, claim))
	if p := l.View().Pool; p != -30 {
		t.Errorf("the pool starts with %v, want what is held as a debt of 30", p)
	}
	// 100 ms later 60 tokens/s were not lent: 560 at most flowed, 400/s ran elsewhere.
	before := l.View()
	l.Exchange(100*ms, ask("b", 7, claim))
	flowed := (before.Limit.Rate - before.Rates) * 0.1
	if got, want := l.View().Pool, -30+flowed-30-400*0.1; math.Abs(got-want) > 1e-9 {
		t.Errorf("the pool holds %v after the second claim, want %v", got, want)
	}
	// A second life of the same key, without a claim: nobody can know.
	var fresh lease.Ledger
	fresh.Exchange(0, ask("a", 1, nil))
	if p := fresh.View().Pool; p != 1000 {
		t.Errorf("a bucket that nobody claims starts with %v", p)
	}
}

// TestLateMessageOfAYoungKey: a message is late until the lease that it claims has ended, and looks
// like a claim of lost state. It costs what has come to the lease since the last answer, and not a
// rate since the key began.
func TestLateMessageOfAYoungKey(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(0, ask("a", 1, demanding(400)))
	l.Exchange(3*time.Second, ask("b", 1, nil))
	before := l.View().Pool
	l.Exchange(3*time.Second, ask("a", 2, func(q *lease.Request) {
		q.Seen, q.Demand, q.Held, q.Got, q.Peak = 1, 400, 20, 50, 50
		q.Claim = lease.Claim{Rate: r.Rate, Burst: r.Burst, Left: 100 * ms}
	}))
	if lost := before - l.View().Pool - l.View().Bursts; lost > 50 {
		t.Errorf("%v tokens are lost, at most 50 were lent", lost)
	}
}
