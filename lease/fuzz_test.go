package lease_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// FuzzLimit: a limit is refused by an error that names what is wrong, or its
// bucket holds its Burst and no token more.
func FuzzLimit(f *testing.F) {
	f.Add(100.0, int64(20), 100.0, int64(time.Second))
	f.Add(math.NaN(), int64(1), math.Inf(1), int64(0))
	f.Add(math.SmallestNonzeroFloat64, int64(math.MaxInt64), -1.0, int64(-1))
	f.Add(float64(lease.MaxRate), int64(lease.MaxBurst), 1e300, int64(1))
	f.Fuzz(func(t *testing.T, rate float64, burst int64, n float64, d int64) {
		for _, limit := range []lease.Limit{{Rate: rate, Burst: burst}, lease.Per(n, time.Duration(d)), lease.Per(n, time.Duration(d)).WithBurst(burst)} {
			if err := limit.Validate(); err != nil {
				text := err.Error()
				if !errors.Is(err, lease.ErrInvalidLimit) || !strings.HasPrefix(text, "lease: invalid limit: Rate ") && !strings.HasPrefix(text, "lease: invalid limit: Burst ") {
					t.Errorf("%+v: %v", limit, err)
				}
				continue
			}
			q := ask("a", 1, func(q *lease.Request) {
				q.Limit, q.Policy.Mode, q.Take, q.Min = limit, lease.PerRequest, float64(limit.Burst), float64(limit.Burst)
			})
			var l lease.Ledger
			if r := l.Exchange(0, q); r.Taken != float64(limit.Burst) || r.Limit != limit || limit.String() == "" {
				t.Errorf("%+v: %+v", limit, r)
			}
			q.Seq, q.Seen, q.Take, q.Min = 2, 1, 1, 1
			if r := l.Exchange(0, q); r.Taken != 0 || r.RetryAfter <= 0 {
				t.Errorf("%+v: one more, %+v", limit, r)
			}
		}
	})
}

// FuzzPolicy: a policy is refused by an error that names a field, or it stays as
// it is when it has been resolved. A name of a mode or a fairness is refused, or
// written again as it was.
func FuzzPolicy(f *testing.F) {
	f.Add(0, 0, int64(0), int64(0), int64(0), int64(0), 0.0, 0.0, int64(0), 0.0, "auto")
	f.Add(3, 1, int64(100), int64(time.Millisecond), int64(time.Hour), int64(time.Hour), 1.0, 1.0, int64(4), 0.99, "max-min")
	f.Add(-1, 9, int64(-1), int64(1), int64(math.MaxInt64), int64(math.MinInt64), math.NaN(), math.Inf(1), int64(0), 0.0, "Mode(9)")
	f.Fuzz(func(t *testing.T, mode, fairness int, batch, minRefresh, maxRefresh, maxHold int64, headroom, burstShare float64, smallest int64, reserve float64, name string) {
		p := lease.Policy{
			Mode: lease.Mode(mode), Fairness: lease.Fairness(fairness), Batch: batch,
			MinRefresh: time.Duration(minRefresh), MaxRefresh: time.Duration(maxRefresh), MaxHold: time.Duration(maxHold),
			Headroom: headroom, BurstShare: burstShare, Smallest: smallest, Reserve: reserve,
		}
		if err := p.Validate(); err != nil {
			if !strings.HasPrefix(err.Error(), "lease: Policy.") {
				t.Errorf("%+v: %v", p, err)
			}
		} else if r := p.Resolved(); r != r.Resolved() || r.Validate() != nil || r.MinRefresh > r.MaxRefresh || r.MaxRefresh > r.MaxHold {
			t.Errorf("%+v is resolved as %+v", p, r)
		}
		var m lease.Mode
		var x lease.Fairness
		for _, v := range []interface {
			UnmarshalText([]byte) error
			MarshalText() ([]byte, error)
		}{&m, &x} {
			if err := v.UnmarshalText([]byte(name)); err != nil {
				if !strings.HasPrefix(err.Error(), "lease: ") || len(err.Error()) > 300 || m != 0 || x != 0 {
					t.Errorf("%T of %q: %v, %v, %v", v, name, m, x, err)
				}
			} else if text, _ := v.MarshalText(); string(text) != name {
				t.Errorf("%T of %q is written as %q", v, name, text)
			}
		}
	})
}

// FuzzRequest: a request is refused by an error that names a field, or the
// ledger answers it with numbers that make sense and divides no more than there is.
func FuzzRequest(f *testing.F) {
	f.Add("a", uint64(3), uint64(2), 1.0, 1.0, 1.0, 0.0, 4.0, 1.0, 5.0, 50.0, int64(time.Millisecond), 50.0, 10.0, int64(time.Second), uint8(0), int64(time.Second))
	f.Add("new", uint64(1), uint64(0), 1e12, 5.0, 7.0, 1e12, 1e12, 1e12, 1e12, 1e12, int64(math.MaxInt64), 1e12, 1e12, int64(math.MaxInt64), uint8(3), int64(math.MaxInt64))
	f.Add("\x00", uint64(math.MaxUint64), uint64(math.MaxUint64), math.NaN(), -1.0, 0.5, math.Inf(1), 5e-324, 0.0, 1e-300, 0.0, int64(-1), 0.0, 0.0, int64(-1), uint8(255), int64(-1))
	f.Fuzz(func(t *testing.T, holder string, seq, seen uint64, take, least, unit, give, held, got, peak, demand float64, lag int64,
		claimRate, claimBurst float64, left int64, mode uint8, pause int64) {
		q := lease.Request{
			Holder: holder, Seq: seq, Seen: seen, Take: take, Min: least, Unit: unit, Give: give, Held: held, Got: got, Peak: peak,
			Demand: demand, Lag: time.Duration(lag),
			Claim: lease.Claim{Rate: claimRate, Burst: claimBurst, Left: time.Duration(left)},
			Limit: thousand, Policy: lease.Policy{Mode: lease.Mode(mode % 4), Fairness: lease.Fairness(mode / 4 % 2)}.Resolved(),
		}
		if err := q.Validate(); err != nil {
			if !strings.HasPrefix(err.Error(), "lease: Request.") || len(err.Error()) > 500 {
				t.Errorf("%+v: %v", q, err)
			}
			return
		}
		for _, lost := range []bool{false, true} { // of a ledger that knows a and b, and of one that has lost its state
			l := new(lease.Ledger)
			for seq := range uint64(2) {
				for _, id := range []string{"a", "b"} {
					if !lost {
						l.Exchange(time.Duration(seq)*100*ms, ask(id, seq+1, func(q *lease.Request) { q.Demand = 700 }))
					}
				}
			}
			r := l.Exchange(time.Duration(pause), q)
			for _, x := range []float64{r.Taken, r.Add, r.Rate, r.Burst, r.Keep} {
				if !(x >= 0) || x > 1<<33 {
					t.Fatalf("%+v: %v in %+v", q, x, r)
				}
			}
			for _, d := range []time.Duration{r.Refresh, r.RateUntil, r.Expires, r.RetryAfter} {
				if d < 0 || d > lease.MaxFill {
					t.Fatalf("%+v: %v in %+v", q, d, r)
				}
			}
			v := l.View()
			if err := divided(v); err != nil {
				t.Fatalf("%+v: %v", q, err)
			}
			if granted := r.Taken + r.Add; granted > thousand.Rate+float64(thousand.Burst) || v.Rates > thousand.Rate || math.IsNaN(v.Pool+v.Unrest) {
				t.Fatalf("%+v: %+v, %+v", q, r, v)
			}
		}
	})
}
