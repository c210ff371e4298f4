package hybrid_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/tether"
)

// TestReadme: the README's program, as it stands there but for its two addresses, builds
// and limits.
func TestReadme(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, program, found := strings.Cut(string(page), "```go\npackage main\n")
	program, _, ended := strings.Cut(program, "```\n")
	if !found || !ended {
		t.Fatal("README.md has no program")
	}
	listens := redistest.FreeAddr(t)
	for from, to := range map[string]string{
		`"localhost:6379"`: strconv.Quote(redistest.Start(t).Addr),
		`"localhost:8080"`: strconv.Quote(listens),
	} {
		if strings.Count(program, from) != 1 {
			t.Fatalf("the program does not say %s once", from)
		}
		program = strings.Replace(program, from, to, 1)
	}
	source, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("package main\n"+program), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", binary, source).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(binary)
	gone, err := tether.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-gone
	})

	get := func() (status int, retryAfter string) {
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			r, err := http.Get("http://" + listens + "/?tenant=42")
			if err == nil {
				r.Body.Close()
				return r.StatusCode, r.Header.Get("Retry-After")
			}
			if time.Now().After(deadline) {
				t.Fatal(err)
			}
		}
	}
	admitted := 0
	for range 30 {
		status, retryAfter := get()
		switch {
		case status == http.StatusOK:
			admitted++
		case status != http.StatusTooManyRequests || retryAfter != "1":
			t.Fatalf("status %d, Retry-After %q", status, retryAfter)
		}
	}
	if admitted < 20 || admitted > 25 { // 20 at once, and one a second
		t.Errorf("%d of 30 admitted", admitted)
	}
}
