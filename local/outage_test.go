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

// sharing returns a Dispatch with a Table of its own, one of two processes.
func sharing(shares *Shares, keys, processes int) *Dispatch {
	table := NewTable(Config{Holder: "p", Timeout: 100 * ms, MaxKeys: 64, Idle: time.Second, Shares: shares})
	return NewDispatch(0, DispatchConfig{
		Process: NewName("p"), Timeout: 100 * ms, Random: rand.Int64N, Shares: shares, Keys: keys, Table: table,
		Processes: processes,
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
	}{{"k", 0, 0}, {"k", 100 * ms, 5}, {"k", 200 * ms, 5}, {"late", 300 * ms, 15}, {"k", time.Hour, 50}, {"later", time.Hour, 50}} {
		at := begun + c.at
		e := table.Open(at, c.key, limit) // half of it is this process's
		got := 0
		for range 100 {
			if d.Outage(at, e, 1) {
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
		if d.outage = policy; d.Outage(end, e, 1) != want {
			t.Errorf("%v does not", policy)
		}
	}
	d.outage = Share
	if s := d.OutageState(end, e, 1); s.RetryAfter < 19*ms || s.RetryAfter > 21*ms || s.Level != 0 || s.ResetAfter != time.Second {
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
			if d.Outage(at, e, 1) {
				n++
			}
		}
		return n
	}
	now := time.Second
	for failed := range failsInARow {
		if n := admitted(now-time.Second, now); n != 0 {
			t.Errorf("%d admitted after %d failures", n, failed)
		}
		e.Take(now, 1, 0, false)
		e.Probe(now)
		q, ok, _ := e.Request(now)
		if !ok {
			t.Fatal("no request")
		}
		e.Answer(now, q, lease.Reply{}, errors.New("lost"))
		now += 10 * time.Second
	}
	// Half of the rate, from the first of these requests on.
	if n := admitted(now, now+time.Second); n != 50 {
		t.Errorf("%d admitted in a second after three failures, want 50", n)
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
			Seq: q.Seq, Taken: 1, Shape: lease.Slice, Rate: 50, Burst: 45, Keep: 45, Holders: 2, Limit: limit,
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
		for d.Outage(end, e, 1) {
			got++
		}
		// 10 flow until the tokens of the lease die, but 5 of 50 are beside the lease.
		if most := 5 + 20; got > most || got < most-2 {
			t.Errorf("evicted %v: %d admitted, want %d", evicted, got, most)
		}
	}
}

// TestSharesKeepTheirPart: in any window of an outage a process admits of each key no more
// than its part of Burst + Rate*T, and from its beginning on no more than its part of
// Rate*T, whatever is forgotten because there are many keys. Where nothing is, it admits
// all of that.
func TestSharesKeepTheirPart(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		const begun = time.Second
		most, keys := 1+random.IntN(40), 1+random.IntN(60)
		s := NewShares()
		d := sharing(s, most, 2)
		d.cut(begun, true)
		p := claim{rate: 1 + random.Float64()*20, burst: float64(1 + random.IntN(30))}
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
			t.Fatalf("seed %d: %d and %d are remembered, of at most %d each", seed, len(s.young), len(s.old), most)
		}
	}
}
