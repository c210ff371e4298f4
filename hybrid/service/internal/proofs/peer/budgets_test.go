package peer

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed13b07268/ration/hybrid"
)

const (
	budget  = 20_000 // tokens a minute
	most    = 400    // of a call
	atOnce  = 16     // calls
	minutes = 10
)

const tokens = `domain: shop
descriptors:
  - {key: tokens, rate_limit: {unit: minute, requests_per_unit: 20000}}
`

// A spent is a call of a gateway that was let through.
type spent struct {
	begun, sent time.Duration // its look, and its report when the stream had ended
	cost        int
}

// calls plays the calls of a gateway at two replicas, one of which dies in the middle: a look, a
// stream, and a report to the other one. One that is denied looks again 100 ms later.
func calls(t *testing.T, start func() pb.RateLimitServiceServer) (list []spent, denied int) {
	begin := time.Now()
	end := begin.Add(minutes * time.Minute)
	servers := []pb.RateLimitServiceServer{start(), start()}
	var mu sync.Mutex
	send := func(replica int, hits uint64) pb.RateLimitResponse_Code {
		in := &pb.RateLimitRequest{Domain: "shop"}
		in.Descriptors = append(in.Descriptors, of("tokens", "model"))
		in.Descriptors[0].HitsAddend = wrapperspb.UInt64(hits)
		mu.Lock()
		s := servers[replica]
		mu.Unlock()
		out, err := s.ShouldRateLimit(t.Context(), in)
		if err != nil {
			t.Error(err)
		}
		return out.GetOverallCode()
	}
	var all sync.WaitGroup
	for i := range atOnce {
		all.Go(func() {
			random := rand.New(rand.NewPCG(29, uint64(i)))
			for time.Now().Before(end) {
				c, replica := spent{begun: time.Since(begin), cost: 1 + random.IntN(most)}, random.IntN(2)
				if send(replica, 0) != pb.RateLimitResponse_OK {
					mu.Lock()
					denied++
					mu.Unlock()
					time.Sleep(100 * time.Millisecond)
					continue
				}
				time.Sleep(250*time.Millisecond + time.Duration(random.Int64N(int64(500*time.Millisecond))))
				c.sent = time.Since(begin)
				send(1-replica, uint64(c.cost))
				mu.Lock()
				list = append(list, c)
				mu.Unlock()
			}
		})
	}
	time.Sleep(end.Sub(begin) / 2)
	mu.Lock()
	servers[1] = start() // the one before is asked no more, and tells nothing
	mu.Unlock()
	all.Wait()
	return list, denied
}

// beyond is what each minute used, and what was under way when it had used its budget. A replica
// hears of that within a time.
func beyond(list []spent, knows time.Duration) (used, under [minutes]int) {
	slices.SortFunc(list, func(a, b spent) int { return cmp.Compare(a.sent, b.sent) })
	var reached [minutes]time.Duration
	for _, c := range list {
		m := int(c.sent / time.Minute)
		if m >= minutes {
			continue // the last streams
		}
		if used[m] >= budget && c.begun <= reached[m]+knows {
			under[m] += c.cost
		}
		if used[m] += c.cost; used[m] >= budget && reached[m] == 0 {
			reached[m] = c.sent
			under[m] = used[m] - budget
		}
	}
	return used, under
}

// TestBudgets plays ten minutes of a gateway's calls, whose costs are known afterwards, at theirs
// and at ours. No minute uses more than the limit and what was under way then, of either.
func TestBudgets(t *testing.T) {
	play := func(
		name string, knows time.Duration, service func(*testing.T) func() pb.RateLimitServiceServer,
	) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			list, denied := calls(t, service(t))
			used, under := beyond(list, knows)
			t.Logf("%s: %d calls, %d denied; used %v, under way %v", name, len(list), denied, used, under)
			for m, n := range used {
				if n > budget+under[m] || n < budget {
					t.Errorf("%s: minute %d used %d of %d, %d under way", name, m, n, budget, under[m])
				}
			}
		})
	}
	store, now := &memory{counts: map[string]uint64{}}, &clock{}
	var they []pb.RateLimitServiceServer // listen for signals, which no bubble does
	for range 3 {
		they = append(they, ticking{theirsOf(tokens, store, now, false), now})
	}
	play("theirs", 0, func(*testing.T) func() pb.RateLimitServiceServer {
		next := -1
		return func() pb.RateLimitServiceServer {
			next++
			return they[next]
		}
	})
	play("ours", 250*time.Millisecond, func(t *testing.T) func() pb.RateLimitServiceServer {
		store := hybrid.NewMemory()
		text := strings.Replace(tokens, "{", "{overdraft: true, ", 1)
		text = strings.Replace(text, "minute", "minute, kind: quota", 1)
		return func() pb.RateLimitServiceServer { return oursOf(t, store, text) }
	})
}

// ticking sets their clock to that of the test before each request.
type ticking struct {
	pb.RateLimitServiceServer
	now *clock
}

func (s ticking) ShouldRateLimit(
	ctx context.Context, in *pb.RateLimitRequest,
) (*pb.RateLimitResponse, error) {
	s.now.Store(time.Now().Unix())
	return s.RateLimitServiceServer.ShouldRateLimit(ctx, in)
}
