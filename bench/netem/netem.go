// Package netem stands for a network: a proxy that delivers everything later.
package netem

import (
	"bytes"
	"errors"
	"net"
	"runtime"
	"sync"
	"time"
)

// A Proxy forwards every byte a fixed time after it came, in order, and as many
// as there are. The delay is the same for all, so one queue holds everything in
// the order in which it is due.
type Proxy struct {
	Addr string

	listener net.Listener
	target   string
	delay    time.Duration

	mu     sync.Mutex
	queue  []packet
	closed bool
	more   chan struct{} // has room for one: the queue is no longer empty, or closed
}

// A packet is what one read brought. Without bytes it is the end of the stream.
type packet struct {
	due  time.Time
	to   *net.TCPConn
	data []byte
}

// Start starts a Proxy to target on a free loopback port.
func Start(target string, delay time.Duration) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		Addr: l.Addr().String(), listener: l, target: target, delay: delay,
		more: make(chan struct{}, 1),
	}
	go p.accept()
	go p.deliver()
	return p, nil
}

// Close ends it. What is still queued is lost.
func (p *Proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake()
}

func (p *Proxy) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil {
			in.Close()
			continue
		}
		go p.read(in.(*net.TCPConn), out.(*net.TCPConn))
		go p.read(out.(*net.TCPConn), in.(*net.TCPConn))
	}
}

// read queues what comes from one side for the other. It never waits for the
// writer, so both sides may write before they read.
func (p *Proxy) read(from, to *net.TCPConn) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.push(to, bytes.Clone(buffer[:n]))
		}
		if err != nil {
			p.push(to, nil)
			return
		}
	}
}

func (p *Proxy) push(to *net.TCPConn, data []byte) {
	p.mu.Lock()
	// Read under the lock, so that the queue is in the order of due.
	p.queue = append(p.queue, packet{time.Now().Add(p.delay), to, data})
	p.mu.Unlock()
	p.wake()
}

// deliver sleeps in the kernel: a Go timer that is due in less than a
// millisecond may come a millisecond later when the process has nothing else
// to do.
func (p *Proxy) deliver() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	precise()
	for {
		p.mu.Lock()
		batch, closed := p.queue, p.closed
		p.queue = nil
		p.mu.Unlock()
		if closed {
			return
		}
		for _, q := range batch {
			for wait := time.Until(q.due); wait > 0; wait = time.Until(q.due) {
				sleep(wait) // a signal may end it early
			}
			if q.data == nil {
				_ = q.to.CloseWrite()
				continue
			}
			if _, err := q.to.Write(q.data); err != nil && !errors.Is(err, net.ErrClosed) {
				q.to.Close() // its other direction ends, too
			}
		}
		if len(batch) == 0 {
			<-p.more
		}
	}
}
