package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed13b07268/ration/hybrid"
	"github.com/seed13b07268/ration/hybrid/holds"
	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
	"github.com/seed13b07268/ration/hybrid/service/internal/reservations"
)

// newFake returns an API over a fake limiter of the shop.
func newFake(t testing.TB) (*service, *api.Fake) {
	t.Helper()
	set, err := rules.Parse(rules.Document{Text: []byte(shop)})
	must(t, err)
	f := &api.Fake{Set: set, Each: rules.Status{State: rules.Limited}}
	return newReplica(t, f, holds.NewMemory()), f
}

// newReplica returns an API of a store that others may have, too.
func newReplica(t testing.TB, f *api.Fake, store holds.Store) *service {
	k, err := reservations.New(f, store, quiet)
	must(t, err)
	c := api.Config{Log: quiet, Holds: k}
	return &service{Handler: api.NewFake(f, nil, auth, c), api: describe(t), keeper: k}
}

// ends reports whether reservations have been settled so, and how many descriptors are charged.
func ends(t testing.TB, f *api.Fake, settled string, charged ...int) {
	t.Helper()
	s, c := f.Ends()
	var hits []int
	for _, d := range c {
		hits = append(hits, d.Hits)
	}
	if fmt.Sprint(s) != settled || !slices.Equal(hits, charged) {
		t.Errorf("settled %v, charged %v; not %s, %v", s, hits, settled, charged)
	}
}

const estimate = `{"domain": "shop", "ttl": 60, "descriptors": [
	{"entries": [{"key": "user", "value": "ann"}], "hits": 7},
	{"entries": [{"key": "address", "value": "::1"}]}]}`

// TestSettle: a reservation is settled once, by its caller, with a number for each descriptor. A
// repeat has the same answer.
func TestSettle(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	id := got.at("reservation_id")
	if len(id) != 26 || got.at("result", "allowed") != "true" {
		t.Fatal(got.Body)
	}
	at := "/v1/reservations/" + id
	wrong := s.do(t, "eve", "POST", at+"/settle", `{"used": [5]}`, http.StatusBadRequest)
	if wrong.detail() != "used: the list has not one number for each descriptor" {
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
	ends(t, f, "[]")
	for range 2 {
		s.do(t, "eve", "POST", at+"/settle", `{"used": [5, 1]}`, http.StatusNoContent)
	}
	s.do(t, "eve", "POST", at+"/settle", `{"used": [6, 1]}`, http.StatusConflict)
	s.do(t, "eve", "DELETE", at, "", http.StatusConflict)
	s.do(t, "eve", "POST", at+"/extend", `{"ttl": 9}`, http.StatusConflict)
	ends(t, f, "[[5 1]]")
}

// TestCancel: a reservation can be cancelled, and nothing of it is used.
func TestCancel(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	for range 2 {
		s.do(t, "eve", "DELETE", "/v1/reservations/"+got.at("reservation_id"), "", http.StatusNoContent)
	}
	ends(t, f, "[[0 0]]")
}

// TestNothingReserved: where no rule limits or counts there is no hold, also under an id that the
// caller has chosen. Where a shadow counts there is one.
func TestNothingReserved(t *testing.T) {
	s, f := newFake(t)
	chosen := strings.Replace(estimate, `"ttl"`, `"reservation_id": "job-1", "ttl"`, 1)
	for _, f.Each.State = range []rules.State{rules.NotConfigured, rules.Unlimited, rules.Replaced} {
		for _, body := range []string{estimate, chosen} {
			got := s.do(t, "eve", "POST", "/v1/reserve", body, http.StatusOK)
			if got.at("reservation_id") != "<nil>" || got.at("result", "allowed") != "true" {
				t.Error(f.Each.State, got.Body)
			}
		}
	}
	if n := s.keeper.Open(); n != 0 {
		t.Errorf("%d holds of nothing", n)
	}
	s.do(t, "eve", "POST", "/v1/reservations/job-1/settle", `{"used": [1, 1]}`, http.StatusNotFound)
	f.Each.State = rules.Shadow
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	if got.at("reservation_id") == "<nil>" {
		t.Error("a shadow is not told what is used:", got.Body)
	}
}

// TestAnyReplica: another replica than that of the tokens ends a reservation. What is left comes
// back there, and what is above the estimate is charged here.
func TestAnyReplica(t *testing.T) {
	_, f := newFake(t)
	store := holds.NewMemory()
	home := newReplica(t, f, store)
	g := &api.Fake{Set: f.Set, Each: f.Each}
	other := newReplica(t, g, store)
	id := home.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK).at("reservation_id")
	at := "/v1/reservations/" + id
	other.do(t, "eve", "POST", at+"/extend", `{"ttl": 600}`, http.StatusOK)
	other.do(t, "eve", "POST", at+"/settle", `{"used": [9, 0]}`, http.StatusNoContent)
	ends(t, g, "[]", 2)
	home.do(t, "eve", "POST", at+"/settle", `{"used": [9, 0]}`, http.StatusNoContent)
	ends(t, f, "[[7 0]]")
}

// TestChosenID: a repeat of an id has the answer of the first, and takes nothing; another order
// with that id is a conflict, and so is a repeat after the end.
func TestChosenID(t *testing.T) {
	s, f := newFake(t)
	chosen := strings.Replace(estimate, `"ttl"`, `"reservation_id": "job-1", "ttl"`, 1)
	first := s.do(t, "eve", "POST", "/v1/reserve", chosen, http.StatusOK)
	again := s.do(t, "eve", "POST", "/v1/reserve", chosen, http.StatusOK)
	if first.at("reservation_id") != "job-1" || first.Body.String() != again.Body.String() {
		t.Errorf("%s, and then %s", first.Body, again.Body)
	}
	f.Deny = true
	s.do(t, "eve", "POST", "/v1/reserve", strings.Replace(chosen, "7", "8", 1), http.StatusConflict)
	s.do(t, "eve", "DELETE", "/v1/reservations/job-1", "", http.StatusNoContent)
	for _, f.Deny = range []bool{true, false} {
		s.do(t, "eve", "POST", "/v1/reserve", chosen, http.StatusConflict)
	}
	ends(t, f, "[[0 0] [0 0]]") // what it has taken comes back
}

// estimating is a reservation of two descriptors, one of which is estimated.
func (s *service) estimating(t *testing.T, id, estimate string) answer {
	t.Helper()
	return s.do(t, "eve", "POST", "/v1/reserve", fmt.Sprintf(`{"domain": "shop",
		"reservation_id": %q, "estimate": %s, "descriptors": [
		{"entries": [{"key": "user", "value": "ann"}]},
		{"entries": [{"key": "address", "value": "::1"}], "hits": 1}]}`, id, estimate), http.StatusOK)
}

// TestEstimate: a descriptor without hits has those that jobs of the same kind have cost lately
// above the guess, or as many as max_tokens allow. A repeat has the answer of the first, though the
// service has learned meanwhile. What was cancelled, and what has hits, teaches nothing.
func TestEstimate(t *testing.T) {
	s, f := newFake(t)
	ends := func(id, used string) {
		t.Helper()
		s.do(t, "eve", "POST", "/v1/reservations/"+id+"/settle", used, http.StatusNoContent)
	}
	first := s.estimating(t, "first", `{"of": "large", "guess": 100}`)
	if first.at("estimate") != "100" {
		t.Errorf("of a kind of which nothing is known: %s", first.Body)
	}
	for i := range 8 {
		id := fmt.Sprint("job-", i)
		s.estimating(t, id, `{"of": "large", "guess": 100}`)
		ends(id, `{"used": [350, 900]}`)
		s.estimating(t, "cancelled-"+id, `{"of": "large", "guess": 100}`)
		ends("cancelled-"+id, `{"used": [0, 0]}`)
	}
	for i, c := range []struct{ asked, want string }{
		{`{"of": "large", "guess": 10}`, "260"},
		{`{"of": "large"}`, "250"},
		{`{"of": "small", "guess": 10}`, "10"},
		{`{"of": "large", "guess": 10, "max_tokens": 4000}`, "4010"},
		{`{"of": "large", "guess": 1099511627776, "max_tokens": 1099511627776}`, "1099511627776"},
	} {
		id := fmt.Sprint("asked-", i)
		got := s.estimating(t, id, c.asked).Body.String()
		if !strings.Contains(got, `"estimate":`+c.want+`}`) {
			t.Errorf("%s: %s, not %s", c.asked, got, c.want)
		}
		ends(id, `{"used": [0, 0]}`)
	}
	again := s.estimating(t, "first", `{"of": "large", "guess": 100}`)
	if first.Body.String() != again.Body.String() {
		t.Errorf("%s, and then %s", first.Body, again.Body)
	}
	ends("first", `{"used": [300, 1]}`)
	if settled, _ := f.Ends(); fmt.Sprint(settled[len(settled)-1]) != "[300 1]" {
		t.Errorf("settled %v", settled)
	}
}

// TestNoEstimate: none is made that is not asked for, and one that makes no sense is refused.
func TestNoEstimate(t *testing.T) {
	s, _ := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	if got.at("estimate") != "<nil>" {
		t.Error(got.Body)
	}
	const plain, full = `{"entries": [{"key": "user", "value": "ann"}]}`,
		`{"entries": [{"key": "user", "value": "ann"}], "hits": 1}`
	for _, c := range []struct{ estimate, descriptor, field string }{
		{`{"guess": 1}`, plain, "estimate.of"},
		{`{"of": ""}`, plain, "estimate.of"},
		{`{"of": "x", "max_tokens": 0}`, plain, "estimate.max_tokens"},
		{`{"of": "x", "guess": 1099511627777}`, plain, "estimate.guess"},
		{`{"of": "x", "most": 1}`, plain, "estimate.most"},
		{`{"of": "x"}`, full, "estimate"},
	} {
		wrong := s.do(t, "eve", "POST", "/v1/reserve", fmt.Sprintf(
			`{"domain": "shop", "estimate": %s, "descriptors": [%s]}`, c.estimate, c.descriptor),
			http.StatusBadRequest)
		if wrong.at("field") != c.field {
			t.Errorf("%s: %s", c.estimate, wrong.Body)
		}
	}
}

// TestDeniedReservation: it has no id, and takes no place.
func TestDeniedReservation(t *testing.T) {
	s, f := newFake(t)
	f.Deny = true
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	if got.at("reservation_id") != "<nil>" || got.at("expires") != "<nil>" ||
		got.at("result", "denied") != "0" {
		t.Fatal(got.Body)
	}
	if s.keeper.Open() != 0 {
		t.Error("it takes a place")
	}
	ends(t, f, "[]")
}

// TestExpiry: when its time has ended a reservation counts as its caller has said, and is no more.
func TestExpiry(t *testing.T) {
	for unsettled, want := range map[string]string{"spent": "[[7 1]]", "returned": "[[0 0]]"} {
		synctest.Test(t, func(t *testing.T) {
			s, f := newFake(t)
			ctx, cancel := context.WithCancel(t.Context())
			go s.keeper.Run(ctx)
			body := strings.Replace(estimate, `"ttl"`, `"unsettled": "`+unsettled+`", "ttl"`, 1)
			got := s.do(t, "eve", "POST", "/v1/reserve", body, http.StatusOK)
			time.Sleep(time.Minute - time.Millisecond)
			synctest.Wait()
			ends(t, f, "[]")
			time.Sleep(holds.Poll)
			synctest.Wait()
			ends(t, f, want)
			s.do(t, "eve", "POST", "/v1/reservations/"+got.at("reservation_id")+"/settle",
				`{"used": [1, 1]}`, http.StatusConflict)
			time.Sleep(time.Hour)
			synctest.Wait()
			ends(t, f, want)
			cancel()
			synctest.Wait()
		})
	}
}

// TestFieldsOfReservation: a time is from 1 s to an hour, an id has few signs, and unsettled two
// words.
func TestFieldsOfReservation(t *testing.T) {
	s, _ := newFake(t)
	for _, c := range [][2]string{
		{"ttl", "0"}, {"ttl", "3601"}, {"ttl", "1.5"}, {"ttl", `"60"`}, {"reservation_id", `""`},
		{"reservation_id", `"a/b"`}, {"reservation_id", `".."`}, {"unsettled", `"kept"`},
	} {
		body := strings.Replace(estimate, `"ttl": 60`, fmt.Sprintf(`"%s": %s`, c[0], c[1]), 1)
		got := s.do(t, "eve", "POST", "/v1/reserve", body, http.StatusBadRequest)
		if got.at("field") != c[0] {
			t.Errorf("%s: %s", body, got.Body)
		}
	}
}

// TestManyReservations: a caller has a bounded number of them, and so have all. What has ended
// makes room.
func TestManyReservations(t *testing.T) {
	const mostOfCaller, most = 1000, 10_000
	s, _ := newFake(t)
	got := s.do(t, "caller 0", "POST", "/v1/reserve", estimate, http.StatusOK)
	for i := 1; i < most; i++ {
		caller := fmt.Sprint("caller ", i/mostOfCaller)
		if code := plain(t.Context(), s, caller, "/v1/reserve", estimate); code != http.StatusOK {
			t.Fatal(i, code)
		}
		if i == mostOfCaller-1 {
			full := s.do(t, "caller 0", "POST", "/v1/reserve", estimate, http.StatusTooManyRequests)
			if full.Header().Get("Retry-After") != "1" {
				t.Error(full.Header())
			}
		}
	}
	s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusTooManyRequests)
	s.do(t, "caller 0", "DELETE", "/v1/reservations/"+got.at("reservation_id"), "",
		http.StatusNoContent)
	s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
}

// TestOneEnd: of many that end a reservation at the same time, one does.
func TestOneEnd(t *testing.T) {
	s, f := newFake(t)
	got := s.do(t, "eve", "POST", "/v1/reserve", estimate, http.StatusOK)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			plain(t.Context(), s, "eve", "/v1/reservations/"+got.at("reservation_id")+"/settle",
				`{"used": [1, 1]}`)
		})
	}
	all.Wait()
	ends(t, f, "[[1 1]]")
}

// TestLostReserve: what was reserved for a caller who has gone is cancelled at once, unless the
// caller knows the id.
func TestLostReserve(t *testing.T) {
	s, f := newFake(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.Made = cancel
	plain(ctx, s, "eve", "/v1/reserve", estimate)
	ends(t, f, "[[0 0]]")
	plain(ctx, s, "eve", "/v1/reserve",
		strings.Replace(estimate, `"ttl"`, `"reservation_id": "job-1", "ttl"`, 1))
	ends(t, f, "[[0 0]]")
	if s.keeper.Open() != 1 {
		t.Error("the caller's own id is not held")
	}
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
