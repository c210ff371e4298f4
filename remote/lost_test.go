package remote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
)

// wire is a network whose connections can lose replies to scripts.
type wire struct {
	loses   atomic.Bool
	texts   atomic.Bool  // from the first one on, that is sent with its text
	scripts atomic.Int64 // that were sent by their digest
}

func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &wireConn{Conn: c, wire: w}, err
}

type wireConn struct {
	net.Conn
	*wire
	script atomic.Bool // the last that was sent
}

func (c *wireConn) Write(p []byte) (int, error) {
	if c.texts.Load() && bytes.Contains(p, []byte("\r\neval\r\n")) {
		c.loses.Store(true)
	}
	n := bytes.Count(p, []byte("\r\nevalsha\r\n"))
	c.wire.scripts.Add(int64(n))
	c.script.Store(n > 0)
	return c.Conn.Write(p)
}

// Read breaks the connection once the reply to a script is here: the script has
// run, and its caller does not hear of it.
func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.script.Load() && c.loses.Load() {
		c.Conn.Close()
		return 0, io.EOF
	}
	return n, err
}

// TestLostReply: what may have run is not sent again, by any client, although
// their options ask for retries.
func TestLostReply(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T, *wire) remote.Client{
		"single": func(t *testing.T, w *wire) remote.Client {
			opt := remote.Options(redistest.Start(t).Addr)
			opt.Dialer, opt.MaxRetries = w.dial, 3
			return client(t, opt)
		},
		"ring": func(t *testing.T, w *wire) remote.Client {
			c := redis.NewRing(&redis.RingOptions{
				Addrs: map[string]string{
					"a": redistest.Start(t).Addr, "b": redistest.Start(t).Addr,
				},
				Dialer: w.dial, MaxRetries: 3,
			})
			t.Cleanup(func() { c.Close() })
			return c
		},
		"cluster": func(t *testing.T, w *wire) remote.Client {
			return clusterClient(t, redistest.StartCluster(t, 3, 0),
				&redis.ClusterOptions{Dialer: w.dial})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := new(wire)
			rdb := connect(t, w)
			for _, n := range []int{1, 20} {
				store := remote.New(rdb, remote.WithPrefix(fmt.Sprint(n)))
				calls := keys(n)
				mustExchange(t, store, calls)

				w.loses.Store(true)
				w.scripts.Store(0)
				store.Exchange(t.Context(), next(calls))
				w.loses.Store(false)

				if sent := w.scripts.Load(); sent != int64(n) {
					t.Errorf("%d scripts were sent for %d calls", sent, n)
				}
				for _, c := range calls {
					view, err := store.Inspect(t.Context(), c.Key)
					if err != nil || view.Holders[0].Seq != 2 {
						t.Fatalf("%q: did not run: %+v, %v", c.Key, view, err)
					}
					if c.Err == nil {
						t.Errorf("%q: %+v came out of a lost reply", c.Key, c.Reply)
					}
				}
			}
		})
	}
}

// TestLostReplyToText: a server that does not know the script has not run it, and is asked
// again. When that reply is lost it may have, and is not.
func TestLostReplyToText(t *testing.T) {
	w := new(wire)
	opt := remote.Options(redistest.Start(t).Addr)
	opt.Dialer = w.dial
	rdb := client(t, opt)
	store := remote.New(rdb)
	calls := keys(20)
	w.texts.Store(true)
	store.Exchange(t.Context(), calls)
	if sent := w.scripts.Load(); sent != 20+19 {
		t.Errorf("%d scripts were sent by their digest, not 20, and 19 after a text", sent)
	}
	for _, c := range calls {
		if c.Err == nil || redis.HasErrorPrefix(c.Err, "NOSCRIPT") {
			t.Errorf("%q: %+v, %v, and not an error of the connection", c.Key, c.Reply, c.Err)
		}
	}
}
