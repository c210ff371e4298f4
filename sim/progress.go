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

// showProgress keeps a line on w up to date until stop is called, which erases
// it. If w is no terminal it writes nothing.
func showProgress(w io.Writer, total time.Duration, count func() (fired, admitted int)) (stop func()) {
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
			fired, admitted := count()
			fmt.Fprintf(w, "\r%5.1f of %.1f s  %s requests  %s admitted\x1b[K",
				time.Since(start).Seconds(), total.Seconds(), thousands(fired), thousands(admitted))
			select {
			case <-tick.C:
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
