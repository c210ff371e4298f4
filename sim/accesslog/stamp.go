package accesslog

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Stamps outside these years are taken for damage: no request of a log is
// centuries away from the others, and one would stretch the simulated time.
const minYear, maxYear = 1970, 2200

// clfTime is the time of the Common Log Format. time.Parse takes a fraction
// after the second too.
const clfTime = "02/Jan/2006:15:04:05 -0700"

// lastSecond is the end of maxYear, since 1970.
var lastSecond = float64(time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix())

var (
	errStamp   = errors.New(`want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time`)
	errCLFTime = fmt.Errorf("want %q", clfTime)
	errRange   = fmt.Errorf("not in the years %d to %d", minYear, maxYear)
)

// A stamp is the time of a line: nanoseconds since 1970, or a number in a unit that
// the whole column tells.
type stamp struct {
	value int64 // of a fraction, the bits of the float64
	kind  stampKind
}

type stampKind uint8

const (
	date     stampKind = iota // nanoseconds since 1970
	whole                     // a number without a point
	fraction                  // one with a point or an exponent
)

// parseStamp reads a time column: a date and time of day, the time of the
// Common Log Format, which nginx's $time_local has too, or a number.
func parseStamp(s string) (stamp, error) {
	switch {
	case len(s) >= 19 && s[4] == '-':
		at, err := parseDate(s)
		return dated(s, at, err)
	case len(s) >= 20 && s[2] == '/' && s[6] == '/':
		at, err := parseCLFTime(s)
		return dated(s, at, err)
	}
	return parseNumber(s)
}

func parseCLFTime(s string) (time.Time, error) {
	at, err := time.Parse(clfTime, s)
	if err != nil {
		err = errCLFTime
	}
	return at, err
}

// Layouts that parseDate tries. To fail at one takes longer than to succeed.
var (
	zoned   = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07"}
	unzoned = []string{"2006-01-02T15:04:05"}
)

// parseDate reads RFC 3339, also with a space for the T and before the zone,
// with the zone as Z, UTC, +hh:mm, +hhmm or +hh, and without, which is UTC.
func parseDate(s string) (time.Time, error) {
	s = strings.TrimSuffix(s, " UTC")
	if len(s) >= 19 && s[10] == ' ' {
		s = s[:10] + "T" + s[11:19] + strings.Replace(s[19:], " ", "", 1)
	}
	layouts := unzoned
	if strings.ContainsAny(s[min(19, len(s)):], "Z+-") {
		layouts = zoned
	}
	for _, layout := range layouts {
		if at, err := time.Parse(layout, s); err == nil {
			return at, nil
		}
	}
	return time.Time{}, errStamp
}

// parseNumber reads a time that is a number. Whole numbers are exact.
func parseNumber(s string) (stamp, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return stamp{}, badStamp(s, errStamp)
	}
	if !(f >= 0 && f < 1<<63) { // NaN too
		return stamp{}, badStamp(s, errRange)
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return stamp{n, whole}, nil
	}
	return stamp{int64(math.Float64bits(f)), fraction}, nil
}

// number is the value of a stamp that is no date.
func (s stamp) number() float64 {
	if s.kind == fraction {
		return math.Float64frombits(uint64(s.value))
	}
	return float64(s.value)
}

// in returns nanoseconds since 1970, or false if the stamp does not fit. Fractions
// are rounded to the microsecond, about what a float64 of seconds holds.
func (s stamp) in(u unit) (ns int64, ok bool) {
	if s.kind == date {
		return s.value, true
	}
	second := u.perSecond
	if f := s.number(); f < u.low || f >= u.high || f/second >= lastSecond {
		return 0, false
	}
	if s.kind == whole {
		return s.value * (1e9 / int64(second)), true
	}
	sec, frac := math.Modf(s.number() / second)
	return int64(sec)*1e9 + int64(math.Round(frac*1e6))*1e3, true
}

// dated ends the reading of s as a date.
func dated(s string, at time.Time, err error) (stamp, error) {
	at = at.UTC()
	if err == nil && (at.Year() < minYear || at.Year() > maxYear) {
		err = errRange
	}
	if err != nil {
		return stamp{}, badStamp(s, err)
	}
	return stamp{at.UnixNano(), date}, nil
}

// badStamp quotes no more than 40 characters: what stands where a time should
// may be a megabyte.
func badStamp(s string, err error) error { return fmt.Errorf("time %.40q: %w", s, err) }
