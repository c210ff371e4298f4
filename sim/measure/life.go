package measure

import "time"

// A Life is what a process lives through from its start to its end: how long
// it waits for its first token, and how long it starves, from its first denial
// to its next admission.
type Life struct {
	asked    time.Duration // the first request, -1 before it
	latest   time.Duration // the last one
	starving time.Duration // the first denial since the last admission, -1 if none
	served   bool          // it has had a token
}

// calm is how long a process is not asked for anything until it counts as
// sated: it does not starve, then.
const calm = time.Second

// NewLife is a life that begins.
func NewLife() Life { return Life{asked: -1, starving: -1} }

// Ask notes a request.
func (l *Life) Ask(now time.Duration) {
	if l.asked < 0 {
		l.asked = now
	} else if now-l.latest > calm {
		l.starving = -1
	}
	l.latest = now
}

// Deny notes a request that is not admitted.
func (l *Life) Deny(now time.Duration) {
	if l.starving < 0 {
		l.starving = now
	}
}

// Admit notes an admission. It returns how long the process has starved, and
// whether it is the first one.
func (l *Life) Admit(now time.Duration) (starved time.Duration, first bool) {
	first = !l.served
	l.served = true
	return l.End(now), first
}

// Waited is how long the process has been waiting, since its first request.
func (l *Life) Waited(now time.Duration) time.Duration { return now - l.asked }

// Reset forgets how long the process has starved so far.
func (l *Life) Reset(now time.Duration) {
	if l.starving >= 0 {
		l.starving = now
	}
}

// End returns how long the process has starved until now, and ends that.
func (l *Life) End(now time.Duration) (starved time.Duration) {
	if l.starving >= 0 {
		starved = now - l.starving
		l.starving = -1
	}
	return starved
}
