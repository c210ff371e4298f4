package envoy

import (
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// untilReset is how long a limit takes until it is fresh. Of a quota that is the end of its window
// by this machine's clock, as in the original, also where nothing is used. So it is for a limit
// of 0, though nothing is fresh then.
func untilReset(d hybrid.Decision, u unit, now time.Time) time.Duration {
	switch {
	case d.Limit == hybrid.Blocked:
		return untilEnd(hybrid.Quota(1, windows[u]), now)
	case d.Limit.Kind == hybrid.KindQuota:
		return untilEnd(d.Limit, now)
	}
	return d.ResetAfter
}

// untilEnd is the time to the end of a quota's window, by the calendar of package lease.
func untilEnd(limit hybrid.Limit, now time.Time) time.Duration {
	t := now.UTC().Add(limit.Offset)
	if limit.Window == hybrid.Month {
		return time.Date(t.Year(), t.Month()+1, 1, 0, 0, 0, 0, time.UTC).Sub(t)
	}
	since := time.Duration(t.UnixNano()) // since 1970, a Thursday
	if limit.Window == hybrid.Week {
		since -= 4 * hybrid.Day
	}
	return limit.Window - since%limit.Window
}
