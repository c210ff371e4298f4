package lease

import "math"

// What overflows a lease flows back. A slice adds its rate to a lease that may be full while
// another holder is denied: dividing a small bucket divides its power to absorb noise. So a holder
// tells how many tokens found room (Request.Got), and the ledger returns to the pool those others
// that one bucket for all would have kept.

// rooms is how much room the pool has had lately: the least in each span of time.
//
// Tokens that return stood in room which was free in all spans since their lease began, and each
// return takes its tokens off all spans. So pool + bursts + what returns later <= Burst at any
// time, and nothing is minted (I1, TestInvariants).
//
// Rooms are whole parts of the Burst in force. Another Rate or Burst, or another width of the ticks,
// empties all rooms: unknown room is no room.
type rooms struct {
	kept  bool // while somebody refills from a lease: nobody else has anything to return
	least [roomSpans]float64
}

const (
	// roomSpans is how many spans are kept. A lease that is older than all spans returns nothing.
	//
	// Within one span, at most the room of the pool returns. Six spans cover three MaxRefresh, or
	// the time in which the pool fills if that is longer: as long as slices are lent for.
	roomSpans = 8
	spanTicks = 2.0 // of the calendar

	// roomParts is how many parts a Burst has: two bytes in Redis.
	roomParts = 65535
)

// spanOf is the span in which t lies.
func (l *Ledger) spanOf(t float64) float64 {
	width := max(spanTicks*l.ends.width, l.fills()/(roomSpans-2))
	return math.Floor(t / math.Floor(width))
}

// noteRoom notes the room that the pool has at l.at. It had no less since from: there it has only
// risen.
func (l *Ledger) noteRoom(from float64) {
	if !l.rooms.kept {
		return
	}
	room := math.Floor(min(max(l.burst-l.bursts-l.pool, 0), l.burst) * roomParts / l.burst)
	first, last := l.spanOf(from), l.spanOf(l.at)
	for span := max(first, last-roomSpans+1); span <= last; span++ {
		least := &l.rooms.least[int64(span)%roomSpans]
		if span > first || room < *least {
			*least = room
		}
	}
}

// giveBack adds to the pool what found no room in a lease that was answered at since, as far as
// the pool has had room for it from then on. It returns how many tokens these are.
func (l bucketLedger) giveBack(tokens, since float64) float64 {
	first, last := l.spanOf(since), l.spanOf(l.at)
	if !l.rooms.kept || tokens <= 0 || last-first >= roomSpans {
		return 0
	}
	least := float64(roomParts)
	for span := first; span <= last; span++ {
		least = min(least, l.rooms.least[int64(span)%roomSpans])
	}
	back := min(tokens, least*l.burst/roomParts)
	parts := math.Ceil(back * roomParts / l.burst)
	for i := range l.rooms.least {
		l.rooms.least[i] = max(l.rooms.least[i]-parts, 0)
	}
	l.pool += back
	return back
}

// keepRooms ends an exchange: rooms are kept while somebody refills from a lease.
func (l bucketLedger) keepRooms() {
	if l.rates == 0 {
		l.rooms = rooms{}
		return
	}
	l.rooms.kept = true
	l.noteRoom(l.at)
}
