package lease

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Windows of a quota. Month stands for those of the Gregorian calendar. As a duration it
// is their mean length, in 400 years.
const (
	Day   = 24 * time.Hour
	Week  = 7 * Day
	Month = 2_629_746 * time.Second

	minWindow = time.Second
	maxWindow = 10 * 365 * Day
	maxOffset = 14 * time.Hour
)

const (
	day = 86_400_000_000 // µs

	// The calendar counts days from 1970-01-01, a Thursday: the first Monday is day 4.
	// Its years begin in March, so that a leap day comes last, and 719468 days after the
	// March of the year 0 (H. Hinnant, "chrono-Compatible Low-Level Date Algorithms").
	monday  = 4 * day
	march   = 719468 // days
	century = 36524  // days of a century without its leap year
	cycle   = 146097 // days in 400 years
)

// bounds are when the window begins and ends in which t lies, in µs since 1970 by UTC. All
// of it is exact in a float64, as in Lua (TestWindowTwins).
func (f frame) bounds(t float64) (start, end float64) {
	local := t + f.offset
	if f.window == micros(Month) {
		start, end = monthOf(math.Floor(local / day))
		return float64(start*day) - f.offset, float64(end*day) - f.offset
	}
	if f.window == micros(Week) {
		local -= monday
	}
	start = t - (local - float64(math.Floor(local/f.window)*f.window))
	return start, start + f.window
}

// monthOf are the first day of the month in which a day lies, and that of the next one.
func monthOf(days float64) (first, next float64) {
	z := days + march
	era := math.Floor(z / cycle)
	doe := z - float64(era*cycle) // day of the cycle
	leaps := math.Floor(doe/1460) - math.Floor(doe/century) + math.Floor(doe/(cycle-1))
	year := math.Floor((doe - leaps) / 365)
	month := math.Floor((float64(5*(doe-yearBegins(year))) + 2) / 153) // 0 is March
	first = float64(era*cycle) + yearBegins(year) + monthBegins(month)
	if month == 11 { // February is the last one
		next = float64(era*cycle) + yearBegins(year+1)
		if year == 399 {
			next = float64((era + 1) * cycle)
		}
	} else {
		next = float64(era*cycle) + yearBegins(year) + monthBegins(month+1)
	}
	return first - march, next - march
}

// yearBegins is on which day of its cycle a year does.
func yearBegins(year float64) float64 {
	return float64(year*365) + math.Floor(year/4) - math.Floor(year/100)
}

// monthBegins is on which day of its year a month does.
func monthBegins(month float64) float64 { return math.Floor((float64(153*month) + 2) / 5) }

// windowName is how a window is called in a Limit's String.
func windowName(window time.Duration) string {
	names := []string{"second", "minute", "hour", "day", "week", "month"}
	i := slices.Index([]time.Duration{time.Second, time.Minute, time.Hour, Day, Week, Month}, window)
	if i < 0 {
		return window.String()
	}
	return names[i]
}

// A windowLedger is what divisions with a Window have in common. What was used under other
// frames is not in the pool until it has ended.
type windowLedger struct{ plainLedger }

// before is how much of the pool other frames have at t.
func (l windowLedger) before(t float64) float64 {
	return max(l.past.sum(t), math.Ceil(l.past.lacks(t)))
}

func (l windowLedger) begin(t float64, _ bool) { l.pool = l.burst - l.before(t) }

// pass gives the pool what counts no more of other frames.
func (l windowLedger) pass(from float64) { l.pool += l.before(from) - l.before(l.at) }

// declare puts the lowest limit in force. What has been used stays the same.
func (l windowLedger) declare(a *answer, q *Request) {
	was := l.burst
	l.Ledger.declare(a, q)
	l.pool += float64(l.burst - was)
}

// offered notes the demand of the holder, and returns the demand of all holders.
func (l windowLedger) offered(a *answer, q *Request) (sum float64) {
	a.demand = quantize(min(q.Demand, MaxRate, 2*MaxRate-l.demand)) // the sum stays exact
	return l.demand + a.demand
}

// refresh is when the holder shall come back, in µs: after about a batch, and with time enough for
// its round trip.
func (l windowLedger) refresh(a *answer, p *Policy, longest, lag float64) float64 {
	if a.demand == 0 {
		return longest
	}
	batch := math.Floor(float64(p.Batch) * 1e6 / a.demand)
	return max(min(batch, longest), micros(p.MinRefresh), lag)
}

// take takes tokens for the requests that wait.
func (l windowLedger) take(a *answer, q *Request) {
	if avail := l.pool - a.spared; q.Take > 0 && avail >= q.Min {
		a.taken = q.whole(avail)
		l.pool -= a.taken
	}
	if q.Hold > 0 {
		a.kept = a.taken
		a.held += a.kept
	}
	if q.Take > a.taken {
		l.unrest = 1
		missing := max(a.needed(q)-(l.pool-a.spared), 1)
		frees := l.past.under(l.at, l.before(l.at)-missing) - l.at
		a.frees = max(frees, micros(q.Policy.MinRefresh))
	}
}

// needed is how many tokens the first request needs that has got none.
func (a *answer) needed(q *Request) float64 { return max(q.Min-a.taken, 1) }

// lend makes a batch of what the holder keeps, and of what is added from the pool.
func (l windowLedger) lend(a *answer, burst float64) {
	if a.burst = burst; burst > 0 {
		a.shape = Batch
	}
	l.pool -= a.add
	a.add += a.kept
}

// validateWindow is Validate for what kinds with a Window have in common.
func (l Limit) validateWindow(kind string) error {
	switch {
	case l.Rate != 0:
		return fmt.Errorf("lease: %w: Rate %v of %s is not 0", ErrInvalidLimit, l.Rate, kind)
	case l.Window < minWindow || l.Window > maxWindow || l.Window%time.Second != 0:
		return fmt.Errorf("lease: %w: Window %v is not from %v to 10 years in whole seconds",
			ErrInvalidLimit, l.Window, minWindow)
	}
	return nil
}
