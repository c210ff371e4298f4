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

func (v *Verdicts) decide(n float64, admitted bool) {
	if admitted {
		v.admit(n)
	} else {
		v.deny(n)
	}
}

// denyLocked counts a denial by what the entry holds or knows.
func (e *Entry) denyLocked(n float64) {
	e.count.deny(n)
	e.denied++
}

// ledgerLocked counts a verdict of the ledger.
func (e *Entry) ledgerLocked(n float64, admitted bool) {
	e.common.decided(n, admitted)
	if !admitted {
		e.denied++
	}
}

// newlyDeniedLocked is how many requests were denied since it was called last.
func (e *Entry) newlyDeniedLocked() uint64 {
	n := e.denied
	e.denied = 0
	return n
}

// counted returns what the entry has decided until now, and how many denials are new.
func (e *Entry) counted(now time.Duration) (Count, uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settleLocked(now)
	return e.countLocked(), e.newlyDeniedLocked()
}

// decisionsLocked is what the entry has counted. Verdicts of ledgers are in common.
func (e *Entry) decisionsLocked() (c Count) {
	if e.extra != nil {
		c = e.extra.count
	}
	c.Lease.add(e.count)
	return c
}

// countLocked returns what the entry has decided. Tokens that are reserved when a lease
// ends are settled then.
func (e *Entry) countLocked() Count {
	c := e.decisionsLocked()
	c.Settled += uint64(e.holder.Lapsed())
	return c
}

// reservedLocked counts a request whose tokens are settled later, but for those that were
// taken for good.
func (e *Entry) reservedLocked(v *Verdicts, r lease.Reserved) {
	v.Admitted++
	if r.Taken() {
		e.extraLocked().count.Settled += uint64(r.Tokens)
	}
}
