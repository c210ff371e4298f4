package live

import (
	"fmt"
	"testing"

	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/engine"
	"github.com/seed13b07268/ration/sim/simtest"
)

// Processes forget keys that nobody asks for in two seconds, and park what they still have. The
// engine keeps them. Where each process is asked for a key every few seconds, that makes up to
// an eighth of the calls; where it is asked more often or hardly ever, next to nothing. (One run
// of a thousand calls and more is off by 3 % by chance.)
func TestForgottenKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("plays limiters for minutes of virtual time: too long with -short")
	}
	for _, c := range []struct {
		rate  float64 // requests/s of each of 50 keys in 8 processes
		limit string
		least float64 // calls by the engine / by the limiters
		most  float64
	}{
		{1.6, "100/s", 1, 1.18}, {0.5, "10/s", 0.96, 1.04}, {1.6, "10/s", 0.96, 1.04},
		{8, "100/s", 0.94, 1.06},
	}[:longform.Of(2, 4)] {
		s := read(t, fmt.Sprintf("{processes: 8, keys: 50, limit: %s, load: {rate: %v/s}, "+
			"duration: 100s, warmup: 50s}", c.limit, 50*c.rate))
		limiters, _ := virtual(t, s)
		r, err := engine.Run(t.Context(), s, 1, 0)
		simtest.OK(t, err)
		const census = 8 / 9.375 // which limiters take, and the engine does not
		x := (r.CallsPerSecond + census) / limiters.CallsPerSecond
		t.Logf("%v/s of a key of %s: limiters %.4f calls/request, the engine %.3f of that", c.rate,
			c.limit, limiters.CallsPerRequest, x)
		if !(x >= c.least && x <= c.most) {
			t.Errorf("%v/s of a key of %s: the engine has %.3f of the limiters' calls", c.rate,
				c.limit, x)
		}
	}
}
