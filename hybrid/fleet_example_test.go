package hybrid_test

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"strings"
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

// A record of each decision, for `go run ./sim whatif`. A program has a file for it, or one that
// rotates.
func ExampleRecording() {
	var record bytes.Buffer
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit:  hybrid.PerMinute(1),
		Record: hybrid.Recording{To: &record, Part: 1, Name: true},
	})
	if err != nil {
		panic(err)
	}
	limiter.Allow("tenant:42")
	limiter.Allow("tenant:42")
	limiter.Close(context.Background()) // and the last lines are written
	for line := range strings.Lines(record.String()) {
		_, line, _ = strings.Cut(line, "Z") // without the time
		fmt.Print(line)
	}
	// Output:
	// ","key":"tenant:42","n":1,"cost":1,"verdict":"admitted"}
	// ","key":"tenant:42","n":1,"cost":1,"verdict":"denied"}
}
