package accesslog

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"
)

// A unit is what the numbers of a time column count.
type unit struct {
	short, long string
	perSecond   float64
	low, high   float64 // what fits beside the other numbers of the column
}

// units, the coarsest first.
var units = []unit{
	{short: "s", long: "seconds", perSecond: 1, high: math.Inf(1)},
	{short: "ms", long: "milliseconds", perSecond: 1e3, high: math.Inf(1)},
	{short: "us", long: "microseconds", perSecond: 1e6, high: math.Inf(1)},
	{short: "ns", long: "nanoseconds", perSecond: 1e9, high: math.Inf(1)},
}

// times is what a time column has shown. One number may be of any unit; all of
// them rarely are.
type times struct {
	numbers, fractions int
	requests           int64 // of the lines with numbers
	least, most        float64
	sizes              [64]int // numbers by the length of their whole part in bits
	first              [64]example
	months             uint16 // of times without a year, a bit each
}

// example is a line that has a number of some size.
type example struct {
	line  *BadLine
	stamp stamp
}

// see notes the time of a line.
func (t *times) see(s stamp, requests int64, line int, text []byte) {
	if s.kind == date {
		if at := time.Unix(0, s.value).UTC(); at.Year() == noYear {
			t.months |= 1 << at.Month()
		}
		return
	}
	n := s.number()
	if t.numbers == 0 {
		t.least, t.most = n, n
	}
	t.least, t.most = min(t.least, n), max(t.most, n)
	t.numbers++
	t.requests += requests
	if s.kind == fraction {
		t.fractions++
	}
	size := bits.Len64(uint64(n))
	if t.sizes[size] == 0 {
		t.first[size] = example{badLine(line, text, nil), s}
	}
	t.sizes[size]++
}

const (
	// sinceEpoch is the smallest number that may count from 1970: seconds in
	// March 1973. Milliseconds begin a thousand times higher, and so on.
	sinceEpoch = 1e8

	// agreed is the part of all numbers that must be about as large for them to
	// count from 1970. Those that count from the beginning of the log are not:
	// a quarter of them is below a quarter of the largest.
	agreed = 0.9

	// leastRate is in requests/s, and longestOwn in seconds: a log that counts
	// whole units from its own beginning is in the coarsest unit that makes it
	// so busy. If it is longer then, it may as well be in the next one.
	leastRate, longestOwn = 0.02, 86400
)

// find returns the unit of the column, which may be given.
func (t *times) find(given string) (unit, error) {
	if given != "" {
		i := slices.IndexFunc(units, func(u unit) bool { return u.short == given })
		if i < 0 {
			return unit{}, fmt.Errorf("unit of time %.40q: want s, ms, us or ns", given)
		}
		if t.numbers == 0 {
			return unit{}, fmt.Errorf("unit of time %q: the times are dates, not numbers", given)
		}
		return units[i], nil
	}
	size, share := 0, 0
	for i := range len(t.sizes) - 1 {
		if n := t.sizes[i] + t.sizes[i+1]; n > share {
			size, share = i, n
		}
	}
	largest := math.Ldexp(1, size+1) // of the numbers of most lines, or half of it
	if float64(share) < agreed*float64(t.numbers) || min(largest, t.most) < sinceEpoch {
		return t.own()
	}
	u := units[0]
	for _, finer := range units[1:] {
		if min(largest, t.most) >= sinceEpoch*finer.perSecond {
			u = finer
		}
	}
	u.low, u.high = math.Ldexp(1, size-2), math.Ldexp(1, size+2)
	return u, nil
}

// own is the unit of numbers that count from the beginning of the log.
func (t *times) own() (unit, error) {
	if t.fractions > 0 || t.numbers < 2 || t.least == t.most {
		return units[0], nil
	}
	span := t.most - t.least
	u := units[len(units)-1]
	for _, c := range units {
		if float64(t.requests)*c.perSecond >= leastRate*span {
			u = c
			break
		}
	}
	if span/u.perSecond <= longestOwn {
		return u, nil
	}
	var readings []string
	for _, c := range units {
		d := time.Duration(min(span/c.perSecond, 1e9)) * time.Second
		readings = append(readings, fmt.Sprintf("%v in %s", d, c.short))
	}
	return unit{}, fmt.Errorf("times from %.0f to %.0f may be of any unit: the log takes %s; say which one is meant (time_unit, -time-unit)",
		t.least, t.most, strings.Join(readings, ", "))
}

// relative reports whether numbers count from the beginning of the log.
func (t *times) relative(u unit) bool {
	return t.numbers > 0 && u.low == 0 && t.least < sinceEpoch*u.perSecond
}

// turn is from when on times without a year are of the year before: in a log that goes over New
// Year, from the first month on that is not in it.
func (t *times) turn() int64 {
	month := time.January
	for t.months&(1<<month) != 0 {
		month++
	}
	if month == time.January || month > time.December || t.months&(1<<time.December) == 0 {
		return math.MaxInt64
	}
	return time.Date(noYear, month, 1, 0, 0, 0, 0, time.UTC).UnixNano()
}

// text says what was found, "" if times are dates.
func (t *times) text(u unit, given string) string {
	if t.numbers == 0 && t.months != 0 {
		return fmt.Sprintf("times have no year: as if it were %d", noYear)
	}
	if t.numbers == 0 {
		return ""
	}
	how := "found from all of them"
	if given != "" {
		how = "as was given"
	}
	since := "1970"
	if t.relative(u) {
		since = "the log's own beginning"
	}
	return fmt.Sprintf("times are %s since %s, %s", u.long, since, how)
}

// misfits are lines whose times do not fit the others, one of each size.
func (t *times) misfits(u unit) (lines []*BadLine) {
	for _, f := range t.first {
		if f.line == nil {
			continue
		}
		if _, fits := f.stamp.in(u); fits {
			continue
		}
		n := f.stamp.number()
		f.line.Err = fmt.Errorf("time %.15g: far from most others, which are %s", n, u.long)
		if n >= u.low && n < u.high {
			f.line.Err = fmt.Errorf("time %.15g in %s: %w", n, u.long, errRange)
		}
		lines = append(lines, f.line)
	}
	return lines
}
