package accesslog

import (
	"hash/fnv"
	"strings"
)

// maxNames is how many keys, and how many upstreams, have numbers of their own.
// A scenario has no more keys.
const maxNames = 1_000_000

// names numbers the keys or the upstreams of a log. It holds one copy of each, so
// that no request pins its line.
type names struct {
	number  map[string]int32
	list    []string
	crowded bool // there were more: those share numbers, by their hash
}

func (n *names) of(name string) int32 {
	if i, ok := n.number[name]; ok {
		return i
	}
	if len(n.list) == maxNames {
		n.crowded = true
		h := fnv.New32a()
		h.Write([]byte(name)) // never fails
		return int32(h.Sum32() % maxNames)
	}
	if n.number == nil {
		n.number = map[string]int32{}
	}
	i := int32(len(n.list))
	name = strings.Clone(name)
	n.number[name] = i
	n.list = append(n.list, name)
	return i
}

// renumbered gives new numbers in the order in which they are asked for.
type renumbered struct {
	to   []int32 // by the old number; -1 is not asked for yet
	from []string
	list []string
}

func (n *names) renumber() renumbered {
	to := make([]int32, len(n.list))
	for i := range to {
		to[i] = -1
	}
	return renumbered{to: to, from: n.list}
}

func (r *renumbered) of(i int32) int32 {
	if i < 0 {
		return i
	}
	if r.to[i] < 0 {
		r.to[i] = int32(len(r.list))
		r.list = append(r.list, r.from[i])
	}
	return r.to[i]
}
