package lease

import "math"

// What overflows a lease flows back. A slice adds its rate to a lease that may be full while
// another holder is denied: dividing a small bucket divides its power to absorb noise. So a holder
// tells how many tokens found room (Request.Got), and the ledger returns to the pool those others
// that one bucket for all would have kept.

// rooms is how much room the pool has had lately: the least in each slot of time.
//
// Tokens that return stood in room which was free in all slots since their lease began, and each
// return takes its tokens off all slots. So pool + bursts + what returns later <= Burst at any
// time, and nothing is minted (I1, TestInvariants).
//
// Rooms are whole parts of the Burst in force. Another Burst, or another width of the slots,
// empties them: what is not known is no room.
type rooms struct {
	kept  bool // while somebody refills from a lease: nobody else has anything to return
	least [roomSlots]float64
}

const (
	// roomSlots is how many slots are kept, each of roomWidth slots of the calendar: four
	// MaxRefresh, as slices are lent for three. A lease that is older returns nothing.
	roomSlots = 8
	roomWidth = 2

	// roomParts is how many parts a Burst has: two bytes in Redis.
	roomParts = 65535
)

// slotOf is the slot in which t lies.
func (l *Ledger) slotOf(t float64) float64 { return math.Floor(t / (roomWidth * l.ends.width)) }

// noteRoom notes the room that the pool has at l.at. It had no less since from: there it has only
// risen.
func (l *Ledger) noteRoom(from float64) {
	if !l.rooms.kept {
		return
	}
	room := math.Floor(min(max(l.burst-l.bursts-l.pool, 0), l.burst) * roomParts / l.burst)
	first, last := l.slotOf(from), l.slotOf(l.at)
	for slot := max(first, last-roomSlots+1); slot <= last; slot++ {
		least := &l.rooms.least[int64(slot)%roomSlots]
		if slot > first || room < *least {
			*least = room
		}
	}
}

// giveBack adds to the pool what found no room in a lease that was answered at since, as far as
// the pool has had room for it from then on. It returns how many tokens these are.
func (l bucketLedger) giveBack(tokens, since float64) float64 {
	first, last := l.slotOf(since), l.slotOf(l.at)
	if !l.rooms.kept || tokens <= 0 || last-first >= roomSlots {
		return 0
	}
	least := float64(roomParts)
	for slot := first; slot <= last; slot++ {
		least = min(least, l.rooms.least[int64(slot)%roomSlots])
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
