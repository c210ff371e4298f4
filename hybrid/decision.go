package hybrid

import (
	"fmt"
	"time"
)

// A Decision is the answer to a request for tokens.
type Decision struct {
	// Allowed says whether the tokens were taken.
	Allowed bool

	// Remaining is how many tokens of the limit are left after this decision, whole
	// ones, from 0 to its Burst. What other processes hold on lease is not counted, but of a
	// quota, of which it is left as far as nobody has told that it was used. If the
	// ledger decided, the rest is exact. If not, it is an estimate: what the ledger said last,
	// and what has come and was taken here since. The next exchange corrects it: three
	// MaxRefresh later, or when all processes have used a Burst.
	//
	// After a denial it is less than what was asked for, though more may be left for other
	// processes. In an outage it is what the policy would still admit in this process: whole
	// tokens of its share, all of the Burst for Allow, or none for Deny.
	Remaining int64

	// Held is how many tokens this process holds on lease: it can admit as many without
	// asking. They are a part of Remaining, but in an outage.
	Held int64

	// RetryAfter is how long to wait before the request is worth repeating: 0 if it was
	// allowed, else at least 1 ms. It is an estimate, and others may take the tokens first. Of
	// slots it is Policy.MaxRefresh: nobody knows when a job ends.
	RetryAfter time.Duration

	// ResetAfter is how long it takes, if nobody takes anything more, until a bucket is full at
	// its Rate, the window of a quota ends, or nothing that was spent counts in a sliding
	// window. It is 0 if nothing is used, and for slots, Unlimited and Blocked. It goes by what
	// this process knows, as Remaining does. In an outage it is that of this process's share,
	// and 0 for the other policies.
	ResetAfter time.Duration

	// Limit is the key's limit, or, while processes declare different ones, the
	// lowest, which is in force.
	Limit Limit

	// Source says who decided.
	Source Source
}

// Source says who decided.
type Source int

const (
	// Lease: this process, from its part of the bucket or a remembered denial.
	Lease Source = iota
	// Ledger: the key's ledger in the store.
	Ledger
	// OutagePolicy: Config.Outage, because the store does not answer.
	OutagePolicy
)

// String returns the source's name in lower case.
func (s Source) String() string {
	switch s {
	case Lease:
		return "lease"
	case Ledger:
		return "ledger"
	case OutagePolicy:
		return "outage"
	}
	return fmt.Sprintf("Source(%d)", int(s))
}
