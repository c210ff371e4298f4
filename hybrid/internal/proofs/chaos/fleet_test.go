//go:build linux || darwin

package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// A fleet is the processes that share the limits of a history.
type fleet struct {
	orders  orders
	routes  []map[string]string // of each process
	history *history

	mu      sync.Mutex
	running []*process
	starts  uint64
	errs    []error
}

// A process is a worker.
type process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr bytes.Buffer
	life   *life
	read   chan struct{}   // closed when all that it wrote has been read
	ended  <-chan struct{} // closed when it has ended
}

// start starts the i-th process anew.
func (f *fleet) start(i int) error {
	f.starts++
	o := f.orders
	o.Seed += f.starts << 32
	o.Routes = f.routes[i]
	if o.Harm != harmless && i%2 == 1 {
		o.Harm = hangs
	}
	p := &process{cmd: exec.Command(os.Args[0]), life: f.history.begin(), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), workerVariable+"=1", fmt.Sprint("GOMAXPROCS=", threads))
	p.cmd.Stderr = &p.stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, stdout, err := os.Pipe() // not a StdoutPipe: what is in it outlives the process
	if err != nil {
		return err
	}
	p.cmd.Stdout = stdout
	p.ended, err = tether.Start(p.cmd)
	stdout.Close()
	if err != nil {
		out.Close()
		return err
	}
	p.stdin = stdin
	go f.follow(p, out)
	f.running[i] = p
	return json.NewEncoder(stdin).Encode(o)
}

// follow takes down what a process writes.
func (f *fleet) follow(p *process, out io.ReadCloser) {
	defer close(p.read)
	defer out.Close()
	buffer := make([]byte, 1000*recordSize)
	have := 0
	for {
		n, err := out.Read(buffer[have:])
		have += n
		whole := have - have%recordSize
		f.history.note(p.life, buffer[:whole])
		have = copy(buffer, buffer[whole:have])
		if err != nil {
			return
		}
	}
}

// kill ends a process at once. What it wrote is read.
func (f *fleet) kill(p *process) {
	_ = p.cmd.Process.Signal(syscall.SIGKILL)
	<-p.read
	<-p.ended
}

// crash kills the i-th process and starts another one in its place.
func (f *fleet) crash(i int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := clock()
	f.kill(f.running[i])
	if err := f.start(i); err != nil {
		f.errs = append(f.errs, err)
	}
	f.history.suffer(fault{kind: "kill", span: span{from, clock()}})
}

// freeze stops the i-th process for a time.
func (f *fleet) freeze(i int, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	from := clock()
	p := f.running[i].cmd.Process
	_ = p.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	_ = p.Signal(syscall.SIGCONT)
	f.history.suffer(fault{kind: "stop", span: span{from, clock()}})
}

// asks reports whether the i-th process has begun to ask.
func (f *fleet) asks(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.history.asks(f.running[i].life)
}

// settled reports whether all goes well.
func (f *fleet) settled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lives []*life
	for _, p := range f.running {
		if p != nil {
			lives = append(lives, p.life)
		}
	}
	return f.history.settled(lives)
}

// launch starts a fleet of so many processes.
func launch(o orders, h *history, routes []map[string]string) *fleet {
	f := &fleet{orders: o, routes: routes, history: h, running: make([]*process, len(routes))}
	for i := range routes {
		if err := f.start(i); err != nil {
			f.errs = append(f.errs, err)
		}
	}
	return f
}

// stop ends all processes, and tells what went wrong with any.
func (f *fleet) stop() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, p := range f.running {
		if p == nil {
			continue
		}
		select {
		case <-p.ended:
			f.errs = append(f.errs,
				fmt.Errorf("process %d ended by itself: %.2000s", i, p.stderr.Bytes()))
		default:
		}
		f.kill(p)
		f.running[i] = nil
	}
	return f.errs
}
