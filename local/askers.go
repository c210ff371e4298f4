package local

import "slices"

// askers are the last few keys that were asked for while the store was away.
type askers struct {
	list []*Entry // in the order in which they came, from next on
	next int
}

const mostAskers = 16

// add notes a key.
func (a *askers) add(e *Entry) {
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
func (a *askers) take(others ...*Entry) []*Entry {
	all := a.list
	for _, e := range others {
		if !slices.Contains(all, e) {
			all = append(all, e)
		}
	}
	a.list, a.next = nil, 0
	return all
}
