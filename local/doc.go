// Package local keeps a process's holders: a bounded table of
// mutex-guarded entries, one for each key, and the times at which they want
// attention.
//
// It starts no goroutine and reads no clock: package hybrid passes the time in,
// carries the requests and wakes those who wait.
//
// # Duties of the caller
//
// After each Take, Answer or Close that says so, and when the Schedule says an
// entry is due, call Poll, and deliver the request it returns; answer it with
// exactly one Answer. Who cannot deliver at once calls Wants instead, and Poll or
// PutOff when it can or will not. An exchange that takes longer than the table's
// timeout is ended by the next Poll or Wants; its late answer is ignored.
package local
