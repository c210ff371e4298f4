package lua_test

import (
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A history is a story of one key that bytes decide: real holders with their
// traffic, and between them requests that no holder would send but that are
// valid. Messages are lost, repeated and late; clocks jump; state is lost.
type history struct {
	script []byte
	now    time.Duration              // on the server's clock
	count  int                        // exchanges
	most   func(*history) lease.Limit // what most limits are, nil for buckets
	// most are of few requests and a large limit, so that the key is calm
	quiet bool

	classes  []lease.Class // of requests of every other actor, nil for none
	limits   []lease.Limit
	policies []lease.Policy
	actors   []*actor
	late     []lease.Request // sent, not arrived yet
	old      []lease.Request // arrived
	last     lease.Reply

	exchange func(now time.Duration, q lease.Request) (lease.Reply, error)
	flush    func() error
}

// actor is a process: either a real Holder or one that makes up its requests.
type actor struct {
	id        string
	starts    int
	classed   bool
	holder    *lease.Holder
	seq, seen uint64
	last      lease.Reply
	reserved  []lease.Reserved // by the holder
	waits     *lease.Waiter    // the last one of the holder's
	ends      time.Duration    // of last, after the beginning
}

func newHistory(script []byte, most func(*history) lease.Limit, classed bool) *history {
	h := &history{script: script, now: time.Duration(1e18), most: most}
	if classed {
		h.classes = h.someClasses()
	}
	for range 1 + h.pick(3) {
		h.limits = append(h.limits, h.limit())
		h.policies = append(h.policies, h.policy())
		if p := &h.policies[len(h.policies)-1]; classed {
			p.Fairness, p.Mode = lease.Proportional, choose(h, p.Mode, lease.Auto)
			if p.Mode == lease.Batches {
				p.Mode = lease.PerRequest
			}
		}
	}
	if h.quiet = h.pick(3) == 0; h.quiet {
		h.limits[0] = choose(h, lease.Limit{Rate: 1000, Burst: 1000}, lease.Limit{Rate: 100, Burst: 500}, lease.Limit{Rate: 30, Burst: 100})
		h.policies[0] = lease.Policy{MaxHold: choose(h, 0, 0, time.Second, time.Minute+1)}.Resolved()
	}
	for i := range 1 + h.pick(7) {
		h.actors = append(h.actors, &actor{id: fmt.Sprintf("p%d", i), classed: i%2 == 0 && h.classes != nil})
	}
	return h
}

func (h *history) over() bool { return len(h.script) == 0 }

// pick returns a number below n, 0 when the script is over.
func (h *history) pick(n int) int {
	if len(h.script) == 0 {
		return 0
	}
	b := h.script[0]
	h.script = h.script[1:]
	return int(b) % n
}

func choose[T any](h *history, from ...T) T { return from[h.pick(len(from))] }

func (h *history) limit() lease.Limit {
	if h.most != nil && h.pick(8) > 0 {
		return h.most(h)
	}
	const month = 30 * 24 * time.Hour
	return choose(h,
		lease.Limit{Rate: 1000, Burst: 1000},
		lease.Limit{Rate: 100, Burst: 20},
		lease.Limit{Rate: 3.7, Burst: 50},
		lease.Limit{Rate: 1e5, Burst: 12345},
		lease.Per(10, time.Minute),
		lease.Per(1, month),
		lease.Per(1000, 7*24*time.Hour),
		lease.Limit{Rate: 1 / lease.MaxFill.Seconds(), Burst: 1},
		lease.Limit{Rate: 14, Burst: lease.MaxBurst},
		lease.Limit{Rate: lease.MaxRate, Burst: lease.MaxBurst},
		lease.Limit{Rate: lease.MaxRate, Burst: 1},
		lease.Limit{Rate: 1 + float64(h.pick(256))/7, Burst: int64(1 + h.pick(256))},
	)
}

func (h *history) policy() lease.Policy {
	p := lease.Policy{
		Mode:     choose(h, lease.Auto, lease.Auto, lease.Auto, lease.Shares, lease.Batches, lease.PerRequest),
		Fairness: choose(h, lease.Proportional, lease.MaxMin),
		Batch:    choose[int64](h, 0, 1, 10, 1000, lease.MaxBurst),
		Smallest: choose[int64](h, 0, 1, 50),
	}
	if h.pick(2) == 1 {
		p.MaxRefresh = choose(h, time.Millisecond, 7777*time.Microsecond, 100*time.Millisecond+1, time.Second, time.Hour)
	}
	if h.pick(3) == 1 {
		refresh := p.Resolved().MaxRefresh
		p.MaxHold = choose(h, refresh, min(3*refresh, time.Hour), min(200*refresh, time.Hour), time.Hour)
	}
	if h.pick(4) == 1 {
		p.Headroom = choose(h, 1e-9, 0.3, 1)
		p.BurstShare = choose(h, 1e-9, 0.9, 1)
		p.Reserve = choose(h, 1e-9, 0.3, 0.999)
	}
	return p.Resolved()
}

// someClasses are one to eight.
func (h *history) someClasses() (list []lease.Class) {
	left := 1.0
	for i := range 1 + h.pick(lease.MaxClasses) {
		floor := min(choose(h, 0, 0, 0.1, 0.25, 1.0/3, 0.5, 1), left)
		left -= floor
		list = append(list, lease.Class{
			Name: fmt.Sprint("c", i), Floor: floor, Weight: choose(h, 0, 0, 1, 2, 1.0/3, 1<<20),
		})
	}
	return list
}

// step lets one thing happen.
func (h *history) step() error {
	if h.quiet && h.pick(4) > 0 {
		return h.sparse(choose(h, h.actors...))
	}
	switch h.pick(16) {
	case 0, 1, 2:
		h.now += h.pause()
	case 3:
		h.now -= h.pause()
	case 11: // until the rate, or the tokens, of the last lease have ended
		h.now += choose(h, h.last.RateUntil, h.last.RateUntil+h.last.Refresh, h.last.Expires)
	case 4, 5, 6:
		return h.odd(choose(h, h.actors...))
	case 7: // a message that was on its way arrives
		if n := len(h.late); n > 0 {
			q := h.late[n-1]
			h.late = h.late[:n-1]
			_, err := h.arrive(q)
			return err
		}
	case 8: // one that has arrived comes again
		if n := len(h.old); n > 0 {
			_, err := h.arrive(h.old[max(n-1-h.pick(12), 0)])
			return err
		}
	case 9: // a process starts anew, in the place of another
		a := choose(h, h.actors...)
		a.starts++
		*a = actor{id: a.id, starts: a.starts, classed: a.classed}
	case 10:
		if h.pick(4) == 0 {
			return h.flush()
		}
	default:
		return h.drive(choose(h, h.actors...))
	}
	return nil
}

// pause is from a microsecond to hours.
func (h *history) pause() time.Duration {
	unit := choose(h, time.Microsecond, time.Millisecond, 10*time.Millisecond, 100*time.Millisecond,
		100*time.Millisecond, time.Second, time.Minute, time.Hour)
	return time.Duration(1+h.pick(256)) * unit / 16
}

// sparse asks as a process with a few requests a second does, of a key that is
// calm unless other things happen to it. A made-up process uses some of what it
// was lent.
func (h *history) sparse(a *actor) error {
	h.now += time.Duration(1+h.pick(256)) * choose(h, time.Millisecond, 20*time.Millisecond)
	if a.holder != nil {
		return h.drive(a)
	}
	p := h.policies[0]
	p.Mode = choose(h, lease.Auto, lease.PerRequest)
	a.seq++
	q := lease.Request{
		Holder: a.name(), Seq: a.seq, Seen: a.seen, Take: float64(h.pick(2)), Demand: float64(h.pick(40)) / 3,
		Limit: h.limits[0], Policy: p,
	}
	if h.now < time.Duration(1e18)+a.ends {
		q.Held = math.Floor(a.last.Keep * float64(h.pick(4)) / 4)
		q.Claim = lease.Claim{Rate: a.last.Rate, Burst: a.last.Burst, Left: time.Duration(1e18) + a.ends - h.now}
	}
	q.ByClass = h.byClass(a, &q)
	r, err := h.arrive(q)
	if err == nil && h.pick(8) > 0 {
		a.seen, a.last, a.ends = a.seq, r, h.now+r.Expires-time.Duration(1e18)
	}
	return err
}

// drive lets a real Holder see some traffic and carries its request.
func (h *history) drive(a *actor) error {
	if a.holder == nil {
		if a.seq > 0 {
			return h.odd(a)
		}
		i := h.pick(len(h.limits))
		a.holder = lease.NewHolder(a.name(), h.limits[i], &h.policies[i], uint64(h.pick(256)))
		if a.classed {
			a.holder.Divide(h.classes)
		}
	}
	pick := h.pick(256)
	n := choose(h, 1, 1, 1, 5, 40)
	for range 1 + pick%16 {
		h.now += time.Duration(pick>>4) * time.Millisecond / 4
		h.ask(a, pick, float64(n))
		q, ok := a.holder.Request(h.now)
		if !ok && pick == 77 {
			q, ok = a.holder.Quit(h.now)
		}
		if ok {
			return h.carry(a, q)
		}
	}
	return nil
}

// ask takes tokens of a's holder, or reserves them; or it charges some, gives some back, or ends a
// reservation.
func (h *history) ask(a *actor, pick int, n float64) {
	switch pick % 32 {
	case 7:
		a.holder.Charge(h.now, n)
		return
	case 15, 23, 31:
		a.holder.Refund(h.now, n)
	}
	if len(a.reserved) > 0 && pick%3 == 0 {
		r := a.reserved[0]
		a.reserved = a.reserved[1:]
		a.holder.Release(h.now, r, math.Floor(r.Tokens*float64(h.pick(5))/4))
	}
	if pick%8 == 6 && a.waits != nil {
		a.holder.Withdraw(h.now, a.waits)
	}
	class := uint8(pick/8) % lease.MaxClasses
	if a.classed {
		class %= uint8(len(h.classes))
		a.holder.As(class)
	} else {
		class = 0
	}
	w := &lease.Waiter{N: n, Class: class}
	switch {
	case pick%8 == 1 || a.holder.InForce().Kind == lease.KindSlots:
		w.Hold = lease.WhileOpen
	case pick%8 == 5:
		w.Hold = time.Second
	}
	if pick%2 == 0 {
		w.Until = h.now + time.Duration(pick)*time.Millisecond
	}
	var v lease.Verdict
	if w.Hold > 0 {
		var r lease.Reserved
		if r, v = a.holder.Reserve(h.now, n); v == lease.Admitted {
			a.reserved = append(a.reserved, r)
		}
	} else {
		v = a.holder.Take(h.now, n)
	}
	if v == lease.Pending {
		a.holder.Enter(w)
		a.waits = w
	}
	for _, w := range a.holder.Ready(h.now).Resolved {
		if w.Hold > 0 && w.Verdict == lease.Admitted {
			a.reserved = append(a.reserved, w.Reserved)
		}
	}
}

// carry brings a's request to the ledger and the reply back, unless either gets
// lost or is late.
func (h *history) carry(a *actor, q lease.Request) error {
	fate := h.pick(16)
	if fate == 1 {
		h.late = append(h.late, q)
		a.holder.Fail(h.now)
		return nil
	}
	r, err := h.arrive(q)
	if err != nil {
		return err
	}
	if fate == 2 {
		a.holder.Fail(h.now)
		return nil
	}
	h.now += time.Duration(fate) * 100 * time.Microsecond
	a.holder.Handle(h.now, r)
	return nil
}

func (h *history) arrive(q lease.Request) (lease.Reply, error) {
	if err := q.Validate(); err != nil {
		return lease.Reply{}, fmt.Errorf("the history itself is wrong: %w", err)
	}
	h.count++
	h.old = append(h.old, q)
	r, err := h.exchange(h.now, q)
	h.last = r
	return r, err
}

// odd sends a request that is valid, and may be plausible or not.
func (h *history) odd(a *actor) error {
	if a.holder != nil {
		return h.drive(a)
	}
	i := h.pick(len(h.limits))
	a.seq += uint64(1 + h.pick(2))
	q := lease.Request{
		Holder: a.name(), Seq: a.seq, Seen: a.seen,
		Take: math.Floor(h.tokens()), Give: h.tokens(), Held: h.tokens(),
		Demand: min(h.tokens()*choose[float64](h, 0, 1, 1, 10), 1<<40),
		Lag:    choose(h, 0, time.Millisecond, 12345*time.Microsecond, 2*time.Second, math.MaxInt64),
		Limit:  h.limits[i], Policy: h.policies[i],
	}
	q.Min = choose(h, q.Take, 0, math.Floor(q.Take/2))
	if q.Limit.Kind == lease.KindSliding {
		q.Used = choose(h, 0, math.Floor(q.Held/2), q.Held, h.tokens())
	}
	q.Got, q.Peak = choose(h, 0, h.tokens()), choose(h, 0, q.Held, h.tokens())
	q.Denied = choose(h, 0, 0, 0, 1, h.tokens())
	q.Hold = choose(h, 0, 0, 0, 0, lease.WhileOpen, time.Second, time.Microsecond)
	if h.pick(4) == 0 {
		q.Debt, q.Since = h.tokens(), choose(h, 1, q.Seq, q.Seq-uint64(h.pick(2)))
		q.Since = max(q.Since, 1)
		if q.Limit.Kind == lease.KindQuota && h.pick(2) == 0 {
			q.Debt, q.Since = -q.Debt, max(a.last.Fence-uint64(h.pick(2)), 1)
		}
	}
	q.Unit = choose(h, 0, 1, math.Floor(q.Take/3), q.Min)
	if h.pick(3) > 0 {
		q.Claim = lease.Claim{Rate: h.tokens(), Burst: h.tokens(), Left: choose(h, 1, time.Millisecond, time.Hour)}
	}
	if h.pick(4) > 0 { // it keeps a lawful part of what it had
		q.Held = math.Min(a.last.Add+a.last.Burst, q.Held)
	}
	q.ByClass = h.byClass(a, &q)
	r, err := h.arrive(q)
	if err == nil && h.pick(5) > 0 {
		a.seen, a.last = a.seq, r
	}
	return err
}

// byClass is what a made-up request tells of its classes, if its actor has any. In one of eight it
// does not tell.
func (h *history) byClass(a *actor, q *lease.Request) *lease.ByClass {
	if !a.classed || !q.Limit.Kind.Classes() || h.pick(8) == 0 {
		return nil
	}
	b := &lease.ByClass{Classes: h.classes, First: h.pick(len(h.classes))}
	for c := range h.classes {
		b.Demand[c] = min(h.tokens(), 1<<40)
		if q.Limit.Kind == lease.KindQuota {
			b.Own[c] = choose(h, 0, math.Floor(q.Held/3), h.tokens())
			b.Debt[c] = choose(h, 0, math.Floor(max(q.Debt, 0)/3), h.tokens())
			b.Back[c] = choose(h, 0, math.Floor(q.Give/3), h.tokens(), -h.tokens())
		}
	}
	return b
}

// tokens is a number of tokens, or of tokens/s.
func (h *history) tokens() float64 {
	x := float64(h.pick(256))
	return choose(h, 0, 0, 1, x, x, x/7, x*x/3, x*1000, x*1e-9, x*1e-300, x*(1<<32), 1<<40)
}

func (a *actor) name() string { return fmt.Sprintf("%s-%d", a.id, a.starts) }
