package redisserver

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// childVariable makes the test binary one that starts a server and is killed.
const childVariable = "RATION_BENCH_SERVER"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) == "" {
		os.Exit(m.Run())
	}
	s, err := Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(s.Addr)
	time.Sleep(time.Minute)
}

// TestProgramKilled: a server ends with the program that was to stop it.
func TestProgramKilled(t *testing.T) {
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"=1", "TMPDIR="+t.TempDir()) // the server's folder stays
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var addr string
	if _, err := fmt.Fscanln(out, &addr); err != nil {
		t.Fatal(err)
	}
	answers := func() bool {
		conn, err := net.Dial("tcp", addr)
		if err == nil {
			conn.Close()
		}
		return err == nil
	}
	if !answers() {
		t.Fatalf("no server at %s", addr)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); answers(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 30*time.Second {
			t.Fatal("the server is still there")
		}
	}
}
