package lease_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// stream is a holder that sees requests and, when asked, reports its demand.
type stream struct {
	*lease.Holder
	now time.Duration
}

func newStream() *stream {
	return &stream{lease.NewHolder("a", thousand, &lease.Policy{}, 1), time.Hour}
}

// flow lets requests come at an even pace.
func (s *stream) flow(rate int, d time.Duration) {
	for end := s.now + d; s.now < end; {
		s.now += time.Second / time.Duration(rate)
		s.arrive()
	}
}

func (s *stream) arrive() {
	s.Take(s.now, 1)
	if q, ok := s.Request(s.now); ok {
		s.answer(q)
	}
}

// answer lends enough for a while: what is asked for comes from the lease.
func (s *stream) answer(q lease.Request) {
	s.Handle(s.now, lease.Reply{
		Seq: q.Seq, Taken: q.Take, Shape: lease.Slice, Rate: 1e5, Burst: 1e5, Keep: 1e5,
		Refresh: 200 * ms, RateUntil: 250 * ms, Expires: 650 * ms, Limit: thousand,
	})
}

func (s *stream) report() float64 {
	s.now += ms
	s.Probe(s.now, true)
	q, _ := s.Request(s.now)
	s.answer(q)
	return q.Demand
}

// TestDemandFromTheStart: the estimate does not rise from zero while a memory
// fills. Few requests tell less than many.
func TestDemandFromTheStart(t *testing.T) {
	for _, c := range []struct {
		after    time.Duration
		from, to float64
	}{{5 * ms, 50, 100}, {40 * ms, 800, 900}, {200 * ms, 950, 1000}} {
		s := newStream()
		s.flow(1000, c.after)
		if d := s.report(); d < c.from || d > c.to {
			t.Errorf("1000/s seem %v after %v", d, c.after)
		}
	}
}

// TestDemandIsSteady: chance makes 20 requests a second seem 10 or 40 to who
// looks at a tenth of a second.
func TestDemandIsSteady(t *testing.T) {
	s := newStream()
	rng := rand.New(rand.NewPCG(1, 1))
	var sum, squares, n float64
	for next := s.now; n < 400; {
		next += time.Duration(rng.ExpFloat64() / 20 * 1e9)
		for ; s.now+50*ms < next; n++ {
			s.now += 50 * ms
			if d := s.report(); s.now > time.Hour+5*time.Second {
				sum, squares = sum+d, squares+d*d
			} else {
				n--
			}
		}
		s.now = max(s.now, next)
		s.arrive()
	}
	if mean, dev := sum/n, math.Sqrt(squares/n-sum*sum/n/n); mean < 15 || mean > 25 || dev > 6 {
		t.Errorf("20/s seem %v, give or take %v", mean, dev)
	}
}

// TestDemandFollows: what has changed beyond chance is believed at once, up or
// down.
func TestDemandFollows(t *testing.T) {
	for _, to := range []int{1000, 20} {
		s := newStream()
		s.flow(200, 3*time.Second)
		s.flow(to, 800*ms)
		if d := s.report(); math.Abs(d-float64(to)) > 0.1*float64(to)+10 { // 10/s is what one request weighs
			t.Errorf("200/s, then %d/s, seem %v", to, d)
		}
	}
}

// TestDemandAfterAPause: it does not count as time in which less came.
func TestDemandAfterAPause(t *testing.T) {
	s := newStream()
	s.flow(500, 2*time.Second)
	s.report()
	s.now += time.Second
	s.flow(500, 50*ms)
	if d := s.report(); d < 400 || d > 550 {
		t.Errorf("500/s seem %v, 50 ms after a pause", d)
	}
}

// TestDemandOfThoseWhoWait: callers that ask five times in a millisecond, and wait for an answer
// after each 50 requests, have the same demand as with a lease of more. What stays away while they
// wait tells nothing, but for 5 ms. A wait of 20 ms counts. Callers who have all waited, and do not
// come again, are no stream.
func TestDemandOfThoseWhoWait(t *testing.T) {
	for _, c := range []struct {
		wait     time.Duration
		again    bool
		from, to float64
	}{{300 * ms, true, 3000, 3500}, {20 * ms, true, 1550, 1750}, {300 * ms, false, 0, 0}} {
		s := newStream()
		for range 20 {
			for range 50 {
				s.now += 200 * time.Microsecond
				s.Take(s.now, 1)
			}
			s.Enter(&lease.Waiter{N: 1})
			q, _ := s.Request(s.now)
			s.now += c.wait
			s.Handle(s.now, lease.Reply{
				Seq: q.Seq, Taken: 1, Add: 49, Shape: lease.Batch, Burst: 49, Keep: 49,
				Refresh: time.Second, Expires: 2 * time.Second, Limit: thousand,
			})
			s.Ready(s.now + 10*time.Microsecond)
		}
		if !c.again {
			s.now += 100 * ms
		}
		if d := s.report(); d < c.from || d > c.to {
			t.Errorf("50 requests in 10 ms, a wait of %v, and again %v: they seem %v/s", c.wait, c.again, d)
		}
	}
}

// TestSmallClumps: requests of a busy key that come in clumps of a millisecond are a
// stream, whenever it is looked at between them.
func TestSmallClumps(t *testing.T) {
	s := newStream()
	for i := range 1000 {
		s.now += 100 * time.Microsecond
		for range 20 {
			s.arrive()
		}
		s.now += 850 * time.Microsecond
		if i%50 == 0 {
			s.report()
		}
		s.now += 50 * time.Microsecond
	}
	s.report()
	for range 3 {
		if d := s.report(); d < 15_000 {
			t.Errorf("20 requests each millisecond seem %v/s", d)
		}
	}
}
