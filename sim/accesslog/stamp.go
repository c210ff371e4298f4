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

var (
	errStamp   = errors.New(`want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time`)
	errCLFTime = fmt.Errorf("want %q", clfTime)
	errRange   = fmt.Errorf("not in the years %d to %d", minYear, maxYear)
)

// parseStamp reads a time column: a date and time of day, the time of the
// Common Log Format, which nginx's $time_local has too, or a unix time.
func parseStamp(s string) (at time.Time, err error) {
	switch {
	case len(s) >= 19 && s[4] == '-':
		at, err = parseDate(s)
	case len(s) >= 20 && s[2] == '/' && s[6] == '/':
		at, err = parseCLFTime(s)
	default:
		at, err = parseUnix(s)
	}
	return checked(s, at, err)
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

// parseUnix tells the unit by the size: seconds below 1e11, milliseconds below
// 1e14, microseconds below 1e17, else nanoseconds, which is right for all times
// after March 1973. Small numbers are seconds of 1970: some traces count from
// their own beginning. Integers are exact; with a point or an exponent they are
// rounded to the microsecond, about what a float64 of seconds holds.
func parseUnix(s string) (time.Time, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}, errStamp
	}
	if !(f >= 0 && f < 1<<63) { // NaN too
		return time.Time{}, errRange
	}
	unit := int64(1e9) // per second
	switch {
	case f < 1e11:
		unit = 1
	case f < 1e14:
		unit = 1e3
	case f < 1e17:
		unit = 1e6
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return time.Unix(n/unit, n%unit*(1e9/unit)), nil
	}
	sec, frac := math.Modf(f / float64(unit))
	return time.Unix(int64(sec), int64(math.Round(frac*1e6))*1e3), nil
}

// checked ends the reading of s as a time. It quotes no more than 40
// characters: what stands where a time should may be a megabyte.
func checked(s string, at time.Time, err error) (time.Time, error) {
	at = at.UTC()
	if err == nil && (at.Year() < minYear || at.Year() > maxYear) {
		err = errRange
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("time %.40q: %w", s, err)
	}
	return at, nil
}
