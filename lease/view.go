package lease

import (
	"cmp"
	"slices"
	"time"
)

// View is all that a Ledger knows, for people to look at and for tests to
// compare twins by (I5). Times are µs on the ledger's clock.
type View struct {
	Limit   Limit           // in force
	Limits  []DeclaredLimit // of which it is the lowest
	At      float64         // of the last change
	Ahead   float64         // of the clock, by so many µs, since that stepped back
	Born    float64         // when the state began
	Pool    float64         // tokens not lent out
	Rates   float64         // tokens/s lent out; slots in use
	Bursts  float64         // tokens lent out, at most
	Demand  float64         // tokens/s offered to all; slots wanted
	Low     float64         // tokens/s offered to those below the water level
	High    float64         // number of those above it
	Unrest  float64         // of slots, the longest wait of a holder, µs
	Caution float64         // of a bucket, by which its parts are smaller
	Denied  float64         // tokens that were denied lately, and none was lost for
	Earmark float64         // tokens that the pool keeps for holders
	Tick    float64         // width of a tick of the calendar
	Pass    float64         // above 0 while the records of a crowd are swept, in Redis only
	Ends    [calendarTicks + calendarEras]int
	Classes []float64    // of Demand, that of each class; nil if all are 0
	Lent    []float64    // by class, see lent; nil if all are 0
	Rooms   []float64    // least room by span, in 65535ths of the Burst; nil if not kept
	Past    []PastView   // what was used under other frames, and counts; of a bucket the last
	Panes   []PaneView   // of a sliding window: what counts and is in no lease, the oldest first
	Holders []HolderView // by ID
}

// HolderView is what a Ledger knows of one holder.
type HolderView struct {
	ID     string
	Seq    uint64
	At     float64 // when Seq was answered
	Rate   float64 // tokens/s; slots in use
	Burst  float64
	Until  float64 // µs from At, end of the rate, or the turn of a denied holder
	Life   float64 // µs from At, end of the tokens
	Demand float64 // tokens/s; slots wanted
	Add    float64 // tokens that the answer added
	Mark   float64 // tokens of the pool that are kept for it
	Shape  Shape
	Limit  Limit // that it declares

	Classes []float64 // of Demand, that of each class; nil without classes
	Adds    []float64 // of Add of a quota, that for each class; nil if all are 0

	High   bool // wants more than the water level
	Marked bool // has a mark
	Ended  bool // the rate has ended
}

// PastView is what was used under another window, offset or kind than is in force: Tokens that
// count until Until, or of a bucket as many as its Rate adds until then.
type PastView struct {
	Tokens, Until, Rate float64
}

// view is a copy, nil if all are 0.
func (d *demands) view() []float64 {
	if d == nil || *d == (demands{}) {
		return nil
	}
	return slices.Clone(d[:])
}

// PaneView is tokens that were spent in the pane before Ends, at the latest.
type PaneView struct {
	Ends   float64
	Tokens float64
}

// Sums is a View without what is told of single limits, classes, spans, windows and holders.
func (l *Ledger) Sums() View {
	return View{
		Limit: l.Limit(), At: l.at, Ahead: l.ahead, Born: l.born, Pool: l.pool,
		Rates: l.rates, Bursts: l.bursts, Demand: l.demand, Low: l.low, High: l.high,
		Unrest: l.unrest, Caution: l.caution, Denied: l.denied, Earmark: l.earmark, Tick: l.ends.width, Ends: l.ends.count,
	}
}

// View returns a copy of the state; of the zero Ledger, the zero View.
func (l *Ledger) View() View {
	v := l.Sums()
	v.Limits = l.limits.view(l.frame)
	if l.rooms.kept {
		v.Rooms = slices.Clone(l.rooms.least[:])
	}
	v.Classes, v.Lent = l.classes.view(), (*demands)(l.lent).view()
	for _, u := range l.past.uses {
		v.Past = append(v.Past, PastView{Tokens: u.tokens, Until: u.until})
	}
	if l.past.rate > 0 {
		v.Past = append(v.Past, PastView{Until: l.past.full, Rate: l.past.rate})
	}
	for _, s := range l.panes.list {
		v.Panes = append(v.Panes, PaneView{(s.at + 1) * l.paneWidth(), s.tokens})
	}
	v.Holders = slices.Grow(v.Holders, len(l.holders))
	for id, r := range l.holders {
		d := l.limits[r.limit]
		v.Holders = append(v.Holders, HolderView{
			ID: id, Seq: uint64(r.seq), At: r.at, Rate: r.rate, Burst: r.burst,
			Until: r.refills, Life: r.life, Demand: r.demand, Add: r.add,
			Shape: r.shape, Limit: l.frame.limit(d.rate, int64(d.burst)),
			High: r.high, Marked: r.marked || r.mark > 0, Mark: r.mark, Ended: r.ended, Classes: r.classes.view(),
			Adds: r.adds.view(),
		})
	}
	slices.SortFunc(v.Holders, func(a, b HolderView) int { return cmp.Compare(a.ID, b.ID) })
	return v
}

// Parts returns what each holder that now refills from a lease may admit, as a part of what it is
// asked for, at most 1. local/gauge.Jain of them is how alike the holders are served: 1 if all get
// the same part, 1/n if one of n gets everything. They say nothing of holders that ask for each
// request, of which the ledger keeps no sum. With the max-min policy they are not meant to be
// alike: quiet holders get all that they want.
func (v *View) Parts() []float64 {
	var parts []float64
	for _, h := range v.Holders {
		if h.Rate > 0 && h.Demand > 0 && !h.Ended {
			parts = append(parts, min(h.Rate/h.Demand, 1))
		}
	}
	return parts
}

// Expires is when h's tokens die, on the ledger's clock.
func (h HolderView) Expires() time.Duration {
	return duration(h.At + h.Life)
}
