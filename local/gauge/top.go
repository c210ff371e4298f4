package gauge

import (
	"cmp"
	"slices"
	"strings"
)

// A Top finds the names that are counted most, in bounded room: it keeps so many of
// them, and a new name takes the place and the count of the smallest (Metwally, Agrawal
// and El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
// 2005, Space-Saving). A name that has more than a part 1/most of everything that was
// added is among them, and no Error is above that part (TestTopBounds).
type Top struct {
	most int
	at   map[string]int // places in heap
	heap []Ranked       // the smallest count first, each before its two children
}

// Ranked is a name and about how much was added to it: at most Count, and at least
// Count - Error.
type Ranked struct {
	Name         string
	Count, Error uint64
}

// NewTop returns a Top of so many names, at least 1.
func NewTop(most int) *Top { return &Top{most: most, at: map[string]int{}} }

// Add adds n to a name.
func (t *Top) Add(name string, n uint64) {
	i, known := t.at[name]
	switch {
	case known:
		t.heap[i].Count += n
	case len(t.heap) < t.most:
		i = len(t.heap)
		name = strings.Clone(name) // it may be a part of something large
		t.heap, t.at[name] = append(t.heap, Ranked{name, n, 0}), i
		i = t.rise(i)
	default:
		least := t.heap[0]
		delete(t.at, least.Name)
		name, i = strings.Clone(name), 0
		t.heap[0], t.at[name] = Ranked{name, least.Count + n, least.Count}, 0
	}
	t.sink(i)
}

func (t *Top) rise(i int) int {
	for i > 0 && t.heap[i].Count < t.heap[(i-1)/2].Count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	return i
}

func (t *Top) sink(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(t.heap); child++ {
			if t.heap[child].Count < t.heap[least].Count {
				least = child
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

func (t *Top) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.at[t.heap[i].Name], t.at[t.heap[j].Name] = i, j
}

// floor is what a name that is not kept has at most.
func (t *Top) floor() uint64 {
	if len(t.heap) < t.most {
		return 0
	}
	return t.heap[0].Count
}

// Ranking returns the names that several Tops have counted most together, at most so
// many, the largest Count first.
func Ranking(most int, tops ...*Top) []Ranked {
	sum := map[string]Ranked{}
	for _, t := range tops {
		for _, r := range t.heap {
			sum[r.Name] = Ranked{Name: r.Name}
		}
	}
	all := make([]Ranked, 0, len(sum))
	for _, r := range sum {
		for _, t := range tops {
			if i, ok := t.at[r.Name]; ok {
				r.Count, r.Error = r.Count+t.heap[i].Count, r.Error+t.heap[i].Error
			} else {
				r.Count, r.Error = r.Count+t.floor(), r.Error+t.floor()
			}
		}
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(most, len(all))]
}
