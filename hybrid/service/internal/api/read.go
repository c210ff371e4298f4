package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// shown is how many bytes of a value a problem has.
const shown = 80

// readQuery returns the parameters of a request, which must be among names. Only a descriptor may
// stand there more than once.
func readQuery(r *http.Request, names []string) (map[string][]string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, bad("", "", "the query is malformed: %.200v", err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(names, name):
			return nil, bad(cut(name), cut(values[0]), "the parameter is unknown%s", among(names))
		case len(values) > 1 && name != "descriptor":
			return nil, bad(name, cut(values[1]), "the parameter stands there %d times", len(values))
		}
	}
	return query, nil
}

func among(names []string) string {
	if len(names) == 0 {
		return ": there are none"
	}
	return ": there are " + strings.Join(names, ", ")
}

// parameter is one of the query, or "".
func (q *request) parameter(name string) string {
	if v := q.query[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// A number is a parameter of the query, a whole number from 1 to most, or otherwise.
type number struct {
	to              *int64
	name            string
	otherwise, most int64
}

// number reads one.
func (q *request) number(n number) (err error) {
	if *n.to = n.otherwise; q.query[n.name] == nil {
		return nil
	}
	text := q.parameter(n.name)
	if *n.to, err = strconv.ParseInt(text, 10, 64); err != nil || *n.to < 1 || *n.to > n.most {
		return bad(n.name, cut(text), "it is not a whole number from 1 to %d", n.most)
	}
	return nil
}

// kind is the type of the body, or a problem if it is not among kinds.
func (q *request) kind(kinds ...string) (string, error) {
	kind, parameters, err := mime.ParseMediaType(q.Header.Get("Content-Type"))
	charset := parameters["charset"]
	if err == nil && slices.Contains(kinds, kind) &&
		(charset == "" || strings.EqualFold(charset, "utf-8")) {
		return kind, nil
	}
	return "", problem{
		Status: http.StatusUnsupportedMediaType, Field: "Content-Type",
		Value:  cut(q.Header.Get("Content-Type")),
		Detail: "it is not " + strings.Join(kinds, " or ") + ", in UTF-8",
	}
}

// bytes reads the body.
func (q *request) bytes(most int64) ([]byte, error) {
	if q.ContentLength > most {
		return nil, &http.MaxBytesError{Limit: most}
	}
	connection := http.NewResponseController(q.w)
	_ = connection.SetReadDeadline(time.Now().Add(bodyTime)) // tests have no connection
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.Body, most))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, err
	case err != nil:
		return nil, problem{Status: http.StatusRequestTimeout, Detail: "the body did not arrive"}
	case !utf8.Valid(body):
		return nil, bad("", "", "the body is not valid UTF-8")
	}
	_ = connection.SetReadDeadline(time.Time{})
	return body, nil
}

// json reads a body that is one object of JSON.
func (q *request) json(most int64, f fields, required ...string) error {
	if _, err := q.kind(typeJSON); err != nil {
		return err
	}
	body, err := q.bytes(most)
	if err != nil {
		return err
	}
	return readJSON(body, f, required...)
}

// readJSON reads a text that is one object. A syntax error is found first, so that the reader
// need not look for any. Nothing is deeper than the fields that are known.
func readJSON(body []byte, f fields, required ...string) error {
	var whole json.RawMessage
	if err := json.Unmarshal(body, &whole); err != nil {
		at := int64(len(body))
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			at = syntax.Offset
		}
		return bad("", "", "the body is no JSON: byte %d: %.200v", at, err)
	}
	r := reader{json.NewDecoder(bytes.NewReader(body))}
	r.UseNumber()
	return r.object("", f, required...)
}

// A reader reads values of JSON, each as what it must be. encoding/json would let a field stand
// there twice, and would not mind the case of its name.
type reader struct{ *json.Decoder }

// A read reads a value into some place. The value is at a field of that name.
type read func(r reader, at string) error

// fields read the values of an object by their names.
type fields map[string]read

// object reads an object that has fields, and all of those that are required.
func (r reader) object(at string, f fields, required ...string) error {
	if err := r.begin(at, '{', "an object"); err != nil {
		return err
	}
	seen := map[string]bool{}
	for r.More() {
		t, err := r.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		read, whole := f[name], join(at, cut(name))
		switch {
		case read == nil:
			return bad(whole, "", "the field is unknown%s", among(slices.Sorted(maps.Keys(f))))
		case seen[name]:
			return bad(whole, "", "the field stands there twice")
		}
		seen[name] = true
		if err := read(r, whole); err != nil {
			return err
		}
	}
	for _, name := range required {
		if !seen[name] {
			return bad(join(at, name), "", "the field is missing")
		}
	}
	_, err := r.Token()
	return err
}

func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}

// list reads 1 to most values.
func (r reader) list(at string, most int, each read) error {
	if err := r.begin(at, '[', "a list"); err != nil {
		return err
	}
	i := 0
	for ; r.More(); i++ {
		if i == most {
			return bad(at, "", "the list is longer than %d", most)
		}
		if err := each(r, fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	if i == 0 {
		return bad(at, "", "the list is empty")
	}
	_, err := r.Token()
	return err
}

func (r reader) begin(at string, delimiter json.Delim, what string) error {
	t, err := r.Token()
	if err == nil && t != delimiter {
		return bad(cmp.Or(at, "the body"), value(t), "it is not %s", what)
	}
	return err
}

// text reads a string of least to most bytes.
func text(into *string, least, most int) read {
	return func(r reader, at string) error {
		t, err := r.Token()
		if err != nil {
			return err
		}
		s, ok := t.(string)
		switch {
		case !ok:
			return bad(at, value(t), "it is not a text")
		case len(s) < least || len(s) > most:
			return bad(at, value(t), "it has %d bytes, not %d to %d", len(s), least, most)
		}
		*into = s
		return nil
	}
}

// whole reads a whole number from least to most.
func whole(into *int, least, most int64) read {
	return func(r reader, at string) error {
		t, err := r.Token()
		if err != nil {
			return err
		}
		number, ok := t.(json.Number)
		n, err := strconv.ParseInt(string(number), 10, strconv.IntSize)
		if !ok || err != nil || n < least || n > most {
			return bad(at, value(t), "it is not a whole number from %d to %d", least, most)
		}
		*into = int(n)
		return nil
	}
}

// value is a token as a problem shows it.
func value(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case nil:
		return "null"
	case string:
		return strconv.Quote(cut(t))
	}
	return cut(fmt.Sprint(t))
}

// cut is at most the first shown bytes of a text, in whole letters.
func cut(s string) string {
	if len(s) <= shown {
		return s
	}
	n := shown
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
