package httplimit_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// A whole program: a server behind a proxy, with three limits for each request, one on the bytes
// that it sends, a list of addresses, and an orderly end.
func Example_program() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "item", r.PathValue("id"))
	})
	client := httplimit.Client{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	limits := httplimit.Limits{
		{Name: "client", Key: client, Limit: hybrid.PerSecond(10).WithBurst(50)},
		{Name: "endpoint", Key: httplimit.Pattern{Mux: mux}, Limit: hybrid.PerSecond(500)},
		{
			Name: "bytes", Key: client, Limit: hybrid.PerMinute(50_000_000),
			Cost:  func(*http.Request) int { return 10_000 }, // an estimate
			After: func(_ *http.Request, e httplimit.End) int { return int(e.Bytes) },
		},
		{Name: "everybody", Limit: hybrid.PerSecond(2000), Hidden: true},
	}
	list := new(lists.List)     // list.Set changes it while the server runs
	store := hybrid.NewMemory() // for several processes: a remote.Store
	limiter, err := hybrid.New(store, hybrid.Config{LimitFor: limits.For, Namespace: "web"})
	if err != nil {
		log.Fatal(err)
	}
	guard, err := httplimit.New(limiter, httplimit.Config{
		Limits: limits, OnError: httplimit.FailOpen, List: client.Listed(list),
		Observe: func(r *http.Request, o httplimit.Outcome) {
			if o.Err != nil {
				log.Printf("%s: %v", r.URL.Path, o.Err)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: guard.Handler(mux)}
	stopped := make(chan error)
	go func() { stopped <- server.Serve(listener) }()

	resp, err := http.Get("http://" + listener.Addr().String() + "/items/7")
	if err != nil {
		log.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	fmt.Print(resp.Status, ": ", string(body))

	end, done := context.WithTimeout(context.Background(), 5*time.Second)
	defer done()
	fmt.Println(server.Shutdown(end), <-stopped)
	fmt.Println(limiter.Close(end)) // hands unused tokens back
	// Output:
	// 200 OK: item 7
	// <nil> http: Server closed
	// <nil>
}
