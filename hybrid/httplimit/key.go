package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/textproto"
	"strings"
)

// A Key says which key of a limit a request is counted on: a client, a user, an endpoint. It
// returns false if the limit does not apply to the request. It is called for each request, and
// must be safe for concurrent use.
//
// If a Key has a method Validate() error, New calls it.
type Key interface {
	Key(r *http.Request) (key string, applies bool)
}

// A KeyFunc is a function as a Key.
type KeyFunc func(r *http.Request) (key string, applies bool)

// Key calls f.
func (f KeyFunc) Key(r *http.Request) (string, bool) { return f(r) }

// longestKey is how much of a header is kept as it is.
const longestKey = 64

// A Header is a Key: the first value of the header field of this name, such as "X-Api-Key". The
// limit does not apply to a request without it: anybody can leave it out or make values up, so
// use it for what has been authenticated, or beside a limit for each Client.
//
// A value of more than 64 bytes is known by its SHA-256. Shorter ones are readable in the store
// and in Stats: where the header is a secret, write a KeyFunc that hashes it.
type Header string

// Validate returns an error if h is not the name of a header field, or is "Host", which net/http
// keeps in Request.Host alone: use a KeyFunc for it.
func (h Header) Validate() error {
	if strings.EqualFold(string(h), "Host") {
		return fmt.Errorf("Header %q never applies: use a KeyFunc of r.Host", string(h))
	}
	if !validField(string(h)) {
		return fmt.Errorf("Header %.100q is not the name of a header field", string(h))
	}
	return nil
}

// Key implements Key.
func (h Header) Key(r *http.Request) (string, bool) {
	value := r.Header.Get(string(h))
	if value == "" {
		return "", false
	}
	if len(value) > longestKey {
		sum := sha256.Sum256([]byte(value))
		return "sha256:" + hex.EncodeToString(sum[:]), true // longer than any that is not hashed
	}
	return value, true
}

// validField reports whether name is a token of RFC 9110, section 5.1.
func validField(name string) bool {
	for i := range len(name) {
		if !tokenByte(name[i]) {
			return false
		}
	}
	return name != "" && textproto.TrimString(name) == name
}

// tokenByte reports whether c may stand in a token of RFC 9110, section 5.6.2.
func tokenByte(c byte) bool {
	switch {
	case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		return true
	}
	switch c {
	case '!', '#', '$', '%', '&', '\'', '*', '+', '-', '.', '^', '_', '`', '|', '~':
		return true
	}
	return false
}

// A Pattern is a Key: the pattern by which a mux finds the handler, such as "GET /items/{id}".
// So there is one key for each endpoint, however many paths it has. All requests that the mux
// does not know share the key "".
//
// Request.Pattern is set by the mux. A Guard around the mux runs before that, and asks Mux; its
// requests are routed twice. A Guard around a single handler, within the mux, needs none.
type Pattern struct{ Mux *http.ServeMux }

// Key implements Key.
func (p Pattern) Key(r *http.Request) (string, bool) {
	if r.Pattern != "" || p.Mux == nil {
		return r.Pattern, true
	}
	_, pattern := p.Mux.Handler(r)
	return pattern, true
}
