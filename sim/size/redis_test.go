package size

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/sim/simtest"
)

// info is a number of INFO.
func info(t *testing.T, c *redis.Client, name string) float64 {
	t.Helper()
	text, err := c.Info(t.Context(), "everything").Result()
	simtest.OK(t, err)
	_, rest, ok := strings.Cut(text, "\n"+name+":")
	number, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil {
		t.Fatalf("no %s: %v", name, err)
	}
	return n
}

// renew exchanges for some keys, each with a number of holders, twice: everybody has a lease,
// and renews it. 256 exchanges share a round trip.
func renew(t *testing.T, client *redis.Client, keys, holders int) (calls float64) {
	t.Helper()
	store := remote.New(client)
	limit := lease.Limit{Rate: 125 * float64(holders), Burst: 125 * int64(holders)}
	list := make([]*lease.Call, keys*holders)
	for i := range list {
		list[i] = &lease.Call{Key: fmt.Sprintf("tenant:%d", i%keys), Request: lease.Request{
			Holder: fmt.Sprintf("K3U7V%05d-1", i/keys), Held: 12.345678901234567, Got: 3.456789,
			Peak: 23.456789, Lag: 731 * time.Microsecond, Limit: limit,
			Policy: lease.Policy{}.Resolved(),
		}}
	}
	for range 2 {
		for _, c := range list {
			q := &c.Request
			q.Seen = q.Seq
			q.Seq++
			q.Demand = 150 + 1/float64(q.Seq)
			q.Claim = lease.Claim{Rate: c.Reply.Rate, Burst: c.Reply.Burst, Left: c.Reply.Expires}
		}
		for i := 0; i < len(list); i += 256 {
			store.Exchange(t.Context(), list[i:min(i+256, len(list))])
		}
		for _, c := range list {
			if c.Err != nil {
				t.Fatal(c.Err)
			}
		}
	}
	return float64(2 * len(list))
}

// A real Redis takes the memory that stored says, but for the steps of up to a quarter in which
// its allocator hands it out, and the bytes of an exchange, within the digits that its numbers
// have.
func TestRedisTakesThat(t *testing.T) {
	longform.None(t)
	if testing.Short() {
		t.Skip("makes keys of a thousand holders: too long with -short")
	}
	server := redistest.Start(t)
	opt := remote.Options(server.Addr)
	opt.ReadTimeout, opt.WriteTimeout = 10*time.Second, 10*time.Second
	client := redis.NewClient(opt)
	defer client.Close()
	for _, holders := range []int{1, 2, 8, 40, 64, 128, 500, 1000} {
		simtest.OK(t, client.FlushAll(t.Context()).Err())
		renew(t, client, 1, holders)
		n, err := client.MemoryUsage(t.Context(), "ration:tenant:0", 0).Result()
		if got := stored(holders) - beside; err != nil || got > 1.25*float64(n) || got < float64(n)/1.25 {
			t.Errorf("%d holders: %v bytes, %v, expected %v", holders, n, err, got)
		}
	}
	simtest.OK(t, client.FlushAll(t.Context()).Err())
	received := info(t, client, "total_net_input_bytes")
	sent := info(t, client, "total_net_output_bytes")
	memory := info(t, client, "used_memory")
	calls := renew(t, client, 8192, 1)
	received = (info(t, client, "total_net_input_bytes") - received) / calls
	sent = (info(t, client, "total_net_output_bytes") - sent) / calls
	memory -= info(t, client, "used_memory")
	keys, err := client.DBSize(t.Context()).Result() // some may have expired
	simtest.OK(t, err)
	memory /= -float64(keys)
	t.Logf("an exchange: %.0f bytes received, %.0f sent; a key: %.0f bytes", received, sent, memory)
	if math.Abs(received/RequestBytes-1) > 0.2 || math.Abs(sent/ReplyBytes-1) > 0.2 {
		t.Errorf("an exchange: %.0f bytes received, %.0f sent; expected %d and %d", received, sent,
			RequestBytes, ReplyBytes)
	}
	if math.Abs(memory/stored(1)-1) > 0.15 {
		t.Errorf("a key takes %.0f bytes, expected %.0f", memory, stored(1))
	}
}
