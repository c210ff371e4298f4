package holds_test

import (
	"fmt"
	"time"

	"github.com/seed13b07268/ration/hybrid/holds"
)

// write is a Call that writes a hold of seven tokens.
func write(name string) holds.Call {
	return holds.Call{
		Verb: holds.Reserve, Name: name, Life: time.Minute, Until: time.Now().Add(time.Hour),
		Content: "model:large", Token: "1", Estimate: []int{7}, Spent: true,
	}
}

// The replica that settles is told to charge what was above the estimate, and the home to settle
// its tokens, until both acknowledge it.
func ExampleStore() {
	var store holds.Store = holds.NewMemory()
	_, _ = store.Do(ctx, holds.Batch{Home: "home", Calls: []holds.Call{write("a")}})
	there, _ := store.Do(ctx, holds.Batch{
		Home: "other", Calls: []holds.Call{{Verb: holds.Settle, Name: "a", Used: []int{9}}},
	})
	here, _ := store.Do(ctx, holds.Batch{Home: "home"})
	fmt.Println(there.Answers[0].Verdict, there.Notices, here.Notices)
	here, err := store.Do(ctx, holds.Batch{Home: "home", Acks: []string{here.Notices[0].ID()}})
	fmt.Println(here.Notices, err)
	// Output:
	// done [{c a [2] model:large}] [{r a [9] }]
	// [] <nil>
}

func ExampleMemory() {
	r, err := holds.NewMemory().Do(ctx, holds.Batch{Home: "home"})
	fmt.Println(len(r.Answers), len(r.Notices), err)
	// Output: 0 0 <nil>
}

func ExampleMemory_Do() {
	r, err := holds.NewMemory().Do(ctx, holds.Batch{Home: "home", Calls: []holds.Call{write("a")}})
	fmt.Println(r.Answers[0].Verdict, err)
	// Output: done <nil>
}

func ExampleBatch() {
	batch := holds.Batch{Home: "home", Calls: []holds.Call{write("a"), write("a")}}
	r, err := holds.NewMemory().Do(ctx, batch)
	fmt.Println(r.Answers[0].Verdict, r.Answers[1].Verdict, err)
	// Output: done repeated <nil>
}

func ExampleCall() {
	call := holds.Call{Verb: holds.Extend, Name: "a", Life: time.Minute}
	r, err := holds.NewMemory().Do(ctx, holds.Batch{Home: "home", Calls: []holds.Call{call}})
	fmt.Println(r.Answers[0].Verdict, err)
	// Output: absent <nil>
}

func ExampleVerb() {
	fmt.Println(holds.Reserve, holds.Settle, holds.Extend, holds.Look)
	// Output: reserve settle extend look
}

func ExampleVerdict() {
	late := write("a")
	late.Until = time.Now().Add(-time.Second)
	r, _ := holds.NewMemory().Do(ctx, holds.Batch{Home: "home", Calls: []holds.Call{late}})
	fmt.Println(r.Answers[0].Verdict == holds.Late)
	// Output: true
}

func ExampleAnswer() {
	r, _ := holds.NewMemory().Do(ctx, holds.Batch{Home: "home", Calls: []holds.Call{write("a")}})
	a := r.Answers[0]
	fmt.Println(a.Verdict, a.Token, a.Ends.Sub(r.Now))
	// Output: done 1 1m0s
}

func ExampleReply() {
	r, err := holds.NewMemory().Do(ctx, holds.Batch{Home: "home"})
	fmt.Println(time.Since(r.Now) < time.Minute, err)
	// Output: true <nil>
}

func ExampleKind() {
	fmt.Println(holds.Return, holds.Whole, holds.Expired, holds.Charge)
	// Output: r w e c
}

func ExampleNotice() {
	fmt.Println(holds.Notice{Kind: holds.Return, Name: "a", Used: []int{7}})
	// Output: {r a [7] }
}

func ExampleNotice_ID() {
	fmt.Println(holds.Notice{Kind: holds.Return, Name: "a"}.ID())
	// Output: ra
}
