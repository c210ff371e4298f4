package lease_test

import (
	"fmt"
	"time"

	"github.com/seed13b07268/ration/lease"
)

// A holder tells the ledger what each class wants, and for which one it asks. Each class waits, and
// is denied, for itself.
func ExampleHolder_Divide() {
	limit := lease.Limit{Rate: 10, Burst: 10}
	ledger, holder := new(lease.Ledger), lease.NewHolder("process 1", limit, &lease.Policy{}, 1)
	holder.Divide([]lease.Class{{Name: "critical", Floor: 0.5}, {Name: "batch", Weight: 1}})
	now := time.Hour

	holder.As(1)
	if holder.Take(now, 1) == lease.Pending { // only the ledger can tell
		holder.Enter(&lease.Waiter{N: 1, Class: 1})
	}
	if holder.Ready(now).Ask {
		q, _ := holder.Request(now)
		fmt.Println("asks for", q.ByClass.Classes[q.ByClass.First].Name)
		holder.Handle(now, ledger.Exchange(now, q))
	}
	for _, w := range holder.Ready(now).Resolved {
		fmt.Println("admitted:", w.Verdict == lease.Admitted)
	}
	// Output:
	// asks for batch
	// admitted: true
}

// Floors are at most the whole Rate together.
func ExampleValidateClasses() {
	classes := []lease.Class{{Name: "critical", Floor: 0.7}, {Name: "normal", Floor: 0.7}}
	fmt.Println(lease.ValidateClasses(classes, lease.Policy{}))
	// Output:
	// lease: Class.Floor 0.7 of "normal" is below 0, or all are above 1 together
}
