package grpclimit_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/grpclimit"
)

// byUser is a limit of the user that the metadata name.
var byUser = grpclimit.Limit{
	Name: "calls of a user",
	Ask: func(c grpclimit.Call) (hybrid.Ask, bool) {
		user := c.Metadata("User")
		if len(user) != 1 {
			return hybrid.Ask{}, false
		}
		return hybrid.Ask{Key: "user:" + user[0], N: 1}, true
	},
}

func user(name string) context.Context {
	return metadata.AppendToOutgoingContext(context.Background(), "user", name)
}

// TestServer: a call passes all limits or none. The status names the limit that denies.
func TestServer(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
		"user:a": hybrid.PerMinute(2), "everybody": hybrid.PerHour(4),
	})
	i := newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{byUser, one("everybody", grpclimit.Calls)},
	})
	handled := 0
	c := serve(t, i, &service{unary: func(context.Context) error { handled++; return nil }})
	for n := range 5 {
		code, err := unary(user("a"), c)
		if n < 2 && code != codes.OK {
			t.Fatal(err)
		}
		if n >= 2 {
			wantDenied(t, err, "calls of a user", 20*time.Second, 30*time.Second)
		}
	}
	for range 2 { // what was denied to a has cost nobody anything
		if code, err := unary(user("b"), c); code != codes.OK {
			t.Fatal(err)
		}
	}
	_, err := unary(user("b"), c)
	wantDenied(t, err, "of everybody", 10*time.Minute, 15*time.Minute)
	if strings.Contains(err.Error(), "user:") {
		t.Errorf("%v tells a key", err)
	}
	if handled != 4 {
		t.Errorf("%d calls were handled", handled)
	}
}

// TestNotApplied: a call that no limit applies to passes, and asks for nothing.
func TestNotApplied(t *testing.T) {
	l := newLimiter(t, erring{errors.New("never asked")}, hybrid.Config{}, nil)
	i := newInterceptors(t, l, grpclimit.Config{Limits: []grpclimit.Limit{byUser}})
	c := serve(t, i, new(service))
	if code, err := unary(t.Context(), c); code != codes.OK {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Keys != 0 {
		t.Errorf("%d keys", s.Keys)
	}
}

// TestCall: a Limit sees the method, the message, the metadata and the peer of a call.
func TestCall(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
	var seen grpclimit.Call
	cost := grpclimit.Limit{Name: "bytes", Ask: func(c grpclimit.Call) (hybrid.Ask, bool) {
		seen = c
		r := c.Message.(*testpb.SimpleRequest)
		return hybrid.Ask{Key: c.Network(), N: int(r.GetResponseSize())}, true
	}}
	i := newInterceptors(t, l, grpclimit.Config{Limits: []grpclimit.Limit{cost}})
	c := serve(t, i, new(service))
	ctx := metadata.AppendToOutgoingContext(t.Context(), "K-Bin", "\x00", "k", "1", "k", "2")
	if _, err := c.UnaryCall(ctx, &testpb.SimpleRequest{ResponseSize: 30}); err != nil {
		t.Fatal(err)
	}
	if seen.Method != testpb.TestService_UnaryCall_FullMethodName {
		t.Errorf("method %q", seen.Method)
	}
	if k := seen.Metadata("K"); len(k) != 2 || k[0] != "1" || seen.Metadata("other") != nil {
		t.Errorf("metadata %q, %q", k, seen.Metadata("other"))
	}
	if n := left(t, l, "127.0.0.1"); n != 70 || seen.Peer() != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("%d tokens are left of the network of %v", n, seen.Peer())
	}
}

// text is an address of no known type.
type text string

func (text) Network() string  { return "text" }
func (s text) String() string { return string(s) }

// TestPeer: the peer is an address as it is, and its network a /64 if that is IPv6.
func TestPeer(t *testing.T) {
	for _, c := range []struct {
		addr          net.Addr
		peer, network string // "": none
	}{
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 80}, "192.0.2.7", "192.0.2.7"},
		{&net.TCPAddr{IP: net.ParseIP("192.0.2.7").To4()}, "192.0.2.7", "192.0.2.7"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8:1:2:3::4")}, "2001:db8:1:2:3::4", "2001:db8:1:2::/64"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0"}, "fe80::1%eth0", "fe80::/64"},
		{text("[::ffff:192.0.2.7]:80"), "192.0.2.7", "192.0.2.7"},
		{&net.TCPAddr{}, "", ""},
		{&net.UnixAddr{Name: "/run/socket"}, "", ""},
		{text("bufconn"), "", ""},
		{nil, "", ""},
	} {
		ctx := peer.NewContext(t.Context(), &peer.Peer{Addr: c.addr})
		call := grpclimit.Call{Context: ctx}
		at := ""
		if call.Peer().IsValid() {
			at = call.Peer().String()
		}
		if network := call.Network(); at != c.peer || network != c.network {
			t.Errorf("%v: peer %q, network %q", c.addr, at, network)
		}
	}
	if call := (grpclimit.Call{Context: t.Context()}); call.Peer().IsValid() || call.Network() != "" {
		t.Errorf("no peer: %v", call.Peer())
	}
}

// TestErrors: what a call ends with if the Limiter has no decision. No text of an error, which
// may name a key, is told to the client.
func TestErrors(t *testing.T) {
	limits := map[string]hybrid.Limit{
		"secret": hybrid.PerSecond(1), "slots": hybrid.Slots(1), "invalid": hybrid.PerSecond(-1),
	}
	ask := func(key string, n int) grpclimit.Limit {
		return grpclimit.Limit{Name: "limit", Ask: func(grpclimit.Call) (hybrid.Ask, bool) {
			return hybrid.Ask{Key: key, N: n}, true
		}}
	}
	memory := hybrid.NewMemory()
	lost := erring{errors.New("lost")}
	for name, c := range map[string]struct {
		store        hybrid.Store
		limit        grpclimit.Limit
		closed       bool
		shut, opened codes.Code
		err          error
	}{
		"store":   {lost, ask("secret", 1), false, codes.Unavailable, codes.OK, hybrid.ErrUnavailable},
		"closed":  {memory, ask("secret", 1), true, codes.Unavailable, codes.OK, hybrid.ErrClosed},
		"slots":   {memory, ask("slots", 1), false, codes.Internal, codes.OK, hybrid.ErrKind},
		"invalid": {memory, ask("invalid", 1), false, codes.Internal, codes.OK, hybrid.ErrInvalidLimit},
		"burst": {
			memory, ask("secret", 9), false, codes.ResourceExhausted, codes.ResourceExhausted,
			hybrid.ErrExceedsBurst,
		},
		"negative": {
			memory, ask("secret", -1), false, codes.ResourceExhausted, codes.ResourceExhausted, nil,
		},
	} {
		for on, want := range map[grpclimit.OnError]codes.Code{
			grpclimit.FailClosed: c.shut, grpclimit.FailOpen: c.opened,
		} {
			l := newLimiter(t, c.store, hybrid.Config{}, limits)
			var told error
			i := newInterceptors(t, l, grpclimit.Config{
				Limits: []grpclimit.Limit{c.limit}, OnError: on,
				Denied: func(_ grpclimit.Call, d grpclimit.Denial) { told = d.Err },
			})
			client := serve(t, i, new(service))
			if c.closed {
				l.Close(t.Context())
			}
			code, err := unary(t.Context(), client)
			if code != want || told == nil || c.err != nil && !errors.Is(told, c.err) {
				t.Errorf("%s, %d: %v, told %v", name, on, err, told)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestDeadline: a call whose deadline comes while the store is asked has the status of that, also
// with FailOpen, and is not handled.
func TestDeadline(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	l := newLimiter(t, hung{release}, hybrid.Config{Timeout: time.Minute}, nil)
	i := newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", 0)}, OnError: grpclimit.FailOpen,
	})
	var handled atomic.Bool
	c := serve(t, i, &service{unary: func(context.Context) error {
		handled.Store(true)
		return nil
	}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if code, err := unary(ctx, c); code != codes.DeadlineExceeded {
		t.Error(err)
	}
	eventually(t, "nobody waits", func() bool { return l.Stats().Waiters == 0 })
	if handled.Load() {
		t.Error("it was handled")
	}
}

// TestDeadlineAtServer: the same, as an interceptor sees it.
func TestDeadlineAtServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		l := newLimiter(t, hung{release}, hybrid.Config{Timeout: time.Minute}, nil)
		var told error
		i := newInterceptors(t, l, grpclimit.Config{
			Limits: []grpclimit.Limit{one("k", 0)}, OnError: grpclimit.FailOpen,
			Denied: func(_ grpclimit.Call, d grpclimit.Denial) { told = d.Err },
		})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		handler := func(context.Context, any) (any, error) {
			t.Error("it was handled")
			return nil, nil
		}
		_, err := i.UnaryServer(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/s/M"}, handler)
		if status.Code(err) != codes.DeadlineExceeded || !errors.Is(told, context.DeadlineExceeded) {
			t.Errorf("%v, told %v", err, told)
		}
	})
}

// TestShadow: a shadow lets all pass, waits for nothing, and tells what it would have denied.
func TestShadow(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, map[string]hybrid.Limit{
		"k": hybrid.PerHour(2),
	})
	var told []grpclimit.Denial
	i := newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", 0)}, Shadow: true, Wait: true,
		Denied: func(_ grpclimit.Call, d grpclimit.Denial) { told = append(told, d) },
	})
	c := serve(t, i, new(service))
	for range 5 {
		if code, err := unary(t.Context(), c); code != codes.OK {
			t.Fatal(err)
		}
	}
	if len(told) != 3 || told[0].Limit != "of k" || told[0].Err != nil ||
		told[0].Decision.Limit != hybrid.PerHour(2) {
		t.Errorf("told %+v", told)
	}
	l.Close(t.Context())
	code, err := unary(t.Context(), c)
	if code != codes.OK || !errors.Is(told[3].Err, hybrid.ErrClosed) {
		t.Errorf("%v, told %+v", err, told)
	}
}

// TestPanic: a handler that panics leaves nothing behind, and has used its tokens up.
func TestPanic(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
	i := newInterceptors(t, l, grpclimit.Config{
		Limits: []grpclimit.Limit{one("k", grpclimit.Calls|grpclimit.Messages)},
	})
	recovered := func(err *error) {
		if v := recover(); v != nil {
			*err = status.Errorf(codes.Internal, "%v", v)
		}
	}
	boom := func(context.Context) error { panic("boom") }
	c := start(t, &service{
		unary:  boom,
		stream: func(s testpb.TestService_FullDuplexCallServer) error { s.Recv(); return boom(nil) },
	}, []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(func(
			ctx context.Context, q any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler,
		) (_ any, err error) {
			defer recovered(&err)
			return h(ctx, q)
		}, i.UnaryServer),
		grpc.ChainStreamInterceptor(func(
			s any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, h grpc.StreamHandler,
		) (err error) {
			defer recovered(&err)
			return h(s, stream)
		}, i.StreamServer),
	})
	for range 3 {
		if code, err := unary(t.Context(), c); code != codes.Internal {
			t.Error(err)
		}
		s, err := c.FullDuplexCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Send(new(testpb.StreamingOutputCallRequest)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Recv(); status.Code(err) != codes.Internal {
			t.Error(err)
		}
	}
	if n := left(t, l, "k"); n != 91 || l.Stats().Waiters != 0 {
		t.Errorf("%d tokens are left, %d wait", n, l.Stats().Waiters)
	}
}

// TestNew: what is wrong with a Config is said.
func TestNew(t *testing.T) {
	l := newLimiter(t, hybrid.NewMemory(), hybrid.Config{}, nil)
	k := one("k", 0)
	with := func(change func(*grpclimit.Limit)) []grpclimit.Limit {
		changed := k
		change(&changed)
		return []grpclimit.Limit{k, changed}
	}
	for want, c := range map[string]grpclimit.Config{
		"Config.Limits: 0 are not 1 to 16":  {},
		"Config.Limits: 17 are not 1 to 16": {Limits: make([]grpclimit.Limit, 17)},
		"Config.OnError 0 is neither":       {Limits: []grpclimit.Limit{k}},
		"Config.OnError 3 is neither":       {Limits: []grpclimit.Limit{k}, OnError: 3},
		`Config.Limits[1].Name "" is not`:   {Limits: with(func(l *grpclimit.Limit) { l.Name = "" })},
		`Config.Limits[1].Name "\xff" is not`: {
			Limits: with(func(l *grpclimit.Limit) { l.Name = "\xff" }),
		},
		"Config.Limits[1].Ask is nil": {Limits: with(func(l *grpclimit.Limit) { l.Ask = nil })},
		"Config.Limits[1].Of 4 is not of Calls and Messages": {
			Limits: with(func(l *grpclimit.Limit) { l.Of = 4 }),
		},
	} {
		if c.OnError == 0 && !strings.Contains(want, "OnError") {
			c.OnError = grpclimit.FailOpen
		}
		_, err := grpclimit.New(l, c)
		if err == nil || !strings.HasPrefix(err.Error(), "grpclimit: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if _, err := grpclimit.New(nil, grpclimit.Config{}); err == nil {
		t.Error("a nil Limiter is no error")
	}
}
