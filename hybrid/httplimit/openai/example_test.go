package openai_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/httplimit/openai"
)

// A proxy in front of an API: tokens a minute and a day of a tenant and a model together, and five
// calls at a time of a tenant. In production the store is Redis, and the tenant comes from a login.
func Example() {
	fake := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, "data: {\"choices\": [{\"delta\": {\"content\": \"Hello\"}}], \"usage\": null}\n\n"+
			"data: {\"choices\": [], \"usage\": {\"total_tokens\": 300}}\n\ndata: [DONE]\n\n")
	}))
	defer fake.Close()

	tenant := httplimit.KeyFunc(func(r *http.Request) (string, bool) {
		return r.Header.Get("X-Tenant"), true
	})
	both := httplimit.KeyFunc(func(r *http.Request) (string, bool) {
		return r.Header.Get("X-Tenant") + "/" + openai.Of(r).Model, true
	})
	estimate := func(r *http.Request) int { return openai.Of(r).Estimate(500) }
	used := func(r *http.Request, _ httplimit.End) int { return openai.Of(r).Used() }
	limits := httplimit.Limits{
		{Name: "tokens-minute", Key: both, Limit: hybrid.Sliding(1000, hybrid.Minute), Cost: estimate,
			After: used},
		{Name: "tokens-day", Key: both, Limit: hybrid.Quota(50_000, hybrid.Day), Cost: estimate,
			After: used},
	}
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: func(key string) hybrid.Limit {
			if strings.HasPrefix(key, "calls:") {
				return hybrid.Slots(5)
			}
			return limits.For(key)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	guard, err := httplimit.New(limiter, httplimit.Config{
		Limits: limits, OnError: httplimit.FailClosed, Fields: openai.Fields,
	})
	if err != nil {
		log.Fatal(err)
	}
	slots, err := httplimit.NewSlots(limiter, httplimit.SlotsConfig{
		Name: "calls", Key: tenant, OnError: httplimit.FailClosed,
	})
	if err != nil {
		log.Fatal(err)
	}
	upstream, _ := url.Parse(fake.URL)
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.ModifyResponse = openai.Count
	front := httptest.NewServer(openai.Handler(slots.Handler(guard.Handler(proxy))))
	defer front.Close()

	for range 4 {
		res, err := http.Post(front.URL+"/v1/chat/completions", "application/json",
			strings.NewReader(`{"model": "large", "stream": true, "max_tokens": 350, "messages": []}`))
		if err != nil {
			log.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		fmt.Println(res.StatusCode, "tokens left:", res.Header.Get("X-Ratelimit-Remaining-Tokens"))
	}
	// Output:
	// 200 tokens left: 633
	// 200 tokens left: 333
	// 200 tokens left: 33
	// 429 tokens left: 100
}

// call passes a request through Handler, and an answer of the upstream through Count.
func call(body string, use func(*http.Request)) {
	openai.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { use(r) })).ServeHTTP(
		httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)))
}

// answer is one of an upstream to a request.
func answer(r *http.Request, body string) *http.Response {
	return &http.Response{
		Request: r, StatusCode: http.StatusOK, Header: http.Header{},
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

func ExampleHandler() {
	call(`{"model": "large", "max_tokens": 350}`, func(r *http.Request) {
		fmt.Println(openai.Of(r).Model, r.ContentLength)
	})
	// Output: large 37
}

func ExampleOf() {
	r := httptest.NewRequest(http.MethodGet, "/", nil) // that no Handler has seen
	fmt.Printf("%q %d\n", openai.Of(r).Model, openai.Of(r).Used())
	// Output: "" 0
}

func ExampleCall() {
	call(`{"model": "large", "max_tokens": 350}`, func(r *http.Request) {
		c := openai.Of(r)
		fmt.Println(c.Model, c.Prompt, c.MaxTokens)
	})
	// Output: large 9 350
}

func ExampleCall_Estimate() {
	call(`{"model": "large", "max_tokens": 350}`, func(r *http.Request) {
		fmt.Println(openai.Of(r).Estimate(500))
	})
	call(`{"model": "large"}`, func(r *http.Request) { fmt.Println(openai.Of(r).Estimate(500)) })
	// Output:
	// 359
	// 504
}

func ExampleCall_Used() {
	call(`{"model": "large", "max_tokens": 350}`, func(r *http.Request) {
		res := answer(r, `{"usage": {"total_tokens": 120}}`)
		defer res.Body.Close()
		_ = openai.Count(res)
		fmt.Println("before:", openai.Of(r).Used())
		_, _ = io.Copy(io.Discard, res.Body)
		fmt.Println("after:", openai.Of(r).Used())
	})
	// Output:
	// before: 9
	// after: 120
}

func ExampleCount() {
	upstream, _ := url.Parse("http://localhost:8000")
	proxy := httputil.NewSingleHostReverseProxy(upstream)
	proxy.ModifyResponse = openai.Count
	fmt.Println(proxy.ModifyResponse != nil)
	// Output: true
}

func ExampleFields() {
	h := http.Header{}
	openai.Fields(h, []httplimit.State{{Name: "tokens-minute", Decision: hybrid.Decision{
		Allowed: true, Remaining: 633, ResetAfter: 22 * time.Second, Limit: hybrid.PerMinute(1000),
	}}})
	fmt.Println(h.Get("x-ratelimit-limit-tokens"), h.Get("x-ratelimit-remaining-tokens"),
		h.Get("x-ratelimit-reset-tokens"))
	// Output: 1000 633 22s
}
