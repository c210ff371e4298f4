package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
)

// until is a time from now, as a body has it.
func until(after time.Duration) string { return time.Now().Add(after).UTC().Format(time.RFC3339) }

// order is the body of a ban.
func order(reason string) string {
	return fmt.Sprintf(`{"until": %q, "reason": %q}`, until(time.Hour), reason)
}

const banAnn = "/v1/domains/shop/bans?descriptor=user%3Dann"

// TestBans: a ban is set, listed, in force and lifted, and take tells its end and reason.
func TestBans(t *testing.T) {
	s := newService(t)
	got := s.do(t, "edd", "PUT", banAnn, order("a <b>scraper</b>"), http.StatusOK)
	if got.at("descriptor") != "user=ann" || got.at("author") != "edd" {
		t.Error(got.Body)
	}
	got = s.do(t, "eve", "GET", "/v1/domains/shop/bans", "", http.StatusOK)
	if got.at("bans", 0, "reason") != "a <b>scraper</b>" || got.at("read_only") != "false" ||
		got.at("bans", 1) != "<nil>" {
		t.Error(got.Body)
	}
	within(t, "the ban", func() bool {
		got = s.do(t, "eve", "POST", "/v1/peek", one("shop", "user", "ann"), http.StatusOK)
		return got.at("allowed") == "false"
	})
	if got.at("each", 0, "state") != "banned" || got.at("each", 0, "ban", "author") != "edd" ||
		got.at("denied") != "0" || got.at("each", 0, "limit", "text") != "blocked" ||
		got.at("each", 0, "retry_after") != got.at("each", 0, "reset_after") {
		t.Error(got.Body)
	}
	got = s.do(t, "edd", "DELETE", banAnn+"&reason=a+mistake", "", http.StatusOK)
	if got.at("reason") != "a <b>scraper</b>" {
		t.Error(got.Body)
	}
	within(t, "its end", func() bool {
		got = s.do(t, "eve", "POST", "/v1/peek", one("shop", "user", "ann"), http.StatusOK)
		return got.at("allowed") == "true"
	})
	s.do(t, "edd", "DELETE", banAnn+"&reason=again", "", http.StatusNotFound)
	want := []string{"set user=ann edd ", "lifted user=ann edd a mistake"}
	if fmt.Sprint(s.told) != fmt.Sprint(want) {
		t.Errorf("told %q, not %q", s.told, want)
	}
}

// TestBanRefused: who may not ban, and what makes no sense, changes nothing.
func TestBanRefused(t *testing.T) {
	s := newService(t)
	body := order("abuse")
	s.do(t, "", "PUT", banAnn, body, http.StatusUnauthorized)
	s.do(t, "eve", "PUT", banAnn, body, http.StatusForbidden)
	s.do(t, "tim", "PUT", banAnn, body, http.StatusForbidden)
	s.do(t, "tim", "GET", "/v1/domains/shop/bans", "", http.StatusForbidden)
	s.do(t, "bob", "PUT", banAnn, body, http.StatusNotFound)
	s.do(t, "bob", "GET", "/v1/domains/shop/bans", "", http.StatusNotFound)
	s.do(t, "ann", "PUT", "/v1/domains/none/bans?descriptor=a%3Db", body, http.StatusNotFound)
	s.do(t, "ann", "PUT", banAnn, body, http.StatusForbidden, "Sec-Fetch-Site", "cross-site")
	s.do(t, "eve", "DELETE", banAnn+"&reason=r", "", http.StatusForbidden)
	for path, field := range map[string]string{
		"/v1/domains/shop/bans":                "descriptor",
		banAnn + "&descriptor=user%3Dbob":      "descriptor",
		"/v1/domains/shop/bans?descriptor=%3D": "descriptor",
		banAnn + "&reason=r":                   "reason",
	} {
		if got := s.do(t, "ann", "PUT", path, body, http.StatusBadRequest); got.at("field") != field {
			t.Error(got.Body)
		}
	}
	for wrong, status := range map[string]int{
		`{"reason": "r"}`:                      http.StatusBadRequest,
		`{"until": "tomorrow", "reason": "r"}`: http.StatusBadRequest,
		`{"until": 5, "reason": "r"}`:          http.StatusBadRequest,
		order(""):                              http.StatusBadRequest,
		order(" "):                             http.StatusBadRequest,
		order("a\u202eb"):                      http.StatusBadRequest,
		order(strings.Repeat("x", 257)):        http.StatusBadRequest,
		`{"until": "` + until(-time.Hour) + `", "reason": "r"}`:       http.StatusUnprocessableEntity,
		`{"until": "` + until(367*24*time.Hour) + `", "reason": "r"}`: http.StatusUnprocessableEntity,
	} {
		s.do(t, "ann", "PUT", banAnn, wrong, status)
	}
	for _, entries := range []string{"user", "ip=0.0.0.0/0", "user=" + strings.Repeat("x", 600)} {
		s.do(t, "ann", "PUT", "/v1/domains/shop/bans?descriptor="+url.QueryEscape(entries), body,
			http.StatusUnprocessableEntity)
	}
	s.do(t, "ann", "DELETE", banAnn, "", http.StatusBadRequest)
	if got := s.do(t, "ann", "GET", "/v1/domains/shop/bans", "", http.StatusOK); got.at("bans", 0) != "<nil>" {
		t.Error(got.Body)
	}
	if s.told != nil {
		t.Errorf("told %q", s.told)
	}
}

// TestBansHaveNoDomain: the name under which a book has bans is no domain, for anybody.
func TestBansHaveNoDomain(t *testing.T) {
	s := newService(t)
	s.do(t, "ann", "PUT", banAnn, order("abuse"), http.StatusOK)
	at := "/v1/domains/" + url.PathEscape(rules.BansPrefix+"shop")
	s.do(t, "ann", "GET", at, "", http.StatusNotFound)
	s.do(t, "ann", "GET", at+"/history", "", http.StatusNotFound)
	s.do(t, "ann", "PUT", at+"?reason=r", "domain: shop\nbans: []\n", http.StatusNotFound,
		"If-Match", `"1"`)
	s.do(t, "ann", "DELETE", at+"?reason=r", "", http.StatusNotFound, "If-Match", `"1"`)
	s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", "domain: shop\nbans: []\n",
		http.StatusUnprocessableEntity, "If-Match", `"1"`)
	got := s.do(t, "ann", "GET", "/v1/domains", "", http.StatusOK)
	if got.at("domains", 0, "domain") != "shop" || got.at("domains", 1) != "<nil>" {
		t.Error(got.Body)
	}
}
