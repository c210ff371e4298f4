// Package ideal has exact central limits: what a limiter would do that asked for each request and
// got its answer in no time. The simulator judges limiters by them, and both `sim whatif` and the
// page of the service try another limit on what was recorded.
//
// # Promise
//
// Everything here is arithmetic on what it is told, by the calendar of package time and not by that
// of package lease. A bucket and a quota cost the same for each request; a sliding window and slots
// keep each admission for as long as it counts.
//
// # Duties
//
// Times count from any fixed moment, those of quotas from 1970-01-01 0:00 by UTC. Times passed to
// one value must not go back. Values are not safe for concurrent use.
package ideal
