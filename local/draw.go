package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A Draw is a part of a request for one token each of several entries, all or none.
type Draw struct {
	Entry  *Entry
	Pocket *Pocket // of the goroutine, or nil

	Due  Due   // what there is to do after a TakeAll that has admitted
	turn int64 // of the pocket
}

// TakeAll decides such a request by leases, or reports false: then ask a Several. Tokens of hot
// keys come from pockets. Those of others are taken under the locks of their entries, all at once.
//
// It takes nothing before it has seen that each entry has a token. What it has taken from pockets
// when another goroutine is faster goes back.
func TakeAll(now time.Duration, draws []Draw) (admitted, ok bool) {
	var room [16]uint8
	cold := room[:0] // indexes: with pointers, draws would be allocated
	for i := range draws {
		if d := &draws[i]; d.Pocket == nil {
			cold = append(cold, uint8(i))
		} else if has, denies := d.look(now); !has {
			return false, denies
		}
	}
	if len(cold) > 0 && !lock(now, draws, cold) {
		return false, false
	}
	taken, ok := takeHot(now, draws)
	admitted = taken == len(draws)
	if len(cold) > 0 {
		takeLocked(now, draws, cold, admitted)
	}
	if admitted {
		return true, true
	}
	for i := range draws[:taken] {
		draws[i].untake()
	}
	return false, ok
}

// look reports whether the pocket has a token, or that it denies one, and counts that.
func (d *Draw) look(now time.Duration) (has, denies bool) {
	d.turn = d.Pocket.turn.Load()
	open := int64(now) < d.Pocket.until.Load()
	left := d.Pocket.left.Load()
	if open && left <= denying {
		// A Take could find the pocket opened anew, and have a token of this key alone.
		return false, d.Pocket.left.CompareAndSwap(left, left-1)
	}
	return open && left > 0, false
}

// takeHot takes tokens from pockets. It returns how many draws come before the first whose pocket
// has none, and whether that one denies.
func takeHot(now time.Duration, draws []Draw) (taken int, denies bool) {
	for i := range draws {
		if p := draws[i].Pocket; p != nil {
			if admitted, ok := p.Take(now); !admitted {
				return i, ok
			}
		}
	}
	return len(draws), false
}

// lock takes the locks of cold, in the order of Entry.compare as Several.lock does. It holds them
// if the entries are different, and each has a token.
func lock(now time.Duration, draws []Draw, cold []uint8) bool {
	for n := 1; n < len(cold); n++ {
		for i := n; i > 0; i-- {
			by := draws[cold[i-1]].Entry.compare(draws[cold[i]].Entry)
			if by == 0 {
				return false
			}
			if by < 0 {
				break
			}
			cold[i-1], cold[i] = cold[i], cold[i-1]
		}
	}
	for _, i := range cold {
		draws[i].Entry.mu.Lock()
	}
	for _, i := range cold {
		if !draws[i].Entry.hasLocked(now) {
			takeLocked(now, draws, cold, false)
			return false
		}
	}
	return true
}

// takeLocked takes the tokens of cold, or none, and frees the locks.
func takeLocked(now time.Duration, draws []Draw, cold []uint8, all bool) {
	for _, i := range cold {
		if d := &draws[i]; all {
			d.Due = d.Entry.allowLocked(now, false, nil).Due
		}
	}
	for _, i := range cold {
		draws[i].Entry.mu.Unlock()
	}
}

// hasLocked reports whether the lease has a token or nobody limits the key, and nothing is to be
// done before it is taken.
func (e *Entry) hasLocked(now time.Duration) bool {
	if e.life != inUse || e.staleLocked(now) || !e.holder.Serves(1) {
		return false
	}
	if v, ok := e.fixed.verdict(); ok {
		return v == lease.Admitted
	}
	if e.open > 0 { // it has just become hot
		e.makeWayLocked(now, 1, nil)
	}
	return e.holder.Look(now, 1) == lease.Admitted
}

// untake gives back a token that was taken from a pocket, if that is still open. Else the token has
// been spent: a Refund would be of the newest token, which may be one of another lease or window.
func (d *Draw) untake() {
	p, e := d.Pocket, d.Entry
	if p == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.given > 1 && p.turn.Load() == d.turn {
		p.given--
		e.pockets.Load().given--
	}
}
