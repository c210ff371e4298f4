package lua_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/control"
)

// BenchmarkServer measures what an exchange costs the server, which is single
// threaded, in µs of its CPU: of holders that renew in turn; and, in turn with
// them, what a plain token bucket costs. Run it with -benchtime 40000x.
func BenchmarkServer(b *testing.B) {
	for _, holders := range []int{1, 8, 64, 500, 2000} {
		b.Run(fmt.Sprint("holders=", holders), func(b *testing.B) { benchmarkServer(b, holders) })
	}
}

func benchmarkServer(b *testing.B, holders int) {
	turn := max(400/holders, 1) * holders
	client := redistest.Start(b).Client()
	store := remote.New(client)
	ctx := b.Context()

	calls := make([]*lease.Call, holders)
	for i := range calls {
		calls[i] = &lease.Call{Key: "tenant:42", Request: lease.Request{
			Holder: fmt.Sprintf("K3U7V%05d-1", i), Held: 12.345678901234567, Got: 3.456789012345678, Peak: 23.45678901234567, Give: 1.2345678901234567, Lag: 731 * time.Microsecond,
			Limit: lease.Limit{Rate: 125 * float64(holders), Burst: 125 * int64(holders)}, Policy: lease.Policy{}.Resolved(),
		}}
	}
	exchange := func() {
		for _, c := range calls {
			c.Request.Seen = c.Request.Seq
			c.Request.Seq++
			c.Request.Demand = 150 + 1/float64(c.Request.Seq)
			c.Request.Claim = lease.Claim{Rate: c.Reply.Rate, Burst: c.Reply.Burst, Left: c.Reply.Expires}
		}
		store.Exchange(ctx, calls)
		if err := calls[0].Err; err != nil {
			b.Fatal(err)
		}
	}
	digest := client.ScriptLoad(ctx, control.PlainBucket).Val()
	plain := func() {
		pipe := client.Pipeline()
		for range holders {
			pipe.EvalSha(ctx, digest, []string{"plain"}, 1000, 1000, 1)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			b.Fatal(err)
		}
	}
	stat := func() (usec float64) {
		var calls int
		fmt.Sscanf(client.InfoMap(ctx, "commandstats").Val()["Commandstats"]["cmdstat_evalsha"], "calls=%d,usec=%f", &calls, &usec)
		return usec
	}
	exchange()
	exchange() // everybody has a lease
	var leased, bucket float64
	rounds := 0
	b.ResetTimer()
	for ; rounds*turn < b.N; rounds++ {
		start := stat()
		for range turn / holders {
			exchange()
		}
		middle := stat()
		for range turn / holders {
			plain()
		}
		leased += middle - start
		bucket += stat() - middle
	}
	each := float64(rounds * turn)
	b.ReportMetric(leased/each, "exchange-µs")
	b.ReportMetric(bucket/each, "plain-µs")
	b.ReportMetric(leased/bucket, "ratio")
	b.ReportMetric(float64(client.MemoryUsage(ctx, "ration:tenant:42", 0).Val()), "bytes/key")
	b.ReportMetric(0, "ns/op") // of both
}
