package scenario

import (
	"math"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

func TestParseLimit(t *testing.T) {
	for s, want := range map[string]lease.Limit{
		"100/s":     {Rate: 100, Burst: 100},
		"2.5/s":     {Rate: 2.5, Burst: 3},
		"10/m":      {Rate: 10.0 / 60, Burst: 10},
		"5000/h":    {Rate: 5000.0 / 3600, Burst: 5000},
		"100/500ms": {Rate: 200, Burst: 100},
		"1/1m30s":   {Rate: 1.0 / 90, Burst: 1},
		"3 / ms":    {Rate: 3000, Burst: 3},
		"1e6/s":     {Rate: 1e6, Burst: 1e6},

		"10000/day":             quota(10_000, lease.Day, 0),
		"3 / second":            quota(3, time.Second, 0),
		"5/month UTC-14:00":     quota(5, lease.Month, -14*time.Hour),
		"quota 100/90s":         quota(100, 90*time.Second, 0),
		"quota 1e3/h UTC+05:30": quota(1000, time.Hour, 5*time.Hour+30*time.Minute),
		"quota 7/week":          quota(7, lease.Week, 0),

		"100 in any minute": sliding(100, time.Minute),
		"1e3 in any 90s":    sliding(1000, 90*time.Second),
		" 7 in any 1h30m ":  sliding(7, 90*time.Minute),
		"7 in any  h":       sliding(7, time.Hour),
		"12 in any month":   sliding(12, lease.Month),

		"500 slots":    {Kind: lease.KindSlots, Burst: 500},
		" 1e3  slots ": {Kind: lease.KindSlots, Burst: 1000},
	} {
		got, err := ParseLimit(s)
		if err != nil || math.Abs(got.Rate-want.Rate) > 1e-9*want.Rate || got.Burst != want.Burst ||
			got.Kind != want.Kind || got.Window != want.Window || got.Offset != want.Offset {
			t.Errorf("ParseLimit(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "100", "/s", "100/", "100/x", "x/s", "0/s", "-1/s", "NaN/s",
		"Inf/s", "1e10/s", "1/0s", "1/-1s", "100 per s",
		"0/day", "2.5/day", "-1/day", "1e10/day", "NaN/day", "Inf/hour", "1/year", "quota 5/500ms",
		"quota 5/1500ms",
		"quota 5/100000h", "quota 5", "quota/day", "5 in any", "5 in any ", "in any day",
		"2.5 in any day", "0 in any day", "5 in any 500ms", "5/day in any day", "5 in any -1h",
		"5 in any day/day", "quota 5 in any day", "5 in any day UTC+01:00",
		"5/s UTC+01:00", "5/day UTC", "5/day UTC+1",
		"5/day UTC+15:00"} {
		if got, err := ParseLimit(s); err == nil {
			t.Errorf("ParseLimit(%q) = %v, want an error", s, got)
		}
	}
}

func quota(n int64, window, offset time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindQuota, Burst: n, Window: window, Offset: offset}
}

func sliding(n int64, window time.Duration) lease.Limit {
	return lease.Limit{Kind: lease.KindSliding, Burst: n, Window: window}
}

// A limit that was chosen is printed so that it can be pasted.
func TestFormatRate(t *testing.T) {
	for rate, want := range map[float64]string{
		1000: "1000/s", 1320000: "1320000/s", 3771.43: "3771/s", 2.5: "2.5/s",
		10.0 / 60: "10/m", 1.0 / 3600: "1/h", 0.285: "17.1/m", 0.0001: "0.36/h",
	} {
		if got := FormatRate(rate); got != want {
			t.Errorf("FormatRate(%v) = %q, want %q", rate, got, want)
		}
	}
}

// FuzzParseLimit: what is read as a limit is one, and is written as it was.
func FuzzParseLimit(f *testing.F) {
	for _, s := range []string{"100/s", "2.5/s", "10/m", "100/500ms", "3 / ms", "1e6/s",
		"0x1p4/1h2m3.4s", "NaN/s", "-1/s", "1//s", "1/-s", "1e-300/s", "1/9999999h",
		"10000/day", "quota 100/90s", "quota 1/1h UTC-03:30", "5/month UTC+14:00", "quota 1/2h",
		"5 in any day", "5 in any 1h1s", "5 slots"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		limit, err := ParseLimit(s)
		if err != nil {
			if len(err.Error()) > 300 {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		if err := limit.Validate(); err != nil {
			t.Errorf("%q is %v: %v", s, limit, err)
		}
		if again, err := ParseLimit(FormatLimit(limit)); limit.Kind != lease.KindBucket {
			if err != nil || again != limit {
				t.Errorf("%q is %v, written %q and read %v, %v", s, limit, FormatLimit(limit), again, err)
			}
			if r := (Rate{}); r.UnmarshalText([]byte(s)) == nil {
				t.Errorf("%q is a rate, %v", s, r)
			}
			return
		}
		if again, err := ParseLimit(FormatRate(limit.Rate)); err == nil && math.Abs(again.Rate-limit.Rate) > 0.006*limit.Rate {
			t.Errorf("%q is %v, written %q and read %v", s, limit.Rate, FormatRate(limit.Rate), again.Rate)
		}
		var r Rate
		if err := r.UnmarshalText([]byte(s)); err != nil || r.PerSecond != limit.Rate {
			t.Errorf("%q is %v and %v, %v", s, limit, r, err)
		}
		r = Rate{PerSecond: r.PerSecond}
		text, err := r.MarshalText()
		if again := (Rate{}); err != nil || again.UnmarshalText(text) == nil && again.PerSecond != r.PerSecond {
			t.Errorf("%v is written %q and read %v, %v", r.PerSecond, text, again.PerSecond, err)
		}
	})
}
