package openid

import (
	"errors"
	"net/http"
	"time"
)

// newWeb returns what asks the issuer. It follows no redirect, which would take the secret and the
// code elsewhere, and reads no answer without end. Connections are not kept: logins are rare.
func newWeb() *http.Client {
	return &http.Client{
		Timeout: patience,
		Transport: bounded{&http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, DisableKeepAlives: true,
			TLSHandshakeTimeout: 5 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return errors.New("the issuer redirects, which is not followed")
		},
	}
}

// bounded fails an answer of more than mostBytes.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.RoundTripper.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, mostBytes)
	}
	return resp, err
}
