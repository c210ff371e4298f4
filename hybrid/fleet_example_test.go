package hybrid_test

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/seed13b07268/ration/hybrid"
)

// What a process exchanges for on its own account is no key of a user.
func ExampleFleetKey() {
	fmt.Printf("%q\n", hybrid.FleetKey)
	// Output: "\x00fleet"
}

// Two processes in one program, as a test has them. Without a Process of their own, both
// Limiters would count as one.
func ExampleProcess() {
	store := hybrid.NewMemory()
	for range 2 {
		limiter, err := hybrid.New(store, hybrid.Config{
			Limit: hybrid.PerMinute(1), Process: hybrid.NewProcess(),
		})
		if err != nil {
			panic(err)
		}
		defer limiter.Close(context.Background())
		fmt.Println(limiter.Allow("tenant:42"))
	}
	// Output:
	// true
	// false
}

func ExampleNewProcess() {
	config := hybrid.Config{Limit: hybrid.PerMinute(1), Process: hybrid.NewProcess()}
	limiter, err := hybrid.New(hybrid.NewMemory(), config)
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	fmt.Println(limiter.Allow("tenant:42"))
	// Output: true
}

// fleet shows what two processes have published.
func fleet() {
	store := hybrid.NewMemory()
	for _, name := range []string{"host-1", "host-2"} {
		limiter, err := hybrid.New(store, hybrid.Config{
			Limit: hybrid.PerMinute(10), Publish: time.Second, PublishName: name,
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		defer limiter.Close(context.Background())
	}
	for {
		all, err := hybrid.Fleet(context.Background(), store)
		if err != nil {
			fmt.Println(err)
			return
		}
		if len(all) == 2 {
			fmt.Println(all[0].Name, all[0].Stats.Away, all[1].Name, all[1].Stats.Away)
			return
		}
		runtime.Gosched() // until both have told it
	}
}

func ExampleFleet() {
	fleet()
	// Output: host-1 false host-2 false
}

func ExamplePublished() {
	fleet()
	// Output: host-1 false host-2 false
}

func ExamplePublisher() {
	var store hybrid.Publisher = hybrid.NewMemory()
	all, err := hybrid.Fleet(context.Background(), store)
	fmt.Println(all, err)
	// Output: [] <nil>
}

func ExampleMemory_Publish() {
	store := hybrid.NewMemory()
	text := []byte(`{"Name": "host-1"}`)
	err := store.Publish(context.Background(), "some id", text, 15*time.Second)
	all, _ := hybrid.Fleet(context.Background(), store)
	fmt.Println(all[0].ID, all[0].Name, err)
	// Output: some id host-1 <nil>
}

func ExampleMemory_Published() {
	store := hybrid.NewMemory()
	err := store.Published(context.Background(), func(id string, age time.Duration, _ []byte) {
		fmt.Println(id, age)
	})
	fmt.Println(err)
	// Output: <nil>
}
