package redisholds_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/holds/redisholds"
)

// reserve writes a hold into a Redis within the program.
func reserve() {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	defer server.Close()
	var client redisholds.Client = redis.NewClient(&redis.Options{Addr: server.Addr()})
	store := redisholds.New(client, "ration:")
	r, err := store.Do(context.Background(), holds.Batch{Home: "home", Calls: []holds.Call{{
		Verb: holds.Reserve, Name: "job-1", Life: time.Minute, Until: time.Now().Add(time.Minute),
		Estimate: []int{7},
	}}})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Answers[0].Verdict)
}

func Example() {
	reserve()
	// Output: done
}

func ExampleClient() {
	reserve()
	// Output: done
}

func ExampleStore() {
	reserve()
	// Output: done
}

func ExampleNew() {
	reserve()
	// Output: done
}

func ExampleStore_Do() {
	reserve()
	// Output: done
}
