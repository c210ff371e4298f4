package holds_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
)

// open is a replica's Keeper.
func open(c holds.Config) *holds.Keeper {
	k, err := holds.New(c)
	if err != nil {
		panic(err)
	}
	return k
}

// A reserving reserves tokens of one key, as Take of an Order does.
func reserving(l *hybrid.Limiter, n int) func(context.Context) (holds.Tokens, string, error) {
	return func(ctx context.Context) (holds.Tokens, string, error) {
		r, err := l.ReserveAll(ctx, hybrid.Ask{Key: "model:large", N: n})
		if err != nil || !r.Allowed {
			return nil, "denied", err
		}
		return r, "reserved", nil
	}
}

// Two replicas of a service share a Store. One reserves 700 tokens, and the other settles what was
// used. The rest comes back at the first.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerHour(1000)})
	if err != nil {
		panic(err)
	}
	defer limiter.Close(context.Background())
	config := holds.Config{
		Store:  holds.NewMemory(), // redisholds.New, where replicas are processes
		Charge: func(key string, above []int) error { return limiter.Charge(key, above[0]) },
	}
	first, second := open(config), open(config)
	go first.Run(ctx)
	go second.Run(ctx)

	home := make(chan []int, 1)
	hold, err := first.Reserve(ctx, holds.Order{
		Owner: "ann", ID: "job-1", Content: "model:large", Life: time.Minute, Spent: true,
		Estimate: []int{700}, Take: reserving(limiter, 700),
		Learn: func(used []int) { home <- used },
	})
	fmt.Println(hold.ID, hold.Answer, err)
	fmt.Println(second.Settle(ctx, "ann", "job-1", []int{120}))
	fmt.Println("the first hears of", <-home)
	d, err := limiter.Peek(ctx, "model:large")
	fmt.Println(d.Remaining, err)
	// Output:
	// job-1 reserved <nil>
	// <nil>
	// the first hears of [120]
	// 880 <nil>
}

// free has tokens of no limit.
type free struct{}

func (free) Settle(used ...int) error {
	fmt.Println("used", used)
	return nil
}

func (free) charge(string, []int) error { return nil }

// of is an Order of seven tokens of no limit.
func of(id string) holds.Order {
	return holds.Order{
		Owner: "ann", ID: id, Content: "model:large", Life: time.Minute, Estimate: []int{7},
		Take: func(context.Context) (holds.Tokens, string, error) { return free{}, "reserved", nil },
	}
}

// alone is a replica with a Store of its own.
func alone() *holds.Keeper {
	return open(holds.Config{Store: holds.NewMemory(), Charge: free{}.charge})
}

var ctx = context.Background()

func ExampleNew() {
	keeper, err := holds.New(holds.Config{
		Store:  holds.NewMemory(),
		Charge: func(string, []int) error { return nil },
	})
	fmt.Println(keeper.Open(), err)
	_, err = holds.New(holds.Config{Store: holds.NewMemory()})
	fmt.Println(err)
	// Output:
	// 0 <nil>
	// holds: Config.Charge is nil
}

func ExampleKeeper() {
	keeper := alone()
	_, err := keeper.Reserve(ctx, of("job-1"))
	fmt.Println(err, keeper.Cancel(ctx, "ann", "job-1"))
	// Output:
	// used [0]
	// <nil> <nil>
}

// A repeat has the answer of the first, and reserves nothing.
func ExampleKeeper_Reserve() {
	keeper := alone()
	first, err := keeper.Reserve(ctx, of("job-1"))
	again, failed := keeper.Reserve(ctx, of("job-1"))
	fmt.Println(first == again, err, failed)
	// Output: true <nil> <nil>
}

func ExampleKeeper_Settle() {
	keeper := alone()
	_, _ = keeper.Reserve(ctx, of("job-1"))
	fmt.Println(keeper.Settle(ctx, "ann", "job-1", []int{5}))
	fmt.Println(keeper.Settle(ctx, "ann", "job-1", []int{5})) // a repeat
	fmt.Println(errors.Is(keeper.Settle(ctx, "ann", "job-1", []int{6}), holds.ErrDiffers))
	// Output:
	// used [5]
	// <nil>
	// <nil>
	// true
}

// Only its owner finds a hold.
func ExampleKeeper_Cancel() {
	keeper := alone()
	_, _ = keeper.Reserve(ctx, of("job-1"))
	fmt.Println(errors.Is(keeper.Cancel(ctx, "bob", "job-1"), holds.ErrAbsent))
	// Output: true
}

func ExampleKeeper_Extend() {
	keeper := alone()
	h, _ := keeper.Reserve(ctx, of("job-1"))
	longer, err := keeper.Extend(ctx, "ann", h.ID, time.Hour)
	fmt.Println(longer.Ends.Sub(h.Ends) > 58*time.Minute, err)
	// Output: true <nil>
}

func ExampleKeeper_Run() {
	keeper := alone()
	ctx, cancel := context.WithCancel(ctx)
	cancel() // when the program ends
	keeper.Run(ctx)
	fmt.Println(keeper.Open())
	// Output: 0
}

func ExampleKeeper_Open() {
	keeper := alone()
	_, _ = keeper.Reserve(ctx, of("job-1"))
	fmt.Println(keeper.Open())
	// Output: 1
}

func ExampleConfig() {
	keeper := open(holds.Config{Store: holds.NewMemory(), Charge: free{}.charge, Most: 1})
	_, _ = keeper.Reserve(ctx, of("job-1"))
	_, err := keeper.Reserve(ctx, of("job-2"))
	fmt.Println(errors.Is(err, holds.ErrFull))
	// Output: true
}

func ExampleOrder() {
	order := of("") // the Keeper makes an ID up
	hold, err := alone().Reserve(ctx, order)
	fmt.Println(len(hold.ID), err)
	// Output: 26 <nil>
}

func ExampleHold() {
	denied := of("job-1")
	denied.Take = func(context.Context) (holds.Tokens, string, error) { return nil, "denied", nil }
	hold, err := alone().Reserve(ctx, denied)
	fmt.Printf("%q %s %v\n", hold.ID, hold.Answer, err)
	// Output: "" denied <nil>
}

func ExampleTokens() {
	var tokens holds.Tokens = free{} // hybrid.Reservations are some, too
	fmt.Println(tokens.Settle(3))
	// Output:
	// used [3]
	// <nil>
}

func ExampleValidID() {
	fmt.Println(holds.ValidID("job-1"), holds.ValidID("a/b"), holds.ValidID(".."))
	// Output: true false false
}
