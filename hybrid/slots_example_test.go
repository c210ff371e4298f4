package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// slots is a Limiter of keys with two slots each.
func slots() *hybrid.Limiter {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(2)})
	if err != nil {
		panic(err)
	}
	return limiter
}

func ExampleLimiter_Acquire() {
	limiter := slots()
	defer limiter.Close(context.Background())
	for job := range 2 {
		slot, err := limiter.Acquire(context.Background(), "reports", 1)
		if err != nil {
			panic(err)
		}
		defer slot.Release()
		fmt.Println("job", job, slot.Context().Err())
	}
	soon, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := limiter.Acquire(soon, "reports", 1)
	fmt.Println(err)
	// Output:
	// job 0 <nil>
	// job 1 <nil>
	// hybrid: acquire 1 of "reports": context deadline exceeded
}

func ExampleKey_Acquire() {
	limiter := slots()
	defer limiter.Close(context.Background())
	_, err := limiter.Key("reports").Acquire(context.Background(), 3)
	fmt.Println(err)
	// Output: hybrid: acquire 3 of "reports": limit 2 slots: request exceeds the limit's burst
}

// A job does its work under the Slot's Context, which ends when the slot is lost.
func ExampleSlot() {
	limiter := slots()
	defer limiter.Close(context.Background())
	work := func(context.Context) error { return nil }

	slot, err := limiter.Acquire(context.Background(), "reports", 1)
	if err != nil {
		panic(err)
	}
	err = work(slot.Context())
	fmt.Println(err, slot.Release())
	// Output: <nil> <nil>
}

func ExampleSlot_Context() {
	limiter := slots()
	slot, _ := limiter.Acquire(context.Background(), "reports", 1)
	limiter.Close(context.Background())
	fmt.Println(slot.Context().Err(), context.Cause(slot.Context()))
	// Output: context canceled hybrid: limiter closed
}

// A resource of one job at a time refuses the one whose slot another one has had since.
func ExampleSlot_Fence() {
	limiter := slots()
	newest := uint64(0)
	write := func(fence uint64) bool {
		newest = max(newest, fence)
		return fence == newest
	}
	first, _ := limiter.Acquire(context.Background(), "reports", 2)
	limiter.Reset(context.Background(), "reports") // as if its lease had ended
	second, _ := limiter.Acquire(context.Background(), "reports", 2)
	fmt.Println(write(first.Fence()), write(second.Fence()), write(first.Fence()))
	// Output: true true false
}

func ExampleSlot_Release() {
	limiter := slots()
	defer limiter.Close(context.Background())
	slot, _ := limiter.Acquire(context.Background(), "reports", 1)
	fmt.Println(slot.Release())
	fmt.Println(slot.Release())
	// Output:
	// <nil>
	// hybrid: release "reports": slot has been released
}

func ExampleErrSlotLost() {
	limiter := slots()
	slot, _ := limiter.Acquire(context.Background(), "reports", 1)
	limiter.Reset(context.Background(), "reports")
	fmt.Println(errors.Is(slot.Release(), hybrid.ErrSlotLost))
	// Output: true
}

func ExampleErrReleased() {
	limiter := slots()
	slot, _ := limiter.Acquire(context.Background(), "reports", 1)
	fmt.Println(slot.Release(), errors.Is(slot.Release(), hybrid.ErrReleased))
	// Output: <nil> true
}
