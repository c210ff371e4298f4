package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
)

const (
	typeJSON    = "application/json"
	typeYAML    = "application/yaml"
	typeProblem = "application/problem+json"
)

// A problem is an answer of RFC 9457, of the type about:blank.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`

	Field    string    `json:"field,omitempty"` // of the body or the query that is refused
	Value    string    `json:"value,omitempty"` // of it, cut
	Mistakes []mistake `json:"mistakes,omitempty"`
	Newest   *revision `json:"newest,omitempty"` // after a conflict

	retry int   // seconds; 0: it is not worth it
	cause error // for the log
}

func (p problem) Error() string {
	if p.cause != nil {
		return p.Detail + ": " + p.cause.Error()
	}
	return p.Detail
}

// A mistake is one in a text of rules.
type mistake struct {
	Line   int    `json:"line"`
	Column int    `json:"column"`
	Path   string `json:"path"`
	Text   string `json:"text"`
}

// noDomain is the answer about a domain that does not exist, or that the caller may not see.
var noDomain = problem{
	Status: http.StatusNotFound, Detail: "there is no such domain, or the caller may not see it",
}

// bad is the problem of a field of the request.
func bad(field, value, format string, args ...any) problem {
	return problem{
		Status: http.StatusBadRequest, Detail: fmt.Sprintf(format, args...), Field: field, Value: value,
	}
}

// write answers with a problem.
func write(w http.ResponseWriter, p problem) {
	p.Title = http.StatusText(p.Status)
	if p.Field != "" {
		p.Detail = p.Field + ": " + p.Detail
	}
	if p.retry > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(p.retry))
	}
	send(w, p.Status, typeProblem, p)
}

// send answers with JSON.
func send(w http.ResponseWriter, status int, kind string, body any) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // the caller has gone if it fails
}

// fail answers an error. What is no problem is one of the store, or of the service's own.
func (a *api) fail(w http.ResponseWriter, r *http.Request, err error) {
	var p problem
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
	case errors.As(err, &large):
		p = problem{Status: http.StatusRequestEntityTooLarge,
			Detail: fmt.Sprintf("the body has more than %d bytes", large.Limit)}
	case errors.Is(err, rules.ErrDescriptor):
		p = bad("descriptors", "", "%v", err)
	case errors.Is(err, hybrid.ErrClosed):
		p = problem{Status: http.StatusServiceUnavailable, Detail: "the service ends", retry: 1}
	default:
		p = problem{Status: http.StatusServiceUnavailable, Detail: "a store does not answer", retry: 1}
	}
	if p.Status >= http.StatusInternalServerError && !errors.Is(err, context.Canceled) && a.loud() {
		a.log.WarnContext(r.Context(), "request has failed",
			"method", r.Method, "route", r.Pattern, "error", err)
	}
	write(w, p)
}

// loud reports whether to log a failure: once a second at most, as all requests may fail.
func (a *api) loud() bool {
	now, last := time.Now().UnixNano(), a.logged.Load()
	return now-last >= int64(time.Second) && a.logged.CompareAndSwap(last, now)
}

// mistakes are those that an error joins, in the order of the text. One that has no place is a text
// alone, such as how many more there are. An error without any has no mistakes: it is none of a
// text.
func mistakes(err error) []mistake {
	if _, found := errors.AsType[*rules.Error](err); !found {
		return nil
	}
	return joined(err)
}

func joined(err error) (list []mistake) {
	if all, found := errors.AsType[interface {
		error
		Unwrap() []error
	}](err); found {
		for _, one := range all.Unwrap() {
			list = append(list, joined(one)...)
		}
		return list
	}
	if e, found := errors.AsType[*rules.Error](err); found {
		return []mistake{{e.Line, e.Column, e.Path, e.Text}}
	}
	return []mistake{{Text: err.Error()}}
}
