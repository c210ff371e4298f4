package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/lease"
)

// A limiter without a server: one process, tests, examples. With Redis the
// store is remote.New(client).
func Example() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.PerMinute(3),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())

	for range 4 {
		fmt.Println(limiter.Allow("tenant:42"))
	}
	// Output:
	// true
	// true
	// true
	// false
}

// example is the limiter of the examples below: ten tokens a minute.
func example() *hybrid.Limiter {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(10)})
	if err != nil {
		panic(err)
	}
	return limiter
}

func ExampleNew() {
	_, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(-1)})
	fmt.Println(errors.Is(err, hybrid.ErrInvalidLimit))
	// Output: true
}

func ExampleLimiter() {
	limiter := example()
	defer limiter.Close(context.Background())
	// In an HTTP handler:
	//
	//	if !limiter.Allow(tenant(r)) {
	//		http.Error(w, "slow down", http.StatusTooManyRequests)
	//		return
	//	}
	fmt.Println(limiter.Allow("tenant:42"))
	// Output: true
}

func ExampleLimiter_Allow() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Allow("tenant:42"))
	// Output: true
}

func ExampleLimiter_AllowN() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.AllowN("tenant:42", 8), limiter.AllowN("tenant:42", 8))
	// Output: true false
}

func ExampleLimiter_Take() {
	limiter := example()
	defer limiter.Close(context.Background())
	ctx := context.Background()

	d, err := limiter.Take(ctx, "tenant:42", 10)
	fmt.Println(d.Allowed, err)
	d, err = limiter.Take(ctx, "tenant:42", 5)
	fmt.Println(d.Allowed, d.RetryAfter.Round(10*time.Second), err)
	_, err = limiter.Take(ctx, "tenant:42", 11)
	fmt.Println(errors.Is(err, hybrid.ErrExceedsBurst))
	// Output:
	// true <nil>
	// false 30s <nil>
	// true
}

// An event loop must not wait for the network.
func ExampleLimiter_Try() {
	limiter := example()
	defer limiter.Close(context.Background())
	d, err := limiter.Try("tenant:42", 1)
	for errors.Is(err, hybrid.ErrPending) { // the loop would go on with something else
		runtime.Gosched()
		d, err = limiter.Try("tenant:42", 1)
	}
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

func ExampleKey_Try() {
	limiter := example()
	defer limiter.Close(context.Background())
	_, err := limiter.Key("tenant:42").Try(11)
	fmt.Println(errors.Is(err, hybrid.ErrExceedsBurst))
	// Output: true
}

func ExampleLimiter_Peek() {
	limiter := example()
	defer limiter.Close(context.Background())
	limiter.AllowN("tenant:42", 3)
	for range 2 {
		d, err := limiter.Peek(context.Background(), "tenant:42")
		fmt.Println(d.Remaining, "left of", d.Limit.Burst, err)
	}
	// Output:
	// 7 left of 10 <nil>
	// 7 left of 10 <nil>
}

func ExampleKey_Peek() {
	limiter := example()
	defer limiter.Close(context.Background())
	d, err := limiter.Key("tenant:42").Peek(context.Background())
	fmt.Println(d.Remaining, err)
	// Output: 10 <nil>
}

// Support lets a customer in again.
func ExampleLimiter_Reset() {
	limiter := example()
	defer limiter.Close(context.Background())
	limiter.AllowN("tenant:42", 10)
	fmt.Println(limiter.Allow("tenant:42"))
	if err := limiter.Reset(context.Background(), "tenant:42"); err != nil {
		panic(err)
	}
	fmt.Println(limiter.Allow("tenant:42"))
	// Output:
	// false
	// true
}

func ExampleKey_Reset() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Key("tenant:42").Reset(context.Background()))
	// Output: <nil>
}

func ExampleMemory_Reset() {
	fmt.Println(hybrid.NewMemory().Reset(context.Background(), "tenant:42"))
	// Output: <nil>
}

func ExampleLimiter_Wait() {
	limiter := example()
	defer limiter.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()

	fmt.Println(limiter.Wait(ctx, "tenant:42", 10))
	// The next tokens come in six seconds each: it says so at once.
	fmt.Println(errors.Is(limiter.Wait(ctx, "tenant:42", 1), context.DeadlineExceeded))
	// Output:
	// <nil>
	// true
}

func ExampleLimiter_Key() {
	limiter := example()
	defer limiter.Close(context.Background())
	key := limiter.Key("tenant:42") // once, for a key that is used often
	fmt.Println(key.Allow())
	// Output: true
}

func ExampleLimiter_Stats() {
	limiter := example()
	defer limiter.Close(context.Background())
	limiter.AllowN("tenant:42", 10)
	limiter.AllowN("tenant:42", 10)
	stats := limiter.Stats()
	fmt.Println(stats.Keys, "key,", stats.Ledger.Admitted+stats.Lease.Admitted, "admitted")
	// Output: 1 key, 1 admitted
}

func ExampleLimiter_Close() {
	limiter := example()
	fmt.Println(limiter.Close(context.Background()))
	_, err := limiter.Take(context.Background(), "tenant:42", 1)
	fmt.Println(errors.Is(err, hybrid.ErrClosed))
	// Output:
	// <nil>
	// true
}

func ExampleKey() {
	limiter := example()
	defer limiter.Close(context.Background())
	ctx := context.Background()
	key := limiter.Key("tenant:42")

	d, err := key.Take(ctx, 2)
	fmt.Println(key.Allow(), key.AllowN(3), d.Allowed, err, key.Wait(ctx, 1))
	// Output: true true true <nil> <nil>
}

func ExampleConfig() {
	plans := map[string]hybrid.Limit{
		"free":       hybrid.PerMinute(60),
		"enterprise": hybrid.PerSecond(500).WithBurst(2000),
	}
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit { return plans[key] },
		Policy:   hybrid.Policy{Batch: 200, MaxRefresh: time.Second}, // see lease.Policy
		Outage:   hybrid.Deny,
		Timeout:  100 * time.Millisecond,
		MaxKeys:  10_000,
		Logger:   zap.NewNop(),
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())

	fmt.Println(limiter.AllowN("free", 100), limiter.AllowN("enterprise", 100))
	// Output: false true
}

func ExampleDecision() {
	limiter := example()
	defer limiter.Close(context.Background())
	d, _ := limiter.Take(context.Background(), "tenant:42", 1)
	fmt.Println("allowed:", d.Allowed)
	fmt.Println("limit:", d.Limit)
	fmt.Println("remaining:", d.Remaining)
	fmt.Println("full in", d.ResetAfter.Round(time.Second))
	fmt.Println("decided by the", d.Source)
	// Output:
	// allowed: true
	// limit: 0.166667/s burst 10
	// remaining: 9
	// full in 6s
	// decided by the ledger
}

func ExamplePolicy() {
	p := hybrid.Policy{Fairness: lease.MaxMin}.Resolved()
	fmt.Println(p.Fairness, p.Mode, p.Batch, p.MaxRefresh)
	// Output: max-min auto 100 250ms
}

func ExampleMemory() {
	// Two limiters on one Memory are two processes on one Redis.
	store := hybrid.NewMemory()
	config := hybrid.Config{Limit: hybrid.PerMinute(2)}
	a, _ := hybrid.New(store, config)
	b, _ := hybrid.New(store, config)
	defer a.Close(context.Background())
	defer b.Close(context.Background())
	fmt.Println(a.Allow("k"), b.Allow("k"), a.Allow("k"), b.Allow("k"))
	// Output: true true false false
}

// broken is a store that never answers.
type broken struct{}

func (broken) Exchange(_ context.Context, calls []*lease.Call) {
	for _, c := range calls {
		c.Err = errors.New("connection refused")
	}
}

func ExampleStore() {
	limiter, _ := hybrid.New(broken{}, hybrid.Config{Limit: hybrid.PerSecond(1)})
	defer limiter.Close(context.Background())
	_, err := limiter.Take(context.Background(), "tenant:42", 1)
	fmt.Println(errors.Is(err, hybrid.ErrUnavailable))
	// Output: true
}

func ExampleOutage() {
	limiter, _ := hybrid.New(broken{}, hybrid.Config{Limit: hybrid.PerSecond(1), Outage: hybrid.Allow})
	defer limiter.Close(context.Background())
	d, err := limiter.Take(context.Background(), "tenant:42", 1)
	fmt.Println(d.Allowed, d.Source, err)
	// Output: true outage <nil>
}

func ExampleSource() {
	fmt.Println(hybrid.Lease, hybrid.Ledger, hybrid.OutagePolicy)
	// Output: lease ledger outage
}

func ExampleStats() {
	limiter := example()
	defer limiter.Close(context.Background())
	limiter.Allow("tenant:42")
	fmt.Println(limiter.Stats().Away, limiter.Stats().Failed)
	// Output: false 0
}

func ExampleRoundTrips() {
	limiter := example() // in memory: at once
	limiter.Allow("tenant:42")
	limiter.Close(context.Background()) // has counted all: else a caller may be ahead of the count
	trips := limiter.Stats().RoundTrips
	fmt.Println(trips.Count, trips.AtMost[1638400*time.Microsecond])
	// Output: 1 1
}

func ExampleVerdicts() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 12 {
		limiter.Allow("tenant:42")
	}
	s := limiter.Stats()
	fmt.Println(s.Lease.Admitted+s.Ledger.Admitted, s.Lease.Denied+s.Ledger.Denied)
	// Output: 10 2
}

func ExampleKey_Allow() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Key("tenant:42").Allow())
	// Output: true
}

func ExampleKey_AllowN() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Key("tenant:42").AllowN(11))
	// Output: false
}

func ExampleKey_Take() {
	limiter := example()
	defer limiter.Close(context.Background())
	d, err := limiter.Key("tenant:42").Take(context.Background(), 3)
	fmt.Println(d.Allowed, err)
	// Output: true <nil>
}

func ExampleKey_Wait() {
	limiter := example()
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Key("tenant:42").Wait(context.Background(), 3))
	// Output: <nil>
}

func ExampleMemory_Exchange() {
	call := &lease.Call{Key: "tenant:42", Request: lease.Request{
		Holder: "me", Seq: 1, Take: 3, Min: 1, Limit: lease.Limit(hybrid.PerMinute(2)),
	}}
	hybrid.NewMemory().Exchange(context.Background(), []*lease.Call{call})
	fmt.Println(call.Reply.Taken, "of 3 taken")
	// Output: 2 of 3 taken
}

func ExampleMemory_Inspect() {
	store := hybrid.NewMemory()
	limiter, err := hybrid.New(store, hybrid.Config{Limit: hybrid.PerMinute(60)})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	limiter.Allow("tenant:42")
	view, err := store.Inspect(context.Background(), "tenant:42")
	fmt.Println(view.Limit.Burst, len(view.Holders), err)
	// Output: 60 1 <nil>
}

func ExampleSource_String() {
	fmt.Println(hybrid.OutagePolicy.String())
	// Output: outage
}

func ExampleErrClosed() {
	limiter := example()
	limiter.Close(context.Background())
	fmt.Println(errors.Is(limiter.Wait(context.Background(), "tenant:42", 1), hybrid.ErrClosed))
	// Output: true
}

func ExampleErrUnavailable() {
	limiter, _ := hybrid.New(broken{}, hybrid.Config{Limit: hybrid.PerSecond(1)})
	defer limiter.Close(context.Background())
	_, err := limiter.Take(context.Background(), "tenant:42", 1)
	fmt.Println(err)
	// Output: hybrid: take 1 of "tenant:42": store did not answer
}

func ExampleDeniedKey() {
	limiter := example()
	defer limiter.Close(context.Background())
	for range 12 {
		limiter.Allow("tenant:42")
	}
	for _, k := range limiter.Stats().MostDenied {
		fmt.Println(k.Key, k.Denied, k.Error)
	}
	// Output: tenant:42 2 0
}
