// Package local keeps a process's holders: a bounded table of
// mutex-guarded entries, one for each key, and the times at which they want
// attention.
//
// It starts no goroutine and reads no clock: a driver passes the time in, carries the
// flights of its Dispatch and wakes those who wait. That is package hybrid with goroutines
// and timers, and sim/engine with events.
//
// # Locks
//
// They are taken in this order: Table, Entry, and then one of Dispatch, schedule, health,
// Shares and denied, none of which is held while any other is taken (hybrid.TestLockOrder). Those
// of several entries are taken in the order of Entry.compare, in Several.lock and TakeAll.
// No callback runs under two of these locks, and none under one but that of Entry.Close,
// Job.End and the random numbers of health.
//
// # Between a Dispatch and its entries
//
// After each Take or Close that says so, and when the schedule says an entry is due, the Dispatch
// calls ready. When ready asks, the Dispatch calls request as soon as the request can leave. It has
// the request delivered, and calls answer exactly once. Where the request cannot leave, it calls
// putOff. The next ready or request ends an exchange that takes longer than the table's timeout.
// The late answer is ignored.
package local
