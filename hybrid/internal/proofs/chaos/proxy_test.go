//go:build linux || darwin

package chaos

import (
	"bufio"
	"context"
	"crypto/tls"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A link is the network between one process and all servers.
type link struct {
	choose func() fate  // of each script
	delay  atomic.Int64 // ns, each way
	cut    atomic.Bool  // nothing gets through; what is sent comes when it is whole again
	count  *messageCount
	late   func(span) // told of the time in which the machine kept the link from running; or nil

	// The world talks TLS: how the link talks to the servers, and to the process. Both are nil,
	// or none.
	inside, outside *tls.Config

	mu     sync.Mutex
	random *rand.Rand
}

// messageCount counts what was done to messages.
type messageCount struct{ lostRequests, lostReplies, repeated, late atomic.Int64 }

// A fate is what becomes of a request that runs a script, or of its answer.
type fate int

const (
	deliver fate = iota
	loseRequest
	loseReply
	repeat     // at once
	repeatLate // within three seconds, after others
	swallow    // the answer to a repeated one
)

const lossRate = 0.01 // of each kind

// lossy chooses one of the evil fates now and then.
func (l *link) lossy() fate {
	l.mu.Lock()
	defer l.mu.Unlock()
	if x := int(l.random.Float64() / lossRate); x < int(repeatLate) {
		return fate(x + 1)
	}
	return deliver
}

func (l *link) upTo(most time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(l.random.Int64N(int64(most)))
}

// A packet is a message on its way.
type packet struct {
	due  time.Time
	data []byte
}

// carry delivers packets in order when they are due, until there are no more.
// What cannot be written any more is lost.
func (l *link) carry(to net.Conn, packets <-chan packet) {
	for p := range packets {
		time.Sleep(time.Until(p.due))
		if late := time.Since(p.due); late > notable && l.late != nil {
			now := clock()
			l.late(span{now - late, now})
		}
		for l.cut.Load() {
			time.Sleep(2 * time.Millisecond)
		}
		_, _ = to.Write(p.data)
	}
}

func (l *link) packet(data []byte) packet {
	return packet{time.Now().Add(time.Duration(l.delay.Load())), data}
}

// listen opens a way over the link to a server, until the test ends.
func (l *link) listen(t testing.TB, server string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if l.outside != nil {
				client = tls.Server(client, l.outside)
			}
			go l.connect(client, server)
		}
	}()
	return listener.Addr().String()
}

// dial opens a connection to a server.
func (l *link) dial(ctx context.Context, server string) (net.Conn, error) {
	if l.inside != nil {
		return (&tls.Dialer{Config: l.inside}).DialContext(ctx, "tcp", server)
	}
	return new(net.Dialer).DialContext(ctx, "tcp", server)
}

// underWay is how many messages of a connection may be.
const underWay = 4096

// connect carries the messages of one connection. A lost message breaks it, as on TCP,
// where nothing after it arrives either: half of the time at once, else
// nothing is heard on it any more.
func (l *link) connect(client net.Conn, server string) {
	defer client.Close()
	for l.cut.Load() {
		time.Sleep(2 * time.Millisecond)
	}
	conn, err := l.dial(context.Background(), server)
	if err != nil {
		return
	}
	fates := make(chan fate, underWay) // of the answers to come
	go l.answers(conn, client, fates)

	requests := make(chan packet, underWay)
	go func() {
		l.carry(conn, requests)
		time.Sleep(time.Second) // for the last answers
		conn.Close()
	}()
	defer close(requests)
	dead := false
	for r := bufio.NewReader(client); ; {
		request, err := readMessage(r)
		if err != nil {
			return
		}
		if dead {
			continue
		}
		f := deliver
		if isScript(request) {
			f = l.choose()
		}
		switch f {
		case loseRequest:
			l.count.lostRequests.Add(1)
			if l.upTo(2) == 0 {
				return
			}
			dead = true
			continue
		case repeatLate:
			go l.repeatLate(server, request)
			f = deliver
		}
		fates <- f
		requests <- l.packet(request)
		if f == repeat {
			l.count.repeated.Add(1)
			fates <- swallow
			requests <- l.packet(request)
		}
	}
}

// answers carries what the server sends.
func (l *link) answers(conn, client net.Conn, fates <-chan fate) {
	replies := make(chan packet, underWay)
	go func() {
		l.carry(client, replies)
		client.Close()
	}()
	defer close(replies)
	dead := false
	for r := bufio.NewReader(conn); ; {
		reply, err := readMessage(r)
		if err != nil {
			return
		}
		f := deliver
		if !isPush(reply) {
			f = <-fates
		}
		switch {
		case f == loseReply:
			l.count.lostReplies.Add(1)
			dead = true
			if l.upTo(2) == 0 {
				client.Close()
			}
		case f != swallow && !dead:
			replies <- l.packet(reply)
		}
	}
}

// repeatLate sends a request again over a connection of its own.
func (l *link) repeatLate(server string, request []byte) {
	time.Sleep(l.upTo(3 * time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	conn, err := l.dial(ctx, server)
	if err != nil {
		return
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write(request); err != nil {
		return
	}
	if _, err := readMessage(bufio.NewReader(conn)); err == nil {
		l.count.late.Add(1)
	}
}
