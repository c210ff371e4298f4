package local

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

const ms = time.Millisecond

// sharing returns a Dispatch with a Table of its own, which believes in so many processes. Those
// of one Shares have one Fleet.
func sharing(shares *Shares, keys, processes int) *Dispatch {
	fleet := NewFleet(0, NewName("p"))
	for _, d := range shares.all() {
		fleet = d.fleet
	}
	table := NewTable(Config{
		Holder: "p", Timeout: 100 * ms, MaxKeys: 64, Idle: time.Second, Shares: shares,
	})
	return NewDispatch(0, DispatchConfig{
		Fleet: fleet, Timeout: 100 * ms, Random: rand.Int64N,
		Shares: shares, Keys: keys, Table: table, Processes: processes,
	})
}

// cut begins an outage of a Dispatch, or ends it.
func (d *Dispatch) cut(now time.Duration, away bool) {
	d.health.away.Store(away)
	d.shares.follow(now, d)
}

// TestOutageStartsEmpty: an outage mints no burst. What flows in from its beginning on
// is there for a key's first request.
func TestOutageStartsEmpty(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	d := sharing(NewShares(), 100, 2)
	table, begun := d.table, time.Minute
	d.cut(begun, true)
	for _, c := range []struct {
		key  string
		at   time.Duration
		want int
	}{
		{"k", 0, 0}, {"k", 100 * ms, 5}, {"k", 200 * ms, 5}, {"late", 300 * ms, 15},
		{"k", time.Hour, 50}, {"later", time.Hour, 50},
	} {
		at := begun + c.at
		e := table.Open(at, c.key, limit) // half of it is this process's
		got := 0
		for range 100 {
			if d.admits(at, e, 1) {
				got++
			}
		}
		if got != c.want {
			t.Errorf("%d admitted of %s after %v, want %d", got, c.key, c.at, c.want)
		}
		table.Sweep(at+10*time.Second, 1) // its entry does not outlive this
		if table.Find(c.key) != nil {
			t.Fatal("an idle key was not evicted")
		}
	}
	end := begun + time.Hour
	e := table.Open(end, "k", limit)
	for policy, want := range map[Outage]bool{Deny: false, Allow: true} {
		if d.outage = policy; d.admits(end, e, 1) != want {
			t.Errorf("%v does not", policy)
		}
	}
	d.outage = Share
	s := d.OutageState(end, e, 1)
	if s.RetryAfter.Round(ms) != 20*ms || s.Level != 0 || s.ResetAfter != time.Second {
		t.Errorf("%+v, want to retry after 1/50 s", s)
	}
	if s := d.OutageState(end, e, 51); s.RetryAfter != 0 {
		t.Errorf("%+v, but 51 tokens will never be there", s)
	}
}

// TestSharesFollow: of two flights that land beside each other one finds the store away, and
// the other one back. The shares have no outage then, whoever tells them first.
func TestSharesFollow(t *testing.T) {
	s := NewShares()
	d := sharing(s, 10, 2)
	for _, at := range []time.Duration{1, 2, 3} {
		d.health.Report(time.Minute+at*100*ms, false)
	}
	s.follow(time.Minute, d)
	if !s.away || s.since != time.Minute {
		t.Errorf("no outage has begun: %+v", s)
	}
	d.health.Report(2*time.Minute, true)
	s.follow(2*time.Minute, d)
	s.follow(2*time.Minute-ms, d) // by the one that found it away before
	if d.Away() || s.away {
		t.Errorf("an outage goes on: %+v", s)
	}
}

// TestShareOfOneKey: while the store answers, however slowly, a key is shared only after
// three exchanges in a row have failed: until then the part of this process may be on lease
// to another one.
func TestShareOfOneKey(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	d := sharing(NewShares(), 100, 2)
	e := d.table.Open(0, "k", limit)
	admitted := func(from, to time.Duration) (n int) {
		for at := from; at <= to; at += 10 * ms {
			if d.admits(at, e, 1) {
				n++
			}
		}
		return n
	}
	now := time.Second
	fail := func() {
		e.Take(now, 1, 0, false)
		e.probe(now)
		q, ok, _ := e.Request(now)
		if !ok {
			t.Fatal("no request")
		}
		e.Answer(now, q, lease.Reply{}, errors.New("lost"))
		now += 10 * time.Second
	}
	for failed := range failsInARow {
		if n := admitted(now-time.Second, now); n != 0 {
			t.Errorf("%d admitted after %d failures", n, failed)
		}
		fail()
	}
	// Half of the rate, from the first of these requests on.
	if n := admitted(now, now+time.Second); n != 50 {
		t.Errorf("%d admitted in a second after three failures, want 50", n)
	}
	// What was left is not there when it fails again.
	now += time.Minute
	e.probe(now)
	q, _, _ := e.Request(now)
	if !e.Answer(now, q, lease.Reply{Seq: q.Seq, Holders: 2, Limit: limit}, nil) {
		t.Fatal("no answer")
	}
	fail()
	fail()
	fail()
	if n := admitted(now, now+100*ms); n != 5 {
		t.Errorf("%d admitted in 100 ms after it has failed again, want 5", n)
	}
}

// TestShareOfRaisedLimit: a limit that is raised in an outage counts from when that is known.
func TestShareOfRaisedLimit(t *testing.T) {
	d := sharing(NewShares(), 100, 2)
	d.cut(10*time.Second, true)
	e := d.table.Open(0, "k", lease.Limit{Rate: 20, Burst: 100})
	if !d.admits(11*time.Second, e, 10) {
		t.Error("a second of 10/s is not 10")
	}
	e.Declare(12*time.Second, lease.Limit{Rate: 100, Burst: 100}, time.Hour)
	if d.admits(12*time.Second, e, 11) || !d.admits(12*time.Second, e, 10) {
		t.Error("a second of 10/s more is not 10")
	}
	if !d.admits(12_500*ms, e, 25) {
		t.Error("half a second of 50/s is not 25")
	}
}

// TestShareAfterLease: a lease that refills in an outage is the share until it ends, though
// its entry is evicted.
func TestShareAfterLease(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	for _, evicted := range []bool{false, true} {
		d := sharing(NewShares(), 100, 2)
		table := d.table
		e := table.Open(0, "k", limit)
		e.Take(0, 1, 0, false)
		q, ok, _ := e.Request(0)
		reply := lease.Reply{
			Seq: q.Seq, Taken: 1, Shape: lease.Slice, Rate: 50, Burst: 45, Keep: 45,
			Holders: 2, Limit: limit,
			Refresh: 4 * time.Second, RateUntil: 5 * time.Second, Expires: 5200 * ms,
		}
		if !ok || !e.Answer(0, q, reply, nil) {
			t.Fatal("no answer")
		}
		d.cut(time.Second, true)
		const end = 5600 * ms // 0.6 s after the rate has ended
		if evicted {
			table.Sweep(7*time.Second, 1) // looked at from later: the entry knows only when it ended
			if table.Find("k") != nil {
				t.Fatal("not evicted")
			}
			e = table.Open(end, "k", limit)
		}
		got := 0
		for d.admits(end, e, 1) {
			got++
		}
		// 10 flow until the tokens of the lease die, but 5 of 50 are beside the lease.
		if most := 5 + 20; got > most || got < most-2 {
			t.Errorf("evicted %v: %d admitted, want %d", evicted, got, most)
		}
	}
}

// lend lets the ledger answer a request of a key with a lease.
func (d *Dispatch) lend(
	t *testing.T, now time.Duration, key string, limit lease.Limit, r lease.Reply,
) {
	t.Helper()
	e := d.table.Open(now, key, limit)
	e.Take(now, 1, 0, false)
	q, ok, _ := e.Request(now)
	r.Seq, r.Taken, r.Limit = q.Seq, 1, limit
	if !ok || !e.Answer(now, q, r, nil) {
		t.Fatal("no answer")
	}
}

// TestShareBesideLeases: what a process may share of a key is its part less what all its
// Limiters have on lease, or had in the outage, though only one of them is asked. Here that
// is half of 100/s burst 100, from 10 s on.
func TestShareBesideLeases(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	slice := lease.Reply{
		Shape: lease.Slice, Rate: 30, Burst: 20, Keep: 20, Holders: 2,
		Refresh: 4 * time.Second, RateUntil: 6 * time.Second, Expires: 6200 * ms,
	}
	batch := lease.Reply{
		Shape: lease.LongBatch, Add: 40, Burst: 40, Keep: 40, Holders: 2,
		Refresh: 30 * time.Second, Expires: 30 * time.Second,
	}
	const from, outage = 9 * time.Second, 10 * time.Second // the slice refills until 15 s
	sliced := func(d *Dispatch) { d.lend(t, from, "k", limit, slice) }
	evict := func(at time.Duration) func(*Dispatch) {
		return func(d *Dispatch) {
			d.table.Sweep(at, 1)
			if d.table.Find("k") != nil {
				t.Error("not evicted")
			}
		}
	}
	nothing := func(*Dispatch) {}
	for name, c := range map[string]struct {
		before, during func(other *Dispatch)
		at             time.Duration
		want           int
	}{
		"nothing":                         {nothing, nothing, 10_500 * ms, 25},
		"a slice":                         {sliced, nothing, 11 * time.Second, 20},
		"a slice, which leaves less room": {sliced, nothing, 14 * time.Second, 30},
		"a slice that ended":              {sliced, evict(15_300 * ms), 15_400 * ms, 40},
		"a slice, whose Limiter ended": {sliced, func(d *Dispatch) {
			d.End(12 * time.Second)
		}, 12 * time.Second, 30},
		"a slice that is paused since it asked": {sliced, func(d *Dispatch) {
			e := d.table.Find("k")
			for _, at := range []time.Duration{11 * time.Second, 14 * time.Second} {
				e.probe(at)
				if q, ok, _ := e.Request(at); !ok || !e.Answer(at+50*ms, q, lease.Reply{}, errors.New("lost")) {
					t.Error("no request")
				}
			}
		}, 11_100 * ms, 25},
		"a slice that was lent later": {nothing, func(d *Dispatch) {
			d.lend(t, 14*time.Second, "k", limit, slice)
		}, 14_500 * ms, 10},
		"a parked batch": {func(d *Dispatch) {
			d.lend(t, 4*time.Second, "k", limit, batch)
			evict(from)(d)
		}, nothing, 15 * time.Second, 10},
		"a batch that was parked later": {func(d *Dispatch) {
			d.lend(t, from, "k", limit, batch)
		}, evict(14 * time.Second), 15 * time.Second, 10},
		"a lower limit": {func(d *Dispatch) {
			d.table.Open(from, "k", lease.Limit{Rate: 20, Burst: 10})
		}, nothing, 10_400 * ms, 4},
		"no limit": {func(d *Dispatch) {
			d.table.Open(from, "k", Unlimited)
		}, nothing, 10_500 * ms, 25},
		"news of more processes": {func(d *Dispatch) { d.Heard(4) }, nothing, 11 * time.Second, 25},
		"an outage that ended": {nothing, func(d *Dispatch) {
			d.cut(11*time.Second, true)
			d.cut(12*time.Second, false)
		}, 12_100 * ms, 5},
	} {
		shares := NewShares()
		d, other := sharing(shares, 100, 2), sharing(shares, 100, 0)
		c.before(other)
		d.cut(outage, true)
		c.during(other)
		e := d.table.Open(c.at, "k", limit)
		got := 0
		for d.admits(c.at, e, 1) {
			got++
		}
		if got != c.want {
			t.Errorf("beside %s of another Limiter: %d admitted after %v, want %d",
				name, got, c.at-outage, c.want)
		}
	}
}

// TestShareSinceTheFirst: of several Limiters the first one to find the store away begins the
// outage of all. Each shares once it has noticed.
func TestShareSinceTheFirst(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	shares := NewShares()
	d, first := sharing(shares, 100, 2), sharing(shares, 100, 2)
	first.cut(10*time.Second, true)
	e := d.table.Open(0, "k", limit)
	if d.admits(10_500*ms, e, 1) {
		t.Error("shared before it has noticed")
	}
	d.cut(10_500*ms, true)
	if !d.admits(10_500*ms, e, 25) || d.admits(10_500*ms, e, 1) {
		t.Error("half a second of 50/s is not 25")
	}
}

// TestSharesKeepTheirPart: in any window of an outage a process admits of each key no more
// than its part of Burst + Rate*T, and from its beginning on no more than its part of
// Rate*T, whatever is forgotten because there are many keys. Where nothing is, it admits
// all of that.
func TestSharesKeepTheirPart(t *testing.T) {
	if testing.Short() {
		t.Skip("plays 300 outages in one goroutine: left out with -short")
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		const begun = time.Second
		most, keys := 1+random.IntN(40), 1+random.IntN(60)
		s := NewShares()
		d := sharing(s, most, 2)
		d.cut(begun, true)
		p := entitlement{rate: 1 + random.Float64()*20, burst: float64(1 + random.IntN(30))}
		type bucket struct{ level, admitted float64 }
		buckets, now := make([]bucket, keys), begun
		last := make([]time.Duration, keys)
		for range 5000 {
			now += time.Duration(random.Int64N(int64(50 * ms)))
			k := random.IntN(keys)
			if random.IntN(2) == 0 {
				k = random.IntN(1 + keys/10) // some are hot
			}
			n := float64(1 + random.IntN(3))
			due := min(p.burst, p.rate*(now-begun).Seconds()-buckets[k].admitted)
			b := &buckets[k]
			b.level = max(b.level-p.rate*(now-last[k]).Seconds(), 0)
			last[k] = now
			ok := s.take(now, d, fmt.Sprint(k), n, p)
			if !ok {
				if keys <= most && p.burst-b.level >= n+1e-6 && due >= n+1e-6 {
					t.Fatalf("seed %d: key %d is denied %v tokens of %v", seed, k, n, due)
				}
				continue
			}
			b.level += n
			b.admitted += n
			if b.level > p.burst+1e-6 {
				t.Fatalf("seed %d: key %d is %v above its burst of %v", seed, k, b.level-p.burst, p.burst)
			}
			if b.admitted > p.rate*(now-begun).Seconds()+1e-6 {
				t.Fatalf("seed %d: key %d has %v tokens in %v at %v/s", seed, k, b.admitted, now-begun, p.rate)
			}
		}
		if len(s.young) > most || len(s.old) > most {
			t.Fatalf("seed %d: %d and %d are remembered, of at most %d each",
				seed, len(s.young), len(s.old), most)
		}
	}
}

// TestStateBesideLease: what a share still has is told also while another Limiter's lease takes
// all that would flow in.
func TestStateBesideLease(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	shares := NewShares()
	d, other := sharing(shares, 100, 2), sharing(shares, 100, 0)
	d.cut(10*time.Second, true)
	e := d.table.Open(11*time.Second, "k", limit)
	if !d.admits(11*time.Second, e, 20) {
		t.Fatal("a second of 50/s is not 20")
	}
	other.lend(t, 11*time.Second, "k", limit, lease.Reply{
		Shape: lease.Slice, Rate: 50, Burst: 10, Keep: 10, Holders: 2,
		Refresh: 4 * time.Second, RateUntil: 5 * time.Second, Expires: 5200 * ms,
	})
	if s := d.OutageState(12*time.Second, e, 1); s.Level != 30 {
		t.Errorf("%+v, want the 30 tokens that are left", s)
	}
	if !d.admits(12*time.Second, e, 30) || d.admits(12*time.Second, e, 1) {
		t.Error("not 30 tokens are left")
	}
	if s := d.OutageState(12*time.Second, e, 1); s.Level != 0 || s.RetryAfter != 0 {
		t.Errorf("%+v, want nothing", s)
	}
}

// TestShareAfterLastLeaves: when the only Limiter that finds the store away is closed, the outage
// ends for the others. It does not go on until the next one: what had flowed in by then would be
// a Burst.
func TestShareAfterLastLeaves(t *testing.T) {
	limit := lease.Limit{Rate: 100, Burst: 100}
	shares := NewShares()
	d, other := sharing(shares, 100, 2), sharing(shares, 200, 2)
	other.cut(10*time.Second, true)
	other.End(11 * time.Second)
	d.cut(time.Minute, true)
	e := d.table.Open(time.Minute, "k", limit)
	if d.admits(time.Minute, e, 1) {
		t.Error("an outage begins with tokens")
	}
	if shares.most != 100 {
		t.Errorf("shares of %d keys are remembered, want 100", shares.most)
	}
}
