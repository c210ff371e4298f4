// Package chaos proves that nothing breaks the limit and nothing stops the
// service: real processes share limits on real Redis servers, both are killed,
// frozen, cut off and moved, and one checker judges everything that was
// admitted. There is nothing in it but tests, for Linux and macOS.
//
//	go test ./hybrid/internal/proofs/chaos -long # each kind of fault, about 90 s
//	go test ./hybrid/internal/proofs/chaos -long -v -timeout 0 -chaos.duration 20m -chaos.seed 1
//
// It needs the machine for itself, so that `go test ./...` tests its judge alone.
//
// # What is recorded
//
// A process reads the clock of the machine (CLOCK_MONOTONIC, which all share)
// before and after each request, writes both with the verdict into a pipe, and
// only then would act on it. A write to a pipe is all or nothing, and outlives
// the process: an admission that the record lacks is one that nobody acted on.
//
// # How it is judged
//
// The token of an admission was spent at some time between the two readings,
// if it came from a lease, or left the ledger then, if the request waited for
// it. So a window of T seconds that contains both readings of more than
// Burst + Rate*T tokens is a violation, whatever the true times were; nothing is
// added for requests that waited (d of docs/guarantees.md), because their token
// left the ledger while they did. That d is judged by itself: no request takes longer than
// Config.Timeout, or than two of it behind an exchange of its key, unless its process was
// stopped meanwhile. Which requests were behind one is not recorded, so that two are allowed.
//
// Where processes share the rate while the store is away, each tells when it took it
// for away. The suite knows when the store was gone for all, as it is what took it away.
// While it was, windows are judged like all others; a process may round its part of the
// Burst up to a whole token. Once it is back its bucket has filled: a Burst is allowed in
// windows that contain some of the time until the last process has noticed. Whenever a
// process goes by itself though the store is not gone, its equal part of the Rate is
// allowed for as long. How long it takes to notice that the store is back is judged in
// time: two seconds at most. A process tells when an exchange of its own has failed: for it
// the store was not back before.
//
// A quota is judged by its windows. The machine's clock is that of its servers, and an
// admission counts for the window that contains both of its readings. More than the quota
// is a violation, but for one quota for each loss of state in that window. What the outage
// policy admits is beside it.
//
// A sliding window is judged by all windows of its length: each contains the admissions all of
// whose span is in it. For one n more are allowed for each loss of state, if it contains that, or
// begins before the leases of before have come back and handed over what is too much. What the
// outage policy admits is beside it, too. A refund is of the newest tokens: windows that begin
// after the request, and before its refund, may have as many more.
//
// Of slots, a job surely has its own from when Acquire has returned until before a Release that
// has found them still there. A job without one, as its process was killed or its context has
// ended, tells every 20 ms that its context goes on. So it surely had them then, unless its
// process was kept from running just before: contexts end when it runs. More than n at once are
// a violation, but for n for each loss of state, until leases of before have ended, and the
// jobs that began until then. The fence of a job with a single slot is no smaller than those of
// jobs that had it before, and larger than those of other processes, but for that time.
//
// A request for several limits is an admission of each, or of none.
//
// A planned failover leaves two masters until the Sentinels have told all processes, unless the old
// master refuses to write without replicas. Each master lends the Rate meanwhile.
//
// A fault may spare keys: the keys of other servers, or all. While the fault lasts, requests for
// spared keys have verdicts. Exempt are a few on a busy machine, and requests of processes and
// links that did not run.
//
// A key that passes is judged when its time is over. When all keys are gone, heaps and Redis have
// the memory that they had before.
//
// What was reserved is settled at some time between the call of Reserve and the return of Settle:
// by that, or as the lease has ended before. The envelope is of what was settled and charged. D
// is at most what a process has charged since it last reserved something: before it does so
// again, its debts are paid. A debt of a process that was killed may never be. What was owed when
// a state was lost is allowed besides. Where the outage policy admits, nothing is reserved, as
// that is settled at once.
//
// What a machine that is too busy prevents cannot be judged: that a process has a verdict
// at the end, and that each key admits something. It is counted, and too much of it fails.
//
// A process that is stopped between the two readings may act long after it has
// decided. No limiter can prevent that, and its readings say so: such an
// admission counts in the windows that contain both.
package chaos
