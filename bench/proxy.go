package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// oneWay is how much later the proxy delivers what it gets, in either
// direction.
const oneWay = 500 * time.Microsecond

// proxyVariable makes this program a proxy to the address in it. It is a
// process of its own, so that its CPU is not counted as the client's.
const proxyVariable = "RATION_BENCH_PROXY"

// runProxy is the child process. It ends when its standard input does, however
// its parent ended.
func runProxy(target string) error {
	p, err := newProxy(target, oneWay)
	if err != nil {
		return err
	}
	defer p.Close()
	fmt.Println(p.Addr)
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// A proxyProcess is a running child.
type proxyProcess struct {
	Addr  string
	cmd   *exec.Cmd
	stdin io.Closer
}

func startProxy(target string) (*proxyProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), proxyVariable+"="+target)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as for the server: a Ctrl-C is not for it
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &proxyProcess{cmd: cmd, stdin: stdin}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		p.Stop()
		return nil, fmt.Errorf("proxy: no address: %w", err)
	}
	p.Addr = strings.TrimSpace(addr)
	return p, nil
}

func (p *proxyProcess) Stop() {
	p.stdin.Close()
	_ = p.cmd.Wait()
}

// A proxy forwards every byte a fixed time after it came, in order, and as many
// as there are. The delay is the same for all, so one queue holds everything in
// the order in which it is due.
type proxy struct {
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

func newProxy(target string, delay time.Duration) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{Addr: l.Addr().String(), listener: l, target: target, delay: delay, more: make(chan struct{}, 1)}
	go p.accept()
	go p.deliver()
	return p, nil
}

func (p *proxy) Close() {
	p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.wake()
}

func (p *proxy) wake() {
	select {
	case p.more <- struct{}{}:
	default:
	}
}

func (p *proxy) accept() {
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
func (p *proxy) read(from, to *net.TCPConn) {
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

func (p *proxy) push(to *net.TCPConn, data []byte) {
	p.mu.Lock()
	// Read under the lock, so that the queue is in the order of due.
	p.queue = append(p.queue, packet{time.Now().Add(p.delay), to, data})
	p.mu.Unlock()
	p.wake()
}

// deliver sleeps in the kernel: a Go timer that is due in less than a
// millisecond may come a millisecond later when the process has nothing else
// to do.
func (p *proxy) deliver() {
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
