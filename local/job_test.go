package local_test

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// workplace is an entry of a key with a slot, and a ledger that is always at hand.
type workplace struct {
	*local.Entry
	ledger lease.Ledger
}

func newWorkplace(limit lease.Limit) *workplace {
	h := lease.NewHolder("a", limit, &lease.Policy{}, 1)
	return &workplace{Entry: local.NewEntry(0, "k", h, limit, local.NewCommon(250*ms, 0))}
}

var aSlot = lease.Limit{Kind: lease.KindSlots, Burst: 1}

// exchange makes the request that is due, and answers it.
func (w *workplace) exchange(now time.Duration) {
	w.Ready(now)
	if q, ok, _ := w.Request(now); ok {
		w.Answer(now, q, w.ledger.Exchange(time.Hour+now, q), nil)
	}
}

// ends counts how often jobs end, and how, and how often after the next one has begun.
type ends struct {
	finished, lost, late int
	next                 *local.Waiter
}

func (e *ends) job() *local.Job {
	return &local.Job{N: 1, End: func(finished bool) {
		if finished {
			e.finished++
		} else {
			e.lost++
		}
		if e.next != nil && done(e.next) {
			e.late++
		}
	}}
}

// TestFinish: a job ends once, before the next one begins: with Finish, or with its lease, though
// Finish is the first to look at the time after that.
func TestFinish(t *testing.T) {
	w, e := newWorkplace(aSlot), ends{}
	first, second := e.job(), e.job()
	r := w.Acquire(0, first, time.Hour, false)
	w.exchange(0)
	if !done(r.Waiter) || r.Waiter.Verdict() != lease.Admitted || first.Fence == 0 {
		t.Fatal("no slot")
	}
	r = w.Acquire(ms, second, time.Hour, false)
	w.exchange(ms)
	e.next = r.Waiter
	if !w.Finish(2*ms, first) || !done(e.next) || e.finished != 1 || e.late != 0 {
		t.Errorf("%+v, or the next job has not begun", e)
	}
	if w.Finish(3*ms, first) || e.finished != 1 || e.lost != 0 {
		t.Errorf("finished again: %+v", e)
	}
	if w.Finish(time.Minute, second) || e.finished != 1 || e.lost != 1 {
		t.Errorf("had its slots after the end of their lease: %+v", e)
	}
}

// free reports whether a job that the ledger has not answered may begin all the same.
func free(e *local.Entry, j *local.Job) bool {
	d := local.NewDispatch(0, local.DispatchConfig{
		Fleet: local.NewFleet(0, local.NewName("a")), Timeout: 250 * ms, Outage: local.Allow, Shares: local.NewShares(),
		Random: func(int64) int64 { return 0 },
	})
	_, free := d.Turned(0, e, j, lease.Unavailable)
	return free
}

// TestFree: what no lease covers is for a key that has as many slots.
func TestFree(t *testing.T) {
	e := ends{}
	for _, c := range []struct {
		limit lease.Limit
		ok    bool
	}{
		{aSlot, true}, {limit, false}, {local.Blocked, false},
		{lease.Limit{Kind: lease.KindSlots, Burst: 2}, true},
	} {
		w := newWorkplace(aSlot)
		w.Declare(0, c.limit, time.Hour)
		if ok := free(w.Entry, e.job()); ok != c.ok {
			t.Errorf("%v: %v", c.limit, ok)
		}
	}
	w, two := newWorkplace(aSlot), e.job()
	if two.N = 2; free(w.Entry, two) {
		t.Error("two slots of one")
	}
}

// TestTurned: a job asks anew after a while, and at once where its entry is out of use. One that
// would not wait is denied what the ledger has just denied.
func TestTurned(t *testing.T) {
	w, e := newWorkplace(aSlot), ends{}
	d := local.NewDispatch(0, local.DispatchConfig{
		Fleet: local.NewFleet(0, local.NewName("a")), Timeout: 250 * ms, Outage: local.Share, Shares: local.NewShares(),
		Random: func(int64) int64 { return 0 },
	})
	pause := func(v lease.Verdict) time.Duration {
		pause, free := d.Turned(0, w.Entry, e.job(), v)
		if free {
			t.Errorf("%v: a job that no lease covers", v)
		}
		return pause
	}
	near, away := pause(lease.Denied), pause(lease.Unavailable)
	if near != ms || away != local.ProbeInterval {
		t.Errorf("pauses %v, %v", near, away)
	}
	w.Acquire(0, e.job(), time.Hour, false)
	w.exchange(0)
	second := w.Acquire(ms, e.job(), 0, false)
	w.exchange(ms)
	if !done(second.Waiter) || second.Waiter.Verdict() != lease.Denied {
		t.Error("not denied by the ledger")
	}
	if r := w.Acquire(2*ms, e.job(), 0, false); r.Verdict != lease.Denied || r.Waiter != nil {
		t.Errorf("%v after a denial", r.Verdict)
	}
	w.Close(3*ms, func() {})
	w.exchange(3 * ms) // hands the slot back
	w.Ready(4 * ms)
	if now := pause(lease.Unavailable); now != 0 {
		t.Errorf("an entry that is gone is asked anew after %v", now)
	}
}

// TestJobsAreNotEvicted: an entry stays while a job goes on that no lease covers.
func TestJobsAreNotEvicted(t *testing.T) {
	e, table := ends{}, newTable(64)
	for key, limit := range map[string]lease.Limit{"slots": aSlot, "free": local.Unlimited} {
		j := e.job()
		entry := table.Open(0, key, limit)
		if limit == aSlot {
			free(entry, j)
		} else {
			entry.Acquire(0, j, 0, false)
		}
		for now := range 100 {
			table.Sweep(time.Duration(now)*time.Minute, 10)
		}
		if entry.Gone() || !entry.Finish(2*time.Hour, j) {
			t.Errorf("%s: evicted while a job goes on", key)
		}
		for now := range 100 {
			table.Sweep(3*time.Hour+time.Duration(now)*time.Minute, 10)
		}
		if !entry.Gone() {
			t.Errorf("%s: never evicted", key)
		}
	}
}
