// Package tether starts processes that end with this one, whatever ends it. A
// test binary that is killed, or that panics because its time is over, runs no
// cleanup, and what it has started would stay.
//
// Each process has a watcher, a shell that reads from a pipe. Nobody but this
// process writes to the pipe, and so it ends when this process does: the watcher
// then kills the other process, also one that is stopped.
//
// Rejected: Pdeathsig, which only Linux has, and which is sent when the thread
// ends that started the process (golang.org/issue/27505).
package tether

import (
	"fmt"
	"io"
	"os"
	"os/exec"
)

const (
	// enter is what a process runs first: it tells the watcher its number and then
	// becomes the command, under the same number. There is no moment in which it
	// runs unwatched.
	enter = `echo $$ >&3 && exec "$@" 3>&-`

	// watch outlives the signals that may end this process, which a terminal sends
	// to all of its group. The line that it writes says that it ignores them now.
	watch = `trap '' HUP INT QUIT TERM; echo; read -r pid && { read -r end; kill -9 "$pid"; }`
)

// Start starts a command as cmd.Start does; it must not have ExtraFiles. The
// channel is closed when the process has ended; nobody else may wait for it.
func Start(cmd *exec.Cmd) (ended <-chan struct{}, err error) {
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil, fmt.Errorf("tether: %w", err)
	}
	out, in, err := os.Pipe() // no other process inherits it
	if err != nil {
		return nil, fmt.Errorf("tether: %w", err)
	}
	watcher := exec.Command(shell, "-c", watch)
	watcher.Stdin = out
	watcher.SysProcAttr = cmd.SysProcAttr // what kills a process group kills both, or neither
	outlives, err := watcher.StdoutPipe()
	if err == nil {
		err = watcher.Start()
	}
	out.Close()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("tether: %w", err)
	}
	release := func() {
		_ = watcher.Process.Kill()
		_ = watcher.Wait() // it was killed
		in.Close()
	}
	if _, err := io.ReadFull(outlives, make([]byte, 1)); err != nil {
		release()
		return nil, fmt.Errorf("tether: the watcher ended: %w", err)
	}
	cmd.Args = append([]string{"sh", "-c", enter, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = shell
	cmd.ExtraFiles = []*os.File{in}
	if err := cmd.Start(); err != nil {
		release()
		return nil, err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		release()
		close(done)
	}()
	return done, nil
}
