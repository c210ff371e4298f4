package hybrid_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/longform"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// TestReadme: the README's program, as it stands there but for its two addresses, builds
// and limits.
func TestReadme(t *testing.T) {
	longform.None(t)
	long(t)
	listens := redistest.FreeAddr(t)
	pagetest.Run(t, "", pagetest.Fragment(t, "../README.md", "package main\n"), map[string]string{
		"localhost:6379": redistest.Start(t).Addr, "localhost:8080": listens,
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

// TestHTTPPage: so do the lines of docs/http.md for a server.
func TestHTTPPage(t *testing.T) {
	longform.None(t)
	long(t)
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
`
	lines := pagetest.Fragment(t, "../docs/http.md", "limits := httplimit.Limits{\n")
	listens := redistest.FreeAddr(t)
	pagetest.Run(t, "", program+lines+"}\n", map[string]string{"localhost:8080": listens})
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
