package envoy

import (
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// TestUntilEnd: windows end where those of the ledger do.
func TestUntilEnd(t *testing.T) {
	now := time.Date(2026, time.December, 30, 22, 59, 58, 0, time.UTC) // a Wednesday
	for _, try := range []struct {
		window, offset, want time.Duration
	}{
		{time.Second, 0, time.Second},
		{hybrid.Minute, 0, 2 * time.Second},
		{hybrid.Hour, 0, 2 * time.Second},
		{hybrid.Day, 0, time.Hour + 2*time.Second},
		{hybrid.Day, time.Hour, 2 * time.Second},
		{hybrid.Day, 2 * time.Hour, 23*time.Hour + 2*time.Second},
		{hybrid.Week, 0, 4*hybrid.Day + time.Hour + 2*time.Second},
		{hybrid.Month, 0, hybrid.Day + time.Hour + 2*time.Second},
	} {
		limit := hybrid.Quota(1, try.window).In(try.offset)
		if got := untilEnd(limit, now); got != try.want {
			t.Errorf("%v at %v: %v, not %v", limit, now, got, try.want)
		}
	}
}
