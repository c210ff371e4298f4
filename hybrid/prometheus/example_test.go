package prometheus_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed13b07268/ration/hybrid"
	rationprom "github.com/seed13b07268/ration/hybrid/prometheus"
)

// A whole program: a Limiter whose metrics are scraped at /metrics. With Redis the store is
// remote.New(client).
func Example() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		Limit:     hybrid.PerMinute(3),
		Namespace: "logins",
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())

	registry := prometheus.NewRegistry()
	registry.MustRegister(rationprom.New(limiter, prometheus.Labels{"rule": "per user"}))
	http.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := httptest.NewServer(nil) // in a program: http.ListenAndServe(":8080", nil)
	defer server.Close()

	limiter.Allow("user:42")

	response, err := http.Get(server.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil {
		log.Fatal(err)
	}
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "ration_keys") {
			fmt.Print(line)
		}
	}
	// Output: ration_keys{limiter="logins",rule="per user"} 1
}

func ExampleNew() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerMinute(3)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())

	registry := prometheus.NewRegistry()
	collector := rationprom.New(limiter, prometheus.Labels{"rule": "per user"})
	fmt.Println(registry.Register(collector), registry.Unregister(collector))
	// Output: <nil> true
}

func ExampleDashboard() {
	fmt.Println(strings.Contains(rationprom.Dashboard, "ration_requests_total"))
	// Output: true
}
