package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// For says which job is to have the slots, if the key has slots: without one it is Exceeding.
func (p *Part) For(j *Job) { p.job = j }

// Job is what For has said, or nil.
func (p *Part) Job() *Job { return p.job }

// jobsLocked reports whether a part is for slots, and its key has so many. An entry that is no
// table's goes with the request, and cannot have a job.
func (p *Part) jobsLocked() bool {
	return p.job != nil && !p.Entry.stray && p.Entry.slotsLocked(p.N)
}

// beginLocked begins a job with the slots that its part has got from the ledger, or that the outage
// policy lets it have without a lease. It reports false if the slots are those of the lease.
func (p *Part) beginLocked(now time.Duration) bool {
	e := p.Entry
	switch {
	case p.Outage:
		e.decidedLocked(p.N, true)
		e.beginLocked(p.job, lease.Reserved{})
	case p.holds:
		e.useLocked(now)
		e.ledgerLocked(p.N, true)
		e.beginLocked(p.job, p.reserved)
	default:
		return false
	}
	return true
}
