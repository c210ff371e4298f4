package httplimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// mostInteger is the largest Integer of RFC 9651.
const mostInteger = 999_999_999_999_999

// Draft11 writes the fields RateLimit and RateLimit-Policy as
// draft-ietf-httpapi-ratelimit-headers-11 has them, with a member for each limit:
//
//	RateLimit: "client";r=49;t=5, "daily";r=950;t=36000
//	RateLimit-Policy: "client";q=50;w=5, "daily";q=1000;w=86400
//
// docs/http.md says what q, w, r and t are for each kind of limit. An Unlimited key has no
// member. net/http writes the first name as Ratelimit; names of fields have no case. A name that
// is not printable ASCII is written with question marks.
func Draft11(h http.Header, states []State) {
	b := make([]byte, 0, 256)
	for _, s := range states {
		if s.Limit != hybrid.Unlimited {
			b = integer(name(b, s.Name), ";r=", s.Remaining)
			if t := effectiveWindow(s.Decision); t > 0 {
				b = integer(b, ";t=", t)
			}
			b = append(b, ", "...)
		}
	}
	end := len(b)
	if end == 0 {
		return
	}
	for _, s := range states {
		if s.Limit == hybrid.Unlimited {
			continue
		}
		q, w := quota(s.Limit)
		b = integer(name(b, s.Name), ";q=", q)
		if s.Limit.Kind == hybrid.KindSlots {
			b = append(b, `;qu="concurrent-requests"`...)
		}
		if w > 0 {
			b = integer(b, ";w=", w)
		}
		b = append(b, ", "...)
	}
	text := string(b)
	values := []string{strings.TrimSuffix(text[:end], ", "), strings.TrimSuffix(text[end:], ", ")}
	add(h, "Ratelimit", values[:1:1])
	add(h, "Ratelimit-Policy", values[1:])
}

// add is h.Add for a name in its canonical form. Another Guard may have been there before.
func add(h http.Header, name string, values []string) {
	if before := h[name]; before != nil {
		values = append(before, values...)
	}
	h[name] = values
}

// name appends a String of RFC 9651.
func name(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~':
			b = append(b, '?')
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

func integer(b []byte, parameter string, n int64) []byte {
	return strconv.AppendInt(append(b, parameter...), min(max(n, 0), mostInteger), 10)
}

// quota is what a policy allocates, in tokens, and its time window in whole seconds, or 0 for
// one without. Of a bucket it is what flows in while it fills up, so that q/w is the Rate.
func quota(l hybrid.Limit) (q, w int64) {
	switch {
	case l == hybrid.Blocked || l.Kind == hybrid.KindSlots:
		return l.Burst, 0
	case l.Kind == hybrid.KindBucket:
		w = seconds(float64(l.Burst) / l.Rate)
		return max(l.Burst, int64(math.Floor(l.Rate*float64(w)))), w
	}
	return l.Burst, whole(l.Window)
}

// effectiveWindow is for how many seconds a client should make do with what is left, or 0. After a
// denial it is Retry-After. A bucket or a sliding window that is nearly full would have none:
// there it is at least so long that what is left, by this time, is no more than the mean rate.
func effectiveWindow(d hybrid.Decision) int64 {
	if !d.Allowed {
		return whole(d.RetryAfter)
	}
	least := int64(1)
	switch q, w := quota(d.Limit); {
	case w == 0: // nobody knows when slots come free
		return 0
	case d.Limit.Kind == hybrid.KindQuota && d.ResetAfter == 0: // nothing is used
		return w
	case d.Limit.Kind != hybrid.KindQuota:
		least = seconds(float64(d.Remaining) * float64(w) / float64(q))
	}
	return max(whole(d.ResetAfter), least)
}

// whole is in whole seconds, rounded up, and at least 1: a client that came back earlier would be
// denied.
func whole(d time.Duration) int64 {
	return max(int64(d/time.Second)+int64(min(max(d%time.Second, 0), 1)), 1)
}

// seconds rounds a quotient up, at least to 1. What it is off by in its last bits is no second.
func seconds(s float64) int64 { return int64(max(math.Ceil(s*(1-1e-12)), 1)) }

// Legacy writes the older fields X-RateLimit-Limit, X-RateLimit-Remaining and X-RateLimit-Reset,
// of one limit: that with the longest RetryAfter, or, if none denies, that with the least left.
// The Limit is that of Draft11's q, and the Reset its t, in seconds from now.
//
// Services differ in what their Reset means; some write the time of day.
func Legacy(h http.Header, states []State) {
	var least *State
	for i := range states {
		s := &states[i]
		if s.Limit != hybrid.Unlimited && (least == nil || s.tighter(least)) {
			least = s
		}
	}
	if least == nil {
		return
	}
	q, _ := quota(least.Limit)
	h.Set("X-RateLimit-Limit", strconv.FormatInt(q, 10))
	h.Set("X-RateLimit-Remaining", strconv.FormatInt(max(least.Remaining, 0), 10))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(max(effectiveWindow(least.Decision), 1), 10))
}

// tighter reports whether a client has to mind s more than t.
func (s *State) tighter(t *State) bool {
	if s.RetryAfter != t.RetryAfter {
		return s.RetryAfter > t.RetryAfter
	}
	return s.Remaining < t.Remaining
}
