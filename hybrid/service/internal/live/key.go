package live

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/humanize"
	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/gauge"
)

const (
	// mostLooks is how many keys are inspected at once for those who look at them.
	mostLooks = 4

	// lookLasts is for how long what was found is shown to others, too.
	lookLasts = 2 * time.Second
	keyEvery  = "5s"
)

// looks are the inspections for those who look at a key.
type looks struct {
	room chan struct{}

	mu   sync.Mutex
	seen map[string]look // by key in the store, of the last lookLasts
}

type look struct {
	at   time.Time
	view lease.View
}

// errBusy is told to whoever looks at a key while too many others do.
var errBusy = errors.New("too many keys are looked at")

// look inspects a key, or returns what was found a moment ago.
func (l *Live) look(ctx context.Context, key string) (look, error) {
	if found, ok := l.looks.get(key); ok {
		return found, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case l.looks.room <- struct{}{}:
		defer func() { <-l.looks.room }()
	case <-ctx.Done():
		return look{}, errBusy
	}
	if found, ok := l.looks.get(key); ok {
		return found, nil
	}
	v, err := l.store.Inspect(ctx, key)
	if err != nil {
		return look{}, err
	}
	found := look{time.Now(), v}
	l.looks.mu.Lock()
	defer l.looks.mu.Unlock()
	l.looks.seen[key] = found
	return found, nil
}

func (l *looks) get(key string) (look, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.seen, func(_ string, v look) bool { return time.Since(v.at) >= lookLasts })
	v, ok := l.seen[key]
	return v, ok
}

// A keyPage is what the template of a key shows.
type keyPage struct {
	Domain, Descriptor, Self, Every string
	Rule, Limit, Note               string
	Problem                         string
	None                            bool // the store knows nothing of the key

	InForce, InForceRate  string
	Limits                []string // if processes declare several
	Demand, Lent, Pool    float64
	Burst                 float64
	Jain                  string
	Refills, Count, More  int
	Holders               []holderView
	Age                   time.Duration
	Bucket, Sliding, Fair bool
}

// A holderView is a row of the table of holders.
type holderView struct {
	Name, ID     string // of its process, as the fleet has them
	Here         bool   // this process
	Shape        string
	Demand, Rate float64
	Tokens       float64
	Part         string // of what it is asked for
	Width        string // of its bar, in percent
	Heard, Ends  time.Duration
	Ended        bool
}

const mostHolders = 50

// keyPage is what the store knows of a bucket.
func (l *Live) keyPage(ctx context.Context, domain, name string, b rules.Bucket) keyPage {
	p := keyPage{
		Domain: domain, Descriptor: shortened(rules.PathOf(b.Entries...), 400),
		Self: keyAddress(domain, b.Rule.Path, name), Every: keyEvery, Rule: b.Rule.Path,
		Limit: textOf(b, b.Limit),
	}
	switch {
	case b.Override:
		p.Note = "This is a limit that requests bring: " + p.Limit + "."
	case b.Rule.Path == "":
		p.Note = "No rule has this key now."
	case b.Trial:
		p.Note = "This is the limit of the rule's trial."
	}
	if b.Shadow {
		p.Note += " It only counts, and denies nothing."
	}
	found, err := l.look(ctx, b.Key)
	switch {
	case errors.Is(err, errBusy):
		p.Problem = "Too many keys are looked at now."
	case err != nil:
		p.Problem = "The store does not answer now."
		l.log.Debug("live: the holders of a key are not known", "error", err)
	default:
		p.Age = time.Since(found.at)
		p.show(found.view, b)
		l.name(domain, p.Holders)
	}
	return p
}

// textOf is a limit of a bucket, as the rule has it if it is the rule's.
func textOf(b rules.Bucket, l hybrid.Limit) string {
	switch {
	case b.Rule.Path == "":
	case !b.Trial && l == b.Rule.Limit:
		return b.Rule.Text
	case b.Trial && l == b.Rule.Trial.Limit:
		return b.Rule.Trial.Text
	}
	return rules.LimitText(l)
}

// name adds to holders what the fleet knows of their processes.
func (l *Live) name(domain string, holders []holderView) {
	l.mu.Lock()
	defer l.mu.Unlock()
	self := l.statsLocked(domain).Limiter.ID
	for i := range holders {
		h := &holders[i]
		h.Here = h.ID == self
		h.Name = shortened(l.fleet.members[h.ID].Name, 80)
		h.ID = shortened(h.ID, 20)
	}
}

// processOf is the ID of a holder's process, see hybrid.Stats.ID.
func processOf(holder string) string {
	id, _, _ := strings.Cut(holder, "-")
	return id
}

func (p *keyPage) show(v lease.View, b rules.Bucket) {
	if v.Limit == (lease.Limit{}) {
		p.None = true
		return
	}
	parts := v.Parts()
	p.InForce = textOf(b, hybrid.Limit(v.Limit))
	if v.Limit.Kind == lease.KindBucket {
		p.InForceRate = rate(v.Limit.Rate) + ", burst " + humanize.Count(uint64(v.Limit.Burst))
	}
	p.Bucket, p.Burst = v.Limit.Kind == lease.KindBucket, float64(v.Limit.Burst)
	p.Sliding = v.Limit.Kind == lease.KindSliding
	p.Demand, p.Lent, p.Pool = v.Demand, v.Rates, v.Pool
	p.Refills, p.Count = len(parts), len(v.Holders)
	p.Fair = len(parts) > 1
	p.Jain = number(gauge.Jain(parts))
	if len(v.Limits) > 1 {
		for _, d := range v.Limits {
			p.Limits = append(p.Limits,
				fmt.Sprintf("%s by %d", textOf(b, hybrid.Limit(d.Limit)), d.Holders))
		}
	}
	for _, h := range v.Holders {
		row := holderView{
			ID: processOf(h.ID), Shape: h.Shape.String(), Demand: h.Demand, Rate: h.Rate,
			Tokens: h.Burst, Part: "–", Heard: micros(v.At - h.At), Ends: micros(h.At + h.Life - v.At),
			Ended: h.At+h.Life <= v.At,
		}
		if h.Rate > 0 && h.Demand > 0 && !h.Ended {
			part := min(h.Rate/h.Demand, 1)
			row.Part, row.Width = decimal(100*part)+" %", decimal(100*part)+"%"
		}
		p.Holders = append(p.Holders, row)
	}
	slices.SortFunc(p.Holders, func(a, b holderView) int {
		return cmp.Or(cmp.Compare(b.Demand, a.Demand), cmp.Compare(a.ID, b.ID))
	})
	if p.More = max(0, len(p.Holders)-mostHolders); p.More > 0 {
		p.Holders = p.Holders[:mostHolders]
	}
}

// micros are times of a ledger.
func micros(x float64) time.Duration { return time.Duration(max(x, 0) * 1000) }
