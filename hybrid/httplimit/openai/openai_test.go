package openai_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/httplimit"
	"github.com/seed13b07268/ration/hybrid/httplimit/openai"
)

// ended is how a call ended.
type ended struct {
	call *openai.Call
	end  httplimit.End
	used int
}

// serve puts an upstream behind a proxy with a limit of 10,000 tokens a day. The calls that end are
// told to the channel.
func serve(t *testing.T, upstream http.HandlerFunc) (front string, done chan ended) {
	done = make(chan ended, 1)
	limits := httplimit.Limits{{
		Name: "tokens", Limit: hybrid.Sliding(10_000, hybrid.Day),
		Cost: func(r *http.Request) int { return openai.Of(r).Estimate(500) },
		After: func(r *http.Request, end httplimit.End) int {
			call := openai.Of(r)
			done <- ended{call, end, call.Used()}
			return call.Used()
		},
	}}
	limiter, err := hybrid.New(hybrid.NewMemory(), hybrid.Config{LimitFor: limits.For})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = limiter.Close(context.Background()) })
	guard, err := httplimit.New(limiter, httplimit.Config{
		Limits: limits, OnError: httplimit.FailClosed, Fields: openai.Fields,
	})
	if err != nil {
		t.Fatal(err)
	}
	model := httptest.NewServer(upstream)
	t.Cleanup(model.Close)
	at, err := url.Parse(model.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ModifyResponse = openai.Count
	proxy.FlushInterval = -1
	server := httptest.NewServer(openai.Handler(guard.Handler(proxy)))
	t.Cleanup(server.Close)
	return server.URL, done
}

const (
	body   = `{"model": "large", "max_tokens": 350, "messages": ["a prompt of many bytes .........."]}`
	prompt = len(body) / 4
	event  = "data: {\"choices\": [{\"delta\": {\"content\": \"x\"}}], \"usage\": null}\n\n"
)

// TestUsed: what an answer has cost, by what the upstream says of it, and without that.
func TestUsed(t *testing.T) {
	const stream, plain = "text/event-stream; charset=utf-8", "application/json"
	for name, c := range map[string]struct {
		status int
		kind   string
		text   string
		want   int
	}{
		"usage of an answer":    {200, plain, `{"choices": [], "usage": {"total_tokens": 77}}`, 77},
		"its parts":             {200, plain, `{"usage": {"input_tokens": 7, "output_tokens": 4}}`, 11},
		"no usage":              {200, plain, `{"choices": []}`, prompt},
		"an answer of no JSON":  {200, plain, `hello`, prompt},
		"an empty answer":       {200, plain, ``, prompt},
		"a long answer":         {200, plain, `{"x": "` + strings.Repeat("x", 2<<20) + `"}`, prompt},
		"an upstream that lies": {200, plain, `{"usage": {"total_tokens": -9}}`, 0},
		"an error":              {500, plain, `{"usage": {"total_tokens": 77}}`, 0},
		"usage of a stream": {200, stream, event + event +
			"data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 2}}\n\n" +
			"data: [DONE]\n\n", 11},
		"a stream of responses": {200, stream, "event: response.completed\r\n" +
			"data: {\"response\": {\"usage\": {\"total_tokens\": 60}}}\r\n\r\n", 60},
		"a stream without usage": {200, stream, event + ": ping\n\n" + event + "data: [DONE]\n\n", prompt + 2},
		"a stream that is cut":   {200, stream, event + event + event[:20], prompt + 2},
		"a stream of long lines": {200, stream, "data: " + strings.Repeat("x", 2<<20) + "\n" + event, prompt + 1},
	} {
		t.Run(name, func(t *testing.T) {
			front, done := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.text)
			})
			res, err := http.Post(front, "application/json", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(res.Body)
			res.Body.Close()
			if err != nil || string(got) != c.text {
				t.Errorf("the client got %.100q, %v", got, err)
			}
			e := <-done
			if e.used != c.want || e.call.Model != "large" || e.call.MaxTokens != 350 {
				t.Errorf("%d tokens were used, not %d: %+v", e.used, c.want, e.call)
			}
		})
	}
}

// TestHangUp: a client that hangs up in the middle of a stream pays for what has come by then.
func TestHangUp(t *testing.T) {
	gone := make(chan struct{})
	front, done := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 3 {
			_, _ = io.WriteString(w, event)
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(gone)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, front, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.ReadFull(res.Body, make([]byte, 3*len(event))); err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	e := <-done
	<-gone
	if e.used != prompt+3 || e.end.Completed {
		t.Errorf("%d tokens were used, not %d: %+v", e.used, prompt+3, e.end)
	}
}

// TestHandler: what is read of a request, and what is refused.
func TestHandler(t *testing.T) {
	for text, want := range map[string]struct{ status, estimate int }{
		``:                    {200, 500},
		`{}`:                  {200, 500},
		`{"max_tokens": 20}`:  {200, 4 + 20},
		`{"max_tokens": -20}`: {200, 4 + 500},
		`{"max_tokens": 9, "n": 3, "max_completion_tokens": 20}`:               {200, 13 + 60},
		`{"max_output_tokens": 9000000000000000000, "n": 9000000000000000000}`: {200, 17 + 1<<30},
		`{"max_tokens": 20, "n": 2, "best_of": 5}`:                             {200, 10 + 100},
		`{"max_tokens": 20, "n": null, "a": [{"n": 9}]} `:                      {200, 11 + 20},
		`{"model": "gpt-4", "MODEL": "zzz1", "max_tokens": 4000}`:              {400, 0},
		`{"max_tokens": 4000, "Max_Tokens": 1}`:                                {400, 0},
		`{"max_tokens": 4000, "max_to\u212Aens": 1}`:                           {400, 0},
		`{"max_tokens": 4000, "max_tokens": 1}`:                                {400, 0},
		`{"N": 1}`:                                                             {400, 0},
		`{} {"max_tokens": 1}`:                                                 {400, 0},
		`{"max_tokens": 1`:                                                     {400, 0},
		`null`:                                                                 {400, 0},
		`{"max_tokens": "many"}`:                                               {400, 0},
		`[`:                                                                    {400, 0},
		`"` + strings.Repeat("x", 5<<20):                                       {413, 0},
	} {
		w := httptest.NewRecorder()
		openai.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if got := openai.Of(r).Estimate(500); got != want.estimate {
				t.Errorf("%.60q: the estimate is %d, not %d", text, got, want.estimate)
			}
			if got, err := io.ReadAll(r.Body); string(got) != text || err != nil {
				t.Errorf("%.60q was passed on as %.60q, %v", text, got, err)
			}
		})).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(text)))
		if w.Code != want.status {
			t.Errorf("%.60q: status %d, not %d", text, w.Code, want.status)
		}
	}
}

// TestFields: of several limits of tokens the tightest is told, and one that denies before others.
func TestFields(t *testing.T) {
	state := func(name string, left int64, retry, reset time.Duration) httplimit.State {
		return httplimit.State{Name: name, Decision: hybrid.Decision{
			Allowed: retry == 0, Remaining: left, RetryAfter: retry, ResetAfter: reset,
			Limit: hybrid.PerMinute(1000),
		}}
	}
	for _, c := range []struct {
		states []httplimit.State
		want   string
	}{
		{nil, "// //"},
		{[]httplimit.State{state("tokens-minute", 7, 0, 3100*time.Millisecond),
			state("tokens-day", 9, 0, time.Hour)}, "7/1000/4s //"},
		{[]httplimit.State{state("tokens-minute", 7, 0, time.Second),
			state("tokens-day", 9, 90*time.Second, time.Hour)}, "9/1000/1m30s //"},
		{[]httplimit.State{state("requests", 3, 0, 5*time.Microsecond), state("other", 1, 0, 0)},
			"// 3/1000/1ms"},
		{[]httplimit.State{{Name: "tokens", Decision: hybrid.Decision{Limit: hybrid.Unlimited}}},
			"// //"},
	} {
		h := http.Header{}
		openai.Fields(h, c.states)
		var words []string
		for _, of := range []string{"Tokens", "Requests"} {
			words = append(words, h.Get("X-Ratelimit-Remaining-"+of)+"/"+
				h.Get("X-Ratelimit-Limit-"+of)+"/"+h.Get("X-Ratelimit-Reset-"+of))
		}
		if got := strings.Join(words, " "); got != c.want {
			t.Errorf("%v: %q, not %q", c.states, got, c.want)
		}
	}
}
