package accesslog

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// chunk is how many records are sorted at a time, 8 MiB of them.
const chunk = 1 << 18

// maxCounted is how many requests a log of counts may add up to: each becomes a
// record in a temporary file.
const maxCounted = 100_000_000

// An arranger makes the requests of a log out of its lines: in time order, in
// nanoseconds since the first. It reads the lines several times and sorts them
// outside memory, a chunk at a time, since a log is larger than memory may be.
type arranger struct {
	log     *Log
	lines   *spool // in the order of the file
	unit    unit
	misfits []*BadLine // some of those whose times do not fit the others
	counted bool
	turn    int64 // from when on times of noYear are of the year before
	until   int64 // nanoseconds since 1970: counts after that are left out

	runs   spool // sorted chunks, one after the other
	ends   []int // of each run, in records
	random *rand.Rand

	keys, upstreams renumbered
	first           int64 // time of the first request, once it is known
	group           []record
	offsets         []int64
}

// arrange makes the requests of l, and frees the lines.
func (l *Log) arrange(c *contents, o Options) error {
	a := &arranger{
		log: l, lines: &c.lines, counted: o.CountCol != "", random: rand.New(rand.NewPCG(o.Seed, 0)),
		keys: c.keys.renumber(), upstreams: c.upstreams.renumber(), until: math.MaxInt64,
		turn: c.times.turn(),
	}
	defer func() { c.lines.free(); a.runs.free() }()
	var err error
	if a.unit, err = c.times.find(o.TimeUnit); err != nil {
		return err
	}
	l.Relative = c.times.relative(a.unit)
	l.Times, a.misfits = c.times.text(a.unit, o.TimeUnit), c.times.misfits(a.unit)
	begin := func() error { return nil }
	if a.counted && o.Until > 0 {
		begin = func() error { return a.cut(o.Until) }
	}
	for _, step := range []func() error{c.lines.end, begin, a.survey, a.sort, a.runs.end, a.merge, l.requests.end} {
		if err := step(); err != nil {
			return err
		}
	}
	l.Keys, l.Upstreams = a.keys.list, a.upstreams.list
	l.Crowded = c.keys.crowded
	return nil
}

// dated calls do for each line with its time in nanoseconds since 1970, and
// returns how many have a time that does not fit the others.
func (a *arranger) dated(do func(record) error) (misfits int, err error) {
	err = a.lines.each(func(r record) error {
		at, ok := r.stamp.in(a.unit)
		if !ok {
			misfits++
			return nil
		}
		if at >= a.turn && time.Unix(0, at).UTC().Year() == noYear {
			at -= int64(366 * 24 * time.Hour)
		}
		r.stamp = stamp{at, date}
		return do(r)
	})
	return misfits, err
}

// cut leaves out the counts that come after so long a time.
func (a *arranger) cut(until time.Duration) error {
	first := int64(math.MaxInt64)
	_, err := a.dated(func(r record) error {
		first = min(first, r.value)
		return nil
	})
	if first < math.MaxInt64-int64(until) {
		a.until = first + int64(until)
	}
	return err
}

// unitOf is the time of which this stamp and those before are whole numbers: a minute, a second, 0.
func unitOf(at int64, before time.Duration) time.Duration {
	switch {
	case at%int64(time.Second) != 0:
		return 0
	case at%int64(time.Minute) != 0:
		return min(before, time.Second)
	}
	return before
}

// fewStamps may all be whole minutes by chance.
const fewStamps = 10

// survey looks at all lines: whether they are in order, what their clock shows,
// and, of counts, how far apart they are.
func (a *arranger) survey() error {
	l := a.log
	if !a.counted {
		l.Spread = time.Minute
	}
	var last, requests int64
	gaps := map[int64]int{}
	n, stamps := 0, 0 // that are later than the one before them
	misfits, err := a.dated(func(r record) error {
		if gap := r.value - last; n > 0 && gap < 0 {
			l.Inversions++
		} else if n > 0 && gap > 0 && (len(gaps) < 1<<12 || gaps[gap] > 0) {
			gaps[gap]++
		}
		l.Spread = unitOf(r.value, l.Spread)
		if n == 0 || r.value > last {
			stamps++
		}
		last = r.value
		n++
		if r.value > a.until {
			l.Beyond += r.count
		} else {
			requests += r.count
		}
		return nil
	})
	if err != nil {
		return err
	}
	if l.Spread == time.Minute && stamps < fewStamps {
		l.Spread = time.Second
	}
	if misfits > 0 {
		l.Bad += misfits - len(a.misfits)
		for _, line := range a.misfits {
			l.bad(line)
		}
	}
	if requests == 0 {
		return l.nothing()
	}
	if !a.counted {
		l.Step = 0
		return nil
	}
	return a.step(requests, gaps)
}

// step finds how far apart counts are: the commonest of the gaps, and of several the least.
func (a *arranger) step(requests int64, gaps map[int64]int) error {
	switch {
	case requests > maxCounted:
		return fmt.Errorf("the counts add up to %d requests; at most %d: play a part of the log (duration, -duration)",
			requests, maxCounted)
	case len(gaps) == 0:
		return errors.New("counts are of the time until the next line: one time alone does not tell how long that is")
	}
	l, most := a.log, 0
	for gap, n := range gaps {
		if n > most || n == most && gap < int64(l.Step) {
			l.Step, most = time.Duration(gap), n
		}
	}
	return nil
}

// sort writes the requests as sorted runs.
func (a *arranger) sort() error {
	batch := make([]record, 0, min(chunk, max(a.lines.n, 1)))
	flush := func() error {
		order := func(x, y record) int { return cmp.Compare(x.value, y.value) }
		if !slices.IsSortedFunc(batch, order) { // most logs nearly are
			slices.SortStableFunc(batch, order)
		}
		for _, r := range batch {
			if err := a.runs.add(r); err != nil {
				return err
			}
		}
		a.ends = append(a.ends, a.runs.n)
		batch = batch[:0]
		return nil
	}
	_, err := a.dated(func(r record) error {
		n := r.count
		if r.value > a.until {
			n = 0
		}
		r.count = 1
		for range n {
			q := r
			if a.counted {
				q.value += a.random.Int64N(int64(a.log.Step))
			}
			if batch = append(batch, q); len(batch) == chunk {
				if err := flush(); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.lines.free()
	return flush()
}

// merge makes one list of the runs.
func (a *arranger) merge() error {
	var all []*run // in the order of their next requests
	place := func(r *run) error {
		more, err := r.advance()
		if more {
			i, _ := slices.BinarySearchFunc(all, r, (*run).compare)
			all = slices.Insert(all, i, r)
		}
		return err
	}
	from := 0
	for i, to := range a.ends {
		if err := place(&run{number: i, cursor: a.runs.cursor(from, to)}); err != nil {
			return err
		}
		from = to
	}
	for len(all) > 0 {
		r := all[0]
		if err := a.put(r.top); err != nil {
			return err
		}
		all = slices.Delete(all, 0, 1)
		if err := place(r); err != nil {
			return err
		}
	}
	return a.flush()
}

// A run is a sorted chunk that is being merged with others.
type run struct {
	number int
	cursor *cursor
	top    record
}

func (r *run) advance() (bool, error) {
	var err error
	r.top, err = r.cursor.next()
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// compare orders runs by their next request; of equal times the first of the file is first.
func (r *run) compare(x *run) int {
	return cmp.Or(cmp.Compare(r.top.value, x.top.value), cmp.Compare(r.number, x.number))
}

// put takes the next request in time order.
func (a *arranger) put(r record) error {
	if len(a.group) > 0 && (a.log.Spread == 0 || r.value != a.group[0].value) {
		if err := a.flush(); err != nil {
			return err
		}
	}
	a.group = append(a.group, r)
	return nil
}

// flush writes the requests that have the same time, moved to random places within their
// second or minute if stamps are whole ones. Offsets are drawn and sorted for each: order is
// kept, and given their number the arrivals of a second are a Poisson process's.
func (a *arranger) flush() error {
	a.offsets = a.offsets[:0]
	for range a.group {
		d := int64(0)
		if a.log.Spread > 0 {
			d = a.random.Int64N(int64(a.log.Spread))
		}
		a.offsets = append(a.offsets, d)
	}
	slices.Sort(a.offsets)
	for i, r := range a.group {
		at := r.value + a.offsets[i]
		if a.log.requests.n == 0 {
			a.first = at
			a.log.Start = time.Unix(0, at).UTC()
		}
		r.value = at - a.first
		r.key, r.upstream = a.keys.of(r.key), a.upstreams.of(r.upstream)
		if err := a.log.requests.add(r); err != nil {
			return err
		}
		a.log.Span = time.Duration(r.value)
	}
	a.group = a.group[:0]
	return nil
}
