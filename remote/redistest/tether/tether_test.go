//go:build unix

package tether

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// roleVariable makes the test binary the parent of a child, or that child.
const roleVariable = "RATION_TETHER"

const (
	patience = 10 * time.Second // with a process that is to end
	long     = time.Minute      // until one ends by itself
)

func TestMain(m *testing.M) {
	switch how, role := os.Getenv(howVariable), os.Getenv(roleVariable); role {
	case "":
		os.Exit(m.Run())
	case "parent":
		if err := parent(how); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	case "child":
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		fmt.Println(os.Getpid())
		time.Sleep(long)
	}
}

// howVariable says how the parent is to end.
const howVariable = "RATION_TETHER_END"

// parent starts a child that writes to the same standard output.
func parent(how string) error {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=child")
	cmd.Stdout = os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: strings.HasSuffix(how, "apart")}
	if _, err := Start(cmd); err != nil {
		return err
	}
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil { // the child is ready
		return err
	}
	switch how {
	case "exit":
		os.Exit(0)
	case "panic":
		panic("as after -timeout")
	case "stopped":
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	time.Sleep(long)
	return nil
}

// TestEnd: a process ends with its parent. Its standard output, which is the
// parent's, is then closed.
func TestEnd(t *testing.T) {
	kill := func(signal syscall.Signal) func(int) error {
		return func(pid int) error { return syscall.Kill(pid, signal) }
	}
	group := func(signal syscall.Signal) func(int) error {
		return func(pid int) error { return syscall.Kill(-pid, signal) }
	}
	nothing := func(int) error { return nil }
	for how, end := range map[string]func(pid int) error{
		"exit": nothing, "panic": nothing, "stopped": nothing,
		"killed": kill(syscall.SIGKILL), "Ctrl-C": group(syscall.SIGINT),
		"hang-up": group(syscall.SIGHUP), "terminated": group(syscall.SIGTERM),
		"killed, child apart": kill(syscall.SIGKILL), "Ctrl-C, child apart": group(syscall.SIGINT),
		"group killed, child apart": group(syscall.SIGKILL),
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			if how == "hang-up" && signal.Ignored(syscall.SIGHUP) {
				t.Skip("SIGHUP is ignored, as under nohup, and so no hang-up ends a process")
			}
			if strings.HasPrefix(how, "Ctrl-C") && signal.Ignored(syscall.SIGINT) {
				t.Skip("SIGINT is ignored, as in a script's background, and so no Ctrl-C ends a process")
			}
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), roleVariable+"=parent", howVariable+"="+how)
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, stdout, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			cmd.Stdout = stdout
			err = cmd.Start()
			stdout.Close()
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
			var child int
			if _, err := fmt.Fscanln(out, &child); err != nil {
				t.Fatal(err)
			}
			if _, err := in.Write([]byte("\n")); err != nil {
				t.Fatal(err)
			}
			if err := end(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			_ = out.SetReadDeadline(time.Now().Add(patience))
			if _, err := io.ReadAll(out); err != nil {
				t.Errorf("the child is still there: %v", err)
				_ = syscall.Kill(child, syscall.SIGKILL)
			}
		})
	}
}

// TestStart: the command runs under the number that cmd has, without the pipe's
// descriptor, and when it has ended nothing of it is left.
func TestStart(t *testing.T) {
	var out strings.Builder
	cmd := exec.Command("sh", "-c", `echo "$1 $$"; echo >&3 || exit 7`, "sh", "a b")
	cmd.Stdout = &out
	ended, err := Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	<-ended
	if want := fmt.Sprintln("a b", cmd.Process.Pid); out.String() != want ||
		cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("%q, %v, want %q and 7", &out, cmd.ProcessState, want)
	}
	if _, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("there are child processes: %v", err)
	}
	if _, err := Start(exec.Command("no-such-command-of-ration")); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v", err)
	}
}
