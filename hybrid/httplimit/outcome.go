package httplimit

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// An Outcome tells why a request was refused, or would have been.
type Outcome struct {
	// Status is that of the answer: 429 if a limit denies, 403 if a List does, 503 if the
	// Limiter has returned an error. It is 0 if the request passes none the less: the limits are
	// shadows, or OnError is FailOpen.
	Status int

	// States are those of all limits that apply, or of the shadows; none if a List has decided,
	// or there was an error.
	States []State

	// Denied are the names of the limits that deny.
	Denied []string

	// RetryAfter is the longest of them, or 0 if it is of no use to try again.
	RetryAfter time.Duration

	// Err is the error of the Limiter, or nil.
	Err error
}

// problem is the body of an answer by RFC 9457. The types are those of the draft.
type problem struct {
	Type   string   `json:"type"`
	Title  string   `json:"title"`
	Status int      `json:"status"`
	Denied []string `json:"violated-policies,omitempty"`
}

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// Problem answers a request that was refused with a JSON object by RFC 9457, which names the
// limits in "violated-policies". It is the default of Config.Refuse, which is called with the
// header fields already set and without hidden limits.
func Problem(w http.ResponseWriter, _ *http.Request, o Outcome) {
	p := problem{Type: "about:blank", Title: http.StatusText(o.Status), Status: o.Status}
	switch o.Status {
	case http.StatusTooManyRequests:
		p.Type = problemTypes + "quota-exceeded"
		p.Title = "Request cannot be satisfied as assigned quota has been exceeded"
		p.Denied = o.Denied
	case http.StatusServiceUnavailable:
		p.Type = problemTypes + "temporary-reduced-capacity"
		p.Title = "Request cannot be satisfied due to temporary server capacity constraints"
	}
	body, _ := json.Marshal(p) // which has nothing that could fail
	w.Header().Set("Content-Type", "application/problem+json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(o.Status)
	_, _ = w.Write(body) // a client that has gone reads no error
}
