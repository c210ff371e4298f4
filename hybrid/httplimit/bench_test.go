package httplimit_test

import (
	"context"
	"net/http"
	"net/netip"
	"testing"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// nowhere is a ResponseWriter.
type nowhere http.Header

func (w nowhere) Header() http.Header       { return http.Header(w) }
func (nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (nowhere) WriteHeader(int)             {}

// BenchmarkHandler is what a Guard adds to an empty handler, with hot keys: docs/http.md has the
// figures.
func BenchmarkHandler(b *testing.B) {
	empty := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	plenty := hybrid.PerSecond(1e9)
	client := httplimit.Limit{Name: "client", Key: httplimit.Client{}, Limit: plenty}
	behind := httplimit.Client{Trusted: trusted}
	three := httplimit.Limits{
		client, {Name: "endpoint", Key: httplimit.Pattern{}, Limit: plenty},
		{Name: "everybody", Limit: plenty},
	}
	one := httplimit.Limits{client}
	none := func(http.Header, []httplimit.State) {}
	for _, c := range []struct {
		name   string
		config httplimit.Config
		denied bool
	}{
		{"empty handler", httplimit.Config{}, false},
		{"one limit", httplimit.Config{Limits: one}, false},
		{"one limit, no header fields", httplimit.Config{Limits: one, Fields: none}, false},
		{"one limit, behind a proxy", httplimit.Config{Limits: httplimit.Limits{
			{Name: "client", Key: behind, Limit: plenty},
		}}, false},
		{"one limit, and a list", httplimit.Config{
			Limits: one, List: httplimit.Client{}.Listed(new(lists.List)),
		}, false},
		{"three limits", httplimit.Config{Limits: three}, false},
		{"three limits, no header fields", httplimit.Config{Limits: three, Fields: none}, false},
		{"denied", httplimit.Config{Limits: httplimit.Limits{
			{Name: "client", Key: httplimit.Client{}, Limit: hybrid.PerHour(1)},
		}}, true},
	} {
		b.Run(c.name, func(b *testing.B) {
			var h http.Handler = empty
			if c.config.Limits != nil {
				c.config.OnError = httplimit.FailClosed
				limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: c.config.Limits.For})
				if err != nil {
					b.Fatal(err)
				}
				defer limiter.Close(context.Background())
				guard, err := httplimit.New(limiter, c.config)
				if err != nil {
					b.Fatal(err)
				}
				h = guard.Handler(empty)
			}
			r := proxied("10.0.0.1:443", "X-Forwarded-For", "192.0.2.7")
			r = r.WithContext(context.Background())
			w := nowhere{}
			for range 20_000 { // until the key is hot
				clear(w)
				h.ServeHTTP(w, r)
			}
			b.ReportAllocs()
			for b.Loop() {
				clear(w)
				h.ServeHTTP(w, r)
			}
			if denied := w.Header().Get("Retry-After") != ""; denied != c.denied {
				b.Errorf("denied: %v", denied)
			}
		})
	}
}

// BenchmarkClient is what it costs to find a client behind two proxies.
func BenchmarkClient(b *testing.B) {
	for header, line := range map[string]string{
		"X-Forwarded-For": "1.1.1.1, 192.0.2.7, 10.0.0.2",
		"Forwarded":       `for=1.1.1.1, for="192.0.2.7:80";proto=https, for=10.0.0.2`,
	} {
		b.Run(header, func(b *testing.B) {
			client := httplimit.Client{Trusted: trusted, Header: header}
			r := proxied(proxy, header, line)
			if client.Addr(r) != netip.MustParseAddr("192.0.2.7") {
				b.Fatal(client.Addr(r))
			}
			b.ReportAllocs()
			for b.Loop() {
				client.Addr(r)
			}
		})
	}
}
