// Package redisserver starts the Redis servers that both programs of this module
// measure with.
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// A Server is a redis-server process on a free loopback port, without
// persistence. It ends with this process, whatever ends that.
type Server struct {
	Addr string

	dir  string
	cmd  *exec.Cmd
	done <-chan struct{} // closed when the process has ended
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
	s := &Server{Addr: "127.0.0.1:" + port, dir: dir, cmd: exec.Command("redis-server", args...)}
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for this process, which then stops it
	if s.done, err = tether.Start(s.cmd); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
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
