package rules

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// LimitText writes a limit as Rule.Text does: "600/minute", "10/second burst 20", "100/day by the
// calendar". A bucket that can be written in several ways is written without a burst if it can be,
// and by the shortest unit of which it has a whole number. A limit that no document can have is
// written as Limit.String does.
func LimitText(l hybrid.Limit) string {
	if l == hybrid.Unlimited || l == hybrid.Blocked {
		return l.String()
	}
	switch l.Kind {
	case hybrid.KindBucket:
		return bucketText(l)
	case hybrid.KindQuota, hybrid.KindSliding:
		i := slices.IndexFunc(units, func(u unit) bool { return u.window == l.Window })
		if i < 0 {
			return l.String()
		}
		text := textOf(l.Kind, l.Burst, units[i])
		if l.Offset != 0 {
			text = withOffset(text, l.Offset)
		}
		return text
	}
	return l.String()
}

func bucketText(l hybrid.Limit) string {
	text := ""
	for _, u := range units {
		n := math.Round(l.Rate * u.window.Seconds())
		switch x := hybrid.Per(n, u.window); {
		case n > most:
		case x == l:
			return textOf(l.Kind, int64(n), u)
		case x.Rate == l.Rate && text == "":
			text = withBurst(textOf(l.Kind, int64(n), u), l.Burst)
		}
	}
	if text == "" {
		return l.String()
	}
	return text
}

// textOf is how people write n requests per unit.
func textOf(kind hybrid.Kind, n int64, u unit) string {
	switch kind {
	case hybrid.KindBucket:
		return fmt.Sprintf("%d/%s", n, u.name)
	case hybrid.KindQuota:
		return fmt.Sprintf("%d/%s by the calendar", n, u.name)
	}
	return fmt.Sprintf("%d in any %s", n, u.name)
}

func withBurst(text string, burst int64) string { return fmt.Sprintf("%s burst %d", text, burst) }

func withOffset(text string, offset time.Duration) string {
	return fmt.Sprintf("%s at UTC%+g h", text, offset.Hours())
}
