package hybrid

import (
	"slices"
	"sync"

	"github.com/seed13b07268/ration/local"
)

// askers are the last few keys that were asked for while the store was away.
type askers struct {
	mu   sync.Mutex
	list []*local.Entry // in the order in which they came, from next on
	next int
}

const mostAskers = 16

// add notes a key.
func (a *askers) add(e *local.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case slices.Contains(a.list, e):
	case len(a.list) < mostAskers:
		a.list = append(a.list, e)
	default:
		a.list[a.next] = e
		a.next = (a.next + 1) % mostAskers
	}
}

// take empties the list, and returns it and others.
func (a *askers) take(others ...*local.Entry) []*local.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.list
	for _, e := range others {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	a.list, a.next = nil, 0
	return all
}
