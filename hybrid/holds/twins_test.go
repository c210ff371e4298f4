package holds_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/holds/redisholds"
	"github.com/seed13b07268/ration/remote/redistest/longform"
)

// TestTwins: Memory and the script give the same replies to the same batches.
func TestTwins(t *testing.T) {
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer client.Close()
	for seed := range uint64(longform.Of(20, 300)) {
		server.FlushAll()
		now := time.UnixMilli(1_800_000_000_000).UTC()
		server.SetTime(now)
		memory := holds.NewMemoryAt(func() time.Time { return now })
		script := redisholds.New(client, "ration:")
		random := rand.New(rand.NewPCG(seed, 30))
		for range 40 {
			b := batch(random, now)
			want, err := memory.Do(t.Context(), b)
			must(t, err)
			got, err := script.Do(t.Context(), b)
			must(t, err)
			for _, r := range []*holds.Reply{&want, &got} {
				r.Now = r.Now.UTC()
				slices.SortFunc(r.Notices, func(a, b holds.Notice) int {
					return strings.Compare(a.ID(), b.ID())
				})
			}
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
				t.Fatalf("seed %d: to %+v\nthe script says  %+v\nand the Memory   %+v", seed, b, got, want)
			}
			step := time.Duration(random.IntN(3000)) * time.Millisecond
			if random.IntN(10) == 0 {
				step = holds.Kept
			}
			now = now.Add(step)
			server.SetTime(now)
			server.FastForward(step)
		}
	}
}

func batch(random *rand.Rand, now time.Time) holds.Batch {
	b := holds.Batch{Home: fmt.Sprint("home", random.IntN(3))}
	for range random.IntN(3) {
		kind := []holds.Kind{holds.Return, holds.Whole, holds.Expired, holds.Charge}[random.IntN(4)]
		b.Acks = append(b.Acks, holds.Notice{Kind: kind, Name: fmt.Sprint(random.IntN(4))}.ID())
	}
	for range 1 + random.IntN(3) {
		c := holds.Call{Name: fmt.Sprint(random.IntN(4))}
		life := time.Duration(1+random.IntN(4000)) * time.Millisecond
		switch random.IntN(4) {
		case 0:
			c.Verb, c.Life, c.Content = holds.Reserve, life, fmt.Sprint(random.IntN(2))
			c.Token, c.Answer = fmt.Sprint(random.IntN(9)), "a\nb"
			c.Estimate, c.Spent = []int{random.IntN(9), math.MaxInt32}, random.IntN(2) == 0
			c.Until = now.Add(time.Duration(random.IntN(9)-2) * time.Second)
		case 1:
			c.Verb = holds.Settle
			for range random.IntN(4) {
				c.Used = append(c.Used, random.IntN(9))
			}
		case 2:
			c.Verb, c.Life = holds.Extend, life
		case 3:
			c.Verb, c.Content = holds.Look, []string{"", "0", "1"}[random.IntN(3)]
		}
		b.Calls = append(b.Calls, c)
	}
	return b
}
