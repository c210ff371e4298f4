package rules

import "github.com/seed13b07268/ration/hybrid"

// An Explanation is what a request would be limited by, for one descriptor.
type Explanation struct {
	State State
	Rule  Rule // that matches; the zero Rule if none does
	Trial bool // the limit of the trial is in force

	// Limit that is in force, and the Key of its bucket in the store, if State is Limited.
	Limit hybrid.Limit
	Key   string

	// Class is that of the descriptor, "" if the rule has no Classes.
	Class string
}

// Explain tells what a request of a domain would be limited by. It takes nothing, and asks
// nobody. Its errors wrap ErrDescriptor.
func (r *Rules) Explain(domain string, descriptors ...Descriptor) ([]Explanation, error) {
	if err := check(descriptors); err != nil {
		return nil, err
	}
	list := make([]Explanation, len(descriptors))
	d := r.domains[domain]
	if d == nil {
		return list, nil
	}
	p := newPlan(&live{domain: d}, descriptors)
	for i, s := range p.each {
		list[i] = Explanation{State: s.State, Trial: s.Trial}
		if p.rules[i] != nil {
			r := p.rules[i]
			list[i].Rule, list[i].Class = r.public(), r.classOf(descriptors[i].Entries)
			if n := len(r.Classes); n > 0 && list[i].Class == "" {
				list[i].Class = r.Classes[n-1].Name
			}
		}
	}
	for i, ask := range p.asks {
		e := &list[p.from[i]]
		e.Key, e.Limit = namespaceOf(domain)+":"+ask.Key, p.limitOf(i)
	}
	return list, nil
}
