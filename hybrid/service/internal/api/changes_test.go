package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed13b07268/ration/hybrid/rules"
	"github.com/seed13b07268/ration/hybrid/service/internal/api"
)

// TestEdit: a domain is made, read, changed, rolled back and deleted. Each change has a version, a
// reason, an author and differences.
func TestEdit(t *testing.T) {
	s := newService(t)
	const at, first = "/v1/domains/cafe", "domain: cafe\n"
	s.do(t, "ann", "GET", at, "", http.StatusNotFound)
	got := s.do(t, "ann", "PUT", at+"?reason=open", first, http.StatusOK, "If-None-Match", "*")
	if got.Header().Get("ETag") != `"1"` || got.at("revision", "version") != "1" ||
		got.at("revision", "author") != "ann" || got.at("revision", "reason") != "open" ||
		got.at("differences", 0, "is") != "domain" || got.at("dry_run") != "false" {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	second := `{"text": "domain: cafe\ndescriptors:\n- {key: user, rate_limit: ` +
		`{unit: minute, requests_per_unit: 5}}\n", "reason": "limits"}`
	got = s.do(t, "ann", "PUT", at, second, http.StatusOK, "If-Match", `"1"`)
	if got.at("revision", "version") != "2" || got.at("differences", 0, "path") != "user" ||
		got.at("differences", 0, "was") != "" || got.at("differences", 0, "is") != "5/minute" {
		t.Error(got.Body)
	}
	if got.at("notes") != "[]" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "PUT", at+"?dry-run=true", "domain: cafe\ndescriptors: "+
		"[{key: k, value_to_metric: true}]", http.StatusOK, "Content-Type", "application/yaml")
	if !strings.HasPrefix(got.at("notes", 0), "cafe:2:41: descriptors[0].value_to_metric: ") {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "GET", at, "", http.StatusOK)
	if got.Header().Get("ETag") != `"2"` || got.at("version") != "2" ||
		!strings.HasPrefix(got.at("text"), "domain: cafe\ndescriptors") {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	got = s.do(t, "ann", "GET", at+"?version=1", "", http.StatusOK, "Accept", "application/yaml")
	if got.Header().Get("ETag") != `"1"` || got.Body.String() != first {
		t.Errorf("%v %s", got.Header(), got.Body)
	}
	s.do(t, "ann", "GET", at+"?version=3", "", http.StatusNotFound)
	got = s.do(t, "ann", "POST", at+"/rollback", `{"version": 1, "reason": "back"}`, http.StatusOK,
		"If-Match", `"2"`)
	if got.at("revision", "version") != "3" || got.at("differences", 0, "was") != "5/minute" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "DELETE", at+"?reason=closed", "", http.StatusOK, "If-Match", `"3"`)
	if got.at("revision", "deleted") != "true" {
		t.Error(got.Body)
	}
	s.do(t, "ann", "GET", at, "", http.StatusNotFound)
	s.do(t, "ann", "GET", at+"?version=4", "", http.StatusNotFound)
	s.do(t, "ann", "DELETE", at+"?reason=again", "", http.StatusNotFound, "If-Match", `"4"`)
	got = s.do(t, "ann", "GET", at+"/history", "", http.StatusOK)
	if got.at("revisions", 0, "version") != "4" || got.at("revisions", 3, "reason") != "open" ||
		got.at("revisions", 4) != "<nil>" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "GET", at+"/history?before=3&n=1", "", http.StatusOK)
	if got.at("revisions", 0, "version") != "2" || got.at("revisions", 1) != "<nil>" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "PUT", at+"?reason=open", first, http.StatusOK, "If-None-Match", "*")
	if got.at("revision", "version") != "5" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "POST", at+"/rollback", `{"version": 4, "reason": "r"}`, http.StatusOK,
		"If-Match", `"5"`)
	if got.at("revision", "deleted") != "true" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "GET", "/v1/domains", "", http.StatusOK)
	if got.at("domains") != "[map[domain:shop version:1]]" {
		t.Error(got.Body)
	}
}

// TestOwners: one who may edit a domain neither makes nor deletes it, by whatever verb, and each
// change that is made is told once.
func TestOwners(t *testing.T) {
	s := newService(t)
	const at, text = "/v1/domains/cafe", "domain: cafe\n"
	make := func(who string, code int, match ...string) {
		t.Helper()
		s.do(t, who, "PUT", at+"?reason=r", text, code, match...)
	}
	make("edd", http.StatusForbidden, "If-None-Match", "*")
	make("ann", http.StatusOK, "If-None-Match", "*")
	make("edd", http.StatusOK, "If-Match", `"1"`)
	make("edd", http.StatusForbidden, "If-None-Match", "*") // and not which version is there
	s.do(t, "edd", "DELETE", at+"?reason=r", "", http.StatusForbidden, "If-Match", `"1"`)
	s.do(t, "edd", "DELETE", at+"?reason=r", "", http.StatusForbidden, "If-Match", `"2"`)
	s.do(t, "ann", "DELETE", at+"?reason=r", "", http.StatusOK, "If-Match", `"2"`)
	make("edd", http.StatusForbidden, "If-None-Match", "*")
	make("edd", http.StatusForbidden, "If-Match", `"3"`)
	back := `{"version": 1, "reason": "back"}`
	s.do(t, "edd", "POST", at+"/rollback", back, http.StatusForbidden, "If-Match", `"3"`)
	s.do(t, "ann", "POST", at+"/rollback", back, http.StatusOK, "If-Match", `"3"`)
	back = `{"version": 3, "reason": "back"}`
	s.do(t, "edd", "POST", at+"/rollback", back, http.StatusForbidden, "If-Match", `"4"`)
	if want := []string{"1 ann", "2 edd", "3 ann", "4 ann"}; !slices.Equal(s.told, want) {
		t.Errorf("changes that were told: %q", s.told)
	}
}

// TestBlank: nobody can read a reason of spaces, which the page refuses, too.
func TestBlank(t *testing.T) {
	s := newService(t)
	const at, text = "/v1/domains/cafe", "domain: cafe\n"
	got := s.do(t, "ann", "PUT", at+"?reason=%20%20", text, http.StatusBadRequest,
		"If-None-Match", "*")
	if got.at("field") != "reason" || got.at("detail") != "reason: the reason is missing" {
		t.Errorf("%s: %s", got.at("field"), got.at("detail"))
	}
}

// TestInForce: what was saved limits soon.
func TestInForce(t *testing.T) {
	s := newService(t)
	s.do(t, "ann", "PUT", "/v1/domains/shop/rules?path=user%3Dmallory&reason=attack",
		"rate_limit: {unit: day, requests_per_unit: 0}\n", http.StatusOK, "If-Match", `"1"`)
	within(t, "the denial", func() bool {
		got := s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "mallory"), http.StatusOK)
		return got.at("allowed") == "false" && got.at("each", 0, "limit", "text") == "blocked"
	})
}

// TestRules: one rule is made, replaced and deleted. The rest of the text stays.
func TestRules(t *testing.T) {
	s := newService(t)
	at := "/v1/domains/shop/rules?path=path%3D/up%2A&reason=r"
	got := s.do(t, "ann", "PUT", at, "rate_limit: {unit: minute, requests_per_unit: 5}\n",
		http.StatusOK, "If-Match", `"1"`)
	if got.at("differences", 0, "path") != "path=/up*" ||
		got.at("differences", 0, "is") != "5/minute" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "PUT", "/v1/domains/shop/rules?path=path%3D/up%2A",
		`{"text": "rate_limit: {unit: minute, requests_per_unit: 6}", "reason": "more"}`,
		http.StatusOK, "If-Match", `"2"`)
	if got.at("differences", 0, "was") != "5/minute" || got.at("differences", 0, "is") != "6/minute" {
		t.Error(got.Body)
	}
	// The same request again, as if its answer were lost, makes no other change.
	again := s.do(t, "ann", "PUT", "/v1/domains/shop/rules?path=path%3D/up%2A",
		`{"text": "rate_limit: {unit: minute, requests_per_unit: 6}", "reason": "more"}`,
		http.StatusOK, "If-Match", `"2"`)
	if again.at("revision", "version") != "3" {
		t.Error(again.Body)
	}
	got = s.do(t, "ann", "DELETE", at, "", http.StatusOK, "If-Match", `"3"`)
	if got.at("differences", 0, "is") != "" {
		t.Error(got.Body)
	}
	got = s.do(t, "ann", "GET", "/v1/domains/shop", "", http.StatusOK)
	if !strings.Contains(got.at("text"), "# each user") || strings.Contains(got.at("text"), "up*") {
		t.Error(got.Body)
	}
	for _, wrong := range []struct {
		method, path, body string
		status             int
		field              string
	}{
		{"DELETE", "user%3Dnobody", "", http.StatusNotFound, "path"},
		{"DELETE", "", "", http.StatusBadRequest, "path"},
		{"PUT", "%22", "rate_limit: {}\n", http.StatusBadRequest, "path"},
		{"PUT", "user", "rate_limit: {unit: minute}\n", http.StatusUnprocessableEntity, "<nil>"},
		{"PUT", "user", "- x\n", http.StatusUnprocessableEntity, "<nil>"},
		{"PUT", "user", "key: user\nrate_limit: {unlimited: true}\n",
			http.StatusUnprocessableEntity, "<nil>"},
	} {
		got := s.do(t, "ann", wrong.method, "/v1/domains/shop/rules?reason=r&path="+wrong.path,
			wrong.body, wrong.status, "If-Match", `"4"`)
		if got.at("field") != wrong.field {
			t.Errorf("%v: %s", wrong, got.Body)
		}
	}
	s.do(t, "ann", "PUT", "/v1/domains/nowhere/rules?path=user&reason=r",
		"rate_limit: {unlimited: true}\n", http.StatusNotFound, "If-Match", `"1"`)
	if list, err := s.book.History(t.Context(), "shop", 0, 10); err != nil || len(list) != 4 {
		t.Errorf("%d revisions, %v", len(list), err)
	}
}

// TestMistakes: a text with mistakes is not saved, and each is told with its place.
func TestMistakes(t *testing.T) {
	s := newService(t)
	const text = "domain: shop\ndescriptors:\n- key: user\n" +
		"  rate_limit: {unit: mintue, requests_per_unit: 5}\n- colour: red\n"
	for _, dry := range []string{"", "&dry-run=true"} {
		got := s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r"+dry, text,
			http.StatusUnprocessableEntity, "If-Match", `"1"`)
		if got.at("mistakes", 0, "line") != "4" || got.at("mistakes", 0, "column") != "22" ||
			got.at("mistakes", 0, "path") != "descriptors[0].rate_limit.unit" ||
			!strings.Contains(got.at("mistakes", 0, "text"), `"mintue"`) ||
			got.at("mistakes", 1, "line") != "5" {
			t.Error(got.Body)
		}
	}
	for _, text := range []string{"domain: cafe\n", "x", "domain: [", "#"} {
		got := s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", text,
			http.StatusUnprocessableEntity, "If-Match", `"1"`)
		if got.at("mistakes", 0, "text") == "<nil>" {
			t.Error(got.Body)
		}
	}
	got := s.do(t, "ann", "GET", "/v1/domains/shop", "", http.StatusOK)
	if got.at("version") != "1" {
		t.Error(got.Body)
	}
}

// TestDryRun: it tells the differences, and changes nothing.
func TestDryRun(t *testing.T) {
	s := newService(t)
	limit := "rate_limit: {unit: minute, requests_per_unit: 7}\n"
	for _, c := range []struct {
		method, target, body, is string
		headers                  []string
	}{
		{"PUT", "?dry-run=true", strings.Replace(shop, "unit: 2}", "unit: 4}", 1), "4/hour", nil},
		{"DELETE", "?dry-run=true", "", "", []string{"If-Match", `"1"`}},
		{"PUT", "/rules?dry-run=true&path=address", limit, "7/minute", nil},
		{"DELETE", "/rules?dry-run=true&path=address", "", "", nil},
	} {
		got := s.do(t, "ann", c.method, "/v1/domains/shop"+c.target, c.body, http.StatusOK, c.headers...)
		if got.at("dry_run") != "true" || got.at("revision") != "<nil>" ||
			got.Header().Get("ETag") != "" || got.at("differences", 0, "is") != c.is {
			t.Errorf("%v: %s", c, got.Body)
		}
	}
	got := s.do(t, "ann", "POST", "/v1/domains/shop/rollback?dry-run=true", `{"version": 1}`,
		http.StatusOK)
	if got.at("differences") != "[]" {
		t.Error(got.Body)
	}
	s.do(t, "ann", "PUT", "/v1/domains/cafe?dry-run=true", "domain: cafe\n", http.StatusOK)
	s.do(t, "ann", "GET", "/v1/domains/cafe", "", http.StatusNotFound)
	s.do(t, "ann", "PUT", "/v1/domains/shop?dry-run=true", shop, http.StatusPreconditionFailed,
		"If-Match", `"2"`)
	s.do(t, "eve", "PUT", "/v1/domains/shop?dry-run=true", shop, http.StatusForbidden)
	got = s.do(t, "ann", "PUT", "/v1/domains/shop?dry-run=yes", shop, http.StatusBadRequest)
	if got.at("field") != "dry-run" {
		t.Error(got.Body)
	}
	list, err := s.book.History(t.Context(), "shop", 0, 10)
	if err != nil || len(list) != 1 {
		t.Errorf("%d revisions, %v", len(list), err)
	}
}

// TestConditions: a change says which version its author has seen. One who was slower hears of the
// newest one, and changes nothing.
func TestConditions(t *testing.T) {
	s := newService(t)
	const at = "/v1/domains/shop?reason=r"
	changed := strings.Replace(shop, "unit: 2}", "unit: 4}", 1)
	got := s.do(t, "ann", "PUT", at, changed, http.StatusPreconditionRequired)
	if got.at("field") != "If-Match" {
		t.Error(got.Body)
	}
	for _, wrong := range []string{"1", `W/"1"`, "*", `"0"`, `"x"`, `"01"`, `"+1"`, `"1", "2"`, `'1'`,
		`"99999999999999999"`} {
		got := s.do(t, "ann", "PUT", at, changed, http.StatusBadRequest, "If-Match", wrong)
		if got.at("field") != "If-Match" || got.at("value") != wrong {
			t.Errorf("%s: %s", wrong, got.Body)
		}
	}
	s.do(t, "ann", "PUT", at, changed, http.StatusBadRequest, "If-None-Match", `"1"`)
	s.do(t, "ann", "PUT", at, changed, http.StatusBadRequest, "If-None-Match", "*", "If-Match", `"1"`)
	s.do(t, "ann", "PUT", at, changed, http.StatusPreconditionFailed, "If-None-Match", "*")
	s.do(t, "ann", "PUT", at, changed, http.StatusOK, "If-Match", `"1"`)
	for _, r := range []struct{ method, target, body string }{
		{"PUT", "?reason=slow", shop},
		{"DELETE", "?reason=slow", ""},
		{"POST", "/rollback", `{"version": 1, "reason": "slow"}`},
		{"PUT", "/rules?reason=slow&path=user", "rate_limit: {unlimited: true}\n"},
		{"DELETE", "/rules?reason=slow&path=user", ""},
	} {
		for _, version := range []string{`"1"`, `"77"`} {
			got := s.do(t, "ann", r.method, "/v1/domains/shop"+r.target, r.body,
				http.StatusPreconditionFailed, "If-Match", version)
			if got.at("newest", "version") != "2" || got.at("newest", "author") != "ann" {
				t.Errorf("%v %s: %s", r, version, got.Body)
			}
		}
	}
	s.do(t, "ann", "GET", "/v1/domains/shop?version=3", "", http.StatusNotFound)
	for _, dry := range []string{"", "&dry-run=true"} { // nobody can have seen a version
		s.do(t, "ann", "PUT", "/v1/domains/cafe?reason=r"+dry, "domain: cafe\n", http.StatusNotFound,
			"If-Match", `"1"`)
	}
}

// TestFasterEditor: of many who change one version at the same time, one does.
func TestFasterEditor(t *testing.T) {
	s := newService(t)
	var all sync.WaitGroup
	var made atomic.Int32
	for i := range 8 {
		all.Go(func() {
			code := http.StatusServiceUnavailable
			for code == http.StatusServiceUnavailable { // too many at once, on a busy machine
				r := request("ann", "PUT", "/v1/domains/shop/rules?path=user&reason=r",
					fmt.Sprintf("rate_limit: {unit: minute, requests_per_unit: %d}\n", i+1))
				r.Header.Set("If-Match", `"1"`)
				code = serve(s, r).Code
			}
			if code == http.StatusOK {
				made.Add(1)
			} else if code != http.StatusPreconditionFailed {
				t.Errorf("status %d", code)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("%d changes were made", made.Load())
	}
}

// TestReasons: a change without a reason, or with a wrong one, is not made.
func TestReasons(t *testing.T) {
	s := newService(t)
	for _, r := range []struct{ method, target, body string }{
		{"PUT", "", shop},
		{"PUT", "?reason=", shop},
		{"PUT", "?reason=%ff", shop},
		{"PUT", "?reason=a%00", shop},
		{"PUT", "?reason=two%0Alines", shop},
		{"PUT", "?reason=%C2%85", shop},
		{"PUT", "", `{"text": "domain: shop\n", "reason": "\u001b[31m"}`},
		{"PUT", "?reason=" + strings.Repeat("a", 4097), shop},
		{"PUT", "", `{"text": "domain: shop\n"}`},
		{"PUT", "", `{"text": "domain: shop\n", "reason": ""}`},
		{"PUT", "?reason=r", `{"text": "domain: shop\n", "reason": "r"}`},
		{"DELETE", "", ""},
		{"POST", "/rollback", `{"version": 1}`},
	} {
		got := s.do(t, "ann", r.method, "/v1/domains/shop"+r.target, r.body, http.StatusBadRequest,
			"If-Match", `"1"`)
		if got.at("field") != "reason" {
			t.Errorf("%.100v: %s", r, got.Body)
		}
	}
	s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", "", http.StatusBadRequest, "If-Match", `"1"`,
		"Content-Type", "application/yaml")
	s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", `{"text": ""}`, http.StatusBadRequest,
		"If-Match", `"1"`)
	s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", shop, http.StatusUnsupportedMediaType,
		"If-Match", `"1"`, "Content-Type", "text/plain")
}

// TestAccept: YAML is for those who rank it above JSON.
func TestAccept(t *testing.T) {
	s := newService(t)
	for accept, kind := range map[string]string{
		"":                 "application/json",
		"*/*":              "application/json",
		"application/yaml": "application/yaml",
		"application/yaml;q=0.5, application/json":        "application/json",
		"application/yaml, application/json;q=0.5":        "application/yaml",
		"application/yaml;q=x":                            "application/json",
		"text/html, application/yaml;q=0.8, ;, image/png": "application/yaml",
	} {
		got := s.do(t, "eve", "GET", "/v1/domains/shop", "", http.StatusOK, "Accept", accept)
		if got.Header().Get("Content-Type") != kind || got.Header().Get("Vary") != "Accept" {
			t.Errorf("%q: %v", accept, got.Header())
		}
	}
}

// TestReadOnly: without a book the rules in force are used, and neither shown as texts nor changed.
func TestReadOnly(t *testing.T) {
	s := newService(t)
	s.Handler = api.New(s.limiter, nil, auth, api.Config{Log: quiet})
	got := s.do(t, "eve", "GET", "/v1/domains", "", http.StatusOK)
	if got.at("read_only") != "true" || got.at("domains") != "[map[domain:shop]]" {
		t.Error(got.Body)
	}
	s.do(t, "eve", "POST", "/v1/take", one("shop", "user", "x"), http.StatusOK)
	_, err := rules.SetBan(t.Context(), s.book, "shop", rules.Ban{
		Entries: rules.Of("user", "ann").Entries, Until: time.Now().Add(time.Hour), Reason: "abuse",
		Author: "edd",
	})
	must(t, err)
	within(t, "the ban", func() bool {
		got = s.do(t, "eve", "GET", "/v1/domains/shop/bans", "", http.StatusOK)
		return got.at("bans", 0, "reason") == "abuse" && got.at("read_only") == "true"
	})
	for _, r := range []struct{ method, target, body string }{
		{"GET", "", ""}, {"PUT", "", shop}, {"DELETE", "", ""}, {"GET", "/history", ""},
		{"POST", "/rollback", `{"version": 1}`}, {"PUT", "/rules", "x"}, {"DELETE", "/rules", ""},
		{"PUT", "/bans?descriptor=user%3Dann", order("abuse")},
		{"DELETE", "/bans?descriptor=user%3Dann&reason=r", ""},
	} {
		got := s.do(t, "ann", r.method, "/v1/domains/shop"+r.target, r.body, http.StatusConflict)
		if !strings.Contains(got.detail(), "read only") {
			t.Error(got.Body)
		}
	}
}

// A brokenBook fails.
type brokenBook struct{ rules.Book }

var errBroken = errors.New("secret: the database is away")

func (brokenBook) Load(context.Context) ([]rules.Document, string, error) {
	return nil, "", errBroken
}

func (brokenBook) History(context.Context, string, int64, int) ([]rules.Revision, error) {
	return nil, errBroken
}

func (brokenBook) Save(context.Context, rules.Change) (rules.Revision, error) {
	return rules.Revision{}, errBroken
}

// TestBrokenBook: a database that is gone is 503, and what it says stays inside.
func TestBrokenBook(t *testing.T) {
	s := newService(t)
	s.Handler = api.New(s.limiter, brokenBook{s.book}, auth, api.Config{Log: quiet})
	for _, r := range []struct{ method, target, body string }{
		{"GET", "", ""}, {"GET", "/shop", ""}, {"GET", "/shop/history", ""},
		{"PUT", "/shop?reason=r", shop}, {"DELETE", "/shop?reason=r", ""},
		{"PUT", "/shop?dry-run=true", shop},
		{"POST", "/shop/rollback", `{"version": 1, "reason": "r"}`},
		{"PUT", "/shop/rules?path=user&reason=r", "rate_limit: {unlimited: true}\n"},
		{"DELETE", "/shop/rules?path=user&reason=r", ""},
	} {
		got := s.do(t, "ann", r.method, "/v1/domains"+r.target, r.body, http.StatusServiceUnavailable,
			"If-Match", `"1"`)
		if got.Header().Get("Retry-After") != "1" || strings.Contains(got.Body.String(), "secret") {
			t.Errorf("%v: %v %s", r, got.Header(), got.Body)
		}
	}
}

// TestOddDomains: the name of a domain may be almost any text, also where a mux stands before the
// API.
func TestOddDomains(t *testing.T) {
	s := newService(t)
	mux := http.NewServeMux()
	mux.Handle("/v1/", s.Handler)
	s.Handler = mux
	for escaped, name := range map[string]string{
		"a%2Fb": "a/b", "a%2F%2Fb": "a//b", "%2E%2E%2E": "...", "%C3%A9%20%25": "é %", "rules": "rules",
		"%7Bdomain%7D": "{domain}",
	} {
		text := fmt.Sprintf("domain: %q\n", name)
		got := s.do(t, "ann", "PUT", "/v1/domains/"+escaped+"?reason=r", text, http.StatusOK,
			"If-None-Match", "*")
		if got.at("domain") != name {
			t.Error(got.Body)
		}
		s.do(t, "ann", "GET", "/v1/domains/"+escaped, "", http.StatusOK)
		s.do(t, "ann", "GET", "/v1/domains/"+escaped+"/history", "", http.StatusOK)
	}
}

// TestLongHistory: it is read in parts, and told whole.
func TestLongHistory(t *testing.T) {
	s := newService(t)
	for base := int64(1); base < 25; base++ {
		_, err := s.book.Save(t.Context(), rules.Change{
			Domain: "shop", Base: base, Text: []byte(shop), Author: "ann", Reason: "r",
		})
		must(t, err)
	}
	for _, c := range []struct {
		query       string
		first, last int
	}{
		{"", 25, 6}, {"?n=100", 25, 1}, {"?n=25", 25, 1}, {"?n=11&before=25", 24, 14},
		{"?before=2", 1, 1},
	} {
		got := s.do(t, "eve", "GET", "/v1/domains/shop/history"+c.query, "", http.StatusOK)
		list, _ := got.body["revisions"].([]any)
		if len(list) != c.first-c.last+1 {
			t.Fatalf("%s: %d revisions", c.query, len(list))
		}
		for i := range list {
			if got.at("revisions", i, "version") != fmt.Sprint(c.first-i) {
				t.Errorf("%s: %s", c.query, got.Body)
			}
		}
	}
	got := s.do(t, "eve", "GET", "/v1/domains/shop/history?before=1", "", http.StatusOK)
	if got.at("revisions") != "[]" {
		t.Error(got.Body)
	}
	for _, wrong := range []string{"n=0", "n=101", "n=x", "before=0", "before=-1", "n="} {
		s.do(t, "eve", "GET", "/v1/domains/shop/history?"+wrong, "", http.StatusBadRequest)
	}
}

// TestNames: some names are no names of a domain. One that has it already can be seen and deleted.
func TestNames(t *testing.T) {
	s := newService(t)
	for name, path := range map[string]string{
		"*": "%2A", ".": "%2E", "..": "%2E%2E", "a\nb": "a%0Ab", "\u0085": "%C2%85",
	} {
		text := fmt.Sprintf("domain: %q\ndescriptors: []\n", name)
		at := "/v1/domains/" + path
		got := s.do(t, "ann", "PUT", at+"?reason=r", text, http.StatusBadRequest, "If-None-Match", "*")
		if got.at("field") != "domain" || got.at("value") != name {
			t.Errorf("%q: %s", name, got.Body)
		}
		s.do(t, "ann", "PUT", at+"?dry-run=true", text, http.StatusBadRequest)
		_, _, err := rules.Save(t.Context(), s.book, rules.Change{
			Domain: name, Author: "test", Reason: "before", Text: []byte(text),
		})
		must(t, err)
		s.do(t, "ann", "GET", at, "", http.StatusOK)
		s.do(t, "ann", "DELETE", at+"?reason=r", "", http.StatusOK, "If-Match", `"1"`)
	}
}

// TestManyMistakes: those that are not told one by one are counted.
func TestManyMistakes(t *testing.T) {
	s := newService(t)
	text := "domain: shop\n" + strings.Repeat("wrong: 1\n", 25)
	for i := range 25 {
		text = strings.Replace(text, "wrong:", fmt.Sprintf("wrong%d:", i), 1)
	}
	got := s.do(t, "ann", "PUT", "/v1/domains/shop?reason=r", text, http.StatusUnprocessableEntity,
		"If-Match", `"1"`)
	if got.at("mistakes", 19, "line") != "21" || got.at("mistakes", 20, "line") != "0" ||
		!strings.Contains(got.at("mistakes", 20, "text"), "5 more") {
		t.Error(got.Body)
	}
}
