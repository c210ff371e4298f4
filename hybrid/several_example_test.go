package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// tiers is the limiter of the examples below: three a minute for a user, ten for everybody.
func tiers() *hybrid.Limiter {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			if strings.HasPrefix(key, "user:") {
				return hybrid.PerMinute(3)
			}
			return hybrid.PerMinute(10)
		},
	})
	if err != nil {
		panic(err)
	}
	return limiter
}

func ExampleLimiter_TakeAll() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	for range 4 {
		d, err := limiter.TakeAll(context.Background(),
			hybrid.Ask{Key: "user:42", N: 1}, hybrid.Ask{Key: "everybody", N: 1})
		if err != nil {
			panic(err)
		}
		if d.Denied >= 0 {
			fmt.Println("denied by", d.Denied, d.Each[d.Denied].Limit)
		}
	}
	d, _ := limiter.Peek(context.Background(), "everybody")
	fmt.Println("left for everybody:", d.Remaining)
	// Output:
	// denied by 0 0.05/s burst 3
	// left for everybody: 7
}

func ExampleLimiter_AllowAll() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.AllowAll("user:42", "everybody"))
	// Output: true
}

func ExampleLimiter_WaitAll() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	user, everybody := hybrid.Ask{Key: "user:42", N: 3}, hybrid.Ask{Key: "everybody", N: 3}
	fmt.Println(limiter.WaitAll(ctx, user, everybody))
	err := limiter.WaitAll(ctx, user, everybody) // a minute is more than a second
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_TakeUpTo() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	for range 3 {
		n, d, err := limiter.TakeUpTo(context.Background(), "mails", 7) // of ten a minute
		fmt.Println("mails to send now:", n, d.Allowed, err)
	}
	// Output:
	// mails to send now: 7 true <nil>
	// mails to send now: 3 true <nil>
	// mails to send now: 0 false <nil>
}

// The free tier, and then credits.
func ExampleLimiter_TakeFirst() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	asks := []hybrid.Ask{{Key: "user:42", N: 2}, {Key: "credits:42", N: 2}}
	for range 7 {
		first, d, err := limiter.TakeFirst(context.Background(), asks...)
		switch {
		case err != nil:
			panic(err)
		case first < 0:
			fmt.Println("denied for", d.RetryAfter.Round(time.Second))
		default:
			fmt.Println("paid by", asks[first].Key)
		}
	}
	// Output:
	// paid by user:42
	// paid by credits:42
	// paid by credits:42
	// paid by credits:42
	// paid by credits:42
	// paid by credits:42
	// denied for 12s
}

// The free tier as far as it goes, and credits for the rest: both or none. Nothing is taken twice,
// as TakeAll takes nothing of a request that is denied.
func ExampleLimiter_TakeAll_split() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	const cost = 5
	for range 3 {
		tier, err := limiter.Peek(context.Background(), "user:42") // 3 a minute
		if err != nil {
			panic(err)
		}
		free := min(cost, int(tier.Remaining))
		d, err := limiter.TakeAll(context.Background(), // once more if another caller was first
			hybrid.Ask{Key: "user:42", N: free}, hybrid.Ask{Key: "credits:42", N: cost - free})
		fmt.Println(d.Allowed, "free:", free, "credits:", cost-free, err)
	}
	// Output:
	// true free: 3 credits: 2 <nil>
	// true free: 0 credits: 5 <nil>
	// false free: 0 credits: 5 <nil>
}

func ExampleLimiter_WaitReserve() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	r, err := limiter.WaitReserve(ctx, "model:large", 8)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Settle(5))
	_, err = limiter.WaitReserve(ctx, "model:large", 8) // half a minute is more than a second
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_WaitReserveAll() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	all, err := limiter.WaitReserveAll(context.Background(),
		hybrid.Ask{Key: "requests", N: 1}, hybrid.Ask{Key: "tokens", N: 10})
	if err != nil {
		panic(err)
	}
	fmt.Println(all.Settle(1, 4)) // a request, of 4 tokens
	// Output: <nil>
}

// Three of ten slots are kept for critical jobs: batch jobs take one of seven, too.
func ExampleLimiter_WaitReserveAll_part() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: func(key string) hybrid.Limit {
		if key == "jobs/batch" {
			return hybrid.Slots(7)
		}
		return hybrid.Slots(10)
	}})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	batch := []hybrid.Ask{{Key: "jobs", N: 1}, {Key: "jobs/batch", N: 1}}
	for range 7 {
		r, err := limiter.WaitReserveAll(context.Background(), batch...)
		if err != nil {
			panic(err)
		}
		defer r.Settle(1) // when the job is done
	}
	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err = limiter.WaitReserveAll(soon, batch...)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	critical, err := limiter.Reserve(context.Background(), "jobs", 3)
	fmt.Println(critical.Allowed, err)
	// Output:
	// true
	// true <nil>
}

func ExampleReservations_Settle() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	all, err := limiter.ReserveAll(context.Background(),
		hybrid.Ask{Key: "tenant", N: 8}, hybrid.Ask{Key: "model", N: 8})
	if err != nil {
		panic(err)
	}
	if !all.Allowed {
		return // all.Each says when
	}
	fmt.Println(all.Settle(5)) // tokens, of both limits
	// Output: <nil>
}

// A call of a language model: one of five at a time for a tenant, and tokens of a minute and of a
// day for tenant and model together.
func ExampleReservation_Context() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			switch {
			case strings.HasPrefix(key, "calls:"):
				return hybrid.Slots(5)
			case strings.HasPrefix(key, "day:"):
				return hybrid.Quota(1_000_000, hybrid.Day)
			}
			return hybrid.PerMinute(60_000)
		},
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	answer := func(ctx context.Context) (tokens int) { // which must end with ctx
		return 900
	}
	r, err := limiter.WaitReserveAll(context.Background(),
		hybrid.Ask{Key: "calls:acme", N: 1},
		hybrid.Ask{Key: "minute:acme/large", N: 1200},
		hybrid.Ask{Key: "day:acme/large", N: 1200})
	if err != nil {
		panic(err)
	}
	tokens := answer(r.Reserved[0].Context())
	fmt.Println(r.Settle(tokens), context.Cause(r.Reserved[0].Context()))
	// Output: <nil> slot has been released
}

// Slots have a Fence, and tokens have none.
func ExampleReservation_Fence() {
	limiter := slots()
	defer limiter.Close(context.Background())
	r, err := limiter.Reserve(context.Background(), "reports", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Fence() > 0, r.Cancel())
	// Output: true <nil>
}

func ExampleAsk() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	d, err := limiter.TakeAll(context.Background(),
		hybrid.Ask{Key: "user:42", N: 1}, hybrid.Ask{Key: "bytes", N: 8})
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

func ExampleDecisions() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	limiter.AllowN("user:42", 3)
	d, err := limiter.TakeAll(context.Background(),
		hybrid.Ask{Key: "everybody", N: 1}, hybrid.Ask{Key: "user:42", N: 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.Denied, d.Each[d.Denied].RetryAfter.Round(time.Second))
	// Output: false 1 20s
}

func ExampleLimiter_Reserve() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	r, err := limiter.Reserve(context.Background(), "model:large", 8) // an estimate
	if err != nil {
		panic(err)
	}
	if !r.Allowed {
		return // r.RetryAfter says when
	}
	fmt.Println(r.Settle(5)) // the answer is written
	d, _ := limiter.Peek(context.Background(), "model:large")
	fmt.Println("left:", d.Remaining)
	// Output:
	// <nil>
	// left: 5
}

func ExampleReservation() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	r, err := limiter.Reserve(context.Background(), "model:large", 11)
	fmt.Println(r == nil, errors.Is(err, hybrid.ErrExceedsBurst))
	// Output: true true
}

func ExampleReservation_Settle() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	r, err := limiter.Reserve(context.Background(), "model:large", 4)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Settle(6)) // more than the estimate is charged
	fmt.Println(errors.Is(r.Settle(6), hybrid.ErrSettled))
	// Output:
	// <nil>
	// true
}

func ExampleReservation_Cancel() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	r, err := limiter.Reserve(context.Background(), "model:large", 10)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Cancel(), limiter.AllowN("model:large", 10))
	// Output: <nil> true
}

func ExampleLimiter_ReserveAll() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	all, err := limiter.ReserveAll(context.Background(),
		hybrid.Ask{Key: "user:42", N: 1}, hybrid.Ask{Key: "model:large", N: 8})
	if err != nil {
		panic(err)
	}
	request, tokens := all.Reserved[0], all.Reserved[1]
	fmt.Println(request.Settle(1), tokens.Settle(3))
	// Output: <nil> <nil>
}

func ExampleReservations() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	all, err := limiter.ReserveAll(context.Background(),
		hybrid.Ask{Key: "user:42", N: 1}, hybrid.Ask{Key: "model:large", N: 8})
	if err != nil {
		panic(err)
	}
	fmt.Println(all.Allowed, len(all.Reserved))
	all, err = limiter.ReserveAll(context.Background(),
		hybrid.Ask{Key: "user:42", N: 1}, hybrid.Ask{Key: "model:large", N: 8})
	if err != nil {
		panic(err)
	}
	fmt.Println(all.Allowed, len(all.Reserved), all.Each[all.Denied].RetryAfter > 0)
	// Output:
	// true 2
	// false 0 true
}

func ExampleReservations_Cancel() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	all, err := limiter.ReserveAll(context.Background(),
		hybrid.Ask{Key: "user:42", N: 3}, hybrid.Ask{Key: "model:large", N: 8})
	if err != nil {
		panic(err)
	}
	all.Cancel()
	fmt.Println(limiter.AllowAll("user:42", "model:large"))
	// Output: true
}

func ExampleLimiter_Charge() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Charge("bytes", 12)) // ten are there
	d, err := limiter.Take(context.Background(), "bytes", 1)
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Allowed, d.RetryAfter.Round(time.Second)) // two are paid first
	// Output:
	// <nil>
	// false 18s
}

// A request has failed before it did any work, and its caller wants the tokens back.
func ExampleLimiter_Refund() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.Sliding(10, time.Minute),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	limiter.AllowN("user:42", 8)
	fmt.Println(limiter.Refund("user:42", 3))
	d, _ := limiter.Peek(context.Background(), "user:42")
	fmt.Println("left:", d.Remaining)
	// Output:
	// 3 <nil>
	// left: 5
}

func ExampleKey_Reserve() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	model := limiter.Key("model:large")
	r, err := model.Reserve(context.Background(), 8)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Settle(3), model.AllowN(7)) // five have come back
	// Output: <nil> true
}

func ExampleKey_Charge() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	bytes := limiter.Key("bytes")
	fmt.Println(bytes.Charge(12), bytes.Allow()) // ten are there
	// Output: <nil> false
}

func ExampleKey_Refund() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.Sliding(10, time.Minute),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	user := limiter.Key("user:42")
	user.AllowN(8)
	fmt.Println(user.Refund(3))
	// Output: 3 <nil>
}

func ExampleKey_TakeUpTo() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	n, d, err := limiter.Key("mails").TakeUpTo(context.Background(), 7)
	fmt.Println(n, d.Remaining, err)
	// Output: 7 3 <nil>
}

func ExampleKey_WaitReserve() {
	limiter := tiers()
	defer limiter.Close(context.Background())
	r, err := limiter.Key("model:large").WaitReserve(context.Background(), 8)
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Settle(5))
	// Output: <nil>
}
