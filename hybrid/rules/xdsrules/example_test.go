package xdsrules_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seed13b07268/ration/hybrid/rules/xdsrules"
)

// A control plane that is away: Load waits for it. rules.New calls Load, and fails in the end.
func ExampleNew() {
	conn, err := grpc.NewClient("localhost:1", // nobody listens there
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer conn.Close()
	source, err := xdsrules.New(conn, xdsrules.Config{Node: "gateway"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer source.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, _, err = source.Load(ctx)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output: true
}
