package grpclimit_test

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
)

// BenchmarkUnaryServer is what limits add to a call whose leases have the tokens.
func BenchmarkUnaryServer(b *testing.B) {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(1e9)})
	if err != nil {
		b.Fatal(err)
	}
	defer limiter.Close(context.Background())
	for n := 1; n <= 3; n++ {
		var limits []grpclimit.Limit
		for i := range n {
			limits = append(limits, one(fmt.Sprint("k", i), grpclimit.Calls))
		}
		x, err := grpclimit.New(limiter, grpclimit.Config{Limits: limits, OnError: grpclimit.FailOpen})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			info := &grpc.UnaryServerInfo{FullMethod: "/s/M"}
			handler := func(context.Context, any) (any, error) { return nil, nil }
			for b.Loop() {
				if _, err := x.UnaryServer(context.Background(), nil, info, handler); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
