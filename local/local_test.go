package local_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

var limit = lease.Limit{Rate: 100, Burst: 100}

const ms = time.Millisecond

func newTable(maxKeys int) *local.Table {
	return local.NewTable(local.Config{
		Holder: "p", Timeout: 100 * ms, MaxKeys: maxKeys, Idle: 10 * time.Second,
		Shares: local.NewShares(),
	})
}

// TestSchedule: entries come out in the order of their times, each once, at
// the earliest time that was set.
func TestSchedule(t *testing.T) {
	const seed = 1
	rng := rand.New(rand.NewPCG(seed, 0))
	s, table := local.NewSchedule(), newTable(10_000)
	want := map[*local.Entry]time.Duration{}
	for range 3000 {
		e := table.Open(0, fmt.Sprint(rng.IntN(1000)), limit)
		at := time.Duration(rng.Int64N(int64(time.Second)))
		if old, ok := want[e]; !ok || at < old {
			want[e] = at
		}
		s.Set(e, at)
	}
	last := time.Duration(0)
	for now := time.Duration(0); len(want) > 0; now += 10 * ms {
		if now > 2*time.Second {
			t.Fatalf("seed %d: %d entries never came out", seed, len(want))
		}
		due, next := s.Due(now, 5)
		for _, e := range due {
			if want[e] > now || want[e] < last {
				t.Fatalf("seed %d: %s is due at %v, came at %v after one of %v", seed, e.Key,
					want[e], now, last)
			}
			last = want[e]
			delete(want, e)
		}
		if len(due) == 5 {
			now -= 10 * ms // there may be more
		} else if next <= now {
			t.Fatalf("seed %d: next is %v at %v", seed, next, now)
		}
	}
	if _, next := s.Due(time.Hour, 1); next != math.MaxInt64 {
		t.Errorf("an empty schedule has something due at %v", next)
	}
}

func TestScheduleTellsEarlier(t *testing.T) {
	s, table := local.NewSchedule(), newTable(100)
	told := func() bool {
		select {
		case <-s.Earlier():
			return true
		default:
			return false
		}
	}
	for _, step := range []struct {
		key  string
		at   time.Duration
		tell bool
	}{
		{"a", 100 * ms, true}, {"b", 200 * ms, false}, {"b", 50 * ms, true}, {"a", 60 * ms, false},
		{"c", math.MaxInt64, false},
	} {
		s.Set(table.Open(0, step.key, limit), step.at)
		if got := told(); got != step.tell {
			t.Errorf("%s at %v: told %v", step.key, step.at, got)
		}
	}
}

// ask takes one token from a cold entry and returns the request that goes out.
func ask(t *testing.T, e *local.Entry, now time.Duration) (local.Result, lease.Request) {
	t.Helper()
	r := e.Take(now, 1, 0, false)
	if r.Verdict != lease.Pending || r.Waiter == nil || r.Due != local.ReadyDue {
		t.Fatalf("cold: %+v", r)
	}
	q, ok, wake := e.Request(now)
	if !ok || wake != now+100*ms {
		t.Fatalf("no request, wake at %v", wake)
	}
	return r, q
}

func done(w *local.Waiter) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

func TestTimeout(t *testing.T) {
	e := newTable(64).Open(0, "k", limit)
	r, q := ask(t, e, 0)
	if _, ok, _ := e.Request(99 * ms); ok || done(r.Waiter) {
		t.Error("gave up before the timeout")
	}
	if _, ok, _ := e.Request(100 * ms); ok || !done(r.Waiter) ||
		r.Waiter.Verdict() != lease.Unavailable {
		t.Errorf("after the timeout: %v", r.Waiter.Verdict())
	}
	if e.Answer(101*ms, q, lease.Reply{Seq: q.Seq, Taken: 1}, nil) {
		t.Error("the late answer was taken")
	}
}

// TestAnotherLimitIsDue: a request that finds that the limit may have changed has it looked up,
// and nothing else. Only another limit than before goes to the ledger: a holder that is looked
// at once more counts its demand anew, and leases something else.
func TestAnotherLimitIsDue(t *testing.T) {
	table := local.NewTable(local.Config{
		Holder: "h", Timeout: 100 * ms, MaxKeys: 64, Recheck: 10 * ms, Shares: local.NewShares(),
	})
	e := table.Open(0, "k", limit)
	_, q := ask(t, e, 0)
	e.Answer(0, q, lease.Reply{
		Seq: q.Seq, Taken: 1, Add: 5, Burst: 5, Keep: 5, Shape: lease.LongBatch, Refresh: time.Hour,
		Expires: time.Hour, Limit: limit,
	}, nil)
	e.Declare(0, limit, 10*ms)
	if r := e.Take(9*ms, 1, 0, false); r.Due != local.NothingDue {
		t.Errorf("before: %+v", r)
	}
	if r := e.Take(10*ms, 1, 0, false); r.Verdict != lease.Admitted || r.Due != local.LimitDue {
		t.Errorf("when it may have changed: %+v", r)
	}
	if !e.Recheck(10*ms) || e.Recheck(11*ms) {
		t.Error("the limit is not looked up once")
	}
	if e.Declare(11*ms, limit, time.Hour) {
		t.Error("the same limit is another one")
	}
	lower := limit
	lower.Rate /= 2
	if !e.Declare(12*ms, lower, time.Hour) {
		t.Error("another limit is the same")
	}
	if _, ok, _ := e.Request(12 * ms); !ok {
		t.Error("another limit is not due to go to the ledger")
	}
}

// TestIdsDiffer: a key that comes back after its eviction is another holder,
// or its requests would be taken for repeats.
func TestIdsDiffer(t *testing.T) {
	table := newTable(64)
	_, first := ask(t, table.Open(0, "k", limit), 0)
	e := table.Find("k")
	e.Answer(ms, first, lease.Reply{Seq: 1, Taken: 1}, nil)
	table.Sweep(time.Minute, 1)
	if table.Find("k") != nil || !e.Take(time.Minute, 1, 0, false).Gone {
		t.Fatal("the idle key was not evicted")
	}
	_, second := ask(t, table.Open(time.Minute, "k", limit), time.Minute)
	if first.Holder == second.Holder || second.Seq != 1 {
		t.Errorf("holders %s and %s", first.Holder, second.Holder)
	}
	if keys, _ := table.Count(time.Minute); keys != 1 {
		t.Errorf("%d keys", keys)
	}
}

// TestFullTable: keys in use stay; the others ask for each request, all requests of a key
// as one holder, with one exchange at a time.
func TestFullTable(t *testing.T) {
	table := newTable(64)
	var inUse []*local.Entry
	for i := range 64 {
		e := table.Open(0, fmt.Sprint(i), limit)
		ask(t, e, 0)
		inUse = append(inUse, e)
	}
	now, last := time.Hour, lease.Request{}
	for range 10 {
		e := table.Open(now, "one more", limit)
		if beside := table.Open(now, "one more", limit); beside != e {
			t.Error("two requests of a key do not share an entry")
		}
		r, q := ask(t, e, now)
		if last.Seq != 0 && q.Holder != last.Holder || q.Seq <= last.Seq ||
			q.Policy.Mode != lease.PerRequest || table.Find("one more") != nil {
			t.Errorf("%+v after %+v", q, last)
		}
		if last.Seq != 0 && e.Answer(now, last, lease.Reply{Seq: last.Seq, Taken: 1}, nil) {
			t.Error("the answer to an earlier request was taken")
		}
		if !e.Answer(now, q, lease.Reply{Seq: q.Seq, Taken: 1, Limit: limit}, nil) ||
			r.Waiter.Verdict() == lease.Pending {
			e.Ready(now)
		}
		if r.Waiter.Verdict() != lease.Admitted {
			t.Errorf("%v", r.Waiter.Verdict())
		}
		table.Absorb(now, e)
		table.Absorb(now, e)
		last, now = q, now+time.Second
	}
	for _, e := range inUse {
		if table.Find(e.Key) != e {
			t.Errorf("%s is in use and was evicted", e.Key)
		}
	}
}

// TestFloodLeavesCalmKeys: the tokens of a calm key that is in use are not
// thrown away for keys that nobody has seen.
func TestFloodLeavesCalmKeys(t *testing.T) {
	table := newTable(8)
	for i := range 8 {
		_, q := ask(t, table.Open(0, fmt.Sprint(i), limit), 0)
		table.Find(fmt.Sprint(i)).Answer(ms, q, lease.Reply{
			Seq: 1, Taken: 1, Add: 5, Burst: 5, Keep: 5, Shape: lease.LongBatch,
			Refresh: time.Minute, Expires: time.Minute, Limit: limit,
		}, nil)
	}
	for i := range 100 {
		table.Open(5*time.Second, fmt.Sprint("flood ", i), limit)
	}
	if keys, _ := table.Count(5 * time.Second); keys != 8 || table.Find("7") == nil {
		t.Errorf("%d keys, 7 is %v", keys, table.Find("7"))
	}
	table.Open(15*time.Second, "later", limit)
	if table.Find("later") == nil {
		t.Error("idle keys keep their tokens")
	}
}

// TestParking: who made up keys has no more of them parked than fit the table,
// twice, and after two terms none.
func TestParking(t *testing.T) {
	table := newTable(8)
	open := func(now time.Duration, key string) *local.Entry {
		e := table.Open(now, key, limit)
		_, q := ask(t, e, now)
		e.Answer(now, q, lease.Reply{
			Seq: 1, Taken: 1, Add: 5, Burst: 5, Keep: 5, Shape: lease.LongBatch, Refresh: time.Hour,
			Expires: time.Hour, Limit: limit,
		}, nil)
		return e
	}
	now := time.Duration(0)
	for round := range 3 { // within a term
		for i := range 8 {
			open(now, fmt.Sprint(round, i))
		}
		now += 4 * time.Second
		for table.Sweep(now+10*time.Second, 1); ; {
			break
		}
		if keys, _ := table.Count(now); keys != 0 {
			t.Fatalf("%d keys are not parked", keys)
		}
	}
	held := func(key string) float64 {
		return table.Open(now, key, limit).Lease(now).Tokens
	}
	if a, b := held("0 0"), held("2 0"); a != 5 || b != 0 {
		t.Errorf("tokens of the first keys %v, of those for which there was no room %v", a, b)
	}
	if now += 40 * time.Second; held("0 1") != 0 {
		t.Error("still parked after two terms")
	}
}

// TestParkedUnderAnotherLimit: a parked key that comes back with a lower limit goes by that, and
// has what it held.
func TestParkedUnderAnotherLimit(t *testing.T) {
	table := newTable(8)
	_, q := ask(t, table.Open(0, "k", limit), 0)
	table.Find("k").Answer(0, q, lease.Reply{
		Seq: 1, Taken: 1, Add: 5, Burst: 5, Keep: 5, Shape: lease.LongBatch, Refresh: time.Hour,
		Expires: time.Hour, Limit: limit,
	}, nil)
	now := 14 * time.Second
	table.Sweep(now, 1)
	e := table.Open(now, "k", lease.Limit{Rate: 50, Burst: 50})
	if held, v := e.Lease(now).Tokens, e.Take(now, 60, 0, false).Verdict; held != 5 || v != lease.Exceeding {
		t.Errorf("%v tokens are held, 60 of a burst of 50 are %v", held, v)
	}
}

func TestClose(t *testing.T) {
	table := newTable(64)
	e := table.Open(0, "k", limit)
	r, q := ask(t, e, 0)
	all := table.Close()
	gone := 0
	for _, e := range all {
		e.Close(ms, func() { gone++ })
	}
	if !done(r.Waiter) || r.Waiter.Verdict() != lease.Unavailable ||
		table.Open(ms, "new", limit) != nil || !e.Take(ms, 1, 0, false).Gone {
		t.Error("not closed")
	}
	if e.Request(ms); gone != 0 {
		t.Error("gone before the answer")
	}
	e.Answer(2*ms, q, lease.Reply{
		Seq: 1, Add: 10, Shape: lease.Batch, Burst: 10, Keep: 10, Refresh: time.Second,
		RateUntil: time.Second, Expires: time.Second,
	}, nil)
	quit, ok, _ := e.Request(2 * ms)
	if !ok || quit.Give != 10 || gone != 0 {
		t.Errorf("quits with %+v", quit)
	}
	e.Answer(3*ms, quit, lease.Reply{Seq: 2}, nil)
	if e.Request(3 * ms); gone != 1 || !e.Take(3*ms, 1, 0, false).Gone {
		t.Errorf("gone %d times", gone)
	}
}

// TestRace: everything at once; the race detector is the judge.
func TestRace(t *testing.T) {
	table, s := newTable(128), local.NewSchedule()
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 2000 {
				now := time.Duration(i) * ms
				e := table.Open(now, fmt.Sprint((g+i)%200), limit)
				r := e.Take(now, 1, 0, false)
				if q, ok, wake := e.Request(now); ok {
					e.Answer(now, q, lease.Reply{Seq: q.Seq, Taken: 1}, nil)
					s.Set(e, wake)
				}
				if r.Waiter != nil {
					e.Withdraw(now, r.Waiter)
				}
				s.Due(now, 3)
				table.Sweep(now, 1+i%3)
				e.State(now, 1, "")
			}
		})
	}
	wg.Wait()
	table.Count(time.Hour)
}
