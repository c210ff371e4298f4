package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/local/gauge"
)

// Figures of a subject under a load. NaN where one says nothing.
const (
	rate  = iota // decisions, or jobs, a second
	calls        // of Redis for each
	p50          // of a decision, ns; of slots until the job has one
	p99
	size  // bytes of a key in Redis, while the load goes on
	used  // part of what the ideal admits
	most  // in a window, or at once, part of n
	stall // by which this process came too late, ns, p99: what else the machine did
	stood // the longest of these
	count
)

type figures [count]float64

// A row is a subject under a load.
type row struct {
	load, subject, place string
	figures              figures
	refused              string // why there are none
}

// measure makes the rows of a kind, those that are complete when ctx ends.
func (k kind) measure(ctx context.Context, s *server, p *progress) (rows []row, err error) {
	for _, l := range k.loads {
		for _, place := range l.places {
			p.step(fmt.Sprintf("%s, %s, %s", k.name, l.name, place),
				time.Duration(len(k.subjects))*l.expected())
			more := make([]row, len(k.subjects))
			for i, subject := range k.subjects {
				more[i] = row{load: l.name, subject: subject.name, place: place, refused: "not tried"}
			}
			for range l.rounds { // in turns
				for i, subject := range k.subjects {
					if err := more[i].improve(ctx, k, s, subject, l); err != nil {
						return rows, err
					}
				}
			}
			rows = append(rows, more...)
		}
	}
	return rows, nil
}

// calm is what stalls are below on a machine that has time.
const calm = 3 * time.Millisecond

// improve makes a round, unless a calm one has been made. The figures are those of the calmest.
func (r *row) improve(ctx context.Context, k kind, s *server, subject subject, l load) error {
	if r.refused == "" && r.figures[stall] < float64(calm) {
		return nil
	}
	f, refused, err := k.round(ctx, s, subject, l, r.place)
	if err = errors.Join(err, ctx.Err()); err != nil {
		return err
	}
	if r.refused != "" || refused == "" && f[stall] < r.figures[stall] {
		r.figures, r.refused = f, refused
	}
	return nil
}

// processes of a fleet.
const processes = 8

// round lets a new fleet run on an empty server. It returns why a subject's figures would be
// about something else than its limit, if they are.
func (k kind) round(
	ctx context.Context, s *server, subject subject, l load, place string,
) (f figures, refused string, err error) {
	if err := s.client.FlushAll(ctx).Err(); err != nil {
		return f, "", err
	}
	var fleet []*process
	defer func() {
		for _, p := range fleet {
			p.close()
		}
	}()
	for id := range processes {
		p, err := subject.open(s.addr(place), id, l.limit)
		if err != nil {
			return f, "", err
		}
		fleet = append(fleet, p)
		if err := p.connect(ctx); err != nil {
			return f, "", err
		}
	}
	if l.warm > 0 {
		l.play(ctx, fleet, l.warm)
	}
	if l.phase >= 0 {
		sleepUntilPhase(ctx, l.limit.window, l.phase)
	}
	t, err := l.observe(ctx, s, fleet)
	if err != nil {
		return f, "", err
	}
	for _, p := range fleet {
		t.astray += p.astray()
	}
	if refused = t.refuse(); refused != "" {
		f[stood] = float64(t.stood)
		return f, refused, nil
	}
	return k.figures(l, t), "", nil
}

// connect opens the connections of a process and brings its scripts to the server, with a key
// that is not measured.
func (p *process) connect(ctx context.Context) error {
	for range 3 {
		_, release, err := p.take(ctx, "connect")
		if err != nil {
			return err
		}
		if release != nil {
			if err := release(); err != nil {
				return err
			}
		}
	}
	return nil
}

func sleepUntilPhase(ctx context.Context, window, phase time.Duration) {
	since := time.Duration(time.Now().UnixNano()) % window
	select {
	case <-time.After((phase - since + window) % window):
	case <-ctx.Done():
	}
}

// An observation is a tally and what the server did meanwhile.
type observation struct {
	*tally
	elapsed time.Duration
	calls   float64
	bytes   float64 // of all keys, before the end: slots leave nothing behind
	looked  int64   // by the wall clock, ns: when that was
	stalls  gauge.Histogram
	stood   time.Duration
}

// asked is how many keys had been asked for when the server was looked at.
func (o observation) asked() float64 {
	keys := map[int]bool{}
	for _, r := range o.requests {
		if r.from < o.looked {
			keys[r.key] = true
		}
	}
	return float64(len(keys))
}

const nap = 5 * time.Millisecond

func (l load) observe(ctx context.Context, s *server, fleet []*process) (o observation, err error) {
	before, err := s.calls()
	if err != nil {
		return o, err
	}
	start := time.Now()
	looked := make(chan error, 1)
	go func() {
		select {
		case <-time.After(l.long * 3 / 4):
		case <-ctx.Done():
		}
		var err error
		o.looked = time.Now().UnixNano()
		o.bytes, err = s.bytes()
		looked <- err
	}()
	played, stalled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stalled)
		for began := start; ; {
			select {
			case <-time.After(nap):
			case <-played:
				return
			}
			now := time.Now()
			late := now.Sub(began) - nap
			o.stalls.Add(late)
			o.stood, began = max(o.stood, late), now
		}
	}()
	o.tally = l.play(ctx, fleet, l.long)
	o.elapsed = time.Since(start)
	close(played)
	<-stalled
	lookedErr := <-looked
	after, err := s.calls()
	o.calls = after - before
	return o, errors.Join(err, lookedErr)
}

func (k kind) figures(l load, o observation) (f figures) {
	for i := range f {
		f[i] = math.NaN()
	}
	f[calls] = o.calls / float64(o.decided)
	f[p50], f[p99] = float64(o.latency.Quantile(0.5)), float64(o.latency.Quantile(0.99))
	f[stall], f[stood] = float64(o.stalls.Quantile(0.99)), float64(o.stood)
	if l.workers > 0 {
		f[rate] = float64(o.decided) / o.elapsed.Seconds()
	}
	if l.plenty {
		f[used] = float64(o.admitted) / float64(o.decided)
		return f
	}
	f[size] = o.bytes / o.asked()
	f[used], f[most] = k.judge(l, o.tally)
	if l.limit.window > 0 && f[p99] > float64(l.limit.window)/4 {
		f[used] = math.NaN() // requests were decided so late that the ideal had others
	}
	return f
}

// judge compares what was admitted with the ideal, and with the limit.
func (k kind) judge(l load, t *tally) (used, most float64) {
	for _, spans := range byKey(t.admissions) {
		most = max(most, float64(k.most(spans, l.limit.window))/float64(l.limit.n))
	}
	ideal := 0
	switch {
	case k.ideal != nil:
		for _, asked := range byKey(t.requests) {
			at, _ := bounds(asked)
			ideal += k.ideal(at, l.limit)
		}
	case l.contended: // all slots are in use all the time
		busy := int64(0)
		for _, s := range t.admissions {
			busy += s.to - s.from
		}
		return float64(busy) / (float64(l.limit.n) * float64(l.long)), most
	default: // each job has its slot
		ideal = t.decided
	}
	return float64(t.admitted) / float64(ideal), most
}
