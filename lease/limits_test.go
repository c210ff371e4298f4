package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestBatchesComeBack: when a limit is lowered, what holders have in batches above it
// comes back with their next exchanges. No more is out than the limit, though all of
// them go on to ask.
func TestBatchesComeBack(t *testing.T) {
	var l lease.Ledger
	limit, now := lease.Limit{Rate: 1000, Burst: 5000}, time.Hour
	held := map[int]float64{}
	keep := map[int]float64{}
	round := func(seq uint64) {
		for i := range 48 {
			now += ms
			back := max(held[i]-keep[i], 0)
			r := l.Exchange(now, ask(fmt.Sprint("h", i), seq, func(q *lease.Request) {
				q.Limit, q.Policy.Mode, q.Demand = limit, lease.Batches, 100
				q.Give, q.Held = back, held[i]-back
			}))
			held[i] += r.Add - back
			keep[i] = r.Keep
		}
	}
	round(1)
	limit.Burst = 100
	for seq := range uint64(3) {
		round(seq + 2)
	}
	out := 0.0
	for _, h := range held {
		out += h
	}
	if v := l.View(); out > 100 || v.Pool+v.Bursts > 100 {
		t.Errorf("%v tokens are out, the ledger counts %v of %v", out, v.Bursts, v.Limit)
	}
}

// A deployment is processes that declare limits to one Ledger.
type deployment struct {
	t      *testing.T
	ledger lease.Ledger
	now    time.Duration
	seqs   map[string]uint64
}

func newDeployment(t *testing.T) *deployment {
	return &deployment{t: t, now: time.Hour, seqs: map[string]uint64{}}
}

// declares lets a process ask that declares a limit, and checks which is in force then.
func (d *deployment) declares(holder string, limit, want lease.Limit) lease.Reply {
	d.t.Helper()
	d.now += ms
	d.seqs[holder]++
	r := d.ledger.Exchange(d.now, ask(holder, d.seqs[holder], func(q *lease.Request) {
		q.Limit, q.Policy.MaxHold = limit, q.Policy.MaxRefresh
	}))
	if r.Stale || r.Limit != want {
		d.t.Errorf("%s declares %v: %v is in force, want %v", holder, limit, r.Limit, want)
	}
	if err := divided(d.ledger.View()); err != nil {
		d.t.Error(err)
	}
	return r
}

// TestRaised: a raised limit is in force as soon as all live holders declare it, and
// for a process that is alone with its next exchange.
func TestRaised(t *testing.T) {
	d := newDeployment(t)
	old, raised := lease.Limit{Rate: 100, Burst: 100}, lease.Limit{Rate: 100, Burst: 200}
	d.declares("a", old, old)
	d.declares("a", raised, raised)
	d.declares("b", old, old)
	for range 20 {
		d.declares("a", raised, old)
		d.declares("b", old, old)
	}
	d.declares("b", raised, raised)
	d.declares("a", raised, raised)
	d.declares("a", old, old)
	if got := d.ledger.View().Limits; len(got) != 2 || got[0].Limit != old || got[1].Holders != 1 {
		t.Errorf("declared are %v", got)
	}
}

// TestRaisedIsHeardOf: while several limits are declared, leases that could last longer do not: a
// raised limit is in force for a holder once it has heard that nobody declares the lower one.
func TestRaisedIsHeardOf(t *testing.T) {
	var l lease.Ledger
	now, limit := time.Hour, lease.Limit{Rate: 100, Burst: 1000}
	lasts := func(holder string, seq uint64) time.Duration {
		now += 100 * ms
		return l.Exchange(now, ask(holder, seq, func(q *lease.Request) {
			q.Limit, q.Demand, q.Policy.Batch = limit, 30, 500
		})).Refresh
	}
	for seq := range uint64(100) {
		lasts("a", seq+1)
		lasts("b", seq+1)
	}
	if got := lasts("a", 101); got < 500*ms {
		t.Fatalf("leases of one limit last for %v", got)
	}
	limit.Rate = 200
	if got := lasts("a", 102); got > 250*ms {
		t.Errorf("beside a lower limit, for %v", got)
	}
}

// TestLowestOfBoth: in force is the lowest Rate and the lowest Burst, of whomever.
func TestLowestOfBoth(t *testing.T) {
	d := newDeployment(t)
	slow, small := lease.Limit{Rate: 10, Burst: 1000}, lease.Limit{Rate: 11, Burst: 1}
	d.declares("a", slow, slow)
	d.declares("b", small, lease.Limit{Rate: 10, Burst: 1})
	d.declares("c", lease.Limit{Rate: 5, Burst: 2000}, lease.Limit{Rate: 5, Burst: 1})
	d.declares("b", slow, lease.Limit{Rate: 5, Burst: 1000})
	d.declares("c", slow, slow)
}

// TestLimitGoesWithItsRecord: the lower limit of a process that is not heard of any more
// is in force until its record ends, and no longer.
func TestLimitGoesWithItsRecord(t *testing.T) {
	d := newDeployment(t)
	low := lease.Limit{Rate: 10, Burst: 10}
	d.declares("a", thousand, thousand)
	believed := d.declares("canary", low, low).Expires
	ends := d.now + believed
	for d.now+100*ms < ends {
		d.now += 99 * ms
		d.declares("a", thousand, low)
	}
	d.now = ends + 63*ms // a slot of the calendar
	d.declares("a", thousand, thousand)
	if got := d.ledger.View().Limits; len(got) != 1 {
		t.Errorf("declared are %v", got)
	}
}

// TestManyLimits: of more than 255 limits the lowest stay in force; the others are
// forgotten on the safe side, and only until their holders have come back.
func TestManyLimits(t *testing.T) {
	d := newDeployment(t)
	low := lease.Limit{Rate: 100, Burst: 500}
	for i := range 300 {
		limit := lease.Limit{Rate: 1000 - float64(i%260), Burst: int64(500 + i%260)}
		d.declares(fmt.Sprint("h", i), limit, lease.Limit{Rate: 1000 - min(float64(i), 259), Burst: 500})
		d.now -= ms // all of them live
	}
	if n := len(d.ledger.View().Limits); n != 255 {
		t.Errorf("%d limits are known", n)
	}
	d.declares("low", low, low)
	d.now += ms
	d.declares("h1", lease.Limit{Rate: 99, Burst: 1}, lease.Limit{Rate: 99, Burst: 1})
	for i := range 600 { // those of the first round may join the lowest once more
		h := fmt.Sprint("h", i%300)
		d.seqs[h]++
		d.ledger.Exchange(d.now, ask(h, d.seqs[h], nil))
	}
	d.declares("low", thousand, thousand)
}

// TestRaisedAtOnce: a process that raises its limit goes by it before it has asked, and
// also where an answer to the limit before arrives later.
func TestRaisedAtOnce(t *testing.T) {
	low := lease.Limit{Rate: 100, Burst: 100}
	h := bench{lease.NewHolder("a", low, &lease.Policy{}, 1), 0}
	h.Take(h.now, 100)
	h.Enter(&lease.Waiter{N: 100})
	q, _ := h.Request(h.now)
	h.SetLimit(thousand)
	w := &lease.Waiter{N: 500}
	h.Take(h.now, 500)
	h.Enter(w)
	h.Handle(h.now, lease.Reply{Seq: q.Seq, Taken: 100, Limit: low, Holders: 1})
	if done := h.Ready(h.now).Resolved; len(done) != 1 || h.InForce() != thousand {
		t.Fatalf("%v is in force, %d resolved", h.InForce(), len(done))
	}
	q, ok := h.Request(h.now)
	if !ok || q.Min != 500 || q.Limit != thousand {
		t.Fatalf("asks for %v of %v, %v", q.Min, q.Limit, ok)
	}
	h.Handle(h.now, lease.Reply{Seq: q.Seq, Limit: lease.Limit{Rate: 1000, Burst: 100}, Holders: 2})
	if w.Verdict != lease.Exceeding || h.InForce() != (lease.Limit{Rate: 1000, Burst: 100}) {
		t.Errorf("%v, under %v of others", w.Verdict, h.InForce())
	}
}

// TestCanary measures what a process costs the others that declares half their limit, and
// asks now and then: ten at twice the limit. It prints a table (ADR 23).
func TestCanary(t *testing.T) {
	length := longform.Of(30*time.Second, 2*time.Minute)
	t.Log("| the canary asks | admitted, of the others' limit | lower limit in force |")
	t.Log("|---|---|---|")
	alone, _ := canary(0, length)
	for _, every := range []time.Duration{
		500 * ms, 3 * time.Second, 10 * time.Second, 0, time.Second, 30 * time.Second,
	}[:longform.Of(3, 6)] {
		admitted, lower := canary(every, length)
		t.Logf("| every %v | %.3f | %.3f |", every, admitted, lower)
		least := 1 - 1.1*min(0.9/max(every.Seconds(), 0.1), 1)/2 // for 0.9 s each time
		if every > 0 && admitted < alone*least {
			t.Errorf("every %v: %.3f of the limit are admitted, want %.3f", every, admitted, alone*least)
		}
	}
}

// canary returns the parts of the higher limit that are admitted, and of the time in
// which it is not in force.
func canary(every, length time.Duration) (admitted, lower float64) {
	ledger, low := new(lease.Ledger), lease.Limit{Rate: 500, Burst: 500}
	var holders []*lease.Holder
	for i := range 11 {
		limit := thousand
		if i == 10 {
			limit = low
		}
		holders = append(holders, lease.NewHolder(fmt.Sprint("h", i), limit, &lease.Policy{}, uint64(i)))
	}
	begin := time.Hour
	for now := begin; now < begin+length; now += ms {
		for i, h := range holders {
			asks := (now/ms)%5 == time.Duration(i%5)
			if i == 10 {
				asks = every > 0 && (now-begin)%every == every/2
			}
			if asks {
				if v := h.Take(now, 1); v == lease.Admitted {
					admitted++
				} else if v == lease.Pending {
					h.Enter(&lease.Waiter{N: 1})
				}
			}
			if q, ok := h.Request(now); ok {
				h.Handle(now, ledger.Exchange(now, q))
			}
			for _, w := range h.Ready(now).Resolved {
				if w.Verdict == lease.Admitted {
					admitted++
				}
			}
		}
		if ledger.Limit() == low {
			lower++
		}
	}
	return (admitted - 1000) / length.Seconds() / 1000, lower / float64(length/ms)
}

// TestCanaryCrashes: how long a process that has crashed is believed, by what it was
// lent. It prints a table (ADR 23).
func TestCanaryCrashes(t *testing.T) {
	t.Log("| the canary's demand before it crashed | believed for |")
	t.Log("|---|---|")
	low := lease.Limit{Rate: 500, Burst: 500}
	for _, c := range []struct {
		demand float64
		most   time.Duration
	}{
		{0, time.Second}, {1, 35 * time.Second}, {10, 35 * time.Second}, {50, 10 * time.Second},
		{300, time.Second},
	} {
		d := newDeployment(t)
		d.declares("a", thousand, thousand)
		now := d.now
		for seq := range uint64(8) {
			now += 100 * ms
			d.ledger.Exchange(now, ask("canary", seq+1, func(q *lease.Request) {
				q.Limit, q.Demand = low, c.demand
			}))
		}
		crash := now
		for seq := uint64(1); seq < 1000; seq++ {
			now += 100 * ms
			if d.ledger.Exchange(now, ask("b", seq, demanding(100))).Limit == thousand {
				break
			}
		}
		t.Logf("| %v/s | %v |", c.demand, now-crash)
		if now-crash > c.most {
			t.Errorf("demand %v: believed for %v", c.demand, now-crash)
		}
	}
}
