package hybrid_test

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

func ExamplePer() {
	fmt.Println(hybrid.Per(100, 200*time.Millisecond))
	// Output: 500/s burst 100
}

func ExamplePerSecond() {
	fmt.Println(hybrid.PerSecond(1000).WithBurst(200))
	// Output: 1000/s burst 200
}

func ExamplePerMinute() {
	fmt.Println(hybrid.PerMinute(30))
	// Output: 0.5/s burst 30
}

func ExamplePerHour() {
	fmt.Println(hybrid.PerHour(3600))
	// Output: 1/s burst 3600
}

func ExampleLimit() {
	fmt.Println(hybrid.Limit{Rate: 2.5, Burst: 10})
	// Output: 2.5/s burst 10
}

// Some tenants have a plan, some pay for no limit, and some are blocked.
func ExampleLimit_unlimited() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			switch key {
			case "tenant:1":
				return hybrid.Unlimited
			case "tenant:2":
				return hybrid.Blocked
			}
			return hybrid.PerMinute(3)
		},
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	for _, tenant := range []string{"tenant:1", "tenant:2", "tenant:3"} {
		d, err := limiter.Take(context.Background(), tenant, 2)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter, d.Limit, err)
	}
	// Output:
	// true 999999999999999 0s unlimited <nil>
	// false 0 1m0s blocked <nil>
	// true 1 0s 0.05/s burst 3 <nil>
}

func ExampleLimit_WithBurst() {
	fmt.Println(hybrid.PerSecond(1000).WithBurst(200))
	// Output: 1000/s burst 200
}

func ExampleLimit_Validate() {
	fmt.Println(hybrid.Limit{Rate: 1}.Validate())
	// Output: lease: invalid limit: Burst 0 is not from 1 to 4294967296 tokens
}

func ExampleLimit_String() {
	fmt.Println(hybrid.Blocked.String())
	// Output: blocked
}

func ExampleErrInvalidLimit() {
	fmt.Println(hybrid.PerSecond(0).Validate())
	// Output: lease: invalid limit: Rate 0 is not above 0 and at most 4294967296 tokens/s
}

func ExampleErrExceedsBurst() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Wait(context.Background(), "tenant:42", 11))
	// Output: hybrid: take 11 of "tenant:42", limit 0.166667/s burst 10: request exceeds the limit's burst
}

// At most 10,000 in each day of the calendar, which begins at midnight in Berlin, by winter
// time.
func ExampleQuota() {
	fmt.Println(hybrid.Quota(10_000, hybrid.Day).In(time.Hour))
	fmt.Println(hybrid.Quota(300_000, hybrid.Month))

	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.Quota(3, hybrid.Month),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	for range 4 {
		d, err := limiter.Take(context.Background(), "tenant:42", 1)
		fmt.Println(d.Allowed, d.Remaining, err)
	}
	// Output:
	// 10000/day UTC+01:00
	// 300000/month
	// true 2 <nil>
	// true 1 <nil>
	// true 0 <nil>
	// false 0 <nil>
}

func ExampleSlots() {
	limit := hybrid.Slots(500)
	fmt.Println(limit, limit.Validate(), hybrid.Slots(0).Validate())
	// Output: 500 slots <nil> lease: invalid limit: Burst 0 is not from 1 to 4294967296 tokens
}

func ExampleErrKind() {
	limiter := slots()
	defer limiter.Close(context.Background())
	_, err := limiter.Take(context.Background(), "reports", 1)
	fmt.Println(err)
	// Output: hybrid: take 1 of "reports", limit 2 slots, is for Acquire and Reserve: limit is of another kind
}

// At most 3 in any minute, wherever it begins.
func ExampleSliding() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.Sliding(3, time.Minute),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	for range 4 {
		d, err := limiter.Take(context.Background(), "tenant:42", 1)
		fmt.Println(d.Limit, d.Allowed, d.Remaining, err)
	}
	// Output:
	// 3 in any minute true 2 <nil>
	// 3 in any minute true 1 <nil>
	// 3 in any minute true 0 <nil>
	// 3 in any minute false 0 <nil>
}

func ExampleLimit_In() {
	limit := hybrid.Quota(100, hybrid.Week).In(5*time.Hour + 30*time.Minute)
	fmt.Println(limit, limit.Validate())
	// Output: 100/week UTC+05:30 <nil>
}

func ExampleKind() {
	for _, limit := range []hybrid.Limit{
		hybrid.PerSecond(5), hybrid.Quota(5, hybrid.Hour), hybrid.Slots(5),
		hybrid.Sliding(5, hybrid.Hour),
	} {
		fmt.Println(limit.Kind == hybrid.KindQuota, limit.Kind)
	}
	// Output:
	// false token bucket
	// true quota
	// false slots
	// false sliding window
}

// The five numbers that redis-cell's CL.THROTTLE returns.
func ExampleDecision_throttle() {
	limiter := example()
	defer limiter.Close(context.Background())
	throttle := func(n int) [5]int64 {
		d, err := limiter.Take(context.Background(), "tenant:42", n)
		if err != nil {
			panic(err)
		}
		seconds := func(t time.Duration) int64 { return int64(math.Ceil(t.Seconds())) }
		limited, retry := int64(0), int64(-1)
		if !d.Allowed {
			limited, retry = 1, seconds(d.RetryAfter)
		}
		return [5]int64{limited, d.Limit.Burst, d.Remaining, retry, seconds(d.ResetAfter)}
	}
	fmt.Println(throttle(10))
	fmt.Println(throttle(5))
	// Output:
	// [0 10 0 -1 60]
	// [1 10 0 30 60]
}
