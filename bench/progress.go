package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// A progress tells how far a run is: on a terminal in one line that it
// rewrites, elsewhere in a line per step.
type progress struct {
	w        io.Writer
	terminal bool
	left     time.Duration // expected
	last     string
}

func newProgress(file *os.File, all time.Duration) *progress {
	return &progress{w: file, terminal: term.IsTerminal(int(file.Fd())), left: all}
}

// step announces what comes next.
func (p *progress) step(name string, round, rounds int) {
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%s, round %d of %d, about %v left\x1b[K", name, round, rounds,
			p.left.Round(time.Second))
	case name != p.last:
		fmt.Fprintf(p.w, "%s, about %v left\n", name, p.left.Round(time.Second))
	}
	p.last = name
}

// done takes off what a step was expected to take.
func (p *progress) done(expected time.Duration) { p.left = max(0, p.left-expected) }

// end clears the line.
func (p *progress) end() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
