package measure

import "time"

// A Life is what a process lives through from its start to its end: how long
// it waits for its first token, and how long it starves: from its first denial to its
// last one before the next admission. A single denial is no starvation, however long
// nobody asks again after it.
type Life struct {
	asked    time.Duration // the first request, -1 before it
	latest   time.Duration // the last one
	starving time.Duration // the first denial since the last admission, -1 if none
	served   bool          // it has had a token
}

// calm is how long a process is not asked for anything until it counts as sated:
// of two denials with such a silence between them, the second one is a first one.
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

// Deny notes a request that is not admitted, and returns how long the process has starved.
func (l *Life) Deny(now time.Duration) (starved time.Duration) {
	if l.starving < 0 {
		l.starving = now
	}
	return now - l.starving
}

// Admit notes an admission, and returns whether it is the first one.
func (l *Life) Admit() (first bool) {
	first = !l.served
	l.served, l.starving = true, -1
	return first
}

// Waited is how long the process has been waiting, since its first request.
func (l *Life) Waited(now time.Duration) time.Duration { return now - l.asked }

// Reset forgets how long the process has starved so far.
func (l *Life) Reset(now time.Duration) {
	if l.starving >= 0 {
		l.starving = now
	}
}
