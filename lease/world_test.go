package lease_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/maphash"
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
	faults  int      // that may still happen: crashes, repeats, lost states, who quits, withdraws, declares another limit
	flushed bool     // the ledger's state was lost
	extra   float64  // tokens that may be admitted because of it
	revoked bool     // somebody withdrew: what was granted to them may be held instead
	charges int      // that may still come
	broken  error    // a rule that the move has broken, if it can be seen only then
	unpaid  float64  // debts that nobody will pay: of crashed holders, and of lost states

	// Admissions poured into leaky buckets: admitted when they happen, and gone
	// when the tokens leave for good, those for who waits when the ledger answers.
	admitted, gone bucket
	excess         float64 // worst level of admitted above Burst, by this move

	sum uint64 // digest of the ledger
}

// A setting is what does not change in a world.
type setting struct {
	limit  lease.Limit // the largest
	lower  lease.Limit // that processes of another version declare, if it is not zero
	policy lease.Policy
	sizes  []float64     // tokens of a request
	keeps  float64       // tokens of a reservation, which are used or given back later; 0 for none
	charge float64       // tokens that are charged at once; 0 for nothing
	waits  bool          // whether those who are told to wait for the ledger do
	stays  time.Duration // how long they stay through denials, 0 is impatient
}

// A member is a process with its holder. The clocks of odd ones are slow by a
// 1024th: half of what is allowed for.
type member struct {
	holder *lease.Holder
	life   int
	sent   time.Duration // true time of the outstanding request
	wake   time.Duration // as the holder last said
	last   *lease.Waiter // the last to wait

	reserved []lease.Reserved
	late     lease.Reserved // one whose lease has ended
	debts
	lower bool   // it declares the lower limit
	sum   uint64 // digest
}

// A letter is a request on its way, or a reply. One that is never delivered is
// lost.
type letter struct {
	to, life int
	seq      uint64
	request  *lease.Request // nil for a reply
	reply    lease.Reply
}

// debts are what is known from outside of those of a member.
type debts struct {
	carried float64 // by the request that was sent last, or by those before it
	since   uint64  // as that says
	posted  uint64  // the same, of what the ledger has debited
	told    bool    // a request has carried one, and no answer has said yet that the pool is at 0
}

// mostCharges is how many charges come in a world.
const mostCharges = 2

const (
	worldTimeout = 50 * time.Millisecond
	step         = 20 * time.Millisecond // as time goes on though nobody waits for it
)

func newWorld(s *setting, members, faults int) *world {
	w := &world{setting: s, now: time.Hour, ledger: new(lease.Ledger), members: make([]member, members), faults: faults}
	if s.charge > 0 {
		w.charges = mostCharges
	}
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
	m.holder = lease.NewHolder(name(i, m.life), w.limit, &w.policy, uint64(i))
	m.wake, m.last, m.lower, m.reserved = 0, nil, false, nil
	m.late, m.debts = lease.Reserved{}, debts{}
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
	b = lease.AppendFields(b, m.reserved)
	b = lease.AppendFields(b, m.late)
	b = lease.AppendFields(b, m.debts)
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
		window         float64
		charges        int
		unpaid         float64
		log            slidingLog
	}{
		w.now, w.sum, w.faults, w.flushed, w.revoked, w.admitted.tokens, w.gone.tokens, w.extra,
		w.admitted.window,
		w.charges, w.unpaid, w.admitted.log,
	})
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
	if w.broken != nil {
		return w.broken
	}
	if err := w.checkReserves(); err != nil {
		return err
	}
	v, burst := w.ledger.View(), float64(w.limit.Burst)
	switch w.limit.Kind {
	case lease.KindQuota:
		return w.checkQuota(v)
	case lease.KindSlots:
		return w.checkSlots(v)
	case lease.KindSliding:
		return w.checkSliding(v)
	}

	// I1, and after a loss of the state, I6.
	way := 0.0 // what was granted to those who wait is on its way for so long
	if w.waits {
		way = w.limit.Rate * worldTimeout.Seconds()
	}
	if most := way + w.extra + w.owed() + max(-v.Pool, 0); w.excess > most+rounding {
		return fmt.Errorf("I1: %.3f tokens above Burst + Rate*T, %.3f allowed, %.3f of them as state was lost", w.excess, most, w.extra)
	}

	// I2.
	spendable := 0.0
	for i := range w.members {
		h := w.members[i].holder
		held := h.Held() // as of now: a move tells it the time
		spendable += held + h.Reserving()
		if l := h.Lease(w.clock(i)); held+h.Reserving() > l.Burst+rounding {
			return fmt.Errorf("I1: %c holds %v and has reserved %v, in a lease of %v", 'a'+i, held, h.Reserving(), l.Burst)
		}
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
	if all := v.Pool + spendable + w.gone.tokens - w.owed(); all > allowed+nanoseconds {
		return fmt.Errorf("I3: %.3f tokens left or are left, %.3f allowed, %.3f of them as state was lost", all, allowed, w.extra)
	}

	// I4.
	if err := divided(v); err != nil {
		return err
	}
	if w.lower == (lease.Limit{}) && (v.Pool+v.Bursts > float64(v.Limit.Burst) || v.Rates > v.Limit.Rate) {
		return fmt.Errorf("I4: more is divided than there is: %+v", v)
	}
	return nil
}

// owed is what the ledger has not debited of what was charged.
func (w *world) owed() float64 {
	owed := w.unpaid
	for i := range w.members {
		owed += w.members[i].owed()
	}
	return owed
}

func (m *member) owed() float64 {
	if m.carried > 0 && m.posted == m.since {
		return m.holder.Owed() - m.carried
	}
	return m.holder.Owed()
}

// checkReserves returns a rule of what is reserved and owed that does not hold.
func (w *world) checkReserves() error {
	for i := range w.members {
		m, now := &w.members[i], w.clock(i)
		h := m.holder
		heard := h.Outstanding() == 0 && h.Failures() == 0
		switch l := h.Lease(now); {
		case h.Owed() > m.carried && h.Held() > 0:
			return fmt.Errorf("R1: %c holds %v, and has not paid what it owes", 'a'+i, h.Held())
		case h.Owed() > 0 && heard:
			return fmt.Errorf("R2: %c owes %v, and tells nobody", 'a'+i, h.Owed())
		case w.limit.Kind == lease.KindBucket && h.Reserving() > 0 && heard && m.wake >= now+l.Lives:
			return fmt.Errorf("R3: %c lets a lease end in which %v are reserved", 'a'+i, h.Reserving())
		}
	}
	return nil
}

// checkQuota is check for a quota.
func (w *world) checkQuota(v lease.View) error {
	allowed := float64(w.limit.Burst)
	if w.flushed {
		allowed *= 2 // I6
	}
	allowed += w.owed()
	start, _ := lease.Bounds(w.limit, w.now)
	if most := allowed + max(-v.Pool, 0); w.admitted.tokens > most {
		return fmt.Errorf("Q1: %v tokens were admitted in a window, %v allowed", w.admitted.tokens, most)
	}
	spendable := 0.0
	for i := range w.members {
		spendable += w.members[i].holder.Held() + w.members[i].holder.Reserving()
	}
	if v.At < start {
		if spendable > 0 && v.At > 0 {
			return fmt.Errorf("Q1: %v tokens of the window before can be spent", spendable)
		}
	} else if all := v.Pool + spendable + w.admitted.tokens; all > allowed {
		return fmt.Errorf("Q1: %v tokens were admitted, are held, or are left, %v allowed", all, allowed)
	}
	if err := divided(v); err != nil {
		return err
	}
	if v.Pool+v.Bursts > float64(v.Limit.Burst) {
		return fmt.Errorf("I4: more is divided than there is: %+v", v)
	}
	return nil
}

// checkSliding is check for a sliding window.
func (w *world) checkSliding(v lease.View) error {
	allowed := float64(w.limit.Burst)
	if w.flushed || w.lower.Window != 0 && w.lower.Window != w.limit.Window {
		allowed *= 2 // I6, and the same where another window is declared
	}
	allowed += w.owed()
	admitted, spendable := 0.0, 0.0
	for _, a := range w.admitted.log {
		if a.at >= w.now-w.limit.Window {
			admitted += a.n
		}
	}
	for i := range w.members {
		spendable += w.members[i].holder.Held() + w.members[i].holder.Reserving()
	}
	if all := v.Pool + spendable + admitted; max(all, admitted-max(-v.Pool, 0)) > allowed {
		return fmt.Errorf("W1: %v tokens were admitted in a window, "+
			"%v with those that are held or left, %v allowed",
			admitted, all, allowed)
	}
	if err := divided(v); err != nil || v.At == 0 || v.Limit.Kind != lease.KindSliding {
		return err
	}
	return counted(v)
}
