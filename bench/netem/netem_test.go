package netem

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"
)

// echo answers every connection with what it sends.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

func dialProxy(t *testing.T, delay time.Duration) *net.TCPConn {
	t.Helper()
	p, err := Start(echo(t), delay)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.(*net.TCPConn)
}

func TestProxyDelays(t *testing.T) {
	t.Log("real time: the proxy sleeps in the kernel; a busy machine may only make it slower, so the median has a bound of ten times the delay")
	const oneWay = 500 * time.Microsecond
	c := dialProxy(t, oneWay)
	var took []time.Duration
	for range 50 {
		start := time.Now()
		if _, err := c.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		d := time.Since(start)
		if d < 2*oneWay {
			t.Fatalf("a round trip took only %v", d)
		}
		took = append(took, d)
	}
	slices.Sort(took)
	if got := took[len(took)/2]; got > 20*oneWay {
		t.Errorf("a round trip takes %v", got)
	}
}

// TestProxyDoesNotLimitThroughput: a proxy that slept for each chunk in turn
// would take half an hour for this.
func TestProxyDoesNotLimitThroughput(t *testing.T) {
	c := dialProxy(t, 100*time.Millisecond)
	sent := make([]byte, 16<<20)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(sent)
	go func() {
		_, _ = c.Write(sent)
		_ = c.CloseWrite()
	}()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(c)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("%d bytes came back, not the %d that were sent, or not in their order", len(got), len(sent))
	}
}
