package rlqs

import (
	"maps"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// nameOf is the name of a bucket: its domain and its id, by which Envoys share it.
func nameOf(domain string, id map[string]string) string {
	b := strconv.AppendQuote(nil, domain)
	for _, k := range slices.Sorted(maps.Keys(id)) {
		b = strconv.AppendQuote(strconv.AppendQuote(b, k), id[k])
	}
	return string(b)
}

// orders knows in which orders the rules of a domain have the keys of a bucket's id, which has
// none. It reads the rules in force again when they have changed.
type orders struct{ last atomic.Pointer[orderTable] }

type orderTable struct {
	rules  *rules.Rules
	orders map[string][][]string // by nameOf the domain and the keys, without values
}

func (o *orders) table(now *rules.Rules) *orderTable {
	if t := o.last.Load(); t != nil && t.rules == now {
		return t
	}
	t := &orderTable{now, map[string][][]string{}}
	for _, d := range now.Domains() {
		for _, r := range d.Rules {
			path, err := rules.ParsePath(r.Path)
			if err != nil {
				continue // as of no rule
			}
			keys := make([]string, len(path))
			id := map[string]string{}
			for i, e := range path {
				keys[i], id[e.Key] = e.Key, ""
			}
			name := nameOf(d.Name, id)
			if len(id) == len(keys) && !slices.ContainsFunc(t.orders[name], func(x []string) bool {
				return slices.Equal(x, keys)
			}) {
				t.orders[name] = append(t.orders[name], keys)
			}
		}
	}
	o.last.Store(t)
	return t
}

// descriptor returns a bucket's id in the order of the first rule that limits it, and what limits
// it. Where no rule does, the order does not matter.
func (t *orderTable) descriptor(
	domain string, id map[string]string,
) (d rules.Descriptor, limit rules.Explanation, err error) {
	keys := map[string]string{}
	for k := range id {
		keys[k] = ""
	}
	for _, order := range t.orders[nameOf(domain, keys)] {
		d.Entries = d.Entries[:0]
		for _, k := range order {
			d.Entries = append(d.Entries, rules.Entry{Key: k, Value: id[k]})
		}
		each, err := t.rules.Explain(domain, d)
		if err != nil {
			return d, limit, err
		}
		if limit = each[0]; limit.State != rules.NotConfigured {
			return d, limit, nil
		}
	}
	return d, limit, nil
}
