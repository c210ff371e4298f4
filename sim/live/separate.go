package live

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"sync"
	"time"
)

// An order is what a child, a process of the operating system, is told first
// on its standard input. When that is closed, it ends: so it does not outlive
// the program that started it.
type order struct {
	Setting         setting
	Life            life
	Address, Prefix string // of the keyspace; not on the command line, where all could read a password
}

// A starting is what a child is told when all are ready. Programs of one
// machine agree on the time of its wall clock.
type starting struct{ At time.Time }

// A dispatch is what a child tells of the time since its last one.
type dispatch struct {
	Ready   bool // the first one: it waits for its starting
	Answers []numbered
	Traffic traffic
	Done    bool   // the last one
	Err     string // with Done
}

// numbered is the answer to the request of the life with this index.
type numbered struct {
	Index  int
	Answer answer
}

const (
	// flushEvery is how often a child reports: what it has decided since is
	// lost when it is killed.
	flushEvery = 20 * time.Millisecond
	// spawnAhead is how long before its life a child is started.
	spawnAhead = 2 * time.Second
	// readyTime bounds how long children may take to start.
	readyTime = 30 * time.Second
	// mercy is how long a child may take to end after it was told to, beside
	// closeTime and the timeout of its last exchanges.
	mercy = 3 * time.Second
)

// A brood are the children of a run.
type brood struct {
	plan     *plan
	command  []string
	order    order // without a life
	progress *Progress
	start    time.Time     // valid when
	begun    chan struct{} // is closed

	mu      sync.Mutex
	shots   []shot
	traffic traffic
	lost    int
}

// playSeparate plays a run with a process of the operating system for each life.
func playSeparate(ctx context.Context, p *plan, space *keyspace, o Options) (r recording, err error) {
	b := &brood{
		plan: p, command: o.Separate, progress: o.Progress, begun: make(chan struct{}),
		order: order{Setting: p.setting, Address: space.address(o.Redis), Prefix: space.prefix},
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running, preparing sync.WaitGroup
	for i := range p.lives {
		l := &p.lives[i]
		first := l.From == 0
		if first {
			preparing.Add(1)
		}
		running.Go(func() {
			ready := sync.OnceFunc(func() {
				if first {
					preparing.Done()
				}
			})
			defer ready()
			if err := b.live(ctx, l, ready); err != nil {
				cancel(fmt.Errorf("process %d: %w", l.Process, err))
			}
		})
	}
	preparing.Wait()
	b.start = time.Now().Add(100 * time.Millisecond)
	close(b.begun)
	err = r.beside(ctx, p, space, b.start, func(context.Context) { running.Wait() })
	r.shots, r.traffic, r.lost = b.shots, b.traffic, b.lost
	r.turnAway(p)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
		err = errors.Join(cause, err)
	}
	return r, err
}

// live plays one life by a child of its own.
func (b *brood) live(ctx context.Context, l *life, ready func()) error {
	if l.From > 0 {
		select {
		case <-b.begun:
		case <-ctx.Done():
			return nil
		}
		if !sleepUntil(ctx, b.start, l.From-spawnAhead) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	c, err := b.spawn(l)
	if err != nil {
		return err
	}
	defer c.reap()
	if err := c.ready(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	ready()
	select {
	case <-b.begun:
	case <-ctx.Done():
		return nil
	}
	if err := c.orders.Encode(starting{b.start}); err != nil {
		return c.died(err)
	}
	return b.follow(ctx, c)
}

// A child is a process of the operating system that lives a life.
type child struct {
	life   *life
	cmd    *exec.Cmd
	stdin  io.Closer
	orders *gob.Encoder
	news   *gob.Decoder
	stderr bytes.Buffer
	reap   func() // lets it end, and waits for that
}

// spawn starts a child.
func (b *brood) spawn(l *life) (*child, error) {
	c := &child{life: l, cmd: exec.Command(b.command[0], b.command[1:]...)}
	c.cmd.Stderr = &c.stderr
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.stdin, c.orders, c.news = in, gob.NewEncoder(in), gob.NewDecoder(out)
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	c.reap = sync.OnceFunc(func() {
		_ = in.Close()
		late := time.AfterFunc(mercy, c.kill)
		defer late.Stop()
		_ = c.cmd.Wait() // what it has to say is in its reports and its standard error
	})
	o := b.order
	o.Life = *l
	if l.Crash { // it does not know, and goes on until it is killed
		o.Life.Ends, o.Life.To = false, math.MaxInt64/2
	}
	if err := c.orders.Encode(o); err != nil {
		c.reap()
		return nil, c.died(err)
	}
	return c, nil
}

// ready waits until the child is.
func (c *child) ready(ctx context.Context) error {
	late := time.AfterFunc(readyTime, c.kill)
	defer late.Stop()
	defer context.AfterFunc(ctx, func() { _ = c.stdin.Close() })()
	var d dispatch
	err := c.news.Decode(&d)
	switch {
	case ctx.Err() != nil:
		return nil
	case err != nil:
		return c.died(err)
	case d.Done:
		return errors.New(d.Err)
	}
	return nil
}

// died is the error of a child that ended by itself.
func (c *child) died(err error) error {
	c.reap() // then all of its standard error is there
	return fmt.Errorf("ended early: %w: %.1000s", err, bytes.TrimSpace(c.stderr.Bytes()))
}

// follow takes down what a child reports, until it ends. It kills the one that
// is to crash.
func (b *brood) follow(ctx context.Context, c *child) error {
	l := c.life
	if l.Crash {
		crash := time.AfterFunc(time.Until(b.start.Add(l.To)), c.kill)
		defer crash.Stop()
	}
	grace := closeTime + b.plan.setting.Timeout + mercy
	defer context.AfterFunc(ctx, func() {
		_ = c.stdin.Close()
		time.AfterFunc(grace, c.kill)
	})()
	overdue := time.AfterFunc(time.Until(b.start.Add(l.To))+grace, c.kill)
	defer overdue.Stop()

	answered := 0
	for {
		var d dispatch
		if err := c.news.Decode(&d); err != nil {
			if l.Crash && time.Since(b.start) >= l.To {
				b.note(l, dispatch{}, len(l.Requests)-answered)
				return nil
			}
			return c.died(err)
		}
		b.note(l, d, 0)
		answered += len(d.Answers)
		if d.Done {
			if d.Err != "" {
				return errors.New(d.Err)
			}
			return nil
		}
	}
}

// kill ends the child at once, as a crash does.
func (c *child) kill() { _ = c.cmd.Process.Kill() }

func (b *brood) note(l *life, d dispatch, lost int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range d.Answers {
		b.shots = append(b.shots, shot{l.Requests[a.Index], a.Answer})
		b.progress.add(a.Answer.Verdict)
	}
	b.traffic.add(d.Traffic)
	b.lost += lost
}
