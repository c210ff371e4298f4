package lease_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A world is one moment of a small fleet: its ledger, its holders, what is on
// the network, and how much was admitted. Moves lead from world to world, and
// leave the one that they start from as it was.
type world struct {
	*setting
	now     time.Duration
	ledger  *lease.Ledger
	members []member
	net     []letter // by member, life, Seq
	faults  int      // that may still happen: crashes, repeats, who quits or withdraws, lost states
	flushed bool     // the ledger's state was lost
	extra   float64  // tokens that may be admitted because of it
	revoked bool     // somebody withdrew: what was granted to them may be held instead

	// Admissions poured into leaky buckets: admitted when they happen, and gone
	// when the tokens leave for good, those for who waits when the ledger answers.
	admitted, gone bucket
	excess         float64 // worst level of admitted above Burst, by this move

	sum uint64 // digest of the ledger
}

// A setting is what does not change in a world.
type setting struct {
	limit  lease.Limit
	policy lease.Policy
	sizes  []float64     // tokens of a request
	waits  bool          // whether those who are told to wait for the ledger do
	stays  time.Duration // how long they stay through denials, 0 is impatient
}

// A member is a process with its holder. The clocks of odd ones are slow by a
// 1024th: half of what is allowed for.
type member struct {
	holder *lease.Holder
	life   int
	sent   time.Duration // true time of the outstanding request
	last   *lease.Waiter // the last to wait
	sum    uint64        // digest
}

// A letter is a request on its way, or a reply. One that is never delivered is
// lost.
type letter struct {
	to, life int
	seq      uint64
	request  *lease.Request // nil for a reply
	reply    lease.Reply
}

const (
	worldTimeout = 50 * time.Millisecond
	step         = 20 * time.Millisecond // as time goes on though nobody waits for it
)

func newWorld(s *setting, members, faults int) *world {
	w := &world{setting: s, now: time.Hour, ledger: new(lease.Ledger), members: make([]member, members), faults: faults}
	w.admitted = bucket{limit: s.limit, at: w.now}
	w.gone = w.admitted
	for i := range w.members {
		w.start(i)
		w.members[i].digest()
	}
	w.digestLedger()
	return w
}

func name(member, life int) string { return fmt.Sprintf("%c%d", 'a'+member, life) }

func (w *world) start(i int) {
	m := &w.members[i]
	m.life++
	m.holder, m.last = lease.NewHolder(name(i, m.life), w.limit, w.policy, uint64(i)), nil
}

// clock is the time of member i.
func (w *world) clock(i int) time.Duration { return clock(i, w.now) }

func clock(i int, now time.Duration) time.Duration {
	if i%2 == 0 {
		return now
	}
	return now - 50*time.Minute - now/1024
}

// when is the first whole µs at which the clock of member i shows at least that.
func when(i int, shows time.Duration) time.Duration {
	t := shows
	if i%2 == 1 {
		t = (shows + 50*time.Minute) / 1023 * 1024
	}
	t = t.Truncate(time.Microsecond)
	for clock(i, t) < shows {
		t += time.Microsecond
	}
	return t
}

// A move is one thing that happens.
type move struct {
	kind  string
	who   int           // member, or place in net
	n     float64       // tokens
	until time.Duration // of pass
}

func (m move) String() string {
	switch m.kind {
	case "pass":
		return fmt.Sprintf("until %v", m.until-time.Hour)
	case "flush":
		return "flush"
	case "take":
		return fmt.Sprintf("%c takes %v", 'a'+m.who, m.n)
	case "deliver", "answer", "repeat":
		return fmt.Sprintf("%s %d", m.kind, m.who)
	}
	return fmt.Sprintf("%c %s", 'a'+m.who, m.kind)
}

// moves are all that may happen next.
func (w *world) moves() (all []move) {
	for i := range w.members {
		m, now := &w.members[i], w.clock(i)
		for _, n := range w.sizes {
			all = append(all, move{kind: "take", who: i, n: n})
		}
		if m.holder.Held() >= 2 {
			all = append(all, move{kind: "spends all", who: i})
		}
		if w.calls(i) <= w.now {
			all = append(all, move{kind: "polls", who: i})
		}
		if w.faults == 0 {
			continue
		}
		all = append(all, move{kind: "crashes", who: i})
		if m.holder.Outstanding() == 0 && m.holder.Lease(now).Burst > 0 {
			all = append(all, move{kind: "quits", who: i})
		}
		if m.last != nil {
			all = append(all, move{kind: "withdraws", who: i})
		}
	}
	for i, p := range w.net {
		all = append(all, move{kind: "deliver", who: i})
		if p.request != nil {
			all = append(all, move{kind: "answer", who: i})
		}
		if w.faults > 0 {
			all = append(all, move{kind: "repeat", who: i})
		}
	}
	if w.faults > 0 && !w.flushed {
		all = append(all, move{kind: "flush"})
	}
	return append(all, w.passes()...)
}

// calls is when member i's holder wants to be polled.
func (w *world) calls(i int) time.Duration {
	m := &w.members[i]
	switch wake := m.holder.Wake(); {
	case m.holder.Outstanding() != 0:
		return m.sent + worldTimeout
	case wake == math.MaxInt64:
		return wake
	default:
		return when(i, wake)
	}
}

// passes lets time go on: to when the next holder calls, to when something of
// the next lease ends at the ledger, or by a step.
func (w *world) passes() (all []move) {
	next, end := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for i := range w.members {
		if at := w.calls(i); at > w.now {
			next = min(next, at)
		}
	}
	for _, r := range w.ledger.View().Holders {
		for _, at := range []time.Duration{duration(r.At + r.Until), r.Expires()} {
			if at > w.now {
				end = min(end, at)
			}
		}
	}
	all = append(all, move{kind: "pass", until: w.now + step})
	if next < math.MaxInt64 && next != w.now+step {
		all = append(all, move{kind: "pass", until: next})
	}
	if end < math.MaxInt64 && end != w.now+step && end != next {
		all = append(all, move{kind: "pass", until: end})
	}
	return all
}

// after is the world that m leads to.
func (w *world) after(m move) *world {
	next := *w
	next.members = slices.Clone(w.members)
	next.net = slices.Clone(w.net)
	next.excess = 0
	switch m.kind {
	case "deliver":
		next.deliver(m.who)
	case "answer":
		next.deliver(m.who)
		next.deliver(len(next.net) - 1)
	case "repeat":
		next.faults--
		next.net = append(next.net, next.net[m.who])
		next.deliver(m.who)
	case "flush":
		next.flush()
	case "pass":
		next.now = m.until
		next.admitted.pour(next.now, 0)
		next.gone.pour(next.now, 0)
		for i := range next.members {
			next.own(i).Remaining(next.clock(i))
		}
	default:
		next.act(m)
	}
	next.tidy()
	return &next
}

// own returns the holder of member i, to be changed.
func (w *world) own(i int) *lease.Holder {
	m := &w.members[i]
	m.holder, m.sum = m.holder.Clone(), 0
	return m.holder
}

// act is what a member does by itself.
func (w *world) act(m move) {
	h, now := w.own(m.who), w.clock(m.who)
	switch m.kind {
	case "take":
		switch h.Take(now, m.n) {
		case lease.Admitted:
			w.admit(m.n)
		case lease.Pending:
			if w.waits {
				waiter := &lease.Waiter{N: m.n}
				if w.stays > 0 {
					waiter.Until = now + w.stays
				}
				h.Enter(waiter)
				w.members[m.who].last = waiter
			}
		}
		if h.Due(now) {
			w.poll(m.who)
		}
	case "spends all":
		for h.Take(now, 1) == lease.Admitted {
			w.admit(1)
		}
		if h.Due(now) {
			w.poll(m.who)
		}
	case "polls":
		w.poll(m.who)
	case "crashes":
		w.faults--
		w.start(m.who)
	case "quits":
		w.faults--
		if q, ok := h.Quit(now); ok {
			w.send(m.who, q)
		}
	case "withdraws":
		w.faults--
		w.revoked = true
		h.Withdraw(now, w.members[m.who].last)
		w.members[m.who].last = nil
	}
}

// poll does a driver's duties.
func (w *world) poll(i int) {
	m, now := &w.members[i], w.clock(i)
	if m.holder.Outstanding() != 0 && w.now >= m.sent+worldTimeout {
		m.holder.Fail(now)
	}
	q, ok := m.holder.Poll(now)
	w.collect(i)
	if ok {
		w.send(i, q)
	}
}

func (w *world) collect(i int) {
	m := &w.members[i]
	for _, x := range m.holder.Resolved() {
		if x.Verdict == lease.Admitted {
			w.admit(x.N)
		}
		if x == m.last {
			m.last = nil
		}
	}
}

func (w *world) send(i int, q lease.Request) {
	m := &w.members[i]
	m.sent = w.now
	w.net = append(w.net, letter{to: i, life: m.life, seq: q.Seq, request: &q})
}

func (w *world) deliver(n int) {
	p := w.net[n]
	w.net = slices.Delete(w.net, n, n+1)
	if p.request != nil {
		if w.flushed && w.ledger.Limit() == (lease.Limit{}) && p.request.Claim.Left == 0 {
			w.extra += float64(w.limit.Burst) // it cannot know that the bucket was in use
		}
		w.ledger = w.ledger.Clone()
		p.reply, p.request = w.ledger.Exchange(w.now, *p.request), nil
		w.digestLedger()
		w.gone.tokens += p.reply.Taken
		w.net = append(w.net, p)
		return
	}
	if p.life != w.members[p.to].life {
		return
	}
	h := w.own(p.to)
	if h.Outstanding() != 0 && w.now >= w.members[p.to].sent+worldTimeout {
		h.Fail(w.clock(p.to))
	}
	if p.seq == h.Outstanding() {
		w.gone.tokens -= p.reply.Taken // it left when the ledger answered
	}
	h.Handle(w.clock(p.to), p.reply)
	w.poll(p.to)
	w.gone.tokens = max(w.gone.tokens, 0)
}

// flush loses the ledger's state. What old leases go on to hold, and to refill,
// beside the new one is extra: until their holders come back it does not know
// of them, and fills its pool to the brim.
func (w *world) flush() {
	for i := range w.members {
		w.extra += w.members[i].holder.Held()
	}
	for _, r := range w.ledger.View().Holders {
		if end := duration(r.At + r.Until); end > w.now && !r.Ended {
			w.extra += r.Rate * (end - w.now).Seconds()
		}
	}
	w.faults--
	w.ledger, w.flushed = new(lease.Ledger), true
	w.digestLedger()
}

func (w *world) admit(n float64) {
	w.gone.tokens += n
	w.excess = max(w.excess, w.admitted.pour(w.now, n)-float64(w.limit.Burst))
}

// tidy brings the world into the one form that it has, however it came about.
func (w *world) tidy() {
	w.net = slices.DeleteFunc(w.net, func(p letter) bool { // nobody would take it
		m := &w.members[p.to]
		return p.request == nil && (p.life != m.life || p.seq != m.holder.Outstanding())
	})
	slices.SortFunc(w.net, func(a, b letter) int {
		return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.life, b.life), cmp.Compare(a.seq, b.seq),
			cmp.Compare(a.kind(), b.kind()))
	})
	for i := range w.members {
		if w.members[i].sum == 0 {
			w.members[i].digest()
		}
	}
}

func (p *letter) kind() int {
	switch {
	case p.request != nil:
		return 0
	case p.reply.Stale:
		return 1
	}
	return 2
}

var digestSeed = maphash.MakeSeed()

func (m *member) digest() {
	b := m.holder.AppendState(make([]byte, 0, 1024))
	b = binary.BigEndian.AppendUint64(b, uint64(m.life))
	m.sum = maphash.Bytes(digestSeed, binary.BigEndian.AppendUint64(b, uint64(m.sent)))
}

func (w *world) digestLedger() {
	w.sum = maphash.Bytes(digestSeed, w.ledger.AppendState(make([]byte, 0, 1024)))
}

// digest is the same for two worlds if all that may happen in them is. (Two
// others have the same once in 2^64.)
func (w *world) digest() uint64 {
	b := make([]byte, 0, 1024)
	b = lease.AppendFields(b, struct {
		now            time.Duration
		ledger         uint64
		faults         int
		flushed        bool
		revoked        bool
		admitted, gone float64
		extra          float64
	}{w.now, w.sum, w.faults, w.flushed, w.revoked, w.admitted.tokens, w.gone.tokens, w.extra})
	for i := range w.members {
		b = binary.BigEndian.AppendUint64(b, w.members[i].sum)
	}
	for _, p := range w.net {
		b = lease.AppendFields(b, p)
	}
	return maphash.Bytes(digestSeed, b)
}

// check returns the invariant that does not hold.
func (w *world) check() error {
	v, burst := w.ledger.View(), float64(w.limit.Burst)

	// I1, and after a loss of the state, I6.
	way := 0.0 // what was granted to those who wait is on its way for so long
	if w.waits {
		way = w.limit.Rate * worldTimeout.Seconds()
	}
	if most := way + w.extra; w.excess > most+rounding {
		return fmt.Errorf("I1: %.3f tokens above Burst + Rate*T, %.3f allowed, %.3f of them as state was lost", w.excess, most, w.extra)
	}

	// I2.
	spendable := 0.0
	for i := range w.members {
		h := w.members[i].holder
		held := h.Held() // as of now: a move tells it the time
		spendable += held
		if w.flushed {
			continue
		}
		record := find(v, name(i, w.members[i].life))
		switch {
		case held > 0 && (record == nil || record.Expires() <= w.now):
			return fmt.Errorf("I2: %c holds %v tokens of a lease that has ended: %+v", 'a'+i, held, record)
		case h.Running(w.clock(i)) && (record == nil || duration(record.At+record.Until) <= w.now):
			return fmt.Errorf("I2: %c refills after the end of its rate: %+v", 'a'+i, record)
		}
	}

	// I3. What is left and what has gone came from somewhere.
	allowed := burst + w.extra
	if w.revoked {
		allowed += way
	}
	if all := v.Pool + spendable + w.gone.tokens; all > allowed+nanoseconds {
		return fmt.Errorf("I3: %.3f tokens left or are left, %.3f allowed, %.3f of them as state was lost", all, allowed, w.extra)
	}

	// I4.
	if err := divided(v); err != nil {
		return err
	}
	if v.Pool+v.Bursts > float64(v.Limit.Burst) || v.Rates > v.Limit.Rate {
		return fmt.Errorf("I4: more is divided than there is: %+v", v)
	}
	return nil
}
