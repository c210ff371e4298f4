package lease

// A Kind is what a Limit promises, and so by which phases its Ledger divides it.
type Kind uint8

const (
	// KindBucket is a token bucket: at most Burst + Rate*T in any window of T seconds.
	KindBucket Kind = iota
	// KindQuota is a quota: at most Burst in each window of the calendar.
	KindQuota
	// KindSlots is slots: at most Burst in use at any time.
	KindSlots
	// KindSliding is a sliding window: at most Burst in any Window.
	KindSliding
)

// String returns the name that logs print.
func (k Kind) String() string {
	return name("Kind", []string{"token bucket", "quota", "slots", "sliding window"}, int(k))
}

// Jobs reports whether jobs use the tokens of a limit, and put them back.
func (k Kind) Jobs() bool { return k.of().jobs }

// Classes reports whether requests of a limit may have classes.
func (k Kind) Classes() bool { return k.of().classes != nil }

// A kind is what this package does by the Kind of a limit.
type kind struct {
	validate func(Limit) error             // Limit.Validate
	text     func(Limit) string            // Limit.String
	divide   func(plainLedger) division    // a ledger
	spend    func(Limit) spending          // a holder that declares the limit
	classes  func(spending, ranks) classed // with classes, nil for kinds without
	jobs     bool                          // Kind.Jobs
	refunds  bool                          // a Debt below 0 may come back to a ledger
	turns    bool                          // a ledger keeps the order of those that wait
	stays    bool                          // in silence a lease is kept: others miss little of it
}

// kinds is the dispatch by Kind.
var kinds = [...]kind{
	KindBucket: {
		validate: validateBucket, text: bucketText, divide: divideBucket, spend: spendBucket,
		classes: classBucket, turns: true,
	},
	KindQuota: {
		validate: validateQuota, text: quotaText, divide: divideQuota, spend: spendQuota,
		classes: classQuota, refunds: true,
	},
	KindSlots: {
		validate: validateSlots, text: slotsText, divide: divideSlots, spend: spendSlots, jobs: true,
	},
	KindSliding: {
		validate: validateSliding, text: slidingText, divide: divideSliding, spend: spendSliding,
		stays: true,
	},
}

// of is the dispatch. A Kind that is not known, which Validate refuses, reads as a bucket.
func (k Kind) of() *kind {
	if int(k) < len(kinds) {
		return &kinds[k]
	}
	return &kinds[KindBucket]
}

// A division is how the limit of a Ledger is divided: the phases of an exchange, and what
// differs by kind where time passes or a holder leaves. It has no state but the Ledger's.
type division interface {
	// clock is the ledger's time when its clock shows now.
	clock(now float64) float64
	// begin fills the pool of a ledger that opens at t, less what the past has used. claimed says
	// that a holder has a lease of before.
	begin(t float64, claimed bool)
	// exchange answers a request at a time of clock.
	exchange(t float64, q Request) Reply
	// end is when something of a lease next flows back, or all of it.
	end(r *record) float64
	// endPart is for a lease of which something flows back before all of it does.
	endPart(r *record)
	// ended is for a lease that nobody holds from at on, and that did not come back.
	ended(r *record, at float64)
	// pass is for what leaves by itself until l.at. The ledger was at from before.
	pass(from float64)
	// keepRooms ends an exchange (room.go).
	keepRooms()
	// remember adds to the past what was used since the exchange at a time from, as another
	// frame comes.
	remember(from float64)
	// idle reports whether nothing is used at t.
	idle(t float64) bool
}

// division is that of the limit in force.
func (l *Ledger) division() division { return l.kind.of().divide(plainLedger{l}) }

// A plainLedger is what most divisions do.
type plainLedger struct{ *Ledger }

func (l plainLedger) end(r *record) float64  { return r.expires() }
func (l plainLedger) endPart(*record)        {}
func (l plainLedger) ended(*record, float64) {}
func (l plainLedger) pass(float64)           {}
func (l plainLedger) keepRooms()             {}
func (l plainLedger) remember(float64)       {}

// idle reports whether no lease is live at t.
func (l plainLedger) idle(t float64) bool {
	for _, r := range l.holders {
		if r.expires() > t {
			return false
		}
	}
	return true
}

// A frame is what two limits of a key must have in common to be counted together: all but
// Rate and Burst. The windows of a quota begin and end by it.
type frame struct {
	kind           Kind
	window, offset float64 // µs
}

func frameOf(l Limit) frame {
	return frame{kind: l.Kind, window: micros(l.Window), offset: micros(l.Offset)}
}

// limit is the Limit of this frame with these numbers.
func (f frame) limit(rate float64, burst int64) Limit {
	return Limit{
		Rate: rate, Burst: burst, Kind: f.kind, Window: duration(f.window), Offset: duration(f.offset),
	}
}

// open starts the ledger of a key that nobody has asked for, or of another frame or window than
// before. Its time is not before at.
func (l *Ledger) open(t float64, q *Request) {
	*l = Ledger{flows: l.flows, past: l.past}
	l.frame = frameOf(q.Limit)
	l.rate, l.burst, l.at, l.born = q.Limit.Rate, float64(q.Limit.Burst), t, t
	l.holders = map[string]*record{}
	l.ends = calendar{width: tickWidth(&q.Policy)}
	l.division().begin(t, q.Claim.Left > 0)
	l.past.forget(t)
}

// prepare opens the ledger if q needs that, and reports whether q can be answered: while
// others go by a limit of another kind, it cannot. The rule is that of two limits of one
// kind (limits.go): the new one counts as soon as nobody goes by the old one, and a holder
// that declares the new one has left the old one (TestKindsChange).
func (l *Ledger) prepare(t float64, q *Request) bool {
	switch {
	case l.holders == nil:
		l.open(t, q)
	case l.frame == frameOf(q.Limit):
	case l.leave(t, q):
		l.open(l.at, q)
	default:
		return false
	}
	return true
}

// leave takes the holder off a ledger of another kind than it declares, and reports
// whether it was the last one.
func (l *Ledger) leave(t float64, q *Request) bool {
	d, from := l.division(), l.at
	l.advance(d.clock(t), q)
	if r := l.holders[q.Holder]; r != nil {
		l.remove(r)
		d.ended(r, l.at)
		l.limits.leave(r.limit)
		delete(l.holders, q.Holder)
	}
	d.keepRooms()
	if len(l.holders) > 0 {
		return false
	}
	d.remember(from)
	l.past.forget(l.at)
	return true
}

// elsewhere is the reply to a holder whose kind of limit is not in force: it is denied, and
// asks again soon.
func (l *Ledger) elsewhere(q *Request) Reply {
	return Reply{
		Seq: q.Seq, RetryAfter: duration(micros(q.Policy.MaxRefresh)),
		Holders: len(l.holders), Limit: l.Limit(),
	}
}
