// Package redisserver starts Redis servers on loopback, for tests and for programs that
// measure.
package redisserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// Patience bounds how long a server may take to start.
const Patience = 10 * time.Second

// Variable of the environment names the server to start, as a program on the PATH or a path.
const Variable = "RATION_SERVER"

// Program is the server to start: what Variable names, or redis-server.
func Program() string {
	if program := os.Getenv(Variable); program != "" {
		return program
	}
	return "redis-server"
}

// A Server is a process of a server on a loopback port, without persistence. It ends with
// this process, whatever ends that. A Ctrl-C is not for it. Its methods are not safe for
// concurrent use.
type Server struct {
	Addr string // host:port, the same after Restart

	program string
	config  []string
	dir     string
	cmd     *exec.Cmd // nil if it has been killed
	out     *output
	done    <-chan struct{} // closed when the process has ended
}

// Start starts a server of a program on the PATH, or a path, with more lines of redis.conf
// if need be; a line that begins with "sentinel" makes it a Sentinel.
func Start(program string, config ...string) (*Server, error) {
	if _, err := exec.LookPath(program); err != nil {
		return nil, fmt.Errorf("redisserver: %w", err)
	}
	s := &Server{program: program, config: config}
	var err error
	if s.Addr, err = FreeAddr(); err != nil {
		return nil, err
	}
	if err = s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

// Ports from firstPort on, with those of buses, are below those that systems give to outgoing
// connections, from 32768 on: an address whose server has ended stays free for its restart.
const firstPort, ports = 10001, 12000

// kept are sockets on the numbers of the ports that FreeAddr has given: see reserve.
var kept struct {
	sync.Mutex
	sockets []net.PacketConn
}

// FreeAddr returns a loopback address that nobody listens on, nor on the port
// 10,000 above: a node of a Cluster has its bus there, and up to Redis 6.2 nowhere
// else. As long as this process lives, no process is given either by this function.
func FreeAddr() (string, error) {
	var err error
	for range 100 {
		port := firstPort + rand.IntN(ports)
		if err = reserve(port); err != nil {
			continue
		}
		if err = reserve(port + 10000); err == nil {
			return address(port), nil
		}
	}
	return "", fmt.Errorf("redisserver: no free port: %w", err)
}

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// reserve returns an error unless a server can listen on the TCP port. Between that and the
// server's start, or during its restart, the UDP port of the same number says that it is taken.
func reserve(port int) error {
	socket, err := net.ListenPacket("udp", address(port))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", address(port))
	if err != nil {
		return errors.Join(err, socket.Close())
	}
	kept.Lock()
	kept.sockets = append(kept.sockets, socket)
	kept.Unlock()
	return l.Close()
}

// Port is the port of Addr.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Process is that of the server, or nil if it has been killed.
func (s *Server) Process() *os.Process {
	if s.cmd == nil {
		return nil
	}
	return s.cmd.Process
}

// Kill ends the process at once. What it held is lost.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.done
		os.RemoveAll(s.dir)
		s.cmd = nil
	}
}

// Restart ends the process and starts an empty one at the same address.
func (s *Server) Restart() error {
	s.Kill()
	return s.start()
}

func (s *Server) start() (err error) {
	if s.dir, err = os.MkdirTemp("", "ration-server-"); err != nil {
		return fmt.Errorf("redisserver: %w", err)
	}
	config := append([]string{
		"bind 127.0.0.1", "port " + s.Port(), "dir " + s.dir,
		`save ""`, "appendonly no", "repl-diskless-sync-delay 0",
	}, s.config...)
	file := filepath.Join(s.dir, "redis.conf")
	if err = os.WriteFile(file, []byte(strings.Join(config, "\n")), 0o600); err == nil {
		err = s.run(file)
	}
	if err != nil {
		os.RemoveAll(s.dir)
		return fmt.Errorf("redisserver: %s with %q: %w\n%s", s.program, config, err, s.out)
	}
	return nil
}

// run starts the process, and waits until it is ready.
func (s *Server) run(file string) error {
	args := []string{file}
	watches := slices.ContainsFunc(s.config, func(line string) bool {
		return strings.HasPrefix(line, "sentinel ")
	})
	if watches {
		args = append(args, "--sentinel")
	}
	s.out = &output{}
	cmd := exec.Command(s.program, args...)
	cmd.Stdout, cmd.Stderr = s.out, s.out
	cmd.SysProcAttr = ownGroup()
	var err error
	if s.done, err = tether.Start(cmd); err != nil {
		return err
	}
	s.cmd = cmd
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	err = s.ready(c)
	if err == nil && watches {
		err = c.Do(context.Background(), "sentinel", "debug", "tilt-period", tilt.Milliseconds()).Err()
	}
	if err != nil {
		s.Kill()
	}
	return err
}

// tilt is for how long a Sentinel fails nothing over after it has not run for 2 s, which it takes
// for a change of the clock (TILT). Its own 30 s begin anew at each stall of the machine.
const tilt = time.Second

// ready waits until the server that answers at the port is this one.
func (s *Server) ready(c *redis.Client) error {
	pid := "process_id:" + strconv.Itoa(s.cmd.Process.Pid)
	deadline := time.Now().Add(Patience)
	for {
		conn, err := net.Dial("tcp", s.Addr) // go-redis would log each failure
		if err == nil {
			conn.Close()
			var info string
			info, err = c.Info(context.Background(), "server").Result()
			if err == nil && strings.Contains(info, pid+"\r") {
				return nil
			}
		}
		select {
		case <-s.done:
			return errors.New("ended before it was ready")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %w", Patience, err)
		}
	}
}

// output keeps what the process prints.
type output struct {
	mu   sync.Mutex
	text strings.Builder
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
