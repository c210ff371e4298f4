package api_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// A told is a body that tells when somebody reads it.
type told struct {
	io.Reader
	reads func()
}

func (b told) Read(p []byte) (int, error) {
	b.reads()
	return b.Reader.Read(p)
}

// TestStuckBodies: bodies that do not arrive keep nobody from reading or changing rules.
func TestStuckBodies(t *testing.T) {
	s := newService(t)
	body, stuck := io.Pipe()
	var asking, reading sync.WaitGroup
	for range 8 {
		r := request("ann", "PUT", "/v1/domains/shop?reason=x", "descriptors: []")
		r.Header.Set("If-Match", `"1"`)
		reading.Add(1)
		r.Body, r.ContentLength = io.NopCloser(told{body, sync.OnceFunc(reading.Done)}), -1
		asking.Go(func() { serve(s, r) })
	}
	reading.Wait()
	s.do(t, "ann", "GET", "/v1/domains/shop", "", http.StatusOK)
	s.do(t, "ann", "PUT", "/v1/domains/shop?reason=x", shop, http.StatusOK, "If-Match", `"1"`)
	stuck.CloseWithError(io.ErrUnexpectedEOF)
	asking.Wait()
}

// A slow book answers when it may.
type slow struct {
	rules.Book
	asked chan struct{}
	may   chan struct{}
}

func (b slow) History(
	ctx context.Context, domain string, before int64, n int,
) ([]rules.Revision, error) {
	b.asked <- struct{}{}
	<-b.may
	return b.Book.History(ctx, domain, before, n)
}

// TestPlaces: where all places for texts are taken a request is told to come again.
func TestPlaces(t *testing.T) {
	s := newService(t)
	book := slow{s.book, make(chan struct{}, 8), make(chan struct{})}
	s.Handler = api.New(s.limiter, book, auth, api.Config{Log: quiet})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if w := serve(s, request("ann", "GET", "/v1/domains/shop", "")); w.Code != http.StatusOK {
				t.Errorf("with a place: %d", w.Code)
			}
		})
		<-book.asked
	}
	a := s.do(t, "ann", "GET", "/v1/domains/shop", "", http.StatusServiceUnavailable)
	if a.Header().Get("Retry-After") != "1" || !strings.Contains(a.detail(), "at once") {
		t.Errorf("%v %s", a.Header(), a.detail())
	}
	s.do(t, "ann", "GET", "/v1/domains/shop/bans", "", http.StatusServiceUnavailable)
	s.do(t, "ann", "PUT", banAnn, order("abuse"), http.StatusServiceUnavailable)
	s.do(t, "ann", "DELETE", banAnn+"&reason=r", "", http.StatusServiceUnavailable)
	close(book.may)
	asking.Wait()
	s.do(t, "ann", "GET", "/v1/domains/shop", "", http.StatusOK)
}
