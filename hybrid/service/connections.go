package main

import (
	"net"
	"sync"
)

// A bounded listener has so many connections at once as it has places. Others wait in the system's
// queue.
//
// Its connections are still those of TCP, where netutil.LimitListener hides that: a server of HTTP
// that refuses a request it has not read ends its own half first, since a client would be reset
// before it has read the answer (TestHostile).
type bounded struct {
	*net.TCPListener
	places chan struct{}
	closed chan struct{}
	close  func() error
}

func bound(l *net.TCPListener, most int) *bounded {
	b := &bounded{TCPListener: l, places: make(chan struct{}, most), closed: make(chan struct{})}
	b.close = sync.OnceValue(func() error {
		close(b.closed)
		return l.Close()
	})
	return b
}

// Accept waits for a place, and then for a connection.
func (b *bounded) Accept() (net.Conn, error) {
	select {
	case b.places <- struct{}{}:
	case <-b.closed:
		return nil, net.ErrClosed
	}
	leave := sync.OnceFunc(func() { <-b.places })
	conn, err := b.AcceptTCP()
	if err != nil {
		leave()
		return nil, err
	}
	return &placed{conn, leave}, nil
}

func (b *bounded) Close() error { return b.close() }

// A placed connection has a place until it is closed.
type placed struct {
	*net.TCPConn
	leave func()
}

func (p *placed) Close() error {
	defer p.leave()
	return p.TCPConn.Close()
}
