// Package live plays scenarios in real time: every process of the scenario is a
// hybrid.Limiter with connections of its own, in this program or in a process
// of the operating system, and the ledgers are in an embedded or a real Redis.
//
// # Promise
//
// The requests are those of package engine for the same scenario, seed and
// replication, and so are the faults and whom they hit. What is measured is
// measured by the same arithmetic, so that a Result of engine.Run is a
// prediction of one of Run.
//
// It does not promise to fire requests in time: Extra.LateP99 says how late
// they were, and all measures take them when they came in truth.
//
// # What an outsider cannot see
//
// Where tokens went within leases, which exchange was for which request, and
// how soon shares settled: Result.Tokens, CallsAdmitting, CallsDenying,
// CallsAhead, Settle and Shifts stay zero. What leases hold when the warm-up
// ends, from where the ideal bucket counts, is reckoned from messages, and from
// a look at the pools; a look that takes long spoils the measures of a short
// run by what flows meanwhile. Pending is zero, too: a run waits for the
// answers to all that it has fired.
package live
