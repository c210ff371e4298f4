// Package control is what both programs of this module measure with: Redis
// servers of their own, and the script that everything is compared with.
package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// PlainBucket is what a limiter without leases runs for each request: a token
// bucket that is read, computed, written and given its end. It keeps fractions and
// uses the server's clock. KEYS[1] is the bucket; ARGV are rate, burst and the
// tokens asked for.
const PlainBucket = `
local rate, burst, n = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(bucket[1]) or burst, tonumber(bucket[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate)
local allowed = tokens >= n and 1 or 0
if allowed == 1 then tokens = tokens - n end
redis.call('HSET', KEYS[1], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
return {allowed, string.format('%.17g', tokens)}`

// A Server is a redis-server process on a free loopback port, without
// persistence.
type Server struct {
	Addr string

	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a server, with more of its options if need be.
func Start(config ...string) (*Server, error) {
	var err error
	for range 5 { // the port may be taken between choosing and binding it
		var s *Server
		if s, err = start(config); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// FreePort is a port of loopback that nobody listens on.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

func start(config []string) (*Server, error) {
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ration-bench-")
	if err != nil {
		return nil, err
	}
	args := append([]string{"--bind", "127.0.0.1", "--port", port, "--dir", dir, "--save", "", "--appendonly", "no", "--loglevel", "warning"}, config...)
	s := &Server{Addr: "127.0.0.1:" + port, dir: dir, cmd: exec.Command("redis-server", args...), done: make(chan struct{})}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for this process, which then stops it
	if err := s.cmd.Start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // it is always killed
		close(s.done)
	}()
	if err := s.ready(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// ready waits until the server answers a dial. (go-redis would log each failure.)
func (s *Server) ready() error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.done:
			return errors.New("redis-server ended before it was ready")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("redis-server is not ready: %w", err)
		}
	}
}

// Stop ends the process. What it held is gone.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
	os.RemoveAll(s.dir)
}
