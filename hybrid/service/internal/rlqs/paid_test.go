package rlqs

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A spender is an Envoy that spends all that it can.
type spender struct {
	full  bool // a changed bucket starts full
	have  numbers
	level float64
	at    time.Time
	until time.Time
	spent float64
}

// get is the arrival of a message.
func (s *spender) get(now time.Time, n numbers, life time.Duration, greedy bool) {
	s.to(now, greedy)
	if !now.Before(s.until) {
		s.have, s.level = numbers{}, 0
	}
	if n != s.have {
		part := 1.0
		if s.have.max > 0 && !s.full {
			part = s.level / s.have.tokens()
		}
		s.have, s.level = n, part*n.tokens()
	}
	s.until = now.Add(life)
}

// to lets time pass.
func (s *spender) to(now time.Time, greedy bool) {
	end := now
	if s.until.Before(end) {
		end = s.until
	}
	if d := end.Sub(s.at).Seconds(); d > 0 && s.have.max > 0 {
		if greedy { // each token is spent as it comes
			all := s.level + s.have.rate()*d
			s.spent += math.Floor(all)
			s.level = all - math.Floor(all)
		} else {
			s.level = math.Min(s.have.tokens(), s.level+s.have.rate()*d)
		}
	}
	s.at = now
}

// TestPaid: an Envoy never spends more than all messages to it were paid, less what has come back,
// however late messages arrive within flight, whichever reports are lost, and wherever the stream
// is cut.
func TestPaid(t *testing.T) {
	for seed := range longform.Of(uint64(2000), 50_000) {
		r := rand.New(rand.NewPCG(seed, 1))
		delay := func() time.Duration { return time.Duration(r.Int64N(int64(flight) + 1)) }
		type sent struct {
			at time.Time
			numbers
			life time.Duration
		}
		type arriving struct {
			read time.Time
			report
		}
		x := &stream{some: make(chan struct{}, 1)}
		b := &bucket{service: &service{config: Config{Life: 3 * time.Second}}}
		b.limit.Limit = hybrid.Limit{Kind: hybrid.KindBucket, Rate: 1e6, Burst: 1e6} // all comes back
		var under []sent
		var reports []arriving
		now, cut := time.Now(), r.IntN(40)
		e := &spender{full: r.IntN(2) == 0, at: now}
		greedy, paid, told := r.IntN(2) == 0, 0.0, 0.0
		lastDown, lastUp, reported := now, now, now
		b.hear(report{from: x, at: now, denied: 1})
		m := b.members[0]
		draw := func() numbers { return numbersOf(1+r.Float64()*300, math.Pow(r.Float64(), 3)*300) }
		next := draw()
		for i := range 60 {
			for len(reports) > 0 && !reports[0].read.After(now) {
				b.hear(reports[0].report)
				reports = reports[1:]
			}
			if r.IntN(3) == 0 {
				next = draw()
			}
			life := time.Duration(1+r.IntN(3)) * time.Second
			price := m.out.price(now, next, life)
			paid, b.purse = paid+price, b.purse+price
			b.pay(now, []message{{m, next, life}})
			x.out, x.since = nil, time.Time{}
			if i < cut { // the others are lost
				lastDown = later(lastDown, now.Add(delay()))
				under = append(under, sent{lastDown, next, life})
			}
			if now.Sub(reported) > 4*time.Second {
				at := later(lastUp, now.Add(delay()))
				a := arriving{read: at.Add(2 * delay()), report: report{from: x, at: at, denied: 1,
					allowed: uint64(e.spent - told), elapsed: now.Sub(reported).Truncate(time.Second)}}
				told, reported = told+float64(a.allowed), now
				if i < cut && r.IntN(3) > 0 { // the others are lost
					lastUp = a.at
					reports = append(reports, a)
				}
			}
			now = now.Add(time.Duration(r.Int64N(int64(700 * time.Millisecond))))
			if r.IntN(20) == 0 {
				now = now.Add(time.Duration(r.Int64N(int64(5 * time.Second))))
			}
			for len(under) > 0 && !under[0].at.After(now) {
				m := under[0]
				under = under[1:]
				e.get(m.at, m.numbers, m.life, greedy || r.IntN(2) == 0)
			}
			e.to(now, greedy || r.IntN(2) == 0)
			if e.spent > paid-b.purse+1e-6 {
				t.Fatalf("seed %d: %v spent, %v paid after %d messages", seed, e.spent, paid-b.purse, i+1)
			}
		}
		for _, m := range under {
			e.get(m.at, m.numbers, m.life, true)
		}
		e.to(now.Add(time.Minute), true)
		if e.spent > paid-b.purse+1e-6 {
			t.Fatalf("seed %d: %v spent in the end, %v paid", seed, e.spent, paid-b.purse)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
