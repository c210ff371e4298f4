package main

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

var (
	href = regexp.MustCompile(`href="(/[^"]*)`)

	// counted is the row of the rule user, once something was admitted or denied.
	counted = regexp.MustCompile(`>user</a>[^\n]*\n[^\n]*<small>[1-9]`)
)

// sampled is soon for figures, of which there are new ones every 2 s.
func (w *whole) sampled(what string, holds func() bool) {
	w.Helper()
	for range 2 {
		if held(holds) {
			return
		}
	}
	w.soon(what, holds)
}

// TestLinks: each link of each page leads to a page, with figures of a rule that is gone, of bans,
// and of a limit that a request has brought.
func TestLinks(t *testing.T) {
	w := shop(t, "-data", t.TempDir())
	w.sampled("the old rule has figures", func() bool {
		w.take(1)
		return counted.MatchString(w.page(http.StatusOK, "live/shop").Text)
	})
	w.form(http.StatusSeeOther, "domains/shop/edit", "base", "1", "do", "save", "reason", "address",
		"text", "domain: shop\ndescriptors: [{key: address, rate_limit: {unit: day, requests_per_unit: 9}}]\n")
	var own pb.RateLimitRequest
	if err := protojson.Unmarshal([]byte(`{"domain": "shop", "descriptors": [{
		"entries": [{"key": "user", "value": "ann"}],
		"limit": {"requestsPerUnit": 1000000, "unit": "DAY"}}]}`), &own); err != nil {
		t.Fatal(err)
	}
	client := pb.NewRateLimitServiceClient(w.dial(t))
	w.sampled("requests' own limits have figures", func() bool {
		if _, err := client.ShouldRateLimit(t.Context(), &own); err != nil {
			t.Fatal(err)
		}
		text := w.page(http.StatusOK, "live/shop").Text
		return strings.Contains(text, "own</a>") && strings.Contains(text, "not in the rules any more")
	})
	seen, rows := map[string]bool{"/": true}, 0
	for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
		a := w.visit(strings.TrimPrefix(todo[0], "/"))
		if a.Status != http.StatusOK {
			t.Errorf("%s: %d", todo[0], a.Status)
		}
		if at, err := url.Parse(todo[0]); err == nil && at.Path == "/domains/shop/rule" {
			rows++
		}
		for _, found := range href.FindAllStringSubmatch(a.Text, -1) {
			to, _, _ := strings.Cut(html.UnescapeString(found[1]), "#")
			if !seen[to] && len(seen) < 500 {
				seen[to], todo = true, append(todo, to)
			}
		}
	}
	if rows < 3 || len(seen) == 500 {
		t.Errorf("%d pages of rules among %d: %v", rows, len(seen), seen)
	}
	w.end(t)
}
