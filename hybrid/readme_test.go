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
	listens := start(t, "package main\n"+program, map[string]string{
		`"localhost:6379"`: strconv.Quote(redistest.Start(t).Addr),
	})
	admitted := 0
	for range 30 {
		status, h := get(t, "http://"+listens+"/?tenant=42")
		switch {
		case status == http.StatusOK:
			admitted++
		case status != http.StatusTooManyRequests || h.Get("Retry-After") != "1":
			t.Fatalf("status %d, %v", status, h)
		}
	}
	if admitted < 20 || admitted > 25 { // 20 at once, and one a second
		t.Errorf("%d of 30 admitted", admitted)
	}
}

// TestReadmeHTTP: so do the README's lines for HTTP handlers.
func TestReadmeHTTP(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, lines, found := strings.Cut(string(page), "\n```go\nlimits := httplimit.Limits{")
	lines, _, ended := strings.Cut(lines, "```\n")
	if !found || !ended {
		t.Fatal("README.md has no lines for HTTP handlers")
	}
	const program = `package main

import (
	"log"
	"net/http"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
)

func main() {
	store, mux := hybrid.NewMemory(), http.NewServeMux()
	mux.HandleFunc("/items/{id}", func(http.ResponseWriter, *http.Request) {})
	limits := httplimit.Limits{`
	listens := start(t, program+lines+"}\n", nil)
	const policy = `"client";q=50;w=5, "endpoint";q=500;w=1`
	for n := 1; ; n++ {
		status, h := get(t, "http://"+listens+"/items/7")
		if status == http.StatusOK && n < 10_000 { // 10/s come meanwhile
			continue
		}
		// A store that is late, on a busy machine, has some tokens lent and not used.
		if status != http.StatusTooManyRequests || n <= 40 || h.Get("Retry-After") != "1" ||
			h.Get("RateLimit-Policy") != policy {
			t.Errorf("request %d: %d %v", n, status, h)
		}
		return
	}
}

// start builds and starts a program that listens on localhost:8080, but with another address, and
// with each text in place of another one. It returns the address.
func start(t *testing.T, program string, texts map[string]string) string {
	t.Helper()
	listens := redistest.FreeAddr(t)
	replace := func(from, to string) {
		t.Helper()
		if strings.Count(program, from) != 1 {
			t.Fatalf("the program does not say %s once", from)
		}
		program = strings.Replace(program, from, to, 1)
	}
	replace(`"localhost:8080"`, strconv.Quote(listens))
	for from, to := range texts {
		replace(from, to)
	}
	source, binary := filepath.Join(t.TempDir(), "main.go"), filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
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
	return listens
}

// get asks until the server is there.
func get(t *testing.T, url string) (status int, header http.Header) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		r, err := http.Get(url)
		if err == nil {
			r.Body.Close()
			return r.StatusCode, r.Header
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
