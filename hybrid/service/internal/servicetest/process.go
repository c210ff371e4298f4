//go:build unix

package servicetest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// A Process is a service of its own, which ends with the test.
type Process struct {
	HTTP, GRPC, Metrics string // addresses, the same after a restart

	Cmd   *exec.Cmd
	Ended <-chan struct{} // closed when it has

	t        testing.TB
	program  string
	args     []string
	mu       sync.Mutex
	log      []string
	password string
}

// Build builds the program in a folder.
func Build(folder string) (program string, err error) {
	program = filepath.Join(folder, "service")
	out, err := exec.Command("go", "build", "-o", program,
		"github.com/seed13b07268/ration/hybrid/service").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("go build: %w: %s", err, out)
	}
	return program, nil
}

// StartProcess starts a service with a data folder of its own, and returns when it serves.
func StartProcess(t testing.TB, program string, args ...string) *Process {
	t.Helper()
	p := &Process{t: t, program: program, HTTP: redistest.FreeAddr(t), GRPC: redistest.FreeAddr(t),
		Metrics: redistest.FreeAddr(t)}
	p.args = append([]string{"-http", p.HTTP, "-grpc", p.GRPC, "-metrics", p.Metrics,
		"-data", t.TempDir(), "-log-format", "json"}, args...)
	p.Start()
	t.Cleanup(func() { p.Kill() })
	return p
}

// Start starts the process, anew after a kill.
func (p *Process) Start() {
	p.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		p.t.Fatal(err)
	}
	p.Cmd = exec.Command(p.program, p.args...)
	p.Cmd.Stderr = w
	p.Cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	p.Ended, err = tether.Start(p.Cmd)
	w.Close()
	if err != nil {
		p.t.Fatal(err)
	}
	serving := make(chan struct{})
	go p.read(r, serving)
	select {
	case <-serving:
	case <-p.Ended:
		p.t.Fatalf("the service has ended: %s", p.Told())
	case <-time.After(time.Minute):
		p.t.Fatalf("the service does not serve for a minute: %s", p.Told())
	}
}

func (p *Process) read(r *os.File, serving chan<- struct{}) {
	defer r.Close()
	for lines := bufio.NewScanner(r); lines.Scan(); {
		text := lines.Text()
		p.mu.Lock()
		p.log = append(p.log, text)
		if _, password, found := strings.Cut(text, "with the password "); found {
			p.password = password
		}
		p.mu.Unlock()
		var line struct{ Msg string }
		if json.Unmarshal([]byte(text), &line) == nil && line.Msg == "serving" {
			close(serving)
		}
	}
}

// Told is what the process has written.
func (p *Process) Told() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.log, "\n")
}

// Password is the first user's, if the process has printed it.
func (p *Process) Password() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.password
}

// Kill ends the process as a crash does.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill() // it may have ended
	<-p.Ended
}

// Terminate ends the process as an operator does.
func (p *Process) Terminate() {
	_ = p.Cmd.Process.Signal(syscall.SIGTERM)
	<-p.Ended
}
