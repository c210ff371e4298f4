package openai

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
)

// Fields writes X-Ratelimit-Limit-Tokens, X-Ratelimit-Remaining-Tokens and
// X-Ratelimit-Reset-Tokens, which clients of such APIs read, and the same of Requests. It is for
// Fields of httplimit.Config.
//
// Those of tokens are of the limits whose names begin with "tokens": of that with the longest
// RetryAfter, or, if none denies, that with the least left. So it is for names that begin with
// "requests". The Limit is the Burst, and the Reset is how long it takes until nothing of it is
// used, or, after a denial, until a request is worth repeating: "1s", "6m0s", "120ms".
func Fields(h http.Header, states []httplimit.State) {
	for _, of := range []string{"Tokens", "Requests"} {
		var tight *httplimit.State
		for i := range states {
			s := &states[i]
			if strings.HasPrefix(s.Name, strings.ToLower(of)) && s.Limit != hybrid.Unlimited &&
				(tight == nil || s.RetryAfter > tight.RetryAfter ||
					s.RetryAfter == tight.RetryAfter && s.Remaining < tight.Remaining) {
				tight = s
			}
		}
		if tight == nil {
			continue
		}
		reset := max(tight.ResetAfter, 0)
		if !tight.Allowed {
			reset = tight.RetryAfter
		}
		h.Set("X-Ratelimit-Limit-"+of, strconv.FormatInt(tight.Limit.Burst, 10))
		h.Set("X-Ratelimit-Remaining-"+of, strconv.FormatInt(max(tight.Remaining, 0), 10))
		h.Set("X-Ratelimit-Reset-"+of, upTo(reset).String())
	}
}

// upTo rounds up to what a client can read: to ms, and from a second on to seconds.
func upTo(d time.Duration) time.Duration {
	unit := time.Millisecond
	if d > time.Second {
		unit = time.Second
	}
	return (d + unit - 1) / unit * unit
}
