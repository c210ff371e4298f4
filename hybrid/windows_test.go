package hybrid_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestWindowDecision: what a Decision tells of a quota and of a sliding window, with the store
// in this process and with a real Redis.
func TestWindowDecision(t *testing.T) {
	for _, c := range []struct {
		limit         hybrid.Limit
		soonest, last time.Duration // of ResetAfter
		early         time.Duration // RetryAfter may be so much below it
		text          string
	}{
		// The next boundary is in 2029.
		{hybrid.Quota(5, 3650*hybrid.Day), 1, 3650 * hybrid.Day, time.Second, "5/87600h0m0s"},
		{hybrid.Sliding(5, hybrid.Hour), hybrid.Hour, hybrid.Hour + 3*time.Minute, 2 * hybrid.Hour,
			"5 in any hour"},
	} {
		t.Run(c.limit.Kind.String(), func(t *testing.T) {
			eachStore(t, func(t *testing.T, store hybrid.Store) {
				config := hybrid.Config{Limit: c.limit, Timeout: patient}
				a, b := newLimiter(t, store, config), newLimiter(t, store, config)
				d, err := a.Take(ctx, "k", 3)
				if err != nil || !d.Allowed || d.Remaining != 2 || d.Limit != c.limit ||
					d.ResetAfter < c.soonest || d.ResetAfter > c.last {
					t.Errorf("%+v, %v", d, err)
				}
				d, err = a.Take(ctx, "one", 1) // the first token counts, too
				if err != nil || d.Remaining != 4 || d.ResetAfter < c.soonest || d.ResetAfter > c.last {
					t.Errorf("%+v, %v", d, err)
				}
				if d, err = b.Take(ctx, "k", 3); err != nil || d.Allowed || d.Remaining != 2 ||
					d.RetryAfter <= 0 || d.RetryAfter < d.ResetAfter-c.early {
					t.Errorf("%+v, %v", d, err)
				}
				if d, err = b.Take(ctx, "k", 2); err != nil || !d.Allowed || d.Remaining != 0 {
					t.Errorf("%+v, %v", d, err)
				}
				if _, err = b.Take(ctx, "k", 6); !errors.Is(err, hybrid.ErrExceedsBurst) ||
					!strings.Contains(err.Error(), c.text) {
					t.Error(err)
				}
				if d, err = a.Peek(ctx, "k"); err != nil || d.Remaining > 2 { // has not heard of b
					t.Errorf("%+v, %v", d, err)
				}
				if err = a.Reset(ctx, "k"); err != nil {
					t.Error(err)
				}
				if d, err = a.Take(ctx, "k", 5); err != nil || !d.Allowed {
					t.Errorf("after Reset: %+v, %v", d, err)
				}
			})
		})
	}
}

// TestWindowOutage: what each policy admits of 6000 a minute while the store is away, by two
// processes.
func TestWindowOutage(t *testing.T) {
	long(t)
	longform.None(t)
	for _, c := range []struct {
		limit   hybrid.Limit
		policy  hybrid.Outage
		noticed time.Duration // leases have ended, and the outage is noticed
		lo, hi  int           // in 10 s
	}{
		// Share admits an even part of the mean rate. Two of them may round up.
		{hybrid.Quota(6000, hybrid.Minute), hybrid.Share, 5 * time.Second, 850, 1002},
		{hybrid.Quota(6000, hybrid.Minute), hybrid.Deny, 5 * time.Second, 0, 0},
		{hybrid.Quota(6000, hybrid.Minute), hybrid.Allow, 5 * time.Second, 19_000, 20_000},
		{hybrid.Sliding(6000, hybrid.Minute), hybrid.Share, 30 * time.Second, 850, 1002},
		{hybrid.Sliding(6000, hybrid.Minute), hybrid.Deny, 30 * time.Second, 0, 0},
		{hybrid.Sliding(6000, hybrid.Minute), hybrid.Allow, 30 * time.Second, 19_000, 20_000},
	} {
		t.Run(c.limit.Kind.String()+" "+c.policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := remoteLine(time.Millisecond)
				config := hybrid.Config{
					Limit: c.limit, Outage: c.policy, Timeout: 50 * time.Millisecond,
				}
				ls := []*hybrid.Limiter{newLimiter(t, store, config), newLimiter(t, store, config)}
				run := func(d time.Duration) (admitted int) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Millisecond) {
						for _, l := range ls {
							d, err := l.Take(ctx, "k", 1)
							if err == nil && d.Allowed && d.Source == hybrid.OutagePolicy {
								admitted++
							}
						}
					}
					return admitted
				}
				time.Sleep(20 * time.Second) // the processes have counted each other
				run(time.Second)
				store.cut.Store(true)
				run(c.noticed)
				if n := run(10 * time.Second); n < c.lo || n > c.hi {
					t.Errorf("%d admitted in 10 s, want %d to %d", n, c.lo, c.hi)
				}
			})
		})
	}
}

// TestWindowBadInput: numbers that make no sense are errors that name the field and the value.
func TestWindowBadInput(t *testing.T) {
	type bad struct {
		limit hybrid.Limit
		want  string
	}
	list := []bad{
		{hybrid.Quota(1, hybrid.Day).In(14*time.Hour + time.Second), "Offset 14h0m1s "},
		{hybrid.Quota(1, hybrid.Day).In(-15 * time.Hour), "Offset -15h0m0s "},
		{hybrid.Quota(1, hybrid.Day).In(time.Millisecond), "Offset 1ms "},
		{hybrid.Sliding(1, hybrid.Day).In(time.Hour), "Offset 1h0m0s "},
		{hybrid.PerSecond(5).In(time.Hour), "Offset 1h0m0s of a t"},
		{hybrid.Limit{Rate: 5, Burst: 1, Kind: 9}, "Kind Kind(9) "},
		{hybrid.Limit{Rate: 5, Burst: 1, Window: hybrid.Day}, "Window 24h0m0s or "},
	}
	for _, of := range []func(int64, time.Duration) hybrid.Limit{hybrid.Quota, hybrid.Sliding} {
		rated := of(1, hybrid.Day)
		rated.Rate = 5
		list = append(list,
			bad{of(0, hybrid.Day), "Burst 0 "},
			bad{of(-3, hybrid.Day), "Burst -3 "},
			bad{of(1<<32+1, hybrid.Day), "Burst 4294967297 "},
			bad{of(1<<53+1, hybrid.Day), "Burst 9007199254740993 "},
			bad{of(1, 999*time.Millisecond), "Window 999ms "},
			bad{of(1, 0), "Window 0s "},
			bad{of(1, -time.Minute), "Window -1m0s "},
			bad{of(1, 1500*time.Millisecond), "Window 1.5s "},
			bad{of(1, 3650*hybrid.Day+time.Second), "Window 87600h0m1s "},
			bad{rated, "Rate 5 "},
		)
	}
	for _, c := range list {
		_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: c.limit})
		if !errors.Is(err, hybrid.ErrInvalidLimit) || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), "hybrid: ") {
			t.Errorf("%+v: %v, does not say %q", c.limit, err, c.want)
		}
	}
}
