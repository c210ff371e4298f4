package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
)

// TestClient: a call that is denied at the client does not leave it, and has the status that a
// server's would have.
func TestClient(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
		"user:a": hybrid.PerMinute(2),
	})
	var handled atomic.Int32
	var seen grpclimit.Call
	limit := byUser
	limit.Ask = func(c grpclimit.Call) (hybrid.Ask, bool) { seen = c; return byUser.Ask(c) }
	c := dial(t, newInterceptors(t, l, grpclimit.Config{Limits: []grpclimit.Limit{limit}}),
		&service{unary: func(context.Context) error { handled.Add(1); return nil }})
	// As in the handler of a server: the peer of that is not the call's.
	ctx := peer.NewContext(user("a"), &peer.Peer{Addr: &net.TCPAddr{IP: net.IPv6loopback}})
	for range 2 {
		if code, err := unary(ctx, c); code != codes.OK {
			t.Fatal(err)
		}
	}
	_, err := unary(ctx, c)
	wantDenied(t, err, "calls of a user", 20*time.Second, 30*time.Second)
	if n := handled.Load(); n != 2 {
		t.Errorf("%d calls have left the client", n)
	}
	if seen.Peer().IsValid() || seen.Metadata("USER")[0] != "a" {
		t.Errorf("peer %v, metadata %v", seen.Peer(), seen.Metadata("user"))
	}
}

// TestClientWaits: with Wait, calls go at the pace of the limits, whether there is one or more.
func TestClientWaits(t *testing.T) {
	for _, keys := range [][]string{{"k"}, {"k", "other"}} {
		l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
			"k": hybrid.PerSecond(20).WithBurst(1),
		})
		var limits []grpclimit.Limit
		for _, key := range keys {
			limits = append(limits, one(key, 0))
		}
		i := newInterceptors(t, l, grpclimit.Config{Limits: limits, Wait: true})
		c := dial(t, i, new(service))
		begin := time.Now()
		for range 4 {
			if code, err := unary(t.Context(), c); code != codes.OK {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took < 149*time.Millisecond { // three tokens at 20/s
			t.Errorf("%v: it took %v", keys, took)
		}
	}
}

// TestClientCannotWait: a call whose deadline is too near ends at once, and does not leave the
// client.
func TestClientCannotWait(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
		"k": hybrid.PerHour(1),
	})
	var told error
	c := dial(t, newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", 0)}, Wait: true, OnError: grpclimit.FailOpen,
		Denied: func(_ grpclimit.Call, d grpclimit.Denial) { told = d.Err },
	}), new(service))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if code, err := unary(ctx, c); code != codes.OK {
		t.Fatal(err)
	}
	code, err := unary(ctx, c)
	if code != codes.DeadlineExceeded || !errors.Is(told, context.DeadlineExceeded) {
		t.Errorf("%v, told %v", err, told)
	}
	waits, stop := context.WithCancel(metadata.NewOutgoingContext(t.Context(), nil))
	done := make(chan codes.Code, 1)
	go func() {
		code, _ := unary(waits, c)
		done <- code
	}()
	eventually(t, "a call waits", func() bool { return l.Stats().Waiters > 0 })
	stop()
	if code := <-done; code != codes.Canceled {
		t.Errorf("a call that was cancelled ended with %v", code)
	}
}
