// Package redistest starts real servers for tests: redis-server, or the program
// that the environment names in RATION_SERVER, such as valkey-server.
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

// serverVariable names the server to test with, as a program on the PATH or a path.
const serverVariable = "RATION_SERVER"

// A Server is a process of a server on a loopback port, without persistence.
// It ends with its test, or with the test binary, whatever ends that.
type Server struct {
	Addr string // host:port, the same after Restart

	t       testing.TB
	program string
	config  []string
	cmd     *exec.Cmd
	out     *output
	done    <-chan struct{} // closed when the process has ended
}

// Start starts a server, with more lines of redis.conf if need be; a line that
// begins with "sentinel" makes it a Sentinel. Without redis-server on this
// machine it skips the test, or fails it where the environment says CI. A server
// that RATION_SERVER names must be there: a mistyped path would pass all tests.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	program := os.Getenv(serverVariable)
	if program == "" {
		program = "redis-server"
		if _, err := exec.LookPath(program); err != nil && os.Getenv("CI") == "" {
			t.Skipf("redistest: %v", err)
		}
	}
	return StartProgram(t, program, config...)
}

// StartProgram starts a server as Start does, of a program that must be there: a name on
// the PATH, or a path.
func StartProgram(t testing.TB, program string, config ...string) *Server {
	t.Helper()
	s := &Server{t: t, config: config, program: program}
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("redistest: %v", err)
	}
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

// FreeAddr returns a loopback address that nobody listens on, nor on the port
// 10,000 above: a node of a Cluster has its bus there, and up to Redis 6.2 nowhere
// else.
func FreeAddr(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		bus := l.Addr().(*net.TCPAddr).Port + 10000
		if above, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(bus)); err == nil {
			above.Close()
			l.Close()
			return l.Addr().String()
		}
		l.Close()
	}
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
	s.cmd = exec.Command(s.program, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	var err error
	if s.done, err = tether.Start(s.cmd); err != nil {
		s.cmd = nil
		return err
	}
	if err := s.ready(); err != nil {
		s.Kill()
		return fmt.Errorf("%s with %q: %w\n%s", s.program, config, err, s.out)
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
			return fmt.Errorf("not ready after %v: %w", patience, err)
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
