package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/lists"
)

// guarded is what examples share: a Guard with one process's store.
func guarded(config httplimit.Config) (*httplimit.Guard, func()) {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{
		LimitFor: config.Limits.For, Timeout: 10 * time.Second, // on a busy machine
	})
	if err != nil {
		log.Fatal(err)
	}
	config.OnError = httplimit.FailOpen
	guard, err := httplimit.New(limiter, config)
	if err != nil {
		log.Fatal(err)
	}
	return guard, func() { limiter.Close(context.Background()) }
}

// show plays a request, and prints its status and some header fields.
func show(h http.Handler, fields ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/items/7", nil))
	fmt.Print(w.Code)
	for _, field := range fields {
		fmt.Print(" ", w.Header().Get(field))
	}
	fmt.Println()
}

// A limit for each client, and one for all of them together.
func Example() {
	limits := httplimit.Limits{
		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.Quota(2, hybrid.Day)},
		{Name: "everybody", Limit: hybrid.PerSecond(1000), Hidden: true},
	}
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: limits.For})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	guard, err := httplimit.New(limiter, httplimit.Config{Limits: limits, OnError: httplimit.FailOpen})
	if err != nil {
		log.Fatal(err)
	}
	h := guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	}))
	for range 3 {
		show(h, "RateLimit-Policy")
	}
	// Output:
	// 200 "client";q=2;w=86400
	// 200 "client";q=2;w=86400
	// 429 "client";q=2;w=86400
}

func ExampleNew() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.PerSecond(10)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	_, err = httplimit.New(limiter, httplimit.Config{Limits: httplimit.Limits{{Name: "client"}}})
	fmt.Println(err)
	// Output: httplimit: Config.OnError 0 is not FailOpen or FailClosed
}

// A limit of its own for some keys.
func ExampleLimits_For() {
	limits := httplimit.Limits{
		{Name: "user", Key: httplimit.Header("X-User"), For: func(key string) hybrid.Limit {
			if key == "alice" {
				return hybrid.PerSecond(100)
			}
			return hybrid.PerSecond(10)
		}},
		{Name: "everybody", Limit: hybrid.PerSecond(1000)},
	}
	fmt.Println(limits.For("user:alice"), limits.For("user:bob"), limits.For("everybody:"))
	// Output: 100/s burst 100 10/s burst 10 1000/s burst 1000
}

func ExampleLimits() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "minute", Key: httplimit.Client{}, Limit: hybrid.Sliding(10, time.Minute)},
		{Name: "month", Key: httplimit.Client{}, Limit: hybrid.Quota(5000, hybrid.Month)},
	}})
	defer end()
	show(guard.Handler(http.NotFoundHandler()), "RateLimit-Policy")
	// Output: 404 "minute";q=10;w=60, "month";q=5000;w=2629746
}

// What a request costs is known when it has ended: until then an estimate is reserved.
func ExampleLimit() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{{
		Name: "bytes", Limit: hybrid.Quota(1_000_000, hybrid.Day),
		Cost: func(*http.Request) int { return 10_000 },
		After: func(_ *http.Request, e httplimit.End) int {
			fmt.Println("sent", e.Bytes)
			return int(e.Bytes)
		},
	}}})
	defer end()
	show(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, strings.Repeat("x", 2500))
	})))
	// Output:
	// sent 2500
	// 200
}

// A handler tells the cost by a field of its own.
func ExampleEnd() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{{
		Name: "tokens", Limit: hybrid.PerMinute(100_000),
		Cost: func(*http.Request) int { return 1000 },
		After: func(_ *http.Request, e httplimit.End) int {
			n := 1000
			if e.Completed {
				fmt.Sscan(e.Header.Get("X-Tokens"), &n)
			}
			fmt.Println("cost", n)
			return n
		},
	}}})
	defer end()
	show(guard.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Tokens", "830")
	})))
	// Output:
	// cost 830
	// 200
}

func ExampleGuard_Handler() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.Quota(1, hybrid.Day)},
	}})
	defer end()
	h := guard.Handler(http.NotFoundHandler())
	show(h)
	show(h)
	// Output:
	// 404
	// 429
}

// A limit is tried before it is in force.
func ExampleGuard_Denied() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.Quota(2, hybrid.Day)},
		{Name: "stricter", Key: httplimit.Client{}, Limit: hybrid.PerHour(1), Shadow: true},
	}})
	defer end()
	h := guard.Handler(http.NotFoundHandler())
	for range 3 {
		show(h)
	}
	fmt.Println(guard.Denied()["client"])
	// Output:
	// 404
	// 404
	// 429
	// 1
}

// A store that is too slow for a shadow makes its count too small.
func ExampleGuard_Skipped() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "stricter", Key: httplimit.Client{}, Limit: hybrid.PerHour(1), Shadow: true},
	}})
	defer end()
	show(guard.Handler(http.NotFoundHandler()))
	fmt.Println(guard.Skipped())
	// Output:
	// 404
	// map[stricter:0]
}

func ExampleGuard() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "client", Key: httplimit.Client{}, Limit: hybrid.Blocked},
	}})
	defer end()
	show(guard.Handler(http.NotFoundHandler()), "Retry-After")
	// Output: 429 60
}

// A list in front of the limits of addresses: For has keys without the name of the limit.
func ExampleLimit_list() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("192.0.2.0/24"): lists.Deny,
	}})
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{{
		Name: "client", Key: httplimit.Client{},
		For: list.LimitFor(func(string) hybrid.Limit { return hybrid.PerSecond(10) }),
	}}})
	defer end()
	show(guard.Handler(http.NotFoundHandler())) // from 192.0.2.1
	fmt.Println(err)
	// Output:
	// 429
	// <nil>
}

// Both forms of header fields, and no fields for a list.
func ExampleConfig() {
	list := new(lists.List)
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{
			{Name: "client", Key: httplimit.Client{}, Limit: hybrid.Quota(9, hybrid.Week)},
		},
		List: httplimit.Client{}.Listed(list),
		Fields: func(h http.Header, states []httplimit.State) {
			httplimit.Draft11(h, states)
			httplimit.Legacy(h, states)
		},
	})
	defer end()
	h := guard.Handler(http.NotFoundHandler())
	show(h, "RateLimit-Policy", "X-RateLimit-Limit", "X-RateLimit-Remaining")
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("192.0.2.0/24"): lists.Deny,
	}})
	show(h)
	fmt.Println(err)
	// Output:
	// 404 "client";q=9;w=604800 9 8
	// 403
	// <nil>
}

// The Limiter is closed, and the request passes: OnError is FailOpen.
func ExampleOnError() {
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{{Name: "everybody", Limit: hybrid.PerSecond(10)}},
		Observe: func(_ *http.Request, o httplimit.Outcome) {
			fmt.Println(o.Status, errors.Is(o.Err, hybrid.ErrClosed))
		},
	})
	end()
	show(guard.Handler(http.NotFoundHandler()))
	// Output:
	// 0 true
	// 404
}

// Another body, in plain text.
func ExampleOutcome() {
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{{Name: "everybody", Limit: hybrid.Blocked}},
		Refuse: func(w http.ResponseWriter, r *http.Request, o httplimit.Outcome) {
			http.Error(w, "denied by "+strings.Join(o.Denied, ", "), o.Status)
		},
	})
	defer end()
	w := httptest.NewRecorder()
	guard.Handler(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Print(w.Body)
	// Output: denied by everybody
}

func ExampleProblem() {
	w := httptest.NewRecorder()
	httplimit.Problem(w, nil, httplimit.Outcome{Status: 503})
	fmt.Println(w.Header().Get("Content-Type"))
	fmt.Println(strings.ReplaceAll(w.Body.String(), ",", ",\n"))
	// Output:
	// application/problem+json
	// {"type":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
	// "title":"Request cannot be satisfied due to temporary server capacity constraints",
	// "status":503}
}

func ExampleDraft11() {
	h := http.Header{}
	httplimit.Draft11(h, []httplimit.State{{Name: "daily", Decision: hybrid.Decision{
		Allowed: true, Limit: hybrid.Quota(1000, hybrid.Day), Remaining: 950, ResetAfter: time.Hour,
	}}})
	fmt.Println(h.Get("RateLimit"), h.Get("RateLimit-Policy"))
	// Output: "daily";r=950;t=3600 "daily";q=1000;w=86400
}

func ExampleLegacy() {
	h := http.Header{}
	httplimit.Legacy(h, []httplimit.State{{Name: "daily", Decision: hybrid.Decision{
		Limit: hybrid.Quota(1000, hybrid.Day), RetryAfter: time.Hour,
	}}})
	fmt.Println(h.Get("X-RateLimit-Limit"), h.Get("X-RateLimit-Remaining"), h.Get("X-RateLimit-Reset"))
	// Output: 1000 0 3600
}

func ExampleState() {
	s := httplimit.State{Name: "client", Key: "client:192.0.2.7"}
	s.Limit = hybrid.PerSecond(10)
	fmt.Println(s.Key, s.Allowed, s.Limit)
	// Output: client:192.0.2.7 false 10/s burst 10
}

// A limit for each user, where a session says who that is.
func ExampleKey() {
	var user httplimit.Key = httplimit.KeyFunc(func(r *http.Request) (string, bool) {
		c, err := r.Cookie("session")
		if err != nil {
			return "", false // the limit does not apply
		}
		return "user of " + c.Value, true
	})
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: "session", Value: "17"})
	fmt.Println(user.Key(r))
	// Output: user of 17 true
}

func ExampleKeyFunc() {
	method := httplimit.KeyFunc(func(r *http.Request) (string, bool) { return r.Method, true })
	fmt.Println(method.Key(httptest.NewRequest("PUT", "/", nil)))
	// Output: PUT true
}

func ExampleKeyFunc_Key() {
	writes := httplimit.KeyFunc(func(r *http.Request) (string, bool) { return "", r.Method != "GET" })
	fmt.Println(writes.Key(httptest.NewRequest("GET", "/", nil)))
	// Output: false
}

func ExampleHeader() {
	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("X-User", "alice")
	fmt.Println(httplimit.Header("X-User").Key(r))
	// Output: alice true
}

func ExampleHeader_Key() {
	_, applies := httplimit.Header("X-User").Key(httptest.NewRequest("GET", "/", nil))
	fmt.Println(applies)
	// Output: false
}

func ExampleHeader_Validate() {
	fmt.Println(httplimit.Header("X User").Validate())
	// Output: Header "X User" is not the name of a header field
}

func ExamplePattern() {
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", http.NotFoundHandler())
	fmt.Println(httplimit.Pattern{Mux: mux}.Key(httptest.NewRequest("GET", "/items/7", nil)))
	// Output: GET /items/{id} true
}

// A Guard around one handler needs no mux.
func ExamplePattern_Key() {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(httplimit.Pattern{}.Key(r))
	})
	mux.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/items/7", nil))
	// Output: GET /items/{id} true
}

// What stands left of the first address that no trusted proxy has is what a client likes to say.
func ExampleClient() {
	client := httplimit.Client{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:443"
	r.Header.Set("X-Forwarded-For", "1.1.1.1, 203.0.113.9, 10.0.0.2")
	fmt.Println(client.Addr(r))
	// Output: 203.0.113.9
}

func ExampleClient_Key() {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "[2001:db8:1:2:3:4:5:6]:443"
	fmt.Println(httplimit.Client{}.Key(r))
	// Output: 2001:db8:1:2::/64 true
}

func ExampleClient_Addr() {
	client := httplimit.Client{
		Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, Header: "Forwarded",
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.0.0.1:443"
	r.Header.Set("Forwarded", `for=1.1.1.1, for="[2001:db8::9]:4711";proto=https`)
	fmt.Println(client.Addr(r))
	// Output: 2001:db8::9
}

func ExampleClient_Listed() {
	list := new(lists.List)
	err := list.Set(lists.Entries{Prefixes: map[netip.Prefix]lists.Verdict{
		netip.MustParsePrefix("192.0.2.0/24"): lists.Deny,
	}})
	fmt.Println(httplimit.Client{}.Listed(list)(httptest.NewRequest("GET", "/", nil)), err)
	// Output: deny <nil>
}

func ExampleClient_Validate() {
	fmt.Println(httplimit.Client{V6: 129}.Validate())
	// Output: Client.V6 129 is not from 1 to 128
}

// A client that keeps to ten requests a second waits where it would send more.
func ExampleTransport_CloseIdleConnections() {
	guard, end := guarded(httplimit.Config{Limits: httplimit.Limits{
		{Name: "everybody", Limit: hybrid.PerSecond(10)},
	}})
	defer end()
	transport := &httplimit.Transport{Guard: guard, Base: new(http.Transport)}
	transport.CloseIdleConnections()
	fmt.Println("those of Base are closed")
	// Output: those of Base are closed
}

func ExampleTransport() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{{Name: "api", Limit: hybrid.PerSecond(10)}},
	})
	defer end()
	client := &http.Client{Transport: &httplimit.Transport{Guard: guard}, Timeout: 10 * time.Second}
	resp, err := client.Get(server.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	fmt.Println(resp.Status)
	// Output: 404 Not Found
}

// The Timeout is too near for a limit of one a day: the error comes at once.
func ExampleTransport_RoundTrip() {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{{Name: "api", Limit: hybrid.Quota(1, hybrid.Day)}},
	})
	defer end()
	client := &http.Client{Transport: &httplimit.Transport{Guard: guard}, Timeout: 10 * time.Second}
	for range 2 {
		resp, err := client.Get(server.URL)
		if err == nil {
			resp.Body.Close()
		}
		fmt.Println(errors.Is(err, context.DeadlineExceeded))
	}
	// Output:
	// false
	// true
}

// A client that does not wait.
func ExampleError() {
	guard, end := guarded(httplimit.Config{
		Limits: httplimit.Limits{{Name: "api", Limit: hybrid.Blocked}},
	})
	defer end()
	client := &http.Client{Transport: &httplimit.Transport{Guard: guard, Fail: true}}
	resp, err := client.Get("http://example.com")
	if err == nil {
		resp.Body.Close()
	}
	var denied *httplimit.Error
	if errors.As(err, &denied) {
		fmt.Println(denied.Denied, denied.RetryAfter)
	}
	// Output: [api] 1m0s
}

func ExampleError_Error() {
	err := &httplimit.Error{Outcome: httplimit.Outcome{
		Status: 429, Denied: []string{"api"}, RetryAfter: time.Minute,
	}}
	fmt.Println(err.Error())
	// Output: httplimit: the request is denied by api: retry after 1m0s
}

func ExampleError_Unwrap() {
	err := &httplimit.Error{Outcome: httplimit.Outcome{Status: 503, Err: hybrid.ErrClosed}}
	fmt.Println(errors.Is(err, hybrid.ErrClosed))
	// Output: true
}

// At most 100 exports at once over all processes, and the handler ends when its slot is lost.
func ExampleSlots() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(100)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	slots, err := httplimit.NewSlots(limiter, httplimit.SlotsConfig{
		Name: "exports", OnError: httplimit.FailClosed, Wait: 5 * time.Second,
	})
	if err != nil {
		log.Fatal(err)
	}
	show(slots.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println("exporting", r.Context().Err())
	})))
	// Output:
	// exporting <nil>
	// 200
}

func ExampleNewSlots() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(1)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	_, err = httplimit.NewSlots(limiter, httplimit.SlotsConfig{
		Name: "exports", Wait: time.Microsecond,
	})
	fmt.Println(err)
	// Output: httplimit: SlotsConfig.Wait 1µs is not from 1ms to 1h
}

// A slot for each client, of which there are two; the third request at once is refused.
func ExampleSlots_Handler() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(2)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	slots, err := httplimit.NewSlots(limiter, httplimit.SlotsConfig{
		Name: "client", Key: httplimit.Client{}, OnError: httplimit.FailClosed, Wait: time.Millisecond,
	})
	if err != nil {
		log.Fatal(err)
	}
	nested := slots.Handler(slots.Handler(slots.Handler(http.NotFoundHandler())))
	show(nested, "Retry-After")
	// Output: 429 1
}

func ExampleSlotsConfig() {
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{Limit: hybrid.Slots(2)})
	if err != nil {
		log.Fatal(err)
	}
	defer limiter.Close(context.Background())
	slots, err := httplimit.NewSlots(limiter, httplimit.SlotsConfig{
		Name: "writes", OnError: httplimit.FailOpen,
		Key: httplimit.KeyFunc(func(r *http.Request) (string, bool) { return "", r.Method != "GET" }),
	})
	if err != nil {
		log.Fatal(err)
	}
	show(slots.Handler(http.NotFoundHandler())) // it needs no slot
	// Output: 404
}
