package lease

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestWindows: windows begin and end where the calendar of package time says, in leap years
// and in years 100 and 400, east and west of Greenwich.
func TestWindows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	from, to := time.Date(1971, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2190, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 200_000 {
		at := from.Add(time.Duration(rng.Int64N(int64(to.Sub(from))))).Truncate(time.Microsecond)
		if rng.IntN(4) == 0 { // about a month's beginning
			at = time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(rng.IntN(3)-1) * time.Microsecond)
		}
		offset := time.Duration(rng.IntN(29)-14) * time.Hour
		local := at.In(time.FixedZone("", int(offset.Seconds())))
		y, m, d := local.Date()
		date := func(y int, m time.Month, d int) time.Time {
			return time.Date(y, m, d, 0, 0, 0, 0, local.Location())
		}
		weekday := (int(local.Weekday()) + 6) % 7
		for _, c := range []struct {
			window     time.Duration
			start, end time.Time
		}{
			{Month, date(y, m, 1), date(y, m+1, 1)},
			{Week, date(y, m, d-weekday), date(y, m, d-weekday+7)},
			{Day, date(y, m, d), date(y, m, d+1)},
			{time.Hour, local.Truncate(time.Hour), local.Truncate(time.Hour).Add(time.Hour)},
			{90 * time.Second, at.Add(-time.Duration(local.UnixMicro()+offset.Microseconds()) % 90_000_000 * time.Microsecond), time.Time{}},
		} {
			if c.end.IsZero() {
				c.end = c.start.Add(c.window)
			}
			f := frame{KindQuota, micros(c.window), micros(offset)}
			start, end := f.bounds(float64(at.UnixMicro()))
			if start != float64(c.start.UnixMicro()) || end != float64(c.end.UnixMicro()) {
				t.Fatalf("%s at %v, offset %v: from %v to %v, not from %v to %v", windowName(c.window),
					at, offset, time.UnixMicro(int64(start)).UTC(), time.UnixMicro(int64(end)).UTC(), c.start, c.end)
			}
		}
	}
}
