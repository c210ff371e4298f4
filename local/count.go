package local

import (
	"time"

	"github.com/seed13b07268/ration/lease"
)

// Count is what an entry has decided.
type Count struct {
	Lease, Ledger, Outage Verdicts

	Settled uint64 // tokens of reservations that have ended, as far as they did not come back
	Charged uint64 // tokens that were spent before anybody asked
}

// Verdicts counts requests and their tokens.
type Verdicts struct{ Admitted, Denied, AdmittedTokens, DeniedTokens uint64 }

func (c *Count) add(x Count) {
	c.Lease.add(x.Lease)
	c.Ledger.add(x.Ledger)
	c.Outage.add(x.Outage)
	c.Settled += x.Settled
	c.Charged += x.Charged
}

func (v *Verdicts) add(x Verdicts) {
	v.Admitted += x.Admitted
	v.Denied += x.Denied
	v.AdmittedTokens += x.AdmittedTokens
	v.DeniedTokens += x.DeniedTokens
}

func (v *Verdicts) admit(n float64) {
	v.Admitted++
	v.AdmittedTokens += uint64(n)
}

func (v *Verdicts) deny(n float64) {
	v.Denied++
	v.DeniedTokens += uint64(n)
}

// newlyDeniedLocked is how many requests were denied since it was called last.
func (e *Entry) newlyDeniedLocked() uint64 {
	all := e.count.Lease.Denied + e.count.Ledger.Denied + e.count.Outage.Denied
	n := all - e.listed
	e.listed = all
	return n
}

// counted returns what the entry has decided until now, and how many denials are new.
func (e *Entry) counted(now time.Duration) (Count, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.countLocked(), e.newlyDeniedLocked()
}

// countLocked returns what the entry has decided. Tokens that are reserved when a lease
// ends are settled then.
func (e *Entry) countLocked() Count {
	c := e.count
	c.Settled += uint64(e.holder.Lapsed())
	return c
}

// reservedLocked counts a request whose tokens are settled later, but for those that were
// taken for good.
func (e *Entry) reservedLocked(v *Verdicts, r lease.Reserved) {
	v.Admitted++
	if r.Taken() {
		e.count.Settled += uint64(r.Tokens)
	}
}
