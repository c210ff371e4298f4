package redisrules_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/rules/redisrules"
)

func Example() {
	server, err := miniredis.Run() // in production, yours
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()

	// An editor, such as a page or a job of the deployment.
	book, err := redisrules.New(rdb, "production")
	if err != nil {
		log.Fatal(err)
	}
	text, err := rules.SetRule([]byte("domain: shop"), "user",
		[]byte("rate_limit: {unit: minute, requests_per_unit: 2}"))
	if err != nil {
		log.Fatal(err)
	}
	_, _, err = rules.Save(ctx, book, rules.Change{
		Domain: "shop", Text: text, Author: "ann@example.org", Reason: "launch",
	})
	if err != nil {
		log.Fatal(err)
	}

	// Each process that limits. In production its store is remote.New(...), also in this Redis.
	limiter, err := rules.New(hybrid.NewMemory(), book, rules.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(ctx)
	for range 3 {
		result, err := limiter.Take(ctx, "shop", rules.Of("user", "42"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(result.Allowed)
	}
	// Output:
	// true
	// true
	// false
}
