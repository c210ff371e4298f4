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

// clfTime is the time of the Common Log Format, of which some leave out the zone. time.Parse takes
// a fraction after the second too.
const clfTime = "02/Jan/2006:15:04:05 -0700"

// lastSecond is the end of maxYear, since 1970.
var lastSecond = float64(time.Date(maxYear+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix())

var (
	errStamp = errors.New(`want RFC 3339, "2006-01-02 15:04:05.999 +0000" or a unix time`)
	errDay   = errors.New(`a day and a month in either order: say which (time_layout, -time-layout ` +
		`"1/2/2006 15:04:05" if the month is first, with 3:04:05 PM of twelve hours)`)
	errDayAlone = errors.New("a day without a time of day, at which all of its requests would come")
	errCLFTime  = fmt.Errorf("want %q", clfTime)
	errRange    = fmt.Errorf("not in the years %d to %d", minYear, maxYear)
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

// checkLayout returns an error for a layout that all times of a day are written alike in.
func (o *Options) checkLayout() error {
	day, step := time.Date(2024, 3, 2, 0, 0, 0, 0, time.UTC), 13*time.Hour
	if o.CountCol != "" { // a line may count the requests of a day
		step += 24 * time.Hour
	}
	if o.TimeLayout == "" || day.Format(o.TimeLayout) != day.Add(step).Format(o.TimeLayout) {
		return nil
	}
	return fmt.Errorf("time layout %.40q (time_layout, -time-layout): has no hour; want one of package time, "+
		"as \"2006-01-02 15:04:05\"", o.TimeLayout)
}

// stampOf reads a time column beside one of dates, which may be "": a time of day comes after its
// day, and so does what the layout is of, if that is without a day.
func (o *Options) stampOf(day, clock string) (stamp, error) {
	colon := strings.IndexByte(clock, ':')
	switch {
	case day == "":
	case o.TimeLayout != "" && !strings.Contains(o.TimeLayout, "2"): // 2, 02 and _2 are the day
		at, err := time.Parse(o.TimeLayout, clock)
		if err != nil {
			return o.stamp(clock) // for the reason
		}
		return parseStamp(day + at.Format(" 15:04:05.999999999"))
	case o.TimeLayout == "" && len(day) == 8 && strings.IndexByte(clock+".", '.') == 6: // 20060102 and 150405
		return o.stamp(day + " " + clock)
	case o.TimeLayout == "" && colon == 1:
		return o.stamp(day + " 0" + clock) // other layouts want the hour as it stands
	case colon == 1 || colon == 2:
		return o.stamp(day + " " + clock)
	}
	return o.stamp(clock)
}

// stamp reads a time column of a log with columns.
func (o *Options) stamp(s string) (stamp, error) {
	if o.TimeLayout == "" {
		at, err := parseStamp(s)
		if errors.Is(err, errStamp) {
			err = fmt.Errorf("%w, or say how it is written (time_layout, -time-layout)", err)
		}
		return at, err
	}
	at, err := inLayout(o.TimeLayout, s)
	if err != nil {
		err = fmt.Errorf("want %.40q (time_layout, -time-layout)", o.TimeLayout)
	}
	return dated(s, at, err)
}

// parseStamp reads a time column: a date and time of day, the time of the
// Common Log Format, which nginx's $time_local has too, or a number.
func parseStamp(s string) (stamp, error) {
	switch {
	case len(s) >= 19 && s[4] == '/' && s[7] == '/': // nginx's errors, package log
		at, err := parseDate(s[:4] + "-" + s[5:7] + "-" + strings.Replace(s[8:], " - ", " ", 1)) // Gin
		return dated(s, at, err)
	case len(s) >= 19 && s[4] == '-':
		at, err := parseDate(s)
		return dated(s, at, err)
	case len(s) >= 20 && s[2] == '/' && s[6] == '/':
		at, err := parseCLFTime(s)
		return dated(s, at, err)
	}
	if at, err := parseNumber(s); !errors.Is(err, errStamp) {
		return at, err
	}
	plain, _, _ := strings.Cut(s, " (") // JavaScript names its zone there
	for _, layout := range otherLayouts {
		if at, err := inLayout(layout, plain); err == nil {
			return dated(s, at, nil)
		}
	}
	for _, layout := range dayLayouts {
		if _, err := time.Parse(layout, s); err == nil {
			return stamp{}, badStamp(s, errDayAlone)
		}
	}
	if len(s) >= 8 && (s[1] == '/' || s[2] == '/') {
		return stamp{}, badStamp(s, errDay)
	}
	return stamp{}, badStamp(s, errStamp)
}

// noYear is that of times without a year: February has 29 days in it.
const noYear = 1972

// inLayout reads a time as package time does.
func inLayout(layout, s string) (time.Time, error) {
	at, err := time.Parse(layout, s)
	if !strings.Contains(layout, "06") {
		at = at.AddDate(noYear, 0, 0)
	}
	return at, err
}

func parseCLFTime(s string) (time.Time, error) {
	layout := clfTime
	if !strings.Contains(s, " ") {
		layout, _, _ = strings.Cut(clfTime, " ")
	}
	at, err := time.Parse(layout, s)
	if err != nil {
		err = errCLFTime
	}
	return at, err
}

// Layouts that parseDate tries. To fail at one takes longer than to succeed.
var (
	zoned   = []string{time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07"}
	unzoned = []string{"2006-01-02T15:04:05"}

	otherLayouts = []string{
		time.Stamp, "I0102 15:04:05", "W0102 15:04:05", "E0102 15:04:05", // syslog, klog
		"02 Jan 2006 15:04:05", "20060102 150405", time.ANSIC, time.RFC1123Z,
		"Mon, 02 Jan 2006 15:04:05 GMT", "2.1.2006 15:04:05", "02-Jan-2006 15:04:05",
		"Mon Jan 02 2006 15:04:05 GMT-0700",
	}
	dayLayouts = []string{time.DateOnly, "2006/01/02", "02/Jan/2006", "2.1.2006"}
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
