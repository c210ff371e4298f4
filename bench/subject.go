package main

import "time"

// A Subject is a limiter as a user would set it up.
type Subject struct {
	Name   string
	Module string // the Go module whose version is reported
	Note   string // what a reader must know about the set-up

	Open func(Env) (Limiter, error)

	// Leases says that it decides from what it has fetched before. All others
	// must ask Redis for each decision, and are refused if they do not.
	Leases bool

	// Local says that it never asks Redis, nor should.
	Local bool

	// Calls counts the calls that it caused. Nil means scripts: commands called
	// by scripts are in the server's statistics, too, and are no round trips.
	Calls func(Commands) int64

	// Bound is how much its own algorithm admits of one key in a time, at most.
	// Nil means a token bucket: Burst + Rate*T.
	Bound func(Limit, time.Duration) float64
}

// Env is what a Subject is opened with.
type Env struct {
	Addr  string // of Redis, or of the delaying proxy in front of it
	Limit Limit  // of every key
	Conns int    // as many as there are goroutines, so that none waits for one
}

// Limit is a token bucket, in tokens and tokens per second. Limiters that count
// in windows get Rate for each second.
type Limit struct{ Rate, Burst int }

// Both limits of the comparison. Nobody can exhaust the first one; of the second
// one nearly every request is denied.
var (
	generous  = Limit{Rate: 100_000_000, Burst: 100_000_000}
	exhausted = Limit{Rate: 100, Burst: 100}
)

// A Limiter is an open Subject.
type Limiter struct {
	Allow func(key string) (bool, error)
	Close func()

	// Astray, if not nil, counts decisions that were made without what Redis
	// knows, because it was taken for away.
	Astray func() int64
}

// Commands are numbers of calls by command, from INFO commandstats.
type Commands map[string]int64

// scripts counts script calls.
func scripts(c Commands) int64 {
	return c["evalsha"] + c["eval"] + c["evalsha_ro"] + c["eval_ro"] + c["fcall"] + c["fcall_ro"]
}

func (s Subject) calls(c Commands) int64 {
	if s.Calls != nil {
		return s.Calls(c)
	}
	return scripts(c)
}

func (s Subject) bound(l Limit, t time.Duration) float64 {
	if s.Bound != nil {
		return s.Bound(l, t)
	}
	return bucketBound(l, t)
}

func bucketBound(l Limit, t time.Duration) float64 {
	return float64(l.Burst) + float64(l.Rate)*t.Seconds()
}

// windowBound is that of counters that start anew each second: one more window
// than fits, at either end.
func windowBound(l Limit, t time.Duration) float64 {
	return float64(l.Rate) * (t.Seconds() + 2)
}
