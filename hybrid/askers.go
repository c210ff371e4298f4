package hybrid

import (
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/seed13b07268/ration/local"
)

// askers are the last few keys that were asked for while the store was away.
type askers struct {
	mu   sync.Mutex
	list []*local.Entry // in the order in which they came, from next on
	next int
	one  bool // take one of them next time
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

// take empties the list, and returns it and e, or, each second time, one of them: a
// cluster's answer is as late as that of its slowest node.
func (a *askers) take(e *local.Entry) []*local.Entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.list
	if !slices.Contains(all, e) {
		all = append(all, e)
	}
	a.list, a.next = nil, 0
	if a.one = !a.one; !a.one {
		i := rand.IntN(len(all))
		return all[i : i+1]
	}
	return all
}
