// Package openai limits the tokens of language models behind an API of the shape of OpenAI's: chat
// completions, completions, responses and embeddings, streamed or not.
//
// Three parts go around the limits of httplimit and a reverse proxy:
//
//   - Handler reads the model and the bounds of a request, before its limits are asked.
//   - Call.Estimate and Call.Used are for Cost and After of a httplimit.Limit: the tokens are
//     reserved, and settled when the answer has ended.
//   - Count reads the usage of an answer on its way to the client.
//
// # Promise
//
// What the upstream says in usage is what is settled. A stream without it, or one whose client
// hangs up, costs the prompt by its length and a token for each event that has come by then. A
// request that fails upstream costs nothing.
//
// # What it does not promise
//
// It has no tokenizer: a prompt is guessed to have a token for each four bytes. The upstream tells
// the usage of a stream only if the request has stream_options.include_usage. An event may have
// more than one token. Of an answer above 1 MiB that is no stream only the prompt counts.
package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	mostBody = 4 << 20 // bytes of a request
	mostLine = 1 << 20 // bytes of an answer that is no stream, or of an event, that are read for usage
)

// A Call is what is known of a request. It is safe for concurrent use.
type Call struct {
	Model     string
	MaxTokens int // of the answer, 0 if the request does not say
	Prompt    int // tokens, guessed

	mu     sync.Mutex
	usage  int // tokens in all, as the upstream says; -1 if it has not
	events int // of a stream, but for the last one
	began  bool
}

type callKey struct{}

// Of returns the Call of a request that Handler has passed on, or one in which nothing is known.
func Of(r *http.Request) *Call {
	if c, ok := r.Context().Value(callKey{}).(*Call); ok {
		return c
	}
	return &Call{usage: -1}
}

// Estimate is the most that the call may cost: the prompt and MaxTokens, or usual where the request
// does not bound its answer. It is at least 1: a request for no tokens is
// admitted even where there is a debt.
func (c *Call) Estimate(usual int) int {
	if c.MaxTokens > 0 {
		usual = c.MaxTokens
	}
	return max(c.Prompt+max(usual, 0), 1)
}

// Used is what the call has cost by now, in tokens.
func (c *Call) Used() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.usage >= 0:
		return c.usage
	case !c.began:
		return 0
	}
	return max(c.Prompt, 0) + c.events
}

// Handler reads the bodies of requests, up to 4 MiB, and passes them on with a Call. A longer one
// is answered with 413. One that is no JSON is answered with 400, and so is one that has model, n
// or a bound twice, or in other letters: the upstream may take another of the two than the limits
// have.
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
		if err != nil {
			http.Error(w, "the body is longer than 4 MiB, or has not arrived",
				http.StatusRequestEntityTooLarge)
			return
		}
		in := asked{}
		if len(body) > 0 {
			if err := in.read(body); err != nil {
				http.Error(w, "the body is no JSON of a request for a model: "+err.Error(),
					http.StatusBadRequest)
				return
			}
		}
		c := &Call{Model: in.model, MaxTokens: in.most(), Prompt: len(body) / 4, usage: -1}
		r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
		r.Header = r.Header.Clone()
		r.Header.Del("Accept-Encoding") // of an answer that is compressed nothing can be read
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		next.ServeHTTP(w, r)
	})
}

// asked is what is read of a request.
type asked struct {
	model                                string
	tokens, completed, output, n, bestOf int
}

// read takes names as they are written, and each once. json.Unmarshal would take MODEL for model,
// and the last of several.
func (f *asked) read(body []byte) error {
	ours := map[string]any{
		"model": &f.model, "max_tokens": &f.tokens, "max_completion_tokens": &f.completed,
		"max_output_tokens": &f.output, "n": &f.n, "best_of": &f.bestOf,
	}
	had := map[string]bool{}
	in := json.NewDecoder(bytes.NewReader(body))
	if t, err := in.Token(); err != nil || t != json.Delim('{') {
		return errors.New("it is no object")
	}
	for in.More() {
		t, err := in.Token()
		if err != nil {
			return err
		}
		name, _ := t.(string)
		for our := range ours {
			if strings.EqualFold(our, name) && (our != name || had[our]) {
				return fmt.Errorf("%q is there twice, or is not written so: %q", our, name)
			}
		}
		into, is := ours[name]
		if !is {
			into = new(json.RawMessage)
		}
		had[name] = is
		if err := in.Decode(into); err != nil {
			return err
		}
	}
	if _, err := in.Token(); err != nil { // the end of the object
		return err
	}
	if _, err := in.Token(); err != io.EOF {
		return errors.New("something is behind it")
	}
	return nil
}

// most is how many tokens the answers may have, up to 2^30; 0 if that is not bounded.
func (f *asked) most() int {
	tokens := int64(min(max(f.tokens, f.completed, f.output), 1<<24))
	return int(min(tokens*int64(min(max(f.n, f.bestOf, 1), 64)), 1<<30))
}

// Count reads the usage of an answer while its body is read. It is for ModifyResponse of a
// httputil.ReverseProxy, and returns nil.
func Count(res *http.Response) error {
	c, ok := res.Request.Context().Value(callKey{}).(*Call)
	if !ok || res.StatusCode != http.StatusOK {
		return nil
	}
	c.mu.Lock()
	c.began = true
	c.mu.Unlock()
	stream := strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream")
	res.Body = &counted{ReadCloser: res.Body, call: c, stream: stream}
	return nil
}

// counted is the body of an answer.
type counted struct {
	io.ReadCloser
	call   *Call
	stream bool
	line   []byte // has begun: an event, or all of an answer that is no stream
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		end := len(rest)
		if at := bytes.IndexByte(rest, '\n'); b.stream && at >= 0 {
			end = at + 1
		}
		b.line = append(b.line, rest[:min(end, max(mostLine-len(b.line), 0))]...)
		if rest[end-1] == '\n' && b.stream {
			b.end()
		}
		rest = rest[end:]
	}
	if err != nil {
		b.end()
	}
	return n, err
}

// end takes a line, or the whole of an answer that is no stream.
func (b *counted) end() {
	line := bytes.TrimSpace(b.line)
	b.line = b.line[:0]
	if b.stream {
		var data bool
		if line, data = bytes.CutPrefix(line, []byte("data:")); !data {
			return
		}
	}
	var out struct {
		Usage    *usage `json:"usage"`
		Response struct {
			Usage *usage `json:"usage"`
		} `json:"response"`
	}
	if json.Unmarshal(line, &out) != nil {
		return // [DONE], or what is no JSON
	}
	b.call.mu.Lock()
	defer b.call.mu.Unlock()
	switch {
	case out.Usage != nil:
		b.call.usage = out.Usage.tokens()
	case out.Response.Usage != nil:
		b.call.usage = out.Response.Usage.tokens()
	case b.stream:
		b.call.events++
	}
}

// usage is what an upstream says of a call.
type usage struct {
	Total      int `json:"total_tokens"`
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Input      int `json:"input_tokens"`
	Output     int `json:"output_tokens"`
}

// tokens is from 0 to 2^30: an upstream may be wrong.
func (u usage) tokens() int {
	return min(max(u.Total, u.Prompt+u.Completion, u.Input+u.Output, 0), 1<<30)
}
