// Package redistest starts real Redis servers for tests.
package redistest

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// patience bounds how long a server may take to start.
const patience = 10 * time.Second

// A Server is a redis-server process on a loopback port, without persistence.
// It ends with its test, or with the test binary, whatever ends that.
type Server struct {
	Addr string // host:port, the same after Restart

	t      testing.TB
	config []string
	cmd    *exec.Cmd
	out    *output
	done   <-chan struct{} // closed when the process has ended
}

// Start starts a server, with more lines of redis.conf if need be; a line that
// begins with "sentinel" makes it a Sentinel. Without redis-server on this
// machine it skips the test, or fails it where the environment says CI.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("redistest: %v", err)
		}
		t.Skipf("redistest: %v", err)
	}
	s := &Server{t: t, config: config}
	t.Cleanup(s.Kill)
	var err error
	for range 5 { // the port may be taken between choosing and binding it
		s.Addr = FreeAddr(t)
		if err = s.start(); err == nil {
			return s
		}
	}
	t.Fatalf("redistest: %v", err)
	return nil
}

// FreeAddr returns a loopback address that nobody listens on.
func FreeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	defer l.Close()
	return l.Addr().String()
}

// Port is the port of Addr.
func (s *Server) Port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// Client returns a client of the server's, which ends with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Kill ends the process at once. What it held is lost.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		<-s.done
		s.cmd = nil
	}
}

// Restart ends the process and starts an empty one at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	if err := s.start(); err != nil {
		s.t.Fatalf("redistest: restart: %v", err)
	}
}

func (s *Server) start() error {
	dir := s.t.TempDir()
	config := append([]string{
		"bind 127.0.0.1", "port " + s.Port(), "dir " + dir,
		`save ""`, "appendonly no", "repl-diskless-sync-delay 0",
	}, s.config...)
	file := filepath.Join(dir, "redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(config, "\n")), 0o600); err != nil {
		return err
	}
	args := []string{file}
	if slices.ContainsFunc(s.config, func(line string) bool { return strings.HasPrefix(line, "sentinel ") }) {
		args = append(args, "--sentinel")
	}
	s.out = &output{}
	s.cmd = exec.Command("redis-server", args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	var err error
	if s.done, err = tether.Start(s.cmd); err != nil {
		s.cmd = nil
		return err
	}
	if err := s.ready(); err != nil {
		s.Kill()
		return fmt.Errorf("redis-server with %q: %w\n%s", config, err, s.out)
	}
	return nil
}

// ready waits until the server that answers at the port is this one.
func (s *Server) ready() error {
	c := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer c.Close()
	pid := "process_id:" + strconv.Itoa(s.cmd.Process.Pid)
	deadline := time.Now().Add(patience)
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
			return fmt.Errorf("ended before it was ready")
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not ready after %v: %v", patience, err)
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
