package main

import (
	"fmt"
	"time"
)

// A Trial is what a guard judges: one round of a subject, from its opening to
// its end, warm-up included.
type Trial struct {
	Decisions, Admitted, Errors int64
	Keys                        int // that may have been asked for
	Calls                       int64
	Astray                      int64
	Elapsed                     time.Duration
}

// minCalls is how many calls a decision takes at least where each one asks.
// The rest is for calls that were under way when the counters were read, and for
// answers that came too late on a busy machine: those count as errors.
const minCalls = 0.99

// refuse says why a subject's figures would be about something else than a
// limiter that shares its limit through Redis, or is empty.
func refuse(s Subject, l Load, t Trial) string {
	answered := t.Decisions - t.Errors
	switch {
	case answered <= 0:
		return fmt.Sprintf("no decision: %d errors", t.Errors)
	case !s.Local && t.Calls == 0:
		return "never asked Redis"
	// Nobody can have leased a key that nobody has asked for yet.
	case !s.Local && (!s.Leases || l.Pick == Cold) && float64(t.Calls) < minCalls*float64(answered):
		return fmt.Sprintf("asked Redis only %d times for %d decisions", t.Calls, answered)
	case float64(t.Astray) > (1-minCalls)*float64(answered):
		return fmt.Sprintf("%d of %d decisions without Redis, which it took for away", t.Astray,
			answered)
	}
	// One token for a fraction that had gathered when the clocks were read.
	bound := (s.bound(l.Limit, t.Elapsed) + 1) * float64(t.Keys)
	if float64(t.Admitted) > bound {
		return fmt.Sprintf("admitted %d, its limit is %.0f in %v", t.Admitted, bound,
			t.Elapsed.Round(time.Millisecond))
	}
	// Less than the limit is no service either: a limiter that denies what it
	// should admit is fast, too.
	if l.Generous && float64(t.Admitted) < minCalls*float64(answered) {
		return fmt.Sprintf("denied %d of %d though the limit was generous", answered-t.Admitted,
			answered)
	}
	return ""
}
