package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/seed13b07268/ration/bench/netem"
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
	p, err := netem.Start(target, oneWay)
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
	// A Ctrl-C is not for it, as for the server.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
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
