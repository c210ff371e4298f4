package budget_test

import (
	"context"
	"fmt"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/budget"
)

func Example() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(100_000)})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	estimates, err := budget.New(budget.Config{Quantile: 0.9})
	if err != nil {
		panic(err)
	}
	for range 20 {
		const prompt, maxTokens = 200, 4000 // known when the request comes
		estimate := estimates.Estimate("model:large", prompt, maxTokens)
		r, err := limiter.WaitReserve(context.Background(), "model:large", estimate)
		if err != nil {
			panic(err)
		}
		tokens := prompt + 350 // the answer is there
		if err := r.Settle(tokens); err != nil {
			panic(err)
		}
		estimates.Settle("model:large", prompt, tokens)
	}
	fmt.Println("of a prompt of 200:", estimates.Estimate("model:large", 200, 4000))
	fmt.Println("of a prompt of 900:", estimates.Estimate("model:large", 900, 4000))
	fmt.Println("with a lower bound:", estimates.Estimate("model:large", 200, 300))
	// Output:
	// of a prompt of 200: 550
	// of a prompt of 900: 1250
	// with a lower bound: 300
}

func ExampleBudget() {
	estimates, err := budget.New(budget.Config{}) // one for a program: it is safe for concurrent use
	fmt.Println(estimates.Estimate("a new model", 30, 0), err)
	// Output: 30 <nil>
}

func ExampleNew() {
	_, err := budget.New(budget.Config{Quantile: 90})
	fmt.Println(err)
	// Output: budget: Config.Quantile 90 is not from 0.5 to 0.99
}

func ExampleConfig() {
	estimates, err := budget.New(budget.Config{Quantile: 0.5, MaxKeys: 20})
	if err != nil {
		panic(err)
	}
	for cost := range 21 {
		estimates.Settle("route", 0, 100*cost)
	}
	fmt.Println("half of the calls cost at most", estimates.Estimate("route", 0, 0))
	// Output: half of the calls cost at most 1000
}

func ExampleBudget_Estimate() {
	estimates, err := budget.New(budget.Config{})
	if err != nil {
		panic(err)
	}
	fmt.Println("nothing is known:", estimates.Estimate("model", 200, 0))
	fmt.Println("but max_tokens:", estimates.Estimate("model", 200, 700))
	// Output:
	// nothing is known: 200
	// but max_tokens: 700
}

func ExampleBudget_Settle() {
	estimates, err := budget.New(budget.Config{})
	if err != nil {
		panic(err)
	}
	for range 8 {
		estimates.Settle("model", 200, 260) // 60 more than the guess
	}
	fmt.Println(estimates.Estimate("model", 500, 0))
	// Output: 560
}
