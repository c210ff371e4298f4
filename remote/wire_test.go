package remote

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

const goodReply = "[7,1795223759759042,1048576,62,60,250000,313231,900000,157286601,3,1.25e-07,1000,3],2097152,8,0.5,1000"

func TestParseReply(t *testing.T) {
	want := lease.Reply{
		Seq: 7, Taken: 3, Add: 1.25e-07, Rate: 1, Burst: 62, Keep: 60,
		Refresh: 250 * time.Millisecond, RateUntil: 313231 * time.Microsecond, Expires: 813231 * time.Microsecond,
		RetryAfter: time.Millisecond, Intact: true, Contended: true,
		Lent: 2, Holders: 8, Limit: lease.Limit{Rate: 0.5, Burst: 1000},
	}
	if got, err := parseReply(7, goodReply); got != want || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	stale := lease.Reply{Seq: 7, Stale: true, Limit: want.Limit}
	if got, err := parseReply(7, "stale,0.5,1000"); got != stale || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
}

// Whatever answers in the place of the script, the error says what was odd.
func TestOddReplies(t *testing.T) {
	change := func(old, new string) string {
		if strings.Count(goodReply, old) != 1 {
			t.Fatalf("%q is not once in the reply", old)
		}
		return strings.Replace(goodReply, old, new, 1)
	}
	for _, c := range []struct {
		reply any
		want  string
	}{
		{nil, "<nil>, not a string"},
		{int64(7), "int64, not a string"},
		{[]any{"7"}, "[]interface {}, not a string"},
		{"", "no record"},
		{"OK", "no record"},
		{"[7]", "no record"},
		{"[7],", "at"},
		{"stale", "no record"},
		{"stale,", "limit's rate"},
		{"stale,1", "no limit's burst"},
		{"stale,1,2,3", "1 fields too many"},
		{goodReply + ",1", "1 fields too many"},
		{change(",0.5,1000", ""), "limit's rate"},
		{change("[7,", "[8,"), "answers seq 8, not 7"},
		{change("[7,", "[,"), "seq"},
		{change("[7,", "[7.5,"), "seq"},
		{change(",1048576,", ",-1048576,"), "rate"},
		{change(",1048576,", ",99999999999999999999,"), "rate"},
		{change(",62,", ",NaN,"), "burst"},
		{change(",62,", ",-1,"), "burst"},
		{change(",60,", ",Inf,"), "keep"},
		{change(",250000,", ",9223372036854775807,"), "refresh"},
		{change(",1.25e-07,", ",1e300,"), "add"},
		{change(",1.25e-07,", ",-0.5,"), "add"},
		{change(",1.25e-07,", ",x,"), "add"},
		{change(",1000,3]", ",1000,16]"), "flags"},
		{change(",8,0.5", ",99999999999,0.5"), "holders"},
		{change(",8,0.5", ",8,0"), "invalid limit"},
		{change(",8,0.5", ",8,Inf"), "limit's rate"},
		{strings.Repeat("9", 10000), "no record"},
	} {
		got, err := parseReply(7, c.reply)
		if err == nil || !strings.Contains(err.Error(), "odd reply") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.100v: %v, does not say %q", c.reply, err, c.want)
		} else if got != (lease.Reply{}) || len(err.Error()) > 500 {
			t.Errorf("%.100v: %+v, %v", c.reply, got, err)
		}
	}
}

func FuzzParseReply(f *testing.F) {
	f.Add(goodReply)
	f.Add("stale,0.5,1000")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := parseReply(7, text)
		if err != nil {
			return
		}
		if r.Seq != 7 || r.Limit.Validate() != nil {
			t.Errorf("%+v", r)
		}
		for _, x := range []float64{r.Taken, r.Add, r.Rate, r.Burst, r.Keep, r.Lent} {
			if !(x >= 0) || x > 1<<53 {
				t.Errorf("%v in %+v", x, r)
			}
		}
		for _, d := range []time.Duration{r.Refresh, r.RateUntil, r.Expires, r.RetryAfter} {
			if d < 0 || d > 3*lease.MaxFill {
				t.Errorf("%v in %+v", d, r)
			}
		}
	})
}

// A View has as many ways to be odd, but only people look at it.
func TestOddViews(t *testing.T) {
	for _, v := range []any{
		nil, "", int64(1), []any{"rate"}, []any{nil}, []any{[]any{1}}, []any{[]any{}},
		[]any{[]any{"rate"}}, []any{[]any{"ends", strings.Repeat("0 ", 20)}},
		[]any{[]any{"ends", strings.Repeat("x ", 20)}},
	} {
		if view, err := parseView(v); err == nil || !strings.Contains(err.Error(), "odd reply") {
			t.Errorf("%v: %+v, %v", v, view, err)
		}
	}
	if view, err := parseView([]any{}); err != nil || view.At != 0 {
		t.Errorf("%+v, %v", view, err)
	}
}

// The script gets numbers that both Redis and miniredis read back exactly.
func TestEncode(t *testing.T) {
	q := lease.Request{
		Holder: "h", Seq: 1 << 53, Seen: 9007199254740991, Take: 1 << 40, Min: 1,
		Give: 1.0 / 3, Held: 5e-324, Spent: 2.0 / 7, Demand: 1 << 40, Shift: 0.1, Lag: 1999 * time.Nanosecond,
		Claim: lease.Claim{Rate: 0.25, Left: 1}, Limit: lease.Limit{Rate: 1e-7, Burst: 1},
		Policy: lease.Policy{Mode: lease.Shares, Fairness: lease.MaxMin, MaxRefresh: time.Hour},
	}
	request, limit := encode(&q)
	const want = "[9007199254740992,9007199254740991,1099511627776,1,0,0.3333333333333333,5e-324,0.2857142857142857," +
		"4503599627370496,0.1,1,0.25,0,2,1,100,20000,3600000000,0.1,0.5,4,0.05,1e-07,1]"
	if request != want || limit != "1e-07,1" {
		t.Errorf("%s\n%s", request, limit)
	}
	q.Claim = lease.Claim{Rate: 5}
	q.Demand = math.Nextafter(1, 0)
	if request, _ = encode(&q); !strings.Contains(request, ",1048575,0.1,1,-1,0,") {
		t.Errorf("%s", request)
	}
}
