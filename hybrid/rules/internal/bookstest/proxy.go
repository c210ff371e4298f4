package bookstest

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
)

// A Proxy is on the way to a server.
type Proxy struct {
	Addr string

	mu   sync.Mutex
	lose []byte // what a request has whose answer is lost; nil: none is
	lost int
}

// NewProxy returns a proxy to a server, which ends with the test.
func NewProxy(t *testing.T, network, server string) *Proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	p := &Proxy{Addr: l.Addr().String()}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c, network, server)
		}
	}()
	return p
}

// Lose has the next request that contains the text done, and its answer lost with the connection.
func (p *Proxy) Lose(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = []byte(text)
}

// Lost is how many answers were.
func (p *Proxy) Lost() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// loses reports whether the answer to a request is to be lost.
func (p *Proxy) loses(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose == nil || !bytes.Contains(request, p.lose) {
		return false
	}
	p.lose = nil
	p.lost++
	return true
}

func (p *Proxy) serve(client net.Conn, network, addr string) {
	defer client.Close()
	server, err := net.Dial(network, addr)
	if err != nil {
		return
	}
	defer server.Close()
	var deaf sync.Mutex // held once an answer is to be lost
	go func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := server.Read(buffer)
			if err != nil || !deaf.TryLock() {
				return
			}
			_, err = client.Write(buffer[:n])
			deaf.Unlock()
			if err != nil {
				return
			}
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if n > 0 && p.loses(buffer[:n]) {
			deaf.Lock()
			_, _ = server.Write(buffer[:n])
			_, _ = io.Copy(io.Discard, client) // until the server has answered
			return
		}
		if err != nil {
			return
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}
