package redistest_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
)

// childVariable makes the test binary one that is killed, and says in which state
// its server is then.
const childVariable = "RATION_REDISTEST_SERVER"

// TestBinaryKilled: a server ends with its test binary, which had no time to
// end it, whatever state it is in.
func TestBinaryKilled(t *testing.T) {
	states := map[string]func(*redistest.Server){
		"started":   func(*redistest.Server) {},
		"restarted": (*redistest.Server).Restart,
		"frozen":    (*redistest.Server).Freeze,
		"thawed":    func(s *redistest.Server) { s.Freeze(); s.Thaw() },
	}
	if do, child := states[os.Getenv(childVariable)]; child {
		s := redistest.Start(t)
		do(s)
		fmt.Println("\naddr", s.Addr)
		time.Sleep(time.Minute)
	}
	redistest.Start(t) // or skip
	for name := range states {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestBinaryKilled$")
			// Its folders stay.
			cmd.Env = append(os.Environ(), childVariable+"="+name, "TMPDIR="+t.TempDir())
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			addr, found := "", false
			for lines := bufio.NewScanner(out); !found && lines.Scan(); {
				addr, found = strings.CutPrefix(lines.Text(), "addr ")
			}
			answers := func() bool {
				conn, err := net.Dial("tcp", addr)
				if err == nil {
					conn.Close()
				}
				return err == nil
			}
			if !answers() {
				t.Fatalf("no server at %q", addr)
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			for start := time.Now(); answers(); time.Sleep(time.Millisecond) {
				if time.Since(start) > 30*time.Second {
					t.Fatal("the server is still there")
				}
			}
		})
	}
}

// An address belongs to who was given it, though nobody listens there yet: with a birthday's
// chance two of 400 would be the same.
func TestFreeAddr(t *testing.T) {
	given := map[string]bool{}
	for range 400 {
		addr := redistest.FreeAddr(t)
		if given[addr] {
			t.Fatalf("%s was given twice", addr)
		}
		given[addr] = true
	}
}
