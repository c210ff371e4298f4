package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// progressInterval is how often the line on the terminal is rewritten.
const progressInterval = 200 * time.Millisecond

// showProgress shows how far a run is.
func showProgress(w io.Writer, total time.Duration, count func() (fired, admitted int)) (stop func()) {
	return showLine(w, func(elapsed time.Duration) string {
		fired, admitted := count()
		return fmt.Sprintf("%5.1f of %.1f s  %s requests  %s admitted",
			elapsed.Seconds(), total.Seconds(), thousands(fired), thousands(admitted))
	})
}

// showLine keeps a line on w up to date until stop is called, which erases it.
// If w is no terminal it writes nothing.
func showLine(w io.Writer, text func(elapsed time.Duration) string) (stop func()) {
	file, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
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
