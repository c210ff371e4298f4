package hybrid

import (
	"crypto/rand"
	"reflect"
	"sync"

	"github.com/seed13b07268/ration/local"
)

// A Process is one of those that share the limits of a store: each has an equal part of
// them in an outage, see Share. All Limiters of a program are one Process, unless their
// Config says otherwise. It is safe for concurrent use.
//
// Its Limiters of one [Config.Namespace] have one part of each key together if their Stores
// are equal (==), or have a method Identity() any that returns equal values, as
// remote.Stores of one client do. Limiters on two clients of one Redis have a part each, since
// nobody can tell that the Redis is the same.
type Process struct {
	name *local.Name

	mu      sync.Mutex
	commons map[place]*common
}

// A place is where keys have their ledgers.
type place struct {
	store     any
	namespace string
}

// A common is what the Limiters of a Process have in common that limit the same keys: in an
// outage they admit one part of the limit together.
type common struct {
	clock    *clock // this and the fleet are those of all namespaces of the store
	fleet    *local.Fleet
	shares   *local.Shares
	limiters int
}

// NewProcess returns a Process beside the program's own. It is for programs that play
// several processes, such as tests and simulations.
func NewProcess() *Process {
	return &Process{name: local.NewName(randomID()), commons: map[place]*common{}}
}

// program is the Process of Limiters whose Config names none.
var program = NewProcess()

// randomID has 50 random bits: among 1000 processes that limit a key at a time, two have
// the same once in two billion fleets. Redis keeps it for each.
func randomID() string { return rand.Text()[:10] }

// placeOf tells where a Limiter's keys have their ledgers. What cannot be compared is a
// place of its own, and so is an Identity of nil.
func placeOf(store Store, namespace string) place {
	var id any = store
	if s, ok := store.(interface{ Identity() any }); ok {
		id = s.Identity()
	}
	if id == nil || !reflect.ValueOf(id).Comparable() {
		id = new(place)
	}
	return place{id, namespace}
}

// join returns what a new Limiter has in common with others. Then call leave when it is closed.
func (p *Process) join(at place) *common {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.commons[at]
	if c == nil {
		c = &common{clock: newClock(), fleet: local.NewFleet(0, p.name), shares: local.NewShares()}
		for other, had := range p.commons {
			if other.store == at.store {
				c.clock, c.fleet = had.clock, had.fleet
			}
		}
		p.commons[at] = c
	}
	c.limiters++
	return c
}

// leave is for a Limiter that is closed.
func (p *Process) leave(at place) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.commons[at]
	if c.limiters--; c.limiters == 0 {
		delete(p.commons, at)
	}
}
