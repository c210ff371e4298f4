package hybrid

import (
	"fmt"
	"time"
)

// A Decision is the answer to a request for tokens.
type Decision struct {
	// Allowed says whether the tokens were taken.
	Allowed bool

	// Remaining is how many more tokens this process can take without asking:
	// at most what is left in the whole bucket.
	Remaining int64

	// RetryAfter is how long to wait before the request is worth repeating,
	// 0 if it was allowed. It is an estimate, never below 1 ms.
	RetryAfter time.Duration

	// ResetAfter is how long this process's part of the bucket needs to fill,
	// 0 if it has none.
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
