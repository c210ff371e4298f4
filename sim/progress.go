package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"
)

// progressInterval is how often the line on the terminal is rewritten.
const progressInterval = 200 * time.Millisecond

func isTerminal(w io.Writer) bool {
	if c, ok := w.(*printer); ok {
		w = c.Writer
	}
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// showLine keeps a line on w up to date until stop is called, which erases it.
// If w is no terminal it writes nothing.
func showLine(w io.Writer, text func(elapsed time.Duration) string) (stop func()) {
	if !isTerminal(w) {
		return func() {}
	}
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		start := time.Now()
		for {
			select {
			case <-tick.C:
				fmt.Fprintf(w, "\r%s\x1b[K", text(time.Since(start)))
			case <-done:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		close(done)
		<-stopped
	}
}

// showBar shows which part of all is done, and how long the rest will take.
func showBar(w io.Writer, what string, all float64, done *atomic.Int64) (stop func()) {
	return showLine(w, func(elapsed time.Duration) string {
		return barText(what, min(float64(done.Load())/max(all, 1), 1), elapsed)
	})
}

func barText(what string, part float64, elapsed time.Duration) string {
	const width = 30
	full := int(part * width)
	left := ""
	if part > 0 {
		rest := time.Duration(float64(elapsed) * (1 - part) / part)
		left = fmt.Sprintf("  %v left", rest.Round(time.Second))
	}
	bar := strings.Repeat("#", full) + strings.Repeat(".", width-full)
	return fmt.Sprintf("%s [%s] %3.0f %%%s", what, bar, 100*part, left)
}
