package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/lease"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

func Example() {
	server, err := miniredis.Run() // stands in for Redis
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	rdb := redis.NewClient(remote.Options(server.Addr()))
	defer rdb.Close()
	store := remote.New(rdb)

	// A lease.Holder makes the requests; this one is written by hand.
	call := &lease.Call{Key: "tenant:42", Request: lease.Request{
		Holder: "process-1", Seq: 1, Take: 3, Min: 1,
		Limit: lease.Per(10, time.Second), Policy: lease.Policy{}.Resolved(),
	}}
	store.Exchange(context.Background(), []*lease.Call{call})
	fmt.Println(call.Reply.Taken, call.Err)

	view, err := store.Inspect(context.Background(), "tenant:42")
	fmt.Println(view.Pool, err)
	// Output:
	// 3 <nil>
	// 7 <nil>
}

// request is the first of a holder, which takes n tokens at once.
func request(holder string, n float64) lease.Request {
	return lease.Request{
		Holder: holder, Seq: 1, Take: n, Min: n,
		Limit:  lease.Limit{Rate: 0.001, Burst: 100},
		Policy: lease.Policy{MaxHold: 250 * time.Millisecond}.Resolved(),
	}
}

func client(t testing.TB, opt *redis.Options) *redis.Client {
	c := redis.NewClient(opt)
	t.Cleanup(func() { c.Close() })
	return c
}

// patient are settings for tests that are not about time, on a busy machine.
func patient(addr string) *redis.Options {
	opt := remote.Options(addr)
	opt.DialTimeout, opt.PoolTimeout = time.Minute, time.Minute
	opt.ReadTimeout, opt.WriteTimeout = time.Minute, time.Minute
	return opt
}

// keys makes one call for each of n keys.
func keys(n int) []*lease.Call {
	var calls []*lease.Call
	for i := range n {
		calls = append(calls, &lease.Call{Key: fmt.Sprint("key ", i), Request: request("h", 1)})
	}
	return calls
}

// next makes the following requests of the same holders.
func next(calls []*lease.Call) []*lease.Call {
	for _, c := range calls {
		c.Request.Seen = c.Request.Seq
		c.Request.Seq++
	}
	return calls
}

func mustExchange(t *testing.T, s *remote.Store, calls []*lease.Call) {
	t.Helper()
	s.Exchange(t.Context(), calls)
	for _, c := range calls {
		if c.Err != nil {
			t.Fatalf("%q: %v", c.Key, c.Err)
		}
		if c.Reply.Seq != c.Request.Seq || c.Reply.Taken != c.Request.Take {
			t.Fatalf("%q: %+v is no answer to %+v", c.Key, c.Reply, c.Request)
		}
	}
}

// onEach runs a test against miniredis and a real Redis.
func onEach(t *testing.T, test func(t *testing.T, c *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		test(t, client(t, patient(miniredis.RunT(t).Addr())))
	})
	t.Run("redis", func(t *testing.T) {
		test(t, client(t, patient(redistest.Start(t).Addr)))
	})
}

func TestKeys(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		odd := []string{
			"", "a b", "{tag}", "}{", "new\nline", "\r\n", "\x00\xff", "ключ",
			strings.Repeat("long", 1000),
		}
		var calls []*lease.Call
		for _, key := range odd {
			calls = append(calls, &lease.Call{Key: key, Request: request("h", 1)})
		}
		mustExchange(t, remote.New(c), calls)
		for _, key := range odd {
			if n := c.Exists(t.Context(), "ration:"+key).Val(); n != 1 {
				t.Errorf("there is no ration:%s", key)
			}
			view, err := remote.New(c).Inspect(t.Context(), key)
			if err != nil || view.Pool != 99 || len(view.Holders) != 1 {
				t.Errorf("%q: %+v, %v", key, view, err)
			}
		}
	})
}

// Two stores with different prefixes do not share a key.
func TestPrefix(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		a, b := remote.New(c, remote.WithPrefix("a:")), remote.New(c, remote.WithPrefix(""))
		mustExchange(t, a, []*lease.Call{{Key: "k", Request: request("h", 100)}})
		mustExchange(t, b, []*lease.Call{{Key: "k", Request: request("h", 100)}})
		got := c.Exists(t.Context(), "a:k", "k").Val()
		if got != 2 {
			t.Errorf("%d of a:k and k exist", got)
		}
	})
}

func TestInspectNothing(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		view, err := remote.New(c).Inspect(t.Context(), "nobody")
		if err != nil || view.At != 0 || view.Holders != nil {
			t.Errorf("%+v, %v", view, err)
		}
	})
}

// A bad request fails by itself; those beside it are served.
func TestBadRequests(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		calls := keys(4)
		calls[1].Request.Limit.Rate = -1
		calls[2].Request.Holder = "#"
		calls[2].Reply.Seq = 7 // of an earlier use of the Call
		remote.New(c).Exchange(t.Context(), calls)
		if calls[0].Err != nil || calls[3].Err != nil || calls[3].Reply.Taken != 1 {
			t.Errorf("good requests: %v, %v", calls[0].Err, calls[3].Err)
		}
		if !errors.Is(calls[1].Err, lease.ErrInvalidLimit) || calls[2].Err == nil ||
			calls[2].Reply != (lease.Reply{}) {
			t.Errorf("bad requests: %v, %v %+v", calls[1].Err, calls[2].Err, calls[2].Reply)
		}
		if n := c.DBSize(t.Context()).Val(); n != 2 {
			t.Errorf("%d keys, not 2", n)
		}
	})
}

func TestNoCalls(t *testing.T) {
	remote.New(nil).Exchange(t.Context(), nil)
	calls := []*lease.Call{{}}
	if remote.New((*redis.Client)(nil)).Exchange(t.Context(), calls); calls[0].Err == nil {
		t.Error("an exchange of a nil *redis.Client has no error")
	}
}

// TestTextGoesOnce: a server that does not know a script gets its 50 KB once, however many
// keys a new process asks for.
func TestTextGoesOnce(t *testing.T) {
	server := redistest.Start(t)
	calls := keys(100)
	mustExchange(t, remote.New(client(t, patient(server.Addr))), calls)
	if n := evals(t, server.Client()); n != 1 {
		t.Errorf("it got the text %d times", n)
	}
}

// Servers forget scripts: by SCRIPT FLUSH, by a restart, and a new master has
// never seen them. What was not run is run then, once.
func TestScriptFlush(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		store := remote.New(c)
		calls := keys(10)
		mustExchange(t, store, calls)
		c.ScriptFlush(t.Context())
		mustExchange(t, store, next(calls))
		mustExchange(t, store, next(calls))
		for i := range calls {
			view, err := store.Inspect(t.Context(), calls[i].Key)
			if err != nil || view.Pool < 97 || view.Pool > 97.5 {
				t.Errorf("pool %v after 3 of 100, %v", view.Pool, err)
			}
		}
		c.ScriptFlush(t.Context())
		if _, err := store.Inspect(t.Context(), calls[0].Key); err != nil {
			t.Error(err)
		}
	})
}

// A server that is down costs an error, soon; when it is back, empty, a holder
// that claims its lease is believed.
func TestRestart(t *testing.T) {
	server := redistest.Start(t)
	opt, dials := patient(server.Addr), atomic.Int32{}
	opt.MinIdleConns = 0 // which are dialled beside
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	store := remote.New(client(t, opt))
	calls := keys(1)
	mustExchange(t, store, calls)

	server.Kill()
	dials.Store(0)
	store.Exchange(t.Context(), next(calls))
	if n := dials.Load(); calls[0].Err == nil || n > 1 { // by default there are 20, with pauses
		t.Errorf("without a server: %v, %d dials", calls[0].Err, n)
	}

	server.Restart()
	calls[0].Request.Claim = lease.Claim{Burst: 10, Left: time.Second}
	calls[0].Request.Take, calls[0].Request.Min, calls[0].Request.Held = 0, 0, 10
	mustExchange(t, store, next(calls))
	view, err := store.Inspect(t.Context(), calls[0].Key)
	if err != nil || view.Pool > -9.9 || view.Bursts != 10 {
		t.Errorf("%+v, %v", view, err)
	}
}

// TestRefusedConnection: what a server says to a new connection is the error of
// all that were to go through it.
func TestRefusedConnection(t *testing.T) {
	refused := func(opt *redis.Options, want string) {
		t.Helper()
		calls := keys(3)
		remote.New(client(t, opt)).Exchange(t.Context(), calls)
		for _, c := range calls {
			if c.Err == nil || !strings.Contains(c.Err.Error(), want) {
				t.Errorf("%v, not %s", c.Err, want)
			}
		}
	}
	server := redistest.Start(t)
	server.Client().ConfigSet(t.Context(), "requirepass", "secret")
	refused(remote.Options(server.Addr), "NOAUTH")
	opt := remote.Options(server.Addr)
	opt.Password = "wrong"
	refused(opt, "WRONGPASS")
}

// TestDeadline: the client's timeout ends a call that the server does not answer, and not the
// context's deadline: a handshake would share that.
func TestDeadline(t *testing.T) {
	server := redistest.Start(t)
	opt := patient(server.Addr)
	opt.ReadTimeout = 100 * time.Millisecond
	store := remote.New(client(t, opt))
	calls := keys(1)
	mustExchange(t, store, calls)
	server.Client().Do(t.Context(), "client", "pause", time.Minute.Milliseconds())

	ctx, cancel := context.WithTimeout(t.Context(), opt.ReadTimeout/2)
	defer cancel()
	start := time.Now()
	store.Exchange(ctx, next(calls))
	took := time.Since(start)
	if calls[0].Err == nil || took < opt.ReadTimeout || took >= opt.WriteTimeout {
		t.Errorf("%v after %v", calls[0].Err, took)
	}
}

func TestErrorNamesKey(t *testing.T) {
	onEach(t, func(t *testing.T, c *redis.Client) {
		c.Set(t.Context(), "ration:k", "a string", 0)
		call := &lease.Call{Key: "k", Request: request("h", 1)}
		remote.New(c).Exchange(t.Context(), []*lease.Call{call})
		const want = `remote: exchange "k": key refused: RATION no ledger: WRONGTYPE`
		if call.Err == nil || !strings.HasPrefix(call.Err.Error(), want) ||
			!errors.Is(call.Err, lease.ErrRefused) {
			t.Errorf("%v, not %s", call.Err, want)
		}
		call.Key = strings.Repeat("long", 1000)
		call.Request.Seq = 0
		remote.New(c).Exchange(t.Context(), []*lease.Call{call})
		if call.Err == nil || len(call.Err.Error()) > 200 {
			t.Errorf("%v", call.Err)
		}
	})
}

func BenchmarkExchange(b *testing.B) {
	c := client(b, remote.Options(redistest.Start(b).Addr))
	for _, n := range []int{1, 100} {
		b.Run(fmt.Sprint(n, " keys"), func(b *testing.B) {
			store, calls := remote.New(c), keys(n)
			for b.Loop() {
				store.Exchange(b.Context(), next(calls))
				if err := calls[0].Err; err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestIdentity: Stores are the same if they have one client and name keys alike.
func TestIdentity(t *testing.T) {
	a, b := redis.NewClient(&redis.Options{}), redis.NewClient(&redis.Options{})
	defer a.Close()
	defer b.Close()
	one, other := []byte("0123456789abcdef"), []byte("fedcba9876543210")
	all := []*remote.Store{
		remote.New(a), remote.New(b), remote.New(nil), remote.New(a, remote.WithPrefix("x:")),
		remote.New(a, remote.WithHashedKeys(nil)), remote.New(a, remote.WithHashedKeys(one)),
		remote.New(a, remote.WithHashedKeys(other)),
	}
	again := []*remote.Store{
		remote.New(a), remote.New(b), remote.New(nil), remote.New(a, remote.WithPrefix("x:")),
		remote.New(a, remote.WithHashedKeys(nil)), remote.New(a, remote.WithHashedKeys(one)),
		remote.New(a, remote.WithHashedKeys(other)),
	}
	for i, s := range all {
		for j, s2 := range again {
			if same := s.Identity() == s2.Identity(); same != (i == j) {
				t.Errorf("%d and %d are the same: %v", i, j, same)
			}
		}
	}
}
