package httplimit_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/remote"
	"github.com/seed13b07268/ration/remote/redistest"
	"github.com/seed13b07268/ration/remote/redistest/pagetest"
)

// curl runs it, and returns what it prints. Without it the test is skipped, or fails in CI.
func curl(t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"--silent", "--show-error", "--max-time", "20", "--noproxy", "*"}, args...)
	out, err := exec.Command(pagetest.Installed(t, "curl"), args...).Output()
	if err != nil {
		t.Fatalf("curl %v: %v", args, err)
	}
	return strings.ReplaceAll(string(out), "\r", "")
}

// TestCurl: what a real client gets, over HTTP/1.1 and HTTP/2.
func TestCurl(t *testing.T) {
	for _, protocol := range []string{"--http1.1", "--http2-prior-knowledge"} {
		t.Run(protocol, func(t *testing.T) {
			guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{Limits: httplimit.Limits{
				{Name: "client", Key: httplimit.Client{}, Limit: hybrid.PerHour(2)},
				{Name: "everybody", Limit: hybrid.PerSecond(1000), Hidden: true},
			}})
			s := httptest.NewUnstartedServer(guard.Handler(hello))
			s.Config.Protocols = new(http.Protocols)
			s.Config.Protocols.SetHTTP1(true)
			s.Config.Protocols.SetUnencryptedHTTP2(true)
			s.Start()
			defer s.Close()
			status := map[string][2]string{
				"--http1.1":               {"HTTP/1.1 200 OK", "HTTP/1.1 429 Too Many Requests"},
				"--http2-prior-knowledge": {"HTTP/2 200 ", "HTTP/2 429 "},
			}[protocol]
			ask := func(args ...string) string {
				return strings.ToLower(curl(t, append(args, "--include", protocol, s.URL)...))
			}
			holds := func(what, got string, lines ...string) {
				t.Helper()
				for _, line := range lines {
					if !strings.Contains(got, strings.ToLower(line)) {
						t.Errorf("%s: no %q in\n%s", what, line, got)
					}
				}
			}
			holds("first", ask(), status[0], "\nratelimit: \"client\";r=1;t=1800\n",
				"\nratelimit-policy: \"client\";q=2;w=3600\n", "\n\nhello\n")
			holds("HEAD", ask("--head"), status[0], "\nratelimit: \"client\";r=0;t=3")
			denied := ask()
			holds("denied", denied, status[1], "\nratelimit: \"client\";r=0;t=1",
				"\nretry-after: 1", "\ncontent-type: application/problem+json\n",
				`"violated-policies":["client"]}`)
			holds("HEAD, denied", ask("--head"), status[1], "\nretry-after: ")
			if strings.Contains(denied, "everybody") {
				t.Errorf("a hidden limit is told:\n%s", denied)
			}
		})
	}
}

// TestBehindProxy: behind a real proxy clients are told apart by their own addresses, whatever
// they say themselves.
func TestBehindProxy(t *testing.T) {
	for _, header := range []string{"X-Forwarded-For", "Forwarded"} {
		t.Run(header, func(t *testing.T) {
			client := httplimit.Client{
				Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, Header: header,
			}
			guard := newGuard(t, hybrid.NewMemory(), httplimit.Config{Limits: httplimit.Limits{
				{Name: "client", Key: client, Limit: hybrid.PerHour(2)},
			}})
			upstream := httptest.NewServer(guard.Handler(hello))
			defer upstream.Close()
			target, err := url.Parse(upstream.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				r.SetURL(target)
				r.Out.Header[header] = r.In.Header[header]
				if header == "X-Forwarded-For" {
					r.SetXForwarded() // it appends
				} else {
					hop := `for="` + r.In.RemoteAddr + `";proto=http`
					r.Out.Header.Add(header, hop)
				}
			}})
			defer proxy.Close()
			status := func(interfaceAddr, spoofed string) string {
				return curl(t, "--interface", interfaceAddr, "--header", header+": "+spoofed,
					"--output", os.DevNull, "--write-out", "%{http_code}", proxy.URL)
			}
			got := ""
			for _, spoofed := range []string{"1.1.1.1", "for=1.1.1.2", `for="`, "127.0.0.1"} {
				got += status("127.0.0.2", spoofed) + " "
			}
			if got += status("127.0.0.3", "127.0.0.2"); got != "200 200 429 429 200" {
				t.Error(got)
			}
		})
	}
}

// TestTwoServersOneRedis: two servers with a real Redis admit one limit together, of requests
// that come at the same time.
func TestTwoServersOneRedis(t *testing.T) {
	redis := redistest.Start(t)
	limits := httplimit.Limits{
		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.PerHour(20)},
		{Name: "endpoint", Key: httplimit.Pattern{}, Limit: hybrid.PerSecond(1000)},
	}
	var servers []*httptest.Server
	for range 2 {
		limiter, err := hybrid.New(remote.New(redis.Client()), hybrid.Config{
			LimitFor: limits.For, Process: hybrid.NewProcess(), Timeout: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { limiter.Close(context.Background()) })
		guard, err := httplimit.New(limiter, httplimit.Config{
			Limits: limits, OnError: httplimit.FailClosed,
		})
		if err != nil {
			t.Fatal(err)
		}
		servers = append(servers, serve(t, guard.Handler(hello), true))
	}
	var mu sync.Mutex
	statuses := map[int]int{}
	var all sync.WaitGroup
	for i := range 8 {
		s := servers[i%2]
		all.Go(func() {
			for range 10 {
				resp, err := s.Client().Get(s.URL)
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				mu.Lock()
				statuses[resp.StatusCode]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	// A server may deny while tokens are on lease to the other one.
	if statuses[200] < 15 || statuses[200] > 20 || statuses[200]+statuses[429] != 80 {
		t.Errorf("of 80 requests, by status: %v", statuses)
	}
}
