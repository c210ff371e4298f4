package hybrid

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local"
)

// MaxAsks is how many Asks one request may have.
const MaxAsks = 16

// An Ask is for N tokens of Key, as a part of a request for several.
type Ask struct {
	Key   string
	N     int    // 0 or more; 0 is always allowed
	Class string // the Name of one of Config.Classes, or ClassesFor: "" is the last. A key has one
}

// Decisions is the answer to a request for tokens of several keys.
type Decisions struct {
	// Allowed says whether the tokens were taken: all of them, or none.
	Allowed bool

	// Denied is the index of the Ask whose limit denies longest, or -1 if all are allowed.
	Denied int

	// Each has a Decision for each Ask. If the request is denied, nothing was taken of any
	// key, and Each[i].Allowed tells whether that limit alone would let it pass, as far as is
	// known. Asks that name the same key have the Decision of their sum.
	Each []Decision
}

// TakeAll asks for tokens of several keys, all of them or none, by up to MaxAsks Asks. Asks that
// name the same key are summed, and must be of one class. Keys may be on any nodes of a cluster,
// and have any limit but slots.
//
// Where this process's leases have the tokens it decides at once, and asks nobody. Else it asks
// the ledgers of those keys whose leases have not enough, at the same time or one after the
// other. Keys that denied last come first, so that a limit that goes on denying costs the others
// nothing. It waits for that no longer than ctx and twice [Config.Timeout] in all.
//
// What a ledger grants meanwhile is on lease to this process, and not taken. If another limit
// denies, other requests can use it, and the rest goes back within a Policy.MaxRefresh. But what
// is granted of a key for which MaxKeys leaves no room is lost then; such keys are asked last.
//
// Errors are those of Take, for any of the keys, and nothing is taken then; a number of Asks that
// is not from 1 to MaxAsks; and a Class that is none of Config.Classes. What is wrong with an Ask
// names its index.
func (l *Limiter) TakeAll(ctx context.Context, asks ...Ask) (Decisions, error) {
	return l.takeAll(ctx, asks, 0)
}

// takeAll is TakeAll, whose errors count the Asks from first.
func (l *Limiter) takeAll(ctx context.Context, asks []Ask, first int) (Decisions, error) {
	s, err := l.several(ctx, "take", asks)
	if err != nil {
		return Decisions{Denied: -1}, err
	}
	defer s.leave()
	s.first = first
	d, err := s.decide(ctx, false)
	s.noted(false, err)
	return d, err
}

// AllowAll reports whether one token of each key may be taken now, and takes them, all or
// none. It is false, too, where TakeAll would return an error. It may block as TakeAll does.
//
// A request that is denied because another goroutine takes the last token of a key at the same
// moment may leave a token of another key spent.
func (l *Limiter) AllowAll(keys ...string) bool {
	if len(keys) < 1 || len(keys) > MaxAsks {
		return false
	}
	var draws [MaxAsks]local.Draw
	if l.recorder == nil { // which is told the keys that deny
		if admitted, ok := l.allowWarm(keys, draws[:0]); ok {
			return admitted
		}
	}
	var asks [MaxAsks]Ask
	for i, key := range keys {
		asks[i] = Ask{Key: key, N: 1}
	}
	ctx := context.Background()
	s, err := l.several(ctx, "take", asks[:len(keys)])
	if err != nil {
		return false
	}
	defer s.leave()
	for i, p := range s.parts {
		p.Bare(&draws[i])
	}
	err = s.attempt(ctx, false)
	s.noted(false, err)
	return err == nil && s.all.Allowed()
}

// allowWarm decides by leases, or reports false.
func (l *Limiter) allowWarm(keys []string, draws []local.Draw) (admitted, ok bool) {
	hot := true
	for _, key := range keys {
		e := l.table.Find(key)
		if e == nil {
			return false, false
		}
		p := e.Pocket()
		hot = hot && p != nil
		draws = append(draws, local.Draw{Entry: e, Pocket: p})
	}
	if hot {
		return local.TakeAll(l.now(), draws)
	}
	now := l.clock.awake()
	admitted, ok = local.TakeAll(now, draws)
	for i := range draws {
		if d := &draws[i]; d.Due != local.NothingDue {
			l.follow(now, d.Entry, local.Result{Due: d.Due})
		}
	}
	return admitted, ok
}

// WaitAll takes tokens of several keys, all at once, and waits until it can. If it is denied it
// queues at one key after the other, and keeps what it gets: keys of the lowest mean rate first,
// and then by their names. So no two requests wait for each other, whatever the order in which
// they name the keys, and each has its turn. While it queues at its first key it holds nothing.
// (Tokens of a quota or of a sliding window that are kept end with the window. Where the turn at
// the other keys takes longer than that, it begins anew, and no bound is promised.)
//
// Keys that all have the tokens for it are taken within 1.25 Policy.MaxRefresh and a round
// trip for each of them, if no other request takes them first.
//
// It returns an error that wraps context.DeadlineExceeded as soon as it knows that the deadline
// of ctx is too near. Its other errors are those of TakeAll. But it waits through exchanges that
// fail, as Wait does: [ErrUnavailable] is only for a LimitFor that panics or does not return.
func (l *Limiter) WaitAll(ctx context.Context, asks ...Ask) error {
	s, err := l.several(ctx, "wait for", asks)
	if err != nil {
		return err
	}
	defer s.leave()
	_, err = s.wait(ctx, false)
	s.noted(false, err)
	return err
}

// errUnanswered is ErrUnavailable of a store that has not answered, which may answer yet.
var errUnanswered = fmt.Errorf("%w", ErrUnavailable)

// wait takes all, or, to keep them, reserves them, and waits until it can.
func (s *several) wait(ctx context.Context, keep bool) (Decisions, error) {
	for {
		d, err := s.decide(ctx, keep)
		switch {
		case errors.Is(err, errUnanswered):
			d = s.decisions()
		case err != nil || d.Allowed:
			return d, err
		}
		if err = s.queueAll(ctx, d); err != nil {
			if err = s.end(err); !errors.Is(err, errOrder) {
				return Decisions{Denied: -1}, err
			}
		}
	}
}

// A several is a request for tokens of several keys. It is made once for many of them: for a
// request that leases decide, it would be most of the cost (BenchmarkAllowAll).
type several struct {
	l     *Limiter
	verb  string
	asks  []Ask
	first int // the index of asks[0] in errors
	all   local.Several
	parts []*local.Part         // by Ask
	came  time.Duration         // when it began
	slots map[*local.Part]*Slot // of a request to reserve

	room struct { // of the slices
		asks          [MaxAsks]Ask
		part          [MaxAsks]local.Part
		byAsk, sorted [MaxAsks]*local.Part
	}
}

var severals = sync.Pool{New: func() any { return new(several) }}

// several checks the asks and finds their entries. Then call leave.
func (l *Limiter) several(ctx context.Context, verb string, asks []Ask) (*several, error) {
	if err := l.checkAsks(verb, asks); err != nil {
		return nil, err
	}
	if l.closed.Load() {
		return nil, ErrClosed
	}
	s := severals.Get().(*several)
	s.l, s.verb, s.asks, s.parts = l, verb, append(s.room.asks[:0], asks...), s.room.byAsk[:0]
	for i, a := range s.asks {
		e := l.table.Find(a.Key)
		if e == nil {
			var err error
			if e, err = s.open(ctx, float64(a.N), a.Key); err != nil {
				s.leave()
				return nil, err
			}
		}
		p := &s.room.part[i]
		p.Entry, p.N, p.Class = e, float64(a.N), a.Class
		s.parts = append(s.parts, p)
	}
	s.all = local.NewSeveral(append(s.room.sorted[:0], s.parts...))
	if len(s.all.Parts) < len(s.parts) {
		s.join()
	}
	return s, nil
}

func (l *Limiter) checkAsks(verb string, asks []Ask) error {
	if len(asks) < 1 || len(asks) > MaxAsks {
		return fmt.Errorf("hybrid: %s of several keys: %d Asks are not 1 to %d", verb, len(asks), MaxAsks)
	}
	for i := range asks {
		if a := &asks[i]; a.N < 0 {
			return fmt.Errorf("hybrid: Ask[%d].N %d is not at least 0", i, a.N)
		} else if a.Key == "" {
			return fmt.Errorf("hybrid: Ask[%d].Key %q is empty", i, a.Key)
		}
	}
	if len(l.config.Classes) > 0 || slices.ContainsFunc(asks, func(a Ask) bool { return a.Class != "" }) {
		return l.checkClasses(asks)
	}
	return nil
}

// checkClasses: each class is known, and asks of the same key have the same one.
func (l *Limiter) checkClasses(asks []Ask) error {
	for i, a := range asks {
		if !l.config.knows(a.Class) {
			return fmt.Errorf("hybrid: Ask[%d].Class %.100q is none of Config.Classes", i, a.Class)
		}
		for j, b := range asks[:i] {
			if b.Key == a.Key && !l.config.same(a.Class, b.Class) {
				return fmt.Errorf("hybrid: Ask[%d].Class %q and Ask[%d].Class %q are of one key, %.100q",
					j, b.Class, i, a.Class, a.Key)
			}
		}
	}
	return nil
}

// join lets asks of the same key have the same part.
func (s *several) join() {
	for i, p := range s.parts {
		same := slices.IndexFunc(s.all.Parts, func(x *local.Part) bool { return x.Entry.Key == p.Entry.Key })
		if s.parts[i] = s.all.Parts[same]; s.parts[i] != p {
			s.l.leave(p.Entry)
		}
	}
}

// open finds an entry that is in use, or makes one.
func (s *several) open(ctx context.Context, n float64, key string) (*local.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("hybrid: %s %v of %.100q: %w", s.verb, n, key, err)
	}
	return s.l.look(ctx, &request{key: key})
}

// reopen finds new entries for those that are out of use.
func (s *several) reopen(ctx context.Context) error {
	for _, p := range s.all.Parts {
		if e := p.Entry; e.Gone() {
			found, err := s.open(ctx, p.N, e.Key)
			if err != nil {
				return err
			}
			p.Use(found)
			s.l.leave(e)
		}
	}
	if s.l.closed.Load() {
		return ErrClosed
	}
	return nil
}

// leave ends the use of the entries, and of s.
func (s *several) leave() {
	for i, p := range s.parts {
		if p == &s.room.part[i] { // else join has left it
			s.l.leave(p.Entry)
		}
	}
	n := len(s.asks)
	clear(s.room.asks[:n])
	clear(s.room.part[:n])
	clear(s.room.byAsk[:n])
	clear(s.room.sorted[:n])
	s.l, s.first, s.all, s.slots = nil, 0, local.Several{}, nil
	severals.Put(s)
}

// decide is attempt, and returns the Decision of each Ask as well.
func (s *several) decide(ctx context.Context, keep bool) (Decisions, error) {
	if err := s.attempt(ctx, keep); err != nil {
		return Decisions{Denied: -1}, err
	}
	return s.decisions(), nil
}

// attempt takes all, or, to keep them, reserves them, or none.
func (s *several) attempt(ctx context.Context, keep bool) error {
	l := s.l
	now := l.clock.awake()
	s.came = now
	s.all.Begin()
	for ; ; now = l.clock.awake() {
		if err := ctx.Err(); err != nil {
			return s.end(fmt.Errorf("hybrid: %s several keys: %w", s.verb, err))
		}
		step := s.all.Take(now, l.driver.dispatch, keep)
		s.attend(now)
		switch step {
		case local.Decided:
			return nil
		case local.Gone:
			if err := s.reopen(ctx); err != nil {
				return s.end(err)
			}
		case local.Lapsed, local.Exceeds:
			if keep && s.wantSlots(ctx) {
				continue
			}
			if err := s.limitFirst(ctx, now); err != nil {
				return s.end(err)
			}
		case local.Unanswered:
			return s.end(fmt.Errorf("hybrid: %s several keys: %w", s.verb, errUnanswered))
		case local.Asking:
			if err := s.await(ctx); err != nil {
				return s.end(err)
			}
		}
	}
}

// attend looks at the entries to which something has happened.
func (s *several) attend(now time.Duration) {
	for _, p := range s.all.Parts {
		if p.Outage {
			s.l.driver.unanswered(now, p.Entry)
		}
		switch {
		case p.Due:
			s.l.driver.attend(p.Entry)
		case p.Stale:
			s.l.driver.refresh(now, p.Entry)
		}
		p.Due, p.Stale = false, false
	}
}

// limitFirst has LimitFor asked for the keys whose limits may have changed in a pause. If there is
// none, a part wants more than the Burst in force.
func (s *several) limitFirst(ctx context.Context, now time.Duration) error {
	lapsed := false
	for _, p := range s.all.Parts {
		if lapsed = lapsed || p.Lapsed; p.Lapsed {
			s.l.recheck(ctx, now, p.Entry)
		}
	}
	if lapsed {
		return nil
	}
	return s.exceeding(ctx, now)
}

// end gives everything back, and returns err.
func (s *several) end(err error) error {
	s.all.End(s.l.now())
	for _, p := range s.all.Parts {
		s.l.driver.attend(p.Entry)
	}
	return err
}

// exceeding is for a part that wants more than the Burst in force, which may have been
// raised: then it returns nil.
func (s *several) exceeding(ctx context.Context, now time.Duration) error {
	for i, p := range s.parts {
		if p.Verdict != lease.Exceeding {
			continue
		}
		if s.l.recheck(ctx, now, p.Entry) {
			return nil
		}
		return s.exceeds(p, s.asks[i].Key)
	}
	return nil
}

// await waits for the verdicts of the ledgers that were asked. Those that have none when it
// is time to go on are withdrawn.
func (s *several) await(ctx context.Context) error {
	for _, p := range s.all.Parts {
		w := p.Waiter()
		if w == nil {
			continue
		}
		err := s.l.hear(ctx, p.Entry, w, s.came)
		switch {
		case err == nil:
		case errors.Is(err, ErrUnavailable):
			p.Withdraw(s.l.now())
		case errors.Is(err, ErrClosed):
			return err
		default:
			return fmt.Errorf("hybrid: %s %v of %.100q: %w", s.verb, p.N, p.Entry.Key, err)
		}
	}
	return nil
}

// decisions is the answer after a Take that has decided.
func (s *several) decisions() Decisions {
	d := Decisions{Allowed: true, Denied: -1, Each: make([]Decision, len(s.parts))}
	now := s.l.now()
	for i, p := range s.parts {
		x := s.l.explain(now, p.Entry, p.N, p.Class, p.Verdict, source(p))
		d.Each[i] = x
		if p.Verdict == lease.Denied {
			d.Allowed = false
			if d.Denied < 0 || x.RetryAfter > d.Each[d.Denied].RetryAfter {
				d.Denied = i
			}
		}
	}
	return d
}

// source says which Source has decided a part.
func source(p *local.Part) Source {
	switch {
	case p.Outage:
		return OutagePolicy
	case p.Asked:
		return Ledger
	}
	return Lease
}

// taking says which Asks are for a part, and how many tokens these are: the sum of several numbers
// may be larger than any of them, and than an int.
func (s *several) taking(p *local.Part) string {
	var asks []string
	for i, x := range s.parts {
		if x == p {
			asks = append(asks, fmt.Sprintf("Ask[%d]", s.first+i))
		}
	}
	return fmt.Sprintf("%s: take %.0f", strings.Join(asks, " and "), p.N)
}

// errOrder says that limits have changed, so that keys are queued for in another order.
var errOrder = errors.New("limits have changed")

// queueAll waits for the turn of one part after the other, and keeps what it has. All
// requests do so in one order. So no two of them wait for each other, and each holds tokens of
// slower limits, and slots of smaller ones, while it waits for others. A request whose order is
// no longer that of the limits in force gets errOrder, or it could wait for one that holds what it
// wants, and that waits for what it holds (TestWaitAllThroughChanges).
func (s *several) queueAll(ctx context.Context, d Decisions) error {
	order := s.order()
	for _, i := range order {
		if err := s.queue(ctx, order, i, d.Each[i]); err != nil {
			return err
		}
		s.all.Hear(s.l.now(), s.parts[i])
	}
	return nil
}

// order is the Asks by the mean rate of their limits in force, and then by name. Slots come last,
// those of the smallest limit first: who kept slots of a limit for all, while others have what it
// waits for, would keep them from jobs that need no more.
func (s *several) order() []int {
	order, limits := make([]int, len(s.parts)), make([]lease.Limit, len(s.parts))
	for i, p := range s.parts {
		order[i], limits[i] = i, p.Entry.InForce()
	}
	slices.SortFunc(order, func(i, j int) int {
		return cmp.Or(inTurn(limits[i], limits[j]), cmp.Compare(s.asks[i].Key, s.asks[j].Key))
	})
	return order
}

// inTurn compares limits by when requests queue for them.
func inTurn(a, b lease.Limit) int {
	switch jobs := a.Kind.Jobs(); {
	case jobs != b.Kind.Jobs():
		if jobs {
			return 1
		}
		return -1
	case jobs:
		return cmp.Compare(a.Burst, b.Burst)
	}
	return cmp.Compare(a.Mean(), b.Mean())
}

// queue waits for the turn of one Ask.
func (s *several) queue(ctx context.Context, order []int, i int, d Decision) error {
	p := s.parts[i]
	err := hopeless(ctx, s.taking(p), p.N, p.Entry.Key, d)
	if err != nil || p.Holds() {
		return err
	}
	if !s.all.Queue(s.l.now(), p, patience(ctx), s.l.driver.dispatch.Away()) {
		if !p.Entry.Gone() { // else Take finds another one
			_, _ = s.l.rest(ctx, nil, d.RetryAfter)
		}
		return nil
	}
	s.l.driver.attend(p.Entry)
	if p.Waiter() == nil {
		return nil
	}
	return s.turn(ctx, order, p)
}

// turn waits for the verdict on a part that queues, for as long as the order stays.
func (s *several) turn(ctx context.Context, order []int, p *local.Part) error {
	for {
		told, err := s.l.rest(ctx, p.Waiter().Done(), s.l.config.Policy.Resolved().MaxRefresh)
		switch {
		case told:
			return nil
		case errors.Is(err, ErrClosed):
			return err
		case err != nil:
			return fmt.Errorf("hybrid: wait for %.0f of %.100q: %w", p.N, p.Entry.Key, err)
		case !slices.Equal(order, s.order()):
			return errOrder
		}
	}
}
