package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// newFake returns an API over a fake limiter of the shop.
func newFake(t testing.TB) (*service, *api.Fake) {
	t.Helper()
	set, err := rules.Parse(rules.Document{Text: []byte(shop)})
	must(t, err)
	f := &api.Fake{Set: set}
	handler := api.NewFake(f, nil, auth, api.Config{Log: quiet})
	return &service{Handler: handler, api: describe(t)}, f
}

// ends reports whether reservations have ended so: what was settled, and how many were cancelled.
func ends(t testing.TB, f *api.Fake, settled string, cancelled int) {
	t.Helper()
	s, c := f.Ends()
	if fmt.Sprint(s) != settled || c != cancelled {
		t.Errorf("settled %v, cancelled %d; not %s, %d", s, c, settled, cancelled)
	}
}

const estimate = `{"domain": "shop", "ttl": 60, "descriptors": [
	{"entries": [{"key": "user", "value": "ann"}], "hits": 7},
	{"entries": [{"key": "address", "value": "::1"}]}]}`

// TestSettle: a reservation is ended once, by its caller, with a number for each descriptor.
func TestSettle(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	id := got.at("id")
	if len(id) != 22 || got.at("result", "allowed") != "true" {
		t.Fatal(got.Body)
	}
	at := "/v1/reservations/" + id
	wrong := s.do(t, "eve", "POST", at+"/settle", `{"used": [5]}`, http.StatusBadRequest)
	if wrong.detail() != "used: the list has 1 numbers for 2 descriptors" {
		t.Error(wrong.Body)
	}
	for body, field := range map[string]string{
		`{}`: "used", `{"used": []}`: "used", `{"used": [1, -1]}`: "used[1]",
		`{"used": [1, 1099511627777]}`: "used[1]", `{"used": [1, 1099511627776]}`: "used",
		`{"used": [1, 2], "used": [1, 2]}`: "used",
	} {
		wrong := s.do(t, "eve", "POST", at+"/settle", body, http.StatusBadRequest)
		if wrong.at("field") != field {
			t.Errorf("%s: %s", body, wrong.Body)
		}
	}
	// Another caller learns no more of it than of none.
	foreign := s.do(t, "ann", "POST", at+"/settle", `{"used": [5, 1]}`, http.StatusNotFound)
	missing := s.do(t, "ann", "DELETE", "/v1/reservations/x", "", http.StatusNotFound)
	if foreign.Body.String() != missing.Body.String() {
		t.Errorf("%s differs from %s", foreign.Body, missing.Body)
	}
	s.do(t, "ann", "DELETE", at, "", http.StatusNotFound)
	ends(t, f, "[]", 0)
	s.do(t, "eve", "POST", at+"/settle", `{"used": [5, 1]}`, http.StatusNoContent)
	s.do(t, "eve", "POST", at+"/settle", `{"used": [5, 1]}`, http.StatusNotFound)
	s.do(t, "eve", "DELETE", at, "", http.StatusNotFound)
	ends(t, f, "[[5 1]]", 0)
}

// TestCancel: a reservation can be cancelled, once.
func TestCancel(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	s.do(t, "eve", "DELETE", "/v1/reservations/"+got.at("id"), "", http.StatusNoContent)
	s.do(t, "eve", "DELETE", "/v1/reservations/"+got.at("id"), "", http.StatusNotFound)
	ends(t, f, "[]", 1)
}

// TestDeniedReservation: it has no id, and takes no place.
func TestDeniedReservation(t *testing.T) {
	s, f := newFake(t)
	f.Deny = true
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	if got.at("id") != "<nil>" || got.at("expires") != "<nil>" || got.at("result", "denied") != "0" {
		t.Fatal(got.Body)
	}
	for range api.MostOpenOfCaller {
		if code := plain(t.Context(), s, "eve", "/v1/reserve", estimate); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	f.Err = hybrid.ErrUnavailable
	for range api.MostOpenOfCaller + 1 {
		code := plain(t.Context(), s, "eve", "/v1/reserve", estimate)
		if code != http.StatusServiceUnavailable {
			t.Fatal(code)
		}
	}
	ends(t, f, "[]", 0)
}

// TestExpiry: when its time has ended a reservation is settled at its estimate, and is no more.
func TestExpiry(t *testing.T) {
	s, f := newFake(t)
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
		if want := start.Add(time.Minute).UTC().Format(time.RFC3339Nano); got.at("expires") != want {
			t.Errorf("%s, not %s", got.at("expires"), want)
		}
		other := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		ends(t, f, "[]", 0)
		s.do(t, "eve", "DELETE", "/v1/reservations/"+other.at("id"), "", http.StatusNoContent)
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		ends(t, f, "[[7 1]]", 1)
		s.do(t, "eve", "POST", "/v1/reservations/"+got.at("id")+"/settle", `{"used": [1, 1]}`,
			http.StatusNotFound)
		time.Sleep(time.Hour)
		synctest.Wait()
		ends(t, f, "[[7 1]]", 1)
	})
}

// TestTimeOfReservation: it is from 1 s to an hour.
func TestTimeOfReservation(t *testing.T) {
	s, _ := newFake(t)
	for _, ttl := range []string{"0", "3601", "1.5", `"60"`} {
		body := strings.Replace(estimate, "60", ttl, 1)
		got := s.do(t, "eve", "POST", "/v1/reserve", body, http.StatusBadRequest)
		if got.at("field") != "ttl" {
			t.Error(got.Body)
		}
	}
}

// TestManyReservations: a caller has a bounded number of them, and so have all. What has ended
// makes room.
func TestManyReservations(t *testing.T) {
	s, _ := newFake(t)
	ctx := context.Background()
	reserve := func(caller string) int {
		return plain(ctx, s, caller, "/v1/reserve", estimate)
	}
	got := s.do(t, "caller 0", "POST", "/v1/reserve", estimate, http.StatusOK)
	for range api.MostOpenOfCaller - 1 {
		if code := reserve("caller 0"); code != http.StatusOK {
			t.Fatal(code)
		}
	}
	full := s.do(t, "caller 0", "POST", "/v1/reserve", estimate, http.StatusTooManyRequests)
	if full.Header().Get("Retry-After") != "1" {
		t.Error(full.Header())
	}
	for i := api.MostOpenOfCaller; i < api.MostOpen; i++ {
		caller := fmt.Sprint("caller ", i/api.MostOpenOfCaller)
		if code := reserve(caller); code != http.StatusOK {
			t.Fatal(i, code)
		}
	}
	s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusServiceUnavailable)
	s.do(t, "caller 0", "DELETE", "/v1/reservations/"+got.at("id"), "", http.StatusNoContent)
	s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	s.do(t, "caller 0", "POST", "/v1/reserve", estimate, http.StatusServiceUnavailable)
}

// TestOneEnd: of many that end a reservation at the same time, one does.
func TestOneEnd(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			plain(t.Context(), s, "eve", "/v1/reservations/"+got.at("id")+"/settle", `{"used": [1, 1]}`)
		})
	}
	all.Wait()
	ends(t, f, "[[1 1]]", 0)
}

// TestLostReserve: what was reserved for a caller who has gone is cancelled at once.
func TestLostReserve(t *testing.T) {
	s, f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.Made = cancel
	plain(ctx, s, "eve", "/v1/reserve", estimate)
	ends(t, f, "[]", 1)
	f.Made = nil
	for range api.MostOpenOfCaller { // and has left its place
		if code := plain(t.Context(), s, "eve", "/v1/reserve", estimate); code != http.StatusOK {
			t.Fatal(code)
		}
	}
}

// TestFailedEnd: the caller hears that a reservation has ended, though not as it wished.
func TestFailedEnd(t *testing.T) {
	s, f := newFake(t)
	f.End = errors.New("secret")
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	at := "/v1/reservations/" + got.at("id")
	got = s.do(t, "eve", "POST", at+"/settle", `{"used": [1, 1]}`, http.StatusServiceUnavailable)
	if got.Header().Get("Retry-After") != "" || strings.Contains(got.Body.String(), "secret") {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	s.do(t, "eve", "DELETE", at, "", http.StatusNotFound)
}

// TestTimesAreRoundedUp: a caller that came back a moment earlier would be denied.
func TestTimesAreRoundedUp(t *testing.T) {
	s, f := newFake(t)
	f.Deny, f.Each = true, rules.Status{State: rules.Limited, Decision: hybrid.Decision{
		Limit: hybrid.PerSecond(3), RetryAfter: 333_333_333, ResetAfter: 1,
	}}
	got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "x"), http.StatusOK)
	if got.at("each", 0, "retry_after") != "0.334" || got.at("each", 0, "reset_after") != "0.001" {
		t.Error(got.Body)
	}
}

// TestStoreAway: a store that does not answer is 503, with a time to come again.
func TestStoreAway(t *testing.T) {
	s, f := newFake(t)
	for _, err := range []error{
		fmt.Errorf("secret: %w", hybrid.ErrUnavailable), hybrid.ErrClosed, errors.New("secret"),
		context.DeadlineExceeded,
	} {
		f.Err = err
		for _, verb := range []string{"take", "peek", "reserve"} {
			got := s.do(t, "eve", "POST", "/v1/"+verb, two("a", "b", 1), http.StatusServiceUnavailable)
			if got.Header().Get("Retry-After") != "1" || strings.Contains(got.Body.String(), "secret") {
				t.Errorf("%v: %v %s", err, got.Header(), got.Body)
			}
		}
	}
}
