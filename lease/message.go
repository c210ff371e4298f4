package lease

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"time"
)

// Request is what a Holder sends to the Ledger of a key. All of it is
// produced by Holder.Request; a store only carries it.
type Request struct {
	Holder string // unique per process start, at most 64 bytes of 0-9 A-Z a-z _ -
	Seq    uint64 // 1, 2, 3, ...: each request of a holder has a new one
	Seen   uint64 // Seq of the last reply that arrived, 0 if none

	Take float64 // tokens for the callers that wait, all or the first ones of one size; whole
	Min  float64 // tokens that the first of them needs, whole, at most Take
	Unit float64 // what each of the others needs, whole, or all of them together; 0 is 1
	Give float64 // tokens handed back; the holder has removed them already
	Held float64 // tokens that it keeps, reserved ones included
	Used float64 // of a sliding window: those of them that are spent, and still count

	Waits bool // the first of them stays through a denial

	// Hold is for how long what is taken may be held, 1 µs or above, or 0 if it is taken for good. It
	// goes to the lease, with room set aside for it, and may come back. WhileOpen is as long as any
	// lease may live.
	Hold time.Duration

	// Debt is tokens that were spent and not there, and Since the first Seq that carried
	// them: a ledger that has answered that one has debited them. Below 0, they are tokens of a
	// quota that come back, and Since is the Fence of reply Seen.
	Debt  float64
	Since uint64

	// Got is how many tokens have come to the lease since request Seen was sent, and found
	// room in it: those of its answer, and those that the holder has added by itself. Peak is
	// the most that it held meanwhile; those of the answer count from when the request left.
	// Of slots, Got is how many are in use, and Peak how many were, or were wanted, since the
	// last request.
	Got, Peak float64

	Denied float64 // tokens that were denied since the last request left

	Demand  float64       // offered tokens/s, denied ones included; slots in use or wanted
	ByClass *ByClass      // nil without classes
	Lag     time.Duration // how long exchanges lately took
	Claim   Claim         // the lease it believes in
	Limit   Limit         // as the caller declares it
	Policy  Policy        // resolved
}

// Claim is the lease that a Holder goes by. A Ledger that does not know the holder
// has lost its state, and adopts the claim (I6).
type Claim struct {
	Rate  float64       // tokens/s
	Burst float64       // tokens; 0 means no lease
	Left  time.Duration // until it ends
}

// Reply is the Ledger's answer. Durations count from the moment at which the
// request was sent, so that no clocks are compared.
type Reply struct {
	Seq uint64

	// Stale says that the ledger has answered this Seq or a later one, or has no room for
	// another holder. All fields but Seq and Limit are then zero.
	Stale bool

	Taken float64 // tokens for the waiting requests, whole, debited for good; 0 if they are held
	Add   float64 // tokens to hold, on top of those held

	Shape     Shape         // of the lease
	Rate      float64       // tokens/s that the holder adds by itself, if the shape refills
	Burst     float64       // most tokens it may hold; 0 is no lease
	Keep      float64       // when it next asks, it hands back all above this
	Refresh   time.Duration // when to come back
	RateUntil time.Duration // when adding stops; of no slice, when a denied holder has its turn
	Expires   time.Duration // when held tokens die

	Parts    [MaxClasses]uint16 // of the lease, by class, in 65535ths; all 0 without classes
	Portions *Portions          // of a quota, by class; nil without classes

	// Window is until the window of a quota ends, or until what counts at the ledger of a sliding
	// window lets go what is missing, at least: 0 if nothing is, or nobody knows. It is 0 for other
	// kinds.
	Window time.Duration

	Fence      uint64        // of slots, larger than that of each earlier answer, and of a quota
	RetryAfter time.Duration // do not ask for more before; 0 if not denied
	Dry        bool          // the pool has nothing left for holders with a slice
	Ahead      bool          // the class has had more of its due, or asks alone: it asks later
	Contended  bool          // the sum of all demand is above 0.9 Rate
	Holders    int           // number of holders of the key, this one included
	Pool       Pool          // as the exchange has left it
	Limit      Limit         // in force
}

// Pool is what of a bucket is not lent out.
type Pool struct {
	Level float64 // tokens in it; below 0 while a lost state is paid back (I6)
	Flow  float64 // tokens/s that flow into it: the rate that nobody has on lease; of a quota less
	// than 0: what other holders are asked for
	Room float64 // most that it holds; below 0 while more is lent than a lowered Burst

	Earmark float64 // tokens of it that are kept for other holders
}

// ErrRefused is wrapped by the Err of a Call when the store has answered, but not for
// this key, whose state it cannot use.
var ErrRefused = errors.New("key refused")

// ErrUnable is wrapped by the Err of a Call when the store has answered that it, or its part
// that has the key, can serve nobody now.
var ErrUnable = errors.New("store is unable")

// A Call carries one exchange to the ledger of a key and back. Stores fill in
// Reply, or Err when there is none.
type Call struct {
	Key     string
	Request Request
	Reply   Reply
	Err     error
}

// maxHolderID is the longest Request.Holder, in bytes.
const maxHolderID = 64

// maxSeq is where float64, Lua's only number, stops being exact.
const maxSeq = 1 << 53

// Validate returns an error that names the field and its value unless a Ledger
// can process q. Stores call it, so that neither ledger meets a NaN.
func (q *Request) Validate() error {
	if err := cmp.Or(q.Limit.Validate(), q.Policy.Validate(), validID(q.Holder), q.ByClass.validate(q)); err != nil {
		return err
	}
	switch {
	case q.Seq < 1 || q.Seq > maxSeq:
		return bad("Seq", q.Seq, "from 1 to 2^53")
	case q.Seen >= q.Seq:
		return bad("Seen", q.Seen, fmt.Sprintf("below Seq %d", q.Seq))
	case q.Debt < 0 && !q.Limit.Kind.of().refunds:
		return bad("Debt", q.Debt, "0 or above, as it is of no quota")
	case q.Debt > 0 && (q.Since < 1 || q.Since > q.Seq):
		return bad("Since", q.Since, fmt.Sprintf("from 1 to Seq %d", q.Seq))
	case q.Min > q.Take:
		return bad("Min", q.Min, fmt.Sprintf("at most Take %v", q.Take))
	case q.Hold < 0 || q.Hold > 0 && q.Hold < time.Microsecond:
		return bad("Hold", q.Hold, "0, or 1µs or above")
	case q.Lag < 0:
		return bad("Lag", q.Lag, "0 or above")
	case q.Claim.Left < 0:
		return bad("Claim.Left", q.Claim.Left, "0 or above")
	}
	return q.validateNumbers()
}

// validateNumbers is Validate for numbers of tokens, and of tokens/s.
func (q *Request) validateNumbers() error {
	for _, f := range []struct {
		field string
		value float64
		whole bool
	}{
		{"Take", q.Take, true}, {"Min", q.Min, true}, {"Unit", q.Unit, true},
		{"Give", q.Give, false}, {"Held", q.Held, false}, {"Used", q.Used, false},
		{"Debt", math.Abs(q.Debt), false},
		{"Got", q.Got, false}, {"Peak", q.Peak, false}, {"Denied", q.Denied, false},
		{"Demand", q.Demand, false},
		{"Claim.Rate", q.Claim.Rate, false}, {"Claim.Burst", q.Claim.Burst, false},
	} {
		if !(f.value >= 0) || f.value > 1<<40 || f.whole && f.value != math.Floor(f.value) {
			want := "from 0 to 2^40"
			if f.whole {
				want += " and whole"
			}
			return bad(f.field, f.value, want)
		}
	}
	return nil
}

func validID(holder string) error {
	if n := len(holder); n < 1 || n > maxHolderID {
		return bad("Holder", fmt.Sprintf("%.80q", holder), "1 to 64 bytes long")
	}
	for _, c := range []byte(holder) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '_' && c != '-' {
			return bad("Holder", fmt.Sprintf("%q", holder), "made of 0-9 A-Z a-z _ -")
		}
	}
	return nil
}

func bad(field string, value any, want string) error {
	return fmt.Errorf("lease: Request.%s %v is not %s", field, value, want)
}
