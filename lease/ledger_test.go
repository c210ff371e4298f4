package lease_test

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

var (
	thousand = lease.Limit{Rate: 1000, Burst: 1000}
	ms       = time.Millisecond
)

// ask makes a plausible request; change overrides its fields.
func ask(holder string, seq uint64, change func(*lease.Request)) lease.Request {
	q := lease.Request{
		Holder: holder, Seq: seq, Seen: seq - 1, Limit: thousand, Policy: lease.Policy{}.Resolved(),
	}
	if change != nil {
		change(&q)
	}
	return q
}

func demanding(d float64) func(*lease.Request) {
	return func(q *lease.Request) { q.Demand = d }
}

func TestNewBucketIsFull(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Take, q.Min = 1200, 1 }))
	if r.Taken != 1000 {
		t.Errorf("taken %v of a full bucket of 1000", r.Taken)
	}
	r = l.Exchange(100*ms, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 1200, 1 }))
	if r.Taken != 100 {
		t.Errorf("taken %v after 100 ms at 1000/s", r.Taken)
	}
	r = l.Exchange(150*ms, ask("c", 1, func(q *lease.Request) { q.Take, q.Min = 100, 100 }))
	if r.Taken != 0 || r.RetryAfter != 50*ms {
		t.Errorf("taken %v, retry after %v; 50 of 100 tokens are there, the rest in 50 ms", r.Taken, r.RetryAfter)
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	var l lease.Ledger
	l.Exchange(time.Second, ask("a", 1, func(q *lease.Request) { q.Take, q.Min = 1000, 1000 }))
	r := l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 1, 1 }))
	if r.Taken != 0 {
		t.Errorf("a clock that stepped back gave %v tokens", r.Taken)
	}
	r = l.Exchange(time.Second+10*ms, ask("b", 2, func(q *lease.Request) { q.Take, q.Min = 100, 1 }))
	if r.Taken != 10 {
		t.Errorf("taken %v, 10 ms after the latest time", r.Taken)
	}
}

// TestTimeGoesOn: after a long step back the bucket goes on to fill, with no gain
// by the step; after a short one it stands still until the clock is where it was.
func TestTimeGoesOn(t *testing.T) {
	for _, c := range []struct {
		back  time.Duration
		taken float64 // 100 ms later
	}{{time.Hour, 100}, {time.Second + ms, 100}, {time.Second, 0}, {50 * ms, 50}} {
		var l lease.Ledger
		now := 24 * time.Hour
		take := func(seq uint64) float64 {
			return l.Exchange(now, ask("a", seq, func(q *lease.Request) { q.Take, q.Min = 1000, 1 })).Taken
		}
		take(1)
		now -= c.back
		if got := take(2); got != 0 {
			t.Errorf("%v back gave %v tokens", c.back, got)
		}
		now += 100 * ms
		if got := take(3); got != c.taken {
			t.Errorf("%v back: %v tokens in the next 100 ms, want %v", c.back, got, c.taken)
		}
	}
}

func TestRepeatAndStale(t *testing.T) {
	var l lease.Ledger
	q1 := ask("a", 1, func(q *lease.Request) { q.Take, q.Min, q.Demand = 10, 10, 100 })
	q2 := ask("a", 2, demanding(100))
	l.Exchange(0, q1)
	before := l.View()
	if again := l.Exchange(50*ms, q1); !again.Stale || again.Taken != 0 {
		t.Errorf("a repeat was answered with %+v", again)
	}
	if after := l.View(); !reflect.DeepEqual(after, before) {
		t.Errorf("a repeat changed %+v to %+v", before, after)
	}
	l.Exchange(60*ms, q2)
	if late := l.Exchange(70*ms, q1); !late.Stale || late.Taken != 0 {
		t.Errorf("an overtaken request was answered with %+v", late)
	}
}

// TestLostReplyRefunded: what a reply added that never arrived, and the rate
// that was set aside since, return to the pool with the holder's next request.
func TestLostReplyRefunded(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 850, 1 }))
	l.Exchange(0, ask("a", 1, demanding(500)))
	lost := l.Exchange(20*ms, ask("a", 2, demanding(500)))
	if lost.Rate == 0 {
		t.Fatalf("no lease: %+v", lost)
	}
	before := l.View()
	l.Exchange(40*ms, ask("a", 3, func(q *lease.Request) { q.Seen, q.Demand = 1, 0 }))
	if want := before.Pool + 1000*0.02 + lost.Add; math.Abs(l.View().Pool-want) > 1e-6 {
		t.Errorf("after the lost reply %+v the pool holds %v, want %v", lost, l.View().Pool, want)
	}
}

// TestRefundFits: what was used while a reply was lost was no room for what
// the lost lease might have refilled. Pool, what was used and what is set aside
// are no more than there is (I1).
func TestRefundFits(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, demanding(500)))
	first := l.View()
	l.Exchange(20*ms, ask("a", 2, func(q *lease.Request) { q.Demand, q.Held = 500, 200 })) // its reply is lost
	l.Exchange(200*ms, ask("b", 1, nil))
	full := l.View()
	if burst := first.Holders[0].Burst; full.Pool+burst != 1000 {
		t.Fatalf("the pool is not full: %v of 1000, %v lent", full.Pool, burst)
	}
	l.Exchange(200*ms, ask("a", 3, func(q *lease.Request) { q.Seen, q.Got, q.Peak = 1, 0, 400 }))
	if p := l.View().Pool; p > 800 {
		t.Errorf("the pool holds %v of 1000, 200 were used this instant", p)
	}
}

// TestForgottenLease: old messages make the ledger think that a holder has
// nothing. What it says it holds then is a debt, as if its state were lost.
func TestForgottenLease(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, nil))
	l.Exchange(0, ask("b", 1, demanding(900)))
	l.Exchange(ms, ask("a", 2, func(q *lease.Request) { q.Held = 800 }))
	if v := l.View(); v.Pool+v.Bursts > 1000 || v.Bursts < 800 {
		t.Errorf("%v in the pool and %v lent of 1000", v.Pool, v.Bursts)
	}
}

// TestGiveAfterEnd: a request that hands tokens back, repeated after the
// lease's end, hands back nothing.
func TestGiveAfterEnd(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(0, ask("a", 1, demanding(500)))
	l.Exchange(0, ask("b", 1, func(q *lease.Request) { q.Take, q.Min = 1000, 1 }))
	give := ask("a", 2, func(q *lease.Request) {
		q.Give, q.Claim = r.Add, lease.Claim{Rate: r.Rate, Burst: r.Burst, Left: r.Expires}
		q.Policy.MaxHold = q.Policy.MaxRefresh
	})
	l.Exchange(10*ms, give)
	end := 10*ms + 6*time.Second
	l.Exchange(end, ask("b", 2, func(q *lease.Request) { q.Take, q.Min = 1000, 1 }))
	before := l.View().Pool
	l.Exchange(end, give)
	if after := l.View().Pool; after > before {
		t.Errorf("the pool rose from %v to %v by tokens that were handed back before", before, after)
	}
}

// TestGiveOfTaken: tokens that were taken for a request that had gone were
// never set aside. The pool has filled up since: they do not come back to it.
func TestGiveOfTaken(t *testing.T) {
	var l lease.Ledger
	all := func(q *lease.Request) { q.Take, q.Min = 1000, 1 }
	l.Exchange(0, ask("a", 1, all))
	l.Exchange(500*ms, ask("b", 1, all))
	l.Exchange(500*ms, ask("a", 2, func(q *lease.Request) { q.Give = 500 }))
	if p := l.View().Pool; p != 0 {
		t.Errorf("%v tokens are in the pool after 1500 were taken in 500 ms", p)
	}
}

// TestShorterLife: until a holder has heard of a shorter lease, the ledger
// counts on the longer one that came before.
func TestShorterLife(t *testing.T) {
	var l lease.Ledger
	long := l.Exchange(0, ask("a", 1, demanding(10)))
	fast := thousand
	fast.Rate = 100000
	short := l.Exchange(ms, ask("a", 2, func(q *lease.Request) {
		q.Demand, q.Held, q.Limit = 50000, 5, fast
		q.Claim = lease.Claim{Rate: long.Rate, Burst: long.Burst, Left: long.Expires - ms}
	}))
	if short.Expires >= long.Expires {
		t.Fatalf("lives %v and %v: not the case to test", long.Expires, short.Expires)
	}
	if ends := l.View().Holders[0].Expires(); ends < long.Expires {
		t.Errorf("the ledger forgets the lease at %v, the holder may spend until %v", ends, long.Expires)
	}
}

// TestLongLifeIsForgotten: once a holder has heard of the shorter lease, so does
// the ledger: were it to crash, what it held would be set aside for too long.
func TestLongLifeIsForgotten(t *testing.T) {
	var l lease.Ledger
	l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Demand, q.Policy.Mode = 1, lease.PerRequest })) // for 30 s
	r := l.Exchange(ms, ask("a", 2, func(q *lease.Request) {
		q.Demand, q.Claim.Left = 600, 30*time.Second-ms
	}))
	if ends := l.View().Holders[0].Expires(); ends != 30*time.Second {
		t.Errorf("before it has heard, the lease ends at %v", ends)
	}
	left := r.Expires - 100*ms
	r = l.Exchange(101*ms, ask("a", 3, func(q *lease.Request) { q.Demand, q.Claim.Left = 600, left }))
	if ends, most := l.View().Holders[0].Expires(), 101*ms+max(r.Expires, left+left/128); ends < 101*ms+left || ends > most {
		t.Errorf("after it has heard of a lease of %v it ends at %v, not from %v to %v", r.Expires, ends, 101*ms+left, most)
	}
}

// TestEndsInTurn: leases that ended while nobody asked are accounted for at
// the moments at which they ended.
func TestEndsInTurn(t *testing.T) {
	var l lease.Ledger
	a := l.Exchange(0, ask("a", 1, demanding(400)))
	b := l.Exchange(0, ask("b", 1, demanding(400)))
	l.Exchange(0, ask("c", 1, func(q *lease.Request) { q.Take, q.Min = 1000, 1 })) // the pool is empty now
	at := 400 * ms
	r := l.Exchange(at, ask("c", 2, func(q *lease.Request) { q.Take, q.Min = 1e6, 1 }))
	want := (1000-a.Rate-b.Rate)*min(a.RateUntil, b.RateUntil).Seconds() + 1000*at.Seconds()
	for _, x := range []lease.Reply{a, b} {
		want += x.Rate*(at-x.RateUntil).Seconds() - 1000*0.5*(at-x.RateUntil).Seconds()
	}
	want = 1000*at.Seconds() - a.Rate*a.RateUntil.Seconds() - b.Rate*b.RateUntil.Seconds()
	if got := r.Taken + l.View().Pool; math.Abs(got-want) > 1e-6 {
		t.Errorf("%v tokens flowed into the pool, want %v", got, want)
	}
}

// TestMaxMin: however demand is spread, a few rounds of exchanges find the
// level of full water-filling.
func TestMaxMin(t *testing.T) {
	const none = 1e-3
	for _, demands := range [][]float64{
		{100, 100, 100, 5000},
		{10, 20, 40, 80, 160, 320, 640, 1280},
		{1280, 640, 320, 160, 80, 40, 20, 10},
		{2000, 2000, 2000},
		{1, 999, 5, 400, 30, 3000},
		{500, 30, 30, 30, 30, 600, 700},
	} {
		var l lease.Ledger
		rates := make([]float64, len(demands))
		for round := range uint64(4) {
			for i, d := range demands {
				id := string(rune('a' + i))
				r := l.Exchange(time.Duration(round)*20*ms, ask(id, round+1, func(q *lease.Request) {
					q.Demand, q.Limit = d, thousand.WithBurst(100000)
					q.Policy = lease.Policy{Fairness: lease.MaxMin, Mode: lease.Shares, Headroom: none}.Resolved()
				}))
				rates[i] = r.Rate
			}
		}
		level := waterLevel(demands, 1000)
		for i, d := range demands {
			if want := min(d*(1+none), level); math.Abs(rates[i]-want) > 0.01*want+0.5 {
				t.Errorf("demands %v: %v gets %v/s, want %v (level %v)", demands, d, rates[i], want, level)
			}
		}
	}
}

// waterLevel is the level at which min(demand, level) sums to rate.
func waterLevel(demands []float64, rate float64) float64 {
	lo, hi := 0.0, rate
	for range 100 {
		level, sum := (lo+hi)/2, 0.0
		for _, d := range demands {
			sum += min(d, level)
		}
		if sum < rate {
			lo = level
		} else {
			hi = level
		}
	}
	return lo
}

// TestModes: the ledger chooses by demand, or is told.
func TestModes(t *testing.T) {
	for _, c := range []struct {
		name   string
		limit  lease.Limit
		mode   lease.Mode
		demand float64
		lease  bool // a burst
		share  bool // a rate
	}{
		{"steady demand gets a share", thousand, lease.Auto, 500, true, true},
		{"slight demand gets a plain batch", thousand, lease.Auto, 2, true, false},
		{"no demand gets nothing", thousand, lease.Auto, 0, false, false},
		{"too small to divide", lease.Per(6, time.Minute), lease.Auto, 5, false, false},
		{"a small share, if told so", lease.Per(6, time.Minute), lease.Shares, 5, true, true},
		{"a batch, if told so", thousand, lease.Batches, 500, true, false},
		{"no lease, if told so", thousand, lease.PerRequest, 500, false, false},
	} {
		var l lease.Ledger
		r := l.Exchange(0, ask("a", 1, func(q *lease.Request) {
			q.Limit, q.Demand = c.limit, c.demand
			q.Policy = lease.Policy{Mode: c.mode}.Resolved()
		}))
		if r.Burst > 0 != c.lease || r.Rate > 0 != c.share {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestFirstTakesNotAll: the first process to ask does not get all that may be lent,
// though nobody else is known yet.
func TestFirstTakesNotAll(t *testing.T) {
	for _, c := range []struct{ demand, burst float64 }{
		{20, 100},  // a batch
		{500, 275}, // its part of the rate, with headroom, of the half that is lent
	} {
		var l lease.Ledger
		r := l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Demand, q.Policy.MaxHold = c.demand, q.Policy.MaxRefresh }))
		if r.Burst != c.burst {
			t.Errorf("the first to ask, for %v/s of 1000, may hold %v of 1000, want %v", c.demand, r.Burst, c.burst)
		}
	}
}

// TestFar: there is no slice that flows through its sub-bucket while a few exchanges
// are under way, but a batch.
func TestFar(t *testing.T) {
	for _, c := range []struct {
		name       string
		demand     float64 // of 600/s
		first, lag time.Duration
		shape      lease.Shape
	}{
		{"near", 600, 0, 10 * ms, lease.Slice},
		{"far", 600, 500 * ms, 500 * ms, lease.Batch},
		{"used up within an exchange", 600, 501 * ms, 501 * ms, lease.None},
		{"used up by more than the Rate", 2000, 500 * ms, 500 * ms, lease.Batch},
		{"half way", 600, 100 * ms, 100 * ms, lease.Slice},
		{"an old one, far", 600, 0, 500 * ms, lease.Batch},
		{"others miss it", 600, 200 * ms, 200 * ms, lease.Batch},
		{"nobody misses it", 400, 200 * ms, 200 * ms, lease.Slice},
		{"nobody misses it, far", 400, 500 * ms, 500 * ms, lease.Batch},
	} {
		var l lease.Ledger
		asks := func(seq uint64, lag time.Duration) lease.Reply {
			return l.Exchange(time.Duration(seq)*100*ms, ask("a", seq, func(q *lease.Request) {
				q.Seen, q.Demand, q.Lag = seq-1, c.demand, lag
				q.Limit = lease.Limit{Rate: 600, Burst: 600}
			}))
		}
		asks(1, c.first)
		if r := asks(2, c.lag); r.Shape != c.shape {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// TestLevels: under contention rate goes where tokens are missing, not where
// they lie; and a sub-bucket is filled by half, to have room.
func TestLevels(t *testing.T) {
	var l lease.Ledger
	held := func(id string, seq uint64, held float64) lease.Reply {
		return l.Exchange(time.Duration(seq)*100*ms, ask(id, seq, func(q *lease.Request) { q.Demand, q.Held = 600, held }))
	}
	held("a", 1, 0) // who comes first has all that is lent, until it comes back
	held("b", 1, 0)
	held("a", 2, 0)
	l.Exchange(200*ms, ask("c", 1, func(q *lease.Request) { q.Take, q.Min = 1000, 1 })) // the pool is empty now
	b := held("b", 2, 0)
	full, empty := held("a", 3, 250), held("b", 3, 0)
	if b.Rate > 500 || full.Rate > 1 || empty.Rate < 499 {
		t.Errorf("of 1000/s a full sub-bucket gets %v/s, an empty one first %v, then %v", full.Rate, b.Rate, empty.Rate)
	}

	l = lease.Ledger{}
	l.Exchange(0, ask("x", 1, func(q *lease.Request) {
		q.Take, q.Min, q.Demand, q.Policy.Mode = 600, 1, 400, lease.PerRequest
	}))
	if r := held("a", 1, 0); !r.Contended || r.Burst != 300 || r.Add != 150 {
		t.Errorf("%v tokens into a sub-bucket of %v", r.Add, r.Burst)
	}
}

// TestTurn: a process that is too small for a lease asks as often as it is
// due, not each time only to be denied; as long as it is steady.
func TestTurn(t *testing.T) {
	wait := func(mode lease.Mode, pool float64) time.Duration {
		var l lease.Ledger
		l.Exchange(0, ask("x", 1, func(q *lease.Request) { q.Demand, q.Policy.Mode = 1980, lease.PerRequest }))
		l.Exchange(0, ask("y", 1, func(q *lease.Request) { q.Take, q.Min = 999-pool, 1 }))
		r := l.Exchange(0, ask("a", 1, func(q *lease.Request) {
			q.Take, q.Min, q.Demand, q.Policy.Mode, q.Policy.Smallest = 1, 1, 20, mode, 1000
		}))
		if r.Taken != 1 {
			t.Fatalf("denied, with %v tokens in the pool", pool+1)
		}
		return r.RetryAfter
	}
	// 10/s are due to 20/s: one in 100 ms, of which the next request takes 50 to come.
	for _, c := range []struct {
		mode lease.Mode
		pool float64
		want time.Duration
	}{
		{lease.Auto, 0, 50 * ms}, {lease.Auto, 25, 25 * ms}, {lease.Auto, 50, 0}, {lease.PerRequest, 0, 0},
	} {
		if got := wait(c.mode, c.pool); (got - c.want).Abs() > ms {
			t.Errorf("%v, %v tokens left: asks again after %v, want %v", c.mode, c.pool, got, c.want)
		}
	}
}

// TestTurnBeforeFull: a holder that is told its turn is back four exchanges before the
// pool is full: what has no room there is of use to nobody.
func TestTurnBeforeFull(t *testing.T) {
	for _, c := range []struct {
		burst int64
		lag   time.Duration
		want  time.Duration
	}{{1000, 0, 50 * ms}, {20, 0, 20 * ms}, {20, 2 * ms, 12 * ms}, {20, 30 * ms, 0}} {
		var l lease.Ledger
		limit := thousand.WithBurst(c.burst)
		l.Exchange(0, ask("x", 1, func(q *lease.Request) {
			q.Limit, q.Demand, q.Policy.Mode = limit, 1980, lease.PerRequest
			q.Take, q.Min = float64(c.burst)-1, 1
		}))
		r := l.Exchange(0, ask("a", 1, func(q *lease.Request) {
			q.Limit, q.Take, q.Min, q.Demand, q.Policy.Smallest, q.Lag = limit, 1, 1, 20, 1000, c.lag
		}))
		if r.Taken != 1 || (r.RetryAfter-c.want).Abs() > ms/10 {
			t.Errorf("a bucket of %v, %v away: %v taken, asks again after %v, want %v",
				c.burst, c.lag, r.Taken, r.RetryAfter, c.want)
		}
	}
}

// TestDeniedAsksAgain: a denied holder is back when the whole rate can have brought what is missing;
// while others hold something, after MaxRefresh at the latest. MinRefresh, and an exchange, are never
// too late. A rate that is free brings it sooner.
func TestDeniedAsksAgain(t *testing.T) {
	for _, c := range []struct {
		id   string
		take float64
		lag  time.Duration
		want time.Duration
	}{
		{"a", 301, 0, 20 * ms}, {"a", 301, 60 * ms, 60 * ms}, {"a", 400, 0, 100 * ms},
		{"a", 700, 0, 250 * ms}, {"x", 900, 0, 400 * ms},
	} {
		var l lease.Ledger
		shares := func(q *lease.Request) { q.Demand, q.Policy.Mode = 2000, lease.Shares }
		l.Exchange(0, ask("x", 1, shares))
		l.Exchange(0, ask("z", 1, func(q *lease.Request) { q.Take, q.Min = l.View().Pool-300, 1 }))
		seen := uint64(0)
		if c.id == "x" {
			seen = 1
		}
		r := l.Exchange(0, ask(c.id, seen+1, func(q *lease.Request) {
			shares(q)
			q.Seen, q.Take, q.Min, q.Lag = seen, c.take, c.take, c.lag
		}))
		if r.Taken > 0 || (r.RetryAfter-c.want).Abs() > 2*ms {
			t.Errorf("%s takes %v: %v taken, asks again after %v, want %v", c.id, c.take, r.Taken, r.RetryAfter, c.want)
		}
	}
}

// TestDeniedSliceOfAFreePool: a holder of a slice that is denied lives on its own refill only
// while the key is contended. Else it is back when the pool has what it was denied.
func TestDeniedSliceOfAFreePool(t *testing.T) {
	for _, demand := range []float64{400, 950} {
		var l lease.Ledger
		limit := thousand.WithBurst(20)
		first := l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Limit, q.Demand = limit, demand }))
		r := l.Exchange(0, ask("a", 2, func(q *lease.Request) {
			q.Limit, q.Demand, q.Seen, q.Got, q.Take, q.Min = limit, demand, 1, first.Add, 20, 1
		}))
		want := time.Duration(1e9 / (1000 - r.Rate)) // one token, of what flows into the pool
		if r.Contended {
			want = r.Refresh
		}
		if r.Contended != (demand > 900) || r.Shape != lease.Slice || (r.RetryAfter-want).Abs() > want/20 {
			t.Errorf("a demand of %v at 1000/s: %v of %v/s, contended %v, asks again after %v, want %v",
				demand, r.Shape, r.Rate, r.Contended, r.RetryAfter, want)
		}
	}
}

// TestGrantsWholeRequests: what is granted in part serves whole requests, and
// a denial's time is that of the next one.
func TestGrantsWholeRequests(t *testing.T) {
	var l lease.Ledger
	r := l.Exchange(0, ask("a", 1, func(q *lease.Request) { q.Take, q.Min, q.Unit = 2100, 300, 300 }))
	if r.Taken != 900 || r.RetryAfter != ms {
		t.Errorf("%v taken of 1000 for requests of 300, retry after %v", r.Taken, r.RetryAfter)
	}
	r = l.Exchange(100*ms, ask("a", 2, func(q *lease.Request) { q.Take, q.Min, q.Unit = 150, 150, 150 }))
	if r.Taken != 150 || r.RetryAfter != 0 {
		t.Errorf("%v taken of 200 for a request of 150, retry after %v", r.Taken, r.RetryAfter)
	}
}

// TestCrowd: a key that a thousand processes share is not asked for more often
// than 5000 times a second, as far as MaxRefresh allows. (The first that asks has all
// that is lent, until it comes back: of the first round only that one counts.)
func TestCrowd(t *testing.T) {
	var l lease.Ledger
	limit := lease.Limit{Rate: 1e6, Burst: 1e6}
	for seq := range uint64(2) {
		for i := range 2000 {
			r := l.Exchange(time.Second, ask(fmt.Sprint(i), seq+1, func(q *lease.Request) {
				q.Limit, q.Policy.Batch, q.Policy.MaxHold, q.Demand = limit, 1, 250*ms, 200
			}))
			if seq == 0 && i > 0 {
				continue
			}
			crowd := time.Duration(r.Holders) * time.Second / 5000
			want, most := max(20*ms, min(crowd, 250*ms)), max(20*ms, min(crowd, 300*ms)) // by unrest
			if r.Rate == 0 || r.Refresh < want || r.Refresh > most {
				t.Fatalf("%d holders come back after %v, not %v (rate %v)", r.Holders, r.Refresh, want, r.Rate)
			}
		}
	}
}

// TestQuitAfterLoss is I6: what an old lease has refilled beside a new state is
// taken from the bucket, also where all of it is handed back.
func TestQuitAfterLoss(t *testing.T) {
	for _, quit := range []bool{false, true} {
		var l lease.Ledger
		l.Exchange(time.Hour, ask("new", 1, func(q *lease.Request) { q.Take, q.Min = 1, 1 }))
		h := leased(t, lease.Reply{Add: 10, Rate: 250, Burst: 25, Keep: 25, Refresh: 5 * time.Second, RateUntil: 5250 * ms, Expires: 5500 * ms, Shape: lease.Slice, Holders: 2})
		now := time.Second
		for ; now < 5*time.Second; now += 4 * ms {
			h.Take(now, 1)
		}
		var q lease.Request
		if quit {
			q, _ = h.Quit(now)
		} else {
			h.Probe(now, true)
			q, _ = h.Request(now)
		}
		l.Exchange(time.Hour+4*time.Second, q)
		if pool := l.View().Pool; pool > 20 {
			t.Errorf("all of it handed back: %v; the pool has %v tokens, though the old lease has added 1000", quit, pool)
		}
	}
}
