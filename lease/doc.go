// Package lease divides one token bucket, quota or sliding window, or some slots, among many
// holders.
//
// A Ledger owns the bucket of a key. Each process's Holder borrows a part of it
// and spends that without asking. Neither half reads a clock, starts a
// goroutine or does I/O: the caller passes time in and carries the messages.
//
// # Promise
//
//	I1  Envelope. In any window of T seconds all holders together admit at most
//	    Burst + Rate*(T + d), where d is how long a granted reply may be under
//	    way; from leases alone, Burst + Rate*T.
//	I2  Early stop. A holder never spends after its lease has ended at the ledger.
//	I3  No minting. Losing, repeating, delaying or reordering messages may waste
//	    tokens, never create them.
//	I4  Divided. What is lent and what is left is never more than there is.
//	I5  Twins. The Lua ledger gives the same replies and state.
//	I6  Lost state. A ledger that starts anew admits at most one more Burst,
//	    once, and what leases of the state that was lost refill until they end.
//	Q1  Quota. In each window of a quota's calendar all holders together admit at
//	    most Burst tokens, exactly.
//	Q2  Floors. The pool of a quota has what is kept for classes of requests
//	    (class_quota.go).
//	S1  Slots. At most Burst slots are in use under live leases, at any time.
//	W1  Sliding window. In any time of its length all holders together admit at most
//	    Burst tokens, exactly.
//
// It does not promise that every token is used: a crash forfeits its lease, and a lost
// reply what it took for requests that wait. TestTable measures how many. Nor does it
// promise that tokens are divided fairly at every moment: leases follow demand when
// holders come back.
//
// # Kinds
//
// A Ledger and a Holder are what all kinds of limit have in common. Each kind has a type for the
// division of a Ledger (kind.go), and a type for the spending of a Holder (spending.go). A reader
// of the token bucket needs bucketLedger and bucketHolder, and no other kind.
//
// # Driving a Holder
//
//  1. Call Ready after each Enter, Handle, Fail and PutOff; after a Take if Due says
//     so; and at the time that the last Ready gave as Wake.
//  2. Tell the Waiters in Resolved their verdicts.
//  3. If Ready says Ask, call Request when the request can leave, at once or later,
//     and deliver it to the key's Ledger. Until then the holder goes on: the request
//     asks for what is needed when it is made, and Request reports false if that is
//     nothing. If it cannot leave, call PutOff.
//  4. Answer each request with exactly one Handle or Fail. Fail it after a timeout:
//     the timeout is what d is in I1.
//  5. Time must not go back; a step back counts as none.
//  6. Ids are unique per Holder, not per process: a new Holder counts its
//     requests from 1 again.
//
// A driver that can always deliver at once needs no more than
//
//	r := h.Ready(now)
//	// r.Resolved have their verdicts
//	if r.Ask {
//		q, _ := h.Request(now)
//		// deliver q, then Handle or Fail, and begin again
//	}
//	// else wait until r.Wake
package lease
