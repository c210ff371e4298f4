// Package whatif keeps what limits have decided in the last hour, and tells what another limit would
// have denied of that. docs/what-if.md says what it cannot see.
//
// # Promise
//
// A Record holds at most so many bytes as it is told, however many domains, rules, keys and
// decisions there are. If they do not fit, it keeps fewer keys of the largest rule, each of them
// whole, or a shorter time of one with few keys. Answers say which part was kept.
//
// It does not promise that a record outlives the process, nor that it has all decisions of a
// process that decides more than the Limiter can write (hybrid.Stats.LostRecords).
package whatif

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// lasts is for how long decisions are kept.
const lasts = time.Hour

// A Record is what limits have decided. It is safe for concurrent use.
type Record struct {
	rules func() *rules.Rules
	most  int
	room  chan struct{} // for those who play it again
	board *board        // nil: there is no other service

	mu      sync.Mutex
	domains map[string]*domain
	began   time.Time
	oldest  int64 // minute
}

// A domain is the traces of its rules.
type domain struct {
	name   string
	rules  *rules.Rules // by which keys were looked up
	keys   map[string]*kept
	traces map[string]*trace // by path
}

// New returns a Record of at most so many bytes, above 0, which asks for the rules in force once
// something is recorded.
func New(most int, inForce func() *rules.Rules) *Record {
	return &Record{
		rules: inForce, most: most, room: make(chan struct{}, mostPlays),
		domains: map[string]*domain{}, began: time.Now(),
	}
}

// Of is for rules.Config.Record.
func (r *Record) Of(domain string) hybrid.Recording {
	return hybrid.Recording{To: writer{r, domain}, Name: true}
}

// A writer takes the lines of a domain.
type writer struct {
	record *Record
	domain string
}

// Write takes lines as a hybrid.Recording has them. Others are passed over.
func (w writer) Write(text []byte) (int, error) {
	r := w.record
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.domainLocked(w.domain)
	for line := range bytes.Lines(text) {
		if one, ok := parse(line); ok {
			d.add(one)
		}
	}
	r.forgetLocked(time.Now())
	r.fitLocked()
	return len(text), nil
}

// domainLocked is a domain whose keys are looked up by the rules in force. A key that was another
// rule's begins anew.
func (r *Record) domainLocked(name string) *domain {
	d := r.domains[name]
	if d == nil {
		d = &domain{name: name, keys: map[string]*kept{}, traces: map[string]*trace{}}
		r.domains[name] = d
	}
	if now := r.rules(); d.rules != now {
		d.rules = now
		for key, k := range d.keys {
			if pathOf(now, name, key) != k.trace.path {
				delete(d.keys, key)
			}
		}
	}
	return d
}

// A verdict is what became of a request.
type verdict uint8

const (
	admitted verdict = iota
	denied
	charged
)

// A decision is a line.
type decision struct {
	at      int64 // ms since 1970
	key     []byte
	cost    int64
	verdict verdict
}

// parse reads a line. No quote of a name is without a backslash, so that the text between the
// fields is not in a name.
func parse(line []byte) (d decision, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"time":"`))
	stamp, rest, hasKey := bytes.Cut(rest, []byte(`","key":"`))
	key, rest, hasN := bytes.Cut(rest, []byte(`","n":`))
	_, rest, hasCost := bytes.Cut(rest, []byte(`,"cost":`))
	cost, rest, hasVerdict := bytes.Cut(rest, []byte(`,"verdict":"`))
	if !ok || !hasKey || !hasN || !hasCost || !hasVerdict || len(rest) == 0 {
		return d, false
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	d.cost, ok = number(cost)
	if err != nil || !ok {
		return d, false
	}
	d.at, d.key = at.UnixMilli(), key
	if bytes.IndexByte(key, '\\') >= 0 {
		var name string
		if json.Unmarshal([]byte(`"`+string(key)+`"`), &name) != nil {
			return d, false
		}
		d.key = []byte(name)
	}
	switch rest[0] {
	case 'd':
		d.verdict = denied
	case 'c':
		d.verdict = charged
	}
	return d, true
}

func number(text []byte) (n int64, ok bool) {
	n, err := strconv.ParseInt(string(text), 10, 64)
	return n, err == nil && n > 0
}

// pathOf is that of the rule that a bucket is of, or under which that rule has it: of several rules
// that share buckets it is the same. It is "" for trials and limits of requests' own, which have
// other limits than a rule.
func pathOf(r *rules.Rules, domain, key string) string {
	b, err := r.Bucket(domain, key)
	if err != nil || b.Trial || b.Override {
		return ""
	}
	return Path(b.Rule)
}

// Path is under which path a rule is recorded.
func Path(r rules.Rule) string { return cmp.Or(r.Bucket, r.Path) }

// add takes a decision, if its key is kept.
func (d *domain) add(one decision) {
	k := d.keys[string(one.key)]
	if k == nil {
		if k = d.keep(string(one.key)); k == nil {
			return
		}
	}
	k.trace.add(k, one)
}

// keep begins a key, unless it is of no rule, or not among those that its rule keeps.
func (d *domain) keep(name string) *kept {
	path := pathOf(d.rules, d.name, name)
	if path == "" {
		return nil
	}
	t := d.traces[path]
	if t == nil {
		t = &trace{path: path, most: allKeys, sure: allKeys}
		d.traces[path] = t
	}
	h := hash(name)
	if h > t.most {
		return nil
	}
	k := t.key(name, h)
	d.keys[name] = k
	return k
}

// forgetLocked drops what is older than lasts, once a minute.
func (r *Record) forgetLocked(now time.Time) {
	oldest := now.Add(-lasts).UnixMilli() / minute
	if oldest == r.oldest {
		return
	}
	r.oldest = oldest
	size, _, _ := r.sizeLocked()
	for name, d := range r.domains {
		for path, t := range d.traces {
			d.gone(t.forget(oldest))
			t.widen(now.UnixMilli()/minute, size < r.most/4)
			if t.empty(oldest) {
				delete(d.traces, path)
			}
		}
		if len(d.traces) == 0 {
			delete(r.domains, name)
		}
	}
}

// sizeLocked is how many bytes are kept, and the trace that has most of them.
func (r *Record) sizeLocked() (size int, of *domain, largest *trace) {
	for _, d := range r.domains {
		for _, t := range d.traces {
			size += t.size
			if largest == nil || t.size > largest.size {
				of, largest = d, t
			}
		}
	}
	return size, of, largest
}

// gone drops keys that a trace has not any more.
func (d *domain) gone(list []*kept) {
	for _, k := range list {
		if d.keys[k.name] == k {
			delete(d.keys, k.name)
		}
	}
}

// fitLocked makes what is kept smaller until it fits.
func (r *Record) fitLocked() {
	size, of, largest := r.sizeLocked()
	for ; size > r.most; size, of, largest = r.sizeLocked() {
		of.gone(largest.thin())
	}
}
