//go:build linux || darwin

package chaos

import (
	"encoding/binary"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seed13b07268/ration/lease"
)

// clock is the time that all processes of the machine share.
func clock() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err)
	}
	return time.Duration(t.Nano())
}

// A decision is what became of a request, and when: at some time between before
// and after.
type decision struct {
	before, after time.Duration
	key, n        uint16
	verdict       verdict

	// Of one that is about slots: which job of the process it is, and its fence.
	job   uint32
	fence uint64

	taken time.Duration // when the request for the refunded tokens began
}

type verdict uint8

const (
	admitted   verdict = iota
	denied             // by a lease or the ledger, or nobody knows by whom
	shared             // admitted by the outage policy
	closed             // denied by it
	failed             // an error: no verdict
	abandoned          // its context ended
	overruled          // by another limit of the same request: nothing was taken
	reserved           // admitted, and settled later
	settled            // no decision: n of what was reserved before were used, by after
	charged            // n were used, whether they were there or not
	refunded           // no decision: n came back of what was not used
	began              // a job has its slots
	held               // no decision: a job had its slots at the time of before
	released           // the same, and then it gave them back
	lost               // no decision: the context of a job had ended
	stalled            // no decision: the process did not run
	away               // no decision: one of its Limiters took the store for away
	unanswered         // no decision: it did not answer one of them, which was noticed now
	counted            // no decision: each of them has heard of n processes
	sized              // no decision: job KiB are in the heap
	panicked           // no decision: loggers have panicked n times
)

// passes reports whether a history of keys that pass takes records with the verdict.
func (v verdict) passes() bool { return v <= failed || v == sized }

// none reports whether a verdict that is recorded among decisions is on no request.
func (v verdict) none() bool { return v == settled || v == refunded }

const recordSize = 41

func (d decision) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(d.before))
	b = binary.LittleEndian.AppendUint64(b, uint64(d.after))
	b = binary.LittleEndian.AppendUint16(b, d.key)
	b = binary.LittleEndian.AppendUint16(b, d.n)
	b = append(b, byte(d.verdict))
	b = binary.LittleEndian.AppendUint32(b, d.job)
	b = binary.LittleEndian.AppendUint64(b, d.fence)
	return binary.LittleEndian.AppendUint64(b, uint64(d.taken))
}

func parseDecision(b []byte) decision {
	return decision{
		before:  time.Duration(binary.LittleEndian.Uint64(b)),
		after:   time.Duration(binary.LittleEndian.Uint64(b[8:])),
		key:     binary.LittleEndian.Uint16(b[16:]),
		n:       binary.LittleEndian.Uint16(b[18:]),
		verdict: verdict(b[20]),
		job:     binary.LittleEndian.Uint32(b[21:]),
		fence:   binary.LittleEndian.Uint64(b[25:]),
		taken:   time.Duration(binary.LittleEndian.Uint64(b[33:])),
	}
}

// A span of time.
type span struct{ from, to time.Duration }

// overlap is how much of s is in x.
func (s span) overlap(x span) time.Duration {
	return max(min(s.to, x.to)-max(s.from, x.from), 0)
}

// A life is what one process did.
type life struct {
	decisions []decision
	jobs      map[uint32]*job
	stalls    []span // in which it did not run, though it was not idle
	away      []span // in which it took the store for away

	unanswered []time.Duration // when exchanges of its Limiters had failed

	heard  uint16 // how many processes it heard of
	panics uint16 // of its loggers
}

// A fault is something that was done to the fleet.
type fault struct {
	kind string
	span
	// gone is for how long the store surely answered nobody; none if it was not gone.
	gone span
	// split is for how long some processes may have asked another master than others.
	split span
	// spares says of each key whether the fault must not cost it a verdict; nil spares none.
	spares []bool
	// lost says that the ledgers' state may have been lost in this time, for
	// which I6 allows a Burst, and what old leases refill.
	lost bool
}

// A history is all that happened to one fleet.
type history struct {
	keys      []key
	policy    lease.Policy
	processes int
	timeout   time.Duration
	distance  time.Duration // of the servers
	shares    bool          // the outage policy
	cut       bool          // short: it ended among faults
	span
	take  func(*life, decision) // takes requests and sizes as they come; nil keeps them
	epoch time.Duration         // what the machine's clock showed when clock showed 0

	late []span // when links did not run

	// heard is from when on all processes know how many they are.
	heard time.Duration

	mu     sync.Mutex
	lives  []*life
	faults []fault
}

// begin adds a life.
func (h *history) begin() *life {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := &life{jobs: map[uint32]*job{}}
	h.lives = append(h.lives, l)
	return l
}

// note adds records to a life.
func (h *history) note(l *life, records []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ; len(records) >= recordSize; records = records[recordSize:] {
		d := parseDecision(records)
		if h.take != nil && d.verdict.passes() {
			h.take(l, d)
			continue
		}
		switch d.verdict {
		case stalled:
			l.stalls = append(l.stalls, span{d.before, d.after})
		case away:
			l.away = append(l.away, span{d.before, d.after})
		case unanswered:
			l.unanswered = append(l.unanswered, d.after)
		case counted:
			l.heard = d.n
		case panicked:
			l.panics = d.n
		case began:
			l.jobs[d.job] = &job{decision: d, seen: d.after}
			l.decisions = append(l.decisions, d)
		case held, released, lost:
			l.jobs[d.job].note(d)
		default:
			l.decisions = append(l.decisions, d)
		}
	}
}

// suffer adds a fault.
func (h *history) suffer(f fault) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults = append(h.faults, f)
}

// asks reports whether a process has asked for something.
func (h *history) asks(l *life) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(l.decisions) > 0
}

// counted reports whether each process has heard of all others.
func (h *history) counted() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, l := range h.lives {
		if int(l.heard) >= h.processes {
			n++
		}
	}
	return n >= h.processes
}

// settled reports whether the last request for each key in each process that runs
// had a verdict, but for sparse keys and slots, which a process may wait for. A process that
// has not asked for a key yet is not settled.
func (h *history) settled(running []*life) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range running {
		done, missing := make([]bool, len(h.keys)), 0
		for i := range h.keys {
			done[i] = h.keys[i].sparse() || h.keys[i].How == acquire
			if !done[i] { // sparse ones may be asked for after the end only
				missing++
			}
		}
		for _, d := range slices.Backward(l.decisions) {
			if missing == 0 {
				break
			}
			if d.verdict == abandoned || d.verdict.none() || done[d.key] {
				continue
			}
			done[d.key] = true
			missing--
			if d.verdict == failed || d.verdict == closed || d.verdict == shared {
				return false
			}
		}
		if missing > 0 {
			return false
		}
	}
	return true
}
