package scenario

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/local/ideal"
)

// A Limit is written as ParseLimit reads it. Its Burst is the default of one that is written
// beside a bucket, and what there is of other kinds.
type Limit struct {
	lease.Limit
	text string // as it was written
}

// HasRate reports whether a limit is a rate, with a burst that is written beside it: a bucket.
func HasRate(l lease.Limit) bool { return ideal.TraitsOf(l).Rate }

// IsZero reports whether nothing was written.
func (l Limit) IsZero() bool { return l.Limit == lease.Limit{} }

// SetLimit sets the limit of each key, the whole of it.
func (s *Scenario) SetLimit(l lease.Limit) {
	s.Limit, s.Burst = Limit{Limit: l}, l.Burst
	if !HasRate(l) {
		s.Burst = 0
	}
}

// whole is the limit with its burst, which other kinds than a bucket have themselves.
func (l Limit) whole(burst int64) lease.Limit {
	if HasRate(l.Limit) {
		l.Burst = burst
	}
	return l.Limit
}

// check returns an error for a limit that is none, or a burst beside one that has none beside it.
func (l Limit) check(burst int64) error {
	if !HasRate(l.Limit) && burst != 0 {
		return fmt.Errorf("burst %d does not go with limit %s, of kind %v", burst, l, l.Kind)
	}
	return l.whole(burst).Validate()
}

// written is the limit as it was written, or as it would be.
func (l Limit) written() string { return cmp.Or(l.text, FormatLimit(l.Limit)) }

// MarshalText writes what UnmarshalText reads, to the last bit: in the words it was written
// in, if it was, since the burst depends on them.
func (l Limit) MarshalText() ([]byte, error) {
	switch {
	case l.text != "":
		return []byte(l.text), nil
	case HasRate(l.Limit):
		return Rate{PerSecond: l.Rate}.MarshalText()
	}
	return []byte(FormatLimit(l.Limit)), nil
}

// UnmarshalText reads what ParseLimit does.
func (l *Limit) UnmarshalText(text []byte) error {
	limit, err := ParseLimit(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*l = Limit{Limit: limit, text: string(text)}
	return nil
}

var (
	errRate  = errors.New("want NUMBER/TIME such as 100/s, 2.5/s, 10/m, 5000/h or 100/500ms")
	errLimit = fmt.Errorf("%w, or a quota such as 10000/day, 100/minute, quota 100/90s or "+
		"10000/day UTC+02:00, or a sliding window such as 100 in any minute or 100 in any 90s, "+
		"or 100 slots", errRate)
)

// windows are the names of those of the calendar.
var windows = map[string]time.Duration{
	"second": time.Second, "minute": time.Minute, "hour": time.Hour,
	"day": lease.Day, "week": lease.Week, "month": lease.Month,
}

// ParseLimit reads NUMBER/TIME, where TIME is a duration or a bare unit of one: a token
// bucket whose Burst is NUMBER, rounded up. If TIME is the name of a window of the calendar
// it is a quota, and one of any window if "quota" is before it. UTC and an offset such as
// +02:00 may follow a quota. NUMBER in any TIME is a sliding window, and NUMBER slots are slots.
func ParseLimit(s string) (lease.Limit, error) {
	quota, named := strings.CutPrefix(strings.TrimSpace(s), "quota ")
	if number, ok := strings.CutSuffix(quota, " slots"); ok && !named {
		return parseSlots(number)
	}
	text, zone, zoned := strings.Cut(quota, " UTC")
	number, span, slides := strings.Cut(text, " in any ")
	kind, ok := lease.KindSliding, true
	if !slides {
		kind = lease.KindQuota
		number, span, ok = strings.Cut(text, "/")
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil {
		return lease.Limit{}, errLimit
	}
	span = strings.TrimSpace(span)
	window, calendar := windows[span]
	if !calendar {
		window, err = time.ParseDuration(span)
		if err != nil {
			window, err = time.ParseDuration("1" + span)
		}
	}
	if err != nil || window <= 0 || zoned && !named && !calendar || slides && (named || zoned) {
		return lease.Limit{}, errLimit
	}
	limit := lease.Per(n, window)
	if named || calendar || slides {
		if n != math.Trunc(n) {
			return lease.Limit{}, fmt.Errorf("%v is not a whole number of tokens", n)
		}
		limit = lease.Limit{Kind: kind, Burst: limit.Burst, Window: window}
		if limit.Offset, err = parseOffset(zone, zoned); err != nil {
			return lease.Limit{}, err
		}
	}
	return limit, limit.Validate()
}

// parseSlots reads a number of slots.
func parseSlots(number string) (lease.Limit, error) {
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil {
		return lease.Limit{}, errLimit
	}
	if n != math.Trunc(n) {
		return lease.Limit{}, fmt.Errorf("%v is not a whole number of slots", n)
	}
	limit := lease.Limit{Kind: lease.KindSlots, Burst: lease.Per(n, time.Second).Burst}
	return limit, limit.Validate()
}

// Mean is the rate that a load is a multiple of, as far as the limit lets it through: tokens/s,
// and of slots the slot-seconds that there are in each second.
func Mean(l lease.Limit) float64 {
	if l.Kind.Jobs() {
		return float64(l.Burst)
	}
	return l.Mean()
}

// parseOffset reads what follows UTC.
func parseOffset(zone string, given bool) (time.Duration, error) {
	if !given {
		return 0, nil
	}
	t, err := time.Parse("-07:00", zone)
	if err != nil {
		return 0, fmt.Errorf("%.20q is not an offset from UTC such as +02:00", zone)
	}
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second, nil
}

// FormatLimit writes a limit so that ParseLimit reads it again; of a bucket without its
// burst.
func FormatLimit(l lease.Limit) string {
	if HasRate(l) {
		return FormatRate(l.Rate)
	}
	if again, err := ParseLimit(l.String()); err == nil && again == l {
		return l.String()
	}
	return "quota " + l.String()
}

// FormatRate writes tokens/s so that ParseLimit reads them again: per minute or
// hour where there is less than one in a second or minute.
func FormatRate(rate float64) string {
	unit := "s"
	if rate < 1 {
		rate, unit = rate*60, "m"
	}
	if rate < 1 {
		rate, unit = rate*60, "h"
	}
	digits := max(3, int(math.Log10(max(rate, 1)))+1)
	return strconv.FormatFloat(Round(rate, digits), 'f', -1, 64) + "/" + unit
}

// Round keeps so many significant digits of x.
func Round(x float64, digits int) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', digits, 64), 64)
	if err != nil {
		return x // Inf and NaN print as they are
	}
	return r
}
