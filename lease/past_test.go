package lease_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// TestFramesInTurn: programs of two versions, which have another window, offset or kind for a
// key, take turns at it, as while they are deployed. They admit no more in all than one after
// the other would.
func TestFramesInTurn(t *testing.T) {
	day := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}
	week := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Week}
	month := lease.Limit{Kind: lease.KindQuota, Burst: 80, Window: lease.Month}
	hour := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: time.Hour}
	sliding := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: time.Hour}
	bucket := lease.Per(100, time.Hour)
	zone := day
	zone.Offset = time.Hour
	slots := lease.Limit{Kind: lease.KindSlots, Burst: 100}
	for _, c := range []struct {
		limits []lease.Limit
		most   int
	}{
		{[]lease.Limit{day, week}, 100},
		{[]lease.Limit{week, day}, 100},
		{[]lease.Limit{day, zone}, 100},
		{[]lease.Limit{day, week, month, hour, sliding}, 100},
		{[]lease.Limit{bucket, hour}, 140},
		{[]lease.Limit{hour, bucket}, 110},
		{[]lease.Limit{sliding, hour}, 100},
		{[]lease.Limit{bucket, sliding}, 140},
		{[]lease.Limit{hour, slots}, 100},
	} {
		for _, turn := range []time.Duration{3 * time.Second, 40 * time.Second} {
			t.Run(fmt.Sprint(c.limits, turn), func(t *testing.T) {
				var l lease.Ledger
				admitted, seq := 0, uint64(0)
				for i := range int(10 * time.Minute / turn) {
					now := noon + time.Duration(i)*turn
					limit := c.limits[i%len(c.limits)]
					for range 100 {
						now += 5 * ms
						seq++
						r := l.Exchange(now, lease.Request{
							Holder: fmt.Sprint("v", i%len(c.limits)), Seq: seq, Seen: seq - 1, Take: 1, Min: 1,
							Limit: limit, Policy: lease.Policy{Mode: lease.PerRequest}.Resolved(),
						})
						if limit.Kind != lease.KindSlots {
							admitted += int(max(r.Taken, r.Add))
						}
					}
				}
				t.Logf("%d are admitted in 10 minutes", admitted)
				if admitted < 60 || admitted > c.most {
					t.Errorf("%d are admitted in 10 minutes, not %d at most", admitted, c.most)
				}
			})
		}
	}
}

// TestPastEnds: what was used under one frame counts until its window has ended, and no longer.
func TestPastEnds(t *testing.T) {
	day := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}
	sliding := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: time.Hour}
	week := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Week}
	for _, c := range []struct {
		from, to      lease.Limit
		before, after time.Duration // from noon, at which 70 are taken
		there         float64       // at the first
	}{
		{day, week, 12*time.Hour - ms, 12 * time.Hour, 30},
		{sliding, week, time.Hour, time.Hour + 3*time.Minute, 30},
		{day, sliding, 12*time.Hour - ms, 12 * time.Hour, 30},
		{lease.Per(100, time.Hour), week, 21 * time.Minute, 42 * time.Minute, 65},
		{day, lease.Per(100, time.Hour), time.Minute, 12 * time.Hour, 30},
	} {
		t.Run(fmt.Sprint(c.from, " to ", c.to), func(t *testing.T) {
			for _, at := range []time.Duration{c.before, c.after} {
				var l lease.Ledger
				l.Exchange(noon, lease.Request{
					Holder: "old", Seq: 1, Take: 70, Min: 70, Limit: c.from, Policy: lease.Policy{}.Resolved(),
				})
				r := l.Exchange(noon+at, lease.Request{
					Holder: "new", Seq: 1, Limit: c.to, Policy: lease.Policy{Mode: lease.PerRequest}.Resolved(),
				})
				want := c.there
				if at == c.after {
					want = 100
				}
				if got := r.Pool.Level; r.Limit != c.to || got < want-1 || got > want+1 {
					t.Errorf("%v after noon %v of %v are there, not %v", at, got, r.Limit, want)
				}
			}
		})
	}
}

// framed asks a ledger for n tokens of a limit, of which the holder keeps none, and long enough
// after others of another frame.
func framed(l *lease.Ledger, now time.Duration, limit lease.Limit, n float64) lease.Reply {
	return l.Exchange(now, lease.Request{
		Holder: fmt.Sprint(limit), Seq: uint64(now), Take: n, Min: n, Limit: limit,
		Policy: lease.Policy{Mode: lease.PerRequest}.Resolved(),
	})
}

// TestFrameUse: each use counts in one frame, however often versions take turns.
func TestFrameUse(t *testing.T) {
	var l lease.Ledger
	day := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}
	week := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Week}
	for i := range 10 {
		framed(&l, noon+time.Duration(2*i)*time.Minute, day, 1)
		framed(&l, noon+time.Duration(2*i+1)*time.Minute, week, 1)
	}
	if v := l.View(); v.Pool != 80 {
		t.Errorf("%v of 100 are left after 20: %+v", v.Pool, v)
	}
	if r := framed(&l, noon+12*time.Hour, week, 0); r.Pool.Level != 90 {
		t.Errorf("%v of 100 are left the next day, after 10 in the week", r.Pool.Level)
	}
}

// TestPastReturns: in the middle of a window what was used under another one is there again.
func TestPastReturns(t *testing.T) {
	week := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Week}
	slide := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: lease.Day}
	for _, limit := range []lease.Limit{week, slide} {
		var l lease.Ledger
		framed(&l, noon, lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}, 60)
		if r := framed(&l, noon+time.Minute, limit, 30); r.Pool.Level != 10 {
			t.Errorf("%v: %v are left", limit, r.Pool.Level)
		}
		if r := framed(&l, noon+12*time.Hour, limit, 0); r.Pool.Level != 70 || l.View().Past != nil {
			t.Errorf("%v: %v are left after midnight, and %v", limit, r.Pool.Level, l.View().Past)
		}
	}
}

// TestPastOfManyWindows: of more windows than are told apart, what was used in the first to end
// counts for as long as in the second.
func TestPastOfManyWindows(t *testing.T) {
	var l lease.Ledger
	windows := []time.Duration{time.Hour, 6 * time.Hour, lease.Day, lease.Week, 30 * lease.Day}
	for i, window := range windows {
		limit := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: window}
		r := framed(&l, noon+time.Duration(i)*time.Minute, limit, 10)
		if want := float64(90 - 10*i); r.Pool.Level != want {
			t.Errorf("%v of 100 are left after %d times 10", r.Pool.Level, i+1)
		}
	}
	last := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: windows[len(windows)-1]}
	for _, c := range []struct {
		after time.Duration
		want  float64
	}{{2 * time.Hour, 50}, {7 * time.Hour, 70}, {13 * time.Hour, 80}} {
		if r := framed(&l, noon+c.after, last, 0); r.Pool.Level != c.want {
			t.Errorf("%v of 100 are left %v later, not %v", r.Pool.Level, c.after, c.want)
		}
	}
}

// TestTurnAtBoundary: a quota begins anew at its boundary, also if a process of another frame comes
// before the ledger has noticed that the last lease has ended. What was used before the boundary
// does not count any more.
func TestTurnAtBoundary(t *testing.T) {
	minute := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: time.Minute}
	week := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Week}
	for _, after := range []time.Duration{ms, time.Second} {
		for _, first := range []lease.Limit{week, minute} {
			var l lease.Ledger
			for i, window := range []time.Duration{time.Hour, 6 * time.Hour, lease.Day} {
				limit := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: window}
				framed(&l, noon+time.Duration(i)*time.Second, limit, 10)
			}
			framed(&l, noon+time.Minute-10*ms, minute, 10)
			framed(&l, noon+time.Minute+after, first, 0)
			for i, limit := range []lease.Limit{minute, week} {
				r := framed(&l, noon+time.Minute+time.Duration(i+2)*time.Second, limit, 0)
				if r.Limit != limit || r.Pool.Level != 70 {
					t.Errorf("%v after a boundary %v asks, then %v: %v of %v are left, not 70",
						after, first, limit, r.Pool.Level, r.Limit)
				}
			}
		}
	}
}

// TestPastIsNotIdle: a ledger is not forgotten while something counts.
func TestPastIsNotIdle(t *testing.T) {
	var l lease.Ledger
	framed(&l, noon, lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}, 60)
	framed(&l, noon+time.Minute, lease.Per(100, time.Minute), 1)
	if l.Idle(noon + 12*time.Hour - ms) {
		t.Error("forgets what was used today")
	}
	if !l.Idle(noon + 12*time.Hour) {
		t.Error("is kept for nothing")
	}
}

// TestTurnAfterADeath: a process of another frame begins soon after the last lease of dead
// processes has ended, also if that is a long batch.
func TestTurnAfterADeath(t *testing.T) {
	calm := lease.Limit{Rate: 1000, Burst: 1000}
	day := lease.Limit{Kind: lease.KindQuota, Burst: 100, Window: lease.Day}
	for phase := range 30 {
		h, l, now := newPair(calm)
		for began := now; now < began+time.Minute+time.Duration(phase)*time.Second; now += 100 * ms {
			if h.Take(now, 1) == lease.Pending {
				h.Enter(&lease.Waiter{N: 1})
			}
			talk(t, h, l, now)
		}
		end := l.View().Holders[0].Expires()
		if end < now+20*time.Second {
			t.Fatalf("the lease ends in %v", end-now)
		}
		for l.Limit() != day && now < end+time.Minute {
			now += 250 * ms
			framed(l, now, day, 1)
		}
		if late := now - end; late < 0 || late > 4*time.Second {
			t.Errorf("it begins %v after the last lease has ended", late)
		}
	}
}

// TestPastTellsDenied: a denial tells when other frames give back what is missing, which may be
// after the end of one of their windows, and after the window in force.
func TestPastTellsDenied(t *testing.T) {
	quota := func(n int64, window time.Duration) lease.Limit {
		return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window}
	}
	sliding := lease.Limit{Kind: lease.KindSliding, Burst: 100, Window: time.Hour}
	for _, c := range []struct {
		used  []lease.Limit // 40 of each, one a second from noon on
		limit lease.Limit
		n     float64 // asked for 10 s after noon
		at    time.Duration
	}{
		{[]lease.Limit{quota(100, time.Minute)}, quota(100, time.Hour), 80, time.Minute},
		{[]lease.Limit{quota(100, time.Minute)}, sliding, 80, time.Minute},
		{[]lease.Limit{quota(100, time.Minute), quota(100, 2*time.Minute)}, quota(100, time.Hour), 50, time.Minute},
		{[]lease.Limit{quota(100, time.Minute), quota(100, 2*time.Minute)}, quota(100, time.Hour), 61, 2 * time.Minute},
		{[]lease.Limit{quota(100, time.Hour)}, quota(100, time.Minute), 61, time.Hour},
		{[]lease.Limit{quota(100, time.Hour)}, quota(100, time.Minute), 100, time.Hour},
		{[]lease.Limit{lease.Per(100, 100*time.Second)}, quota(100, time.Hour), 80, 20 * time.Second},
		{[]lease.Limit{lease.Per(100, 100*time.Second)}, quota(50, time.Minute), 50, 40 * time.Second},
	} {
		var l lease.Ledger
		for i, used := range c.used {
			framed(&l, noon+time.Duration(i)*time.Second, used, 40)
		}
		now := noon + 10*time.Second
		r := framed(&l, now, c.limit, c.n)
		if at := now + r.RetryAfter - noon; r.Taken > 0 || at < c.at-time.Second || at > c.at {
			t.Errorf("%v, then %v of %v: %+v\ntold %v, not %v", c.used, c.n, c.limit, r, at, c.at)
		}
	}
}
