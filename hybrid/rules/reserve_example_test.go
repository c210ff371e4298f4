package rules_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// left is what remains of a descriptor.
func left(limiter *rules.Limiter, d rules.Descriptor) int64 {
	d.Hits = 1
	result, err := limiter.Peek(context.Background(), "shop", d)
	if err != nil {
		panic(err)
	}
	return result.Each[0].Decision.Remaining
}

// A job reserves what it may cost, and tells what it has cost.
func ExampleLimiter_Reserve() {
	limiter := example()
	defer limiter.Close(context.Background())
	ann := rules.Of("user", "ann")
	ann.Hits = 3 // an estimate
	job, err := limiter.Reserve(context.Background(), "shop", ann)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Allowed, left(limiter, ann))
	if err := job.Settle(1); err != nil {
		panic(err)
	}
	fmt.Println(left(limiter, ann))
	// Output:
	// true 0
	// 2
}

// A denial is no error, and holds nothing.
func ExampleReservation() {
	limiter := example()
	defer limiter.Close(context.Background())
	search := rules.Of("path", "/search/books")
	search.Hits = 2
	job, err := limiter.Reserve(context.Background(), "shop", rules.Of("user", "ann"), search)
	fmt.Println(job.Allowed, job.Denied, err)
	fmt.Println(left(limiter, rules.Of("user", "ann")), left(limiter, search))
	// Output:
	// false 1 <nil>
	// 3 1
}

func ExampleReservation_Settle() {
	limiter := example()
	defer limiter.Close(context.Background())
	ann, search := rules.Of("user", "ann"), rules.Of("path", "/search/books")
	ann.Hits = 2
	job, err := limiter.Reserve(context.Background(), "shop", ann, search)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Settle(3, 0)) // one more than reserved of ann, nothing of search
	fmt.Println(left(limiter, ann), left(limiter, search))
	fmt.Println(errors.Is(job.Settle(1), hybrid.ErrSettled))
	// Output:
	// <nil>
	// 0 1
	// true
}

func ExampleReservation_Cancel() {
	limiter := example()
	defer limiter.Close(context.Background())
	ann := rules.Of("user", "ann")
	ann.Hits = 2
	job, err := limiter.Reserve(context.Background(), "shop", ann)
	if err != nil {
		panic(err)
	}
	fmt.Println(job.Cancel(), left(limiter, ann))
	// Output: <nil> 3
}
