package hybrid_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/remote"
)

// A stoppable server is one in this bubble that can be stopped as by SIGSTOP: it accepts
// connections and what is sent, and answers nothing until it goes on. Its distance is what a
// round trip takes, and so long a connection takes to be opened.
type stoppable struct {
	*miniredis.Miniredis
	distance atomic.Int64 // ns

	mu    sync.Mutex
	goes  chan struct{} // closed while it goes on
	conns []net.Conn

	ended bool

	carrying sync.WaitGroup
}

func newStoppable(t *testing.T) *stoppable {
	s := &stoppable{Miniredis: miniredis.NewMiniRedis(), goes: make(chan struct{})}
	close(s.goes)
	s.ClockTTL(true)
	t.Cleanup(func() {
		s.mu.Lock()
		s.ended = true
		for _, c := range s.conns {
			c.Close()
		}
		s.mu.Unlock()
		s.carrying.Wait()
		s.Close()
		// No connection that the client opens beside requests outlives the bubble.
		time.Sleep(time.Duration(s.distance.Load()) + time.Second)
	})
	return s
}

func (s *stoppable) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.goes = make(chan struct{})
}

func (s *stoppable) goOn() { close(s.goes) }

// pass waits until the server goes on.
func (s *stoppable) pass() {
	s.mu.Lock()
	goes := s.goes
	s.mu.Unlock()
	<-goes
}

// A packet is what is under way.
type packet struct {
	arrives time.Time
	data    []byte
}

// carry brings what is read from one connection to another, and closes that when it has ended.
func (s *stoppable) carry(from, to net.Conn) {
	packets := make(chan packet, 1000) // what the kernel has accepted
	s.carrying.Go(func() {
		defer close(packets)
		read(from, func(p []byte) {
			way := time.Duration(s.distance.Load()) / 2
			packets <- packet{time.Now().Add(way), p}
		})
	})
	s.carrying.Go(func() {
		defer to.Close()
		for p := range packets {
			time.Sleep(time.Until(p.arrives))
			s.pass()
			to.Write(p.data)
		}
	})
}

// dial is the client's Dialer.
func (s *stoppable) dial(context.Context, string, string) (net.Conn, error) {
	time.Sleep(time.Duration(s.distance.Load()))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, net.ErrClosed
	}
	server, err := s.Dial()
	if err != nil {
		return nil, err
	}
	client, middle := net.Pipe()
	s.conns = append(s.conns, server, middle)
	s.carry(middle, server)
	s.carry(server, middle)
	return client, nil
}

// read hands on what comes from a connection, until it ends.
func read(c net.Conn, to func([]byte)) {
	for {
		p := make([]byte, 4096)
		n, err := c.Read(p)
		if err != nil {
			return
		}
		to(p[:n])
	}
}

// TestDefaultClient: with go-redis' default options, whose calls return after ten seconds, a
// server that stops for 25 s is noticed within one. From then on nobody waits, and a
// request has its verdict.
func TestDefaultClient(t *testing.T) {
	for _, outage := range []hybrid.Outage{hybrid.Share, hybrid.Allow} {
		t.Run(outage.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := newStoppable(t)
				client := redis.NewClient(&redis.Options{
					Addr: "127.0.0.1:6379", Dialer: server.dial,
				})
				defer client.Close()
				l := newLimiter(t, remote.New(client), hybrid.Config{
					Limit: hybrid.PerSecond(1000).WithBurst(100), Outage: outage,
				})
				defer l.Close(ctx)
				takeFor(l, 3*time.Second)
				if s := l.Stats(); s.Away || s.Lease.Admitted < 1000 || s.Failed+s.Late > 0 {
					t.Fatalf("before: %+v", s)
				}
				server.stop()
				takeFor(l, time.Second)
				if !l.Stats().Away {
					t.Error("not noticed within a second")
				}
				away := 24 * time.Second
				if testing.Short() {
					away = 4 * time.Second // the race detector sees as much in it
				}
				if unknown, waited := takeFor(l, away); unknown+waited > 0 {
					t.Errorf("%d requests had no verdict, and %d waited", unknown, waited)
				}
				server.goOn()
				takeFor(l, 2*time.Second)
				if l.Stats().Away {
					t.Error("still away 2 s after the server goes on")
				}
			})
		})
	}
}
