package httplimit_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
)

// TestFields: what q, w, r and t are for each kind of limit, and the older triple. docs/http.md
// has the rules.
func TestFields(t *testing.T) {
	const none = "<none>"
	ok := func(l hybrid.Limit, remaining int64, reset time.Duration) hybrid.Decision {
		return hybrid.Decision{Allowed: true, Limit: l, Remaining: remaining, ResetAfter: reset}
	}
	no := func(l hybrid.Limit, retry, reset time.Duration) hybrid.Decision {
		return hybrid.Decision{Limit: l, RetryAfter: retry, ResetAfter: reset}
	}
	bucket := hybrid.PerSecond(10).WithBurst(50)
	day, sliding := hybrid.Quota(1000, hybrid.Day), hybrid.Sliding(100, time.Minute)
	for _, c := range []struct {
		name                  string
		d                     hybrid.Decision
		limit, policy, legacy string
	}{
		{"bucket, full but for one", ok(bucket, 49, 100*time.Millisecond),
			";r=49;t=5", ";q=50;w=5", "50 49 5"},
		{"bucket, half full", ok(bucket, 20, 3*time.Second), ";r=20;t=3", ";q=50;w=5", "50 20 3"},
		{"bucket, denied", no(bucket, 80*time.Millisecond, 5*time.Second),
			";r=0;t=1", ";q=50;w=5", "50 0 1"},
		{"bucket with a small Burst",
			ok(hybrid.PerSecond(1000).WithBurst(200), 199, time.Millisecond),
			";r=199;t=1", ";q=1000;w=1", "1000 199 1"},
		{"bucket of a third", ok(hybrid.Per(1, 3*time.Second), 0, 3*time.Second),
			";r=0;t=3", ";q=1;w=3", "1 0 3"},
		{"bucket of thirds", ok(hybrid.PerMinute(20).WithBurst(10), 9, 3*time.Second),
			";r=9;t=27", ";q=10;w=30", "10 9 27"},
		{"bucket whose quotient is a bit above a minute", ok(hybrid.PerMinute(11), 11, 0),
			";r=11;t=60", ";q=11;w=60", "11 11 60"},
		{"slowest bucket", ok(hybrid.Per(1, 10*365*hybrid.Day), 0, 10*365*hybrid.Day),
			";r=0;t=315360000", ";q=1;w=315360000", "1 0 315360000"},
		{"largest bucket", ok(hybrid.PerSecond(1<<32), 1<<32, 0),
			";r=4294967296;t=1", ";q=4294967296;w=1", "4294967296 4294967296 1"},
		{"quota", ok(day, 999, 3*time.Hour),
			";r=999;t=10800", ";q=1000;w=86400", "1000 999 10800"},
		{"quota, nothing used", ok(day, 1000, 0),
			";r=1000;t=86400", ";q=1000;w=86400", "1000 1000 86400"},
		{"quota, denied", no(day, 90*time.Minute+1, 90*time.Minute),
			";r=0;t=5401", ";q=1000;w=86400", "1000 0 5401"},
		{"month", ok(hybrid.Quota(5, hybrid.Month), 4, time.Second),
			";r=4;t=1", ";q=5;w=2629746", "5 4 1"},
		{"sliding window", ok(sliding, 30, time.Minute),
			";r=30;t=60", ";q=100;w=60", "100 30 60"},
		{"sliding window, nothing used", ok(sliding, 100, 0),
			";r=100;t=60", ";q=100;w=60", "100 100 60"},
		{"slots", ok(hybrid.Slots(7), 3, 0),
			";r=3", `;q=7;qu="concurrent-requests"`, "7 3 1"},
		{"unlimited", ok(hybrid.Unlimited, hybrid.Unlimited.Burst, 0), none, none, "  "},
		{"blocked", no(hybrid.Blocked, time.Minute, 0), ";r=0;t=60", ";q=0", "0 0 60"},
	} {
		h := http.Header{}
		states := []httplimit.State{{Name: "a", Decision: c.d}}
		httplimit.Draft11(h, states)
		httplimit.Legacy(h, states)
		limit, policy := `"a"`+c.limit, `"a"`+c.policy
		if c.limit == none {
			limit, policy = "", ""
		}
		if h.Get("RateLimit") != limit || h.Get("RateLimit-Policy") != policy {
			t.Errorf("%s: %v", c.name, h)
		}
		legacy := h.Get("X-RateLimit-Limit") + " " + h.Get("X-RateLimit-Remaining") + " " +
			h.Get("X-RateLimit-Reset")
		if legacy != c.legacy {
			t.Errorf("%s: %s", c.name, legacy)
		}
	}
}

// TestLegacyIsTheTightest: one triple stands for several limits.
func TestLegacyIsTheTightest(t *testing.T) {
	state := func(burst, remaining int64, retry time.Duration) httplimit.State {
		return httplimit.State{Decision: hybrid.Decision{
			Limit: hybrid.Quota(burst, hybrid.Hour), Remaining: remaining, RetryAfter: retry,
			Allowed: retry == 0,
		}}
	}
	unlimited := httplimit.State{Decision: hybrid.Decision{Allowed: true, Limit: hybrid.Unlimited}}
	for _, c := range []struct {
		states []httplimit.State
		want   string
	}{
		{[]httplimit.State{state(100, 50, 0), state(60, 40, 0), unlimited}, "60"},
		{[]httplimit.State{state(100, 0, 0), state(60, 1, time.Second)}, "60"},
		{[]httplimit.State{state(100, 0, time.Hour), state(60, 0, time.Second)}, "100"},
		{[]httplimit.State{unlimited}, ""},
		{nil, ""},
	} {
		h := http.Header{}
		httplimit.Legacy(h, c.states)
		if got := h.Get("X-RateLimit-Limit"); got != c.want {
			t.Errorf("%+v: the limit of %s", c.states, got)
		}
	}
}

// FuzzDraft11: whatever a State has, the fields are Lists of RFC 9651, and a name of printable
// ASCII comes back as it was.
func FuzzDraft11(f *testing.F) {
	f.Add("a", int64(50), int64(100), 10.0, int64(60), int64(3), true, uint8(0))
	f.Add(`"\ é`, int64(-1), int64(math.MaxInt64), math.Inf(1), int64(-1), int64(0), false, uint8(1))
	f.Fuzz(func(
		t *testing.T, name string, remaining, burst int64, rate float64, window, after int64,
		allowed bool, kind uint8,
	) {
		d := hybrid.Decision{
			Allowed: allowed, Remaining: remaining, ResetAfter: time.Duration(after),
			RetryAfter: time.Duration(after), Limit: hybrid.Limit{
				Kind: hybrid.Kind(kind % 4), Burst: burst, Rate: rate, Window: time.Duration(window),
			},
		}
		if d.Limit.Validate() != nil {
			d.Limit = hybrid.Blocked
		}
		h := http.Header{}
		httplimit.Draft11(h, []httplimit.State{{Name: name, Decision: d}, {Name: "b", Decision: d}})
		for _, field := range []string{"RateLimit", "RateLimit-Policy"} {
			value := h.Get(field)
			names, err := parseList(value)
			if value == "" && d.Limit == hybrid.Unlimited {
				continue
			}
			if err != nil || len(names) != 2 || names[1] != "b" || printable(name) && names[0] != name {
				t.Fatalf("%s: %s has the names %q: %v", field, value, names, err)
			}
		}
	})
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

// parseList reads a List of Strings with parameters, as strictly as RFC 9651, section 4.2, says,
// as far as the draft needs it. It returns the Strings.
func parseList(s string) (names []string, err error) {
	p := &parser{s}
	for {
		names = append(names, p.text())
		for p.skip(";") {
			if key := p.while("abcdefghijklmnopqrstuvwxyz"); key == "" || !p.skip("=") {
				return nil, fmt.Errorf("no parameter before %q", p.rest)
			}
			if strings.HasPrefix(p.rest, `"`) {
				p.text()
				continue
			}
			digits := p.while("0123456789")
			if _, err := strconv.Atoi(digits); err != nil || len(digits) > 15 {
				return nil, fmt.Errorf("%q is no Integer", digits)
			}
		}
		if p.rest == "" {
			return names, nil
		}
		if !p.skip(", ") || p.rest == "" {
			return nil, errors.New("a List that does not go on: " + p.rest)
		}
	}
}

// A parser has what is left to read; all of it if something is wrong.
type parser struct{ rest string }

func (p *parser) skip(s string) (found bool) {
	p.rest, found = strings.CutPrefix(p.rest, s)
	return found
}

func (p *parser) while(set string) string {
	n := len(p.rest) - len(strings.TrimLeft(p.rest, set))
	s := p.rest[:n]
	p.rest = p.rest[n:]
	return s
}

func (p *parser) text() string {
	if !p.skip(`"`) {
		return "no String"
	}
	var b strings.Builder
	for i := 0; i < len(p.rest); i++ {
		switch c := p.rest[i]; {
		case c == '"':
			p.rest = p.rest[i+1:]
			return b.String()
		case c == '\\':
			i++
			if i == len(p.rest) || p.rest[i] != '"' && p.rest[i] != '\\' {
				return "wrong escape"
			}
			b.WriteByte(p.rest[i])
		case c < ' ' || c > '~':
			return "wrong byte"
		default:
			b.WriteByte(c)
		}
	}
	return "open String"
}
