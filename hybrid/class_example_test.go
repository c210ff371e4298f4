package hybrid_test

import (
	"context"
	"fmt"

	"github.com/seed13b07268/ration/hybrid"
)

// classed is a limiter whose requests have two classes.
func classed() *hybrid.Limiter {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit: hybrid.PerMinute(10),
		Classes: []hybrid.Class{
			{Name: "critical", Floor: 0.5},
			{Name: "batch", Weight: 1},
		},
	})
	if err != nil {
		panic(err)
	}
	return limiter
}

func critical(limiter *hybrid.Limiter) *hybrid.Classed {
	critical, err := limiter.As("critical")
	if err != nil {
		panic(err)
	}
	return critical
}

// Half of the Rate is for critical requests, if there are so many. Batch has the rest.
func ExampleClass() {
	limiter := classed()
	defer limiter.Close(context.Background())

	fmt.Println(critical(limiter).Allow("model:large"))
	// Output: true
}

// Half of the quota is kept for critical requests until the window ends.
func ExampleClass_quota() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit:   hybrid.Quota(10, hybrid.Day),
		Classes: []hybrid.Class{{Name: "critical", Floor: 0.5}, {Name: "batch"}},
	})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())

	batch, err := limiter.As("batch")
	if err != nil {
		panic(err)
	}
	fmt.Println(batch.AllowN("reports", 5), batch.Allow("reports"))
	fmt.Println(critical(limiter).AllowN("reports", 5))
	// Output:
	// true false
	// true
}

// The classes of a program are known when it starts.
func ExampleLimiter_As() {
	limiter := classed()
	defer limiter.Close(context.Background())

	if _, err := limiter.As("urgent"); err != nil {
		fmt.Println(err)
	}
	critical, err := limiter.As("critical")
	fmt.Println(critical != nil, err)
	// Output:
	// hybrid: class "urgent" is none of Config.Classes
	// true <nil>
}

// Requests for several keys, and reservations, name the class of each key. One that names none has
// the last class.
func ExampleAsk_class() {
	limiter := classed()
	defer limiter.Close(context.Background())

	job := hybrid.Ask{Key: "model:large", N: 4, Class: "critical"}
	all, err := limiter.ReserveAll(context.Background(), job, hybrid.Ask{Key: "user:42", N: 1})
	fmt.Println(all.Allowed, err)
	fmt.Println(all.Settle(3, 1))

	_, err = limiter.TakeAll(context.Background(), hybrid.Ask{Key: "model:large", N: 1, Class: "urgent"})
	fmt.Println(err)
	// Output:
	// true <nil>
	// <nil>
	// hybrid: Ask[0].Class "urgent" is none of Config.Classes
}

func ExampleClassed() {
	limiter := classed()
	defer limiter.Close(context.Background())

	critical := critical(limiter)
	fmt.Println(critical.Allow("model:large"), critical.AllowN("model:large", 2))
	// Output: true true
}

func ExampleClassed_Allow() {
	limiter := classed()
	defer limiter.Close(context.Background())

	fmt.Println(critical(limiter).Allow("model:large"))
	// Output: true
}

func ExampleClassed_AllowN() {
	limiter := classed()
	defer limiter.Close(context.Background())

	fmt.Println(critical(limiter).AllowN("model:large", 11))
	// Output: false
}

func ExampleClassed_Take() {
	limiter := classed()
	defer limiter.Close(context.Background())

	d, err := critical(limiter).Take(context.Background(), "model:large", 4)
	fmt.Println(d.Allowed, d.Remaining, err)
	// Output: true 6 <nil>
}

func ExampleClassed_TakeUpTo() {
	limiter := classed()
	defer limiter.Close(context.Background())

	n, _, err := critical(limiter).TakeUpTo(context.Background(), "model:large", 10)
	fmt.Println(n, err)
	// Output: 10 <nil>
}

func ExampleClassed_Wait() {
	limiter := classed()
	defer limiter.Close(context.Background())

	err := critical(limiter).Wait(context.Background(), "model:large", 3)
	fmt.Println(err)
	// Output: <nil>
}

// A gateway looks when a request comes, and charges what it has cost when that is known.
func ExampleClassed_Peek() {
	limiter := classed()
	defer limiter.Close(context.Background())

	critical := critical(limiter)
	d, err := critical.Peek(context.Background(), "model:large")
	fmt.Println(d.Allowed, d.Remaining, err)
	fmt.Println(critical.Charge("model:large", 3))
	// Output:
	// true 10 <nil>
	// <nil>
}

func ExampleClassed_Charge() {
	limiter := classed()
	defer limiter.Close(context.Background())

	critical := critical(limiter)
	fmt.Println(critical.Charge("model:large", 12)) // ten are there
	fmt.Println(critical.Allow("model:large"))
	// Output:
	// <nil>
	// false
}

func ExampleClassed_Refund() {
	limiter := classed()
	defer limiter.Close(context.Background())

	critical := critical(limiter)
	fmt.Println(critical.Charge("model:large", 12), critical.Allow("model:large"))
	back, err := critical.Refund("model:large", 12)
	fmt.Println(back <= 12, err)
	// Output:
	// <nil> false
	// true <nil>
}
