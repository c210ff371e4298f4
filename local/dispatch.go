package local

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Dispatch decides which messages of a process leave when, and what follows from how
// a round trip went. It knows no goroutine, timer or store: a driver tells it the time,
// carries its flights, and wakes the entries that are due. Its methods are safe for
// concurrent use. None of them holds its lock while it calls an entry.
//
// # Duties of the driver
//
// Attend an entry when its Take or Close says so, and when Due returns it; call
// Unanswered after a Take whose verdict is Unavailable. After each of these, and after Load, Land,
// Overdue, Count and Declare, start a flight for each Takeoff. A flight boards, is loaded and
// delivered, and lands. One that has been under way for the timeout is overdue, and still lands.
// When it has landed or is overdue, attend its entries.
type Dispatch struct {
	timeout  time.Duration
	random   func(n int64) int64
	outage   Outage
	schedule *schedule
	health   *health
	fleet    *Fleet
	census   *Entry
	shares   *Shares
	sharing  bool   // as far as those know; guarded by their lock
	table    *Table // or nil
	keys     int    // of which shares are remembered

	route func(key string) (node string) // nil: all keys are on one server

	mu         sync.Mutex
	lanes      map[string]*lane // by node
	takeoffs   []Takeoff        // flights to be started
	slow       slowness
	askers     askers // while the store is away
	complained time.Duration
	ended      bool

	forgets time.Duration // when unused lanes are forgotten; the watcher's alone
}

// DispatchConfig says how a Dispatch works.
type DispatchConfig struct {
	Fleet   *Fleet              // of which its process is a part
	Timeout time.Duration       // of an exchange
	Random  func(n int64) int64 // from 0 to below n; spreads what processes do
	Outage  Outage
	Shares  *Shares // of the keys, while the store is away, until End
	Keys    int     // of how many this one has the shares remembered
	Table   *Table  // of its entries; nil if others that have the same Shares need not know

	// Route names the server that has a key, and does not block. No flight has keys of two
	// servers. A wrong name costs time alone. nil: all keys are on one server.
	Route func(key string) (node string)

	Processes int // how many there are, until the census tells, or 0
}

const (
	// maxBatch is how many exchanges share a round trip at most: enough to
	// make its cost small beside theirs, few enough that the first of them
	// does not wait for the last.
	maxBatch = 256
	// maxFlights is how many round trips to a server are under way at most, and fewFlights
	// while connections are shut. What comes meanwhile is gathered for the next one. Beside
	// manyFlights others one leaves after a pause.
	maxFlights  = 16
	manyFlights = maxFlights / 2
	fewFlights  = 2
	// maxHung is how many round trips may be overdue: a client may take many seconds to
	// give up. They keep their places among maxFlights, so that a store that is slow gets no
	// more than that; but one beside them is always tried.
	maxHung = 64

	// witness is how long an answer for one key says that failures of others are
	// theirs alone.
	witness = 2 * time.Second

	// fleetMemory is how long a number of processes is remembered, at least, and the
	// fastest round trip.
	fleetMemory = time.Minute

	// complaints is the pause between two reports of a key that fails alone: there
	// may be many.
	complaints = time.Minute
)

// NewDispatch returns a Dispatch whose store answers.
func NewDispatch(now time.Duration, c DispatchConfig) *Dispatch {
	d := &Dispatch{
		timeout: c.Timeout, random: c.Random, outage: c.Outage, fleet: c.Fleet,
		shares: c.Shares, table: c.Table, keys: c.Keys,
		schedule: newSchedule(), health: newHealth(now, c.Timeout, c.Random), census: newCensus(now, &c),
		route: c.Route, lanes: map[string]*lane{}, complained: -complaints,
		slow:    slowness{otherwise: never},
		forgets: now + fleetMemory,
	}
	d.shares.join(d)
	raise(&d.fleet.hint, c.Processes)
	return d
}

// Away reports whether the store does not answer.
func (d *Dispatch) Away() bool { return d.health.Away() }

// Slow reports whether the store answers, but many exchanges too late.
func (d *Dispatch) Slow() bool { return d.slow.is.Load() }

// Processes is how many there are, as far as this one knows, and 0 if it does not.
func (d *Dispatch) Processes() int { return d.fleet.size() }

// Heard takes how many processes somebody says there are.
func (d *Dispatch) Heard(processes int) { raise(&d.fleet.heard, processes) }

// Census is the entry that asks how many processes there are. Its limit is its own.
func (d *Dispatch) Census() *Entry { return d.census }

// Due takes up to most entries that are due out of the schedule, and returns when the
// next one is. Only one goroutine may call it.
func (d *Dispatch) Due(now time.Duration, most int) (due []*Entry, next time.Duration) {
	if now >= d.forgets && !d.Away() {
		d.fleet.forget(now)
		d.mu.Lock()
		maps.DeleteFunc(d.lanes, func(_ string, l *lane) bool { return l.forget() })
		d.mu.Unlock()
		d.forgets = now + fleetMemory
	}
	return d.schedule.Due(now, most)
}

// Earlier receives when the earliest time of the schedule has moved forward.
func (d *Dispatch) Earlier() <-chan struct{} { return d.schedule.Earlier() }

// Attend looks at an entry after something happened to it, and posts it if it has a
// request to send. While the store is away only probes are sent.
func (d *Dispatch) Attend(now time.Duration, e *Entry) {
	ask, urgent, wake := e.ready(now)
	switch {
	case !ask:
	case d.Away():
		d.schedule.Set(e, e.putOff(now))
		d.Unanswered(now, e)
		return
	case !d.post(now, e, urgent):
		wake = e.putOff(now)
	}
	d.schedule.Set(e, wake)
}

// Declare tells an entry the limit of its key, and when that may change next. Another limit
// than before goes to the ledger at once. If it is the same, nothing has happened: another
// look at the entry would be one more at its demand, and change what it leases.
func (d *Dispatch) Declare(
	now time.Duration, e *Entry, limit lease.Limit, next time.Duration, classes ...lease.Class,
) {
	if e.Declare(now, limit, next, classes...) {
		d.Attend(now, e)
	} else {
		d.schedule.Set(e, e.look())
	}
}

// Unanswered tries with e whether the store answers, if it is time for that. While it is
// away others that were asked for take part, as it may be back for some keys only.
func (d *Dispatch) Unanswered(now time.Duration, e *Entry) {
	away := d.Away()
	if d.health.Probe(now) {
		d.probe(now, e, away)
	} else if away && !e.Stray() {
		d.mu.Lock()
		d.askers.add(e)
		d.mu.Unlock()
	}
}

func (d *Dispatch) probe(now time.Duration, e *Entry, away bool) {
	all := []*Entry{e}
	if away {
		d.mu.Lock()
		all = d.askers.take(d.census, e)
		d.mu.Unlock()
	}
	var probes []*Entry
	for _, x := range all {
		if x.probe(now) {
			probes = append(probes, x)
		}
	}
	nodes := make([]string, len(probes))
	for i, x := range probes {
		nodes[i] = d.node(x)
	}
	d.mu.Lock()
	if d.ended {
		d.mu.Unlock()
		d.putOff(now, probes)
		return
	}
	defer d.mu.Unlock()
	for i, node := range nodes {
		l := d.laneLocked(node)
		l.probes = append(l.probes, probes[i])
		if !slices.Contains(nodes[:i], node) {
			d.launchLocked(now, node, true)
		}
	}
}

// post puts an entry into the outbox, and reports false after the end.
func (d *Dispatch) post(now time.Duration, e *Entry, urgent bool) bool {
	node := d.node(e)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return false
	}
	d.laneLocked(node).add(e, urgent)
	d.launchLocked(now, node, urgent)
	return true
}

// node names the server of an entry.
func (d *Dispatch) node(e *Entry) string {
	if d.route == nil {
		return ""
	}
	return d.route(e.Key)
}

// laneLocked is the lane to a server.
func (d *Dispatch) laneLocked(node string) *lane {
	l := d.lanes[node]
	if l == nil {
		l = newLane()
		d.lanes[node] = l
	}
	return l
}

func (d *Dispatch) putOff(now time.Duration, entries []*Entry) {
	for _, e := range entries {
		d.schedule.Set(e, e.putOff(now))
	}
}

// launchLocked asks for a flight if there may be one more.
func (d *Dispatch) launchLocked(now time.Duration, node string, urgent bool) {
	if leaves, ok := d.laneLocked(node).launch(now, d.timeout, urgent); ok {
		d.takeoffs = append(d.takeoffs, Takeoff{node, urgent, leaves, leaves > now})
	}
}

// A Takeoff is a flight that is to be started.
type Takeoff struct {
	Node   string        // the server
	Urgent bool          // somebody waits for what it was asked for
	Leaves time.Duration // when it boards

	paused bool
}

// Takeoff reports whether a flight is to be started, and which.
func (d *Dispatch) Takeoff() (t Takeoff, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.takeoffs) == 0 {
		return Takeoff{}, false
	}
	t = d.takeoffs[0]
	d.takeoffs = slices.Delete(d.takeoffs, 0, 1)
	return t, true
}

// A Flight is a round trip: exchanges that travel together. Its exported fields are the
// driver's to read.
type Flight struct {
	Entries []*Entry      // those of the calls, once it is loaded
	Calls   []*lease.Call // to be filled in by the store
	Sent    time.Duration

	Outcomes Outcomes // once it has landed or is overdue

	lane            *lane
	node            string
	calls           []lease.Call // that Calls points to
	landed, overdue bool         // whichever came first; guarded by the Dispatch's lock
}

// Board returns the flight of a Takeoff that leaves now, with those first for whom somebody waits,
// or nil if nothing is left for it. What is posted leaves with the flight that it starts, or with
// the next one. The flight is f, made anew: one that nobody uses any more, or an empty one.
func (d *Dispatch) Board(now time.Duration, t Takeoff, f *Flight) *Flight {
	d.mu.Lock()
	l := d.laneLocked(t.Node)
	if !l.depart(t.paused) {
		d.mu.Unlock()
		return nil
	}
	batch, probes := l.board(f.Entries[:0])
	if len(batch) == 0 {
		l.flights--
		d.mu.Unlock()
		return nil
	}
	if !d.Away() {
		probes = len(batch)
	}
	l.used = true
	l.flying += probes
	d.mu.Unlock()
	for _, e := range batch[probes:] { // posted before it went away
		if !slices.Contains(batch[:probes], e) {
			d.schedule.Set(e, e.putOff(now))
		}
	}
	*f = Flight{Entries: batch[:probes], Calls: f.Calls[:0], calls: f.calls[:0], lane: l, node: t.Node}
	return f
}

// Load lets the entries of a flight make their requests. It is only then that they do:
// one that stood in the outbox for long asks for what it needs by then, or for nothing
// any more. It reports whether there is anything to deliver; if not, the flight has ended.
func (d *Dispatch) Load(now time.Duration, f *Flight) bool {
	boarded := f.Entries
	f.Entries, f.Sent = boarded[:0], now
	f.calls = slices.Grow(f.calls, len(boarded)) // they stay where they are
	for _, e := range boarded {
		q, ok, wake := e.request(now)
		if !ok {
			d.schedule.Set(e, wake)
			continue
		}
		f.calls = append(f.calls, lease.Call{Key: e.Key, Request: q})
		f.Calls = append(f.Calls, &f.calls[len(f.calls)-1])
		f.Entries = append(f.Entries, e)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f.lane.flying -= len(boarded) - len(f.Calls)
	any := len(f.Calls) > 0
	if any {
		f.lane.left = now
	} else {
		f.lane.flights--
	}
	d.relaunchLocked(now, f.node, f.lane)
	return any
}

// A Notice is what a driver should tell people.
type Notice struct {
	News News
	For  time.Duration // how long the store has been away, or has failed until then
	Key  string        // that fails alone
	Err  error
}

// News is what a Notice is about.
type News int

const (
	Away     News = iota // the store does not answer
	Back                 // it answers again
	KeyFails             // it answers, but not for a key, of perhaps several
	Unable               // it has said that it can serve nobody
	Slow                 // it answers, but many exchanges too late
	Quick                // no more
	Unknown              // it is away, and Share admits nothing: how many share is not known
)

// Land takes the answers of a flight that has been delivered. It returns what people should be
// told, and false if the flight was overdue: then its answers are of no use any more.
func (d *Dispatch) Land(now time.Duration, f *Flight) (notices []Notice, ok bool) {
	d.mu.Lock()
	if f.overdue {
		defer d.mu.Unlock()
		f.lane.hung--
		d.relaunchLocked(now, f.node, f.lane)
		return nil, false
	}
	f.landed = true
	d.mu.Unlock()
	return d.end(now, f), true
}

// Overdue ends the exchanges of a flight that has been under way for the timeout, as
// failures: nobody waits for the store to return. What it has written by then is not
// looked at. It reports false if the flight has landed.
func (d *Dispatch) Overdue(now time.Duration, f *Flight) (notices []Notice, ok bool) {
	d.mu.Lock()
	if f.landed {
		d.mu.Unlock()
		return nil, false
	}
	f.overdue = true
	d.mu.Unlock()
	return d.end(now, f), true
}

// end is for a flight that has landed or is overdue.
func (d *Dispatch) end(now time.Duration, f *Flight) (notices []Notice) {
	notices = d.conclude(now, f)
	d.mu.Lock()
	defer d.mu.Unlock()
	f.lane.flying -= len(f.Calls)
	f.lane.flights--
	if f.overdue {
		f.lane.hung++
	}
	d.relaunchLocked(now, f.node, f.lane)
	return notices
}

// relaunchLocked asks for a flight if something is in the outbox.
func (d *Dispatch) relaunchLocked(now time.Duration, node string, l *lane) {
	if urgent, any := l.waits(); any {
		d.launchLocked(now, node, urgent)
	}
}

// conclude draws the conclusions from a flight that has landed or is overdue.
func (d *Dispatch) conclude(now time.Duration, f *Flight) (notices []Notice) {
	o := d.settle(now, f)
	notices = d.timed(now, f, &o)
	if errors.Is(o.err, lease.ErrUnable) {
		notices = append(notices, d.complain(now, Notice{News: Unable, Err: o.err})...)
	} else if o.reason != nil {
		fails := Notice{News: KeyFails, Key: o.alone, Err: o.reason}
		notices = append(notices, d.complain(now, fails)...)
	}
	if answers := o.answered+o.refused > 0; answers || o.err != nil {
		notices = append(notices, d.report(now, answers, o.err)...)
	}
	// Does the store answer others? The client of a flight that is overdue may be stuck
	// for long: that is asked before the next one is.
	silent := now >= o.last+witness/2 || f.overdue && o.last <= f.Sent
	if o.answered < len(f.Calls) && silent && f.Entries[0] != d.census {
		d.ask(now)
	}
	return notices
}

// timed draws the conclusions from how long a flight took.
func (d *Dispatch) timed(now time.Duration, f *Flight, o *outcome) []Notice {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.lane.landed(f, now, d.timeout, o.answered, o.refused)
	failed := len(f.Calls) - o.answered - o.refused
	switch {
	case d.Away() || !d.slow.landed(now, f, failed, d.timeout, f.lane.window.fastest):
		return nil
	case d.Slow():
		return []Notice{{News: Slow}}
	}
	return []Notice{{News: Quick}}
}

// Outcomes count exchanges by how they ended.
type Outcomes struct {
	Answered uint64 // in time
	Refused  uint64 // lease.ErrRefused
	Failed   uint64 // another error
	Late     uint64 // no answer within the timeout, or one after it
}

func (o *Outcomes) add(err error, inTime, overdue bool) {
	switch {
	case errors.Is(err, lease.ErrRefused):
		o.Refused++
	case overdue || err == nil && !inTime:
		o.Late++
	case err != nil:
		o.Failed++
	default:
		o.Answered++
	}
}

// An outcome is what the answers of a flight say.
type outcome struct {
	answered, refused int
	err               error         // that says something of the store
	alone             string        // a key that fails alone
	reason            error         // for which it does
	last              time.Duration // when the store had answered before
}

// settle gives the entries their answers.
func (d *Dispatch) settle(now time.Duration, f *Flight) (o outcome) {
	o.last = d.health.Answered()
	recent := now < o.last+witness
	for i, e := range f.Entries {
		q := &f.Calls[i].Request
		r, err := d.answer(f, i)
		inTime := e.answer(now, *q, r, err)
		f.Outcomes.add(err, inTime, f.overdue)
		switch {
		case errors.Is(err, lease.ErrRefused):
			o.refused++
			o.alone, o.reason = e.Key, err
		case err == nil && inTime:
			o.answered++
			if e == d.census {
				d.Heard(r.Holders)
			}
		case recent && e.failsAlone(o.last):
			if err != nil {
				o.alone, o.reason = e.Key, err
			}
		case err != nil:
			o.err = err
		case now-f.Sent >= d.timeout:
			o.err = fmt.Errorf("local: answer after %v", now-f.Sent)
		}
	}
	return o
}

// answer is what the store says to a call of a flight, which is overdue or has landed.
func (d *Dispatch) answer(f *Flight, i int) (lease.Reply, error) {
	if f.overdue {
		return lease.Reply{}, fmt.Errorf("local: no answer within %v", d.timeout)
	}
	c := f.Calls[i]
	if c.Err == nil && c.Reply.Seq != c.Request.Seq {
		c.Err = fmt.Errorf("local: store answered request %d of %.100q with seq %d",
			c.Request.Seq, c.Key, c.Reply.Seq)
	}
	return c.Reply, c.Err
}

// complain says that keys fail, but not for each of them.
func (d *Dispatch) complain(now time.Duration, n Notice) []Notice {
	d.mu.Lock()
	defer d.mu.Unlock()
	if now < d.complained+complaints {
		return nil
	}
	d.complained = now
	return []Notice{n}
}

// report tells the health how a round trip went.
func (d *Dispatch) report(now time.Duration, answered bool, err error) []Notice {
	changed, lasted := d.health.Report(now, answered)
	if !changed {
		return nil
	}
	d.shares.follow(now, d)
	if answered {
		return []Notice{{News: Back, For: lasted}}
	}
	d.mu.Lock()
	d.slow.reset()
	d.mu.Unlock()
	notices := []Notice{{News: Away, For: lasted, Err: err}}
	if d.outage == Share && d.Processes() == 0 {
		notices = append(notices, Notice{News: Unknown})
	}
	return notices
}

// End empties the outbox. Nothing is posted any more.
func (d *Dispatch) End(now time.Duration) {
	d.shares.leave(now, d)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	for _, l := range d.lanes {
		l.clear()
	}
}
