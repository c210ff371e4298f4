// Package lease divides one token bucket among many holders.
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
//	I7  Work. What stays unused while somebody is denied is measured.
//
// It does not promise that every token is used: a crash forfeits its lease, and
// a lost reply what it granted. Nor that tokens are shared fairly at every
// moment: shares follow demand when holders come back.
//
// # Driving a Holder
//
//  1. After each Take, if Due says so, and after each Enter, Handle and Fail,
//     and at the time that Wake says, call Poll.
//  2. Deliver the request that Poll returns to the key's Ledger; answer it with
//     exactly one Handle or Fail. Fail it after a timeout: the timeout is what d
//     is in I1. Who cannot deliver at once calls Wants instead of Poll, and Poll
//     or PutOff when it can or will not.
//  3. After each of these, collect those who waited from Resolved.
//  4. Time must not go back; a step back counts as none.
//  5. Ids are unique per Holder, not per process: a new Holder counts its
//     requests from 1 again.
package lease
