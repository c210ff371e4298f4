package rules_test

import (
	"context"
	"fmt"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

// A program whose rules are written while it runs begins without any.
func ExampleConfig_empty() {
	_, err := rules.New(hybrid.NewMemory(), newBoard(), rules.Config{})
	fmt.Println(err)
	limiter, err := rules.New(hybrid.NewMemory(), newBoard(), rules.Config{Empty: true})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	result, err := limiter.Take(context.Background(), "shop", rules.Of("user", "ann"))
	fmt.Println(result.Allowed, result.Each[0].State, err)
	// Output:
	// rules: the source has no documents
	// true not configured <nil>
}
