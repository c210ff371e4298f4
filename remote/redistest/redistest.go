// Package redistest starts real servers for tests: redis-server, or the program
// that the environment names in RATION_SERVER, such as valkey-server.
package redistest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/seed13b07268/ration/remote/redistest/redisserver"
)

// patience bounds how long a server may take to do what it was told.
const patience = redisserver.Patience

// A Server is a process of a server on a loopback port, without persistence.
// It ends with its test, or with the test binary, whatever ends that.
type Server struct {
	*redisserver.Server

	t testing.TB
}

// Start starts a server, with more lines of redis.conf if need be; a line that
// begins with "sentinel" makes it a Sentinel. Without redis-server on this
// machine it skips the test, or fails it where the environment says CI. A server
// that RATION_SERVER names must be there: a mistyped path would pass all tests.
func Start(t testing.TB, config ...string) *Server {
	t.Helper()
	return StartProgram(t, Program(t), config...)
}

// Program is redisserver.Program. It skips the test or fails it as Start does.
func Program(t testing.TB) string {
	t.Helper()
	program := redisserver.Program()
	if _, err := exec.LookPath(program); err != nil {
		if os.Getenv(redisserver.Variable) != "" || os.Getenv("CI") != "" {
			t.Fatalf("redistest: %v", err)
		}
		t.Skipf("redistest: %v", err)
	}
	return program
}

// StartProgram starts a server as Start does, of a program that must be there: a name on
// the PATH, or a path.
func StartProgram(t testing.TB, program string, config ...string) *Server {
	t.Helper()
	s, err := redisserver.Start(program, config...)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(s.Kill)
	return &Server{s, t}
}

// FreeAddr is redisserver.FreeAddr.
func FreeAddr(t testing.TB) string {
	t.Helper()
	addr, err := redisserver.FreeAddr()
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return addr
}

// Client returns a client of the server's, which ends with the test.
func (s *Server) Client() *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	s.t.Cleanup(func() { c.Close() })
	return c
}

// Restart ends the process and starts an empty one at the same address.
func (s *Server) Restart() {
	s.t.Helper()
	if err := s.Server.Restart(); err != nil {
		s.t.Fatalf("redistest: restart: %v", err)
	}
}
