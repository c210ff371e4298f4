// Package foreign calls code of users on goroutines of ours: loggers, stores, functions of a
// Config.
//
// # Promise
//
// A panic there does not end the program. A Logger that hangs holds up nothing but later lines.
//
// It does not promise that such a call ends: nothing can end it.
package foreign

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// A Panic is what a call has panicked with.
type Panic struct {
	Value any
	Stack []byte
}

// Error has both: whoever reads it looks for a line of the user's code.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }

// Call calls f, and returns its panic, or nil.
func Call(f func()) (p *Panic) {
	defer func() {
		if x := recover(); x != nil {
			p = &Panic{x, debug.Stack()}
		}
	}()
	f()
	return nil
}

// mostLines is how many lines wait for a Logger. Lines are few: so many come in no outage.
const mostLines = 64

// A Book has log lines written one after the other, by a goroutine that ends when none is left.
// It is safe for concurrent use.
type Book struct {
	mu      sync.Mutex
	lines   []func()
	written chan struct{} // closed when none is left; nil if none is
	panics  uint64
	lost    uint64
	closed  bool
}

// Post has a line written soon, or never if 64 others wait, or after Close. It does not block.
func (b *Book) Post(line func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.lines) >= mostLines {
		b.lost++
		return
	}
	b.lines = append(b.lines, line)
	if b.written == nil {
		b.written = make(chan struct{})
		go b.write()
	}
}

// write writes lines until none is left. A Logger that ends its goroutine (runtime.Goexit) gets
// another one.
func (b *Book) write() {
	returned := false
	defer func() {
		if !returned {
			go b.write()
		}
	}()
	for line := b.next(); line != nil; line = b.next() {
		if Call(line) != nil {
			b.mu.Lock()
			b.panics++
			b.mu.Unlock()
		}
	}
	returned = true
}

// next takes the next line, or ends the writing.
func (b *Book) next() func() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lines) == 0 {
		close(b.written)
		b.written = nil
		return nil
	}
	line := b.lines[0]
	b.lines = b.lines[1:]
	return line
}

// Counts tells how many lines have panicked, and how many were lost.
func (b *Book) Counts() (panics, lost uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.panics, b.lost
}

// Close waits until all lines are written, or ctx ends. Those that wait then are lost. No other
// one begins once Close has returned.
func (b *Book) Close(ctx context.Context) error {
	b.mu.Lock()
	written := b.written
	b.mu.Unlock()
	var err error
	if written != nil {
		select {
		case <-written:
		case <-ctx.Done():
			err = fmt.Errorf("the Logger has not returned: %w", ctx.Err())
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.lost += uint64(len(b.lines))
	b.lines = nil
	return err
}
