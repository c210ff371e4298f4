// Package holds keeps reservations that any replica of a service may end.
//
// A hold is a record in a Store that all replicas share: what was reserved, until when, and what
// counts if nobody settles it. The tokens are reserved by the replica that answered, its home. A
// Keeper is a replica's part: it writes holds, ends them wherever they were made, and does at home
// what the records say.
//
// # Promise
//
// A hold ends once: it is settled, or its life ends. What its record says then is booked once: at
// home, where the unused tokens come back, and by the replica that settled it, which charges what
// the estimate was too low by. A call that is repeated has the answer of the first. This holds
// whatever replies are lost or late (TestHistories).
//
// # Not promised
//
// A home that ends, or is killed, forfeits what it has reserved: its holds count as at least their
// estimates. A replica that is killed between settling and charging forgets the charge. A store
// that loses a hold has it end as its life would.
//
// # Duties
//
// Call Run, and end it after the last call and before the Limiter that has the tokens: it hears of
// the last ends. Use a Keeper's home for nobody else, also later.
package holds

import (
	"context"
	"time"
)

const (
	// MaxLife is how long a hold may last from when it is made, or extended.
	MaxLife = time.Hour

	// Kept is how long a Store remembers how a hold has ended, for calls that are repeated.
	Kept = 10 * time.Minute
)

// A Verb is what a Call does.
type Verb string

const (
	Reserve Verb = "reserve" // writes a hold
	Settle  Verb = "settle"  // ends one
	Extend  Verb = "extend"  // has one last longer
	Look    Verb = "look"    // changes nothing
)

// A Call is one request to a Store about a hold.
type Call struct {
	Verb Verb
	Name string

	// Life is how long the hold lasts from now, in whole ms: of Reserve and Extend. Extend never
	// shortens it.
	Life time.Duration

	// Content is what a repeat must be equal in, and what a charge is told: of Reserve and Look.
	// An empty one is not compared.
	Content string

	// Of Reserve. Home has reserved the tokens, under the Token. A hold that ends unsettled has
	// used its Estimate if Spent, else nothing. Answer is kept for repeats. The call has no effect
	// after Until, by the Store's clock: one that was long under way does not come into being when
	// nobody waits for it.
	Token, Answer string
	Estimate      []int
	Spent         bool
	Until         time.Time

	// Used is what Settle tells, a number for each of Estimate; nil: nothing was used.
	Used []int
}

// A Verdict says what became of a Call.
type Verdict string

const (
	Done     Verdict = "done"
	Repeated Verdict = "repeated" // the first such call has done it
	Differs  Verdict = "differs"  // there is another hold of the name, or another end
	Over     Verdict = "over"     // it has ended; to a Settle: its life has
	Absent   Verdict = "absent"   // there is no such hold, or no more
	Late     Verdict = "late"     // Until was before
	Numbers  Verdict = "numbers"  // Used has not as many numbers as Estimate
)

// An Answer is that to a Call. Ends, the end of its life, Token and Answer are those of the hold,
// if there is one that is open.
type Answer struct {
	Verdict       Verdict
	Ends          time.Time
	Token, Answer string
}

// A Kind says what a replica has to do.
type Kind string

const (
	Return  Kind = "r" // settle the tokens at home; another replica charges what is above them
	Whole   Kind = "w" // settle the tokens at home with all that was used
	Expired Kind = "e" // the same, of a hold that nobody has settled
	Charge  Kind = "c" // charge what another home's estimate was too low by
)

// A Notice tells a replica of the end of a hold. It comes with each Reply until it is acknowledged.
type Notice struct {
	Kind    Kind
	Name    string
	Used    []int  // all that was used; of a Charge: above the estimate
	Content string // of a Charge
}

// ID names a notice among those of a replica.
func (n Notice) ID() string { return string(n.Kind) + n.Name }

// A Batch is what a replica has to say to a Store at once.
type Batch struct {
	Home  string
	Acks  []string // IDs of notices
	Calls []Call
}

// A Reply has an Answer for each Call.
type Reply struct {
	Now     time.Time // by the Store's clock, in whole ms
	Answers []Answer
	Notices []Notice
}

// A Store keeps holds. Do is atomic: first the holds end whose life has (of many at least 100, and
// those of the calls), then the acknowledged notices go, then the calls are done in their order.
// After an error or a panic a batch may be done, not done, or be done later. It may block for as
// long as its client does.
type Store interface {
	Do(ctx context.Context, b Batch) (Reply, error)
}
