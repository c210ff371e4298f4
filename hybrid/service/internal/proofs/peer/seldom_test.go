//go:build unix && !head

package peer

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

const (
	seldomKeys   = 1000
	seldomRate   = 3000 // requests/s, over all keys
	seldomRounds = 9
	seldomSlice  = 2 * time.Second
)

// delays asks in an open loop for a slice of time, and returns how long answers took, in order.
// Each counts from when its request was due, whether or not the program was there in time.
func delays(b *testing.B, clients []pb.RateLimitServiceClient) []time.Duration {
	var mu sync.Mutex
	var list []time.Duration
	var all sync.WaitGroup
	begin, n := time.Now(), 0
	for due := time.Duration(0); due < seldomSlice; n++ {
		due += time.Duration(rand.ExpFloat64() / seldomRate * 1e9)
		time.Sleep(due - time.Since(begin))
		client := clients[n%connections]
		all.Go(func() {
			in := ask(of("load", fmt.Sprintf("seldom-%d", rand.IntN(seldomKeys))))
			if _, err := client.ShouldRateLimit(context.Background(), in); err != nil {
				b.Error(err)
				return
			}
			took := time.Since(begin) - due
			mu.Lock()
			defer mu.Unlock()
			list = append(list, took)
		})
	}
	all.Wait()
	slices.Sort(list)
	return list
}

// BenchmarkSeldom asks theirs and ours in turn for keys that each get three requests a second, and
// prints medians of rounds.
func BenchmarkSeldom(b *testing.B) {
	services, _ := both(b)
	var text strings.Builder
	for _, part := range []float64{0.5, 0.99} {
		var lists [2][]time.Duration
		var ratios []float64
		for round := range seldomRounds + 1 {
			var took [2]time.Duration
			for i := range took {
				list := delays(b, services[i])
				took[i] = list[int(part*float64(len(list)))]
			}
			if round == 0 { // warms up
				continue
			}
			for i := range took {
				lists[i] = append(lists[i], took[i])
			}
			ratios = append(ratios, took[1].Seconds()/took[0].Seconds())
		}
		for i := range lists {
			slices.Sort(lists[i])
		}
		slices.Sort(ratios)
		b.ReportMetric(ratios[seldomRounds/2], fmt.Sprintf("p%g-ours/theirs", part*100))
		fmt.Fprintf(&text, "\np%g: theirs %v, ours %v, ours/theirs %.2f (%.2f to %.2f)", part*100,
			lists[0][seldomRounds/2].Round(time.Microsecond), lists[1][seldomRounds/2].Round(time.Microsecond),
			ratios[seldomRounds/2], ratios[0], ratios[seldomRounds-1])
	}
	b.Logf("medians of %d, %d requests/s over %d keys%s", seldomRounds, seldomRate, seldomKeys, &text)
	b.ReportMetric(0, "ns/op")
}
