package scenario

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/lease"
)

var errRate = errors.New("want NUMBER/TIME such as 100/s, 2.5/s, 10/m, 5000/h or 100/500ms")

// ParseLimit reads NUMBER/TIME, where TIME is a duration or a bare unit of one.
// The Burst is NUMBER, rounded up.
func ParseLimit(s string) (lease.Limit, error) {
	number, span, ok := strings.Cut(s, "/")
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if !ok || err != nil {
		return lease.Limit{}, errRate
	}
	span = strings.TrimSpace(span)
	d, err := time.ParseDuration(span)
	if err != nil {
		d, err = time.ParseDuration("1" + span)
	}
	if err != nil || d <= 0 {
		return lease.Limit{}, errRate
	}
	limit := lease.Per(n, d)
	return limit, limit.Validate()
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
