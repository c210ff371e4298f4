package local

import (
	"sync"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

const (
	// DeniedKeys is how many keys are counted for the most denied ones. A count is too
	// high by at most this part of all denials of its time.
	DeniedKeys = 128
	// deniedTerm is how often the counts begin anew. The counts are of the last term and of the
	// term that goes on.
	deniedTerm = time.Minute
	// deniedName is how many bytes of a key are kept: a key made up by a stranger may be long.
	// Keys that begin alike are counted together.
	deniedName = 256
)

// denied counts the denials of keys. Nothing on the way of a decision tells it: who looks
// at an entry anyway, a sweep most of all, brings what has come since the last look.
type denied struct {
	mu         sync.Mutex
	young, old *gauge.Top
	turns      time.Duration // when the next term begins
}

func newDenied() *denied {
	return &denied{
		young: gauge.NewTop(DeniedKeys), old: gauge.NewTop(DeniedKeys), turns: deniedTerm,
	}
}

func (d *denied) add(now time.Duration, key string, n uint64) {
	if n == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnLocked(now)
	d.young.Add(key[:min(len(key), deniedName)], n)
}

func (d *denied) turnLocked(now time.Duration) {
	if now < d.turns {
		return
	}
	d.old, d.young = d.young, gauge.NewTop(DeniedKeys)
	if now >= d.turns+deniedTerm {
		d.old = gauge.NewTop(DeniedKeys)
	}
	d.turns = now + deniedTerm
}

func (d *denied) ranking(now time.Duration, most int) []gauge.Ranked {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turnLocked(now)
	return gauge.Ranking(most, d.young, d.old)
}
