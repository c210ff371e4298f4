package main

import (
	"bytes"
	"net"
	"time"
)

// A proxy forwards every byte a fixed time after it came, in order, as many as
// there are.
type proxy struct {
	addr     string
	listener net.Listener
}

type packet struct {
	due  time.Time
	data []byte
}

// startProxy delays what goes to target and what comes back, by oneWay each.
func startProxy(target string, oneWay time.Duration) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", target)
			if err != nil {
				in.Close()
				continue
			}
			go forward(out, in, oneWay)
			go forward(in, out, oneWay)
		}
	}()
	return &proxy{l.Addr().String(), l}, nil
}

func (p *proxy) stop() { p.listener.Close() }

// forward ends, and closes both, when either side does.
func forward(to, from net.Conn, delay time.Duration) {
	packets := make(chan packet, 1<<14)
	go func() {
		defer close(packets)
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if n > 0 {
				packets <- packet{time.Now().Add(delay), bytes.Clone(buffer[:n])}
			}
			if err != nil {
				return
			}
		}
	}()
	for p := range packets {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.data); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	for range packets { // let the reader go
	}
}
