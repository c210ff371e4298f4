package lease_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// A mixed fleet is processes whose requests are of several sizes, and a network that
// takes a millisecond each way.
type mixed struct {
	limit    lease.Limit
	policy   lease.Policy
	large    float64       // tokens of each request of the first process; of the others 1
	part     float64       // the first one's part of the load
	load     float64       // of all, in units of the limit's Rate
	patience time.Duration // of all; 0 is impatient

	rng     *rand.Rand
	now     time.Duration
	ledger  lease.Ledger
	members []*mixedMember
	calls   int
}

type mixedMember struct {
	holder   *lease.Holder
	size     float64
	arrives  time.Duration
	request  *lease.Request
	reply    lease.Reply
	due      time.Duration // when the one or the other arrives
	offered  float64       // tokens
	admitted float64
	longest  time.Duration // between two admissions
	last     time.Duration
}

const mixedProcesses = 10

// run plays it for some time, and begins to count after a warm-up.
func (m *mixed) run(warm, length time.Duration) {
	m.rng = rand.New(rand.NewPCG(1, 2))
	for i := range mixedProcesses {
		p := &mixedMember{size: 1}
		if i == 0 {
			p.size = m.large
		}
		p.holder = lease.NewHolder(fmt.Sprint("h", i), m.limit, &m.policy, uint64(i))
		m.members = append(m.members, p)
		p.arrives = m.gap(p)
	}
	for begun := false; m.now < warm+length; m.now += 251 * time.Microsecond {
		if !begun && m.now >= warm {
			begun, m.calls = true, 0
			for _, p := range m.members {
				p.offered, p.admitted, p.longest, p.last = 0, 0, 0, m.now
			}
		}
		for _, p := range m.members {
			m.step(p)
		}
	}
	for _, p := range m.members {
		p.longest = max(p.longest, m.now-p.last)
	}
}

// gap is the time until the next request of p.
func (m *mixed) gap(p *mixedMember) time.Duration {
	part := (1 - m.part) / (mixedProcesses - 1)
	if p == m.members[0] {
		part = m.part
	}
	return time.Duration(m.rng.ExpFloat64() / (part * m.load * m.limit.Rate / p.size) * 1e9)
}

func (m *mixed) step(p *mixedMember) {
	for ; p.arrives <= m.now; p.arrives += m.gap(p) {
		p.offered += p.size
		switch p.holder.Take(m.now, p.size) {
		case lease.Admitted:
			m.admit(p)
		case lease.Pending:
			p.holder.Enter(m.waiter(p))
		case lease.Denied:
			if wait := p.holder.RetryAfter(m.now, p.size); m.patience > 0 && wait < m.patience {
				p.holder.Enter(m.waiter(p))
			}
		}
	}
	if p.request != nil && m.now >= p.due {
		p.reply, p.request, p.due = m.ledger.Exchange(m.now, *p.request), nil, m.now+ms
	} else if p.holder.Outstanding() != 0 && m.now >= p.due {
		p.holder.Handle(m.now, p.reply)
	}
	r := p.holder.Ready(m.now)
	for _, w := range r.Resolved {
		if w.Verdict == lease.Admitted {
			m.admit(p)
		}
	}
	if r.Ask {
		q, _ := p.holder.Request(m.now)
		p.request, p.due = &q, m.now+ms
		m.calls++
	}
}

func (m *mixed) waiter(p *mixedMember) *lease.Waiter {
	w := &lease.Waiter{N: p.size}
	if m.patience > 0 {
		w.Until = m.now + m.patience
	}
	return w
}

func (m *mixed) admit(p *mixedMember) {
	p.admitted += p.size
	p.longest = max(p.longest, m.now-p.last)
	p.last = m.now
}

// TestEarmark: one process with large requests among nine with small ones, at twice the
// limit, has at least half of its share, and more than a quarter where the limit fills
// the bucket in a tenth of a second. It prints a table (ADR 5).
func TestEarmark(t *testing.T) {
	length := longform.Of(10*time.Second, time.Minute)
	t.Log("| limit | tokens | of the load | patience | of its share | longest wait | all | calls/s |")
	t.Log("|---|---|---|---|---|---|---|---|")
	limits := []lease.Limit{
		{Rate: 1000, Burst: 100}, {Rate: 1000, Burst: 1000}, {Rate: 10000, Burst: 1000},
		{Rate: 100, Burst: 100},
	}
	for _, limit := range limits[:longform.Of(1, len(limits))] {
		for _, c := range []struct{ large, part float64 }{{90, 0.1}, {20, 0.02}, {20, 0.1}, {50, 0.1}}[:longform.Of(2, 4)] {
			for _, patience := range []time.Duration{0, time.Hour} {
				m := mixed{limit: limit, large: c.large, part: c.part, load: 2, patience: patience}
				m.run(5*time.Second, length)
				p, all := m.members[0], 0.0
				for _, p := range m.members {
					all += p.admitted
				}
				share := p.admitted / (c.part * limit.Rate * length.Seconds())
				t.Logf("| %v | %v | %v | %v | %.2f | %v | %.3f | %.0f |", limit, c.large, c.part, patience,
					share, p.longest.Round(10*ms), all/limit.Rate/length.Seconds(), float64(m.calls)/length.Seconds())
				least := 0.5
				if limit.Rate > 1000 {
					least = 0.22
				}
				usual := time.Duration(c.large / (c.part * limit.Rate) * 1e9)
				if share < least || p.longest > max(8*usual, time.Second) {
					t.Errorf("%v, %+v, %v: %.2f of its share, waits for %v", limit, c, patience,
						share, p.longest)
				}
			}
		}
	}
}

// TestEarmarkOfOneThatIsGone: a process asks once for nearly the whole Burst, and never
// again. The others miss little of the limit for it, and not for long.
func TestEarmarkOfOneThatIsGone(t *testing.T) {
	for _, c := range []struct {
		n     float64
		least float64 // of what the limit admits in ten seconds
	}{{500, 0.95}, {900, 0.65}, {1000, 0.65}} {
		var l lease.Ledger
		at, taken := time.Second, 0.0
		for seq := range uint64(12_000) {
			at += ms
			if seq == 2000 {
				l.Exchange(at, ask("large", 1, func(q *lease.Request) { q.Take, q.Min = c.n, c.n }))
			}
			r := l.Exchange(at, ask("small", seq+1, func(q *lease.Request) {
				q.Seen, q.Take, q.Min, q.Demand = seq, 2, 1, 1500
				q.Policy.Mode, q.Policy.MaxHold = lease.PerRequest, q.Policy.MaxRefresh
			}))
			if seq >= 2000 {
				taken += r.Taken
			}
		}
		if taken < c.least*10_000 {
			t.Errorf("after a request for %v of 1000, the others got %v of 10,000", c.n, taken)
		}
	}
}

// TestEarmarkEndsADenial: who is denied for an earmark asks again soon. Its caller may be gone before
// the whole rate has brought it.
func TestEarmarkEndsADenial(t *testing.T) {
	var l lease.Ledger
	limit := func(q *lease.Request) {
		q.Limit, q.Demand, q.Policy.Mode = lease.Limit{Rate: 1, Burst: 100}, 1, lease.PerRequest
	}
	l.Exchange(0, ask("z", 1, func(q *lease.Request) { limit(q); q.Take, q.Min = 95, 1 }))
	l.Exchange(0, ask("x", 1, func(q *lease.Request) { limit(q); q.Take, q.Min = 90, 90 }))
	r := l.Exchange(0, ask("y", 1, func(q *lease.Request) { limit(q); q.Take, q.Min = 1, 1 }))
	if v := l.View(); r.Taken > 0 || r.RetryAfter > 250*ms || v.Bursts > 0 || v.Earmark == 0 {
		t.Errorf("%v taken, asks again after %v; %v lent, an earmark of %v", r.Taken, r.RetryAfter, v.Bursts, v.Earmark)
	}
}

// TestEarmarkFollowsTheLimit: under a lowered Burst nothing is kept for a request that is larger.
func TestEarmarkFollowsTheLimit(t *testing.T) {
	var l lease.Ledger
	large := func(id string, seq uint64, n float64, burst int64) {
		l.Exchange(time.Second, ask(id, seq, func(q *lease.Request) {
			q.Take, q.Min, q.Limit.Burst, q.Policy.Mode = n, n, burst, lease.PerRequest
		}))
	}
	l.Exchange(time.Second, ask("x", 1, func(q *lease.Request) { q.Take, q.Min = 1000, 1 }))
	large("a", 1, 900, 1000)
	large("b", 1, 390, 400)
	large("a", 2, 900, 400)
	if v := l.View(); v.Earmark != 390 || find(v, "a").Marked || !find(v, "b").Marked {
		t.Errorf("%+v", v)
	}
}

// TestLine: those that were denied take their own in the order in which they were, when the pool has
// filled to it. Who comes before that takes what is not kept for others, though it is the first to
// come. So does one whose callers do not wait: nothing is kept for it, and it has its turn.
func TestLine(t *testing.T) {
	var l lease.Ledger
	seqs := map[string]uint64{}
	take := func(at time.Duration, id string, n, demand float64, waits bool) lease.Reply {
		seqs[id]++
		return l.Exchange(time.Hour+at, ask(id, seqs[id], func(q *lease.Request) {
			q.Limit, q.Policy.Mode = lease.Limit{Rate: 10, Burst: 10}, lease.PerRequest
			q.Take, q.Min, q.Unit, q.Demand, q.Waits = n, 1, 1, demand, waits
		}))
	}
	take(0, "z", 10, 10, false)
	for _, c := range []struct {
		at     time.Duration
		id     string
		n      float64 // that wait
		demand float64
		waits  bool
		taken  float64
		turn   time.Duration // after at
	}{
		{0, "a", 10, 15, true, 0, 100 * ms}, // nobody else: its first token
		{0, "b", 4, 5, true, 0, 0},
		{0, "c", 1, 0, false, 0, 250 * ms},
		{300 * ms, "d", 1, 0, false, 0, 250 * ms}, // the pool has three, which are kept for a
		{300 * ms, "a", 10, 15, true, 3, 0},
	} {
		r := take(c.at, c.id, c.n, c.demand, c.waits)
		if r.Taken != c.taken || c.turn > 0 && r.RetryAfter != c.turn {
			t.Errorf("%v: %s takes %v, and has its turn after %v, not %v after %v",
				c.at, c.id, r.Taken, r.RetryAfter, c.taken, c.turn)
		}
	}
	turn := func(id string) time.Duration {
		v := find(l.View(), id)
		return time.Duration(v.At+v.Until)*time.Microsecond - time.Hour
	}
	if b, c := turn("b"), turn("c"); c <= b {
		t.Errorf("b has its turn at %v, c that came later at %v", b, c)
	}
	at := turn("b")
	if r := take(at-ms, "b", 4, 5, true); r.Taken > 0 {
		t.Errorf("%v taken before the turn", r.Taken)
	}
	if r := take(at, "b", 4, 5, true); r.Taken < 1 {
		t.Errorf("%v taken in its turn at %v", r.Taken, at)
	}
	if r := take(turn("c"), "c", 1, 0, false); r.Taken != 1 {
		t.Errorf("who does not wait takes %v in its turn", r.Taken)
	}
}

// TestRolledBack: a state that has lost its last answers, as that of a promoted replica,
// does not give back what the holder has had of them.
func TestRolledBack(t *testing.T) {
	for _, seen := range []uint64{1, 7} {
		var l lease.Ledger
		r := l.Exchange(time.Second, ask("a", 1, demanding(500)))
		before := l.View().Pool
		l.Exchange(time.Second, ask("a", 9, func(q *lease.Request) { q.Seen, q.Got = seen, r.Add }))
		if pool := l.View().Pool; pool > before {
			t.Errorf("seen %d: the pool has %v, and had %v", seen, pool, before)
		}
	}
}

// TestEarmarkWithoutSlices: large requests are served where nobody owns a slice, too.
func TestEarmarkWithoutSlices(t *testing.T) {
	for _, mode := range []lease.Mode{lease.PerRequest, lease.Batches, lease.Auto} {
		for _, limit := range []lease.Limit{{Rate: 1000, Burst: 100}, {Rate: 50, Burst: 60}} {
			m := mixed{
				limit: limit, policy: lease.Policy{Mode: mode}, large: 50, part: 0.1, load: 2,
				patience: time.Hour,
			}
			length := longform.Of(10*time.Second, time.Minute)
			m.run(5*time.Second, length)
			p := m.members[0]
			share := p.admitted / (m.part * limit.Rate * length.Seconds())
			if share < 0.5 || p.longest > 30*time.Second {
				t.Errorf("%v, %v: %.2f of its share, waits for %v", mode, limit, share, p.longest)
			}
		}
	}
}

// TestEarmarkOfASlowBucket: who has an earmark asks for it no more often than there is a token
// more.
func TestEarmarkOfASlowBucket(t *testing.T) {
	var l lease.Ledger
	take := func(id string, n float64) lease.Reply {
		return l.Exchange(time.Hour, ask(id, 1, func(q *lease.Request) {
			q.Limit, q.Policy.Mode = lease.Limit{Rate: 1. / 60, Burst: 10}, lease.PerRequest
			q.Take, q.Min = n, n
		}))
	}
	take("a", 10)
	r := take("b", 5)
	if v := find(l.View(), "b"); v == nil || !v.Marked || (r.RetryAfter-time.Minute).Abs() > ms {
		t.Errorf("asks again after %v, want a minute: %+v", r.RetryAfter, v)
	}
}
