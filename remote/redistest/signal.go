package redistest

import (
	"os/exec"
	"strconv"
)

// Freeze stops the process as it is: its connections stay open, and nobody
// answers. Thaw lets it go on, with all that was sent meanwhile.
func (s *Server) Freeze() { s.signal("-STOP") }

// Thaw ends a Freeze.
func (s *Server) Thaw() { s.signal("-CONT") }

// signal goes through a command, because package syscall does not know these
// signals everywhere.
func (s *Server) signal(name string) {
	s.t.Helper()
	kill := exec.Command("kill", name, strconv.Itoa(s.Process().Pid))
	if out, err := kill.CombinedOutput(); err != nil {
		s.t.Fatalf("redistest: kill %s: %v: %s", name, err, out)
	}
}
